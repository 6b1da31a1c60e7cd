import copy
import multiprocessing
import pickle

import pytest
import torch

from mini_attn import losses


def slope(loss, margins, **options):
    u = torch.tensor(margins, dtype=torch.float64).requires_grad_()
    loss(u, **options).sum().backward()
    return u.grad


@pytest.mark.parametrize(
    "loss", [losses.logistic, losses.exponential, losses.linear], ids=lambda loss: loss.name
)
def test_gradient_agrees_with_finite_differences(loss):
    u = torch.linspace(-5, 5, 11, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(loss, (u,))


@pytest.mark.parametrize("loss", [losses.logistic, losses.exponential], ids=lambda loss: loss.name)
def test_log_is_the_logarithm_and_survives_underflow(loss):
    u = torch.linspace(-30, 600, 64, dtype=torch.float64)
    torch.testing.assert_close(loss.log(u), loss.value(u).log(), rtol=1e-12, atol=1e-12)
    far = torch.tensor([1e4, 1e8], dtype=torch.float64)
    torch.testing.assert_close(loss.log(far), -far)
    torch.testing.assert_close(
        loss.log_mean(far), torch.tensor(-1e4, dtype=torch.float64) - torch.tensor(2.0).log()
    )


def test_linear_loss_has_a_logarithm_only_where_it_is_positive():
    log = losses.linear.log(torch.tensor([-2.0, 1.0]))
    assert log[0] == torch.tensor(2.0).log()
    assert log[1].isnan()


@pytest.mark.parametrize("loss", [losses.logistic, losses.exponential], ids=lambda loss: loss.name)
def test_log_scaled_slope_keeps_direction_and_survives_underflow(loss):
    near = [[1.0, 2.0, 0.5], [3.0, 3.0, 4.0]]
    plain, scaled = slope(loss, near), slope(loss, near, batch_dims=1)
    ratio = scaled / plain
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))
    assert (plain < 0).all()
    far = slope(loss, [2000.0, 2001.0], batch_dims=0)
    torch.testing.assert_close(far, -torch.tensor([0.0, -1.0], dtype=torch.float64).exp())
    assert (slope(loss, [2000.0, 2001.0]) == 0).all()


def test_get_knows_the_names():
    assert losses.get("logistic") is losses.logistic
    assert losses.get(losses.linear) is losses.linear
    with pytest.raises(
        ValueError, match=r"loss = 'hinge'; expected one of \['exponential', 'linear', 'logistic'\]"
    ):
        losses.get("hinge")


NAMED = (losses.logistic, losses.exponential, losses.linear)


@pytest.mark.parametrize("loss", NAMED, ids=lambda loss: loss.name)
def test_second_derivatives_agree_with_finite_differences(loss):
    u = torch.linspace(-5, 5, 11, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(loss, (u,))


def test_the_hessian_of_the_mean_loss_is_not_zero():
    u = torch.linspace(-3, 3, 4, dtype=torch.float64)
    for loss, second in (
        (losses.logistic, torch.sigmoid(u) * torch.sigmoid(-u)),
        (losses.exponential, (-u).exp()),
        (losses.linear, torch.zeros_like(u)),
    ):
        hessian = torch.autograd.functional.hessian(lambda u, loss=loss: loss(u).sum(), u)
        torch.testing.assert_close(hessian, second.diag())


def test_a_log_scaled_slope_has_no_derivative():
    u = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="batch_dims = 0 asks for a log-scaled gradient"):
        torch.autograd.grad(losses.logistic(u, 0).sum(), u, create_graph=True)


def test_every_margin_may_be_a_trial():
    margins = [[2000.0, -3.0], [0.5, 900.0]]
    for loss in NAMED:
        assert (slope(loss, margins, batch_dims=2) == -1).all()
    assert slope(losses.logistic, 3.0, batch_dims=0) == -1
    for batch_dims in (-1, 3):
        with pytest.raises(ValueError, match=rf"batch_dims = {batch_dims}; margins of shape \(2, 2\) allow"):
            slope(losses.logistic, margins, batch_dims=batch_dims)
        with pytest.raises(ValueError, match="allow 0 to 2"):
            losses.logistic.slope(torch.tensor(margins), batch_dims)


def test_a_trial_of_nan_leaves_the_others_alone():
    margins = [[torch.nan, 1.0], [3.0, 4.0]]
    assert torch.equal(
        slope(losses.logistic, margins, batch_dims=1)[1], slope(losses.logistic, margins[1], batch_dims=0)
    )


@pytest.mark.parametrize("loss", NAMED, ids=lambda loss: loss.name)
def test_losses_can_be_copied(loss):
    u = torch.linspace(-3, 3, 4)
    for twin in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert twin == loss
        torch.testing.assert_close(twin(u), loss(u))


@pytest.mark.slow
def test_losses_can_be_sent_to_other_processes():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(losses.get, NAMED) == list(NAMED)
