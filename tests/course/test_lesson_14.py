"""What lesson 14 builds from scratch agrees with `mini_attn`."""

import dataclasses
from math import comb

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate.lesson_14 import (
    attention_after,
    others_flipped,
    positions,
    pulled_wrongly,
    share_feasible,
)
from mini_attn import data, losses, models, svm
from mini_attn.gradients import closed_form

moves, squared_norm, tie_level, wrong_way = (spec.reference for spec in exercises.exercises("14"))
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


def test_with_two_tokens_the_kinematic_formula_is_covers():
    for N in (3, 8, 15):
        for d in (1, 2, 3):
            cover = sum(comb(N - 1, k) for k in range(d * d)) / 2 ** (N - 1)
            assert share_feasible([2] * N, d, {2: np.array([0.5, 0.5])}) == pytest.approx(cover, abs=1e-12)


@pytest.mark.parametrize("m", [2, 7, 100, 3000])
def test_the_tie_level_balances_the_means(m):
    """By a million draws: what the others come down by to theta is theta in the mean; and how many do."""
    theta, number = tie_level(m)
    x = np.random.default_rng(m).normal(size=1_000_000)
    each = np.maximum(x - theta, 0)
    error = 4 * each.std() / 1000 * (m - 1)
    assert (m - 1) * each.mean() == pytest.approx(theta, abs=error)
    assert (m - 1) * (x > theta).mean() == pytest.approx(number, abs=4 * (number * (m - 1)) ** 0.5 / 1000)


@pytest.mark.parametrize("m", [2, 3, 6, 20])
def test_at_the_nearest_point_the_ties_give_what_the_selected_one_climbs(m, lesson):
    for x in np.random.default_rng(m).normal(size=(200, m)):
        number = int(lesson["pooled"](x[None])[0])
        group = np.concatenate((x[:1], -np.sort(-x[1:])[:number]))
        theta = group.mean() if number else x[0]
        assert np.maximum(x[1:] - theta, 0).sum() == pytest.approx(theta - x[0], abs=1e-12)
        assert (x[1:] > theta).sum() == number


def test_the_interval_of_a_part_covers(lesson):
    """Of 1,000 experiments about 95% have the true share, 0.6, in their interval, though runs differ."""
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.1, 0.5, size=(1000, 300, 1))
    among = rng.random((1000, 300, 20)) < chances
    which = rng.random((1000, 300, 20)) < 0.6
    found, half = np.array([lesson["part"](*one) for one in zip(which, among, strict=True)]).T
    np.testing.assert_allclose(found, (which & among).sum((1, 2)) / among.sum((1, 2)))
    assert 0.93 < (abs(found - 0.6) < half).mean() < 0.97


@pytest.mark.parametrize(("T", "d"), [(3, 5), (5, 7), (8, 10), (16, 16), (6, 20), (20, 12)])
def test_the_share_pulled_the_wrong_way_is_that_of_random_tokens_and_labels(T, d):
    """Counted from the tokens of 4,000 sequences; a sum of two or more terms is near to normal."""
    X = data.random_tokens(1, T, d, trials=4000, seed=11).X[:, 0]
    y = torch.randn(4000, T, generator=torch.Generator().manual_seed(12)).sign().double()
    pulls = y * (X @ X.mT @ y[..., None])[..., 0]
    wrong = (pulls < 0).double().mean(-1)
    assert float(wrong.mean()) == pytest.approx(
        wrong_way(T, d), abs=4 * float(wrong.std()) / 4000**0.5 + 0.004
    )


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_pulled_the_wrong_way_is_what_the_first_step_does_to_a_sequence_alone(mask):
    """n = 1 and labels' slopes all alike: the loss -mean y f."""
    tokens = positions(1, 6, 5, mask, trials=80, seed=13)
    hidden = torch.where(tokens.scores.isfinite(), 0.0, -torch.inf)
    X, y = tokens.X[:, 0], tokens.y
    values = (X @ tokens.v[..., None]).mT

    def gains(W):
        return y * ((X @ (X @ W).mT).mT + hidden).softmax(-1).mul(values).sum(-1)

    W = torch.zeros(80, 5, 5, dtype=torch.float64, requires_grad=True)
    (step,) = torch.autograd.grad(gains(W).sum(), W)
    _, change = torch.autograd.functional.jvp(gains, W.detach(), step)
    assert ((change < -1e-15) == pulled_wrongly(tokens, 1, 6)[:, 0]).all()
    assert 0.05 < (change < 0).double().mean() < 0.35


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_the_token_ahead_after_one_step_is_the_one_the_gradient_raises_most(mask):
    tokens = positions(2, 6, 7, mask, trials=30, seed=14)
    model = models.CrossAttention(7, trials=30)
    gradient = closed_form(model, tokens, losses.logistic)()[1]["W"]
    pull = -torch.einsum("rite,ref,rikf->rikt", tokens.X, gradient, tokens.X).flatten(1, 2)
    pull = pull.masked_fill(~tokens.scores.isfinite(), -torch.inf)
    ((attention, _),) = attention_after(tokens, 1)
    assert (attention.argmax(-1) == pull.argmax(-1)).all()
    assert 0.1 < (pull.argmax(-1) != tokens.optimal).double().mean() < 0.6


