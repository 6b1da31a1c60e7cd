"""The norms a problem may be solved in, and their duals, over a batch of matrices."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

Norm = str | float  # "fro" | "nuc" | "spectral" | p in [1, inf]
LEAST, MOST = 1.0005, 2000.0  # exponents between which l_p problems are solved as they are
DUAL = {"fro": "fro", "nuc": "spectral", "spectral": "nuc"}


def parse_norm(norm: Norm, vector: bool = False) -> Norm:
    """Check a norm and give it its one spelling: 2 becomes "fro", "inf" becomes `math.inf`.

    Args:
        norm: "fro", "nuc", "spectral", or an exponent p >= 1 (`math.inf` allowed) of the entrywise l_p norm.
        vector: the unknown is a vector, for which "nuc" and "spectral" are the Euclidean norm too.

    Returns:
        "fro", "nuc", "spectral", or a float p >= 1, p != 2.

    Raises:
        ValueError: for any other norm.
    """
    if isinstance(norm, str) and norm in DUAL:
        return "fro" if vector else norm
    try:
        p = math.nan if isinstance(norm, bool) else float(norm)
    except (TypeError, ValueError, OverflowError):  # 10**400 is no float
        p = math.nan
    if not p >= 1:
        raise ValueError(f'norm must be "fro", "nuc", "spectral" or a number p >= 1, got {norm!r}')
    return "fro" if p == 2 else p


def dual_norm(norm: Norm) -> Norm:
    """The norm N* that makes <A, W> <= N*(A) N(W) tight: fro-fro, nuc-spectral, p with p / (p - 1)."""
    if norm in DUAL:
        return DUAL[norm]
    if norm == 1:
        return math.inf
    return 1.0 if math.isinf(norm) else norm / (norm - 1)


def nearest_limit(norm: Norm) -> float | None:
    """1 or inf where an exponent is so near that the answer to the limit is taken for it; else None."""
    if isinstance(norm, str) or LEAST < norm < MOST:
        return None
    return 1.0 if norm <= LEAST else math.inf


def matrix_norm(W: Float[Tensor, "*batch d1 d2"], norm: Norm) -> Float[Tensor, "*batch"]:
    """N(W) over the last two dimensions, safe from overflow and underflow of the powers.

    Args:
        W: (..., d1, d2).
        norm: as `parse_norm` returns it.

    Returns:
        (...,) norms.
    """
    if 0 in W.shape[-2:]:
        return W.new_zeros(W.shape[:-2])
    scale = W.abs().amax((-2, -1), keepdim=True)
    scale = torch.where(scale > 0, scale, 1.0)
    W = W / scale
    if norm in ("nuc", "spectral"):
        singular = torch.linalg.svdvals(torch.nan_to_num(W))
        size = singular.sum(-1) if norm == "nuc" else singular[..., 0]
    else:
        size = torch.linalg.vector_norm(W, 2 if norm == "fro" else norm, dim=(-2, -1))
    return size * scale[..., 0, 0]
