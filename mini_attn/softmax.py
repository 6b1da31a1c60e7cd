"""A softmax whose gradient survives saturation.

The theory of attention lives at ||W|| -> infinity, where one token of each sequence holds almost all the
weight. There the textbook gradient s_t (G_t - sum_tau s_tau G_tau) subtracts two nearly equal numbers and
returns rounding noise; and a little later every s_t but one underflows to zero. This file cures both.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mini_attn.arguments import dense, describe


def logit_gradient(
    log_s: Float[Tensor, "T *batch"],
    s: Float[Tensor, "T *batch"],
    difference: Float[Tensor, "T *batch"],
    barrier: Float[Tensor, "T *batch"],
    batch_dims: int | None = None,
    log_weight: Float[Tensor, "*batch"] | None = None,
) -> Float[Tensor, "T *batch"]:
    """The backward of :func:`softmax`, to dL/dh, with the tokens first.

    Tokens stand first because reductions over a short last axis are several times slower.

    Args:
        log_s, s: log of the attention, and the attention, (T, ...).
        difference, barrier: what :func:`contrast` returns for the incoming gradient and the winners.
        batch_dims: as for :func:`softmax`; trials follow the tokens, (T, *trials, ...).
        log_weight: each row's gradient is multiplied by exp(log_weight), (...).
    """
    log_loser = log_s + barrier
    if log_weight is not None:
        log_loser += log_weight
    if batch_dims is not None:  # take out the largest weight that still pulls, in each trial
        log_factor = log_loser.amax(0)
        if batch_dims < log_factor.ndim:  # amax over no dimension at all would be one over every trial
            log_factor = log_factor.amax(tuple(range(batch_dims, log_factor.ndim)), keepdim=True)
        log_factor = log_factor.clamp(min=torch.finfo(log_s.dtype).min)  # no loser pulls: -inf would give NaN
        log_loser -= log_factor
    pull = log_loser.exp_().mul_(difference)  # s_t (G_t - G_a), over the factor; 0 for a and for ties
    return pull.addcmul_(s, pull.sum(0), value=-1.0)


def winners(log_s: Float[Tensor, "T *batch"]) -> Int[Tensor, "1 *batch"]:
    """The token with most attention in each row."""
    return log_s.max(0, keepdim=True).indices  # argmax is several times slower


def contrast(
    G: Float[Tensor, "T *batch"], winner: Int[Tensor, "1 *batch"]
) -> tuple[Float[Tensor, "T *batch"], Float[Tensor, "T *batch"]]:
    """G_t - G_a for the winner a of each row; and a barrier, -inf where that is a tie, else 0.

    A difference below the rounding error of G carries no information: up to 4 eps max_t |G_t| is a tie.
    """
    difference = G - G.gather(0, winner)
    tied = difference.abs() <= 4 * torch.finfo(G.dtype).eps * G.abs().amax(0)
    return difference, torch.zeros_like(G).masked_fill_(tied, -torch.inf)


def tokens_first(h: Float[Tensor, "*batch T"]) -> Float[Tensor, "T *batch"]:
    """Move the tokens from the last axis to the first, in memory too."""
    return h.movedim(-1, 0).contiguous()


def unscaled(batch_dims: int | None) -> None:
    """Refuse to build the graph of a log-scaled gradient: its factor, and so its derivative, means nothing.

    Raises:
        RuntimeError: a backward with create_graph=True and batch_dims.
    """
    if batch_dims is not None and torch.is_grad_enabled():
        raise RuntimeError(
            f"batch_dims = {batch_dims} asks for a log-scaled gradient, which is right up to a factor and "
            "has no second derivative; leave batch_dims out for an exact gradient, which has one"
        )


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, batch_dims):
        log_s = torch.log_softmax(tokens_first(logits), dim=0)
        s = log_s.exp().movedim(0, -1)
        ctx.save_for_backward(log_s, s)
        ctx.batch_dims = batch_dims
        return s

    @staticmethod
    def backward(ctx, G):
        unscaled(ctx.batch_dims)
        log_s, s = ctx.saved_tensors
        s = s.movedim(-1, 0)
        # what a masked token holds, NaN included, is no measure of the rounding error of the others
        G = torch.where(log_s == -torch.inf, 0.0, G.movedim(-1, 0)).contiguous()
        winner = winners(log_s)
        difference, barrier = contrast(G, winner)
        if not torch.is_grad_enabled():
            return logit_gradient(log_s, s, difference, barrier, ctx.batch_dims).movedim(0, -1), None
        # The same numbers from plain operations. s is this function's own output, so that a second derivative
        # comes through this backward again; ties have the value 0, but not the derivative 0.
        difference = difference - difference.detach().masked_fill(barrier == 0, 0.0)
        return (s * (difference - (s * difference).sum(0))).movedim(0, -1), None


def softmax(logits: Float[Tensor, "*batch T"], batch_dims: int | None = None) -> Float[Tensor, "*batch T"]:
    """Softmax over the last axis, with a backward free of cancellation.

    s_t = exp(h_t) / sum_tau exp(h_tau).  For an incoming gradient G = dL/ds the gradient in the logits is
        u_t = s_t sum_tau s_tau (G_t - G_tau),
    computed relative to the winner a = argmax s, so that no two nearly equal numbers are subtracted:
        u_t = s_t [(G_t - G_a) - sum_tau s_tau (G_tau - G_a)],   where the term of tau = a is exactly 0.

    Args:
        logits: h, (..., T), any floating dtype. -inf masks a token.
        batch_dims: None for the exact gradient. With an integer k, the leading k dimensions are trials and
            the backward is *log-scaled*: in each trial the gradient is divided by the largest losing weight
            max s_it, taken out in logs. Its direction is unchanged, and it cannot underflow; use it with
            an optimiser that does not read the gradient's length.

    Returns:
        s, shape and dtype of the logits. Differentiable as often as you like; with batch_dims once.

    Raises:
        ValueError: logits without an axis of tokens, or batch_dims that leaves none.
        RuntimeError: from a backward with create_graph=True, if batch_dims is given.

    Introduced in lesson 05.
    """
    if not isinstance(dense("logits", logits), Tensor) or not logits.is_floating_point():
        raise ValueError(
            f"logits are {describe(logits)}; expected a floating tensor: torch.as_tensor(logits).double()"
        )
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

    Lesson 05 tells how it fails.
    """
    return _TextbookSoftmax.apply(logits)
