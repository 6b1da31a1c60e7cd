"""Lesson 05. The gradient of softmax attention vanishes as it saturates, and the textbook formula loses it.

With margin m = h_a - max h_t, the attention off the winner and the gradient are at most of order exp(-m); the
formula s_t (g_t - sum s g) has an absolute error near 1e-16, so it is noise beyond m = log 2^53 = 36.7.
"""

import math

import pytest
import torch

from mini_attn import softmax

generator = torch.Generator().manual_seed(2025)
DIRECTION = torch.randn(200, 6, generator=generator, dtype=torch.float64)
VALUES = torch.randn(200, 6, generator=generator, dtype=torch.float64)


def gradient(function, logits, **options):
    logits = logits.clone().requires_grad_()
    (function(logits, **options) * VALUES).sum().backward()
    return logits.grad


def with_margin(m):
    """Random logits, scaled so that each row's winner leads by m."""
    top = DIRECTION.topk(2, dim=-1).values
    return DIRECTION * (m / (top[:, 0] - top[:, 1]))[:, None]


@pytest.mark.parametrize("m", [5.0, 20.0, 100.0, 600.0])
def test_attention_and_gradient_vanish_with_the_margin(m):
    logits = with_margin(m)
    off = torch.softmax(logits, -1).sort(-1).values[:, :-1].sum(-1)
    assert (off <= 5 * math.exp(-m)).all()
    spread = VALUES.amax(-1) - VALUES.amin(-1)
    size = gradient(softmax.softmax, logits).abs().sum(-1)
    assert (size <= 2 * spread * 5 * math.exp(-m)).all()


def test_the_textbook_formula_is_noise_beyond_its_wall():
    for m, right in ((15.0, True), (36.0, False), (45.0, False)):
        logits = with_margin(m)
        exact = gradient(softmax.softmax, logits)
        error = (gradient(softmax.textbook_softmax, logits) - exact).norm(dim=-1) / exact.norm(dim=-1)
        assert (error.median() < 1e-6) if right else (error.median() > 0.05)


def test_in_logs_the_direction_survives_any_margin():
    near = gradient(softmax.softmax, with_margin(300.0), batch_dims=1)
    plain = gradient(softmax.softmax, with_margin(300.0))
    unit = plain / plain.abs().amax(-1, keepdim=True)
    torch.testing.assert_close(near / near.abs().amax(-1, keepdim=True), unit)
    far = gradient(softmax.softmax, with_margin(1e6), batch_dims=1)
    assert (far.abs().amax(-1) > 1e-3).all()
    assert (gradient(softmax.softmax, with_margin(1e6)) == 0).all()
