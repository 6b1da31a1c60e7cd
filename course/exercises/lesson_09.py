"""Exercises of lesson 09: training the head too."""

import numpy as np

from course.check.specification import Compare, Exercise, known


# --------------------------------------------------------------------------- 09.1 the head's gradient
def _gradient_by(
    points=lambda s, X: np.einsum("it,itd->id", s, X),
    slope=lambda u: np.exp(-np.logaddexp(0, u)),  # 1 / (1 + exp(u)), without overflow
    combine=lambda y, c, x: -(y * c) @ x / len(y),
    signed=lambda y, f: y * f,
):
    """An answer from the points the head sees, the slope of the loss, and how the terms are combined."""

    def answer(v, p, X, y):
        h = X @ p
        s = np.exp(h - h.max(axis=1, keepdims=True))
        x = points(s / s.sum(axis=1, keepdims=True), X)  # (n, d)
        return combine(y, slope(signed(y, x @ v)), x)

    return answer


_head_gradient = _gradient_by()


def _gradient_cases(rng):
    """Two of everyday size, one with signed outputs of 100 to 600, and one beyond the range of exp."""
    cases = []
    for n, T, d, low, high in ((2, 3, 2, 0, 0), (4, 3, 5, 0, 0), (3, 2, 3, 100, 600), (2, 2, 3, 710, 712)):
        y = rng.permutation(np.where(np.arange(n) % 2, -1.0, 1.0))
        v, p, X = rng.normal(size=d), rng.normal(size=d), rng.normal(size=(n, T, d))
        if high:  # move each sequence along v, which changes the outputs and not the attention
            v *= 200 / np.linalg.norm(v)
            h = np.exp(X @ p)
            seen = np.einsum("it,itd->id", h / h.sum(axis=1, keepdims=True), X) @ v
            X += ((y * rng.uniform(low, high, size=n) - seen) / (v @ v))[:, None, None] * v
        cases.append((v, p, X, y))
    return cases


GRADIENT = Exercise(
    id="09.1",
    title="What the head sees",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_head_gradient,
    cases=_gradient_cases,
    compare=Compare(atol=0),  # gradients of 1e-300 have a direction, too
    misconceptions=known(
        _gradient_by(slope=lambda u: 1 - 1 / (1 + np.exp(-u))),
        "The slope cancels: from u = 37 on, 1 minus sigmoid(u) is rounded to 0, and the head stops. "
        "Use a form without a difference: np.exp(-np.logaddexp(0, u)).",
        _gradient_by(slope=lambda u: 1 / (1 + np.exp(u))),
        "exp(u) overflows from u = 710 on, and the slope becomes 0: write np.exp(-np.logaddexp(0, u)).",
        _gradient_by(signed=lambda y, f: f),
        "The label is missing inside u: the slope is taken at u = y v.x, not at the output v.x.",
        lambda *args: -_head_gradient(*args),
        "That is the direction of descent. Return the gradient itself; the loss has a negative slope.",
        _gradient_by(combine=lambda y, c, x: -c @ x / len(y)),
        "The label is missing: the derivative of y v.x in v is y x.",
        _gradient_by(combine=lambda y, c, x: -(y * c) @ x),
        "You summed over the sequences. L is their mean: divide by n.",
        _gradient_by(points=lambda s, X: X.mean(axis=1)),
        "The head sees the tokens averaged with the attention as weights, not their plain mean.",
        _gradient_by(points=lambda s, X: X[np.arange(len(X)), s.argmax(axis=1)]),
        "You took the token with most attention. While attention is soft, all tokens count: sum s x.",
        _gradient_by(slope=lambda u: 1 / (1 + np.exp(-u))),
        "Wrong sign in the exponent: |l'(u)| = 1 / (1 + exp(u)) is small where u is large.",
        _gradient_by(slope=np.ones_like),
        "The slope of the loss is missing: a sequence counts with the weight |l'(u)| = 1 / (1 + exp(u)).",
        _gradient_by(slope=lambda u: np.exp(-u)),
        "exp(-u) is the slope of the exponential loss. The logistic loss has 1 / (1 + exp(u)).",
    ),
)


