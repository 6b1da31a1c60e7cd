"""Remainders, longest steps, speeds, and fitted exponents."""

import math

import pytest
import torch

from mini_attn import data, losses, models, rates, svm


@pytest.fixture(scope="module")
def chosen():
    tokens = data.random_tokens(3, 4, 14, trials=5, seed=1)
    problem = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    return tokens, problem, svm.solve(problem)


def loss_of(tokens, W):
    model = models.CrossAttention(W.shape[-1], trials=len(W), init=W)
    return losses.logistic.value(tokens.y * model(tokens)).mean(-1), model.logits(tokens).detach()


def test_log_excess_is_the_log_of_the_difference(chosen):
    tokens, _, solution = chosen
    least = losses.logistic.value(tokens.scores.amax(-1)).mean(-1)
    for R in (0.5, 8.0, 25.0):
        loss, logits = loss_of(tokens, R * solution.value)
        found = rates.log_excess(logits, tokens, tokens.optimal)
        torch.testing.assert_close(found.exp(), (loss - least).detach(), rtol=1e-3, atol=2e-15)


def test_log_excess_goes_on_where_the_difference_is_lost(chosen):
    """Far out it is log sum_it c_it e^-lead, and log of the gradient's length over the margin."""
    tokens, problem, solution = chosen
    c = rates.strengths(tokens, tokens.optimal)
    for R in (60.0, 1e5):
        W = R * solution.value
        _, logits = loss_of(tokens, W)
        found = rates.log_excess(logits, tokens, tokens.optimal)
        torch.testing.assert_close(found, (c.log() - problem.forward(W)).logsumexp(-1), rtol=1e-9, atol=0)


def test_log_excess_is_nan_below_the_limit(chosen):
    tokens, _, solution = chosen
    worst = tokens.scores.argmin(-1)
    _, logits = loss_of(tokens, solution.value)
    assert rates.log_excess(logits, tokens, worst).isnan().all()


def test_strengths_of_another_loss(chosen):
    tokens = chosen[0]
    linear = rates.strengths(tokens, tokens.optimal, "linear")
    ahead = (tokens.scores.amax(-1, keepdim=True) - tokens.scores) / 3
    torch.testing.assert_close(linear.sum(-1), ahead.sum((-1, -2)))
    assert (rates.strengths(tokens, tokens.scores.argmin(-1)) < 0).all()


def test_a_remainder_by_hand():
    """Rows (1, 1), (1, -1): w_hat = (1, 0), lambda = 1/2 each; r = (0, log(c1 / c2) / 2)."""
    A = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    problem = svm.HardMarginProblem(A, None, torch.ones(2, dtype=torch.float64))
    found = rates.remainder(problem, svm.solve(problem), torch.tensor([3.0, 0.5], dtype=torch.float64))
    assert found.value.tolist() == pytest.approx([0.0, math.log(6.0) / 2])
    assert float(found.longest) == pytest.approx(2.0)  # 1 - eta H with H = 1 / mu = 1
    assert float(found.speed) == pytest.approx(0.5**0.5)
    torch.testing.assert_close(found.span, torch.eye(2, dtype=torch.float64))


def normalised(problem, c, w, lengths, steps):
    """Steps on sum_j c_j e^-<A_j, w> for vectors w (trials, D), in units of its largest term."""
    A = (problem.a[..., None] * problem.b[..., None, :]).flatten(-2)
    for _ in range(steps):
        strength = c.log() - (A @ w[..., None])[..., 0]
        pull = (torch.softmax(strength, -1)[..., None] * A).sum(-2)
        w = w + lengths[:, None] * pull / pull.norm(dim=-1, keepdim=True)
    return w


def test_steps_settle_on_the_remainder_below_the_longest_and_zigzag_above(chosen):
    tokens, problem, solution = chosen
    c = rates.strengths(tokens, tokens.optimal)
    law = rates.remainder(problem, solution, c)
    unit = solution.value.flatten(1) / solution.objective[:, None]
    r = law.value.flatten(1)
    assert ((r * unit).sum(1).abs() < 1e-6).all()
    nudge = torch.randn(r.shape, generator=torch.Generator().manual_seed(0)).double()
    start = 1e5 * unit + r + 0.01 * (law.span @ nudge[..., None])[..., 0]
    for factor, settles in ((0.97, True), (1.03, False)):
        w = normalised(problem, c, start, factor * law.longest, 1500)
        across = w - (w * unit).sum(1, keepdim=True) * unit
        off = ((law.span @ across[..., None])[..., 0] - r).norm(dim=1)
        assert ((off < 0.01) == settles).all()


