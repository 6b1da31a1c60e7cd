"""Exercises of lesson 11: keys, queries and the nuclear norm."""

import numpy as np

from course.check.specification import Exercise, known
from course.exercises.stalls import VERDICT, orthogonal


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
    """As many sequences as tokens in one case; differences of both signs where lambda is 0."""
    cases = []
    for n, T, eps in ((2, 3, 1e-6), (3, 3, 2.0**-52), (4, 6, 1e-30), (6, 4, 0.003)):
        lam = rng.uniform(0.05, 1.5, size=(n, T)) * (rng.random((n, T)) < 0.5)
        lam[:, 1], lam[:, 0] = rng.uniform(0.05, 1.5, size=n), 0  # the selected token, and one that is tight
        difference = np.where(lam > 0, rng.uniform(0.1, 2, size=(n, T)), rng.normal(size=(n, T)))
        difference[:, 0] = 0
        cases.append((lam, rng.uniform(0.15, 0.85, size=n), difference, eps))
    return cases


REST = Exercise(
    id="11.1",
    title="How long is W at rest?",
    points=3,
    minutes=12,
    difficulty=3,
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
    ),
)


# --------------------------------------------------------------------------- 11.2 the newcomer
def _newcomer_by(
    project=lambda xi, zeta, K, Q: ((xi @ K + zeta @ Q) ** 2).sum(),
    power=lambda S: np.linalg.svd(S)[1][0],
    which=0,
):
    def answer(K, Q, S, growth):
        left, _, right = np.linalg.svd(S)
        now = project(left[:, which], right[which], K, Q)
        return now, now * growth ** power(S)

    return answer


def newcomer(K, Q, S, growth):
    """nu = ||K' xi + Q' zeta||^2 now, and after the pair's square has grown `growth`-fold: nu growth^c."""
    return _newcomer_by()(K, Q, S, growth)


def _newcomer_cases(rng):
    """S square and of no symmetry, with leading singular values apart; a newcomer in rotated columns."""
    cases = []
    for d, m, growth in ((2, 2, 2.0), (3, 2, 1.7), (4, 4, 3.0), (5, 3, 0.6)):
        s = np.concatenate([[rng.uniform(1.6, 2.4)], rng.uniform(0.3, 1.3, size=d - 1)])
        S = orthogonal(rng, d) * np.sort(s)[::-1] @ orthogonal(rng, d).T
        cases.append((rng.normal(size=(d, m)), rng.normal(size=(d, m)), S, growth))
    return cases


NEWCOMER = Exercise(
    id="11.2",
    title="What will it grow to?",
    points=2,
    minutes=10,
    difficulty=2,
    reference=newcomer,
    cases=_newcomer_cases,
    misconceptions=known(
        _newcomer_by(power=lambda S: 2 * np.linalg.svd(S)[1][0]),
        "The square of the pair grows at the rate 2b and nu at 2bc: their ratio is c, not 2c.",
        _newcomer_by(power=lambda S: np.linalg.svd(S)[1][0] / 2),
        "nu is a square: it grows at the rate 2bc, while the pair's square has 2b. The power is c, not c/2.",
        _newcomer_by(power=lambda S: np.linalg.svd(S)[1][0] - 1),
        "c - 1 is the power of the share. nu itself grows like the power c.",
        _newcomer_by(power=lambda S: np.linalg.norm(S)),
        "You took the Frobenius norm of S for c. It is the largest singular value.",
        _newcomer_by(power=lambda S: np.abs(np.linalg.eigvals(S)).max()),
        "S is not symmetric: its largest singular value is not the size of its largest eigenvalue.",
        _newcomer_by(project=lambda xi, zeta, K, Q: ((xi @ K - zeta @ Q) ** 2).sum()),
        "The difference decays. The sum of xi'K and zeta'Q is what grows.",
        _newcomer_by(project=lambda xi, zeta, K, Q: ((zeta @ K + xi @ Q) ** 2).sum()),
        "xi and zeta are exchanged: the left vector belongs to K, the right one to Q.",
        _newcomer_by(project=lambda xi, zeta, K, Q: xi @ K @ Q.T @ zeta),
        "xi'W zeta mixes a growing and a decaying part. Take the sum xi'K + zeta'Q, and its squared length.",
        _newcomer_by(project=lambda xi, zeta, K, Q: ((xi @ K) ** 2).sum() + ((zeta @ Q) ** 2).sum()),
        "Add the two vectors first, then square: the two parts alone follow no single power.",
        _newcomer_by(project=lambda xi, zeta, K, Q: np.linalg.norm(xi @ K + zeta @ Q)),
        "nu is the squared length.",
        _newcomer_by(project=lambda xi, zeta, K, Q: ((xi @ K) ** 2).sum()),
        "That is K's part alone. Q belongs to it.",
        _newcomer_by(which=-1),
        "These are the vectors of the smallest singular value. The newcomer comes along the largest.",
        lambda K, Q, S, growth: (newcomer(K, Q, S, 1)[0], newcomer(K, Q, S, 1)[0] * growth),
        "You let the newcomer grow like the pair. Its power is c.",
        lambda K, Q, S, growth: newcomer(K, Q, S, growth)[::-1],
        "Return the size now first, then the one later.",
    ),
)


