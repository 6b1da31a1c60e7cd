"""A softmax whose gradient survives saturation.

The theory of attention lives at ||W|| -> infinity, where one token of each sequence holds almost all the
weight. There the textbook gradient s_t (G_t - sum_tau s_tau G_tau) subtracts two nearly equal numbers and
returns rounding noise; and a little later every s_t but one underflows to zero. This file cures both.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def logit_gradient(
    log_s: Float[Tensor, "*batch T"], G: Float[Tensor, "*batch T"], batch_dims: int | None = None
) -> Float[Tensor, "*batch T"]:
    """The backward of :func:`softmax`: from G = dL/ds to dL/dh.

    Args:
        log_s: log of the attention, ``torch.log_softmax(logits, -1)``, (..., T).
        G: gradient in the attention, same shape.
        batch_dims: as for :func:`softmax`.

    Introduced in lesson 05.
    """
    winner = log_s.argmax(-1, keepdim=True)
    difference = G - G.gather(-1, winner)
    # A difference below the rounding error of G carries no information: call it a tie.
    tied = difference.abs() <= 4 * torch.finfo(G.dtype).eps * G.abs().amax(-1, keepdim=True)
    difference = difference.masked_fill(tied, 0.0)
    log_loser = log_s.masked_fill(tied, -torch.inf)
    if batch_dims is not None:  # take out the largest weight that still pulls, in each trial
        log_factor = log_loser.amax(tuple(range(batch_dims, log_s.ndim)), keepdim=True)
        log_factor = log_factor.clamp(min=torch.finfo(log_s.dtype).min)  # no loser pulls: -inf would give NaN
        log_loser = log_loser - log_factor
    pull = log_loser.exp() * difference
    mean = pull.sum(-1, keepdim=True)  # sum_tau s_tau (G_tau - G_a), over the factor
    # u_t = pull_t - s_t mean, which for tied tokens is - s_t mean
    grad = torch.addcmul(pull, log_s.exp(), mean, value=-1.0).scatter(-1, winner, 0.0)
    return grad.scatter_(-1, winner, -grad.sum(-1, keepdim=True))


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, batch_dims):
        log_s = torch.log_softmax(logits, dim=-1)
        ctx.save_for_backward(log_s)
        ctx.batch_dims = batch_dims
        return log_s.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx, G):
        return logit_gradient(*ctx.saved_tensors, G, ctx.batch_dims), None


def softmax(logits: Float[Tensor, "*batch T"], batch_dims: int | None = None) -> Float[Tensor, "*batch T"]:
    """Softmax over the last axis, with a backward free of cancellation.

    s_t = exp(h_t) / sum_tau exp(h_tau).  For an incoming gradient G = dL/ds the gradient in the logits is
        u_t = s_t sum_tau s_tau (G_t - G_tau),
    computed relative to the winner a = argmax s, so that no two nearly equal numbers are subtracted:
        u_t = s_t [(G_t - G_a) - sum_tau s_tau (G_tau - G_a)]  for t != a,      u_a = - sum_{t != a} u_t.

    Args:
        logits: h, (..., T), any floating dtype. -inf masks a token.
        batch_dims: None for the exact gradient. With an integer k, the leading k dimensions are trials and
            the backward is *log-scaled*: in each trial the gradient is divided by the largest losing weight
            max s_it, taken out in logs. Its direction is unchanged, and it cannot underflow; use it with
            an optimiser that does not read the gradient's length.

    Returns:
        s, shape and dtype of the logits. Differentiable once.

    Raises:
        ValueError: logits without an axis of tokens, or batch_dims that leaves none.

    Introduced in lesson 05; the log-scaled form in lesson 06.
    """
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits have shape {tuple(logits.shape)}; expected (..., T) with T >= 1 tokens")
    if batch_dims is not None and not 0 <= batch_dims < logits.ndim:
        raise ValueError(
            f"batch_dims = {batch_dims}; logits with {logits.ndim} dimensions allow 0 to {logits.ndim - 1}"
        )
    return _Softmax.apply(logits, batch_dims)


class _TextbookSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        s = torch.softmax(logits, dim=-1)
        ctx.save_for_backward(s)
        return s

    @staticmethod
    @once_differentiable
    def backward(ctx, G):
        (s,) = ctx.saved_tensors
        return s * (G - (s * G).sum(-1, keepdim=True))


def textbook_softmax(
    logits: Float[Tensor, "*batch T"], batch_dims: int | None = None
) -> Float[Tensor, "*batch T"]:
    """Softmax with the gradient every textbook prints, s_t (G_t - sum_tau s_tau G_tau): for comparison only.

    Once 1 - max s falls to the rounding error, the difference in brackets is noise.

    Args:
        logits: h, (..., T).
        batch_dims: ignored; here so that it can stand in for :func:`softmax`.

    Introduced in lesson 05; its failure is measured in lesson 06.
    """
    return _TextbookSoftmax.apply(logits)
