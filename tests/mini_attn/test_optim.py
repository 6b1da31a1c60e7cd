import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from mini_attn import optim


def stepped(make, grad, start=None, loss=None):
    """The parameter after one step with the given gradient."""
    grad = torch.as_tensor(grad, dtype=torch.float64)
    w = nn.Parameter(
        torch.zeros_like(grad) if start is None else torch.as_tensor(start, dtype=torch.float64).clone()
    )
    optimizer = make([w])
    w.grad = grad.clone()
    optimizer.step(None if loss is None else lambda: torch.as_tensor(loss, dtype=torch.float64))
    return w.detach()


def test_normalized_gd_takes_steps_of_one_length_in_each_trial():
    w = stepped(lambda w: optim.NormalizedGD(w, lr=0.5, batch_dims=1), [[3.0, 4.0], [1e-200, 0.0]])
    torch.testing.assert_close(w, torch.tensor([[-0.3, -0.4], [-0.5, 0.0]], dtype=torch.float64))


def test_normalized_gd_norm_runs_over_a_whole_group():
    a, b = nn.Parameter(torch.zeros(2, 1)), nn.Parameter(torch.zeros(2, 1))
    a.grad, b.grad = torch.tensor([[3.0], [0.0]]), torch.tensor([[4.0], [2.0]])
    optim.NormalizedGD([a, b], lr=1.0, batch_dims=1).step()
    torch.testing.assert_close(torch.cat([a, b], 1).detach(), torch.tensor([[-0.6, -0.8], [0.0, -1.0]]))
    a.data.zero_()
    b.data.zero_()
    optim.NormalizedGD([{"params": [a]}, {"params": [b]}], lr=1.0, batch_dims=1).step()
    torch.testing.assert_close(torch.cat([a, b], 1).detach(), torch.tensor([[-1.0, -1.0], [0.0, -1.0]]))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_normalised_steps_do_not_depend_on_the_gradients_length(scale):
    grad = torch.tensor([[1.0, -2.0], [0.5, 0.25]], dtype=torch.float64)
    for make in (
        lambda w: optim.NormalizedGD(w, lr=0.1),
        lambda w: optim.SignDescent(w, lr=0.1),
        lambda w: optim.SpectralDescent(w, lr=0.1),
        lambda w: optim.MirrorDescent(w, lr=0.1, p=3.0),
        lambda w: optim.MirrorDescent(w, lr=0.1, p=1.5),
    ):
        torch.testing.assert_close(stepped(make, scale * grad), stepped(make, grad))


@pytest.mark.parametrize(
    "make",
    [
        lambda w: optim.NormalizedGD(w, lr=0.1, batch_dims=1),
        lambda w: optim.SignDescent(w, lr=0.1, batch_dims=1),
        lambda w: optim.SpectralDescent(w, lr=0.1, batch_dims=1),
        lambda w: optim.MirrorDescent(w, lr=0.1, p=3.0, batch_dims=1),
        lambda w: optim.PolyakGD(w, batch_dims=1),
    ],
)
def test_a_zero_gradient_moves_nothing(make):
    start = [[[1.0, -2.0], [0.5, 0.0]]]
    w = stepped(make, torch.zeros(1, 2, 2), start, loss=[1.0])
    torch.testing.assert_close(w, torch.tensor(start, dtype=torch.float64))


def test_sign_descent_moves_every_entry_by_lr():
    w = stepped(lambda w: optim.SignDescent(w, lr=0.1), [3.0, -1e-9, 0.0])
    torch.testing.assert_close(w, torch.tensor([-0.1, 0.1, 0.0], dtype=torch.float64))


def test_spectral_descent_moves_along_the_polar_factor():
    grad = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    step = -stepped(lambda w: optim.SpectralDescent(w, lr=1.0, batch_dims=1), grad)
    eye = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    torch.testing.assert_close(step @ step.mT, eye)
    nuclear = torch.linalg.svdvals(grad).sum(-1)
    torch.testing.assert_close((step * grad).sum((-2, -1)), nuclear)


def test_spectral_descent_leaves_null_directions_alone():
    grad = torch.outer(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([3.0, 4.0])).double()
    step = -stepped(lambda w: optim.SpectralDescent(w, lr=1.0), grad)
    torch.testing.assert_close(step, grad / 15)


def test_mirror_descent_at_two_is_normalized_gd():
    grad, start = [[1.0, -2.0, 0.5]], [[0.3, -0.1, 2.0]]
    mirror = stepped(lambda w: optim.MirrorDescent(w, lr=0.1, p=2.0, batch_dims=1), grad, start)
    torch.testing.assert_close(mirror, stepped(lambda w: optim.NormalizedGD(w, 0.1, 1), grad, start))


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_mirror_descent_steps_in_the_dual_variable(p):
    grad = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    start = torch.tensor([0.3, -0.1, 2.0], dtype=torch.float64)
    w = stepped(lambda w: optim.MirrorDescent(w, lr=0.1, p=p), grad, start)

    def mirror(w):
        return w.sign() * w.abs() ** (p - 1)

    q = p / (p - 1)
    torch.testing.assert_close(mirror(w), mirror(start) - 0.1 * grad / (grad.abs() ** q).sum() ** (1 / q))


