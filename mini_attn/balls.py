"""Minimisers on a ball: projections, and steps that know the slope by its direction alone."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

_PATIENCE = 300  # steps without progress before a trial goes back to its best point
_MEMORY = 10  # steps whose largest loss bounds the next


def into_ball(w: Float[Tensor, "*trials D"]) -> Float[Tensor, "*trials D"]:
    """Project on ||w||_2 <= 1."""
    return w / w.norm(dim=-1, keepdim=True).clamp(min=1.0)


def into_nuclear_ball(rank: int, w: Float[Tensor, "*trials dd"]) -> Float[Tensor, "*trials dd"]:
    """Project on the matrices of nuclear norm <= 1 and rank <= rank, by their singular values."""

    def shrunk(S: Tensor) -> Tensor:
        excess = (S.cumsum(-1) - 1.0) / torch.arange(1, S.shape[-1] + 1, device=S.device)
        # subtract one number from all and drop the negative, so that the rest sum to the radius
        cut = excess.amax(-1, keepdim=True).clamp(min=0.0)
        return (S - cut).clamp(min=0.0)

    return with_singular_values(shrunk, rank, w)


def with_singular_values(
    change: Callable[[Tensor], Tensor], rank: int, w: Float[Tensor, "*trials dd"]
) -> Float[Tensor, "*trials dd"]:
    """U diag(change(S)) V^T for the flat W = U diag(S) V^T, its singular values beyond the rank set to 0."""
    d = math.isqrt(w.shape[-1])
    lost = ~w.isfinite().all(-1, keepdim=True)  # torch's svd would refuse all trials for one
    U, S, Vh = torch.linalg.svd(w.masked_fill(lost, 0.0).unflatten(-1, (d, d)))
    S = change(S * (torch.arange(d, device=S.device) < rank))
    return ((U * S[..., None, :]) @ Vh).flatten(-2).masked_fill(lost, torch.nan)


def balanced(W: Float[Tensor, "*trials d d"], m: int) -> tuple[Tensor, Tensor]:
    """K and Q of shape (d, m) with K Q^T = W and K^T K = Q^T Q."""
    U, S, Vh = torch.linalg.svd(W)
    root = S.sqrt()[..., None, :]
    more = max(0, m - W.shape[-1])
    return tuple(torch.nn.functional.pad(part * root, (0, more))[..., :m] for part in (U, Vh.mT))


def minimise(
    slope, project, w: Tensor, radius: Tensor, tol: float, max_steps: int, among: Callable | None = None
) -> tuple[Tensor, Tensor]:
    """Projected Barzilai-Borwein steps from w, in units of the radius: the best points and their residuals.

    The slope at w is the loss, (*trials, 1), and the gradient's direction, (*trials, D); the radius,
    (*trials, 1), sets the length of the first step. A trial that has arrived stays where it is, whatever the
    others need; given the slope among some trials, by their places, the steps leave those out that stay.

    A step that raises the loss above the largest of the last ``_MEMORY`` is tried again at a quarter of its
    length: it would lead to the basin of another minimiser.
    """
    w = project(w)
    value, g = slope(w)
    first = (1 / radius).clamp(max=0.1)  # a step on the scale of one logit
    length = first
    best, arrived, waited = w, torch.full_like(value, math.inf), torch.zeros_like(value)
    recent = value.expand(*value.shape[:-1], _MEMORY).clone()
    rounding = 8 * torch.finfo(w.dtype).eps
    shape, places = w.shape[:-1], None  # places: of the trials that go on, among all
    for step in range(max_steps + 1):
        residual = (project(w - g) - w).norm(dim=-1, keepdim=True)
        going = arrived > tol
        better = (residual < arrived) & going
        best, arrived = torch.where(better, w, best), torch.where(better, residual, arrived)
        going = arrived > tol
        count = going.sum().item()
        if step == max_steps or not count:
            break
        if among is not None and 2 * count <= going.numel():
            which = going.flatten().nonzero()[:, 0]
            if places is None:
                ends, places = [best.flatten(0, -2), arrived.flatten(0, -2)], which
            else:
                ends[0][places], ends[1][places] = best, arrived
                places = places[which]
            state = w, g, value, length, first, best, arrived, waited, better, recent
            state = (part.flatten(0, -2)[which] for part in state)
            w, g, value, length, first, best, arrived, waited, better, recent = state
            slope = among(places)
        waited = torch.where(better, 0.0, waited + 1)
        lost = waited >= _PATIENCE
        if lost.any():  # back to the best point, with short steps
            w, length = torch.where(lost, best, w), torch.where(lost, 0.1 * first, length)
            (value, g), waited = slope(w), waited.masked_fill(lost, 0.0)
        ahead = project(w - length * g)
        value_ahead, g_ahead = slope(ahead)
        limit = recent.amax(-1, keepdim=True)
        taken = value_ahead <= limit + rounding * limit.abs()
        s, y = ahead - w, g_ahead - g
        sy, ss, yy = ((a * b).sum(-1, keepdim=True) for a, b in ((s, y), (s, s), (y, y)))
        proposed = ss / sy.abs() if step % 2 else sy.abs() / yy  # the long and the short step in turn
        proposed = torch.where(proposed.isfinite() & (proposed > 0), proposed, length)
        length = torch.where(taken, proposed, 0.25 * length).clamp(1e-12, 1.0)
        w, g, value = (
            torch.where(taken, new, old) for new, old in ((ahead, w), (g_ahead, g), (value_ahead, value))
        )
        recent[..., step % _MEMORY] = value.squeeze(-1)
    if places is not None:
        ends[0][places], ends[1][places] = best, arrived
        best, arrived = (end.unflatten(0, shape) for end in ends)
    return best, arrived.squeeze(-1)
