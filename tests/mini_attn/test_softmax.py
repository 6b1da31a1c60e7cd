from fractions import Fraction
from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_attn.softmax import softmax, textbook_softmax


def gradient(function, logits, G, **options):
    h = torch.as_tensor(logits).clone().requires_grad_()
    (function(h, **options) * torch.as_tensor(G)).sum().backward()
    return h.grad


def exact_gradient(logits, G):
    """s_t sum_tau s_tau (G_t - G_tau) in rational arithmetic, from the floats exp(h - max)."""
    top = max(logits)
    e = [Fraction(exp(h - top)) for h in logits]
    total = sum(e)
    return [
        float(sum(e[t] * e[k] * (Fraction(G[t]) - Fraction(G[k])) for k in range(len(e))) / total**2)
        for t in range(len(e))
    ]


def test_forward_is_torch_softmax():
    h = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(softmax(h), torch.softmax(h, -1))
    assert softmax(h).dtype == torch.float32


def test_gradient_agrees_with_finite_differences():
    h = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(softmax, (h,))


tokens = st.tuples(st.floats(-50, 50), st.integers(-64, 64).map(lambda k: k / 64))


@given(st.lists(tokens, min_size=1, max_size=6))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_gradient_is_exact_relative_to_the_largest_pull_of_a_losing_token(example):
    logits, G = (torch.tensor(column, dtype=torch.float64) for column in zip(*example, strict=True))
    exact = torch.tensor(exact_gradient(logits.tolist(), G.tolist()), dtype=torch.float64)
    s = torch.softmax(logits, -1)
    pull = (s * (G - G[s.argmax()]).abs()).max()
    assert (gradient(softmax, logits, G) - exact).abs().max() <= 1e-12 * pull


def test_saturated_gradient_keeps_its_digits_where_the_textbook_has_none():
    logits, G = [60.0, 10.0, 5.0, 0.0], [0.3, -0.7, 0.9, 0.2]
    exact = torch.tensor(exact_gradient(logits, G), dtype=torch.float64)
    ours = gradient(softmax, torch.tensor(logits, dtype=torch.float64), torch.tensor(G, dtype=torch.float64))
    textbook = gradient(textbook_softmax, torch.tensor(logits, dtype=torch.float64), torch.tensor(G).double())
    torch.testing.assert_close(ours, exact, rtol=1e-12, atol=0)
    assert (textbook[0] / exact[0] - 1).abs() > 0.1  # the winner's entry is rounding noise


