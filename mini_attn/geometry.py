"""Directions, and which tokens an attention has chosen."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.data import TokenData


def _flat(a: Tensor, batch_dims: int | None) -> Tensor:
    if batch_dims is None:
        batch_dims = min(1, a.ndim - 1)
    if not 0 <= batch_dims < a.ndim:
        raise ValueError(
            f"batch_dims = {batch_dims}; a tensor of shape {tuple(a.shape)} allows 0 to {a.ndim - 1}"
        )
    return a.flatten(batch_dims)


def _unit(flat: Tensor, order: float = 2.0) -> Tensor:
    largest = flat.abs().amax(-1, keepdim=True)
    flat = flat / largest  # safe from under- and overflow; zero gives NaN: it has no direction
    return flat / torch.linalg.vector_norm(flat, ord=order, dim=-1, keepdim=True)


def _same_shape(a: Tensor, b: Tensor):
    if a.shape != b.shape:
        raise ValueError(f"shapes {tuple(a.shape)} and {tuple(b.shape)} differ; compare weights of one shape")


def cosine(
    a: Float[Tensor, "*trials _"], b: Float[Tensor, "*trials _"], batch_dims: int | None = None
) -> Tensor:
    """Cosine of the angle between two weights, <a, b> / (||a|| ||b||), in each trial.

    Args:
        a, b: vectors (*trials, d) or matrices (*trials, d, d) of one shape.
        batch_dims: how many leading dimensions are trials. None: one, or none if the weights are plain
            vectors (d,). For a single matrix say ``batch_dims=0``.

    Returns:
        (*trials,), in [-1, 1]; NaN where a or b is zero and has no direction.

    Introduced in lesson 01.
    """
    _same_shape(a, b)
    return (_unit(_flat(a, batch_dims)) * _unit(_flat(b, batch_dims))).sum(-1).clamp(-1.0, 1.0)


def bregman(
    a: Float[Tensor, "*trials _"], b: Float[Tensor, "*trials _"], p: float, batch_dims: int | None = None
) -> Tensor:
    """Directional Bregman divergence D(a / ||a||_p, b / ||b||_p) of the potential psi(w) = (1/p) sum |w_j|^p.

    D(a, b) = psi(a) - psi(b) - <grad psi(b), a - b>, at least 0, and 0 for equal directions only.

    Args:
        a, b, batch_dims: as for :func:`cosine`.
        p: exponent, > 1. At p = 2 this is 1 - cosine.

    Source: Julistiono et al. 2024.
    Introduced in lesson 15.
    """
    _same_shape(a, b)
    if not 1 < p < float("inf"):
        raise ValueError(f"p = {p}; expected a finite exponent above 1")
    u, w = _unit(_flat(a, batch_dims), p), _unit(_flat(b, batch_dims), p)
    # psi(u) = psi(w) = 1/p, and <grad psi(w), w> = 1
    return 1.0 - (w.sign() * w.abs() ** (p - 1) * u).sum(-1)


def selected_tokens(attention: Float[Tensor, "*trials n T"]) -> Int[Tensor, "*trials n"]:
    """The token each sequence attends to most, alpha_i = argmax_t s_it (the first of equals).

    Read it at the end of training: selection moves late.

    Introduced in lesson 06.
    """
    return attention.detach().argmax(-1)


def margins(
    logits: Float[Tensor, "*trials n T"], selected: Int[Tensor, "*trials n"]
) -> Float[Tensor, "*trials n T"]:
    """How far the selected token leads each other one: h_{i alpha_i} - h_it, and inf at alpha_i itself.

    Introduced in lesson 07.
    """
    ahead = logits.gather(-1, selected[..., None]) - logits
    return ahead.scatter(-1, selected[..., None], torch.inf)


def support_tokens(
    logits: Float[Tensor, "*trials n T"], selected: Int[Tensor, "*trials n"], tol: float = 1e-4
) -> Bool[Tensor, "*trials n T"]:
    """The tokens whose constraint is tight at an SVM solution.

    Tight means: a margin of at most (1 + tol) times the smallest margin of the trial.

    Args:
        logits: of the SVM solution, k_it.p_mm or k_it^T W_mm z_i.
        selected: the tokens alpha_i it selects.
        tol: relative slack that still counts as tight; keep it above the solver's gap.

    Introduced in lesson 07.
    """
    ahead = margins(logits, selected)
    return (ahead <= (1 + tol) * ahead.amin((-2, -1), keepdim=True)) & ahead.isfinite()


def locally_optimal(
    scores: Float[Tensor, "*trials n T"],
    logits: Float[Tensor, "*trials n T"],
    selected: Int[Tensor, "*trials n"],
    tol: float = 1e-4,
) -> Bool[Tensor, "*trials"]:
    """Whether each selected token scores higher than every one of its support tokens.

    Args:
        scores: gamma_it.
        logits, selected, tol: as for :func:`support_tokens`.

    Source: Tarzanagh et al. 2023, "Max-Margin Token Selection in Attention Mechanism".
    Introduced in lesson 06; the full story in lesson 07.
    """
    ahead = scores.gather(-1, selected[..., None]) > scores
    return (ahead | ~support_tokens(logits, selected, tol)).all((-2, -1))


def outcome(
    attention: Float[Tensor, "*trials n T"],
    data: TokenData,
    feasible: Bool[Tensor, "*trials"] | None = None,
    threshold: float = 0.99,
) -> np.ndarray:
    """Say in one word what each trial came to.

    "global": every sequence selected its highest-scoring token. "local": each selected one token, not all
    of them the best. "undecided": some sequence gives no token more than ``threshold`` of its attention.
    "infeasible": decided, but no weights separate the selected tokens.

    Args:
        attention: s_it at the end of training.
        data: the tokens it was trained on.
        feasible: whether the Att-SVM of the selected tokens has a solution, (*trials,); None assumes it.
        threshold: share of attention that counts as a decision.

    Returns:
        array of str, (*trials,).

    Introduced in lesson 07.
    """
    attention = attention.detach()
    decided = (attention.amax(-1) > threshold).all(-1)
    scores = data.scores.expand_as(attention)  # one data set may serve many trials
    best = scores.gather(-1, selected_tokens(attention)[..., None]).squeeze(-1) >= scores.amax(-1)
    word = np.where(best.all(-1).cpu().numpy(), "global", "local").astype(object)
    if feasible is not None:
        word = np.where(feasible.cpu().numpy(), word, "infeasible")
    return np.where(decided.cpu().numpy(), word, "undecided").astype(str)