def test_polyak_step_lands_on_the_minimum_of_a_parabola_in_two_halves():
    # L = w^2 / 2: Polyak's step halves w
    w = stepped(lambda w: optim.PolyakGD(w, batch_dims=1), [[2.0], [4.0]], [[2.0], [4.0]], loss=[2.0, 8.0])
    torch.testing.assert_close(w, torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    w = stepped(lambda w: optim.PolyakGD(w, max_step=0.25), [2.0], [2.0], loss=2.0)
    torch.testing.assert_close(w, torch.tensor([1.75], dtype=torch.float64))
    w = stepped(lambda w: optim.PolyakGD(w, target=1.0), [2.0], [2.0], loss=2.0)
    torch.testing.assert_close(w, torch.tensor([1.5], dtype=torch.float64))
    w = stepped(lambda w: optim.PolyakGD(w, target=0.7), [2.0], [2.0], loss=0.7)  # to the last digit
    assert torch.equal(w, torch.tensor([2.0], dtype=torch.float64))


def test_state_dict_restores_the_settings():
    w = nn.Parameter(torch.zeros(2, 2))
    optimizer = optim.MirrorDescent([w], lr=0.1, p=3.0, batch_dims=1)
    state = copy.deepcopy(optimizer.state_dict())
    other = optim.MirrorDescent([w], lr=0.5, p=2.0, batch_dims=0)
    other.load_state_dict(state)
    assert {k: other.param_groups[0][k] for k in ("lr", "p", "batch_dims")} == {
        "lr": 0.1,
        "p": 3.0,
        "batch_dims": 1,
    }


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda w: optim.NormalizedGD(w, lr=0.0), "lr = 0.0; expected a positive"),
        (lambda w: optim.NormalizedGD(w, lr=float("nan")), "lr = nan"),
        (lambda w: optim.NormalizedGD(w, lr=1.0, batch_dims=-1), "batch_dims = -1"),
        (lambda w: optim.NormalizedGD(w, lr=1.0, batch_dims=2), "too few dimensions"),
        (lambda w: optim.SpectralDescent(w, lr=1.0), "needs at least 2"),
        (lambda w: optim.MirrorDescent(w, lr=1.0, p=1.0), "p = 1.0; mirror descent needs"),
        (lambda w: optim.PolyakGD(w, max_step=0.0), "max_step = 0.0"),
        (lambda w: optim.PolyakGD(w).step(), "PolyakGD reads the loss"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(make, says):
    with pytest.raises(ValueError, match=says):
        make([nn.Parameter(torch.zeros(3))])


def test_a_matrix_of_nan_leaves_the_other_trials_alone():
    start = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = []
    for spoilt in (False, True):
        w = start.clone().requires_grad_()
        w.grad = start.flip(0)
        if spoilt:
            w.grad[1, 0, 0] = torch.nan
        optim.SpectralDescent([w], lr=0.1, batch_dims=1).step()
        ends.append(w.detach())
    torch.testing.assert_close(ends[1][[0, 2]], ends[0][[0, 2]])
    assert ends[1][1].isnan().all()


@pytest.mark.parametrize("name", ["NormalizedGD", "SpectralDescent", "MirrorDescent"])
@pytest.mark.parametrize("spoilt", [1e-200, 1e200, torch.nan])
def test_no_digit_of_a_trial_depends_on_another(name, spoilt):
    start = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    more = {"p": 3} if name == "MirrorDescent" else {}
    ends = []
    for factor in (1.0, spoilt):
        w = start.clone().requires_grad_()
        w.grad = start.flip(0)
        w.grad[1] *= factor
        getattr(optim, name)([w], lr=0.1, batch_dims=1, **more).step()
        ends.append(w.detach()[[0, 2]])
    assert torch.equal(*ends)


WITHOUT_THE_COMPILER = """
import sys
from mini_attn import data, models, optim, train

tokens, model = data.random_tokens(3, 4, 5), models.CrossAttention(5)
optimizer = optim.NormalizedGD(model.parameters(), 0.1)
history = train.fit(model, tokens, optimizer, 2, progress=False)
train.fit(model, tokens, optimizer, 3, progress=False, resume=history)
optimizer.zero_grad()
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.slow
def test_nothing_imports_torchs_compiler():
    subprocess.run([sys.executable, "-c", WITHOUT_THE_COMPILER], check=True)
