"""An answer that is no more than one of the inputs, or a number found in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from course.check.pattern.evidence import Evidence
from course.check.pattern.factors import quantities
from course.check.values import as_array

TAKEN: dict[str, Callable] = {
    "{}": lambda x: x,
    "-{}": lambda x: -x,
    "1 - {}": lambda x: 1 - x,
    "1 / {}": lambda x: 1 / x,
    "{} ** 2": lambda x: x**2,
    "log({})": lambda x: np.log(x),
    "exp({})": lambda x: np.exp(x),
    "{}[0]": lambda x: x[0],
    "{}[-1]": lambda x: x[-1],
    "{}[1]": lambda x: x[1],
    "{}[:, 0]": lambda x: x[:, 0],
    "{}[:, -1]": lambda x: x[:, -1],
    "{} transposed": lambda x: x.T,
    "the mean of each column of {}": lambda x: x.mean(0) if x.ndim > 1 else None,
    "the mean of each row of {}": lambda x: x.mean(-1) if x.ndim > 1 else None,
    "the sum of each column of {}": lambda x: x.sum(0) if x.ndim > 1 else None,
    "the sum of each row of {}": lambda x: x.sum(-1) if x.ndim > 1 else None,
    "the largest of each row of {}": lambda x: x.max(-1) if x.ndim > 1 else None,
    "the largest of each column of {}": lambda x: x.max(0) if x.ndim > 1 else None,
    "the place of the largest of each row of {}": lambda x: x.argmax(-1) if x.ndim > 1 else None,
    "the place of the largest of {}": lambda x: x.argmax() if x.ndim == 1 else None,
    "{} / norm({})": lambda x: x / np.linalg.norm(x),
    "-{} / norm({})": lambda x: -x / np.linalg.norm(x),
    "{} / norm({}) ** 2": lambda x: x / np.linalg.norm(x) ** 2,
    "np.median({})": np.median,
    "norm({}) ** 2": lambda x: np.sum(x * x),
    "1 / norm({})": lambda x: 1 / np.linalg.norm(x),
    "1 / norm({}) ** 2": lambda x: 1 / np.sum(x * x),
    "the largest singular value of {}": lambda x: np.linalg.norm(x, 2) if x.ndim == 2 else None,
    "the nuclear norm of {}": lambda x: np.linalg.norm(x, "nuc") if x.ndim == 2 else None,
}


def of_inputs(evidence: Evidence) -> str | None:
    """What of an input the learner's answer is, on every input, right or wrong."""
    failing = evidence.failing()
    if len(failing) < 2 or not evidence.telling:
        return None
    for words in _candidates(evidence, failing[0]):
        if evidence.holds(lambda index, words=words: _taken(evidence, index, words), every=True):
            return (
                f"your answer is {words[1].replace('{}', words[0]) if words[0] else words[1]} on every input"
            )
    return None


def _candidates(evidence: Evidence, index: int) -> Iterator[tuple[str, str]]:
    for name, value in zip(evidence.names, evidence.cases[index], strict=True):
        if not isinstance(value, str) and as_array(value) is not None:
            yield from ((name, words) for words in TAKEN)
    yield from (("", name) for name, _ in quantities(evidence.names, evidence.cases[index]))


def _taken(evidence: Evidence, index: int, words: tuple[str, str]) -> np.ndarray | None:
    name, form = words
    case = evidence.cases[index]
    if not name:
        found = dict(quantities(evidence.names, case)).get(form)
        return None if found is None else np.asarray(found)
    value = as_array(case[evidence.names.index(name)])
    try:
        taken = TAKEN[form](value.astype(float))
    except (TypeError, ValueError, IndexError, AttributeError, np.linalg.LinAlgError):
        return None
    return None if taken is None else np.asarray(taken)
