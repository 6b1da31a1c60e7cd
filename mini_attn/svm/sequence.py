"""The attention SVM of data in which every position of a sequence asks."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from mini_attn.arguments import dense, describe
from mini_attn.containers import TokenData
from mini_attn.svm.problem import HardMarginProblem, _winner_minus_others


def sequence_problem(data: TokenData, selected: Int[Tensor, "*trials m"]) -> HardMarginProblem:
    """The sequence attention SVM (SAtt-SVM): one set of constraints for each position k of each sequence i,

        min N(W)   subject to   (x_{i alpha_ik} - x_it)^T W z_ik >= 1   for t != alpha_ik that k sees,

    where z_ik = x_ik in self-attention, and k sees t <= k if it is causal: see
    :func:`mini_attn.data.every_position`. With one query a sequence this is :func:`attention_problem`.

    Args:
        data: tokens (their keys), queries and mask.
        selected: (..., m) alpha_ik, the token that each row of the data keeps; integers in [0, T).

    Returns:
        A problem with unknown W (..., d, d) and m (T - 1) rows, ordered by i, then k, then t. Rows of tokens
        that k does not see are switched off, and so are all rows of a k that is padding.

    Raises:
        ValueError: if a selected token does not exist or is masked, or shapes do not agree.

    Source: Tarzanagh, Li, Thrampoulidis, Oymak, "Transformers as support vector machines" (2023), on sequence
        outputs.
        Introduced in lesson 14.
    """
    if not isinstance(data, TokenData):
        raise ValueError(f"data must be TokenData, got {describe(data)}")
    rows, (T, d) = data.y.shape, data.X.shape[-2:]
    if not isinstance(dense("selected", selected), Tensor) or selected.shape != rows:
        raise ValueError(
            f"selected must be a tensor of shape {tuple(rows)}, a token for each row of the data, "
            f"got {describe(selected)}"
        )
    by_sequence = (*data.X.shape[:-2], data.positions)
    keys = data.keys[..., None, :, :].expand(*by_sequence, T, d)
    mask = None if data.mask is None else data.mask.reshape(*by_sequence, T)
    a, mask = _winner_minus_others("keys", keys, selected.reshape(by_sequence), mask)
    b = data.z.reshape(*by_sequence, 1, d).expand(a.shape)
    a, b = a.flatten(-4, -2), b.flatten(-4, -2)
    return HardMarginProblem(a, b, a.new_ones(a.shape[:-1]), mask=None if mask is None else mask.flatten(-3))
