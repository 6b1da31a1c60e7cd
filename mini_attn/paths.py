"""Regularization paths: the best weights of each size."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mini_attn import losses
from mini_attn.data import PointData, TokenData
from mini_attn.gradients import closed_form
from mini_attn.models import CrossAttention, FactoredAttention, joint_trials, trial_blocks
from mini_attn.optim import _normalise
from mini_attn.threads import SMALL, each, one_thread

_PATIENCE = 300  # steps without progress before a trial goes back to its best point
_MEMORY = 10  # steps whose largest loss bounds the next


@dataclass(frozen=True)
class Path:
    """Constrained minimisers, one a radius and trial, each with a certificate.

    Args:
        radii: R, (radii,).
        values: parameters by name, (radii, *trials, ...), with W = K Q^T beside K and Q; ``path["p"]`` reads
            ``values["p"]``.
        loss: L at the minimisers, (radii, *trials).
        residual: how far from stationary, (radii, *trials): || P(w - R g / ||g||) - w || / R, with P the
            projection on the ball, of W where K and Q are trained. On a sphere it is about the angle between
            -g and w, in radians. inf where the logits overflowed, and w is no more than the start.

    Introduced in lesson 08.
    """

    radii: Tensor
    values: dict[str, Tensor]
    loss: Tensor
    residual: Tensor

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise KeyError(f"{name!r} is not on this path; it has {sorted(self.values)}")
        return self.values[name]


def regularization_path(
    model: nn.Module,
    data: PointData | TokenData,
    radii: Sequence[float] | Float[Tensor, "radii"],
    loss: str | losses.Loss = "logistic",
    tol: float = 1e-6,
    max_steps: int = 2000,
) -> Path:
    """Follow the minimiser of the loss on a growing ball, in every trial at once.

    For each radius R:   argmin L(w)   subject to   ||w|| <= R,
    in the Euclidean norm of p or w, or the Frobenius norm of W. For factors the constraint is
    (||K||_F^2 + ||Q||_F^2) / 2 <= R, which admits exactly the W = K Q^T of nuclear norm <= R and rank <= m.
    That path is followed in W, where the saddle points of the factors do not exist; K = U S^(1/2) and
    Q = V S^(1/2) are then the balanced factors of W = U S V^T.

    Each radius starts from the solution at the radius before, and projects gradient steps of Barzilai and
    Borwein's length on the ball. Attention losses are not convex: what is found is a stationary point, the
    one that continues the minimiser at the smallest radius. To compare several starts, give the model more
    trials and start anew at a large radius: followed from a small one, they all meet. The gradient enters by
    its direction only, so that the radius may be large, and the minimiser is expected on the sphere; where
    one lies inside the ball (labels that no line separates), the residual stays of order 1. Where R is so
    large that rounding decides which support token pulls, that leaves a residual of order R eps (for tokens
    of length 1): beyond R = 1e11 in float64, 1e3 in float32, 1e-6 is out of reach.

    Args:
        model: LinearClassifier, PromptAttention, CrossAttention or FactoredAttention with a fixed head,
            linear or an MLPHead. It starts from its parameters, and is left at the last radius.
        data: as for :func:`mini_attn.train.fit`.
        radii: R, positive and increasing, in the range of the model's dtype.
        loss: "logistic", "exponential", "linear", or a Loss.
        tol: residual at which a trial has arrived.
        max_steps: gradient steps a radius, at most; ``residual`` tells which trials arrived.

    Raises:
        ValueError: radii that do not increase, or that the model's dtype cannot carry; a model without a
            closed-form gradient, or with fewer trials than the data.

    Source: Tarzanagh et al. 2023, "Max-Margin Token Selection in Attention Mechanism", on the regularization
    path; steps: Barzilai and Borwein 1988, Birgin, Martinez and Raydan 2000.
    Introduced in lesson 08.
    """
    loss = losses.get(loss)
    radii = torch.as_tensor(radii, dtype=torch.float64).flatten()
    if not len(radii) or not radii.isfinite().all() or radii[0] <= 0 or (radii.diff() <= 0).any():
        raise ValueError(
            f"radii = {radii.tolist()}; expected positive numbers, each larger than the one before"
        )
    info = torch.finfo(next(model.parameters()).dtype)
    least = info.tiny / info.eps  # below, the entries of the weights lose digits
    if radii[0] < least or radii[-1] > info.max:
        raise ValueError(
            f"radii go from {radii[0]:.3g} to {radii[-1]:.3g}; weights of dtype {info.dtype} carry radii "
            f"from {least:.3g} to {info.max:.3g}"
        )
    trials = model.trials
    if joint_trials(model, data) != trials:
        raise ValueError(
            f"the data have trials {tuple(data.trials)} and the model {tuple(trials)}; "
            f"give the model trials={tuple(data.trials)}"
        )
    head = getattr(model, "head", None)
    if head is not None and any(True for _ in head.parameters()):
        raise ValueError(
            "a path is followed with a fixed head; expected head=None, or an MLPHead not trainable"
        )
    cut = trial_blocks(model, data)
    if len(cut) > 1:
        follow = partial(regularization_path, radii=radii, loss=loss, tol=tol, max_steps=max_steps)
        with one_thread() as threads:
            paths = each(
                lambda piece: follow(model.block(piece), data.block(piece) if data.trials else data),
                cut,
                threads,
            )
        return _joined(paths, trials)
    factored = isinstance(model, FactoredAttention)
    moved = model
    if factored:
        W = model.W.detach()
        moved = CrossAttention(W.shape[-1], trials=tuple(trials), init=W, head=head, dtype=W.dtype).to(
            W.device
        )
    evaluate = closed_form(moved, data, loss, len(trials))
    if evaluate is None:
        raise ValueError(
            f"{type(model).__name__} has no closed-form gradient; expected a model of this package"
        )
    ((name, parameter),) = moved.named_parameters()
    rank = model.K.shape[-1] if factored else None
    kept: dict[str, list[Tensor]] = {key: [] for key in ("loss", "residual", *dict(model.named_parameters()))}
    if factored:
        kept["W"] = []
    unit = None  # w / R: in these units no square over- or underflows, whatever the radius

    def slope(R: float, w: Tensor) -> tuple[Tensor, Tensor]:
        """L and g / ||g|| at R w."""
        parameter.copy_((R * w).reshape(parameter.shape))
        margins, grads = evaluate()
        (unit,), norm, _ = _normalise([grads[name].reshape(w.shape)], len(trials))
        return losses.mean(loss.value(margins), data.present)[..., None], unit / norm[..., None]

    project = partial(_into_nuclear_ball, rank) if factored else _into_ball
    small = data.X.numel() <= SMALL
    with torch.no_grad(), one_thread() if small else nullcontext():
        for R in radii.tolist():
            if unit is None:
                w = parameter.detach().flatten(len(trials))
                unit = w / w.abs().amax(-1, keepdim=True).clamp(min=R)
            unit, residual = _minimise(partial(slope, R), project, unit, R, tol, max_steps)
            parameter.copy_((R * unit).reshape(parameter.shape))
            if factored:
                kept["W"].append(parameter.detach().clone())
                for factor, part in zip((model.K, model.Q), _balanced(parameter, rank), strict=True):
                    factor.copy_(part)
            kept["loss"].append(losses.mean(loss.value(data.y * model(data)), data.present))
            kept["residual"].append(residual)
            for key, trained in model.named_parameters():
                kept[key].append(trained.detach().clone())
    stacked = {key: torch.stack(values) for key, values in kept.items()}
    return Path(radii, loss=stacked.pop("loss"), residual=stacked.pop("residual"), values=stacked)


def _joined(paths: list[Path], trials: torch.Size) -> Path:
    """The paths of blocks of trials as one."""

    def join(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, 1).unflatten(1, trials)

    values = {name: join([path[name] for path in paths]) for name in paths[0].values}
    return Path(
        paths[0].radii,
        values,
        join([path.loss for path in paths]),
        join([path.residual for path in paths]),
    )


def _into_ball(w: Float[Tensor, "*trials D"]) -> Float[Tensor, "*trials D"]:
    """Project on ||w||_2 <= 1."""
    return w / w.norm(dim=-1, keepdim=True).clamp(min=1.0)


def _into_nuclear_ball(rank: int, w: Float[Tensor, "*trials dd"]) -> Float[Tensor, "*trials dd"]:
    """Project on the matrices of nuclear norm <= 1 and rank <= rank, by their singular values."""
    d = math.isqrt(w.shape[-1])
    lost = ~w.isfinite().all(-1, keepdim=True)  # torch's svd would refuse all trials for one
    U, S, Vh = torch.linalg.svd(w.masked_fill(lost, 0.0).unflatten(-1, (d, d)))
    S = S * (torch.arange(d, device=S.device) < rank)
    excess = (S.cumsum(-1) - 1.0) / torch.arange(1, d + 1, device=S.device)
    # subtract one number from all and drop the negative, so that the rest sum to the radius
    cut = excess.amax(-1, keepdim=True).clamp(min=0.0)
    near = ((U * (S - cut).clamp(min=0.0)[..., None, :]) @ Vh).flatten(-2)
    return near.masked_fill(lost, torch.nan)


def _balanced(W: Float[Tensor, "*trials d d"], m: int) -> tuple[Tensor, Tensor]:
    """K and Q of shape (d, m) with K Q^T = W and K^T K = Q^T Q."""
    U, S, Vh = torch.linalg.svd(W)
    root = S.sqrt()[..., None, :]
    more = max(0, m - W.shape[-1])
    return tuple(torch.nn.functional.pad(part * root, (0, more))[..., :m] for part in (U, Vh.mT))


def _minimise(slope, project, w: Tensor, radius: float, tol: float, max_steps: int) -> tuple[Tensor, Tensor]:
    """Projected Barzilai-Borwein steps from w, in units of the radius: the best points and their residuals.

    A step that raises the loss above the largest of the last ``_MEMORY`` is tried again at a quarter of its
    length: it would lead to the basin of another minimiser.
    """
    w = project(w)
    value, g = slope(w)
    first = min(0.1, 1 / radius)  # a step on the scale of one logit
    length = torch.full_like(value, first)
    best, arrived, waited = w, torch.full_like(value, math.inf), torch.zeros_like(value)
    recent = value.expand(*value.shape[:-1], _MEMORY).clone()
    rounding = 8 * torch.finfo(w.dtype).eps
    for step in range(max_steps + 1):
        residual = (project(w - g) - w).norm(dim=-1, keepdim=True)
        better = residual < arrived
        best, arrived = torch.where(better, w, best), torch.where(better, residual, arrived)
        if step == max_steps or (arrived <= tol).all():
            break
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
    return best, arrived.squeeze(-1)
