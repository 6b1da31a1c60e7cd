"""Exercises of lesson 07: local and global winners."""

import numpy as np
import torch

from course.check.specification import Exercise, known
from mini_attn import geometry, svm


def _feasible(rng, n, T, d):
    """Random keys, the tokens that a random p likes best, and the solution of their Att-SVM; without end."""
    while True:
        keys, p = rng.normal(size=(32, n, T, d)), rng.normal(size=(32, d))
        selected = np.einsum("cntd,cd->cnt", keys, p).argmax(axis=-1)
        solved = svm.solve(svm.token_problem(torch.as_tensor(keys), torch.as_tensor(selected)))
        yield from zip(keys, selected, solved.value.numpy(), strict=True)


# --------------------------------------------------------------------------- 07.1 how many winners
def _expected_winners(tight):
    return float((1 / (tight + 1)).prod(axis=1).sum())


WINNERS = Exercise(
    id="07.1",
    title="How many local winners to expect",
    points=2,
    minutes=8,
    difficulty=2,
    reference=_expected_winners,
    cases=lambda rng: [
        (np.array([[1, 2], [0, 3]]),),
        *((rng.integers(0, 5, size=size),) for size in ((4, 3), (9, 2), (6, 4))),
    ],
    misconceptions=known(
        lambda tight: float((0.5**tight).prod(axis=1).sum()),
        "You took each comparison for a coin of its own. They share the score of alpha: among k + 1 equally "
        "good tokens it is the best with probability 1 / (k + 1).",
        lambda tight: float((1 / (tight.sum(axis=1) + 1)).sum()),
        "You threw the sequences together. Each alpha_i has to beat its own support tokens only: multiply "
        "over the sequences.",
        lambda tight: float((1 / (tight + 1)).sum()),
        "A choice is locally optimal if all its sequences are: multiply over the sequences, then add up the "
        "choices.",
        lambda tight: float((1 / (tight + 1)).prod(axis=1).mean()),
        "That is the share of the choices. Return their number: the sum.",
        lambda tight: float((1 / np.maximum(tight, 1)).prod(axis=1).sum()),
        "With k support tokens there are k + 1 candidates, alpha among them: 1 / (k + 1).",
        lambda tight: float((1 / (tight + 1)).prod(axis=0).sum()),
        "Multiply along the rows: a row is a choice, a column a sequence.",
        lambda tight: float((1 / (tight + 1)).prod()),
        "You multiplied over the choices too. Their numbers add up.",
        lambda tight: float((tight / (tight + 1)).prod(axis=1).sum()),
        "That is the probability that every alpha_i is beaten. It is to be the best: 1 / (k + 1).",
    ),
)


# --------------------------------------------------------------------------- 07.2 the first step far out
def _step_by(weights, near=lambda margins: np.isclose(margins, 1, atol=1e-6), normalise=True):
    """An answer: sum of weights(own score, scores) (k_alpha - k_t) over the tokens that are `near`."""

    def answer(keys, scores, alpha, p_mm):
        ahead = keys[alpha] - keys
        mask = near(ahead @ p_mm)
        step = np.where(mask, weights(scores[alpha], scores), 0) @ ahead
        return step / np.linalg.norm(step) if normalise else step

    return answer


_first_step = _step_by(lambda own, other: own - other)


def _nearly_tight(rng):
    """Two tight comparisons on either side of p_mm, two that are tight but for a little, one far behind."""
    p_mm = rng.normal(size=3)
    ray, across = p_mm / (p_mm @ p_mm), rng.normal(size=(2, 3))
    across -= np.outer(across @ p_mm, ray)
    leads = np.array([0, 1, 1, rng.uniform(1.01, 1.02), rng.uniform(1.04, 1.07), 2.5])
    lean = rng.uniform(0.4, 1, size=6) * np.array([0, 1, -1, 0, 0, 0])
    rows = np.outer(leads, ray) + np.outer(lean, across[0])
    rows[3:] += np.outer(rng.uniform(0.4, 1, size=3), across[1])
    order = rng.permutation(6)
    differences = np.concatenate([[0.0], rng.uniform(0.2, 1, size=5) * np.array([1, -0.5, 1, -1, 1])])
    keys, scores = (rng.normal(size=3) - rows)[order], (rng.uniform(0.3, 0.6) - differences)[order]
    return keys, scores, int(order.argmin()), p_mm


