"""Exercises of lesson 13: nonlinear heads."""

import numpy as np
from scipy.special import ndtr

from course.check.specification import Exercise, known


def _head(x, V):
    u = 4 * x @ V.T
    return (u * ndtr(u)).sum(axis=-1)


def _gradient(x, V):
    u = 4 * x @ V.T
    return 4 * (ndtr(u) + u * np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)) @ V


def _units(rng, *shape):
    x = rng.normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _convex_head(rng, hidden, d):
    """V with |4 V_k.x| below sqrt(2) for unit x: gelu(4 V x) is convex there."""
    V = _units(rng, hidden, d)
    return V * rng.uniform(0.2, 0.34, size=(hidden, 1))


# --------------------------------------------------------------------------- 13.1 does a mixture win
def _mixes_by(
    near=lambda x, V: _gradient(x, V), sides=(1, -1), combine=np.logical_and, label=lambda y: y, along=None
):
    def answer(Xa, Xb, V, y):
        across = Xa - Xb if along is None else along(Xa, Xb)
        from_b = sides[0] * label(y) * (near(Xb, V) * across).sum(axis=1)
        from_a = sides[1] * label(y) * (near(Xa, V) * across).sum(axis=1)
        return combine(from_a > 0, from_b > 0)

    return answer


_mixes = _mixes_by()


def _mixes_cases(rng):
    """200 pairs each; for y = +1 a head so large that gelu bends down here and there."""
    cases = []
    for y, d, size in ((-1.0, 3, 1.0), (1.0, 2, 2.0), (-1.0, 5, 0.8)):
        V = size * rng.normal(size=(d, d)) / d
        cases.append((_units(rng, 200, d), _units(rng, 200, d) * rng.uniform(0.5, 1.5), V, y))
    return cases


MIXES = Exercise(
    id="13.1",
    title="Does a mixture win?",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_mixes,
    cases=_mixes_cases,
    misconceptions=known(
        _mixes_by(label=lambda y: 1),
        "The label is missing: what should rise is y f, so a head that falls is good for y = -1.",
        _mixes_by(label=lambda y: -y),
        "The sign is the wrong way round: with y = -1 it is -f that should rise.",
        _mixes_by(sides=(1, 1)),
        "From x_a the way inwards leads towards x_b: its direction is x_b - x_a, the other sign.",
        _mixes_by(combine=np.logical_or),
        "One end that gains is not enough: then the other end may be the best point. Both have to gain.",
        _mixes_by(combine=lambda a, b: b),
        "You looked from x_b only. From x_a the first step inwards has to gain as well.",
        _mixes_by(combine=lambda a, b: a),
        "You looked from x_a only. From x_b the first step inwards has to gain as well.",
        lambda Xa, Xb, V, y: y * _head((Xa + Xb) / 2, V) > y * np.maximum(_head(Xa, V), _head(Xb, V)),
        "The middle of the edge says nothing sure: the best share may be 90 : 10. Look at the two slopes.",
    ),
)


# --------------------------------------------------------------------------- 13.2 a ceiling
def _ceiling_by(
    tangent=lambda middle, X, V: ((middle - X) @ _gradient(middle, V)).max(),
    height=lambda middle, X, V: -_head(middle, V),
    convex=lambda s, X, V: _head(X, V).max(),
):
    def answer(s, X, V, y):
        if y > 0:
            return convex(s, X, V)
        middle = s @ X
        return height(middle, X, V) + tangent(middle, X, V)

    return answer


_ceiling = _ceiling_by()


def _ceiling_cases(rng):
    cases = []
    for y, T, d in ((-1.0, 3, 2), (1.0, 4, 3), (-1.0, 5, 4)):
        while True:  # y = -1: the plane's largest rise beats its largest fall, then it does not
            s, X, V = rng.dirichlet(np.ones(T)), _units(rng, T, d), _convex_head(rng, d + 1, d)
            slopes = (s @ X - X) @ _gradient(s @ X, V)
            rise, fall = slopes.max(), -slopes.min()
            if y > 0 or (rise > 1.1 * fall > 0.002 if T == 3 else fall > 1.1 * rise > 0.002):
                break
        cases.append((s, X, V, y))
    return cases


