"""Exercises of lesson 11: keys, queries and the nuclear norm."""

import numpy as np

from course.check.specification import Exercise, known


# --------------------------------------------------------------------------- 11.1 where it comes to rest
def _length_by(
    force=lambda slope, difference: slope[:, None] * difference / len(slope),
    lead=lambda force, lam, eps: np.log(force / (2 * eps * lam)),
    total=lambda lam, leads: (lam * leads).sum(),
):
    """An answer from the force of a comparison (but for s), the lead at rest, and how leads are combined."""

    def answer(lam, slope, difference, eps):
        tight = lam > 0
        with np.errstate(all="ignore"):
            forces = np.broadcast_to(force(slope, difference), lam.shape)[tight]
            return total(lam[tight], lead(forces, lam[tight], eps))

    return answer


def _length_at_rest(lam, slope, difference, eps):
    return _length_by()(lam, slope, difference, eps)


def _everything(lam, slope, difference, eps):
    """All comparisons, with 0 log 0 and logarithms of negative numbers."""
    with np.errstate(all="ignore"):
        return (lam * np.log(slope[:, None] * difference / len(slope) / (2 * eps * lam))).sum()


def _rest_cases(rng):
    """As many sequences as tokens in one case; differences of both signs where lambda is 0, in all."""
    cases = []
    for n, T, eps in ((3, 4, 1e-6), (3, 3, 2.0**-52), (4, 6, 1e-30), (6, 4, 0.003)):
        lam = rng.uniform(0.05, 1.5, size=(n, T)) * (rng.random((n, T)) < 0.5)
        lam[:, 1], lam[:, 0] = rng.uniform(0.05, 1.5, size=n), 0  # the selected token, and one that is tight
        lam[:2, 2], lam[0, 1] = 0, 3e-4  # little weight counts, too
        difference = np.where(lam > 0, rng.uniform(0.1, 2, size=(n, T)), rng.normal(size=(n, T)))
        difference[:, 0], difference[:2, 2] = 0, (0.5, -0.5)
        cases.append((lam, rng.uniform(0.15, 0.85, size=n), difference, eps))
    return cases


REST = Exercise(
    id="11.1",
    title="How long is W at rest?",
    points=3,
    minutes=10,
    difficulty=2,
    reference=_length_at_rest,
    cases=_rest_cases,
    misconceptions=known(
        _length_by(force=lambda slope, difference: slope[:, None] * difference),
        "The mean loss has a factor 1/n: each force is divided by the number of sequences.",
        _length_by(lead=lambda force, lam, eps: np.log(force / (eps * lam))),
        "The ridge's gradient is 2 eps K, so the force at rest is 2 eps lambda: a factor 2 is missing.",
        _length_by(lead=lambda force, lam, eps: np.log(force / (2 * eps))),
        "The force at rest is 2 eps lambda: each comparison's lambda belongs into the logarithm.",
        _length_by(lead=lambda force, lam, eps: -np.log(force / (2 * eps * lam))),
        "The sign: exp(-lead) = 2 eps lambda / (rest of the force), so a small eps means a large lead.",
        _length_by(lead=lambda force, lam, eps: np.log10(force / (2 * eps * lam))),
        "Leads are natural logarithms: the attention is exp(-lead).",
        _length_by(total=lambda lam, leads: leads.sum()),
        "||W||_* = <S, W> weighs each lead with its lambda; you added the leads themselves.",
        _length_by(total=lambda lam, leads: leads.min()),
        "That is the smallest lead. The nuclear norm is the sum of all leads, each times its lambda.",
        _length_by(total=lambda lam, leads: (lam * leads).sum() / lam.sum()),
        "That is the mean lead. <S, W> is the sum of lambda times lead, not divided by anything.",
        _length_by(total=lambda lam, leads: (lam * leads).mean()),
        "That is a mean over comparisons. <S, W> is a sum.",
        _everything,
        "0 log 0 is not a number, nor the logarithm of a negative difference: leave out what has lambda 0.",
        _length_by(force=lambda slope, difference: difference / len(slope)),
        "The slope of the loss is missing in the force.",
        _length_by(force=lambda slope, difference: slope[:, None] * np.ones_like(difference) / len(slope)),
        "The difference of scores is missing in the force.",
        _length_by(force=lambda slope, difference: slope[:, None] * difference / difference.size),
        "The loss is the mean over the n sequences, not over all their tokens.",
        _length_by(lead=lambda force, lam, eps: np.full(len(lam), np.log(1 / (2 * eps)))),
        "That is the same lead for all. Each force has its own slope, difference and lambda.",
        _length_by(total=lambda lam, leads: lam.sum() * leads.mean()),
        "Each lead counts with its own lambda: sum the products, do not multiply the sum by the mean lead.",
        _length_by(total=lambda lam, leads: lam.sum() * leads.min()),
        "Not all leads are as short as the shortest: sum each of them, times its lambda.",
        _length_by(lead=lambda force, lam, eps: np.log(force / (4 * eps * lam))),
        "The ridge eps (||K||^2 + ||Q||^2) has the gradient 2 eps K in K, and S = M / (2 eps): 2, not 4.",
    ),
)


