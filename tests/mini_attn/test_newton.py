"""Second-order paths: derivatives, agreement with first-order paths, and what stays behind."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_attn import data, heads, losses, models, newton, paths


def problem(d=5, trials=4, activation="gelu", seed=0, n=3, T=4, **kwargs):
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed, **kwargs)
    return drawn, heads.MLPHead(d, d, trials, activation, 4.0, seed=seed)


@given(
    n=st.integers(1, 3),
    T=st.integers(1, 5),
    d=st.integers(1, 5),
    activation=st.sampled_from(["gelu", "tanh", None]),
    loss=st.sampled_from(["logistic", "exponential", "linear"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_derivatives_in_the_logits_are_autograds(n, T, d, activation, loss, seed):
    drawn = data.random_tokens(n, T, d, seed=seed)
    head = None if activation is None else heads.MLPHead(d, d + 1, None, activation, 3.0, seed=seed)
    model, loss = models.CrossAttention(d, head=head), losses.get(loss)

    def total(h):
        s = torch.softmax(h, -1)
        f = drawn.mix(s) @ drawn.v if head is None else head(drawn.mix(s)[..., None, :]).squeeze(-1)
        return loss.value(drawn.y * f)

    h = torch.randn(n, T, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    value, g, H = newton.logit_derivatives(model, drawn, loss, h)
    torch.testing.assert_close(value, total(h))
    torch.testing.assert_close(g, torch.autograd.functional.jacobian(lambda h: total(h).sum(), h))
    whole = torch.autograd.functional.hessian(lambda h: total(h).sum(), h)
    torch.testing.assert_close(H, torch.stack([whole[i, :, i] for i in range(n)]))


@pytest.mark.parametrize("model", [models.PromptAttention, models.CrossAttention])
@pytest.mark.parametrize("activation", ["gelu", "tanh"])
def test_the_path_is_that_of_first_order_steps(model, activation):
    drawn, head = problem(activation=activation)
    make = lambda: model(5, trials=4, head=head)  # noqa: E731
    radii = [0.5, 1.0, 2.0, 4.0]
    slow, fast = paths.regularization_path(make(), drawn, radii), newton.newton_path(make(), drawn, radii)
    assert (fast.residual < 1e-8).all()
    ((name, _),) = slow.values.items()
    torch.testing.assert_close(fast[name], slow[name], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(fast.loss, slow.loss)
    lengths = fast[name].flatten(2 if name == "p" else -2).norm(dim=-1)
    torch.testing.assert_close(lengths, fast.radii[:, None].expand(4, 4))


def test_masks_and_a_linear_head_are_followed():
    drawn, _ = problem(lengths=[4, 2, 1])
    path = newton.newton_path(models.CrossAttention(5, trials=4), drawn, [1.0, 4.0, 8.0])
    slow = paths.regularization_path(models.CrossAttention(5, trials=4), drawn, [1.0, 4.0, 8.0])
    assert (path.residual < 1e-6).all()
    torch.testing.assert_close(path["W"], slow["W"], atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_a_trial_that_does_not_arrive_stays_where_it_was():
    drawn, head = problem(d=6, trials=6, seed=3)
    radii = [1, 2, 4, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128, 256, 1024]
    path = newton.newton_path(models.CrossAttention(6, trials=6, head=head), drawn, radii)
    arrived = path.residual <= 1e-6
    assert (arrived.int().diff(dim=0) <= 0).all()
    assert arrived[6].all()
    assert not arrived[-1].all()
    lost = (~arrived[-1]).nonzero()[0, 0]
    last = int(arrived[:, lost].sum()) - 1
    assert torch.equal(path["W"][-1, lost], path["W"][last, lost])
    assert (path.residual[~arrived] == torch.inf).all()


@pytest.mark.parametrize(
    ("model", "radii", "says"),
    [
        (lambda head: models.CrossAttention(5, trials=4, head=head), [2.0, 1.0], "each larger than the one"),
        (lambda head: models.FactoredAttention(5, 2, trials=4, head=head), [1.0], "FactoredAttention"),
        (lambda head: models.CrossAttention(5, head=head), [1.0], r"give the model trials=\(4,\)"),
        (
            lambda head: models.CrossAttention(5, trials=4, head=heads.LinearHead(5, trials=4)),
            [1.0],
            "a fixed head",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(model, radii, says):
    drawn, head = problem()
    with pytest.raises(ValueError, match=says):
        newton.newton_path(model(head), drawn, radii)
