"""Exercises of lesson 07: local and global winners."""

import itertools

import numpy as np
import torch

from course.specification import Exercise, Misconception
from mini_attn import geometry, svm


def _feasible(rng, n, T, d):
    """Random keys, the tokens that a random p likes best, and the solution of their Att-SVM."""
    keys = rng.normal(size=(n, T, d))
    selected = (keys @ rng.normal(size=d)).argmax(axis=1)
    p_mm = svm.solve(svm.token_problem(torch.as_tensor(keys), torch.as_tensor(selected))).value.numpy()
    return keys, selected, p_mm


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
    misconceptions=[
        Misconception(
            lambda n, T: np.array(list(itertools.permutations(range(T), n))),
            "Two sequences may choose the same token number: repetitions are allowed, T**n rows in all.",
        ),
        Misconception(
            lambda n, T: np.array(list(itertools.combinations_with_replacement(range(T), n))),
            "(0, 1) and (1, 0) are two different choices: sequence 0 takes token 0 or token 1.",
        ),
        Misconception(
            lambda n, T: _choices(n, T)[:, ::-1],
            "These are the right rows in another order: let the last sequence's token change fastest.",
        ),
        Misconception(
            lambda n, T: _choices(T, n),
            "You swapped n and T: a row has n entries, each one of T tokens.",
        ),
        Misconception(
            lambda n, T: np.repeat(np.arange(T)[:, None], n, axis=1),
            "You chose the same token number in every sequence. Each chooses for itself.",
        ),
        Misconception(lambda n, T: _choices(n, T) + 1, "Count tokens from 0, as Python does."),
        Misconception(
            lambda n, T: _choices(n, T).T,
            "Your array is transposed: one row for each choice, (T**n, n).",
        ),
    ],
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


_first_step_answer = _step_by(lambda own, other: own - other)


def _first_step(keys, scores, alpha, p_mm):
    return _first_step_answer(keys, scores, alpha, p_mm)


def _step_cases(rng):
    cases = []
    while len(cases) < 4:
        keys, selected, p_mm = _feasible(rng, 1, 6, 3)
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
    misconceptions=[
        Misconception(
            lambda *args: -_first_step_answer(*args),
            "This is the gradient. Descent goes the other way: along k_alpha - k_t where t is worse.",
        ),
        Misconception(
            _step_by(lambda own, other: own - other, near=np.isfinite),
            "You summed over all tokens. Far out only support tokens, with margin 1, still exert a force.",
        ),
        Misconception(
            _step_by(lambda own, other: np.ones_like(other)),
            "Each force is in proportion to its score gap gamma_alpha - gamma_t; you weighed all alike.",
        ),
        Misconception(
            _step_by(lambda own, other: abs(own - other)),
            "Keep the sign of the score gap: a support token that scores higher pulls p away.",
        ),
        Misconception(
            _step_by(lambda own, other: np.clip(own - other, 0, None)),
            "You left out support tokens that score higher than alpha. They pull, the other way.",
        ),
        Misconception(
            _step_by(lambda own, other: own - other, normalise=False),
            "The direction is right, its length is not: return a unit vector.",
        ),
        Misconception(
            lambda keys, scores, alpha, p_mm: p_mm / np.linalg.norm(p_mm),
            "That is the Att-SVM's direction, the limit of many steps. One step is weighed by score gaps.",
        ),
    ],
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
    misconceptions=[
        Misconception(
            lambda p, start, keys, selected: _same(p, keys, selected).any(axis=-1) & _longer(p, start),
            "One sequence that keeps its token is not enough: all of them have to.",
        ),
        Misconception(
            lambda p, start, keys, selected: _same(p, keys, selected).all(axis=-1),
            "You forgot the length: p also has to be longer at the end than at the start.",
        ),
        Misconception(
            lambda p, start, keys, selected: _same(p, keys, selected)[:, 0] & _longer(p, start),
            "You looked at the first sequence only. All n have to keep their token.",
        ),
        Misconception(
            lambda p, start, keys, selected: _same(p, keys, selected) & _longer(p, start)[:, None],
            "One answer for each run, (C,): combine the sequences with .all(axis=-1).",
        ),
        Misconception(
            lambda p, start, keys, selected: _same(p, keys, selected).all(axis=-1) & ~_longer(p, start),
            "Your comparison of lengths is the wrong way round: a choice that holds leads further out.",
        ),
    ],
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