# --------------------------------------------------------------------------- 09.2 the relaxed rows
def _support(x, y, v_mm):
    return np.isclose(y * (x @ v_mm), 1, atol=1e-6)


def _relaxed(x, y, v_mm, T):
    return np.repeat(1.0 * _support(x, y, v_mm), T - 1)


def _relaxed_by(support=_support, rows=lambda S, T: np.repeat(1.0 * S, T - 1)):
    return lambda x, y, v_mm, T: rows(support(x, y, v_mm), T)


def _support_cases(rng):
    """Three of 1 up to rounding, one of ||v_mm||, one or two barely above 1, the others farther.

    In one case only sequences of label -1 are in S, in another only those of label 1.
    """
    cases = []
    for n, d, T, held in ((6, 3, 3, 0), (7, 2, 4, -1), (8, 5, 3, 1)):
        v_mm = rng.normal(size=d)
        v_mm *= rng.uniform(1.3, 2) / np.linalg.norm(v_mm)
        u = np.r_[
            1 + 1e-9, 1 - 1e-9, 1 - 2e-9, np.linalg.norm(v_mm), rng.uniform([1.004, 1.03], [1.006, 1.05])
        ]
        u = np.r_[u, rng.uniform(1.1, 2.5, size=n - 6)]
        y = np.where(np.arange(n) % 2, -1.0, 1.0) if held == 0 else np.r_[[held] * 3, [-held] * (n - 3)]
        x = rng.normal(size=(n, d))  # points to match the signed outputs u
        x += ((y * u - x @ v_mm) / (v_mm @ v_mm))[:, None] * v_mm
        order = rng.permutation(n)
        cases.append((x[order], y[order].astype(float), v_mm, T))
    return cases


RELAXED = Exercise(
    id="09.2",
    title="Relax the rows",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_relaxed,
    cases=_support_cases,
    misconceptions=known(
        lambda *args: 1 - _relaxed(*args),
        "The other way round: support sequences of the head keep the right-hand side 1, the others get 0.",
        _relaxed_by(lambda x, y, v_mm: np.isclose(x @ v_mm, 1, atol=1e-6)),
        "Multiply by the label: a point labelled -1 is a support vector where v.x = -1.",
        _relaxed_by(lambda x, y, v_mm: y * (x @ v_mm) == 1),
        "Your function finds no support sequence. In S the signed output u = y v.x itself is 1, not its "
        "distance, and only up to rounding: np.isclose(u, 1, atol=1e-6).",
        _relaxed_by(lambda x, y, v_mm: y * (x @ v_mm) <= 1),
        "A sequence of S is missing: by rounding its u came out just above 1. S may have any number of "
        "sequences, all those with np.isclose(u, 1, atol=1e-6).",
        _relaxed_by(lambda x, y, v_mm: np.isclose(y * (x @ v_mm), 1, atol=0.1)),
        "Your tolerance lets in sequences with u = 1.05, which are not in S. Take 1e-6: rounding is smaller.",
        _relaxed_by(lambda x, y, v_mm: np.isclose(y * (x @ v_mm) / np.linalg.norm(v_mm), 1, atol=1e-6)),
        "Do not divide by the norm of v_mm: its constraints read y v.x >= 1, so a tight one is at 1.",
        _relaxed_by(lambda x, y, v_mm: y * (x @ v_mm) >= 1 - 1e-6),
        "That is the tight problem: every point satisfies its constraint, those of S with equality.",
        _relaxed_by(lambda x, y, v_mm: np.arange(len(y)) == (y * (x @ v_mm)).argmin()),
        "argmin finds one sequence. Several have the smallest u, which is 1 up to rounding.",
        _relaxed_by(rows=lambda S, T: np.tile(1.0 * S, T - 1)),
        "Rows are ordered by sequence: each sequence's number serves T - 1 rows in a row (np.repeat).",
        _relaxed_by(rows=lambda S, T: np.repeat(1.0 * S, T)),
        "A sequence has T - 1 comparisons, one with each token but the selected one.",
        _relaxed_by(rows=lambda S, T: 1.0 * S),
        "That is one number for each sequence. The SVM has T - 1 rows for each.",
        _relaxed_by(rows=lambda S, T: np.ones(np.sum(S) * (T - 1))),
        "Do not drop the other rows: they stay, with right-hand side 0.",
        _relaxed_by(rows=lambda S, T: 2.0 * np.repeat(1.0 * S, T - 1) - 1),
        "The other sequences must not turn away from their token either: their right-hand side is 0.",
    ),
)


