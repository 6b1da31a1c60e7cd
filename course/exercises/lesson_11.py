"""Exercises of lesson 11: keys, queries and the nuclear norm."""

import numpy as np

from course.check.specification import Exercise, known
from course.exercises.rest import REST_OR_CYCLE


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
    for n, T, eps in ((2, 3, 1e-6), (3, 3, 2.0**-52), (4, 6, 1e-30), (6, 4, 0.003)):
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
    minutes=12,
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


# --------------------------------------------------------------------------- 11.3 how long is the stall
def _root(share, c, goal):
    """The factor by which the norm grows until the share is the goal."""
    return 1.0 if share >= goal else (goal / share) ** (1 / (c - 1)) if c > 1 else np.inf


def _but(law):
    """A factor by another law, and the right one where the newcomer is there already, or never."""
    return lambda share, c, goal: law(share, c, goal) if share < goal and c > 1 else _root(share, c, goal)


def _stall_by(
    size=lambda a, b, K, Q: ((a @ K + b @ Q) ** 2).sum(),
    pull=lambda S: np.linalg.svd(S)[1][0],
    vectors=lambda left, right: (left[:, 0], right[0]),
    whole=None,
    factor=_root,
):
    """An answer from the size of a direction, c, the missing direction, what it is a share of, and a law."""

    def answer(K, Q, S, goal):
        left, _, right = np.linalg.svd(S)
        u, _, w = np.linalg.svd(K @ Q.T)
        first = size(u[:, 0], w[0], K, Q) if whole is None else whole(K, Q)
        share = size(*vectors(left, right), K, Q) / first
        with np.errstate(all="ignore"):
            return share, factor(share, pull(S), goal)

    return answer


def _along_columns(K, Q):
    """The size along the first columns of both results of the SVD of W: the right one is a row."""
    u, _, w = np.linalg.svd(K @ Q.T)
    return ((u[:, 0] @ K + w[:, 0] @ Q) ** 2).sum()


def stall(K, Q, S, goal):
    """The newcomer's share of the first direction, and the factor of the norm until that is `goal`."""
    return _stall_by()(K, Q, S, goal)


def orthogonal(rng, d):
    """d orthonormal columns."""
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def _stall_cases(rng):
    """S of no symmetry; a newcomer that is small in K and Q; once it never grows up, once it is there."""
    cases = []
    for d, m, c, grow in (
        (2, 2, 2.2, 9.0),
        (3, 2, 1.5, 4.0),
        (4, 4, 3.1, 30.0),
        (5, 3, 0.8, 5.0),
        (4, 3, 1.7, 0.6),
    ):
        c = rng.uniform(0.95, 1.05) * c
        s = np.r_[c, np.sort(rng.uniform(0.3, min(1.3, 0.9 * c), size=d - 1))[::-1]]
        left, right = orthogonal(rng, d), orthogonal(rng, d)
        K, Q = rng.normal(size=(2, d, m))
        K = K - 0.8 * np.outer(left[:, 0], left[:, 0] @ K)
        Q = Q - 0.7 * np.outer(right[:, 0], right[:, 0] @ Q)
        S = left * s @ right.T
        cases.append((K, Q, S, grow * rng.uniform(0.9, 1.1) * stall(K, Q, S, 1.0)[0]))
    return cases


