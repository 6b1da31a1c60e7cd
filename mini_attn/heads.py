"""Prediction heads: what a model makes of the tokens that attention has weighted.

A head is a module that maps vectors (*trials, n, k, d) to numbers (*trials, n, k). A model applies it in one
of two places, and for a linear head they are the same:

    f_i = sum_t s_it g(x_it)        on the tokens one by one, k = T
    f_i = g(sum_t s_it x_it)        on the attention's output, k = 1: heads that say ``on_output = True``
"""

from collections.abc import Callable
from numbers import Integral, Number

import torch
from jaxtyping import Float
from torch import Tensor, nn


def _parameter(trials, shape, init, dtype) -> nn.Parameter:
    """A parameter of shape (*trials, *shape): zeros, or a copy of ``init`` broadcast to it."""
    trials = () if trials is None else (trials,) if isinstance(trials, Number) else tuple(trials)
    if not all(isinstance(size, Integral) and size >= 0 for size in trials):
        raise ValueError(f"trials = {trials}; expected None, a whole number (0 or more), or a tuple of them")
    full = (*trials, *shape)
    if init is None:
        return nn.Parameter(torch.zeros(full, dtype=dtype))
    init = torch.as_tensor(init, dtype=dtype)
    try:
        return nn.Parameter(init.detach().expand(full).clone())
    except RuntimeError:
        raise ValueError(
            f"init has shape {tuple(init.shape)}; expected one that broadcasts to {full}"
        ) from None


def _check_size(name: str, size: int):
    if not isinstance(size, Integral) or size < 1:
        raise ValueError(f"{name} = {size!r}; expected a whole number, at least 1")


class LinearHead(nn.Module):
    """A trainable linear prediction head v: g(x) = v.x.

    Args:
        d, trials, init, dtype: as for the models.

    Introduced in lesson 09.
    """

    def __init__(self, d: int, trials=None, init=None, dtype=torch.float64):
        super().__init__()
        _check_size("d", d)
        self.d = d
        self.v = _parameter(trials, (d,), init, dtype)

    def forward(self, X: Float[Tensor, "*trials n k d"]) -> Float[Tensor, "*trials n k"]:
        return (X @ self.v[..., None, :, None]).squeeze(-1)


def _relu_slope(u: Tensor) -> Tensor:
    return (u > 0).to(u.dtype)  # 0 at the kink, as torch has it


def _gelu_slope(u: Tensor) -> Tensor:
    return torch.special.ndtr(u) + u * torch.exp(-0.5 * u * u) / (2 * torch.pi) ** 0.5


def _tanh_slope(u: Tensor) -> Tensor:
    return 1 / u.cosh().square()


def _gelu_curvature(u: Tensor) -> Tensor:
    return (2 - u * u) * torch.exp(-0.5 * u * u) / (2 * torch.pi) ** 0.5


def _tanh_curvature(u: Tensor) -> Tensor:
    return -2 * u.tanh() / u.cosh().square()


_ACTIVATIONS = {  # act and its first two derivatives
    "relu": (torch.relu, _relu_slope, torch.zeros_like),  # away from the kink
    "gelu": (nn.functional.gelu, _gelu_slope, _gelu_curvature),
    "tanh": (torch.tanh, _tanh_slope, _tanh_curvature),
}


class MLPHead(nn.Module):
    """A perceptron with one hidden layer on the attention's output:  g(x) = 1^T act(scale V x).

    What a token is worth to a sequence depends on the others that attention keeps: the scores are those of
    the linear head grad g at the output,

        df_i / ds_it = x_it . grad g(sum_tau s_itau x_itau),    grad g(x) = scale V^T act'(scale V x),

    so that the best mixture of tokens can beat each token alone, and several keep weight.

    Args:
        d: embedding dimension.
        hidden: number of hidden units.
        trials, dtype: as for the models.
        activation: act, "relu", "gelu" (smooth) or "tanh" (bounded).
        scale: factor of V, positive. With ||V||_F = 1 and tokens of length 1, gelu and tanh are nearly linear
            unless it is several times 1.
        init: V, broadcast to (*trials, hidden, d). None draws Gaussian entries, divided by their Frobenius
            norm in each trial: ||V||_F = 1.
        seed: of that draw; the same on every machine.
        trainable: False keeps V fixed; it is then a buffer, which no optimiser sees.

    Raises:
        ValueError: sizes, a scale or an activation out of range; an init that does not fit.

    Source: Tarzanagh et al. 2023, "Transformers as Support Vector Machines", nonlinear heads; its public code
    has act = relu, scale = 1 and V fixed.
    Introduced in lesson 13.
    """

    on_output = True

    def __init__(
        self,
        d: int,
        hidden: int,
        trials=None,
        activation: str = "relu",
        scale: float = 1.0,
        init=None,
        seed: int = 0,
        trainable: bool = False,
        dtype=torch.float64,
    ):
        super().__init__()
        _check_size("d", d)
        _check_size("hidden", hidden)
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation = {activation!r}; expected one of {sorted(_ACTIVATIONS)}")
        if not 0 < scale < float("inf"):
            raise ValueError(f"scale = {scale}; expected a positive finite factor of V")
        self.d, self.activation, self.scale = d, activation, scale
        V = _parameter(trials, (hidden, d), init, dtype)
        if init is None:
            generator = torch.Generator().manual_seed(seed)
            draw = torch.randn(V.shape, generator=generator, dtype=torch.float64)
            V.data.copy_(draw / torch.linalg.matrix_norm(draw)[..., None, None])
        if trainable:
            self.V = V
        else:
            self.register_buffer("V", V.detach())

    def forward(self, X: Float[Tensor, "*trials n k d"]) -> Float[Tensor, "*trials n k"]:
        act, *_ = _ACTIVATIONS[self.activation]
        return act(self.scale * X @ self.V.mT[..., None, :, :]).sum(-1)

    def linearised(
        self, x: Float[Tensor, "*trials n d"]
    ) -> tuple[Float[Tensor, "*trials n"], Float[Tensor, "*trials n d"], Callable]:
        """Return g(x), its gradient there, and the way from dL/dg, (*trials, n), to the gradient in V."""
        act, slope, _ = _ACTIVATIONS[self.activation]
        u = self.scale * x @ self.V.mT  # (*trials, n, hidden)
        slopes = self.scale * slope(u)
        return act(u).sum(-1), slopes @ self.V, lambda weights: (weights[..., None] * slopes).mT @ x

    def curvature(self, x: Float[Tensor, "*trials n d"]) -> Float[Tensor, "*trials n hidden"]:
        """The numbers c_k = scale^2 act''(scale V_k.x): the second derivative of g at x is V^T diag(c) V.

        Of a ReLU it is 0: that holds on either side of a kink, and misses the kink.
        """
        return self.scale**2 * _ACTIVATIONS[self.activation][2](self.scale * x @ self.V.mT)
