"""Losses of the margin u = y f: decreasing functions, with gradients that survive large margins."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn.softmax import unscaled


@dataclass(frozen=True)
class Loss:
    """A decreasing loss l(u), applied to each margin.

    Args:
        name: "logistic", "exponential" or "linear".
        value: u -> l(u).
        log: u -> log l(u), accurate where l(u) underflows.
        log_slope: u -> log |l'(u)|, likewise; differentiable, if second derivatives are wanted.

    Made of functions that have names, not of lambdas, a loss can be pickled and sent to other processes.

    Introduced in lesson 01.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    log: Callable[[Tensor], Tensor]
    log_slope: Callable[[Tensor], Tensor]

    def __call__(
        self,
        margins: Float[Tensor, "*trials n"],
        batch_dims: int | None = None,
        present: Bool[Tensor, "*trials n"] | None = None,
    ) -> Float[Tensor, "*trials n"]:
        """Return l(u) for each margin.

        With batch_dims = k the backward is *log-scaled*: in each trial (leading k dimensions) l' is divided
        by the largest |l'(u_i)|, so that the gradient keeps its direction and cannot underflow. It is then
        differentiable once; without batch_dims as often as log_slope is. Examples that are not ``present``
        (None: all are) have no gradient and do not take part in the scaling.

        Raises:
            ValueError: batch_dims larger than the number of dimensions.
            RuntimeError: from a backward with create_graph=True, if batch_dims is given.
        """
        _check(margins, batch_dims)
        return _Apply.apply(margins, self, batch_dims, present)

    def slope(
        self,
        margins: Float[Tensor, "*trials n"],
        batch_dims: int | None = None,
        present: Bool[Tensor, "*trials n"] | None = None,
    ) -> Float[Tensor, "*trials n"]:
        """Return l'(u), or with batch_dims its log-scaled form: what the backward multiplies by."""
        _check(margins, batch_dims)
        log_slope = self.log_slope(margins)
        if present is not None:
            log_slope = log_slope.masked_fill(~present, -torch.inf)
        if batch_dims is not None:
            within = tuple(range(batch_dims, margins.ndim))
            # amax over no dimension at all would be one over every trial
            log_slope = log_slope - (log_slope.amax(within, keepdim=True) if within else log_slope)
        return -log_slope.exp()

    def log_mean(
        self, margins: Float[Tensor, "*trials n"], present: Bool[Tensor, "*trials n"] | None = None
    ) -> Float[Tensor, "*trials"]:
        """Return log((1/n) sum_i l(u_i)), accurate where the loss itself underflows; over the examples that
        are ``present``."""
        log = self.log(margins)
        if present is not None:
            return log.masked_fill(~present, -torch.inf).logsumexp(-1) - present.sum(-1).to(log).log()
        log_n = torch.log(torch.tensor(float(margins.shape[-1]), dtype=margins.dtype, device=margins.device))
        return log.logsumexp(-1) - log_n


def mean(
    values: Float[Tensor, "*trials n"], present: Bool[Tensor, "*trials n"] | None = None
) -> Float[Tensor, "*trials"]:
    """The mean over the examples, or those that are ``present``."""
    if present is None:
        return values.mean(-1)
    return torch.where(present, values, 0.0).sum(-1) / present.sum(-1)


def _check(margins: Tensor, batch_dims: int | None):
    if batch_dims is not None and not 0 <= batch_dims <= margins.ndim:
        shape = tuple(margins.shape)
        raise ValueError(f"batch_dims = {batch_dims}; margins of shape {shape} allow 0 to {margins.ndim}")


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, margins, loss, batch_dims, present):
        ctx.save_for_backward(margins)
        ctx.loss, ctx.batch_dims, ctx.present = loss, batch_dims, present
        return loss.value(margins)

    @staticmethod
    def backward(ctx, grad):
        unscaled(ctx.batch_dims)
        (margins,) = ctx.saved_tensors
        return grad * ctx.loss.slope(margins, ctx.batch_dims, ctx.present), None, None, None


def _log_logistic(u: Tensor) -> Tensor:
    # log(1 + e^-u) = e^-u (1 - e^-u / 2 + ...): beyond u = 20 two terms give its logarithm to the last digit
    far = u > 20
    return torch.where(far, -u - 0.5 * (-u).exp(), _softplus(-u.masked_fill(far, 0.0)).log())


def _log_linear(u: Tensor) -> Tensor:
    return torch.where(u < 0, (-u).log(), torch.nan)


def _softplus(x: Tensor) -> Tensor:
    # torch's own softplus is x beyond 20, 2e-9 off; its logsigmoid starts threads for a dozen numbers
    return torch.logaddexp(x, torch.zeros_like(x))


def _logistic(u: Tensor) -> Tensor:
    return _softplus(-u)


def _log_slope_logistic(u: Tensor) -> Tensor:
    return -_softplus(u)


def _exponential(u: Tensor) -> Tensor:
    return (-u).exp()


logistic = Loss("logistic", _logistic, _log_logistic, _log_slope_logistic)
exponential = Loss("exponential", _exponential, torch.neg, torch.neg)
linear = Loss("linear", torch.neg, _log_linear, torch.zeros_like)

_LOSSES = {loss.name: loss for loss in (logistic, exponential, linear)}


def get(loss: str | Loss) -> Loss:
    """Return the loss of that name, or the loss itself.

    Raises:
        ValueError: no loss has that name.
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in _LOSSES:
        raise ValueError(f"loss = {loss!r}; expected one of {sorted(_LOSSES)}, or a Loss")
    return _LOSSES[loss]