STALL = Exercise(
    id="11.3",
    title="How long does the stall last?",
    points=3,
    minutes=12,
    difficulty=2,
    reference=stall,
    cases=_stall_cases,
    misconceptions=known(
        _stall_by(factor=_but(lambda share, c, goal: (goal / share) ** (1 / c))),
        "The first direction grows too, like the norm. The share grows like the norm to the power c - 1.",
        _stall_by(factor=lambda share, c, goal: max((goal / share) ** (1 / c), 1.0)),
        "The first direction grows too: the share grows like the norm^(c - 1), or shrinks.",
        _stall_by(factor=_but(lambda share, c, goal: (goal / share) ** (c - 1))),
        "Solve share * factor^(c - 1) = goal for the factor: a root of goal / share, not a power of it.",
        _stall_by(factor=_but(lambda share, c, goal: (goal / share) ** c)),
        "Solve share * factor^(c - 1) = goal for the factor: the exponent is 1 / (c - 1).",
        _stall_by(factor=_but(lambda share, c, goal: goal / share)),
        "That would do if the share grew like the norm itself. It grows like the norm to the power c - 1.",
        _stall_by(factor=lambda share, c, goal: max(goal / share, 1.0)),
        "That is how much the share has to grow. It grows like the norm to the power c - 1.",
        _stall_by(factor=_but(lambda share, c, goal: np.log(goal / share) / (c - 1))),
        "That is the logarithm of the factor.",
        _stall_by(factor=lambda share, c, goal: np.log(goal / share) / (c - 1)),
        "That is the logarithm of the factor; and it is no number where the share never grows, or is there.",
        _stall_by(factor=_but(lambda share, c, goal: (goal / share) ** (0.5 / (c - 1)))),
        "||K||^2 + ||Q||^2 is 2 ||W||_*, not its square: no square root.",
        _stall_by(factor=_but(lambda share, c, goal: (goal / share) ** (2 / (c - 1)))),
        "The size is a square, and so is ||K||^2 + ||Q||^2 = 2 ||W||_*: no factor 2 in the exponent.",
        _stall_by(factor=_but(lambda share, c, goal: (share / goal) ** (1 / (c - 1)))),
        "The share has to grow, so the norm grows by more than 1. Turn the fraction over.",
        _stall_by(factor=_but(lambda share, c, goal: share ** (-1 / (c - 1)))),
        "That is when the newcomer is as large as the first direction. Asked for is a share of `goal`.",
        _stall_by(factor=lambda share, c, goal: (goal / share) ** (1 / (c - 1))),
        "With c < 1 the share shrinks, and the factor is np.inf; where it is at its goal already, it is 1.",
        _stall_by(factor=lambda share, c, goal: 1.0 if share >= goal else (goal / share) ** (1 / (c - 1))),
        "With c < 1 the share shrinks: it never comes to the goal, the factor is np.inf.",
        _stall_by(factor=lambda share, c, goal: (goal / share) ** (1 / (c - 1)) if c > 1 else np.inf),
        "A share that is at its goal already need not grow: the factor is 1.",
        _stall_by(factor=_but(lambda share, c, goal: (goal / share) ** (1 / (c - 1)) - 1)),
        "A factor is asked for: do not subtract 1.",
        _stall_by(pull=np.linalg.norm),
        "You took the Frobenius norm of S for c. It is the largest singular value.",
        _stall_by(pull=lambda S: np.abs(np.linalg.eigvals(S)).max()),
        "S is not symmetric: its largest singular value is not the size of its largest eigenvalue.",
        _stall_by(pull=lambda S: np.linalg.svd(S)[1][:2] @ [1, -1] + 1),
        "The first direction of W is pulled by 1, not by the second singular value of S: the power is c - 1.",
        _stall_by(pull=lambda S: np.divide(*np.linalg.svd(S)[1][:2])),
        "The first direction of W is pulled by 1, not by the second singular value: c is not their ratio.",
        _stall_by(size=lambda a, b, K, Q: ((a @ K - b @ Q) ** 2).sum()),
        "The difference decays. The sum of xi'K and zeta'Q is what grows.",
        _stall_by(size=lambda a, b, K, Q: ((b @ K + a @ Q) ** 2).sum()),
        "The left vectors belong to K, the right ones to Q: you exchanged them.",
        _stall_by(size=lambda a, b, K, Q: abs(a @ K @ Q.T @ b)),
        "xi'W zeta mixes a growing and a decaying part. Take the sum xi'K + zeta'Q, and its squared length.",
        _stall_by(size=lambda a, b, K, Q: ((a @ K) ** 2).sum() + ((b @ Q) ** 2).sum()),
        "Add the two vectors first, then square: the two parts alone follow no single power.",
        _stall_by(size=lambda a, b, K, Q: np.linalg.norm(a @ K + b @ Q)),
        "The size is the squared length.",
        _stall_by(size=lambda a, b, K, Q: ((a @ K) ** 2).sum()),
        "That is K's part alone. Q belongs to it.",
        _stall_by(whole=lambda K, Q: (K**2).sum() + (Q**2).sum()),
        "That is the share of the whole pair. Asked for is the share of W's first direction.",
        _stall_by(whole=lambda K, Q: 4 * np.linalg.svd(K @ Q.T)[1][0]),
        "4 sigma_1 is the first direction's size in a balanced pair only. Use one formula for both sizes.",
        _stall_by(whole=lambda K, Q: np.linalg.svd(K @ Q.T)[1][0]),
        "Divide a size by a size: the first direction's is ||K'u + Q'w||^2 with the first singular vectors.",
        _stall_by(whole=lambda K, Q: 1.0),
        "That is the newcomer's size. Its share is that over the size of W's first direction.",
        _stall_by(vectors=lambda left, right: (left[:, -1], right[-1])),
        "These are the vectors of the smallest singular value. The newcomer comes along the largest.",
        _stall_by(vectors=lambda left, right: (left[:, 0], right[:, 0])),
        "np.linalg.svd returns the right vectors as rows: zeta is the first row of its third result.",
        _stall_by(vectors=lambda left, right: (left[:, 0], right[:, 0]), whole=_along_columns),
        "np.linalg.svd returns the right vectors as rows: take the first row, for S and for W.",
        _stall_by(vectors=lambda left, right: (left[0], right[0])),
        "np.linalg.svd returns the left vectors as columns: xi is the first column of its first result.",
        lambda K, Q, S, goal: stall(K, Q, S, goal)[::-1],
        "Return the share first, then the factor.",
    ),
)


# --------------------------------------------------------------------------- 11.4 how large can the rank be
def rank_limit(leads, d, tol):
    """The largest r with r (r + 1) / 2 <= the number of tight comparisons, and at most min(n, d)."""
    return _limit_by()(leads, d, tol)