# --------------------------------------------------------------------------- 11.2 another ridge
def _moved_by(
    t=lambda eps, other: np.log(eps / other),
    move=lambda W, W_nuc, t: W + t * W_nuc,
    norm=lambda W, V, W_nuc, t: np.linalg.norm(V, "nuc"),
    cosine=lambda W, V, W_nuc: (V * W_nuc).sum() / np.linalg.norm(V) / np.linalg.norm(W_nuc),
):
    """An answer from how much all leads grow, where W goes then, its norm, and a cosine."""

    def answer(W, W_nuc, eps, other):
        by = t(eps, other)
        with np.errstate(all="ignore"):
            V = move(W, W_nuc, by)
            return norm(W, V, W_nuc, by), cosine(W, V, W_nuc)

    return answer


def another_ridge(W, W_nuc, eps, other):
    """The nuclear norm of W at rest with the ridge `other`, and its cosine with W_nuc."""
    return _moved_by()(W, W_nuc, eps, other)


def orthogonal(rng, d):
    """d orthonormal columns."""
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def _ridge_cases(rng):
    """U H V' with positive definite H, also after the move; smaller and larger ridges, no symmetry in W."""
    cases = []
    for d, rank, eps, other in (
        (3, 2, 1e-6, 1e-9),
        (4, 2, 2.0**-52, 1e-30),
        (4, 3, 1e-12, 1e-8),
        (5, 2, 3e-16, 1e-16),
        (6, 3, 1e-20, 1e-7),
    ):
        left, right = orthogonal(rng, d)[:, :rank], orthogonal(rng, d)[:, :rank]
        mixed, extra = rng.normal(size=(2, rank, rank))
        shape = mixed @ mixed.T / rank + 0.5 * np.eye(rank)  # of W_nuc
        H = rng.uniform(0.9, 1.1) * np.log(1 / eps) * shape + 2 * extra @ extra.T
        cases.append((left @ H @ right.T, left @ shape @ right.T, eps, other))
    return cases