def _step_cases(rng):
    cases, drawn = [], _feasible(rng, 1, 6, 3)
    while len(cases) < 3:
        keys, selected, p_mm = next(drawn)
        alpha = int(selected[0])
        logits = torch.as_tensor(keys @ p_mm)
        support = geometry.support_tokens(logits, torch.as_tensor(selected))[0].numpy().nonzero()[0]
        if len(support) < 2:
            continue
        gaps = rng.uniform(0.2, 1, size=6)
        gaps[alpha] = 0
        if len(cases) < 2:
            gaps[support[0]] *= -0.5  # the better one, so that signs matter from the first case on
        cases.append((keys[0], rng.uniform(0.3, 0.6) - gaps, alpha, p_mm))
    return [*cases, _nearly_tight(rng), _nearly_tight(rng)]


STEP = Exercise(
    id="07.2",
    title="The first step far out",
    points=3,
    minutes=10,
    difficulty=2,
    reference=_first_step,
    cases=_step_cases,
    misconceptions=known(
        lambda *args: -_first_step(*args),
        "This is the gradient. Descent goes the other way: along k_alpha - k_t where t is worse.",
        _step_by(lambda own, other: own - other, near=np.isfinite),
        "You summed over all tokens. Far out only support tokens, with lead 1, still exert a force.",
        _step_by(lambda own, other: np.ones_like(other)),
        "Each force is in proportion to its difference gamma_alpha - gamma_t; you weighed all alike.",
        _step_by(lambda own, other: own - other, near=lambda margins: np.abs(margins - 1) < 0.1),
        "Your tolerance is too wide: a token with lead 1.05 is no support token. Use 1e-6.",
        _step_by(lambda own, other: own - other, near=lambda margins: np.abs(margins - 1) < 0.03),
        "Your tolerance is too wide: a token with lead 1.015 is no support token. Use 1e-6.",
        _step_by(lambda own, other: other),
        "Forces are in proportion to differences of scores, gamma_alpha - gamma_t, not to the scores.",
        _step_by(lambda own, other: abs(own - other)),
        "Keep the sign of the difference: a support token that scores higher pulls p away.",
        _step_by(lambda own, other: np.clip(own - other, 0, None)),
        "You left out support tokens that score higher than alpha. They pull, the other way.",
        _step_by(lambda own, other: own - other, normalise=False),
        "The direction is right, its length is not: return a unit vector.",
        lambda keys, scores, alpha, p_mm: p_mm / np.linalg.norm(p_mm),
        "That is the Att-SVM's direction, the limit of many steps. One step weighs by differences of scores.",
    ),
)


# --------------------------------------------------------------------------- 07.3 how good may it be?
def _harmless_by(balance, total=lambda own, second, third: own + second + third):
    """An answer: total(own score, c_2, c_3), both at p_2 = balance(a, b, c_2, c_3 at p_2 = 0)."""

    def answer(a, b, scores):
        second, third = scores[0] - scores[1], scores[0] - scores[2]
        p2 = balance(a, b, second, third)
        return float(total(scores[0], second * np.exp(-a * p2), third * np.exp(b * p2)))

    return answer


def _balance(a, b, second, third):
    return np.log(a * second / (b * third)) / (a + b)


def _harmless_cases(rng):
    cases = []
    for _ in range(4):
        a, b = rng.permutation([rng.uniform(0.3, 0.8), rng.uniform(1.2, 2)])
        own = rng.uniform(0.3, 0.7)
        worse = own - rng.permutation([rng.uniform(0.1, 0.3), rng.uniform(0.5, 1)])
        cases.append((float(a), float(b), np.array([own, *worse])))
    return cases


