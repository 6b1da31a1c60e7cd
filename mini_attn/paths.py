"""Regularization paths: the best weights of each size."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mini_attn import losses
from mini_attn.balls import with_singular_values
from mini_attn.data import PointData, TokenData
from mini_attn.tracing import Path, Traced, in_blocks

_ROUNDS = 60  # radii that are tried for one ridge


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

    def follow(model: nn.Module, data: PointData | TokenData) -> Path:
        traced = Traced(model, data, loss)
        unit = traced.start(float(radii[0]))  # w / R: in these units no square over- or underflows
        for R in radii.tolist():
            length = torch.full_like(unit[..., :1], R)
            unit, residual = traced.minimise(unit, length, tol, max_steps)
            traced.keep(R * unit, residual)
        return traced.path(radii)

    return in_blocks(follow, model, data)


def ridge_path(
    model: nn.Module,
    data: PointData | TokenData,
    ridges: Sequence[float] | Float[Tensor, "ridges"],
    loss: str | losses.Loss = "logistic",
    tol: float = 1e-6,
    max_steps: int = 2000,
) -> Path:
    """Follow the minimiser of the loss with a vanishing ridge, in every trial at once.

    For each lambda:   argmin L(w) + lambda ||w||^2
    in the Euclidean norm of p or w, or the Frobenius norm of W. For factors the ridge is
    lambda (||K||_F^2 + ||Q||_F^2), whose least value for given W = K Q^T is 2 lambda ||W||_*: W is followed,
    with its nuclear norm and rank <= m.

    A minimiser with a ridge is one on the ball of its own norm R (see :func:`regularization_path`), where the
    slope of the loss is that of the ridge:

        ||g|| = 2 lambda R,    of factors    ||g||_op = 2 lambda.

    R is found by regula falsi on the logarithm of this, which is nearly linear in R; on each ball only the
    direction of the gradient counts. So lambda may be as small as the dtype can write: R grows like
    log(1 / lambda). A trial whose slope at 0 is below 2 lambda (for factors) stays at 0.

    Args:
        model, data, loss, max_steps: as for :func:`regularization_path`; the model is left at the last ridge.
        ridges: lambda, positive and decreasing, in the range of the model's dtype.
        tol: residual at which a trial has arrived.

    Returns:
        A Path whose ``radii`` are the norms R, (ridges, *trials), and whose residual is
        || g / (2 lambda) + w || / ||w||; of factors || S(W - R g / (2 lambda)) - W ||_F / R, where S keeps m
        singular values less R. Both are 0 for stationary weights only, and at 0 by definition.

    Raises:
        ValueError: ridges that do not decrease, or that the model's dtype cannot carry; and as for
            :func:`regularization_path`.

    Source: Tarzanagh et al. 2023, "Transformers as Support Vector Machines", vanishing regularisation.
    """
    loss = losses.get(loss)
    ridges = torch.as_tensor(ridges, dtype=torch.float64).flatten()
    info = torch.finfo(next(model.parameters()).dtype)
    most, least = (ridges.max(), ridges.min()) if len(ridges) else (0.0, 0.0)
    if not (ridges.isfinite().all() and info.tiny <= least <= most <= info.max) or (ridges.diff() >= 0).any():
        raise ValueError(
            f"ridges = {ridges.tolist()}; expected numbers from {info.tiny:.3g} to {info.max:.3g}, each "
            "smaller than the one before"
        )

    def follow(model: nn.Module, data: PointData | TokenData) -> Path:
        traced, radii = Traced(model, data, loss), []
        unit = traced.start(1.0)
        R, rate = torch.ones_like(unit[..., :1]), torch.full_like(unit[..., :1], torch.nan)
        steepest = traced.norm(traced.gradient(torch.zeros_like(unit)), 2)  # the slope at 0
        before = None
        for ridge in ridges.tolist():
            if before is not None:
                ahead = math.log(before / ridge) / rate
                R = torch.where(ahead.isfinite() & (ahead > 0), R + ahead, R)
            at_zero = steepest <= (0.0 if traced.rank is None else 2 * ridge)
            unit, R, rate, residual = _at_ridge(traced, ridge, unit, R, rate, at_zero, tol, max_steps)
            w = torch.where(at_zero, 0.0, R * unit)
            radii.append(traced.norm(w)[..., 0])
            traced.keep(w, torch.where(at_zero, 0.0, residual)[..., 0])
            before = ridge
        return traced.path(torch.stack(radii), ridges)

    return in_blocks(follow, model, data)


def _at_ridge(traced: Traced, ridge: float, unit, R, rate, done, tol: float, max_steps: int):
    """The minimiser R unit for one ridge, R (*trials, 1), the rate at which log ||g|| falls there, and the
    residual; from a guess at all but the last."""
    low, high = torch.zeros_like(R), torch.full_like(R, torch.inf)  # the slope at low is too steep
    at_low, at_high = high.clone(), -high
    best, residual = (unit, R), torch.full_like(R, torch.inf)
    was_up, last = torch.zeros_like(done), (R, torch.full_like(R, torch.nan))
    for _ in range(_ROUNDS):
        unit, _ = traced.minimise(unit, R, 0.1 * tol, max_steps)
        g = traced.gradient(R * unit)
        now = _ridge_residual(traced, ridge, R, unit, g)
        better = now < residual
        residual = torch.where(better, now, residual)
        best = torch.where(better, unit, best[0]), torch.where(better, R, best[1])
        done = done | (residual <= tol) | ((high - low) <= 4 * torch.finfo(R.dtype).eps * R)
        if done.all():
            break
        steepness = -(g * unit).sum(-1, keepdim=True) / traced.norm(unit)
        asked = math.log(2 * ridge) + (R.log() if traced.rank is None else 0.0)
        excess = torch.where(steepness > 0, steepness.log() - asked, -torch.inf)
        up = excess > 0
        # The end that stays for a second time counts half (Illinois): or it would stay for ever.
        again = up == was_up
        at_low = torch.where(up, excess, torch.where(again, at_low / 2, at_low))
        at_high = torch.where(up, torch.where(again, at_high / 2, at_high), excess)
        low, high, was_up = torch.where(up, R, low), torch.where(up, high, R), up
        fall = (last[1] - excess) / (R - last[0])
        rate = torch.where(fall.isfinite() & (fall > 0), fall, rate)
        last = R, excess
        share = torch.where(high.isfinite(), at_low / (at_low - at_high), 0.5)
        share = share.nan_to_num(0.5).clamp(0.01, 0.99)
        ahead = (1.1 * excess / rate).nan_to_num(torch.inf)  # a little farther than the line says
        ahead = torch.where(ahead > 0, ahead, R).clamp(max=3 * R)
        R = torch.where(done, R, torch.where(high.isinf(), R + ahead, low + share * (high - low)))
    return *best, rate, residual


def _ridge_residual(traced: Traced, ridge: float, R: Tensor, unit: Tensor, g: Tensor) -> Tensor:
    pull = g / (2 * ridge)
    if traced.rank is None:
        apart = pull / R + unit
    else:
        apart = with_singular_values(lambda S: (S - 1.0).clamp(min=0.0), traced.rank, unit - pull) - unit
    residual = apart.norm(dim=-1, keepdim=True) / traced.norm(unit)
    return residual.nan_to_num(torch.inf, torch.inf)
