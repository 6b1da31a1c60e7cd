"""Directions, and which tokens an attention has chosen."""

import sys

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mini_attn.arguments import dense, describe, floating_tensor, token_numbers
from mini_attn.data import TokenData


def _flat(a: Tensor, batch_dims: int | None) -> Tensor:
    if a.ndim == 0 or a.shape[-1] == 0:
        raise ValueError(f"weights of shape {tuple(a.shape)} hold no vector; expected (*trials, d), d >= 1")
    if batch_dims is None:
        batch_dims = min(1, a.ndim - 1)
    if not 0 <= batch_dims < a.ndim:
        raise ValueError(
            f"batch_dims = {batch_dims}; a tensor of shape {tuple(a.shape)} allows 0 to {a.ndim - 1}"
        )
    return a.flatten(batch_dims)


def _unit(flat: Tensor, order: float = 2.0) -> Tensor:
    flat = flat if flat.is_floating_point() else flat.double()  # -128 has no absolute value in a byte
    largest = flat.abs().amax(-1, keepdim=True)
    flat = flat / largest  # safe from under- and overflow; zero gives NaN: it has no direction
    return flat / torch.linalg.vector_norm(flat, ord=order, dim=-1, keepdim=True)


def _same_shape(a: Tensor, b: Tensor):
    for weights in (a, b):
        if (
            not isinstance(dense("weights", weights), Tensor)
            or weights.is_complex()
            or weights.dtype == torch.bool
        ):
            raise ValueError(
                f"weights are {describe(weights)}; expected a tensor of real numbers: torch.as_tensor(w)"
            )
    if a.shape != b.shape:
        raise ValueError(f"shapes {tuple(a.shape)} and {tuple(b.shape)} differ; compare weights of one shape")


def cosine(
    a: Float[Tensor, "*trials _"], b: Float[Tensor, "*trials _"], batch_dims: int | None = None
) -> Tensor:
    """Cosine of the angle between two weights, <a, b> / (||a|| ||b||), in each trial.

    Args:
        a, b: vectors (*trials, d) or matrices (*trials, d, d) of one shape.
        batch_dims: how many leading dimensions are trials. None: one, or none if the weights are plain
            vectors (d,). Nothing in a shape tells a matrix from as many vectors as it has rows, so a single
            matrix needs ``batch_dims=0``: without it the answer is one cosine for each row. Trials in more
            than one dimension need ``batch_dims`` too.

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
    if not 1 < p <= sys.float_info.max:  # 10**400 is no float
        raise ValueError(f"p = {p}; expected a finite exponent above 1")
    u, w = _unit(_flat(a, batch_dims), p), _unit(_flat(b, batch_dims), p)
    # psi(u) = psi(w) = 1/p, and <grad psi(w), w> = 1
    return (1.0 - (w.sign() * w.abs() ** (p - 1) * u).sum(-1)).clamp(min=0.0)


def selected_tokens(attention: Float[Tensor, "*trials n T"]) -> Int[Tensor, "*trials n"]:
    """The token each sequence attends to most, alpha_i = argmax_t s_it (the first of equals).

    Read it at the end of training: selection moves late.

    Raises:
        ValueError: attention that is no dense tensor of floating numbers.

    Introduced in lesson 06.
    """
    return floating_tensor("attention", attention, ndim=1).detach().argmax(-1)


def _indices(selected: Tensor, logits: Tensor) -> Int[Tensor, "*trials n"]:
    """The selected tokens, checked, on the logits' device and of the type that torch indexes with."""
    floating_tensor("logits", logits, ndim=2)
    return token_numbers("selected", selected, logits.shape[:-1], logits.shape[-1], logits.device)


def margins(
    logits: Float[Tensor, "*trials n T"], selected: Int[Tensor, "*trials n"]
) -> Float[Tensor, "*trials n T"]:
    """How far the selected token leads each other one: h_{i alpha_i} - h_it, and inf at alpha_i itself and at
    tokens that a mask hides (h_it = -inf).

    Raises:
        ValueError: selected tokens that do not exist, or not one for each sequence.

    Introduced in lesson 10.
    """
    selected = _indices(selected, logits)[..., None]
    return (logits.gather(-1, selected) - logits).scatter(-1, selected, torch.inf)


def _tight(logits, selected, tol: float, lead) -> tuple[Tensor, Tensor]:
    """Which constraints are tight, (*trials, n, T), and whether all of them hold, (*trials,)."""
    ahead = margins(logits, selected)
    asked = torch.ones_like(ahead[..., :1])
    if lead is not None:
        if not isinstance(dense("lead", lead), Tensor) or lead.shape != ahead.shape[:-1]:
            raise ValueError(
                f"lead must be a tensor of shape {tuple(ahead.shape[:-1])}, a number per sequence; "
                f"got {describe(lead)}"
            )
        asked = lead.to(ahead)[..., None]
    # in units of the solution: its logits may be those of p_mm, or of a direction
    unit = torch.where(asked > 0, ahead / asked, torch.inf).amin((-2, -1), keepdim=True)
    unit = torch.where(unit == torch.inf, 1.0, unit)
    slack = tol * asked.abs().amax((-2, -1), keepdim=True)
    tight = (ahead <= unit * (asked + slack)) & ahead.isfinite()
    hold = (ahead >= unit * (asked - slack)).all((-2, -1)) & (unit > 0)[..., 0, 0]
    return tight, hold