CEILING = Exercise(
    id="13.2",
    title="A ceiling for all mixtures",
    points=4,
    minutes=12,
    difficulty=3,
    reference=_ceiling,
    cases=_ceiling_cases,
    misconceptions=known(
        _ceiling_by(tangent=lambda m, X, V: 0.0),
        "That is y f at this mixture, a floor: others may be better. Add what the tangent plane can rise.",
        _ceiling_by(tangent=lambda m, X, V: np.abs((m - X) @ _gradient(m, V)).max()),
        "No absolute values: a token towards which the plane falls does not raise the ceiling.",
        _ceiling_by(tangent=lambda m, X, V: ((X - m) @ _gradient(m, V)).max()),
        "A sign: for y = -1 the plane falls along the gradient of f, so it rises by grad f . (xbar - x_t).",
        _ceiling_by(tangent=lambda m, X, V: ((m - X) @ _gradient(m, V)).min()),
        "You took the lowest corner of the plane. Its largest value on the hull is a ceiling.",
        _ceiling_by(tangent=lambda m, X, V: ((m - X) @ _gradient(m, V)).sum()),
        "The plane is largest at one corner: take the maximum over the tokens, not the sum.",
        _ceiling_by(height=lambda m, X, V: 0.0),
        "The height at the mixture itself is missing: the plane starts at -f(xbar).",
        _ceiling_by(height=lambda m, X, V: _head(m, V)),
        "For y = -1 the signed output is -f: the plane starts at -f(xbar).",
        _ceiling_by(convex=lambda s, X, V: _head(s @ X, V) + ((X - s @ X) @ _gradient(s @ X, V)).max()),
        "For y = +1 a convex f lies above its tangent planes, so they are no ceilings. Take the best token.",
        _ceiling_by(convex=lambda s, X, V: s @ _head(X, V)),
        "For y = +1 that bounds y f at this s only. For any mixture: the largest f of a token.",
        _ceiling_by(
            tangent=lambda m, X, V: (
                ((X.mean(axis=0) - X) @ _gradient(X.mean(axis=0), V)).max() - _head(X.mean(axis=0), V)
            ),
            height=lambda m, X, V: 0.0,
        ),
        "The tangent plane is the one at xbar = s X, not at the plain mean of the tokens.",
    ),
)


# --------------------------------------------------------------------------- 13.3 both parts
def _parts_by(
    ratio=lambda sa, sb: np.log(sa / sb),
    free=lambda out, e: out - (out @ e) / (e @ e) * e,
    scale=lambda free, out: free / (free @ free),
    shorten=lambda z: z / (z @ z),
    fin=lambda r, e: r * e / (e @ e),
):
    def answer(X, z, s):
        a, b = np.flatnonzero(s > 0)
        (t,) = np.flatnonzero(s == 0)
        e, out = X[a] - X[b], X[a] - X[t]
        part = free(out, e)
        return np.outer(fin(ratio(s[a], s[b]), e), shorten(z)), np.outer(scale(part, out), shorten(z))

    return answer


_parts = _parts_by()


def _parts_cases(rng):
    """The dropped token is the third, the first, the second; shares are far from equal."""
    cases = []
    for d, dropped in ((2, 2), (3, 0), (4, 1)):
        share = rng.uniform(0.1, 0.35)
        s = np.insert(rng.permutation([share, 1 - share]), dropped, 0.0)
        cases.append((rng.normal(size=(3, d)), rng.normal(size=d) * rng.uniform(1.3, 2), s))
    return cases


