"""From a problem in any scale, dtype and batch shape to unit rows, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mini_attn.svm.norms import matrix_norm
from mini_attn.svm.problem import HardMarginProblem

FAR = 1000  # powers of two between the largest right-hand side and one that is told from 0


@dataclass(frozen=True)
class Units:
    """A problem with unit rows, and what its answers have to be multiplied with.

    Sizes are pairs (x, e) for x 2^e: their products may leave the range of float64.

    Attributes:
        given: the problem as it was given, in float64 and with one batch dimension; b = 1 for a vector
            unknown.
        unit: the same with ||a_j|| = ||b_j|| = 1, and right-hand sides such that the longest W that one row
            alone asks for has length 1. Rows A_j = 0 that hold anyway read 0 >= 0.
        row_size: (B, m), A_j = row_size_j unit A_j.
        length: (B,), W = length unit W.
    """

    given: HardMarginProblem
    unit: HardMarginProblem
    row_size: tuple[Tensor, Tensor]
    length: tuple[Tensor, Tensor]

    def value(self, W: Tensor) -> Tensor:
        """W in the units that were given."""
        x, e = self.length
        return _times_power(W * x[:, None, None], e[:, None, None])

    def from_value(self, W: Tensor) -> Tensor:
        """The unit W of one in the units that were given, in float64."""
        x, e = self.length
        return _times_power(W.double(), -e[:, None, None]) / x[:, None, None]

    def norm(self, size: Tensor) -> Tensor:
        """Norms of W, (B,), likewise."""
        x, e = self.length
        return _times_power(size * x, e)

    def dual(self, weights: Tensor) -> Tensor:
        """The weights of the rows that were given, from those of the unit rows."""
        x, e = self.row_size
        return _times_power(weights / x, -e)

    def ray(self, weights: Tensor) -> Tensor:
        """Likewise, where sum_j weights_j r_j = 1 has to stay."""
        (x, e), (y, f) = self.row_size, self.length
        return _times_power(weights / x / y[:, None], -(e + f[:, None]))


def to_units(problem: HardMarginProblem) -> Units:
    """Bring rows and right-hand sides to unit size, whatever powers of ten they come in."""
    m, d1 = problem.a.shape[-2:]
    B = problem.batch_shape.numel()
    a = problem.a.detach().reshape(B, m, d1).double()
    b = a.new_ones(B, m, 1) if problem.b is None else problem.b.detach()
    b = b.reshape(B, m, b.shape[-1]).double()
    r = problem.r.detach().reshape(B, m).double()
    given = HardMarginProblem(a, b, r, problem.is_equality.reshape(B, m))

    (a, x, e), (b, y, f) = _unit(a), _unit(b)
    row_size = x * y, e + f
    empty = ((a == 0).all(-1) | (b == 0).all(-1))[..., None]
    a, b = a.masked_fill(empty, 0.0), b.masked_fill(empty, 0.0)
    mantissa, exponent = torch.frexp(r)
    mantissa, exponent = mantissa / row_size[0], exponent - row_size[1]
    asks = unmet(HardMarginProblem(a, b, r, given.equality)) > 0
    if not m:
        return Units(given, given, row_size, (r.new_ones(B), torch.zeros_like(exponent).sum(-1)))
    lowest = torch.iinfo(exponent.dtype).min // 2
    top = exponent.where(asks, lowest).amax(-1)
    top = top.where(asks.any(-1), 0)
    r = torch.ldexp(mantissa, (exponent - top[:, None]).clamp(-FAR, 60))
    r = r.masked_fill(empty[..., 0] & ~asks, 0.0)
    longest = (r.abs() * asks).amax(-1)
    longest = torch.where(longest > 0, longest, 1.0)
    unit = HardMarginProblem(a, b, r / longest[:, None], given.equality)
    return Units(given, unit, row_size, (longest, top))


def unmet(problem: HardMarginProblem) -> Tensor:
    """How far W = 0 misses each row, (..., m)."""
    return torch.where(problem.is_equality, problem.r.abs(), problem.r.clamp_min(0))


def _unit(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of length 1, and their lengths (x, e); rows of zeros stay, with length 1."""
    largest = rows.abs().amax(-1) if rows.shape[-1] else rows.new_zeros(rows.shape[:-1])
    largest = torch.where(largest > 0, largest, 1.0)
    rows = rows / largest[..., None]  # entries up to 1, even where the largest is denormal
    length = matrix_norm(rows[..., None], "fro")
    length = torch.where(length > 0, length, 1.0)
    x, e = torch.frexp(largest)
    return rows / length[..., None], x * length, e


def _times_power(x: Tensor, exponent: Tensor) -> Tensor:
    """x 2^exponent, in steps that stay within float64 where the result does."""
    for _ in range(4):
        part = exponent.clamp(-FAR, FAR)
        x, exponent = torch.ldexp(x, part), exponent - part
    return x