@pytest.mark.slow
def test_the_speed_of_very_long_steps(chosen):
    tokens, problem, solution = chosen
    c = rates.strengths(tokens, tokens.optimal)
    law = rates.remainder(problem, solution, c)
    unit = solution.value.flatten(1) / solution.objective[:, None]
    long = 1000 * law.longest
    w = normalised(problem, c, 1e8 * unit, long, 3000)
    speed = ((w * unit).sum(1) - 1e8) / 3000 / long
    torch.testing.assert_close(speed, law.speed, rtol=0.03, atol=0)
    assert (law.speed < 0.8).all()


def test_what_is_no_limit_of_descent_is_refused(chosen):
    tokens, problem, solution = chosen
    with pytest.raises(ValueError, match="no positive strength"):
        rates.remainder(problem, solution, rates.strengths(tokens, tokens.scores.argmin(-1)))
    with pytest.raises(ValueError, match="norm='fro'"):
        rates.remainder(problem, svm.solve(problem, norm="nuc"), rates.strengths(tokens, tokens.optimal))


def test_slopes():
    x = torch.tensor([1.0, 3, 5, 12], dtype=torch.float64)
    y = torch.stack([2 * x**-1.5, 7 * x**0.25])
    torch.testing.assert_close(rates.slope(x, y), torch.tensor([-1.5, 0.25], dtype=torch.float64))
    torch.testing.assert_close(rates.slope(x.expand(2, 4), y), rates.slope(x, y))
    with pytest.raises(ValueError, match="less than a decade"):
        rates.slope(x[1:], y[:, 1:])


def test_an_interval_holds_the_true_median_as_often_as_it_says():
    generator = torch.Generator().manual_seed(2)
    inside = 0
    for _ in range(200):
        low, high = rates.interval(torch.randn(40, generator=generator).double(), draws=400)[1:]
        inside += low <= 0 <= high
    assert 180 <= inside <= 199
    values = torch.tensor([3.0, float("nan"), 1.0, 2.0])
    assert rates.interval(values)[0] == 2.0
    assert rates.interval(values) == rates.interval(values)


def test_masks_and_equalities_are_refused():
    ragged = data.random_tokens(2, 3, 4, seed=0, lengths=[2, 3])
    logits, selected = torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match="mask"):
        rates.log_excess(logits, ragged, selected)
    with pytest.raises(ValueError, match="mask"):
        rates.strengths(ragged, selected)
    a, r = torch.tensor([[1.0, 0.0], [1.0, 1.0]]).double(), torch.tensor([1.0, 0.0]).double()
    problem = svm.HardMarginProblem(a, None, r, torch.tensor([False, True]))
    with pytest.raises(ValueError, match="equality"):
        rates.remainder(problem, svm.solve(problem), torch.ones(2, dtype=torch.float64))


def test_log_excess_of_the_limit_itself_is_minus_infinity():
    tokens = data.random_tokens(2, 3, 4, seed=0)
    logits = torch.full((2, 3), -torch.inf, dtype=torch.float64).scatter(-1, tokens.optimal[:, None], 0.0)
    assert rates.log_excess(logits, tokens, tokens.optimal) == -torch.inf
    alone = data.random_tokens(2, 1, 4, seed=0)
    assert rates.log_excess(torch.zeros(2, 1, dtype=torch.float64), alone, alone.optimal) == -torch.inf


@pytest.mark.parametrize(
    "selected", [torch.zeros(1, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.int64)]
)
def test_one_selected_token_a_sequence_is_asked_for(selected):
    tokens = data.random_tokens(2, 3, 4, seed=0)
    with pytest.raises(ValueError, match="a token number each"):
        rates.log_excess(torch.zeros(2, 3, dtype=torch.float64), tokens, selected)
    with pytest.raises(ValueError, match="a token number each"):
        rates.strengths(tokens, selected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex128, torch.bool])
def test_logits_are_floating_numbers(dtype):
    tokens = data.random_tokens(2, 3, 4, seed=0)
    with pytest.raises(
        ValueError, match=rf"floating numbers.*got {dtype} of shape \(2, 3\); use logits.double"
    ):
        rates.log_excess(torch.zeros(2, 3).to(dtype), tokens, tokens.optimal)


@pytest.mark.parametrize(
    ("values", "level", "message"),
    [
        ([1.0, torch.inf], 0.95, "expected finite values"),
        ([torch.nan], 0.95, "expected finite values"),
        ([1.0, 2.0], 1.5, "level = 1.5"),
    ],
)
def test_what_has_no_interval_is_refused(values, level, message):
    with pytest.raises(ValueError, match=message):
        rates.interval(torch.tensor(values), level=level)


def test_slopes_need_positive_numbers():
    with pytest.raises(ValueError, match="not positive"):
        rates.slope(torch.tensor([0.0, 1, 100]), torch.tensor([1.0, 2, 3]))
