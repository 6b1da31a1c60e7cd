"""The stored sweeps: whole, made as their definitions say, and the same when a part is computed again."""

import json
import platform

import numpy as np
import pytest

from course.replicate.stored import RESULTS, every, measured
from mini_attn.sweep.fingerprint import fingerprint


def test_a_part_is_computed_as_it_is_stored(one):
    with pytest.raises(FileNotFoundError, match=r"python -m course replicate --fresh 99\.lengths"):
        one.load()
    one.compute(progress=False)
    found, again = one.load(), one.part(d=[3, 5], scale=[2.0])
    assert found.length.shape == (3, 2, 30)
    assert again.length.shape == (2, 1, 10)
    stored = found.length.sel(d=[3, 5], scale=[2.0], trial=slice(0, 9))
    np.testing.assert_array_equal(again.length, stored)
    np.testing.assert_array_equal(found.length.sel(scale=2.0), 2 * found.length.sel(scale=1.0))
    np.testing.assert_array_equal(one.part(trials=30).length, found.length)


@pytest.mark.parametrize("values", [{"d": [4]}, {"d": []}, {"n": [1]}])
def test_a_part_that_is_not_in_the_grid_is_refused(one, values):
    with pytest.raises(ValueError, match=r"is not in the grid of 99\.lengths"):
        one.part(**values)


@pytest.mark.parametrize("id", [one.id for one in every()])
def test_what_is_stored_was_made_as_defined(id):
    one = measured(id)
    found = one.load()
    made = json.loads(found.attrs["made"])
    assert made["grid"] == json.loads(json.dumps({name: list(values) for name, values in one.grid.items()}))
    assert (made["trials"], made["batch"], made["seed"]) == (one.trials, one.batch, one.seed)
    assert made["paired"] == sorted(one.paired)
    assert json.loads(found.attrs["failed"]) == []
    if made["versions"]["python"] == platform.python_version():  # the fingerprint reads compiled code
        assert made["trial"] == fingerprint(one.trial), "the trial function changed since; compute it anew"
    assert one.path.stat().st_size < 600_000


def test_every_stored_file_is_somebodys():
    assert {path.name for path in RESULTS.glob("*.nc")} == {one.path.name for one in every()}


def test_all_sweeps_take_an_hour_on_two_cores():
    assert sum(one.minutes for one in every()) <= 120
