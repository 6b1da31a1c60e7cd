"""From a problem in any scale, dtype and batch shape to rows near unit length, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem

FAR = 1000  # powers of two between the largest right-hand side and one that is told from 0
LEAST = -(2**20)  # below every exponent of a float64


@dataclass(frozen=True)
class Units:
    """A problem with rows near unit length, and the powers of two that lead back.

    Attributes:
        unit: the problem in float64 with one batch dimension, b = 1 for a vector unknown, ||a_j|| and ||b_j||
            in [1/2, 1), and right-hand sides such that the largest that W = 0 misses is in [1/2, 1). Rows
            A_j = 0 that hold anyway read 0 >= 0.
        kept: (B, m) bool, rows that lost no bit on the way. Others lie 300 powers of ten apart, one from the
            other or one entry from the next, and float64 has no room for both.
        right: (B, m) the right-hand sides as given, right / 2^(row_size + length) in units.
        row_size: (B, m) exponents, A_j = 2^row_size_j unit A_j.
        length: (B,) exponents, W = 2^length unit W.
    """

    unit: HardMarginProblem
    kept: Tensor
    right: Tensor
    row_size: Tensor
    length: Tensor

    def __getitem__(self, index) -> Units:
        """These problems of the batch."""
        return Units(*(getattr(self, field)[index] for field in self.__dataclass_fields__))

    def value(self, W: Tensor) -> Tensor:
        """W in the units that were given."""
        return _times_power(W, self.length[:, None, None])

    def from_value(self, W: Tensor) -> Tensor:
        """The unit W of one in the units that were given, in float64."""
        return _times_power(W.double(), -self.length[:, None, None])

    def norm(self, size: Tensor) -> Tensor:
        """Norms of W, (B,), in the units that were given."""
        return _times_power(size, self.length)

    def dual(self, weights: Tensor, dtype: torch.dtype) -> Tensor:
        """The weights of the rows that were given, from those of the unit rows; all shorter by one factor
        where the dtype could not hold the longest."""
        return _times_power(weights, -self.row_size - _excess(weights, -self.row_size, dtype))

    def ray(self, weights: Tensor, dtype: torch.dtype) -> Tensor:
        """Likewise, where sum_j weights_j r_j = 1 has to stay."""
        power = -(self.row_size + self.length[:, None])
        return _times_power(weights, power - _excess(weights, power, dtype))


def to_units(problem: HardMarginProblem) -> Units:
    """Bring rows and right-hand sides near unit size by powers of two, which changes not a bit of them."""
    m, d1 = problem.a.shape[-2:]
    B = problem.batch_shape.numel()
    a = problem.a.detach().reshape(B, m, d1).double()
    b = a.new_ones(B, m, 1) if problem.b is None else problem.b.detach()
    b = b.reshape(B, m, b.shape[-1]).double()
    r = problem.r.detach().reshape(B, m).double()
    equality = problem.is_equality.reshape(B, m)

    given_a, given_b = a, b
    (a, e), (b, f) = _near_unit(a), _near_unit(b)
    row_size = e + f
    empty = (a == 0).all(-1) | (b == 0).all(-1)
    a, b = a.masked_fill(empty[..., None], 0.0), b.masked_fill(empty[..., None], 0.0)
    asks = torch.where(equality, r != 0, r > 0)
    mantissa, exponent = torch.frexp(r)
    exponent = exponent - row_size
    length = exponent.masked_fill(~asks, LEAST).amax(-1) if m else exponent.sum(-1)
    length = length.masked_fill(~asks.any(-1), 0)
    power = exponent - length[:, None]
    unit = _times_power(mantissa, power.clamp(-FAR, 60))
    kept = (power >= -FAR) & (power <= 60) | (r == 0)
    for factor, scaled, e_or_f in ((given_a, a, e), (given_b, b, f)):
        kept &= (_times_power(scaled, e_or_f[..., None]) == factor).all(-1) | empty
    unit = HardMarginProblem(a, b, unit.masked_fill(empty & ~asks, 0.0), equality)
    return Units(unit, kept, r, row_size, length)


def _near_unit(rows: Tensor) -> tuple[Tensor, Tensor]:
    """rows / 2^e with lengths in [1/2, 1), and e; rows of zeros stay, with e = 0."""
    largest = rows.abs().amax(-1) if rows.shape[-1] else rows.new_zeros(rows.shape[:-1])
    first = torch.frexp(largest).exponent
    rows = _times_power(rows, -first[..., None])
    second = torch.frexp(torch.linalg.vector_norm(rows, dim=-1)).exponent
    return _times_power(rows, -second[..., None]), first + second


def _excess(x: Tensor, exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """By how many powers of two the largest x 2^exponent of each row is too long, (B, 1)."""
    if not x.shape[-1]:
        return exponent.sum(-1, keepdim=True)
    room = int(math.log2(torch.finfo(dtype).max)) - 8
    top = (torch.frexp(x).exponent + exponent).masked_fill(x == 0, LEAST).amax(-1, keepdim=True)
    return (top - room).clamp_min(0)


def _times_power(x: Tensor, exponent: Tensor) -> Tensor:
    """x 2^exponent, in steps that stay within float64 where the result does."""
    while True:
        part = exponent.clamp(-FAR, FAR).to(torch.int64)
        # From the bits of 2^part: torch.ldexp takes ten times as long.
        x = x * ((part + 1023) << 52).view(torch.float64)
        exponent = exponent - part
        if not exponent.any():
            return x