RIDGE = Exercise(
    id="11.2",
    title="Another ridge",
    points=3,
    minutes=10,
    difficulty=2,
    reference=another_ridge,
    cases=_ridge_cases,
    misconceptions=known(
        _moved_by(t=lambda eps, other: np.log(other / eps)),
        "The sign: a smaller ridge means longer leads, so they grow by log(eps / other).",
        _moved_by(t=lambda eps, other: np.log10(eps / other)),
        "Leads are natural logarithms: the attention is exp(-lead).",
        _moved_by(t=lambda eps, other: np.log(eps / other) / np.log(2)),
        "A logarithm to base 2: leads are natural ones.",
        _moved_by(t=lambda eps, other: np.log(eps / (2 * other))),
        "The factor 2 stands in both ridges and drops out: each lead grows by log(eps / other).",
        _moved_by(t=lambda eps, other: np.log(2 * eps / other)),
        "The factor 2 of 2 eps drops out of the difference: each lead grows by log(eps / other).",
        _moved_by(t=lambda eps, other: -np.log(other)),
        "That is how long the leads are, not by how much they grow: log(eps / other).",
        _moved_by(t=lambda eps, other: -np.log(2 * other)),
        "That is about the lead itself, not by how much it grows: log(eps / other).",
        _moved_by(t=lambda eps, other: np.log(other) / np.log(eps) - 1),
        "The leads grow by a number, log(eps / other), and W_nuc has leads 1: no ratio of logarithms.",
        _moved_by(t=lambda eps, other: eps / other),
        "The ridge's ratio stands in a logarithm: each lead is log(F / (2 eps lambda)).",
        _moved_by(move=lambda W, W_nuc, t: W, norm=lambda W, V, W_nuc, t: np.linalg.norm(W, "nuc")),
        "That is the rest with eps. With the other ridge all leads change by log(eps / other).",
        _moved_by(move=lambda W, W_nuc, t: W + t),
        "You added a number to the entries of W. Add a matrix whose leads are all equal.",
        _moved_by(move=lambda W, W_nuc, t: W + t * np.eye(len(W))),
        "The identity's leads are not 1. A matrix whose tight leads are all 1 is among what you are given.",
        _moved_by(move=lambda W, W_nuc, t: W + t * W / np.linalg.norm(W, "nuc")),
        "The leads of W are not equal: a longer W changes each by another number. Those of W_nuc are 1.",
        _moved_by(move=lambda W, W_nuc, t: W + t * W),
        "Not W itself: its leads differ, and would grow by different numbers. The leads of W_nuc are 1.",
        _moved_by(move=lambda W, W_nuc, t: t * W),
        "You multiplied W by the growth of the leads: add to W a matrix whose tight leads all grow by that.",
        _moved_by(move=lambda W, W_nuc, t: W + t * W_nuc / np.linalg.norm(W_nuc)),
        "W_nuc itself has leads 1: do not normalise it.",
        _moved_by(move=lambda W, W_nuc, t: W + t * W_nuc / np.linalg.norm(W_nuc, "nuc")),
        "Not divided by its nuclear norm: W_nuc itself has leads 1.",
        _moved_by(t=lambda eps, other: np.log(other) / np.log(eps), move=lambda W, W_nuc, t: t * W),
        "W does not grow in proportion to log eps: each lead changes by the same number, not by a factor.",
        _moved_by(move=lambda W, W_nuc, t: t * W_nuc),
        "What W has beside W_nuc stays: add to W.",
        _moved_by(norm=lambda W, V, W_nuc, t: np.linalg.norm(V)),
        "You took the Frobenius norm. The nuclear norm is the sum of the singular values.",
        _moved_by(norm=lambda W, V, W_nuc, t: np.linalg.norm(V, 2)),
        "You took the largest singular value. The nuclear norm is the sum of all.",
        _moved_by(norm=lambda W, V, W_nuc, t: np.trace(V)),
        "The trace is not the sum of the singular values: W is not symmetric.",
        _moved_by(norm=lambda W, V, W_nuc, t: np.linalg.norm(W, "nuc") + t),
        "The leads grow by that number; the norm by as much times the norm of W_nuc.",
        _moved_by(norm=lambda W, V, W_nuc, t: np.linalg.norm(W, "nuc") - t * np.linalg.norm(W_nuc, "nuc")),
        "The sign: with a smaller ridge W is longer.",
        _moved_by(norm=lambda W, V, W_nuc, t: np.linalg.norm(W, "nuc")),
        "That is the norm with eps. With the other ridge W is longer or shorter.",
        _moved_by(
            norm=lambda W, V, W_nuc, t: np.linalg.norm(W, "nuc") + abs(t) * np.linalg.norm(W_nuc, "nuc")
        ),
        "With a larger ridge W is shorter.",
        _moved_by(cosine=lambda W, V, W_nuc: (V * W).sum() / np.linalg.norm(V) / np.linalg.norm(W)),
        "That is the cosine with the old W. Asked for is that with W_nuc.",
        _moved_by(cosine=lambda W, V, W_nuc: (W * W_nuc).sum() / np.linalg.norm(W) / np.linalg.norm(W_nuc)),
        "That is the cosine at the rest with eps. Take that of the moved matrix.",
        _moved_by(cosine=lambda W, V, W_nuc: (V * W_nuc).sum()),
        "That is an inner product: divide by both Frobenius norms.",
        _moved_by(
            cosine=lambda W, V, W_nuc: (
                (V * W_nuc).sum() / np.linalg.norm(V, "nuc") / np.linalg.norm(W_nuc, "nuc")
            )
        ),
        "A cosine has the Frobenius norms below.",
        _moved_by(
            cosine=lambda W, V, W_nuc: 1 - (V * W_nuc).sum() / np.linalg.norm(V) / np.linalg.norm(W_nuc)
        ),
        "Return the cosine, not one minus it.",
        _moved_by(cosine=lambda W, V, W_nuc: 1.0),
        "It tends to 1 as the ridge shrinks, and is not 1: what W has beside W_nuc stays.",
        lambda W, W_nuc, eps, other: another_ridge(W, W_nuc, eps, other)[::-1],
        "Return the norm first, then the cosine.",
    ),
)


# --------------------------------------------------------------------------- 11.3 how fast a pair grows
def _growth_by(
    power=lambda c: c - 1,
    clock=lambda length, time, eps: np.diff(np.log(length)) + 4 * eps * time,
    total=lambda power, clock: np.exp((power * clock).sum()),
):
    """An answer from what c counts, the clock 2 b dt between moments, and how both are combined."""
    return lambda c, length, time, eps: total(power(c), clock(length, time, eps))