HARMLESS = Exercise(
    id="07.3",
    title="A better support token that does no harm",
    points=3,
    minutes=12,
    difficulty=3,
    reference=_harmless_by(_balance),
    cases=_harmless_cases,
    misconceptions=known(
        lambda a, b, scores: float(scores[0]),
        "That would be so in general position. Here tokens 2 and 3 push forward too and can make up for it.",
        _harmless_by(lambda *args: 0.0),
        "On the ray itself, p_2 = 0, the forces across it do not balance: find the p_2 at which they do.",
        _harmless_by(_balance, lambda own, second, third: second + third),
        "You returned gamma_4 - gamma_1. Add the score of token 1.",
        _harmless_by(lambda a, b, second, third: -_balance(a, b, second, third)),
        "p_2 has the wrong sign: where p_2 grows, token 2, with comparison (1, a), falls further behind, and "
        "its force is weaker.",
        _harmless_by(lambda a, b, second, third: np.log(second / third) / (a + b)),
        "The forces across the ray are a c_2 and -b c_3: a and b stand before the exponentials too.",
        _harmless_by(lambda a, b, second, third: np.log(a / b) / (a + b)),
        "The forces are in proportion to gamma_1 - gamma_2 and gamma_1 - gamma_3 too.",
        _harmless_by(lambda a, b, second, third: np.log(a * second / (b * third))),
        "a c_2 = b c_3 gives exp((a + b) p_2) = ...: divide the logarithm by a + b.",
        _harmless_by(lambda a, b, second, third: np.log(b * second / (a * third)) / (a + b)),
        "Across the ray token 2 pushes with a c_2 and token 3 with b c_3: you exchanged a and b.",
        _harmless_by(_balance, lambda own, second, third: own + max(second, third)),
        "Both tokens push forward: add c_2 and c_3.",
    ),
)


# --------------------------------------------------------------------------- 07.4 the cone
def _rows(keys, selected):
    return svm.token_problem(torch.as_tensor(keys), torch.as_tensor(selected)).a.numpy()


def _cone_by(angle=np.arcsin, pick=np.min, sine=None):
    """An answer: the picked sine of the comparisons, turned into an angle in degrees."""

    def answer(keys, selected, p_mm):
        rows, length = _rows(keys, selected), np.linalg.norm(p_mm)
        sines = rows @ p_mm / np.linalg.norm(rows, axis=1) / length if sine is None else sine(rows, p_mm)
        return np.degrees(angle(np.clip(pick(sines), -1, 1)))

    return answer


_cone = _cone_by()


def _support_only(rows, p_mm):
    near = np.isclose(rows @ p_mm, 1, atol=1e-6)
    return 1 / np.linalg.norm(rows[near], axis=1) / np.linalg.norm(p_mm)


def _unclipped(keys, selected, p_mm):
    """The angle of each comparison, then the least: NaN where rounding has lifted a sine above 1."""
    angles = [np.arcsin(p_mm / np.linalg.norm(p_mm) @ a / np.linalg.norm(a)) for a in _rows(keys, selected)]
    return np.degrees(np.min(angles))


def _with_own_row(keys, selected, p_mm):
    """All T rows of each sequence, the one of length 0 as well: 0 / 0 is NaN."""
    own = np.take_along_axis(keys, selected[:, None, None], axis=1)
    rows = (own - keys).reshape(-1, keys.shape[-1])
    return np.degrees(np.arcsin(np.min(rows @ p_mm / np.linalg.norm(rows, axis=1) / np.linalg.norm(p_mm))))