# --------------------------------------------------------------------------- 09.3 in between
def _sides(u, kappa):
    return np.maximum(0, 1 - kappa * (u - 1))


def _side_cases(rng):
    cases = []
    for n, kappa in ((5, 0.8), (4, 0.5), (6, 1.7)):
        u = 1 + np.r_[0, 0.3 / kappa, 1.6 / kappa, rng.uniform(0.1, 2.5, size=n - 3) / kappa]
        cases.append((rng.permutation(u), kappa))
    return cases


SIDES = Exercise(
    id="09.3",
    title="Between tight and relaxed",
    points=2,
    minutes=6,
    difficulty=2,
    reference=_sides,
    cases=_side_cases,
    misconceptions=known(
        lambda u, kappa: 1 - kappa * (u - 1),
        "No right-hand side is below 0: a sequence that turned away from its token would be the worst.",
        lambda u, kappa: np.maximum(0, 1 - kappa * u),
        "Only the part of u beyond 1 helps: a support vector, u = 1, keeps its 1.",
        lambda u, kappa: np.maximum(0, 1 - (u - 1) / kappa),
        "A larger kappa means a longer head, which frees the sequences sooner: multiply u - 1 by kappa.",
        lambda u, kappa: np.maximum(0, 1 - (u - 1)),
        "kappa is missing. For kappa = 0 every right-hand side is 1, the tight problem.",
        lambda u, kappa: np.maximum(0, 1 - min(kappa, 1) * (u - 1)),
        "kappa may be larger than 1, when the head is long: take it as it is.",
        lambda u, kappa: np.exp(-kappa * (u - 1)),
        "That is the weight of the force. The right-hand side compares exponents: 1 - kappa (u - 1).",
        lambda u, kappa: 1 + kappa * (u - 1),
        "The other way round: a sequence whose u is larger needs less of a lead, not more.",
        lambda u, kappa: np.maximum(0, u - kappa * (u - 1)),
        "Start from 1, not from u: the exponents are kappa u + side outside S and kappa + 1 in S.",
        lambda u, kappa: np.maximum(0, 1 / u),
        "The exponents add: kappa u + side >= kappa + 1. Solve this for the side.",
        lambda u, kappa: np.isclose(u, 1).astype(float),
        "Every side you return is 0 or 1, as in the limit of large kappa. In between it can be 0.3: do not "
        "round, and keep it a float.",
    ),
)


# --------------------------------------------------------------------------- 09.4 the border
def _border_by(
    kappa=lambda u, a: np.max((1 - a) / (u - 1)), scale=lambda v, p: v / p, least=0.0, tolerance=1e-6
):
    """An answer from the sequences outside S: their u and leads give kappa, the norms the ratio."""

    def answer(u, leads, v_norm, p_norm):
        outside = u > 1 + tolerance
        if not outside.any():
            return 0.0
        return max(least, kappa(u[outside], leads[outside]) * scale(v_norm, p_norm))

    return answer


_border = _border_by()


def _border_of_none(u, leads, v_norm, p_norm):
    """No sequence is outside S: the maximum of nothing is an error."""
    outside = u > 1 + 1e-6
    return max(0.0, np.max((1 - leads[outside]) / (u[outside] - 1))) * v_norm / p_norm


