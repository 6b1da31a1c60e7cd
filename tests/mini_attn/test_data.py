import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch

from mini_attn import data


def test_random_tokens_have_the_promised_shapes_and_unit_length():
    tokens = data.random_tokens(n=3, T=4, d=5, trials=2, seed=7)
    assert tokens.X.shape == (2, 3, 4, 5)
    assert tokens.z.shape == (2, 3, 5)
    assert tokens.y.shape == (2, 3)
    assert tokens.v.shape == (2, 5)
    assert tokens.trials == (2,)
    assert tokens.X.dtype == torch.float64
    for unit in (tokens.X, tokens.z, tokens.v):
        torch.testing.assert_close(unit.norm(dim=-1), torch.ones_like(unit[..., 0]))
    assert set(tokens.y.flatten().tolist()) <= {-1.0, 1.0}


def test_seed_decides_the_tokens():
    first, again, other = (data.random_tokens(3, 4, 5, seed=s) for s in (1, 1, 2))
    assert torch.equal(first.X, again.X)
    assert not torch.equal(first.X, other.X)
    assert first.trials == ()


def test_sizes_may_come_from_numpy_and_there_may_be_no_trials():
    assert data.random_tokens(*np.array([2, 3, 4]), trials=np.int64(5)).X.shape == (5, 2, 3, 4)
    assert data.random_tokens(2, 3, 4, trials=0).scores.shape == (0, 2, 3)


def test_scores_and_optimal_follow_their_definition():
    tokens = data.random_tokens(n=3, T=4, d=5, trials=2, seed=7)
    gamma = torch.einsum("bi,bitd,bd->bit", tokens.y, tokens.X, tokens.v)
    torch.testing.assert_close(tokens.scores, gamma)
    assert torch.equal(tokens.optimal, gamma.argmax(-1))


def test_keys_are_the_tokens_unless_given():
    tokens = data.random_tokens(2, 3, 4)
    assert tokens.keys is tokens.X
    toy = data.toy_one_sequence((1.0, 0.9, 0.0))
    torch.testing.assert_close(toy.scores, torch.tensor([[1.0, 0.9, 0.0]], dtype=torch.float64))
    assert toy.keys.tolist() == [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]


def test_the_joint_toys_third_token_is_lifted_off_the_label_margin():
    toy = data.toy_joint(0.25)
    assert toy.X[:, 0].eq(0).all()
    torch.testing.assert_close(toy.scores[:, 1], torch.tensor([1.0, 1.0, 1.25], dtype=torch.float64))
    assert toy.optimal.tolist() == [1, 1, 1]


def test_to_moves_every_field():
    tokens = data.random_tokens(2, 3, 4).to(dtype=torch.float32)
    assert {t.dtype for t in (tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys)} == {torch.float32}


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_separable_points_are_separated_by_the_stated_line(n):
    points = data.separable_points(n, seed=3)
    axis = torch.tensor([1.5, 1.0], dtype=torch.float64)
    assert points.X.shape == (n, 2)
    assert (points.y * (points.X @ (axis / axis.norm()))).min() >= 0.4 - 1e-12


def good():
    return dict(X=torch.ones(2, 3, 4), z=torch.ones(2, 4), y=torch.ones(2), v=torch.ones(4))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"z": torch.ones(3, 4)}, r"z has shape \(3, 4\); the other fields imply \(2, 4\)"),
        ({"y": torch.tensor([1.0, 0.0])}, r"labels y must be -1 or \+1; found 0"),
        ({"v": torch.ones(4, dtype=torch.float64)}, "bring them to one dtype"),
        (
            {"v": torch.ones(4, dtype=torch.long)},
            "v is torch.int64 of shape .4,.; expected a floating",
        ),
        ({"v": [1.0] * 4}, "v is list; expected a floating torch tensor"),
        ({"X": torch.full((2, 3, 4), torch.nan)}, r"X holds NaN or inf, first at index \(0, 0, 0\)"),
        ({"X": torch.ones(2, 3)}, "X must be a tensor of shape"),
        ({"X": torch.ones(2, 0, 4)}, "T = 0 tokens"),
        ({"keys": torch.ones(2, 3, 5)}, "keys has shape"),
        (
            {"X": torch.ones(0, 3, 4), "z": torch.ones(0, 4), "y": torch.ones(0)},
            r"X has shape \(0, 3, 4\), so n = 0 sequences: a loss needs at least one",
        ),
    ],
)
def test_bad_tokens_are_refused_with_a_reason(change, says):
    with pytest.raises(ValueError, match=says):
        data.TokenData(**(good() | change))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: data.random_tokens(0, 3, 4), "n = 0; expected a whole number, at least 1"),
        (lambda: data.random_tokens(2, 3, 4, trials=-1), "trials = -1"),
        (lambda: data.separable_points(0), "n = 0"),
        (lambda: data.toy_one_sequence((1.0, 2.0)), "the toy has 3 tokens"),
        (lambda: data.toy_joint(-0.1), "lift = -0.1; expected a finite number, 0 or more"),
        (lambda: data.PointData(torch.ones(3), torch.ones(3)), "X must be a tensor of shape"),
        (lambda: data.PointData(torch.ones(3, 2), torch.ones(2)), "y has shape"),
        (lambda: data.PointData(torch.ones(0, 2), torch.ones(0)), "n = 0 points: a loss needs at least one"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_keys_that_are_the_tokens_follow_them():
    tokens = data.random_tokens(2, 3, 4)
    for twin in (
        tokens.to(dtype=torch.float32),
        tokens.to(torch.float32),
        tokens.to("cpu"),
        dataclasses.replace(tokens, X=2 * tokens.X),
        dataclasses.replace(tokens, y=-tokens.y),
        data.TokenData(tokens.X, tokens.z, tokens.y, tokens.v, keys=tokens.X),
        pickle.loads(pickle.dumps(tokens)),
        copy.deepcopy(tokens),
    ):
        assert twin.keys is twin.X
    assert tokens.to(torch.float32).keys.dtype == torch.float32


def test_keys_of_their_own_stay_when_the_tokens_change():
    tokens = data.random_tokens(2, 3, 4)
    keyed = dataclasses.replace(tokens, X=2 * tokens.X, keys=tokens.X)  # a word for the old tokens keeps them
    assert keyed.keys is tokens.X
    assert dataclasses.replace(keyed, X=3 * tokens.X).keys is tokens.X
    for twin in (keyed.to(torch.float32), pickle.loads(pickle.dumps(keyed))):
        assert twin.keys is not twin.X
        torch.testing.assert_close(2 * twin.keys, twin.X)
