"""Exercises of lesson 07: local and global winners."""

import itertools

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


# --------------------------------------------------------------------------- 07.1 all choices
def _choices(n, T):
    return np.array(list(itertools.product(range(T), repeat=n)))


CHOICES = Exercise(
    id="07.1",
    title="All choices",
    points=1,
    minutes=5,
    difficulty=1,
    reference=_choices,
    cases=lambda rng: [(2, 3), (3, 2), (1, 4), tuple(map(int, rng.integers(2, 6, size=2)))],
    misconceptions=known(
        lambda n, T: np.array(list(itertools.permutations(range(T), n))),
        "Two sequences may choose the same token number: repetitions are allowed, T**n rows in all.",
        lambda n, T: np.array(list(itertools.combinations_with_replacement(range(T), n))),
        "(0, 1) and (1, 0) are two different choices: sequence 0 takes token 0 or token 1.",
        lambda n, T: _choices(n, T)[:, ::-1],
        "These are the right rows in another order: let the last sequence's token change fastest.",
        lambda n, T: _choices(T, n),
        "You swapped n and T: a row has n entries, each one of T tokens.",
        lambda n, T: np.repeat(np.arange(T)[:, None], n, axis=1),
        "You chose the same token number in every sequence. Each chooses for itself.",
        lambda n, T: _choices(n, T) + 1,
        "Count tokens from 0, as Python does.",
        lambda n, T: _choices(n, T).T,
        "Your array is transposed: one row for each choice, (T**n, n).",
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


def _step_cases(rng):
    cases, drawn = [], _feasible(rng, 1, 6, 3)
    while len(cases) < 4:
        keys, selected, p_mm = next(drawn)
        alpha = int(selected[0])
        logits = torch.as_tensor(keys @ p_mm)
        support = geometry.support_tokens(logits, torch.as_tensor(selected))[0].numpy().nonzero()[0]
        if len(support) < 2:
            continue
        gaps = rng.uniform(0.2, 1, size=6)
        gaps[alpha] = 0
        if len(cases) < 3:
            gaps[support[0]] *= -0.5  # the better one, so that signs matter from the first case on
        cases.append((keys[0], rng.uniform(0.3, 0.6) - gaps, alpha, p_mm))
    return cases


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
        "You summed over all tokens. Far out only support tokens, with margin 1, still exert a force.",
        _step_by(lambda own, other: np.ones_like(other)),
        "Each force is in proportion to its score gap gamma_alpha - gamma_t; you weighed all alike.",
        _step_by(lambda own, other: abs(own - other)),
        "Keep the sign of the score gap: a support token that scores higher pulls p away.",
        _step_by(lambda own, other: np.clip(own - other, 0, None)),
        "You left out support tokens that score higher than alpha. They pull, the other way.",
        _step_by(lambda own, other: own - other, normalise=False),
        "The direction is right, its length is not: return a unit vector.",
        lambda keys, scores, alpha, p_mm: p_mm / np.linalg.norm(p_mm),
        "That is the Att-SVM's direction, the limit of many steps. One step is weighed by score gaps.",
    ),
)


# --------------------------------------------------------------------------- 07.3 did it hold?
def _same(p, keys, selected):
    return np.einsum("cntd,cd->cnt", keys, p).argmax(axis=-1) == selected  # (C, n)


def _longer(p, start):
    return np.linalg.norm(p, axis=-1) > np.linalg.norm(start, axis=-1)


def _held(p, start, keys, selected):
    return _same(p, keys, selected).all(axis=-1) & _longer(p, start)


def _held_cases(rng):
    """Six runs a case: they keep all tokens or none, lose the first or the last, and go out or come back."""
    cases = []
    for n, T, d in ((2, 3, 2), (3, 4, 3), (4, 3, 5)):
        start = rng.normal(size=(6, d))
        keys = rng.normal(size=(6, n, T, d))
        p = start * np.array([2, 2, 2, 0.5, 0.5, 2])[:, None]
        p = p + 0.05 * rng.normal(size=p.shape) * np.linalg.norm(p, axis=-1, keepdims=True)
        selected = np.einsum("cntd,cd->cnt", keys, p).argmax(axis=-1)
        selected[1, 0] = (selected[1, 0] + 1) % T  # one sequence went elsewhere
        selected[2, -1] = (selected[2, -1] + 1) % T
        selected[4] = (selected[4] + 1) % T
        selected[5] = (selected[5] + 1) % T
        cases.append((p, start, keys, selected))
    return cases


HELD = Exercise(
    id="07.3",
    title="Did it hold?",
    points=2,
    minutes=8,
    difficulty=1,
    reference=_held,
    cases=_held_cases,
    misconceptions=known(
        lambda p, start, keys, selected: _same(p, keys, selected).any(axis=-1) & _longer(p, start),
        "One sequence that keeps its token is not enough: all of them have to.",
        lambda p, start, keys, selected: _longer(p, start),
        "You compared lengths only. Every sequence also has to keep its token.",
        lambda p, start, keys, selected: _same(p, keys, selected).all(axis=-1),
        "You forgot the length: p also has to be longer at the end than at the start.",
        lambda p, start, keys, selected: _same(p, keys, selected)[:, 0] & _longer(p, start),
        "You looked at the first sequence only. All n have to keep their token.",
        lambda p, start, keys, selected: _same(p, keys, selected) & _longer(p, start)[:, None],
        "One answer for each run, (C,): combine the sequences with .all(axis=-1).",
        lambda p, start, keys, selected: _same(p, keys, selected).all(axis=-1) & ~_longer(p, start),
        "Your comparison of lengths is the wrong way round: a choice that holds leads further out.",
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
    minutes=10,
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
    """Ten trials a case: decided or not, in one sequence or all, with all, some or none of the best."""
    cases = []
    for n, T in ((2, 3), (3, 4), (4, 5)):
        scores = rng.uniform(-1, 1, size=(10, n, T))
        selected = scores.argmax(axis=-1)
        selected[[2, 3, 6], 0] = (selected[[2, 3, 6], 0] + 1) % T  # one sequence has not the best
        selected[[4, 7]] = (selected[[4, 7]] + 1) % T  # none has
        scores[[8, 9], 0, 0] = scores[[8, 9], 0].max(axis=-1)  # two tokens share the best score
        scores[[8, 9], 0, -1] = scores[[8, 9], 0, 0]
        selected[[8, 9], 0] = 0, T - 1
        share = np.full((10, n), 0.999)
        share[[1, 3], -1] = 0.9  # one sequence undecided
        share[[5, 7]] = 0.6
        attention = np.repeat((1 - share)[..., None] / (T - 1), T, axis=-1)
        np.put_along_axis(attention, selected[..., None], share[..., None], axis=-1)
        cases.append((attention, scores))
    return cases


OUTCOMES = Exercise(
    id="07.5",
    title="What did it come to?",
    points=2,
    minutes=8,
    difficulty=2,
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
        _outcomes_by(words=(0, 2, 1)),
        "You swapped the codes: 2 is global, 1 is other.",
        lambda *args: [("undecided", "other", "global")[code] for code in _outcomes(*args)],
        "Return the numbers 0, 1, 2 in place of the words.",
    ),
)


EXERCISES = [CHOICES, STEP, HELD, CONE, OUTCOMES]
