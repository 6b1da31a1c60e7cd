"""Small problems without rounding, one at a time: solved, refuted, or an answer certified."""

from __future__ import annotations

from fractions import Fraction

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.norms import Norm, dual_norm, matrix_norm
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rational import integer_rows, shortest
from mini_attn.svm.solution import FAR_BELOW, ROUNDING, drowned, rank_one_size

SMALL = 2**10  # entries m d1 d2 of a problem that is solved
FEW, MANY = 8, 2**14  # likewise, for a W of FEW entries: fractions of few factors stay short
MOST = 20  # rows that hold exactly
PRIME = 2**61 - 1
LARGEST = 2**16  # entries of one whose answer is certified


def solve_exact(problem: HardMarginProblem, norm: str, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_F s.t. <A_j, W> >= r_j (= where equality) in rational arithmetic, rounded once at the end.

    Rows at an angle theta from opposite have a W of length 1 / theta and weights of size 1 / theta^2: Gram
    matrices square the condition number, and even <A_j, W> loses its digits to rounding as 1 / theta nears
    1e16. Here nothing is lost, and where no W exists the ray is exact. Choose it for small problems that
    nothing else decides; it takes milliseconds, or a second for thousands of rows on a W of up to 8 entries.
    It gives up on others beyond 1,000 entries, and beyond 20 rows that hold exactly.

    Args:
        problem: a batch with one leading dimension, float64.
        norm: "fro".
        tol: unused.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certified_exactly`; 0 where it gave up.

    Source: `mini_attn.svm.rational.shortest`.
    """
    dual = torch.zeros_like(problem.r)
    W = problem.adjoint(dual)
    for k in range(len(dual)):
        if fits(problem.r.shape[-1], W[k].numel()):
            w, dual[k], _ = exact_answer(problem[k], problem.r[k].tolist())
            W[k] = torch.zeros_like(W[k]) if w is None else w
    return W, dual, torch.ones(len(dual), dtype=torch.int64, device=dual.device)


def fits(rows: int, entries: int) -> bool:
    """Whether problems with so many rows and entries of W are small enough."""
    return rows * entries <= (MANY if entries <= FEW else SMALL)


def exact_answer(
    problem: HardMarginProblem, r: list[float] | list[Fraction]
) -> tuple[Tensor | None, Tensor, bool]:
    """W, weights and whether these are a ray, for one problem with right-hand sides r instead of its own.

    Where it gave up, W is None and the weights are 0.
    """
    rows, right, factors = integer_rows(problem.a.tolist(), problem.b.tolist(), r)
    w, weights = shortest(rows, right, problem.is_equality.tolist(), most=MOST)
    nothing = None, torch.zeros_like(problem.r), False
    if weights is None:
        return nothing
    weights = [x * factor for x, factor in zip(weights, factors, strict=True)]
    longest = max(map(abs, weights), default=0) if w is None else 1
    try:
        dual = problem.r.new_tensor([float(x / longest) for x in weights])
        if w is None:
            return None, dual, True
        W = problem.r.new_tensor([float(x) for x in w])
    except OverflowError:  # longer than any float
        return nothing
    return W.reshape(problem.a.shape[-1], problem.b.shape[-1]), dual, False


def independent(problem: HardMarginProblem) -> bool:
    """Whether the rows of one problem are linearly independent, so that no ray exists; False says nothing.

    Elimination modulo a prime cannot find more independent rows than there are. It tells rows that are
    dependent up to rounding (differences of the same tokens) from rows that are dependent in a tenth of a
    millisecond.
    """
    rows, _, _ = integer_rows(problem.a.tolist(), problem.b.tolist(), [0.0] * len(problem.r))
    rows = [[x % PRIME for x in row] for row in rows]
    if len(rows) > len(rows[0]):
        return False
    while rows:
        first, *rows = rows
        k = next((k for k, x in enumerate(first) if x), None)
        if k is None:
            return False
        inverse = pow(first[k], -1, PRIME)
        factors = [row[k] * inverse % PRIME for row in rows]
        rows = [
            [(x - f * y) % PRIME for x, y in zip(row, first, strict=True)] if f else row
            for row, f in zip(rows, factors, strict=True)
        ]
    return True


def certified_exactly(
    problem: HardMarginProblem, W: Float[Tensor, "B d1 d2"], dual: Float[Tensor, "B m"], norm: Norm
) -> tuple[Float[Tensor, "B m"], Float[Tensor, " B"]]:
    """What `certify` says of the candidates, with W as it is and without rounding errors in any sum.

    Errors of the weights themselves hardly matter, for sum_j lambda_j r_j / N*(sum_j lambda_j A_j) is at its
    highest; those of the sum do, once its terms are much longer than it is.

    Returns:
        dual (B, m), scaled to N*(sum_j lambda_j A_j) = 1, and gap (B,), inf where W misses a row by more than
        rounding or gets the sign of a margin wrong.
    """
    stars, sizes = rank_one_size(problem, dual_norm(norm)), rank_one_size(problem, "fro")
    duals, gaps = dual.clone(), dual.new_full((len(dual),), torch.inf)
    for k in range(len(dual)):
        small = problem.a[k].numel() * W.shape[-1] <= LARGEST
        if not (small and W[k].isfinite().all() and dual[k].isfinite().all()):
            continue
        one, equality = problem[k], problem.is_equality[k]
        weights = one.multipliers(dual[k]).where(one.r > FAR_BELOW, 0.0)
        size, upper = matrix_norm(_adjoint(one, weights), dual_norm(norm)), matrix_norm(W[k], norm)
        missed = _missing(one, W[k])
        sure = 8 * ROUNDING * sizes[k] * torch.linalg.matrix_norm(W[k])
        wrong = (missed > sure) | (equality & (missed < -sure))
        turned = drowned(problem[k : k + 1], W[k : k + 1], (one.r - missed)[None], ROUNDING)
        if not (size > 0 and upper > 0) or wrong.any() or turned:
            continue
        duals[k] = weights / size
        size = matrix_norm(_adjoint(one, duals[k]), dual_norm(norm))  # the division rounded the weights
        lower = sum(x * y for x, y in zip(_fractions(duals[k]), _fractions(one.r), strict=True))
        missed = one.missing(missed)
        violation = torch.where(missed > 0, missed / (stars[k] * upper), 0.0).amax()
        gaps[k] = (upper - float(lower) / size).abs() / upper + violation + (size - 1).abs()
    return duals, gaps


def _adjoint(problem: HardMarginProblem, dual: Tensor) -> Tensor:
    """sum_j dual_j a_j b_j' of one problem, rounded once."""
    a, b, weights = (_fractions(x) for x in (problem.a, problem.b, dual))
    used = [j for j, x in enumerate(weights) if x]
    columns, others = range(problem.a.shape[-1]), range(problem.b.shape[-1])
    total = [[float(sum(weights[j] * a[j][i] * b[j][k] for j in used)) for k in others] for i in columns]
    return dual.new_tensor(total)


def _missing(problem: HardMarginProblem, W: Tensor) -> Tensor:
    """r_j - <a_j b_j', W> of one problem, rounded once."""
    a, b, w, r = (_fractions(x) for x in (problem.a, problem.b, W, problem.r))
    reach = [
        sum(x * y * w[i][k] for i, x in enumerate(left) for k, y in enumerate(right))
        for left, right in zip(a, b, strict=True)
    ]
    return W.new_tensor([float(bound - x) for bound, x in zip(r, reach, strict=True)])


def _fractions(numbers: Tensor) -> list:
    return [Fraction(x) for x in numbers.tolist()] if numbers.ndim == 1 else [_fractions(x) for x in numbers]