PARTS = Exercise(
    id="13.3",
    title="Both parts of one sequence",
    points=3,
    minutes=9,
    difficulty=2,
    reference=_parts,
    cases=_parts_cases,
    withheld=("mini_attn.svm.dispatch.solve", "mini_attn.mixtures.mixture_path"),
    misconceptions=known(
        lambda *args: _parts(*args)[::-1],
        "The two parts are swapped: W_fin first.",
        _parts_by(ratio=lambda sa, sb: np.log(sb / sa)),
        "The sign of W_fin: the logit of the token with the larger share must be the larger one.",
        _parts_by(ratio=lambda sa, sb: sa / sb),
        "Logits are logarithms: the difference of two of them is log(s_a / s_b).",
        _parts_by(free=lambda out, e: out),
        "This W_dir also moves the ratio of the kept tokens: take out what lies along x_a - x_b.",
        _parts_by(scale=lambda free, out: free / (out @ out)),
        "The lead is not 1: divide the free part by its own squared length.",
        _parts_by(scale=lambda free, out: free),
        "The lead of W_dir over the dropped token has to be 1: divide by the free part's squared length.",
        _parts_by(scale=lambda free, out: free / np.linalg.norm(free)),
        "Length one is not lead one: divide by the squared length.",
        _parts_by(shorten=lambda z: z),
        "The query counts twice in (x_a - x_b)^T c z^T z: divide by z.z.",
        _parts_by(shorten=lambda z: z / np.linalg.norm(z)),
        "Divide by z.z, the square of the query's length.",
        _parts_by(scale=lambda free, out: -free / (free @ free)),
        "W_dir points to the dropped token: its lead is x_a - x_t, with the kept token first.",
        _parts_by(fin=lambda r, e: r * e / np.linalg.norm(e)),
        "The shortest c with e.c = r is r e / (e.e): divide by the square of the length.",
    ),
)


# --------------------------------------------------------------------------- 13.4 reading
def _read_by(
    winner=lambda h0, h1: h1.argmax(axis=-1),
    rate=lambda fall, R0, R1: fall / (R1 - R0),
    unit=lambda N: N,
    edge=0.5,
):
    def answer(h0, h1, R0, R1, N):
        best = winner(h0, h1)[..., None]
        behind = [np.take_along_axis(h, best, axis=-1) - h for h in (h0, h1)]
        return rate(behind[1] - behind[0], R0, R1) * unit(N) < edge

    return answer


_read = _read_by()


def _by_threshold(low):
    def answer(h0, h1, R0, R1, N):
        s = np.exp(h1 - h1.max(axis=-1, keepdims=True))
        return s / s.sum(axis=-1, keepdims=True) > low

    return answer


def _read_cases(rng):
    """Kept tokens with little weight, dropped ones ahead of them; winners that change; common shifts."""
    cases = []
    for n, T, step in ((2, 4, 4.0), (3, 5, 0.3), (4, 4, 9.0)):
        R0, N = rng.uniform(12, 20), rng.uniform(2.5, 4)
        R1 = R0 + step
        kept = np.zeros((n, T), dtype=bool)
        leads = rng.uniform(1, 1.6, size=(n, T))
        leads[:, -1] = rng.uniform(2, 4, size=n)
        fixed = -rng.uniform(0, 2, size=(n, T))
        for i in range(n):
            order = rng.permutation(T - 1)
            kept[i, order[:2]] = True
            leads[i, order[:2]] = 0
            fixed[i, order[:2]] = 0, -rng.uniform(8, 11)  # weight below 1e-3
        fixed[~kept] += rng.uniform(0, 1, size=(~kept).sum())
        # the first sequence's winner is overtaken between the radii
        late = np.flatnonzero(~kept[0])[0]
        leads[0, late], leads[0, -1] = 1.0, 1.35
        fixed[0, late] = R0 / N + rng.uniform(0.65, 0.75) * (R1 - R0) / N
        noise = rng.uniform(-0.02, 0.02, size=(2, n, T)) * (R1 - R0) / N
        h = [fixed - leads * R / N + noise[k] for k, R in enumerate((R0, R1))]
        cases.append((h[0] + rng.normal(size=(n, 1)), h[1] + rng.normal(size=(n, 1)), R0, R1, N))
    return cases