def share_growth(c, length, time, eps):
    """The product of exp((c - 1) 2 b dt), 2 b dt = d log length + 4 eps dt."""
    return _growth_by()(c, length, time, eps)


def _growth_cases(rng):
    """A ridge and none, a norm that grows, stands still, or falls; times of the order of 1 / eps."""
    cases = []
    for k, eps, rate in ((3, 0.02, 0.4), (4, 0.0, 0.5), (2, 2.0**-52, 0.0), (5, 0.3, -0.1), (6, 1e-9, 0.2)):
        length = 30 * np.exp(np.concatenate([[0], np.cumsum(rate * rng.uniform(0.5, 1.5, size=k))]))
        time = rng.uniform(0.1, 0.4, size=k) / (eps or 0.01)
        cases.append((1 + rng.uniform(0.1, 0.9, size=k), length, time, eps))
    return cases


GROWTH = Exercise(
    id="11.3",
    title="How fast does the leading pair grow?",
    points=4,
    minutes=15,
    difficulty=2,
    reference=share_growth,
    cases=_growth_cases,
    misconceptions=known(
        _growth_by(power=lambda c: c),
        "That is how the leading pair grows. Its share is divided by the norm, which grows, too: c - 1.",
        lambda c, length, time, eps: (
            _growth_by(power=lambda c: c)(c, length, time, eps) * np.exp(-4 * eps * time.sum())
        ),
        "That is how the leading pair grows. Its share is over the cost, which grows: subtract its rate.",
        _growth_by(power=lambda c: 1 - c),
        "The sign: with c above 1 the share grows.",
        _growth_by(power=lambda c: 2 * (c - 1)),
        "Twice too large: 2 b dt is d log ||W||_* without a ridge, and the share grows at 2 b (c - 1).",
        _growth_by(power=lambda c: (c - 1) / 2),
        "The share is a square: its rate is 2 b (c - 1), not b (c - 1).",
        _growth_by(power=lambda c: c**2 - 1),
        "S stands once in the derivative of K^T xi + Q^T zeta: its square grows like 2 c, not c^2.",
        _growth_by(power=np.log),
        "c is a rate, not a factor: no logarithm of it.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log(length))),
        "The ridge is missing. It shrinks the norm at the rate 4 eps, so 2 b is more than the norm's growth.",
        _growth_by(clock=lambda length, time, eps: 4 * eps * time),
        "The norm's own growth is missing: it tells b, together with the ridge.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log(length)) - 4 * eps * time),
        "The sign of the ridge: the norm grows at 2 b - 4 eps, so 2 b is that plus 4 eps.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log(length)) + 2 * eps * time),
        "The ridge takes 2 eps off the rate of K and Q, and 4 eps off that of their squares.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log(length)) + eps * time),
        "The ridge eps ||K||^2 has the gradient 2 eps K, and a square shrinks twice as fast: 4 eps.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log(length)) + 8 * eps * time),
        "The ridge takes 4 eps off the rate of the norm, not 8.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log(length)) + 4 * time),
        "The ridge takes 4 eps times the time off: eps is missing.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log(length)) + 4 * eps),
        "The ridge acts as long as the time between two moments: the time is missing.",
        _growth_by(clock=lambda length, time, eps: np.diff(np.log10(length)) + 4 * eps * time),
        "Rates belong to natural logarithms.",
        _growth_by(clock=lambda length, time, eps: np.diff(length) + 4 * eps * time),
        "The norm's rate is the change of its logarithm, not of the norm.",
        _growth_by(clock=lambda length, time, eps: np.diff(length) / length[:-1] + 4 * eps * time),
        "The moments are far apart: take the change of the logarithm, not the change over the first norm.",
        _growth_by(total=lambda power, clock: (power * clock).sum()),
        "That is the logarithm of the factor.",
        _growth_by(total=lambda power, clock: 1 + (power * clock).sum()),
        "The share grows by a rate: the factor is the exponential of the sum.",
        _growth_by(total=lambda power, clock: np.prod(1 + power * clock)),
        "Between two moments the share grows exponentially: multiply exp(x), not 1 + x.",
        _growth_by(total=lambda power, clock: np.exp(power[0] * clock.sum())),
        "c changes from one moment to the next: each goes with its own time. You kept the first one.",
        _growth_by(total=lambda power, clock: np.exp(power[-1] * clock.sum())),
        "c changes from one moment to the next: each goes with its own time. You took the last one.",
        _growth_by(total=lambda power, clock: np.exp(power.mean() * clock.sum())),
        "The mean of c will not do: each c goes with its own time.",
        _growth_by(total=lambda power, clock: np.exp((power * clock).mean())),
        "That is a mean over the intervals. Their logarithms add up.",
        _growth_by(total=lambda power, clock: np.exp(power[-1] * clock[-1])),
        "That is the last step alone. Asked for is the growth from the first moment to the last.",
    ),
)


