import numpy as np
import pytest
import torch
import xarray as xr
from scipy.stats import binomtest

from mini_attn.sweep import wilson


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 7, 500])
def test_it_is_scipys_interval(trials, level):
    counts = np.unique(np.linspace(0, trials, 9).astype(int))
    low, high = wilson(counts, trials, level)
    expected = [binomtest(int(k), trials).proportion_ci(level, method="wilson") for k in counts]
    np.testing.assert_allclose(low, [ci.low for ci in expected], atol=1e-15)
    np.testing.assert_allclose(high, [ci.high for ci in expected], atol=1e-15)
    assert low[0] == 0
    assert high[-1] == 1
    assert ((low >= 0) & (high <= 1)).all()


def test_it_keeps_the_kind_of_its_arguments():
    hits = xr.DataArray([[1, 0, 1, 1], [0, 0, 0, 0]], {"n": [2, 4]}, ("n", "trial")) == 1
    low, high = wilson(hits.sum("trial"), hits.sizes["trial"])
    assert low.dims == high.dims == ("n",)
    assert low.sel(n=4) == 0
    assert high.sel(n=2) == pytest.approx(binomtest(3, 4).proportion_ci(method="wilson").high)
    for kind in (torch.tensor, np.array):
        assert wilson(kind([3]), 4)[1][0] == pytest.approx(float(high.sel(n=2)))
    assert wilson(3, 4)[1] == pytest.approx(float(high.sel(n=2)))
    assert wilson(True, 1)[1] == 1


def test_trials_may_differ_and_none_says_nothing():
    low, high = wilson(np.array([0, 1, 5]), np.array([0, 1, 10]))
    assert (low[0], high[0]) == (0, 1)
    assert low[2] == pytest.approx(binomtest(5, 10).proportion_ci(method="wilson").low)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((-1, 3), "0 to trials"), ((4, 3), "0 to trials"), ((np.array([1, 4]), 3), "0 to trials")]
    + [((1, 3, level), "level") for level in (0, 1, 95, float("nan"))],
)
def test_what_is_no_count_and_no_level_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        wilson(*arguments)


def test_short_integers_do_not_overflow():
    wide = wilson(50_000, 100_000)
    assert wilson(np.int32(50_000), np.int32(100_000)) == pytest.approx(wide)
    assert wilson(np.uint8(100), np.uint8(120)) == pytest.approx(wilson(100, 120))
    with pytest.raises(ValueError, match="counts from 0"):
        wilson(np.uint8(121), np.uint8(120))


@pytest.mark.parametrize("kind", [torch.tensor, np.array, np.float32, int])
def test_few_of_many_trials_keep_their_digits(kind):
    """Single precision would put the upper end of 1 in 10^8 at 0."""
    for k in (0, 1):
        expected = binomtest(k, 10**8).proportion_ci(method="wilson")
        low, high = wilson(kind(k), kind(10**8))
        assert float(low) == pytest.approx(expected.low, rel=1e-6, abs=1e-30)
        assert float(high) == pytest.approx(expected.high, rel=1e-6)
