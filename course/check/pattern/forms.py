"""Forms of the right answer that a learner's may have: minus it, its square, its sum, its order reversed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from course.check.pattern.evidence import Evidence

Form = Callable[[np.ndarray], np.ndarray]


ENTRYWISE: dict[str, Form] = {
    "minus the right one": lambda x: -x,
    "the right one without its sign": np.abs,
    "minus the right one without its sign": lambda x: -np.abs(x),
    "the square of the right one": np.square,
    "the square root of the right one": np.sqrt,
    "1 divided by the right one": lambda x: 1 / x,
    "minus 1 divided by the right one": lambda x: -1 / x,
    "1 minus the right one": lambda x: 1 - x,
    "the natural logarithm of the right one": np.log,
    "minus the natural logarithm of the right one": lambda x: -np.log(x),
    "e to the power of the right one": np.exp,
    "e to the power of minus the right one": lambda x: np.exp(-x),
    "2 to the power of the right one": np.exp2,
    "log(1 + x) of the right x": np.log1p,
    "exp(x) - 1 of the right x": np.expm1,
    "1 / (1 + exp(-x)) of the right x": lambda x: 1 / (1 + np.exp(-x)),
    "the cosine of the right one": np.cos,
    "the arc cosine of the right one": np.arccos,
    "the sine of the right one": np.sin,
    "the tangent of the right one": np.tan,
    "the sign of the right one": np.sign,
    "the right one with 0 for what is negative": lambda x: np.maximum(x, 0),
    "the right one with 0 for what is positive": lambda x: np.minimum(x, 0),
    "the right one, but never below 1": lambda x: np.maximum(x, 1),
    "the right one, but never above 1": lambda x: np.minimum(x, 1),
    "the right one cut to the range 0 to 1": lambda x: np.clip(x, 0, 1),
    "the right one rounded to a whole number": np.round,
    "the right one rounded down": np.floor,
    "the right one rounded up": np.ceil,
}
ARRANGED: dict[str, Form] = {
    "the transpose of the right one": lambda x: x.T if x.ndim == 2 else np.swapaxes(x, -1, -2),
    "minus the transpose of the right one": lambda x: -x.T,
    "the right one, in reversed order": lambda x: x[::-1],
    "the right one, with its columns reversed": lambda x: x[:, ::-1],
    "the right one, sorted": lambda x: np.sort(x, axis=-1),
    "the right one, sorted from large to small": lambda x: -np.sort(-x, axis=-1),
    "the right one, moved on by one place": lambda x: np.roll(x, 1, axis=0),
    "the right one, moved back by one place": lambda x: np.roll(x, -1, axis=0),
    "the right one, its rows moved on by one place": lambda x: np.roll(x, 1, axis=1),
    "the right one, its rows moved back by one place": lambda x: np.roll(x, -1, axis=1),
    "the right one without its first entry": lambda x: x[1:],
    "the right one without its last entry": lambda x: x[:-1],
    "the running sum of the right one": lambda x: np.cumsum(x, axis=0),
    "the differences of the right one": lambda x: np.diff(x, axis=0),
    "the first entry of the right one, repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "the last entry of the right one, repeated": lambda x: np.broadcast_to(x[-1:], x.shape),
    "the diagonal of the right one": np.diagonal,
    "the right one with 0 off its diagonal": lambda x: np.diag(np.diagonal(x)),
    "the right one with 0 on its diagonal": lambda x: x - np.diag(np.diagonal(x)),
    "the right one with 0 above its diagonal": np.tril,
    "the right one with 0 below its diagonal": np.triu,
    "the symmetric part of the right one": lambda x: (x + x.T) / 2,
    "the antisymmetric part of the right one": lambda x: (x - x.T) / 2,
    "the right one plus its transpose": lambda x: x + x.T,
}
SCALED: dict[str, Form] = {
    "the right one divided by its length": lambda x: x / np.linalg.norm(x),
    "minus the right one divided by its length": lambda x: -x / np.linalg.norm(x),
    "the right one divided by the square of its length": lambda x: x / np.linalg.norm(x) ** 2,
    "the right one times its length": lambda x: x * np.linalg.norm(x),
    "the right one divided by its sum": lambda x: x / x.sum(),
    "the right one divided by its largest entry": lambda x: x / x.max(),
    "the right one divided by its largest entry without sign": lambda x: x / np.abs(x).max(),
    "the right one minus its mean": lambda x: x - x.mean(),
    "the right one minus its smallest entry": lambda x: x - x.min(),
    "the right one minus its largest entry": lambda x: x - x.max(),
    "the right one with each row divided by its length": lambda x: x / np.linalg.norm(x, axis=-1)[..., None],
    "the right one with each row divided by its sum": lambda x: x / x.sum(-1, keepdims=True),
    "the right one with each column divided by its length": lambda x: x / np.linalg.norm(x, axis=0),
    "the right one with each column divided by its sum": lambda x: x / x.sum(0),
    "the right one with the mean of each row taken off": lambda x: x - x.mean(-1, keepdims=True),
    "the right one with the mean of each column taken off": lambda x: x - x.mean(0),
}
_REDUCED: dict[str, Callable] = {
    "the sum of": np.sum,
    "the mean of": np.mean,
    "the largest of": np.max,
    "the smallest of": np.min,
    "the product of": np.prod,
    "the place of the largest of": np.argmax,
    "the place of the smallest of": np.argmin,
}


def _reductions() -> Iterator[tuple[str, Form]]:
    """Sums and so on over everything or an axis, in the right answer's shape or in a smaller one."""
    for words, take in _REDUCED.items():
        yield f"{words} the entries of the right one", take
        yield (
            f"{words} the entries of the right one, repeated",
            lambda x, take=take: np.broadcast_to(take(x), x.shape),
        )
        for axis, along in ((0, "each column"), (-1, "each row")):
            yield (
                f"{words} {along} of the right one",
                lambda x, take=take, axis=axis: take(x, axis=axis) if x.ndim > 1 else None,
            )
            yield (
                f"{words} {along} of the right one, repeated",
                lambda x, take=take, axis=axis: (
                    np.broadcast_to(np.expand_dims(take(x, axis=axis), axis), x.shape) if x.ndim > 1 else None
                ),
            )
    yield "the length of the right one", lambda x: np.linalg.norm(x) if x.ndim else None
    yield "the square of the length of the right one", lambda x: np.sum(x * x) if x.ndim else None
    yield "the sum of the right one's entries without sign", lambda x: np.abs(x).sum() if x.ndim else None
    yield "the first entry of the right one", lambda x: x[0]
    yield "the last entry of the right one", lambda x: x[-1]
    yield "the number of entries of the right one", lambda x: np.array(x.size)