_cone_answer = _cone_by()


def _cone(keys, selected, p_mm):
    return _cone_answer(keys, selected, p_mm)


def _support_only(rows, p_mm):
    margins = rows @ p_mm
    near = np.isclose(margins, 1, atol=1e-6)
    return (margins / np.linalg.norm(rows, axis=1))[near] / np.linalg.norm(p_mm)


def _narrow(keys, selected, p_mm):
    """Whether a comparison that is not tight decides, and no margin is so large that clipping hides it."""
    return _cone(keys, selected, p_mm) < 0.97 * _cone_by(sine=_support_only)(keys, selected, p_mm)


def _cone_cases(rng):
    cases = []
    for n, T, d in ((1, 5, 2), (2, 4, 3), (3, 4, 6)):
        while not _narrow(*(case := _feasible(rng, n, T, d))) or np.linalg.norm(case[-1]) < 1.2:
            pass
        cases.append(case)
    return cases


CONE = Exercise(
    id="07.4",
    title="The cone in which a choice is ahead",
    points=3,
    minutes=10,
    difficulty=2,
    reference=_cone,
    cases=_cone_cases,
    misconceptions=[
        Misconception(
            lambda *args: np.radians(_cone_answer(*args)),
            "Your angle is right, in radians. Return degrees: np.degrees(...).",
        ),
        Misconception(
            _cone_by(angle=np.arccos, pick=np.max),
            "arccos gives an angle to the comparison itself. You need the one to the plane p.a = 0: arcsin.",
        ),
        Misconception(
            _cone_by(pick=np.max),
            "You took the widest comparison. All have to stay positive, so the narrowest decides.",
        ),
        Misconception(
            _cone_by(sine=lambda rows, p_mm: rows @ p_mm / np.linalg.norm(p_mm)),
            "Divide by the length of each comparison as well: the sine of an angle is between unit vectors.",
        ),
        Misconception(
            _cone_by(sine=lambda rows, p_mm: rows @ p_mm / np.linalg.norm(rows, axis=1)),
            "Divide by the length of p_mm as well: the sine of an angle is between unit vectors.",
        ),
        Misconception(
            _cone_by(sine=_support_only),
            "You looked at support tokens only. A longer comparison can be narrower, tight or not.",
        ),
    ],
)


# --------------------------------------------------------------------------- 07.5 in one word
def _outcomes_by(decide=np.all, best=np.all, threshold=0.99, words=(0, 1, 2)):
    def answer(attention, scores):
        selected = attention.argmax(axis=-1)[..., None]
        top = np.take_along_axis(scores, selected, axis=-1)[..., 0] == scores.max(axis=-1)
        decided = decide(attention.max(axis=-1) > threshold, axis=-1)
        return np.where(decided, np.where(best(top, axis=-1), words[2], words[1]), words[0])

    return answer


_outcomes_answer = _outcomes_by()


def _outcomes(attention, scores):
    return _outcomes_answer(attention, scores)


def _outcome_cases(rng):
    """Eight trials a case: decided or not, in one sequence or all, with all, some or none of the best."""
    cases = []
    for n, T in ((2, 3), (3, 4), (4, 5)):
        scores = rng.uniform(-1, 1, size=(8, n, T))
        selected = scores.argmax(axis=-1)
        selected[[2, 3, 6], 0] = (selected[[2, 3, 6], 0] + 1) % T  # one sequence has not the best
        selected[[4, 7]] = (selected[[4, 7]] + 1) % T  # none has
        share = np.full((8, n), 0.999)
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
    misconceptions=[
        Misconception(
            _outcomes_by(threshold=0),
            "You never return 0: a trial in which some sequence keeps its attention soft is undecided.",
        ),
        Misconception(
            _outcomes_by(decide=np.any),
            "One decided sequence is not enough: a trial is undecided if any of its sequences is.",
        ),
        Misconception(
            _outcomes_by(best=np.any),
            "One best token is not enough: a trial is global if every sequence selects its best.",
        ),
        Misconception(
            _outcomes_by(words=(0, 2, 1)),
            "You swapped the codes: 2 is global, 1 is local.",
        ),
    ],
)


EXERCISES = [CHOICES, STEP, HELD, CONE, OUTCOMES]