def _border_cases(rng):
    """S up to rounding, where (1 - lead) / (u - 1) means nothing. Leads of p_rel are never negative.

    The last to hold has the smallest u, then another one, then a u just outside S. At last all hold anyway,
    and all sequences are in S.
    """
    cases = []
    for n, kind in ((5, "smallest"), (5, "another"), (6, "close"), (5, "spare"), (5, "none")):
        u = 1 + np.r_[1e-10, -1e-10, rng.uniform(0.2, 0.4), rng.uniform(0.6, 2, size=n - 3)]
        leads = np.r_[1 - 1e-8, 1, rng.uniform(0.3, 0.6), rng.uniform(0.05, 0.2, size=n - 3)]
        leads[1] += rng.uniform(0.1, 1)
        if kind == "smallest":
            leads[2] = rng.uniform(0.2, 0.3)
            leads[3:] += 0.3
        elif kind == "another":
            leads[2:4] = 1 - (u[2] - 1) * rng.uniform(0.05, 0.1), rng.uniform(0, 0.1)
        elif kind == "close":
            u[2] = 1 + rng.uniform(0.003, 0.007)
        elif kind == "spare":
            leads[2:] += 1.1
        else:
            u[2:], leads[2:] = 1 + 1e-10 * rng.uniform(-3, 3, size=n - 2), rng.uniform(1, 2, size=n - 2)
        last = 2 + int(((1 - leads) / (u - 1))[2:].argmax())
        order = rng.permutation(n)
        while last in order[order > 1][[0, -1]]:  # it is neither the first nor the last outside S
            order = rng.permutation(n)
        cases.append((u[order], leads[order], *rng.uniform([1.2, 2], [1.8, 3])))
    return cases


BORDER = Exercise(
    id="09.4",
    title="How fast is fast enough?",
    points=3,
    minutes=10,
    difficulty=3,
    reference=_border,
    cases=_border_cases,
    misconceptions=known(
        _border_by(scale=lambda v, p: 1),
        "That is kappa = u_min / lead. The ratio of the lengths is kappa ||v_mm|| / ||p_rel||.",
        _border_by(scale=lambda v, p: p / v),
        "The norms are upside down: ||v|| = u_min ||v_mm||, ||p|| = lead ||p_rel||, and the ratio is v to p.",
        _border_by(lambda u, a: np.min((1 - a) / (u - 1))),
        "At this ratio one sequence is free. All have to be: the last one sets the border.",
        _border_by(lambda u, a: np.max(1 / (u - 1))),
        "The sides need not fall to 0: p_rel gives a sequence a lead, and its side has to fall to that.",
        _border_by(lambda u, a: np.max(a / (u - 1))),
        "The side 1 - kappa (u - 1) has to fall to the lead, so kappa (u - 1) must make up 1 - lead.",
        _border_by(lambda u, a: np.max((1 - a) / u)),
        "Only the part of u beyond 1 softens a side: divide by u - 1.",
        _border_by(lambda u, a: np.max((1 - a) * (u - 1))),
        "A larger u frees a sequence sooner: divide by u - 1.",
        _border_by(lambda u, a: (1 - a.min()) / (u.min() - 1)),
        "The smallest lead and the smallest u may be of two sequences: take the maximum of quotients.",
        _border_by(lambda u, a: ((1 - a) / (u - 1))[u.argmin()], least=0.0),
        "The sequence with the smallest u need not be the last: its lead may be large. Take the maximum.",
        lambda u, leads, v_norm, p_norm: max(0.0, np.max((1 - leads) / (u - 1))) * v_norm / p_norm,
        "You divided by u - 1 in S too, where it is rounding. Only sequences with u > 1 + 1e-6 are in doubt.",
        _border_by(tolerance=0.01),
        "You left out a sequence with u = 1.005, which is not in S. Only rounding is: take u > 1 + 1e-6.",
        _border_of_none,
        "Once every sequence is in S, and none is left to wait for: p_rel solves the tight problem, the "
        "border is 0. np.max takes initial=0.0.",
        lambda u, leads, v_norm, p_norm: (
            np.max((1 - leads[u > 1 + 1e-6]) / (u[u > 1 + 1e-6] - 1)) * v_norm / p_norm
        ),
        "Nobody may be left to wait for: where every sequence is in S, or p_rel satisfies even the tight "
        "constraints, the border is 0. np.max takes initial=0.0.",
        _border_by(least=-np.inf),
        "A ratio of lengths is not negative. If p_rel satisfies even the tight constraints, the border is 0.",
    ),
)


