"""The two SVMs of next-token prediction: which token follows which, and which one to look at."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.arguments import bool_tensor, real_tensor, token_numbers
from mini_attn.svm.problem import HardMarginProblem


def next_problem(
    embeddings: Float[Tensor, "*batch V d"], following: Int[Tensor, "*batch V"]
) -> HardMarginProblem:
    """The SVM of a collocation, a multi-class SVM with one class for each token that may come next:

        min N(W)   subject to   (W x_c)_next(c) - (W x_c)_u >= 1    for each token c and each u != next(c)

    Args:
        embeddings: x_c, (..., V, d).
        following: next(c), (..., V), integers in [0, V).

    Returns:
        A problem with unknown W_ov (..., V, d) and V (V - 1) rows, ordered by c, then by u.

    Raises:
        ValueError: if shapes do not agree, or a next token does not exist.

    Source: Huang, Liang, Yang, "Non-asymptotic convergence of training transformers for next-token
        prediction" (2024), the first stage. Introduced in lesson 16.
    """
    real_tensor("embeddings", embeddings, ndim=2)
    V = embeddings.shape[-2]
    if V == 0:
        raise ValueError(
            f"embeddings has shape {tuple(embeddings.shape)}, V = 0 tokens; expected at least one"
        )
    following = token_numbers("following", following, embeddings.shape[:-1], V, embeddings.device)
    units = torch.eye(V, dtype=embeddings.dtype, device=embeddings.device)
    others = torch.arange(V - 1, device=embeddings.device)
    others = others + (others >= following[..., None])  # (..., V, V - 1), without next(c)
    a = (units[following][..., None, :] - units[others]).flatten(-3, -2)
    b = embeddings.repeat_interleave(V - 1, dim=-2)
    return HardMarginProblem(a, b, torch.ones_like(a[..., 0]))


def order_problem(
    embeddings: Float[Tensor, "*batch V d"],
    above: Bool[Tensor, "*batch V V V"],
    tied: Bool[Tensor, "*batch V V V"] | None = None,
) -> HardMarginProblem:
    """The SVM that puts tokens into order under each query.

        min N(W)   subject to   (x_a - x_b)^T W x_q >= 1    where a > b under q
                                (x_a - x_b)^T W x_q  = 0    where they are tied

    Args:
        embeddings: x_c, (..., V, d).
        above: [q, a, b], (..., V, V, V) bool, as from :func:`mini_attn.vocabulary.priorities`.
        tied: likewise; rows of pairs that are tied become equalities, whatever `above` says of them. Pass
            `above & same_component(above)` for the directional part of data with cycles.

    Returns:
        A problem with unknown W_kq (..., d, d); as many rows as the largest problem of the batch, ordered by
        q, a, b.

    Raises:
        ValueError: if shapes do not agree.

    Source: Huang, Liang, Yang (2024), the second stage; with ties, Li et al., "Mechanics of next token
        prediction with self-attention" (2024). Introduced in lesson 16.
    """
    real_tensor("embeddings", embeddings, ndim=2)
    V, d = embeddings.shape[-2:]
    for name, pairs in (("above", above), ("tied", tied)):
        if not (pairs is None and name == "tied"):
            bool_tensor(name, pairs, (*embeddings.shape[:-1], V, V), embeddings.device, "[query, a, b]")
    tied = torch.zeros_like(above) if tied is None else tied
    counts = (above | tied).flatten(-3)  # (..., V^3)
    order = torch.sort(counts, dim=-1, descending=True, stable=True).indices
    order = order[..., : int(counts.sum(-1).max()) if counts.numel() else 0]
    q, a, b = order // V**2, order // V % V, order % V

    def rows(of):
        return embeddings.gather(-2, of[..., None].expand(*of.shape, d))

    equality = tied.flatten(-3).gather(-1, order)
    return HardMarginProblem(
        rows(a) - rows(b),
        rows(q),
        torch.where(equality, 0.0, 1.0).to(embeddings),
        equality=equality,
        mask=counts.gather(-1, order),
    )