def test_log_scaled_gradient_is_the_gradient_times_a_positive_factor_per_trial():
    generator = torch.Generator().manual_seed(2)
    h = 5 * torch.randn(4, 3, 6, generator=generator, dtype=torch.float64)
    G = torch.randn(4, 3, 6, generator=generator, dtype=torch.float64)
    plain, scaled = gradient(softmax, h, G), gradient(softmax, h, G, batch_dims=1)
    ratio = (scaled / plain).flatten(1)
    assert (ratio > 0).all()
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))
    assert not torch.allclose(ratio[0], ratio[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_scaled_gradient_survives_underflow(dtype):
    h = torch.tensor([[5000.0, 3000.0, 2999.0], [4000.0, 1000.0, 0.0]], dtype=dtype)
    G = torch.tensor([[1.0, 0.5, -1.0], [0.0, 1.0, 1.0]], dtype=dtype)
    assert (gradient(softmax, h, G) == 0).all()
    scaled = gradient(softmax, h, G, batch_dims=0)
    expected = torch.tensor([[0.0, -0.5, -2.0 * exp(-1)], [0.0, 0.0, 0.0]], dtype=dtype)
    expected[0, 0] = -expected[0].sum()
    torch.testing.assert_close(scaled, expected)


@pytest.mark.parametrize("batch_dims", [None, 0])
def test_tied_winners_share_what_the_losers_take(batch_dims):
    # tokens 0 and 1 tie in score; token 2 is worse by 1 and far behind
    h = torch.tensor([3.0, 2.0, -200.0], dtype=torch.float64)
    G = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    grad = gradient(softmax, h, G, batch_dims=batch_dims)
    s = torch.softmax(h, -1)
    expected = torch.stack([s[0] * s[2], s[1] * s[2], -s[2]])
    if batch_dims == 0:
        expected = expected / s[2]
    torch.testing.assert_close(grad, expected, rtol=1e-12, atol=0)


def test_one_token_or_equal_scores_leave_no_gradient():
    assert gradient(softmax, torch.zeros(2, 1), torch.ones(2, 1), batch_dims=0).tolist() == [[0.0], [0.0]]
    assert gradient(softmax, torch.randn(3), torch.ones(3), batch_dims=0).abs().sum() == 0


def test_masked_tokens_take_no_part():
    h = torch.tensor([1.0, -torch.inf, 0.0], dtype=torch.float64)
    G = torch.tensor([1.0, 5.0, 0.0], dtype=torch.float64)
    grad = gradient(softmax, h, G)
    short = gradient(softmax, h[[0, 2]], G[[0, 2]])
    assert grad[1] == 0
    torch.testing.assert_close(grad[[0, 2]], short)


def test_textbook_gradient_is_right_before_saturation():
    h = torch.randn(3, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    G = torch.randn(3, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    torch.testing.assert_close(gradient(textbook_softmax, h, G), gradient(softmax, h, G))


@pytest.mark.parametrize(
    ("shape", "batch_dims", "says"),
    [
        ((), None, "at least|T >= 1"),
        ((2, 0), None, "T >= 1"),
        ((2, 3), 2, "allow 0 to 1"),
        ((2, 3), -1, "allow 0 to 1"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(shape, batch_dims, says):
    with pytest.raises(ValueError, match=says):
        softmax(torch.zeros(shape), batch_dims)


def test_gradient_sums_to_zero_in_every_row():
    h = 30 * torch.randn(50, 7, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    G = torch.randn(50, 7, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    grad = gradient(softmax, h, G)
    assert grad.sum(-1).abs().max() <= 1e-15 * grad.abs().max()


@pytest.mark.parametrize("function", [softmax, textbook_softmax])
def test_second_derivatives_agree_with_finite_differences(function):
    h = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    assert torch.autograd.gradgradcheck(function, (h.requires_grad_(),))


def test_the_hessian_is_not_zero_behind_a_sum():
    """The incoming gradient then has no graph of its own: torch asks for nothing, and must get it."""
    h = 3 * torch.randn(5, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    v = torch.tensor([1.0, 1.0, 1.0, 0.5, -2.0], dtype=torch.float64)  # with ties
    expected = torch.autograd.functional.hessian(lambda h: torch.softmax(h, -1) @ v, h)
    assert expected.abs().max() > 1e-3
    for function in (softmax, textbook_softmax):
        hessian = torch.autograd.functional.hessian(lambda h, f=function: f(h) @ v, h)
        torch.testing.assert_close(hessian, expected, rtol=1e-12, atol=1e-15)


def test_third_derivatives_and_equal_scores():
    def third(function, G):
        h = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
        first = torch.autograd.grad(function(h, -1), h, G, create_graph=True)[0]
        second = torch.autograd.grad(first[0], (h, G), create_graph=True)
        return [*second, *torch.autograd.grad(second[0][1] + second[1][2], h)]

    for values in ([1.0, 1.0, 1.0], [1.0, 2.0, 1.0]):  # the gradient vanishes with equal scores, its own not
        ends = []
        for function in (torch.softmax, lambda h, _: softmax(h)):
            ends.append(third(function, torch.tensor(values, dtype=torch.float64, requires_grad=True)))
        for ours, torchs in zip(*ends, strict=True):
            torch.testing.assert_close(ours, torchs, rtol=1e-12, atol=1e-15)
        assert ends[1][1].abs().min() > 1e-3


def test_saturated_second_derivatives_keep_their_digits():
    # two tokens: u_0 = s_0 s_1 (G_0 - G_1), du_0/dh_0 = s_0 s_1 (s_1 - s_0) (G_0 - G_1)
    h = torch.tensor([50.0, 0.0], dtype=torch.float64, requires_grad=True)
    s = softmax(h)
    first = torch.autograd.grad(s @ torch.tensor([1.0, 0.3], dtype=torch.float64), h, create_graph=True)[0]
    second = torch.autograd.grad(first[0], h)[0]
    torch.testing.assert_close(second, first[0] * torch.tensor([-1.0, 1.0]).double(), rtol=1e-12, atol=0)
    assert first[0] > 0


def test_a_log_scaled_gradient_has_no_second_derivative():
    h = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"batch_dims = 1 asks for a log-scaled gradient.*leave batch_dims"
    ):
        torch.autograd.grad(softmax(h, 1)[0, 0], h, create_graph=True)


def test_every_row_may_be_a_trial():
    """A row that is saturated must not take its neighbours' gradients away."""
    h = torch.tensor([[0.0, -5000.0, -4000.0], [0.0, 1.0, 2.0], [-0.5, 0.0, 0.5]], dtype=torch.float64)
    G = torch.tensor([1.0, 0.5, -1.0], dtype=torch.float64).expand(3, 3)
    scaled = gradient(softmax, h, G, batch_dims=1)
    alone = torch.stack([gradient(softmax, row, G[0], batch_dims=0) for row in h])
    assert torch.equal(scaled, alone)
    assert (scaled.abs().amax(-1) > 0.1).all()
    ratio = (scaled / gradient(softmax, h, G))[1:]
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))


@pytest.mark.parametrize("batch_dims", [None, 0, 1])
@pytest.mark.parametrize("held", [1e17, torch.inf, -torch.inf, torch.nan])
def test_what_masked_tokens_hold_does_not_matter(held, batch_dims):
    h = torch.tensor([[0.0, 0.0, -torch.inf], [0.0, 1.0, -torch.inf]], dtype=torch.float64)
    G = torch.tensor([[1.0, 2.0, held], [1.0, 2.0, held]], dtype=torch.float64)
    grad = gradient(softmax, h, G, batch_dims=batch_dims)
    assert torch.equal(grad, gradient(softmax, h, G.nan_to_num(0, 0, 0).clamp(max=2), batch_dims=batch_dims))
    assert (grad[:, 2] == 0).all()
    if batch_dims is None:
        torch.testing.assert_close(grad[0], torch.tensor([-0.25, 0.25, 0.0], dtype=torch.float64))


def test_a_row_of_nan_leaves_the_other_trials_alone():
    h = torch.tensor([[torch.nan, 0.0], [0.0, 1.0]], dtype=torch.float64)
    G = torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=torch.float64)
    for batch_dims in (None, 1):
        grad = gradient(softmax, h, G, batch_dims=batch_dims)
        assert grad[0].isnan().all()
        assert torch.equal(grad[1:], gradient(softmax, h[1:], G[1:], batch_dims=batch_dims))


@pytest.mark.parametrize("wrong", [torch.tensor([0, 9]), torch.tensor([0j, 9]), [0.0, 9.0], None])
def test_logits_that_are_not_floating_are_refused(wrong):
    with pytest.raises(ValueError, match="expected a floating tensor"):
        softmax(wrong)
