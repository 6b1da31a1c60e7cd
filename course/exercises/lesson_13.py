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


# --------------------------------------------------------------------------- 13.1 a ceiling
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
    for kept in (1, 2):  # a corner, an edge: the plane is highest at a token without weight
        while True:
            s, X, V = np.zeros(4), _units(rng, 4, 3), _convex_head(rng, 4, 3)
            s[rng.permutation(4)[:kept]] = rng.dirichlet(np.ones(kept))
            slopes = (s @ X - X) @ _gradient(s @ X, V)
            if slopes[s == 0].max() > slopes[s > 0].max() + 0.01:
                break
        cases.append((s, X, V, -1.0))
    return cases


CEILING = Exercise(
    id="13.1",
    title="A ceiling for all mixtures",
    points=3,
    minutes=10,
    difficulty=2,
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
        _ceiling_by(
            height=lambda m, X, V: _head(m, V), tangent=lambda m, X, V: ((X - m) @ _gradient(m, V)).max()
        ),
        "That is the tangent plane of f. For y = -1 the ceiling is on y f = -f: both terms change sign.",
        _ceiling_by(tangent=lambda m, X, V: ((m - X) @ _gradient(m, V)).sum()),
        "The plane is largest at one corner: take the maximum over the tokens, not the sum.",
        lambda s, X, V, y: _ceiling(s, X, V, y) if y > 0 else _ceiling(s[s > 0], X[s > 0], V, y),
        "A token without weight may be where the plane is highest: take the maximum over all tokens.",
        lambda s, X, V, y: (y * _head(X, V)).max(),
        "For y = -1 the best token is a floor, as mixtures may be better. Take the tangent plane's maximum.",
        _ceiling_by(tangent=lambda m, X, V: ((m - X) @ _gradient(m, V)).mean()),
        "The plane is largest at one corner: take the maximum over the tokens, not the mean.",
        _ceiling_by(tangent=lambda m, X, V: (-X @ _gradient(m, V)).max()),
        "The plane touches at xbar: what it rises towards x_t is -grad f . (x_t - xbar).",
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


# --------------------------------------------------------------------------- 13.2 both parts
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


def _with_a_lag(X, z, s, of=0):
    """W_fin with one condition too many: that the dropped token has no lag behind the kept one `of`."""
    kept, (t,) = np.flatnonzero(s > 0), np.flatnonzero(s == 0)
    rows = np.stack([X[kept[0]] - X[kept[1]], X[kept[of]] - X[t]])
    fin = np.linalg.pinv(rows) @ [np.log(s[kept[0]] / s[kept[1]]), 0.0]
    return np.outer(fin, z / (z @ z)), _parts(X, z, s)[1]


def _first_two(X, z, s):
    """As if the first two tokens were always kept."""
    e, out = X[0] - X[1], X[0] - X[2]
    free = out - (out @ e) / (e @ e) * e
    with np.errstate(divide="ignore", invalid="ignore"):
        fin = np.log(s[0] / s[1]) * e / (e @ e)
        return np.outer(fin, z / (z @ z)), np.outer(free / (free @ free), z / (z @ z))


def _from_the_middle(X, z, s, mixture=False):
    """W_dir along the mean of the kept tokens less the dropped one, as if that left their ratio alone."""
    a, b = np.flatnonzero(s > 0)
    (t,) = np.flatnonzero(s == 0)
    out = (s @ X if mixture else (X[a] + X[b]) / 2) - X[t]
    return _parts(X, z, s)[0], np.outer(out / (out @ out), z / (z @ z))


PARTS = Exercise(
    id="13.2",
    title="Both parts of one sequence",
    points=3,
    minutes=10,
    difficulty=2,
    reference=_parts,
    cases=_parts_cases,
    withheld=(
        "mini_attn.svm.dispatch.solve",
        "mini_attn.svm.rational.shortest",
        "mini_attn.mixtures.mixture_path",
    ),
    misconceptions=known(
        lambda *args: _parts(*args)[::-1],
        "The two parts are swapped: W_fin first.",
        lambda *args: tuple(W.T for W in _parts(*args)),
        "Transposed: in (x_a - x_b)^T W z the query is on the right, so that both parts are g z^T.",
        lambda *args: (_parts(*args)[0], _parts(*args)[1] / np.linalg.norm(_parts(*args)[1])),
        "W_dir is not of length 1: it is the shortest matrix with a lag of 1.",
        _parts_by(ratio=lambda sa, sb: np.log(sb / sa)),
        "The sign of W_fin: the logit of the token with the larger share must be the larger one.",
        _parts_by(ratio=lambda sa, sb: sa / sb),
        "Logits are logarithms: the difference of two of them is log(s_a / s_b).",
        _parts_by(free=lambda out, e: out),
        "This W_dir also moves the ratio of the kept tokens: take out what lies along x_a - x_b.",
        _parts_by(scale=lambda free, out: free / (out @ out)),
        "The lag is not 1: divide the free part by its own squared length.",
        _parts_by(scale=lambda free, out: free),
        "The lag of the dropped token under W_dir has to be 1: divide by the free part's squared length.",
        _parts_by(scale=lambda free, out: free / np.linalg.norm(free)),
        "Length one is not lag one: divide by the squared length.",
        _parts_by(shorten=lambda z: z),
        "The query counts twice in (x_a - x_b)^T g z^T z: divide by z.z.",
        _parts_by(shorten=lambda z: z / np.linalg.norm(z)),
        "Divide by z.z, the square of the query's length.",
        _parts_by(scale=lambda free, out: -free / (free @ free)),
        "W_dir points to the dropped token: the lag is of x_a - x_t, with the kept token first.",
        _parts_by(fin=lambda r, e: r * e / np.linalg.norm(e)),
        "The shortest c with e.c = r is r e / (e.e): divide by the square of the length.",
        _parts_by(ratio=lambda sa, sb: sa - sb),
        "Shares are e to the logits: W_fin asks for log s_a - log s_b, not for s_a - s_b.",
        _from_the_middle,
        "The way from the dropped token to the middle of the kept ones also moves their ratio: take out what "
        "lies along x_a - x_b.",
        lambda X, z, s: _from_the_middle(X, z, s, mixture=True),
        "The way from the dropped token to the mixture also moves the kept ratio: take out what lies along "
        "x_a - x_b.",
        _with_a_lag,
        "This W_fin also gives the dropped token the lag 0. Only the kept ratio is asked of it.",
        lambda X, z, s: _with_a_lag(X, z, s, of=1),
        "This W_fin also gives the dropped token the lag 0. Only the ratio of the kept two is asked of it.",
        _first_two,
        "The kept tokens are the two with s > 0, wherever they stand, not always the first two.",
    ),
)


# --------------------------------------------------------------------------- 13.3 the third part
def _third_by(
    tilt=lambda q, multipliers: np.log(q / multipliers),
    level=lambda a, multipliers: a - a.sum() / multipliers.sum() * multipliers,
    weights=lambda F, b: np.linalg.solve(F @ F.T, b),
    more=lambda F, multipliers: 0.0,
):
    def answer(F, q):
        multipliers = np.linalg.solve(F @ F.T, np.ones(len(F)))
        with np.errstate(all="ignore"):
            return level(weights(F, tilt(q, multipliers)), multipliers) @ F + more(F, multipliers)

    return answer


_third = _third_by()


def _third_cases(rng):
    """Two, three and four support tokens with unlike multipliers, all positive, and N far from 1."""
    cases = []
    for m, size in ((2, 3), (3, 5), (4, 7)):
        while True:
            F = rng.uniform(1.5, 2.5) * (rng.normal(size=(m, size)) + 0.4) / np.sqrt(size)
            G = F @ F.T
            multipliers = np.linalg.solve(G, np.ones(m))
            q = rng.uniform(0.1, 3, size=m)
            if np.linalg.cond(G) < 50 and multipliers.min() > 0.05 and abs(multipliers.sum() - 1) > 0.2:
                tilts = np.log(q / multipliers), np.log(q), np.log(multipliers)
                if multipliers.max() > 1.5 * multipliers.min() and min(np.ptp(A) for A in tilts) > 0.4:
                    break
        cases.append((F, q))
    return cases


def _without_square(F, q):
    """W_dir's share taken out as if W_dir had length 1."""
    w = _third_by(level=lambda a, multipliers: a)(F, q)
    w_dir = np.linalg.pinv(F) @ np.ones(len(F))
    return w - (w @ w_dir) * w_dir


THIRD = Exercise(
    id="13.3",
    title="The third part",
    points=4,
    minutes=30,
    difficulty=3,
    reference=_third,
    cases=_third_cases,
    misconceptions=known(
        _third_by(tilt=lambda q, m: np.log(m / q)),
        "A sign: a larger q_t needs a larger F_t.w.",
        _third_by(tilt=lambda q, m: np.log(q)),
        "That makes all terms equal. At the best w they are proportional to the multipliers of w_dir.",
        _third_by(tilt=lambda q, m: -np.log(m)),
        "The terms are q_t e^(-F_t.w): their factors q_t are missing.",
        _third_by(tilt=lambda q, m: np.log(q * m)),
        "Multiplied instead of divided: q_t e^(-F_t.w) is to be proportional to lambda_t.",
        _third_by(tilt=lambda q, m: q / m),
        "F_t.w is in an exponent: take the logarithm of q_t / lambda_t.",
        _third_by(level=lambda a, m: a),
        "This has a part along w_dir. That is in R / N w_dir already: w_3 is perpendicular to w_dir.",
        _third_by(level=lambda a, m: a - a.mean()),
        "Not perpendicular to w_dir: take out a multiple of w_dir, not the mean of the coefficients.",
        _third_by(
            tilt=lambda q, m: np.log(q / m) - np.log(q / m).mean(),
            level=lambda a, m: a,
        ),
        "The free constant is not the mean of the logarithms: w_3 perpendicular to w_dir decides it.",
        lambda F, q: _third_by(
            tilt=lambda q, m: np.log(q / m) - np.log(q / m) @ m / (m @ m) * m, level=lambda a, m: a
        )(F, q),
        "The free constant is the same for all tokens: take (sum of lambda_t log) / (sum of lambda_t) from "
        "each logarithm, not a multiple of lambda_t.",
        _third_by(level=lambda a, m: a - a.sum() / (m @ m) * m),
        "w_dir . w_dir is the sum of the multipliers, not of their squares.",
        _without_square,
        "The part of w along w_dir is (w.w_dir) / (w_dir.w_dir) w_dir: w_dir has not length 1.",
        _third_by(weights=lambda F, b: b),
        "The coefficients a of w_3 = F^T a are not the numbers F w_3: solve F F^T a = F w_3.",
        _third_by(more=lambda F, m: m @ F),
        "w_dir itself is added: return the bounded part alone.",
        lambda F, q: np.linalg.pinv(F) @ np.ones(len(F)),
        "That is w_dir. Return what w(R) differs by from R / N w_dir.",
        lambda F, q: np.zeros(F.shape[1]),
        "Not 0 with two support tokens or more: q decides how the lags differ by bounded numbers.",
    ),
)


# --------------------------------------------------------------------------- 13.4 when is it back
def _back_by(
    short=lambda s: 1 - s / 0.005, strength=lambda pull, K: -K * pull, when=lambda now, more: now + now * more
):
    def answer(pull, K, s, now):
        return when(now, short(s) / strength(pull, K))

    return answer


_back = _back_by()


def _back_cases(rng):
    """K far from 1, attention of a tenth to two thirds of 1/2 %, so that no part is small."""
    return [
        (-rng.uniform(0.1, 0.6), rng.uniform(*K), rng.uniform(0.1, 0.65) * 0.005, rng.uniform(1000, 5000))
        for K in ((1.5, 4.0), (0.2, 0.6), (2.0, 5.0))
    ]


def _power(rate):
    """As if the pull stayed: log attention grows by rate(K |pi|) for each unit of log time."""

    def answer(pull, K, s, now):
        with np.errstate(all="ignore"):
            return now * np.power(0.005 / s, 1 / np.float64(rate(-K * pull)))

    return answer


BACK = Exercise(
    id="13.4",
    title="When is it back?",
    points=3,
    minutes=10,
    difficulty=2,
    reference=_back,
    cases=_back_cases,
    misconceptions=known(
        _power(lambda strength: strength),
        "The pull does not stay: it grows with attention and with time. Follow 1 / r, with r = |pi| / tau.",
        _back_by(short=lambda s: 1.0),
        "That is when its attention would be without bound. It is back earlier, at 1/2 %.",
        _back_by(when=lambda now, more: now * more),
        "That is how many steps more. Return the step itself: add now.",
        _back_by(strength=lambda pull, K: K * pull),
        "A sign: pi is below 0, and the token comes back later than now.",
        _back_by(strength=lambda pull, K: -pull),
        "Its own K is missing: the lag falls by K |pi| per unit of log time.",
        _back_by(strength=lambda pull, K: -pull / K),
        "K times the pull, not the pull divided by K, moves the lag.",
        _back_by(strength=lambda pull, K: K * pull**2),
        "The pull counts once: 1 / r falls at the rate K, from now / |pi|.",
        _back_by(short=lambda s: 0.005 / s - 1),
        "1 / r falls linearly, r does not: when attention is 0.005, 1 / r is s / 0.005 of what it was.",
        _back_by(short=lambda s: np.log(0.005 / s)),
        "Attention does not grow like a power of time: r obeys dr/dtau = K r^2, not K r.",
        _back_by(short=lambda s: s / 0.005),
        "1 / r is to fall from the whole to s / 0.005 of it: by 1 - s / 0.005.",
        _back_by(short=lambda s: 1 - s / 0.5),
        "1/2 % is 0.005.",
        _back_by(short=lambda s: 1 - s / 0.05),
        "1/2 % is 0.005, not 0.05.",
        _back_by(when=lambda now, more: 1 + more),
        "That is in units of now: multiply by it.",
        _back_by(when=lambda now, more: now + more),
        "At the step now, r is |pi| / now: the time that 1 / r needs is in units of now.",
        _back_by(short=lambda s: 1 / s - 1 / 0.005),
        "r is |pi| / tau, not s: it begins at |pi| / now and is to grow by the factor 0.005 / s.",
        _back_by(short=lambda s: 1 / s - 1 / 0.005, when=lambda now, more: now + more),
        "r is |pi| / tau, not s itself: it begins at |pi| / now and is to grow by the factor 0.005 / s.",
        _power(lambda strength: strength - 1),
        "The pull does not stay, and attention is |pi| / tau: solve dr/dtau = K r^2 for r = |pi| / tau.",
        _power(lambda strength: strength + 1),
        "That is when |pi| would be larger by 0.005 / s, its rate of growth frozen. Attention follows "
        "r = |pi| / tau, and dr/dtau = K r^2.",
        lambda pull, K, s, now: now * np.exp((1 - s / 0.005) / (-K * pull)),
        "Time enters through pi = r tau: solve dr/dtau = K r^2, not an equation in log tau alone.",
        lambda pull, K, s, now: now,
        "It has less than 1/2 % at the step now: it takes longer.",
    ),
)


EXERCISES = [CEILING, PARTS, THIRD, BACK]