def _straight_ahead(rng):
    """One support token and 30 more straight behind it, with sines of 1 up to rounding; one narrower token.

    So many that a sine above 1 is among them in whichever order an answer multiplies and divides.
    """
    while True:
        p_mm = rng.normal(size=3)
        p_mm *= rng.uniform(0.6, 0.8) / np.linalg.norm(p_mm)
        ray = p_mm / (p_mm @ p_mm)  # the shortest vector with margin 1
        across = np.cross(p_mm, rng.normal(size=3))
        narrow = 1.2 * ray + across * rng.uniform(2, 3) / np.linalg.norm(across)
        ahead = np.vstack([narrow, ray, np.outer(rng.uniform(1.1, 3, size=30), ray), 0 * ray])
        order = rng.permutation(len(ahead))
        keys, selected = (rng.normal(size=3) - ahead)[order][None], order.argmax(keepdims=True)
        rows, unit = _rows(keys, selected), p_mm / np.linalg.norm(p_mm)
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        if min((rows @ unit / np.linalg.norm(rows, axis=1)).max(), (units @ unit).max()) > 1:
            return keys, selected, p_mm


def _narrow(keys, selected, p_mm):
    """Whether a comparison that is not tight decides, and no margin is so large that clipping hides it."""
    return _cone(keys, selected, p_mm) < 0.97 * _cone_by(sine=_support_only)(keys, selected, p_mm)


def _cone_cases(rng):
    cases = [_straight_ahead(rng)]
    for n, T, d in ((1, 5, 2), (2, 4, 3), (3, 4, 6)):
        drawn = _feasible(rng, n, T, d)
        cases.append(next(case for case in drawn if _narrow(*case) and np.linalg.norm(case[-1]) >= 1.2))
    return cases


CONE = Exercise(
    id="07.4",
    title="The cone in which a choice is ahead",
    points=3,
    minutes=8,
    difficulty=2,
    reference=_cone,
    cases=_cone_cases,
    misconceptions=known(
        _unclipped,
        "arcsin of more than 1 is NaN. A token straight ahead has the sine 1, or 1 + 2e-16 by rounding: "
        "clip the sines to 1 before arcsin.",
        _with_own_row,
        "0 / 0 is NaN: leave out the comparison of the selected token with itself, whose length is 0.",
        lambda *args: np.radians(_cone(*args)),
        "Your angle is right, in radians. Return degrees: np.degrees(...).",
        _cone_by(angle=np.arccos, pick=np.max),
        "arccos gives an angle to the comparison itself. You need the one to the plane p.a = 0: arcsin.",
        _cone_by(pick=np.max),
        "You took the widest comparison. All have to stay positive, so the narrowest decides.",
        _cone_by(sine=lambda rows, p_mm: rows @ p_mm / np.linalg.norm(p_mm)),
        "Divide by the length of each comparison as well: the sine of an angle is between unit vectors.",
        _cone_by(sine=lambda rows, p_mm: rows @ p_mm / np.linalg.norm(rows, axis=1)),
        "Divide by the length of p_mm as well: the sine of an angle is between unit vectors.",
        _cone_by(sine=lambda rows, p_mm: rows @ p_mm),
        "Divide by both lengths, of the comparison and of p_mm: the sine is between unit vectors.",
        _cone_by(sine=_support_only),
        "You looked at support tokens only. A longer comparison can be narrower, tight or not.",
    ),
)