def _of_arrays(take: Form) -> Form:
    """A form that needs more than one number."""
    return lambda x: take(x) if x.size > 1 else None


FORMS: list[tuple[str, Form]] = [
    *ENTRYWISE.items(),
    *((words, _of_arrays(take)) for words, take in [*ARRANGED.items(), *SCALED.items(), *_reductions()]),
]


def form(evidence: Evidence) -> str | None:
    """The form of the right answer that the learner's has wherever it is wrong."""
    failing = evidence.failing()
    if not _usable(evidence, failing):
        return None
    flipped = _complement(evidence)
    if flipped or all(
        evidence.right[index].dtype.kind == "b" and not evidence.right[index].ndim for index in failing
    ):
        return flipped  # a wrong yes is always the opposite of the right answer
    for words, take in FORMS:
        if evidence.holds(lambda index, take=take: applied(take, evidence.right[index])):
            return f"your answer is {words}"
    return None


def exchanged_values(evidence: Evidence) -> str | None:
    """Two values of a tuple, each in the other's place."""
    right = evidence.right[0]
    if not isinstance(right, tuple) or len(right) < 2:
        return None
    if not all(isinstance(given, tuple | list) and len(given) == len(right) for given in evidence.given):
        return None
    parts = [evidence.only(part) for part in range(len(right))]
    for one, other in itertools.combinations(parts, 2):
        if not all(one.wrong) or not one.telling or not other.telling:
            continue
        if one.holds(lambda index, one=other: one.right[index]) and other.holds(
            lambda index, one=one: one.right[index]
        ):
            return f"values {one.part + 1} and {other.part + 1} of your answer are exchanged"
    return None


def _complement(evidence: Evidence) -> str | None:
    """True and False exchanged everywhere; not seen by the arithmetic of the other forms."""
    every = range(len(evidence.cases))
    pairs = [(evidence.right[index], evidence.given[index]) for index in every]
    if all(
        given is not None and right.dtype.kind == given.dtype.kind == "b" and right.shape == given.shape
        for right, given in pairs
    ):
        entries = sum(right.size for right, _ in pairs)
        if entries >= 6 and all((right != given).all() for right, given in pairs):
            return "your answer says True where False is right, and False where True is"
    return None


def _usable(evidence: Evidence, failing: list[int]) -> bool:
    return len(failing) >= 2 and all(
        evidence.right[index] is not None and evidence.given[index] is not None for index in failing
    )


def applied(take: Form, value: np.ndarray) -> np.ndarray | None:
    """A form of one value; None where it has none."""
    try:
        with np.errstate(all="ignore"):
            made = take(value if value.dtype.kind == "b" else value.astype(float))
    except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):
        return None
    return None if made is None else np.asarray(made)