def test_with_the_other_labels_flipped_the_pull_b_becomes_2_minus_b(lesson):
    tokens = positions(2, 5, 7, "full", trials=20, seed=16)
    which = np.random.default_rng(16).random((20, 10)) < 0.3
    before, run = lesson["pull"](tokens, 5), np.nonzero(which)[0]
    other, place = others_flipped(tokens, 5, which)
    np.testing.assert_allclose(lesson["pull"](other, 5)[place], 2 - before[which], atol=1e-12)
    assert (other.optimal[place] == tokens.optimal[which]).all()
    assert (other.y[place] == tokens.y[which]).all()
    assert torch.equal(other.X, tokens.X[run])
    assert ((other.y != tokens.y[run]).sum(-1) == 4).all()


def test_the_pull_is_that_of_the_first_step(lesson):
    tokens = positions(2, 6, 5, "full", trials=80, seed=17)
    assert ((lesson["pull"](tokens, 6) < 0) == pulled_wrongly(tokens, 2, 6).flatten(-2).numpy()).all()


def test_with_two_tokens_nobody_is_pulled_the_wrong_way(lesson):
    assert (lesson["pull"](positions(2, 2, 2, "full", trials=500, seed=18), 2) >= 0).all()


@pytest.mark.parametrize("causal", [False, True])
def test_positions_that_do_not_ask_leave_the_others_as_they_are(causal, lesson):
    every, some = (lesson["sequences"](3, 5, 6, 10, 19, causal, asks) for asks in (None, 3))
    assert some.positions == 3
    for name in ("scores", "z", "y"):
        expected = getattr(every, name).unflatten(1, (3, 5))[:, :, :3].flatten(1, 2)
        assert torch.equal(getattr(some, name), expected), name


def test_one_position_that_sees_many_tokens_is_the_law_in_dimension_d():
    """One position: W z is any vector, so the kinematic formula with D = d, not d^2."""
    shares = {6: np.array([0.2, 0.3, 0.25, 0.15, 0.07, 0.03])}
    for d in (1, 2, 3, 4):
        law = 1 - 2 * shares[6][d + 1 :: 2].sum()
        assert share_feasible([6], d, shares) == pytest.approx(law, abs=1e-12)


def test_a_run_that_is_continued_is_the_uninterrupted_one(lesson):
    tokens, trained = positions(2, 4, 5, "full", trials=10, seed=15), lesson["trained"]
    (_, early), (s, late) = attention_after(tokens, 7, 30)
    assert torch.equal(trained(tokens, 30, early, 30).W, early)
    for model in (trained(tokens, 30), trained(tokens, 30, trained(tokens, 7).W, 7)):
        torch.testing.assert_close(model.W, late, rtol=1e-12, atol=1e-12)
        assert (lesson["misses"](model, tokens) == (s.argmax(-1) != tokens.optimal).numpy()).all()


def test_the_degrees_of_freedom_of_the_second_question():
    used = 32 * sum(tie_level(m)[1] for m in range(2, 129))
    assert 13_850 < used < 13_950
    assert used > 3 * 64**2
