"""The soft-margin attention SVM, for tokens that no W separates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

STEPS, CONJUGATE, HALVINGS = 60, 80, 30  # Newton steps; gradients in each; halvings of its length
SMALL = 1e-3  # of the gradient, where the conjugate gradients of a step end


@dataclass(frozen=True, eq=False)
class SoftSolution:
    """Answers to a batch of soft-margin problems.

    Attributes:
        value: (..., d, d), the W found.
        slack: (..., n, T, T), xi_ikt at least 0, what the comparison of position k with token t lacks.
        objective: (...,), 1/2 ||W||^2 + C/2 sum xi^2.
        gap: (...,), relative: no W has an objective below (1 - gap) times this one.

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
    direction of the sum of all comparisons. With the weights lambda = C xi weak duality gives

        objective >= sum lambda - 1/2 ||sum lambda A||^2 - 1/(2 C) sum lambda^2,

    which is the certificate.

    Args:
        X: tokens, float64. selected: alpha_ik, for each position; what stands at padding means nothing.
        C: price of the slack, positive.
        mask: True where a token is real; padding neither asks nor is compared with. None: everywhere.
        tol: gap at which to stop; after 60 Newton steps it stops too, so look at the gap.

    Raises:
        ValueError: shapes or dtypes that do not agree, a C that is not positive, a selected token that does
            not exist or is padding.

    Source: Newton's method for the squared hinge, Mangasarian, "A finite Newton method for classification"
    (2002). Introduced in lesson 18.
    """
    if X.ndim < 3 or X.dtype != torch.float64:
        raise ValueError(f"X is {X.dtype} of shape {tuple(X.shape)}; expected float64, (..., n, T, d)")
    if selected.shape != X.shape[:-1]:
        raise ValueError(f"selected has shape {tuple(selected.shape)}; expected {tuple(X.shape[:-1])}")
    if not C > 0:
        raise ValueError(f"C = {C}; expected a positive price of the slack")
    batch, d = X.shape[:-3], X.shape[-1]
    real = torch.ones_like(selected, dtype=torch.bool) if mask is None else mask
    if real.shape != selected.shape:
        raise ValueError(f"mask has shape {tuple(real.shape)}; expected {tuple(selected.shape)}")
    if ((selected < 0) | (selected >= X.shape[-2])).any() or (real & ~real.gather(-1, selected)).any():
        raise ValueError("selected holds tokens that do not exist or that the mask hides; select real ones")
    X = torch.where(real[..., None], X, 0.0).reshape(-1, *X.shape[-3:])
    selected, real = selected.reshape(X.shape[:-1]), real.reshape(X.shape[:-1])
    rows = real[..., :, None] & real[..., None, :] & (torch.arange(X.shape[-2]) != selected[..., None])
    W, slack, value, gap = _newton(_Rows(X, selected[..., None], rows), C, tol)
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
        h = (self.X @ W[:, None].mT) @ self.X.mT  # (B, n, k, t)
        return h.gather(-1, self.selected) - h

    def total(self, weights: Tensor) -> Tensor:
        by_token = (-weights).scatter_add(-1, self.selected, weights.sum(-1, keepdim=True))
        return (self.X.mT @ by_token.mT @ self.X).sum(1)


def _newton(rows: _Rows, C: float, tol: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Newton steps by conjugate gradients, each shortened until the objective falls."""
    W = rows.X.new_zeros(len(rows.X), rows.X.shape[-1], rows.X.shape[-1])
    slack, value = _objective(rows, W, C)
    for step in range(STEPS + 1):
        total = rows.total(C * slack)
        lower = C * slack.sum((1, 2, 3)) - _dot(total, total) / 2 - C / 2 * slack.square().sum((1, 2, 3))
        gap = torch.where(value > 0, (value - lower) / value.clamp_min(1e-300), 0.0)
        todo = gap > tol
        if step == STEPS or not todo.any():
            return W, slack, value, gap
        downhill = total - W
        move = _conjugate(rows, slack > 0, downhill, C)
        length = todo.to(W)
        for _ in range(HALVINGS):
            new_slack, new = _objective(rows, W + length[:, None, None] * move, C)
            worse = new > value - 1e-4 * length * _dot(downhill, move)
            if not (worse & todo).any():
                break
            length = torch.where(worse & todo, length / 2, length)
        W = W + length[:, None, None] * move
        slack, value = new_slack, new
    raise AssertionError


def _objective(rows: _Rows, W: Tensor, C: float) -> tuple[Tensor, Tensor]:
    slack = (1 - rows.leads(W)).clamp_min(0) * rows.rows
    return slack, _dot(W, W) / 2 + C / 2 * slack.square().sum((1, 2, 3))


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