def support_tokens(
    logits: Float[Tensor, "*trials n T"],
    selected: Int[Tensor, "*trials n"],
    tol: float = 1e-4,
    lead: Float[Tensor, "*trials n"] | None = None,
) -> Bool[Tensor, "*trials n T"]:
    """The tokens whose constraint h_{i alpha_i} - h_it >= r_i is tight at an SVM solution.

    Tight means: a margin of at most (r_i + tol max_j |r_j|) u. The unit u is the largest for which the logits
    keep all margins u r_i with r_i > 0, so that a solution's length does not matter.

    Args:
        logits: of the SVM solution, k_it.p_mm or k_it^T W_mm z_i.
        selected: the tokens alpha_i it selects.
        tol: relative slack that still counts as tight; keep it above the solver's gap.
        lead: r_i, as for :func:`mini_attn.svm.token_problem`; 1 unless given.

    Returns:
        bool, (*trials, n, T); nowhere True in a trial whose logits are NaN.

    Raises:
        ValueError: selected or lead that do not fit the logits.

    Introduced in lesson 07; ``lead`` in lesson 09.
    """
    return _tight(logits, selected, tol, lead)[0]


def locally_optimal(
    scores: Float[Tensor, "*trials n T"],
    logits: Float[Tensor, "*trials n T"],
    selected: Int[Tensor, "*trials n"],
    tol: float = 1e-4,
    lead: Float[Tensor, "*trials n"] | None = None,
) -> Bool[Tensor, "*trials"]:
    """Whether each selected token scores higher than every one of its support tokens.

    False too where the logits are no evidence: NaN, or short of a margin, as where a selected token does not
    lead its sequence.

    Args:
        scores: gamma_it, (*trials, n, T), or (n, T) for all trials.
        logits, selected, tol, lead: as for :func:`support_tokens`.

    Raises:
        ValueError: selected, lead or scores that do not fit the logits.

    Source: Tarzanagh et al. 2023, "Max-Margin Token Selection in Attention Mechanism".
    Introduced in lesson 06; the full story in lesson 07.
    """
    tight, hold = _tight(logits, selected, tol, lead)
    scores = _expanded("scores", scores, logits)
    ahead = scores.gather(-1, _indices(selected, logits)[..., None]) > scores
    return (ahead | ~tight).all((-2, -1)) & hold


def _expanded(name: str, a: Tensor, logits: Tensor) -> Tensor:
    try:
        return a.expand_as(logits)  # one data set may serve many trials
    except RuntimeError:
        raise ValueError(
            f"{name} have shape {tuple(a.shape)}, which does not fit {tuple(logits.shape)}, (*trials, n, T)"
        ) from None


def outcome(
    attention: Float[Tensor, "*trials n T"],
    data: TokenData,
    feasible: Bool[Tensor, "*trials"] | Bool[np.ndarray, "*trials"] | list[bool] | None = None,
    threshold: float = 0.99,
) -> np.ndarray:
    """Say in one word what each trial came to.

    "global": every sequence selected its highest-scoring token. "local": each selected one token, not all
    of them the best. "undecided": some sequence gives no token more than ``threshold`` of its attention.
    "infeasible": decided, but no weights separate the selected tokens. A sequence that sees a single token
    has decided, for the best there is.

    Args:
        attention: s_it at the end of training.
        data: the tokens it was trained on.
        feasible: whether the Att-SVM of the selected tokens has a solution, (*trials,), most often
            ``solution.status == "optimal"``; None assumes it.
        threshold: share of attention that counts as a decision.

    Returns:
        array of str, (*trials,).

    Raises:
        ValueError: data or feasible that do not fit the attention.

    Introduced in lesson 07.
    """
    attention = attention.detach()
    decided = (attention.amax(-1) > threshold).all(-1)
    scores = _expanded("the data's scores", data.scores, attention)
    best = scores.gather(-1, selected_tokens(attention)[..., None]).squeeze(-1) >= scores.amax(-1)
    word = np.where(best.all(-1).cpu().numpy(), "global", "local").astype(object)
    if feasible is not None:
        feasible = np.asarray(feasible.cpu() if isinstance(feasible, Tensor) else feasible)
        if feasible.dtype != bool or feasible.shape != word.shape:
            raise ValueError(
                f"feasible holds {feasible.dtype} of shape {feasible.shape}; expected bool of shape "
                f'{word.shape}, one for each trial: solution.status == "optimal"'
            )
        word = np.where(feasible, word, "infeasible")
    return np.where(decided.cpu().numpy(), word, "undecided").astype(str)