# --------------------------------------------------------------------------- 11.4 the cost of a memory
def cost_with_memory(W, beta):
    """The cost of K Q' = W with K'K - Q'Q = beta^2 I: sum_k sqrt(beta^4 + 4 sigma_k^2) / 2."""
    return _cost_by()(W, beta)


def _cost_by(each=lambda s, beta: np.sqrt(beta**4 + 4 * s**2) / 2, spectrum=lambda W: np.linalg.svd(W)[1]):
    return lambda W, beta: each(spectrum(W), beta).sum()


def _cost_cases(rng):
    """Also a W of low rank, whose empty directions cost beta^2 / 2 each, and beta = 0."""
    cases = [
        (rng.normal(size=(d, d)) * size, beta) for d, size, beta in ((2, 1, 1.3), (3, 2, 0.0), (4, 1, 0.6))
    ]
    low = rng.normal(size=(4, 2)) @ rng.normal(size=(2, 4))
    return [*cases, (low, 1.7), (0.1 * rng.normal(size=(3, 3)), 3.0)]


MEMORY = Exercise(
    id="11.4",
    title="The cost of a memory",
    points=2,
    minutes=8,
    difficulty=2,
    reference=cost_with_memory,
    cases=_cost_cases,
    misconceptions=known(
        _cost_by(each=lambda s, beta: s),
        "That is the nuclear norm, the least cost of all pairs. This pair has to keep its imbalance.",
        _cost_by(each=lambda s, beta: np.sqrt(beta**4 + 4 * s**2)),
        "a_k^2 + b_k^2 is the root; the cost is half of it.",
        _cost_by(each=lambda s, beta: np.sqrt(beta**4 + s**2) / 2),
        "(a^2 + b^2)^2 = (a^2 - b^2)^2 + 4 a^2 b^2, and ab = sigma: a factor 4 is missing.",
        _cost_by(each=lambda s, beta: np.sqrt(beta**2 + 4 * s**2) / 2),
        "a^2 - b^2 is beta^2, so its square is beta^4.",
        _cost_by(each=lambda s, beta: np.sqrt(beta**4 + 4 * s) / 2),
        "sigma = ab, so a^2 b^2 is sigma squared.",
        lambda W, beta: np.sqrt(beta**4 + 4 * (W**2).sum()) / 2,
        "One root for all directions. Each has its own root; add them afterwards.",
        _cost_by(each=lambda s, beta: np.where(s > 1e-9, np.sqrt(beta**4 + 4 * s**2) / 2, 0)),
        "Directions in which W is zero cost too: there a^2 = beta^2 and b = 0.",
        _cost_by(each=lambda s, beta: np.sqrt(beta**4 + 4 * s**2)[:1] / 2),
        "That is the largest direction's cost. Add all of them.",
        _cost_by(spectrum=lambda W: np.abs(np.linalg.eigvals(W))),
        "W is not symmetric: take singular values, not eigenvalues.",
        _cost_by(each=lambda s, beta: beta**2 / 2 + s),
        "The two parts do not add up like this: the root of a sum is not the sum of the roots.",
        _cost_by(each=lambda s, beta: np.sqrt(np.abs(4 * s**2 - beta**4)) / 2),
        "The sign: (a^2 + b^2)^2 is (a^2 - b^2)^2 plus 4 a^2 b^2.",
        lambda W, beta: (W**2).sum() / beta**2 if beta else np.linalg.svd(W)[1].sum(),
        "That is the limit for small W, and without the constant. Keep the whole root.",
    ),
)


