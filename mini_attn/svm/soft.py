"""The soft-margin attention SVM, for tokens that no W separates."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from numbers import Real

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.arguments import bool_tensor, describe, real_tensor, token_numbers

STEPS, CONJUGATE, SEARCH = 60, 300, 30  # Newton steps at a price; gradients in each; tries of its length
LONG = 1e200  # C times the fourth power of a token length, which floats still carry
SMALL = 1e-4  # of the gradient, where the conjugate gradients of a step end
CHEAP, DEARER, ROUGH = 100.0, 10.0, 0.1  # first price times squared rows; its growth; the gap on the way
DEAREST = 1e16  # likewise: at higher prices rounding hides what is left of the slack
PATIENCE = 10  # Newton steps that neither lower the objective nor halve the gap


@dataclass(frozen=True, eq=False)
class SoftSolution:
    """Answers to a batch of soft-margin problems.

    Attributes:
        value: (..., d, d), the W found.
        slack: (..., n, T, T), xi_ikt at least 0, what the comparison of position k with token t lacks.
        objective: (...,), 1/2 ||W||^2 + C/2 sum xi^2.
        gap: (...,), relative: no W has an objective below (1 - gap) times this one. Look at it: a problem
            that ends above tol is handed out like the others.

    Introduced in lesson 18.
    """

    value: Float[Tensor, "*batch d d"]
    slack: Float[Tensor, "*batch n T T"]
    objective: Float[Tensor, "*batch"]
    gap: Float[Tensor, "*batch"]


def solve_soft(
    X: Float[Tensor, "*batch n T d"],
    selected: Int[Tensor, "*batch n T"],
    C: float,
    mask: Bool[Tensor, "*batch n T"] | None = None,
    tol: float = 1e-4,
) -> SoftSolution:
    """Solve the soft-margin attention SVM of self-attention, in which every position k asks:

        min_W  1/2 ||W||_F^2 + C/2 sum_ikt xi_ikt^2,   xi_ikt = max(0, 1 - (x_{i alpha_ik} - x_it)^T W x_ik)

    over the tokens t != alpha_ik. It has a solution whatever is selected. With C to infinity it becomes the
    hard-margin SVM of :func:`mini_attn.svm.sequence_problem` where that is feasible; with C to 0 it has the
    direction of the sum of all comparisons. With weights lambda in proportion to xi weak duality gives

        objective >= max_lambda  sum lambda - 1/2 ||sum lambda A||^2 - 1/(2 C) sum lambda^2
                   = (sum xi)^2 / (2 ||sum xi A||^2 + 2/C sum xi^2),

    which is the certificate.

    Args:
        X: tokens, float64. selected: alpha_ik, for each position; what stands at padding means nothing.
        C: price of the slack, positive. From C length^4 of about 1e12 on rounding holds the gap back: the
            hard-margin problem is then the one to solve.
        mask: True where a token is real; padding neither asks nor is compared with. None: everywhere.
        tol: gap at which to stop, above 0 and below 1; after 60 Newton steps it stops too, and after
            10 that gain nothing.

    Raises:
        ValueError: shapes or dtypes that do not agree, tokens that are not finite or so long that their
            products overflow, a C that is not positive, a selected token that does not exist or is padding.

    Source: Newton's method for the squared hinge, Mangasarian, "A finite Newton method for classification"
    (2002), here at growing prices C. Introduced in lesson 18.
    """
    if real_tensor("X", X, ndim=3).dtype != torch.float64 or not X.shape[-1]:
        raise ValueError(f"X is {describe(X)}; expected float64, (..., n, T, d), with d >= 1")
    if not X.shape[-2] or not X.shape[-3]:
        raise ValueError(f"X has shape {tuple(X.shape)}; expected at least one sequence and one token")
    if not isinstance(C, Real) or not 0 < C <= sys.float_info.max:
        raise ValueError(f"C = {C!r}; expected a positive finite price of the slack")
    if not isinstance(tol, Real) or not 0 < tol < 1:
        raise ValueError(f"tol = {tol!r}; expected a relative gap above 0 and below 1, such as 1e-4")
    if mask is not None:
        bool_tensor("mask", mask, X.shape[:-1], X.device, "True where a token is real")
    batch, d = X.shape[:-3], X.shape[-1]
    real = torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device) if mask is None else mask
    selected = token_numbers("selected", selected, X.shape[:-1], X.shape[-2], X.device, real)
    if (real & ~real.gather(-1, selected)).any():
        raise ValueError("selected holds tokens that the mask hides; select real ones")
    X = torch.where(real[..., None], X, 0.0).reshape(-1, *X.shape[-3:])
    longest = float(torch.linalg.vector_norm(X, dim=-1).max()) if X.numel() else 0.0
    fits = longest < LONG ** (1 / 4) and C * longest**4 < LONG and (longest == 0 or C * longest**4 > 1 / LONG)
    if not fits:
        raise ValueError(
            f"the longest token has length {longest} and C = {C}; expected finite tokens, and C length^4 "
            f"between {1 / LONG:.0e} and {LONG:.0e}: with c times the tokens and C / c^4, W is 1 / c^2 times "
            "as long"
        )
    selected, real = selected.reshape(X.shape[:-1]), real.reshape(X.shape[:-1])
    others = torch.arange(X.shape[-2], device=X.device) != selected[..., None]
    rows = real[..., :, None] & real[..., None, :] & others
    W, slack, value, gap = _at_growing_prices(_Rows(X, selected[..., None], rows), C, tol, 4 * longest**4)
    return SoftSolution(
        W.reshape(*batch, d, d),
        slack.reshape(*batch, *rows.shape[1:]),
        value.reshape(batch),
        gap.reshape(batch),
    )


class _Rows:
    """The comparisons A_ikt = (x_{i alpha_ik} - x_it) x_ik^T: <A, W>, and sums of them."""

    def __init__(self, X: Tensor, selected: Tensor, rows: Tensor):
        self.X, self.selected, self.rows = X, selected, rows

    def leads(self, W: Tensor) -> Tensor:
        asked = (self.X.flatten(1, 2) @ W.mT).view(self.X.shape)
        h = asked @ self.X.mT  # (B, n, k, t)
        return h.gather(-1, self.selected) - h

    def total(self, weights: Tensor) -> Tensor:
        by_token = (-weights).scatter_add(-1, self.selected, weights.sum(-1, keepdim=True))
        return self.X.flatten(1, 2).mT @ (by_token.mT @ self.X).flatten(1, 2)


def _at_growing_prices(rows: _Rows, C: float, tol: float, square: float) -> tuple[Tensor, ...]:
    """Newton's method at price C from where it ends, roughly, at lower ones: from 0 it is slow.

    Args:
        square: of the length of a row, at most.
    """
    prices = [C]
    while prices[-1] * square > CHEAP:
        prices.append(min(prices[-1] / DEARER, DEAREST / square))
    W = rows.X.new_zeros(len(rows.X), rows.X.shape[-1], rows.X.shape[-1])
    for price in reversed(prices[1:]):
        W = _newton(rows, W, price, max(tol, ROUGH))[0]
    return _newton(rows, W, C, tol)


def _newton(rows: _Rows, W: Tensor, C: float, tol: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Newton steps by conjugate gradients, each of the length at which the objective is least."""
    waited = lowest = least = None
    for step in range(STEPS + 1):
        leads = rows.leads(W)
        slack = (1 - leads).clamp_min(0) * rows.rows
        squares = slack.square().sum((1, 2, 3))
        value = _dot(W, W) / 2 + C / 2 * squares
        total, worth = rows.total(C * slack), C * slack.sum((1, 2, 3))
        length = _dot(total, total) + C * squares
        gap = torch.where(value == 0, 0.0, 1 - worth * (worth / length.clamp_min(1e-300)) / (2 * value))
        gap = gap.clamp_min(0.0).nan_to_num(1.0)  # rounding; beyond the range of floats nothing is proved
        todo = ~(gap <= tol)
        if step == 0:  # at a low price 0 is good enough a value, but has no direction
            todo |= (W == 0).flatten(1).all(1) & (total != 0).flatten(1).any(1)
        if step == 0:
            lowest, least, waited = value, gap, torch.zeros_like(value)
        else:
            gained = (value < lowest * (1 - 1e-15)) | (gap < least / 2)
            waited = torch.where(gained, 0.0, waited + 1)
            lowest, least = torch.minimum(lowest, value), torch.where(gained, gap, least)
            todo &= waited < PATIENCE
        if step == STEPS or not todo.any():
            return W, slack, value, gap
        move = _conjugate(rows, slack > 0, total - W, C)
        length = _lowest(W, leads, move, rows.leads(move), rows.rows, C)
        moved = W + torch.where(todo, length, 0.0)[:, None, None] * move
        W = torch.where(moved.isfinite().flatten(1).all(1)[:, None, None], moved, W)
    raise AssertionError


