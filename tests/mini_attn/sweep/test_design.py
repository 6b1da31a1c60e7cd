import numpy as np
import pytest
import torch

from mini_attn.sweep.design import batch_seed, design


def test_every_cell_is_cut_into_batches_that_cover_its_trials_once():
    plan = design({"n": [2, 4], "loss": ["a", "b", "c"]}, trials=25, seed=0, paired=())
    batches = plan.batches([10, 10, 10, 25, 30, 1])
    assert [b.index for b in batches] == list(range(len(batches)))
    covered = np.zeros((2, 3, 25), int)
    for b in batches:
        assert b.cell == {"n": [2, 4][b.place[0]], "loss": "abc"[b.place[1]]}
        covered[(*b.place, slice(b.first, b.first + b.trials))] += 1
    assert (covered == 1).all()
    assert [b.trials for b in batches if b.place == (0, 0)] == [10, 10, 5]
    assert len({b.seed for b in batches}) == len(batches)
    assert all(0 <= b.seed < 2**63 for b in batches)


def test_a_seed_is_the_cells_own_whatever_else_is_in_the_grid():
    seed = batch_seed(7, {"n": 2, "lr": 0.1}, 0)
    assert seed == batch_seed(7, {"lr": 0.1, "n": 2.0}, 0)
    others = [(8, {"n": 2, "lr": 0.1}, 0), (7, {"n": 2, "lr": 0.1}, 1), (7, {"n": 2, "lr": 0.2}, 0)]
    others += [(7, {"n": 2}, 0), (7, {"n": 0.1, "lr": 2}, 0), (7, {"n": "2", "lr": 0.1}, 0)]
    assert len({seed, *(batch_seed(*other) for other in others)}) == 1 + len(others)
    assert batch_seed(0, {"causal": True}, 0) != batch_seed(0, {"causal": 1}, 0)
    assert batch_seed(7, {"n": 2, "lr": 0.1}, 0) == 6827281162623769339  # stored results depend on it


def test_paired_parameters_share_their_seeds():
    plan = design({"lr": [0.1, 1.0], "n": [2, 4]}, trials=5, seed=0, paired="lr")
    a, b, c, d = plan.batches([5] * 4)
    assert a.seed == c.seed
    assert b.seed == d.seed
    assert a.seed != b.seed


def test_values_come_as_pythons_own():
    given = {
        "a": torch.tensor([1, 2]),
        "b": np.linspace(0, 1, 3),
        "c": [np.float32(0.5), torch.tensor(2.0), 3],
        "d": range(2),
        "e": ("W", np.str_("KQ")),
        "f": [np.True_, False],
        "g": [np.inf, 2],
    }
    grid = design(given, trials=1, seed=0, paired=()).grid
    assert grid["a"] == [1, 2]
    assert grid["b"] == [0.0, 0.5, 1.0]
    assert grid["c"] == [0.5, 2.0, 3]
    assert grid["f"] == [True, False]
    assert {type(v) for values in grid.values() for v in values} == {int, float, str, bool}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": [1, 2]}, "grid is list"),
        ({"grid": {"n": 4}}, r"expected a list of values: \[4\]"),
        ({"grid": {"n": "W"}}, r"expected a list of values: \['W'\]"),
        ({"grid": {"n": []}}, "at least one value"),
        ({"grid": {"n": [1, 2, 1.0]}}, "none of them twice"),
        ({"grid": {"n": [1, "2"]}}, "mixes numbers and words"),
        ({"grid": {"n": [1, True, 2]}}, "mixes numbers and truth values"),
        ({"grid": {"n": [None]}}, "NoneType"),
        ({"grid": {"n": [torch.relu]}}, "let the trial function look them up"),
        ({"grid": {"n": [float("nan")]}}, "holds nan"),
        ({"grid": {"n": [2**31]}}, "below 2"),
        ({"grid": {"n": torch.zeros(2, 2)}}, r"shape \(2, 2\)"),
        ({"grid": {"n": [torch.zeros(2)]}}, "Tensor"),
        ({"grid": {"seed": [1]}}, "other than"),
        ({"grid": {3: [1]}}, "name of one of"),
        ({"trials": 0}, "trials = 0"),
        ({"trials": 2.5}, "trials = 2.5"),
        ({"trials": True}, "trials = True"),
        ({"trials": 2**31}, "numbers them up to"),
        ({"seed": -1}, "seed = -1"),
        ({"paired": ["m"]}, r"paired names \['m'\]; the grid has \['n'\]"),
    ],
)
def test_what_makes_no_sweep_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        design(**{"grid": {"n": [1]}, "trials": 5, "seed": 0, "paired": (), **change})
