"""A factor, or a number added, by which an answer differs from the right one: 2, n, 1/eta, norm(w), ..."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from course.check.pattern.evidence import Evidence
from course.check.values import as_array

CONSTANTS = {
    1.0: "1",
    2.0: "2",
    0.5: "1/2",
    3.0: "3",
    1 / 3: "1/3",
    4.0: "4",
    0.25: "1/4",
    2 / 3: "2/3",
    1.5: "3/2",
    np.pi: "pi",
    2 * np.pi: "2 pi",
    1 / np.sqrt(2): "1/sqrt(2)",
    np.sqrt(2): "sqrt(2)",
}
NAMED = {
    **CONSTANTS,
    1 / np.log(10): "1/log(10) (base 10 in place of e)",
    np.log(10): "log(10)",
    1 / np.log(2): "1/log(2) (base 2 in place of e)",
    np.log(2): "log(2)",
    180 / np.pi: "180/pi (degrees in place of radians)",
    np.pi / 180: "pi/180 (radians in place of degrees)",
    1 / np.pi: "1/pi",
}
POWERS = {1.0: "{}", 2.0: "{} ** 2", 0.5: "sqrt({})", 3.0: "{} ** 3"}


def quantities(names: list[str], case: tuple) -> Iterator[tuple[str, float]]:
    """The numbers that one finds in an input, and may forget or put in once too often."""
    for name, value in zip(names, case, strict=True):
        array = as_array(value) if not isinstance(value, str) else None
        if array is None:
            continue
        if array.ndim == 0:
            yield name, float(array)
            if array.dtype.kind in "iu":
                yield f"({name} - 1)", float(array) - 1
                yield f"({name} + 1)", float(array) + 1
            continue
        for axis, size in enumerate(array.shape):
            measure = f"len({name})" if axis == 0 else f"{name}.shape[{axis}]"
            yield measure, float(size)
            yield f"({measure} - 1)", float(size - 1)
        if array.ndim > 1:
            yield f"{name}.size", float(array.size)
        if array.size and array.dtype.kind != "b":
            numbers = array.astype(float)
            with np.errstate(all="ignore"):
                yield f"norm({name})", float(np.linalg.norm(numbers))
                yield f"{name}.sum()", float(numbers.sum())
                yield f"{name}.max()", float(numbers.max())
                yield f"{name}.min()", float(numbers.min())
                yield f"{name}.mean()", float(numbers.mean())
                yield f"abs({name}).sum()", float(np.abs(numbers).sum())
                yield f"abs({name}).max()", float(np.abs(numbers).max())
        elif array.size:
            yield f"{name}.sum()", float(array.sum())


def factor(evidence: Evidence) -> str | None:
    """The factor, or the number added, if it is one for all entries and explained on all inputs."""
    failing = evidence.failing()
    if len(failing) < 2 or not evidence.telling:
        return None
    pairs = [(evidence.right[index], evidence.given[index]) for index in failing]
    if any(right is None or given is None for right, given in pairs):
        return None
    if not evidence.compare.up_to_scale:
        ratios = [ratio(*pair) for pair in pairs]
        said = _explained(evidence, failing, ratios, NAMED)
        if said == "minus 1":
            return "your answer is minus the right one"
        if said:
            return f"your answer is {said} times the right one"
    shifts = [shift(*pair) for pair in pairs]
    said = _explained(evidence, failing, shifts, CONSTANTS)
    if said and said.startswith("minus "):
        return f"your answer is the right one {said}"
    return f"your answer is the right one plus {said}" if said else None


def constant_factor(evidence: Evidence) -> str | None:
    """Minus, half, twice the right one: one factor on all inputs, of those that slips have."""
    pairs = [(evidence.right[index], evidence.given[index]) for index in evidence.failing()]
    if evidence.compare.up_to_scale and not any(right is None for right, _ in pairs):
        pairs = [(_direction(right), _direction(given)) for right, given in pairs]
    found = [ratio(*pair) for pair in pairs]
    if any(number is None for number in found) or np.ptp(found) > 1e-6 * abs(found[0]):
        return None
    said = next((name for number, name in NAMED.items() if abs(abs(found[0]) - number) < 1e-6 * number), None)
    if said is None:
        return None
    if said == "1":
        return "minus the right one" if found[0] < 0 else None
    return f"{'minus ' if found[0] < 0 else ''}{said} times the right one"


def _direction(value: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(value.astype(float))
    return value / length if 0 < length < np.inf else value


def proportional(evidence: Evidence) -> str | None:
    """A factor or a shift that nothing in the inputs explains, another one on each input."""
    failing = evidence.failing()
    pairs = [(evidence.right[index], evidence.given[index]) for index in failing]
    if len(failing) < 3 or any(right is None or given is None or right.size < 2 for right, given in pairs):
        return None
    if not evidence.telling:
        return None
    if all(ratio(*pair) is not None for pair in pairs):
        return "your answer has the right direction, but not the right length: one factor for all entries"
    if all(shift(*pair) is not None for pair in pairs):
        return "your answer differs from the right one by one number that is added to all entries"
    return None


def ratio(right: np.ndarray | None, given: np.ndarray | None) -> float | None:
    """The one factor between two arrays, if there is one."""
    if right is None or given is None:
        return None
    if right.size == given.size == 1:
        given = given.reshape(right.shape)
    if right.shape != given.shape or right.dtype.kind == "b" or given.dtype.kind == "b":
        return None
    right, given = right.astype(float), given.astype(float)
    length = np.abs(right).max(initial=0)
    if not 0 < length < np.inf or not np.isfinite(given).all():
        return None
    scaled = right / length
    found = float((scaled * given).sum() / (scaled * scaled).sum() / length)
    close = np.abs(given - found * right).max() <= 1e-6 * np.abs(given).max()
    return found if found and close else None


def shift(right: np.ndarray, given: np.ndarray) -> float | None:
    """The one number that is added to every entry of an array to give another, if there is one."""
    if right.size == given.size == 1:
        given = given.reshape(right.shape)
    if right.shape != given.shape or right.dtype.kind == "b" or not right.size or given.dtype.kind == "b":
        return None
    added = given.astype(float) - right
    scale = max(np.abs(right).max(), np.abs(given).max())
    if not np.isfinite(added).all() or not 1e-3 * scale < np.abs(added).max():
        return None
    found = float(added.mean())
    return found if np.abs(added - found).max() <= 1e-9 * scale else None


def _explained(
    evidence: Evidence, failing: list[int], found: list[Any], names: dict[float, str]
) -> str | None:
    """What a number on each input is: the same everywhere, or a product of powers of things in the inputs."""
    if any(number is None for number in found):
        return None
    if np.ptp(found) <= 1e-6 * abs(found[0]):
        return _called(found[0], names)
    signs = np.sign(found)
    if abs(signs.sum()) < len(found) or not _tells(found):
        return None
    drawn = [dict(quantities(evidence.names, evidence.cases[index])) for index in failing]
    terms = [("", 1.0, "", np.zeros(len(found)))]
    for name in drawn[0]:
        values = np.array([one.get(name, np.nan) for one in drawn])
        if (values > 0).all() and np.isfinite(values).all() and np.ptp(values) > 1e-6 * values[0]:
            terms += [
                (name, power, words.format(name), power * np.log(values)) for power, words in POWERS.items()
            ]
    product = _product(np.log(np.abs(found)), terms)
    return None if product is None else _words(signs[0] * product[0], *product[1:], names)


def _product(target: np.ndarray, terms: list[tuple[str, float, str, np.ndarray]]) -> tuple | None:
    """A constant, what multiplies it and what divides it, of which the target is the logarithm."""
    sizes = np.array([term[3] for term in terms])
    for constant in CONSTANTS:  # one quantity, above or below
        rest = target - np.log(constant)
        for (_, _, words, _), size in zip(terms[1:], sizes[1:], strict=True):
            if np.abs(size - rest).max() < 1e-6:
                return constant, words, ""
            if np.abs(size + rest).max() < 1e-6:
                return constant, "", words
    if len(set(np.round(target, 9))) < 3:
        return None
    for constant in (1.0, 2.0, 0.5):  # two of them
        rest = target - np.log(constant)
        for sign in (-1, 1):
            near = np.abs(sizes[:, None, 0] + sign * sizes[None, :, 0] - rest[0]) < 1e-6
            for one, other in np.argwhere(near):
                fits = np.abs(sizes[one] + sign * sizes[other] - rest).max() < 1e-6
                if fits and one and other and terms[one][0] != terms[other][0]:
                    top, bottom = terms[one][2], terms[other][2]
                    return (constant, top, bottom) if sign < 0 else (constant, f"{top} * {bottom}", "")
    return None


def _tells(found: list[float]) -> bool:
    """Whether numbers so many and so different are explained by a power of an input, not by chance."""
    different = len({round(number, 12) for number in found})
    generic = sum(min(abs(number * k - round(number * k)) for k in (1, 2, 3)) > 1e-6 for number in found)
    return different > 2 or (different > 1 and generic > 1)


def _words(constant: float, top: str, bottom: str, names: dict[float, str]) -> str:
    """A product in code: "minus 2 * n / norm(w)"."""
    number = names[abs(constant)]
    over = " * ".join([*([number] if number != "1" or not top else []), *([top] if top else [])])
    return ("minus " if constant < 0 else "") + over + (f" / {bottom}" if bottom else "")


def _called(number: float, names: dict[float, str]) -> str:
    """A number by its name, or in four digits."""
    sign = "minus " if number < 0 else ""
    for known, name in names.items():
        if abs(abs(number) - known) < 1e-6 * known:
            return sign + name
    return f"{number:.4g}"