# --------------------------------------------------------------------------- 09.5 attention that stays soft
def _kept_by(
    excess=lambda ratio, v, p: v / (ratio * p),
    share=lambda better, worse, x: (1 + x - worse) / (better - worse),
    clip=lambda s: np.clip(s, 0, 1),
):
    """An answer from Delta / u_min, the balance of exponents, and what is made of shares beyond 0 and 1."""
    return lambda better, worse, ratio, v_norm, p_norm: float(
        clip(share(better, worse, excess(ratio, v_norm, p_norm)))
    )


_kept = _kept_by()


def _kept_cases(rng):
    """Shares inside, with a worse token below and above the label margin, then beyond both ends."""
    cases = []
    for share, worse in ((0.35, 0.6), (0.7, 0.2), (0.1, 1.4), (0.25, 1.2), (1.3, 0.5), (-0.4, 1.8)):
        v_norm, p_norm = rng.uniform(1.2, 1.9), rng.uniform(2.1, 3.2)
        worse = worse + rng.uniform(-0.1, 0.1)
        span = rng.uniform(1.3, 1.9) if worse > 0.8 else rng.uniform(1.7, 2.2)
        excess = worse + share * span - 1  # Delta / u_min
        if excess < 0.05:
            excess = rng.uniform(0.05, 0.1)
        cases.append((worse + span, worse, v_norm / (excess * p_norm), v_norm, p_norm))
    return cases


KEPT = Exercise(
    id="09.5",
    title="Attention that stays soft",
    points=3,
    minutes=10,
    difficulty=3,
    reference=_kept,
    cases=_kept_cases,
    misconceptions=known(
        _kept_by(clip=lambda s: s),
        "Attention is at least 0 and at most 1: beyond, there is no balance, and the sequence decides.",
        lambda *args: 1 - _kept(*args),
        "That is the attention on the worse token.",
        _kept_by(clip=lambda s: s if 0 <= s <= 1 else float(s < 0)),
        "The ends are exchanged: a share above 1 says that the better token wins, below 0 the worse one.",
        _kept_by(clip=lambda s: s if 0 <= s <= 1 else 0.0),
        "Where the share comes out above 1 the better token wins: its attention is 1.",
        _kept_by(share=lambda better, worse, x: 1 + x - worse),
        "The two outputs need not be 1 apart, as they are in the toy: divide by better - worse.",
        _kept_by(share=lambda better, worse, x: (1 + x) / better),
        "What attention leaves on the worse token counts too: its share is 1 - s.",
        _kept_by(share=lambda better, worse, x: (1 - worse) / (better - worse)),
        "The sequence balances u_min + Delta, not u_min alone: the lead of S is missing.",
        _kept_by(share=lambda better, worse, x: (x - worse) / (better - worse)),
        "The sequence balances u_min + Delta, not Delta alone: the output of S is missing.",
        lambda better, worse, *rest: 1.0 if worse < 1 else _kept(better, worse, *rest),
        "A worse token below the label margin may keep attention all the same. Solve for s there, too.",
        _kept_by(share=lambda better, worse, x: (1 + 1 / x - worse) / (better - worse)),
        "You used u_min / Delta. Divided by u_min, the balance reads ... = 1 + Delta / u_min.",
        _kept_by(share=lambda better, worse, x: (1 - x - worse) / (better - worse)),
        "Exponents of S add: u_min + Delta.",
        _kept_by(excess=lambda ratio, v, p: 1 / ratio),
        "Lengths are not leads: Delta = ||p|| / ||p_rel||, and u_min = ||v|| / ||v_mm||.",
        _kept_by(excess=lambda ratio, v, p: p / (ratio * v)),
        "The norms are exchanged: Delta = ||p|| / ||p_rel|| has the norm of p_rel below.",
        _kept_by(excess=lambda ratio, v, p: ratio * v / p),
        "omega is ||v|| / ||p||: a faster head leaves the smaller lead, so divide by it.",
        _kept_by(excess=lambda ratio, v, p: 1 / (ratio * p)),
        "The norm of v_mm is missing: u_min = ||v|| / ||v_mm||. In the toy it was 1.",
        _kept_by(excess=lambda ratio, v, p: v / ratio),
        "The norm of p_rel is missing: Delta = ||p|| / ||p_rel||.",
    ),
)

EXERCISES = [GRADIENT, RELAXED, SIDES, BORDER, KEPT]