# --------------------------------------------------------------------------- 07.5 in one word
def _parts(attention, scores, threshold=0.99):
    """For each sequence, (trials, n): is it decided, and does the selected token have its best score?"""
    own = np.take_along_axis(scores, attention.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    return attention.max(axis=-1) > threshold, own == scores.max(axis=-1)


def _outcomes_by(decide=np.all, best=np.all, threshold=0.99, words=(0, 1, 2)):
    def answer(attention, scores):
        decided, top = _parts(attention, scores, threshold)
        word = np.where(best(top, axis=-1), words[2], words[1])
        return np.where(decide(decided, axis=-1), word, words[0])

    return answer


_outcomes = _outcomes_by()


def _global_first(attention, scores):
    decided, top = _parts(attention, scores)
    return np.where(top.all(axis=-1), 2, decided.all(axis=-1))


def _first_of_equals(attention, scores):
    decided, _ = _parts(attention, scores)
    best = attention.argmax(axis=-1) == scores.argmax(axis=-1)
    return np.where(decided.all(axis=-1), 1 + best.all(axis=-1), 0)


def _outcome_cases(rng):
    """Sixteen trials a case: decided or not, in one sequence or all, with all, some or none of the best."""
    cases = []
    for n, T in ((2, 3), (3, 4), (4, 5)):
        scores = rng.uniform(0.1, 1, size=(16, n, T))
        selected = scores.argmax(axis=-1)
        selected[[2, 3, 6], 0] = (selected[[2, 3, 6], 0] + 1) % T  # one sequence has not the best
        selected[10, -1] = (selected[10, -1] + 1) % T
        selected[[4, 7]] = (selected[[4, 7]] + 1) % T  # none has
        scores[[8, 9], 0, 0] = scores[[8, 9], 0].max(axis=-1)  # two tokens share the best score
        scores[[8, 9], 0, -1] = scores[[8, 9], 0, 0]
        selected[[8, 9], 0] = 0, T - 1
        second = (selected[11, 0] + 1) % T
        scores[11, 0, second] = 1.001 * scores[11, 0].max()  # nearly the best is not the best
        share = np.full((16, n), 0.999)
        share[[1, 3, 12], -1] = 0.9, 0.9, 0.95  # one sequence undecided
        share[[5, 7]] = 0.6
        share[13, 0] = 0.985  # one undecided, but not on average, nor if two tokens count
        share[14, -1] = 0.985
        share[15, -1] = 0.99  # not more than 0.99
        attention = np.repeat((1 - share)[..., None] / (T - 1), T, axis=-1)
        np.put_along_axis(attention, selected[..., None], share[..., None], axis=-1)
        order = rng.permutation(16)
        cases.append((attention[order], scores[order]))
    return cases


OUTCOMES = Exercise(
    id="07.5",
    title="What did it come to?",
    points=2,
    minutes=6,
    difficulty=1,
    reference=_outcomes,
    withheld=("mini_attn.geometry.outcome",),
    cases=_outcome_cases,
    misconceptions=known(
        _global_first,
        "Undecided comes first: 0 where a sequence is soft, even if every highest attention is at the best.",
        _outcomes_by(threshold=0),
        "You never return 0: a trial in which some sequence keeps its attention soft is undecided.",
        _outcomes_by(decide=np.any),
        "One decided sequence is not enough: a trial is undecided if any of its sequences is.",
        _outcomes_by(best=np.any),
        "One best token is not enough: a trial is global if every sequence selects its best.",
        _first_of_equals,
        "Two tokens may share the best score, and argmax names the first only: compare scores, not places.",
        _outcomes_by(threshold=0.9),
        "Undecided is everything up to 0.99: an attention of 0.95 is no decision.",
        _outcomes_by(decide=lambda decided, axis: decided[:, 0]),
        "You looked at the first sequence only when you asked whether a trial is decided.",
        _outcomes_by(best=lambda top, axis: top[:, 0]),
        "You looked at the first sequence only when you asked for the best tokens.",
        lambda attention, scores: np.where(
            attention.max(-1).mean(-1) > 0.99, _outcomes_by(threshold=0)(attention, scores), 0
        ),
        "Every sequence has to be decided, not their mean.",
        _outcomes_by(words=(0, 2, 1)),
        "You swapped the codes: 2 is global, 1 is other.",
        lambda *args: [("undecided", "other", "global")[code] for code in _outcomes(*args)],
        "Return the numbers 0, 1, 2 in place of the words.",
    ),
)


EXERCISES = [WINNERS, STEP, HARMLESS, CONE, OUTCOMES]