def _limit_by(
    tight=lambda leads, tol: (leads <= leads.min() + tol).sum(),
    unknowns=lambda r: r * (r + 1) // 2,
    cap=lambda leads, d: min(len(leads), d),
):
    def answer(leads, d, tol):
        N = tight(leads, tol)
        rank = max(r for r in range(leads.size + 2) if unknowns(r) <= N)
        return int(min(rank, cap(leads, d)))

    return answer


def _limit_cases(rng):
    """N two and one below, at and above r (r + 1) / 2; limited by n once, and by d once, never by T.

    Shapes do not tell the answers: r is drawn. Leads are a little above 1, tight ones up to 0.9 tol apart; in
    the second case one more lead is just not tight.
    """
    cases = []
    below, at, later, some = rng.integers((3, 3, 6, 0), (7, 7, 8, 2)).tolist()
    few, low = rng.integers((4, 2), (6, 5)).tolist()
    for n, T, N, d, tol in (
        (8, 6, 10, 9, 1e-3),
        (8, 6, below * (below + 1) // 2 - 1, 9, 0.1),
        (7, 5, at * (at + 1) // 2, 8, 1e-5),
        (few, 9, 22, 8, 1e-3),
        (9, 5, 20, low, 0.01),
        (10, 4, later * (later + 1) // 2 - 1, 12, 1e-3),
        (20, 5, 8 + 5 * some, 18, 0.01),
    ):
        leads = rng.uniform(1.3, 4, size=n * (T - 1))
        least, order = rng.uniform(1.02, 1.06), rng.permutation(leads.size)
        leads[order[:N]] = least + np.linspace(0, 0.9 * tol, N)
        if tol == 0.1:
            leads[order[N]] = least + 1.01 * tol
        cases.append((leads.reshape(n, T - 1), d, tol))
    return cases


LIMIT = Exercise(
    id="11.4",
    title="How large can the rank be?",
    points=3,
    minutes=15,
    difficulty=3,
    reference=rank_limit,
    cases=_limit_cases,
    misconceptions=known(
        _limit_by(unknowns=lambda r: r),
        "A matrix of rank r has more freedom than r: a symmetric H has r (r + 1) / 2 unknowns.",
        _limit_by(unknowns=lambda r: r**2),
        "H is symmetric: r (r + 1) / 2 unknowns, not r^2.",
        _limit_by(unknowns=lambda r: r * (r - 1) // 2),
        "One too large: a symmetric matrix has a diagonal too, and its r (r + 1) / 2 unknowns may be as many "
        "as the tight comparisons, not more.",
        _limit_by(unknowns=lambda r: r * (r - 1) // 2 + (r > 0)),
        "Rounded up, or sqrt(2 N) for it: the largest r whose r (r + 1) / 2 is no more than N, exactly.",
        _limit_by(tight=lambda leads, tol: (leads <= leads.min() + tol).sum() + 1),
        "The cost is no equation more: where all tight leads stay, it stays by itself.",
        _limit_by(tight=lambda leads, tol: (leads <= leads.min() * (1 + tol)).sum()),
        "`tol` is a difference of leads, not a share of the least.",
        _limit_by(tight=lambda leads, tol: np.isclose(leads, leads.min()).sum()),
        "Leads up to `tol` above the least are tight: np.isclose has a tolerance of its own.",
        _limit_by(tight=lambda leads, tol: (leads == leads.min()).sum()),
        "A solver's leads are equal up to `tol` only.",
        _limit_by(tight=lambda leads, tol: (leads <= leads.min(axis=1, keepdims=True) + tol).sum()),
        "The least lead is the least of all, not of each sequence.",
        _limit_by(cap=lambda leads, d: min(leads.shape[1] + 1, d)),
        "n is the number of sequences, the rows of `leads`.",
        _limit_by(unknowns=lambda r: r * (r + 1) // 2 + (r > 0)),
        "As many unknowns as tight comparisons are still too few to move: <=, not <.",
        _limit_by(unknowns=lambda r: r * (r + 1)),
        "Half of that: a symmetric matrix repeats what is off its diagonal.",
        _limit_by(cap=lambda leads, d: d),
        "Count n as well: S is a sum of n outer products, and W lives in its directions.",
        _limit_by(cap=lambda leads, d: len(leads)),
        "The rank is at most d, too.",
        _limit_by(cap=lambda leads, d: leads.size),
        "The rank is at most min(n, d).",
        _limit_by(tight=lambda leads, tol: leads.size),
        "You counted all comparisons. Those with room to spare do not hold anything.",
        _limit_by(tight=lambda leads, tol: (leads <= 1 + tol).sum()),
        "The solver's least lead is not exactly 1: tight is what lies within tol of the least.",
        _limit_by(tight=lambda leads, tol: (leads <= leads.min() + tol).any(axis=1).sum()),
        "You counted sequences. Each tight comparison is an equation.",
        _limit_by(tight=lambda leads, tol: (leads > leads.min() + tol).sum()),
        "You counted the comparisons that are not tight.",
        _limit_by(cap=lambda leads, d: min(leads.shape[1], d)),
        "n is the number of sequences, the rows of `leads`. Its columns are the T - 1 comparisons of each.",
    ),
)

EXERCISES = [REST, REST_OR_CYCLE, STALL, LIMIT]
