"""How fast: what keeps a run from its SVM's direction, how long its steps may be, and fitted slopes."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mini_attn import losses
from mini_attn.arguments import describe, floating_tensor, token_numbers
from mini_attn.data import TokenData
from mini_attn.svm import HardMarginProblem, Solution


def strengths(
    data: TokenData, selected: Int[Tensor, "*trials n"], loss: str | losses.Loss = "logistic"
) -> Float[Tensor, "*trials m"]:
    """How strongly each comparison pulls once the softmax has chosen:

        L - L_inf ~ sum_it c_it exp(-lead_it),     c_it = |l'(gamma_i alpha)| (gamma_i alpha - gamma_it) / n.

    Args:
        data: without a mask.
        selected: alpha, (..., n).

    Raises:
        ValueError: data with a mask, or `selected` of another shape than (*trials, n).

    Returns:
        c, (..., n (T - 1)), in the order of the rows of `svm.attention_problem` and `svm.token_problem`;
        negative where the selected token scores lower.

    Introduced in lesson 17.
    """
    _no_mask(data)
    selected = _one_a_sequence(selected, data)
    best = data.scores.gather(-1, selected[..., None])
    c = (best - data.scores) * -losses.get(loss).slope(best) / data.scores.shape[-2]
    keep = torch.arange(data.scores.shape[-1], device=c.device) != selected[..., None]
    return c[keep].reshape(*selected.shape[:-1], -1)


def log_excess(
    logits: Float[Tensor, "*trials n T"], data: TokenData, selected: Int[Tensor, "*trials n"]
) -> Float[Tensor, "*trials"]:
    """log(L - L_inf) for the logistic loss, where L_inf is the loss with all attention on the selected.

    Nothing cancels: it stays exact far beyond the 1e-16 at which L itself stands still. NaN where L < L_inf,
    -inf where L = L_inf.

    Raises:
        ValueError: data with a mask, or `selected` of another shape than (*trials, n).

    Introduced in lesson 17.
    """
    _no_mask(data)
    if floating_tensor("logits", logits, ndim=2).shape != data.scores.shape:
        raise ValueError(
            f"logits must be a tensor of the scores' shape {tuple(data.scores.shape)}; got {describe(logits)}"
        )
    selected = _one_a_sequence(selected, data)
    chosen = selected[..., None]
    ahead = data.scores.gather(-1, chosen) - data.scores
    log_s = torch.log_softmax(logits, -1).scatter(-1, chosen, -torch.inf)
    scale = log_s.amax((-1, -2))
    scale = torch.where(scale > -torch.inf, scale, 0.0)  # no other token has any attention
    missing = ((log_s - scale[..., None, None]).exp() * ahead).sum(-1)  # (gamma_alpha - y f) over its scale
    slope = torch.sigmoid(-data.scores.gather(-1, chosen).squeeze(-1))
    # l(a - x) - l(a) = log(1 + (e^x - 1) slope), which is x slope where x is small
    x = missing * scale.exp()[..., None]
    large = torch.log1p(torch.expm1(x) * slope) / scale.exp().clamp(min=1e-300)[..., None]
    return scale + torch.where(scale[..., None] < -30, missing * slope, large).mean(-1).log()


def _no_mask(data: TokenData) -> None:
    if data.mask is not None:
        raise ValueError("the data have a mask; expected sequences of one length, without padding")


def _one_a_sequence(selected: Tensor, data: TokenData) -> Tensor:
    *shape, T = data.scores.shape
    return token_numbers("selected", selected, tuple(shape), T, data.scores.device)


@dataclass(frozen=True)
class Remainder:
    """What keeps W from the direction of its SVM: W = R W_hat / ||W_hat|| + r + (what the start left).

    Attributes:
        value: r, of the shape of W: the shortest vector across W_hat with <A_j, r> = log(c_j / lambda_j) up
            to a constant, for each row j that carries weight.
        span: (..., D, D) projector on the span of those rows, for W flattened.
        longest: (...,) length of the longest normalised step that settles on r; longer ones zigzag.
        speed: (...,) part of the step that goes along W_hat when steps are very much longer than that.

    Introduced in lesson 17.
    """

    value: Float[Tensor, ...]
    span: Float[Tensor, "*batch D D"]
    longest: Float[Tensor, "*batch"]
    speed: Float[Tensor, "*batch"]


def remainder(problem: HardMarginProblem, solution: Solution, c: Float[Tensor, "*batch m"]) -> Remainder:
    """The remainder of normalised descent on sum_j c_j exp(-<A_j, W>), for a Euclidean solution.

    Args:
        problem, solution: solved with norm "fro"; each problem has a solution.
        c: strengths of the rows, positive wherever a row carries weight.

    Raises:
        ValueError: another norm, equality rows, or a row that carries weight and has no positive strength.

    Source: Soudry et al. 2018, Theorem 4, for rows that span the space; the rest is measured in lesson 17.
    Introduced in lesson 17.
    """
    if solution.norm != "fro":
        raise ValueError(f"the solution has norm {solution.norm!r}; solve the problem with norm='fro'")
    if problem.is_equality.any():
        raise ValueError(
            "the problem has equality rows; expected inequalities only, as attention_problem has"
        )
    A = problem.a if problem.b is None else (problem.a[..., None] * problem.b[..., None, :]).flatten(-2)
    lam = solution.dual
    carries = lam > 1e-7 * lam.amax(-1, keepdim=True)
    if not (c[carries] > 0).all():
        raise ValueError("a row that carries weight has no positive strength: not a limit of descent")
    lam = lam.masked_fill(~carries, 0.0)
    unit = solution.value.reshape(*lam.shape[:-1], -1)
    unit = unit / unit.norm(dim=-1, keepdim=True)
    held = A * carries[..., None]
    inverse = torch.linalg.pinv(held, rtol=1e-9)  # (..., D, m)
    wanted = torch.where(carries, torch.log(c / lam), 0.0)
    r = (inverse @ wanted[..., None]).squeeze(-1)
    r = r - (r * unit).sum(-1, keepdim=True) * unit
    q = lam / lam.sum(-1, keepdim=True)
    along = (held * unit[..., None, :]).sum(-1, keepdim=True)
    across = (held - along * unit[..., None, :]) * q.sqrt()[..., None]
    stiff = torch.linalg.eigvalsh(across @ across.mT)[..., -1]
    return Remainder(
        r.reshape(solution.value.shape),
        inverse @ held,
        2 * solution.margin / stiff,
        solution.margin / (q * A.norm(dim=-1)).sum(-1),
    )


def slope(x: Float[Tensor, "*#trials records"], y: Float[Tensor, "*trials records"]) -> Tensor:
    """Least-squares slope of log y against log x, (...,); x may have the leading dimensions of y, or none.

    Raises:
        ValueError: less than a factor of ten between the ends of x, too little to speak of an exponent; or an
            x that is not positive.

    Introduced in lesson 17.
    """
    if not all(isinstance(one, Tensor) for one in (x, y)) or not x.shape[-1:].numel():
        raise ValueError("x and y must be tensors with a record or more along the last dimension")
    if not (x > 0).all():
        raise ValueError("x holds numbers that are not positive; an exponent is a slope in logarithms")
    if not (x.amax(-1) >= 9.99 * x.amin(-1)).all():
        raise ValueError("x spans less than a decade; fit exponents over a factor of ten or more")
    x, y = x.log(), y.log()
    x = x - x.mean(-1, keepdim=True)
    return (x * y).sum(-1) / x.square().sum(-1)


def interval(
    values: Float[Tensor, " trials"], draws: int = 2000, level: float = 0.95, seed: int = 0
) -> tuple[float, float, float]:
    """The median, and the ends of its bootstrap interval over trials; what is NaN is left out.

    Raises:
        ValueError: no number among the values, an infinite one, or a level outside (0, 1).

    Source: Efron 1979. Introduced in lesson 17.
    """
    if not 0 < level < 1:
        raise ValueError(f"level = {level}; expected a probability between 0 and 1, such as 0.95")
    if not isinstance(draws, Integral) or draws < 1:
        raise ValueError(f"draws = {draws!r}; expected a whole number of bootstrap draws, such as 2000")
    values = torch.as_tensor(values, dtype=torch.float64)
    values = values[~values.isnan()]
    if not len(values) or values.isinf().any():
        raise ValueError(f"expected finite values, and NaN where a trial has none; got {values.tolist()[:5]}")
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(0, len(values), (draws, len(values)), generator=generator)
    medians = values[picks].quantile(0.5, dim=-1)
    ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=values.dtype)
    return float(values.quantile(0.5)), *medians.quantile(ends).tolist()
