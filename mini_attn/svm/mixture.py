"""The problems of several tokens kept in a sequence: which direction keeps them, and in which ratios."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn.arguments import bool_tensor, dense, describe
from mini_attn.svm.problem import HardMarginProblem, attention_problem


def mixture_problem(
    X: Float[Tensor, "*batch n T d"],
    z: Float[Tensor, "*batch n d"],
    kept: Bool[Tensor, "*batch n T"],
    mask: Bool[Tensor, "*batch n T"] | None = None,
) -> HardMarginProblem:
    """The attention SVM that keeps a set O_i of tokens in each sequence, not one.

        min N(W)   subject to   (x_ia - x_ib)^T W z_i  = 0    for a, b in O_i
                                (x_ia - x_it)^T W z_i >= 1    for a in O_i and t not in it

    Tokens of O_i have equal logits, so that one of them, the first, stands for all on the left: T - 1 rows a
    sequence. Where each O_i is one token this is :func:`attention_problem`; where it is all of them, W = 0.
    Equalities that depend on each other are fine, and so are sets of any size side by side in a batch.

    Args:
        X: (..., n, T, d) tokens.
        z: (..., n, e) queries (e = d in the course).
        kept: (..., n, T) bool, True for t in O_i; at least one in each sequence that has tokens.
        mask: (..., n, T) bool, True where a token is real, as in ``TokenData.mask``; None means everywhere.

    Returns:
        A problem with unknown W (..., d, e) and n (T - 1) rows, ordered by i, then by t, without the first t
        of O_i.

    Raises:
        ValueError: if a sequence keeps no token, or one that is masked, or shapes do not agree.

    Source: Tarzanagh, Li, Thrampoulidis, Oymak, "Transformers as support vector machines" (2023), on
        nonlinear heads: the directional component W_dir.

    Introduced in lesson 13.
    """
    problem, others = _against_the_first(X, z, kept, mask)
    return HardMarginProblem(problem.a, problem.b, torch.where(others, 0.0, problem.r), others, problem.mask)


def ratio_problem(
    X: Float[Tensor, "*batch n T d"],
    z: Float[Tensor, "*batch n d"],
    kept: Bool[Tensor, "*batch n T"],
    log_attention: Float[Tensor, "*batch n T"],
    mask: Bool[Tensor, "*batch n T"] | None = None,
) -> HardMarginProblem:
    """The shortest W that gives the kept tokens their ratios of attention.

        min N(W)   subject to   (x_ia - x_ib)^T W z_i = log s_ia - log s_ib    for a, b in O_i

    Attention that keeps O_i and nothing else has W = W_fin + R W_dir, R -> infinity: W_dir solves
    :func:`mixture_problem`, and the Euclidean answer to this problem is W_fin, in the span of the equalities.

    Args:
        X, z, kept, mask: as for :func:`mixture_problem`.
        log_attention: (..., n, T) log s_it; what it says of tokens outside O_i does not matter.

    Returns:
        A problem with unknown W (..., d, e) and n (T - 1) rows, those of tokens outside O_i switched off.

    Raises:
        ValueError: as for :func:`mixture_problem`; if a kept token has no attention.

    Source: as for :func:`mixture_problem`: the finite component W_fin.

    Introduced in lesson 13.
    """
    problem, others = _against_the_first(X, z, kept, mask)
    if not isinstance(dense("log_attention", log_attention), Tensor) or log_attention.shape != kept.shape:
        raise ValueError(
            f"log_attention must be a tensor of shape {tuple(kept.shape)}, got {describe(log_attention)}"
        )
    if log_attention.is_complex():
        raise ValueError(f"log_attention holds real numbers; got {log_attention.dtype}")
    log_s = log_attention.to(X).masked_fill(~kept, 0.0)
    if not log_s.isfinite().all():
        where = (~log_s.isfinite()).nonzero()[0].tolist()
        raise ValueError(f"log_attention{where} is {log_s[tuple(where)].item()}, but this token is kept")
    first = _first(kept)
    ratio = (log_s.gather(-1, first[..., None]) - log_s).flatten(-2)
    r = torch.where(others, _without(first, ratio.unflatten(-1, kept.shape[-2:])), 0.0)
    return HardMarginProblem(problem.a, problem.b, r, others, others)


def _first(kept: Tensor) -> Tensor:
    return kept.to(torch.int8).argmax(-1)


def _without(first: Tensor, values: Tensor) -> Tensor:
    """Values (..., n, T) of the tokens t != first, (..., n (T - 1)), in the order of the rows."""
    T = values.shape[-1]
    others = torch.arange(T - 1, device=values.device)
    return values.gather(-1, others + (others >= first[..., None])).flatten(-2)


def _against_the_first(X, z, kept, mask) -> tuple[HardMarginProblem, Tensor]:
    """The attention problem of the first kept tokens, and which of its rows are of other kept tokens."""
    shape = X.shape[:-1] if isinstance(dense("X", X), Tensor) else None
    kept = bool_tensor("kept", kept, shape, says="True where a token is kept").to(X.device)
    real = torch.ones_like(kept) if mask is None else dense("mask", mask)
    first = _first(kept)
    problem = attention_problem(X, z, first, mask)
    for bad, says in (
        (real.any(-1) & ~kept.any(-1), "keeps no token; expected at least one in each sequence"),
        ((kept & ~real).any(-1), "keeps a token that the mask hides"),
    ):
        if bad.any():
            raise ValueError(f"kept{bad.nonzero()[0].tolist()} {says}")
    return problem, _without(first, kept)