# --------------------------------------------------------------------------- 11.4 how much decay is too much
def least_decay(X, z, y, v):
    """The largest singular value of M = -grad L at W = 0: with more decay W = 0 is stable."""
    return _decay_by()(X, z, y, v)


def _decay_by(
    slope=lambda scores: 1 / (1 + np.exp(scores.mean(axis=1))),
    ahead=lambda scores: scores - scores.mean(axis=1, keepdims=True),
    share=lambda n, T: 1 / (n * T),
    size=lambda M: np.linalg.norm(M, 2),
    scores_of=lambda X, y, v: y[:, None] * (X @ v),
):
    """An answer from |l'(u)|, the differences of scores, what each counts, and how M is measured."""

    def answer(X, z, y, v):
        scores = scores_of(X, y, v)
        force = slope(scores)[:, None] * ahead(scores) * share(*scores.shape)
        return size(np.einsum("nt,ntd,ne->de", force, X, z))

    return answer


def _decay_cases(rng):
    """Labels of both signs; n, T and d differ; scores are large enough for the slope to matter."""
    cases = []
    for n, T, d, size in ((3, 4, 5, 1.0), (2, 6, 4, 2.0), (6, 3, 4, 1.5), (5, 2, 7, 3.0)):
        X, z = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
        y = rng.permutation(np.where(np.arange(n) % 2, 1.0, -1.0))
        v = size * rng.normal(size=d) / np.sqrt(d)
        cases.append((X, z, y, v))
    return cases


DECAY = Exercise(
    id="11.4",
    title="When is zero stable?",
    points=3,
    minutes=10,
    difficulty=2,
    reference=least_decay,
    cases=_decay_cases,
    misconceptions=known(
        _decay_by(share=lambda n, T: 1 / T),
        "The loss is the mean over the n sequences: a factor 1/n is missing.",
        _decay_by(share=lambda n, T: 1 / n),
        "At W = 0 each token has the attention 1/T.",
        _decay_by(share=lambda n, T: 1.0),
        "The factors 1/n (a mean loss) and 1/T (the attention at W = 0) are missing.",
        _decay_by(size=lambda M: np.linalg.norm(M)),
        "You took the Frobenius norm. One direction is enough to leave W = 0: take the one pulled hardest.",
        _decay_by(size=lambda M: np.linalg.norm(M, "nuc")),
        "You took the nuclear norm of M. Its dual norm is asked for: the largest singular value.",
        _decay_by(size=lambda M: np.linalg.norm(M, 2) / 2),
        "That is the ridge's epsilon. The decay w adds w K to the gradient, so w = 2 epsilon.",
        _decay_by(size=lambda M: 2 * np.linalg.norm(M, 2)),
        "Twice too large: (K, Q) leaves zero where ||M||_op > 2 epsilon, and w = 2 epsilon.",
        _decay_by(size=lambda M: np.abs(np.linalg.eigvals(M)).max()),
        "M is not symmetric: take singular values, not eigenvalues.",
        _decay_by(slope=lambda scores: np.full(len(scores), 0.5)),
        "At W = 0 the output is not 0: u_i is the mean score of the sequence.",
        _decay_by(slope=lambda scores: np.ones(len(scores))),
        "The slope of the loss, |l'(u_i)|, is missing.",
        _decay_by(slope=lambda scores: 1 / (1 + np.exp(-scores.mean(axis=1)))),
        "The sign in the slope: |l'(u)| = 1 / (1 + e^u).",
        _decay_by(slope=lambda scores: 1 / (1 + np.exp(scores.max(axis=1)))),
        "That is the slope far out, where the best token has all attention. At W = 0 all tokens share it.",
        _decay_by(slope=lambda scores: 1 / (1 + np.exp(scores.sum(axis=1)))),
        "u_i is the mean of the scores, not their sum.",
        _decay_by(ahead=lambda scores: scores),
        "Softmax's derivative subtracts the mean score: s_t (gamma_t - sum_r s_r gamma_r).",
        _decay_by(ahead=lambda scores: scores - scores.max(axis=1, keepdims=True)),
        "At W = 0 no token is selected: compare each with the mean score, not with the best.",
        _decay_by(scores_of=lambda X, y, v: X @ v),
        "The labels are missing: the score is y_i v.x_it.",
    ),
)

EXERCISES = [REST, RIDGE, GROWTH, DECAY]