READ = Exercise(
    id="13.4",
    title="Read the kept tokens",
    points=3,
    minutes=7,
    difficulty=2,
    reference=_read,
    cases=_read_cases,
    withheld=("mini_attn.mixtures.kept_tokens",),
    misconceptions=known(
        lambda *args: ~np.asarray(_read(*args)),
        "These are the dropped tokens: kept ones do not fall behind.",
        _by_threshold(1e-3),
        "That is a threshold on the attention: a kept token may have less than 1e-3. Compare the two radii.",
        _by_threshold(1e-6),
        "That is a threshold on the attention: a slow token is above 1e-6 and yet falls. Compare the radii.",
        _read_by(unit=lambda N: 1.0),
        "In which unit is the rate? Leads are 1 or more in units of 1/N: multiply the rate by N.",
        _read_by(unit=lambda N: 1 / N),
        "A dropped token falls by lead / N for a unit of R: multiply by N to find the lead.",
        _read_by(rate=lambda fall, R0, R1: fall),
        "That is the fall between the radii. The rate is for a unit of R: divide by R1 - R0.",
        _read_by(rate=lambda fall, R0, R1: fall / R1),
        "Divide by how far the radius has grown, R1 - R0, not by the radius.",
        lambda h0, h1, R0, R1, N: (h0 - h1) / (R1 - R0) * N < 0.5,
        "A logit alone means nothing: add a number to all logits and attention is the same. Subtract the "
        "winner's.",
        lambda h0, h1, R0, R1, N: (
            ((h1.max(-1, keepdims=True) - h1) - (h0.max(-1, keepdims=True) - h0)) / (R1 - R0) * N < 0.5
        ),
        "Compare with the same token at both radii, the winner at the larger one: here the leader changed.",
        _read_by(winner=lambda h0, h1: h0.argmax(axis=-1)),
        "The winner is the token ahead at the larger radius; here another one was ahead at the smaller.",
        _read_by(edge=1.2),
        "Dropped tokens have a rate times N of 1 or more: 1.2 lets some of them pass. Take 1/2.",
    ),
)


# --------------------------------------------------------------------------- 13.5 the clock
def _later(j, j0, R0, N):
    return R0 + N * np.log(j / j0)


CLOCK = Exercise(
    id="13.5",
    title="The bouncing clock",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_later,
    cases=lambda rng: [
        (j0 * rng.uniform(3, 50), j0, rng.uniform(10, 20), rng.uniform(2.2, 4))
        for j0 in (1000.0, 4000.0, 300.0)
    ],
    misconceptions=known(
        lambda j, j0, R0, N: R0 + np.log(j / j0) / N,
        "A lead of log j needs the length N log j: leads are the length divided by N.",
        lambda j, j0, R0, N: R0 + np.log(j / j0),
        "N is missing: a unit of lead takes N units of length.",
        lambda j, j0, R0, N: N * np.log(j),
        "You dropped the constant: at j = j0 the length is R0.",
        lambda j, j0, R0, N: R0 + N * np.log(j),
        "At j = j0 this is not R0: subtract the law at j0.",
        lambda j, j0, R0, N: R0 * np.log(j) / np.log(j0),
        "The law has a constant, so the length is not in proportion to log j: subtract, do not divide.",
        lambda j, j0, R0, N: R0 + 0.1 * (j - j0),
        "That is a run that does not bounce: all of each step would have to go along the valley.",
        lambda j, j0, R0, N: R0 * j / j0,
        "The length grows with the logarithm of the steps.",
        lambda j, j0, R0, N: R0 + N * np.log10(j / j0),
        "The logarithm is the natural one: np.log.",
        lambda j, j0, R0, N: R0 + N * np.log(j - j0),
        "log j - log j0 is log(j / j0), not log(j - j0).",
    ),
)

EXERCISES = [MIXES, CEILING, PARTS, READ, CLOCK]