# --------------------------------------------------------------------------- 11.5 a rank without a threshold
def rank_bound(s, gap, share):
    """The smallest k with gap / (1 - s_{k+1}) <= share; len(s) if there is none."""
    return _bound_by()(s, gap, share)


def _bound_by(good=lambda s, gap, share: gap <= share * (1 - s), shift=0):
    def answer(s, gap, share):
        with np.errstate(all="ignore"):
            held = np.nonzero(good(s, gap, share))[0]
        return int(np.clip((held[0] if len(held) else len(s)) + shift, 0, len(s)))

    return answer


def _bound_cases(rng):
    """Singular values above, around and below 1 - gap / share; once all of them above, and once none."""
    cases = []
    for ones, between, low, gap, share in (
        (2, 1, 2, 1e-3, 0.05),
        (1, 2, 3, 1e-6, 0.001),
        (3, 1, 1, 1e-2, 0.1),
    ):
        width = gap / share  # 0.02, 0.001, 0.1
        middle = 1 - width * rng.uniform(0.4, 0.9, size=between)
        below = 1 - width * rng.uniform(1.2, 5, size=low)
        cases.append(
            (np.concatenate([np.ones(ones), np.sort(middle)[::-1], np.sort(below)[::-1]]), gap, share)
        )
    cases.append((np.array([1.0, 1 - 1e-5, 1 - 3e-5]), 1e-6, 0.01))  # all of them
    cases.append((np.sort(rng.uniform(0.2, 0.8, size=4))[::-1], 0.02, 0.5))  # none
    cases.append((np.array([1.0, 0.985, 0.9, 0.5]), 1e-4, 0.004))  # share is not sqrt(gap)
    cases.append((np.array([0.5, 0.3, 0.2]), 0.15, 0.25))
    cases.append((np.array([1.0, 0.999, 0.6, 0.3]), 0.15, 0.4))
    return cases


BOUND = Exercise(
    id="11.5",
    title="A rank without a threshold",
    points=2,
    minutes=8,
    difficulty=2,
    reference=rank_bound,
    cases=_bound_cases,
    misconceptions=known(
        _bound_by(shift=1),
        "One too many: outside the k leading directions the largest value is s_{k+1}, which is s[k] in code.",
        _bound_by(shift=-1),
        "One too few: outside the k leading directions the largest value is s_{k+1}, which is s[k] in code.",
        _bound_by(good=lambda s, gap, share: s < 1),
        "You counted the ones. A value just below 1 may carry much of W as well.",
        _bound_by(good=lambda s, gap, share: 1 - s >= gap),
        "The share is missing: the bound is gap / (1 - s_{k+1}), and it has to be at most `share`.",
        _bound_by(good=lambda s, gap, share: gap * (1 - s) <= share),
        "The bound is gap divided by 1 - s_{k+1}: the closer to 1, the weaker.",
        _bound_by(good=lambda s, gap, share: s <= share),
        "`share` limits the part of W, not the singular values of S.",
        _bound_by(good=lambda s, gap, share: gap / s <= share),
        "What is outside loses 1 - s_{k+1}, not s_{k+1}, of its weight.",
        _bound_by(good=lambda s, gap, share: 1 - s >= np.sqrt(gap)),
        "That is the library's choice, share = sqrt(gap). Here the share is given.",
        lambda s, gap, share: len(s) - rank_bound(s, gap, share),
        "You counted what is outside. Return how many directions are inside.",
    ),
)

EXERCISES = [REST, NEWCOMER, VERDICT, MEMORY, BOUND]
