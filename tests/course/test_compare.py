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