def _lowest(W: Tensor, leads: Tensor, move: Tensor, gains: Tensor, rows: Tensor, C: float) -> Tensor:
    """The t >= 0 at which the objective of W + t move is least, (B,).

    Its slope is piecewise linear and grows: Newton steps on it, or half the bracket where one leaves that.
    """
    low, high = W.new_zeros(len(W)), W.new_full((len(W),), torch.inf)
    along, square = _dot(W, move), _dot(move, move)
    t = torch.ones_like(low)
    for _ in range(SEARCH):
        slack = (1 - leads - t[:, None, None, None] * gains).clamp_min(0) * rows
        slope = along + t * square - C * (slack * gains).sum((1, 2, 3))
        low, high = torch.where(slope <= 0, t, low), torch.where(slope > 0, t, high)
        curvature = square + C * ((slack > 0) * gains.square()).sum((1, 2, 3))
        new = t - slope / curvature.clamp_min(1e-300)
        halfway = torch.where(high.isinf(), 2 * t, (low + high) / 2)
        new = torch.where((new > low) & (new < high), new, halfway)
        if ((new - t).abs() <= 1e-12 * t).all():
            break
        t = new
    return t


def _conjugate(rows: _Rows, active: Tensor, right: Tensor, C: float) -> Tensor:
    """(1 + C sum_active A A^T)^-1 right, in each problem."""
    x, r = torch.zeros_like(right), right
    p, rr = r, _dot(r, r)
    enough = SMALL**2 * rr
    for _ in range(CONJUGATE):
        Hp = p + C * rows.total(active * rows.leads(p))
        along = rr / _dot(p, Hp).clamp_min(1e-300)
        x, r = x + along[:, None, None] * p, r - along[:, None, None] * Hp
        new = _dot(r, r)
        if (new <= enough).all():
            break
        p, rr = r + (new / rr.clamp_min(1e-300))[:, None, None] * p, new
    return x


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((1, 2))
