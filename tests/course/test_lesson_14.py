"""What lesson 14 builds from scratch agrees with `mini_attn`."""

import dataclasses
from math import comb

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import data, losses, models, svm
from mini_attn.gradients import closed_form

moves, squared_norm, forecast, falls_for_padding = (spec.reference for spec in exercises.exercises("14"))
LENGTHS = torch.tensor([3, 5, 1])


def tokens_of(causal, seed=0, ragged=True):
    drawn = data.random_tokens(3, 5, 4, seed=seed)
    y = torch.randn(3, 5, generator=torch.Generator().manual_seed(seed)).sign().double()
    mask = torch.arange(5) < LENGTHS[:, None] if ragged else None
    return data.every_position(drawn.X, y, drawn.v, causal, mask)


@pytest.mark.parametrize("causal", [False, True])
def test_the_mask_is_the_librarys(causal, lesson):
    expected = tokens_of(causal).mask.unflatten(0, (3, 5)).numpy()
    np.testing.assert_array_equal(lesson["visible"](LENGTHS.numpy(), 5, causal), expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
def test_attention_and_outputs_are_the_librarys(causal, scale, lesson):
    tokens = tokens_of(causal)
    W = scale * torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    model = models.CrossAttention(4, init=W)
    sees = lesson["visible"](LENGTHS.numpy(), 5, causal)
    X = tokens.X.numpy()
    s = lesson["attention"](np.einsum("itd,de,ike->ikt", X, W.numpy(), X), sees)
    expected = model.attention(tokens).detach().unflatten(0, (3, 5)).numpy()
    np.testing.assert_allclose(s[sees.any(-1)], expected[sees.any(-1)], rtol=1e-10)
    assert not s[~sees.any(-1)].any()
    f = np.einsum("ikt,it->ik", expected, X @ tokens.v.numpy()) * sees.any(-1)
    np.testing.assert_allclose(lesson["outputs"](W.numpy(), X, tokens.v.numpy(), sees), f, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_what_moves_no_output_moves_no_gradient(causal):
    tokens = tokens_of(causal)
    hidden = ~(torch.arange(5) < LENGTHS[:, None])[..., None]
    other = dataclasses.replace(tokens, X=torch.where(hidden, torch.full_like(tokens.X, 7.0), tokens.X))
    model = models.CrossAttention(4, init=torch.eye(4, dtype=torch.float64))
    first, second = (closed_form(model, one, losses.logistic)()[1]["W"] for one in (tokens, other))
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-15)


@pytest.mark.parametrize("causal", [False, True])
def test_the_price_of_a_mask_is_the_librarys_squared_norm(causal):
    X = torch.eye(15, dtype=torch.float64).reshape(3, 5, 15)
    mask = torch.arange(5) < LENGTHS[:, None]
    tokens = data.every_position(X, torch.ones(3, 5).double(), X.sum((0, 1)), causal, mask)
    found = svm.solve(svm.sequence_problem(tokens, tokens.optimal)).value.norm() ** 2
    assert squared_norm(tokens.mask.unflatten(0, (3, 5)).numpy()) == pytest.approx(float(found), abs=1e-6)


def test_pooled_tokens_are_the_tight_rows_of_the_nearest_point(lesson):
    """min ||h - g||^2 with h_1 >= h_t, by its dual: nonnegative least squares."""
    from scipy.optimize import nnls

    g = np.random.default_rng(0).normal(size=(200, 6))
    rows = np.concatenate([np.ones((5, 1)), -np.eye(5)], axis=1)  # h_1 - h_t
    weights = np.array([nnls(rows.T, -one)[0] for one in g])
    np.testing.assert_array_equal(lesson["pooled"](g), (weights > 1e-10).sum(axis=1))


@pytest.mark.parametrize(("m", "nu"), [(2, 0.5), (3, 5 / 6)])
def test_degrees_of_freedom_of_two_and_three_tokens(m, nu, lesson):
    assert lesson["pooled"](np.random.default_rng(1).normal(size=(200_000, m))).mean() == pytest.approx(
        nu, abs=0.005
    )


def test_with_two_tokens_the_kinematic_formula_is_covers(lesson):
    lesson["share_of"] = {2: np.array([0.5, 0.5])}
    for N in (3, 8, 15):
        for D in (1, 4, 9):
            cover = sum(comb(N - 1, k) for k in range(D)) / 2 ** (N - 1)
            assert lesson["predicted_share"]([2] * N, D) == pytest.approx(cover, abs=1e-12)


@pytest.mark.parametrize("seen", [[1, 2, 3, 4, 5], [5, 2, 2, 2, 2], [1, 1, 5, 5, 5]])
def test_the_last_forecast_is_how_much_less_terms_of_other_sequences_add_to_a_logit(seen):
    """Terms a x^T with a as in exercise 14.2, of 40 sequences in 30 dimensions: mean squares at one logit.

    Counting m - 1 for a position that sees m tokens would be off by more than a fourth for two of the masks.
    """
    rng, spread = np.random.default_rng(sum(seen)), []
    for own in (seen, 5 * [5]):
        reached = np.zeros(4000)
        for m in own:
            keys = rng.normal(size=(4000, 40, m)) / 30**0.5  # their first entries
            queries = rng.normal(size=(4000, 40)) / 30**0.5
            reached += ((keys[..., 0] - keys.mean(axis=-1)) * queries).sum(axis=-1)
        spread.append(reached.var())
    assert spread[0] / spread[1] == pytest.approx(forecast(np.array(seen))[1], rel=0.12)


@pytest.mark.parametrize("T", [3, 5, 8])
def test_the_first_forecast_is_that_of_the_gradients_terms(T):
    """Squared norms of gradients at W = 0 of nearly orthonormal tokens (d = 400)."""
    norms = {}
    for causal in (False, True):
        drawn = data.random_tokens(1, T, 400, trials=300, seed=T)
        tokens = data.every_position(drawn.X, torch.ones(300, 1, T).double(), drawn.v, causal)
        model = models.CrossAttention(400, trials=300)
        gradient = closed_form(model, tokens, losses.logistic)()[1]["W"]
        norms[causal] = float((gradient**2).sum((-2, -1)).mean())
    assert norms[True] / norms[False] == pytest.approx(forecast(np.arange(1, T + 1))[0], rel=0.08)


def test_factor_is_the_ratio_and_its_interval_covers(lesson):
    """Of 2,000 experiments with paired runs about 95% have the true ratio, 0.6, in their interval."""
    rng = np.random.default_rng(0)
    above = rng.binomial(20, 0.3, size=(2000, 400)) / 20
    below = rng.binomial(20, 0.6 * above) / 20
    ratio, half = lesson["factor"](below, above)
    np.testing.assert_allclose(ratio, below.mean(-1) / above.mean(-1))
    assert 0.93 < (abs(ratio - 0.6) < half).mean() < 0.97


def test_who_falls_for_the_padding_is_where_zeros_have_the_best_score():
    tokens = tokens_of(False, seed=3)
    values = (tokens.X @ tokens.v).numpy()
    y = tokens.y.unflatten(0, (3, 5)).numpy()
    scores = y[..., None] * values[:, None]  # X is 0 at padding
    falls = falls_for_padding(values, y, LENGTHS.numpy())
    real = np.arange(5) < LENGTHS.numpy()[:, None]
    np.testing.assert_array_equal(falls, real & (scores.argmax(-1) >= LENGTHS.numpy()[:, None]))
    assert falls.any()
