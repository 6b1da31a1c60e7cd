"""Comparing numbers that make arithmetic warn."""

import numpy as np
import pytest

from course.compare import mismatch
from course.specification import Compare
from course.wording import brief


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, -1e-320])
def test_strange_numbers_are_compared_in_silence(value):
    strange = np.array([value, 1.0])
    assert mismatch(strange, strange.copy(), Compare()) is None
    assert mismatch(np.array([2.0, 3.0]), strange, Compare()) is not None
    assert mismatch(strange, np.array([1.0, value]), Compare()) == (
        f"2 of 2 entries differ, most of all [0]: expected {brief(value)}, got 1."
    )
    assert mismatch(np.array([value, value]), np.array([2.0, 1.0]), Compare()) is not None


def test_true_and_false_are_not_called_numbers():
    wanted = np.array([True, False, True])
    assert mismatch(wanted, [True, True, True], Compare()) == (
        "1 of 3 entries differ, most of all [1]: expected False, got True"
    )
    assert mismatch(wanted, [1.0, 0.0, 0.0], Compare()) == (
        "1 of 3 entries differ, most of all [2]: expected True, got 0."
    )
    assert mismatch(wanted, [1.0, 0.0, 1.0], Compare()) is None
    assert mismatch(True, np.bool_(False), Compare()) == "it differs"
    assert mismatch(1.0, 0.5, Compare()) == "the number differs"
