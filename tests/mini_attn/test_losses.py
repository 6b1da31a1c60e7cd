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
