"""`solve`: which methods try a problem, in which order, and what their answers are worth."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import partial
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from mini_attn.svm.batched import solve_batched
from mini_attn.svm.exact import certified_exactly, fits, solve_exact
from mini_attn.svm.farkas import refuted
from mini_attn.svm.large import solve_large
from mini_attn.svm.nnls import solve_nnls
from mini_attn.svm.norms import Norm, dual_norm, matrix_norm, parse_norm
from mini_attn.svm.problem import LARGE, HardMarginProblem
from mini_attn.svm.reference import solve_cvxpy
from mini_attn.svm.repair import repaired
from mini_attn.svm.sequential import solve_sequential
from mini_attn.svm.solution import (
    BEYOND,
    HOPELESS,
    ROUNDING,
    Solution,
    certify,
    drowned,
    rank_one_size,
    violation,
)
from mini_attn.svm.units import Units, to_units
from mini_attn.threads import ALIKE, blocks, each, free_threads, one_thread


def _solve_exact(problem: HardMarginProblem, norm: Norm, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    return (solve_exact if norm == "fro" else solve_sequential)(problem, norm, tol)


METHODS = {
    "batched": solve_batched,
    "exact": _solve_exact,
    "large": solve_large,
    "nnls": solve_nnls,
    "cvxpy": solve_cvxpy,
}
EUCLIDEAN = ("large", "nnls")
BLOCK = 2**22  # entries that the Newton matrices of a block of problems may have; a quarter in other norms,
# whose problems take more time and memory
PATIENT = 2**18  # entries of the rows of a large problem that cvxpy is left with; it takes seconds for these
DENSE = 2000  # rows of a large problem whose Gram matrix may be factorised as a whole, in seconds
REPAIRS = 2  # of one method's answer
CLEAN = 1e-12  # violation that rounding explains; above it, a repair is tried whatever the gap


def solve(
    problem: HardMarginProblem,
    norm: Norm = "fro",
    method: str = "auto",
    tol: float | None = None,
    throw: bool = True,
) -> Solution:
    """Solve a batch of hard-margin problems and certify each answer.

        min_W N(W)                 subject to   <A_j, W> >= r_j  (or = r_j),   A_j = a_j b_j^T
        max_lambda  lambda . r     subject to   N*(sum_j lambda_j A_j) <= 1,   lambda_j >= 0 on inequalities

    The arithmetic is float64 whatever the input; the answer has the input's dtype and device, is detached
    from its graph, and the gap is that of the float64 answer. Rows and right-hand sides are first brought to
    unit size by powers of two, which changes none of their bits. What a method misses by little is repaired,
    and where terms cancel, small problems are judged in rational arithmetic: "optimal" is true of each row up
    to tol, and of the sign of each margin, and "infeasible" of the very numbers that were given. Small
    problems are solved in blocks, as many at once as torch may use threads, each on one; a single block on
    several only if no other work runs. The number of threads changes no digit.

    Args:
        problem: with leading batch dimensions or none.
        norm: "fro", "nuc", "spectral", or p >= 1 (`math.inf` allowed) for the entrywise l_p norm. For a
            vector unknown the first three are all the Euclidean norm.
        method: "batched" (torch, all problems at once, CPU or GPU), "large" (norm "fro", few problems
            with very many rows), "exact" (norm "fro" or p, small problems in rational arithmetic), "nnls"
            (norm "fro", scipy), "cvxpy" (one by one, the reference), or "auto": "large" for norm "fro" and
            more than 1,000 rows, else "batched", and the others for the problems that this leaves above tol.
        tol: the relative gap up to which an answer counts as optimal, above 0 and below 1. Default 1e-9 for
            "fro", else 1e-6.
        throw: raise if any problem is not optimal; False reports it in `status`, and raises for no finite
            problem.

    Returns:
        A `Solution`; no problem disturbs its neighbours. A method that fails on one is warned about.

    Raises:
        ValueError: unknown norm or method, a method for another norm, or a tol out of range.
        InfeasibleError, SolveError: see `throw`; the exception carries `.solution`.

    Source: Boyd & Vandenberghe, "Convex optimization" (2004), chapter 5. Introduced in lesson 02.
    """
    start = time.perf_counter()
    if not isinstance(problem, HardMarginProblem):
        raise ValueError(
            f"problem is {type(problem).__name__}; expected a HardMarginProblem, as attention_problem, "
            "token_problem and label_problem make it"
        )
    vector = problem.b is None
    norm = parse_norm(norm, vector)
    methods = _methods(method, norm, problem)
    tol = _tolerance(tol, norm)
    rows, columns = problem.a, 1 if vector else problem.b.shape[-1]
    work = rows.shape[-2] * max(rows.shape[-2], rows.shape[-1] * columns)  # entries of a Newton matrix
    small = work <= BLOCK and rows.device.type == "cpu"
    with one_thread() if small else nullcontext() as threads:
        units = to_units(problem)
        room = BLOCK if norm == "fro" else BLOCK // 4
        cut = blocks(len(units.unit.a), work, room) if small else [slice(None)]
        system = max(rows.shape[-2], rows.shape[-1] * columns) ** 2
        if len(cut) == 1 and threads and system <= ALIKE:
            torch.set_num_threads(free_threads(len(units.unit.a) * work, threads, system))
        parts = each(lambda piece: _answers(units[piece], norm, methods, tol), cut, threads or 1)
        solution = _solution(problem, units, _joined(parts), norm, tol, start)
    return solution.raise_for_status() if throw else solution


@dataclass
class _Answers:
    """The best answers so far to a batch with unit rows: W, dual weights, and what `certify` said of them."""

    W: Tensor
    dual: Tensor
    gap: Tensor
    reach: Tensor
    infeasible: Tensor  # proved
    iterations: Tensor

    def open(self, tol: float) -> Tensor:
        """Numbers of the problems that are worth another try."""
        return torch.nonzero((self.gap > tol) & (self.reach < HOPELESS))[:, 0]

    def misses(self, index: Tensor, problem: HardMarginProblem) -> Tensor:
        """Whether a W was found that misses a row by more than rounding."""
        found = self.gap[index].isfinite() & ~self.infeasible[index]
        return found & (violation(problem, self.W[index]) > CLEAN)

    def keep(self, index: Tensor, W: Tensor, dual: Tensor, gap: Tensor, reach: Tensor) -> None:
        """Take over the answers that are better than what there was."""
        farther = gap.isinf() & self.gap[index].isinf() & (reach > self.reach[index])
        better = (gap < self.gap[index]) | farther
        index = index[better]
        self.W[index], self.dual[index] = W[better], dual[better]
        self.gap[index], self.reach[index] = gap[better], reach[better]

    def refute(self, index: Tensor, units: Units, rays: Tensor, norm: Norm) -> None:
        """Mark as infeasible what the rays, one for each number in index, prove to be so."""
        if not len(index):
            return
        rays = torch.where(units.kept[index], rays, 0.0)
        proved, rays = refuted(units.unit[index], units.right[index], units.row_size[index], rays)
        index, rays = index[proved], rays[proved]
        self.dual[index] = rays
        self.reach[index] = certify(units.unit[index], self.W[index], rays, norm)[3]
        self.infeasible[index], self.gap[index] = True, 0.0

    def sharpen(
        self, index: Tensor, problem: HardMarginProblem, W: Tensor, dual: Tensor, norm: Norm, tol: float
    ) -> None:
        """Where nothing but rounding may be in the way, judge candidates, one for each number in index,
        without it."""
        terms = ROUNDING * (dual.abs() * rank_one_size(problem, dual_norm(norm))).sum(-1)
        lost = terms > 1e-3 * tol * matrix_norm(torch.nan_to_num(problem.adjoint(dual)), dual_norm(norm))
        if lost.any():
            index, problem, W, dual = index[lost], problem[lost], W[lost], dual[lost]
            dual, gap = certified_exactly(problem, W, dual, norm)
            self.keep(index, W, dual, gap, self.reach[index])


def _joined(parts: list[_Answers]) -> _Answers:
    return _Answers(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(_Answers)))


def _answers(units: Units, norm: Norm, methods: list[str], tol: float) -> _Answers:
    """What the methods find, one after the other; each tries what those before it left above tol."""
    unit = units.unit
    found = _at_sight(unit)
    for name in methods:
        left = tried = found.open(tol)
        if not len(left):
            break
        rest = part = unit if len(left) == len(found.W) else unit[left]
        W, dual, steps = _piecewise(partial(METHODS[name], norm=norm, tol=tol), _nothing, rest)
        found.iterations[left] += steps.to(left.device)
        found.keep(left, *certify(rest, W, dual, norm))
        first = W, dual
        far = left[(found.gap[left] > tol) & (found.reach[left] >= BEYOND)]
        found.refute(far, units, found.dual[far], norm)
        for _ in range(REPAIRS):
            misses = ~found.infeasible[left] & (found.gap[left] > tol) & (found.reach[left] < HOPELESS)
            misses |= found.misses(left, rest)
            if not misses.any():
                break
            left, rest, W, dual = left[misses], rest[misses], W[misses], dual[misses]
            W, rays = _piecewise(repaired, _as_it_is, rest, W)
            found.keep(left, *certify(rest, W, dual, norm))
            suspect = (rays != 0).any(-1)
            found.refute(left[suspect], units, rays[suspect], norm)
        else:  # what still misses rows may contradict itself by little
            doubtful = found.misses(left, rest)
            left, rest = left[doubtful], rest[doubtful]
            found.refute(left, units, solve_exact(rest, norm, tol)[1], norm)
        rough = torch.isin(tried, found.open(tol))
        tried, part = tried[rough], part[rough]
        found.sharpen(tried, part, *(x[rough] for x in first), norm, tol)
        found.sharpen(tried, part, found.W[tried], found.dual[tried], norm, tol)
    return found


def _at_sight(unit: HardMarginProblem) -> _Answers:
    """A row 0 >= r_j > 0 refutes itself, and W = 0 may satisfy everything: neither needs a method."""
    W, dual = unit.a.new_zeros(len(unit.a), unit.a.shape[-1], unit.b.shape[-1]), torch.zeros_like(unit.r)
    missed = unit.missing(unit.r)  # by W = 0
    empty = (unit.a == 0).all(-1) & (missed > 0)
    first = empty & (empty.cumsum(-1) == 1)
    infeasible = empty.any(-1)
    dual = torch.where(first, unit.r.sign(), dual)
    gap = torch.where(~infeasible & (missed > 0).any(-1), torch.inf, 0.0).to(W)
    reach = torch.where(infeasible, torch.inf, 0.0).to(W)
    return _Answers(W, dual, gap, reach, infeasible, torch.zeros_like(first.sum(-1)))


def _piecewise(
    method: Callable, otherwise: Callable, problem: HardMarginProblem, *more: Tensor
) -> tuple[Tensor, ...]:
    """method(problem, *more), and where that raises, the same for halves of the batch: only a problem that
    fails by itself gets otherwise(problem, *more)."""
    try:
        return method(problem, *more)
    except (RuntimeError, ArithmeticError, ValueError, MemoryError) as error:  # what linear algebra may raise
        B = len(problem.a)
        if B == 1:
            warnings.warn(
                f"a method gave up on one problem, others go on: {error!r}", RuntimeWarning, stacklevel=2
            )
            return otherwise(problem, *more)
        halves = slice(None, B // 2), slice(B // 2, None)
        parts = [_piecewise(method, otherwise, problem[half], *(x[half] for x in more)) for half in halves]
        return tuple(torch.cat(pieces) for pieces in zip(*parts, strict=True))


def _nothing(problem: HardMarginProblem) -> tuple[Tensor, Tensor, Tensor]:
    """W = 0 and no weights, which certify nothing."""
    dual = torch.zeros_like(problem.r)
    return problem.adjoint(dual), dual, torch.zeros(len(dual), dtype=torch.int64, device=dual.device)


def _as_it_is(problem: HardMarginProblem, W: Tensor) -> tuple[Tensor, Tensor]:
    """No repair, and no ray."""
    return W, torch.zeros_like(problem.r)


def _solution(
    problem: HardMarginProblem, units: Units, found: _Answers, norm: Norm, tol: float, start: float
) -> Solution:
    """The answers in the units, shape and dtype of the problem, and what may be said of them."""
    unit, infeasible, dtype = units.unit, found.infeasible, problem.a.dtype
    value = units.value(found.W).to(dtype)
    length = matrix_norm(found.W, norm)
    objective = units.norm(length)
    lower = (found.dual * unit.r).sum(-1)
    terms = (found.dual * unit.r).abs().sum(-1)
    worth = torch.maximum(lower, torch.finfo(torch.float64).eps * terms)  # lower, unless rounding took it
    rays = units.ray(found.dual / worth[:, None], dtype)
    dual = torch.where(infeasible[:, None], rays, units.dual(found.dual, dtype)).to(dtype)
    limits = torch.finfo(dtype)
    fits = (length == 0) | ((objective >= limits.tiny) & (objective <= limits.max))
    missed = violation(unit, found.W)
    # What the dtype of the problem makes of W must still have margins of the right sign.
    rounded = units.from_value(value)
    lost, changed = ~fits, (rounded != found.W).flatten(1).any(-1)
    if changed.any():
        lost = lost | (changed & drowned(unit, rounded, unit.forward(rounded), 4 * limits.eps))

    beyond = found.gap.isinf() & (found.reach >= BEYOND)
    none = infeasible | beyond | ~fits
    gap = torch.where(beyond, torch.inf, found.gap)
    solved = (gap <= tol) & (missed <= tol)
    status = np.where(solved.cpu(), "optimal", "stopped")
    status = np.where((solved & lost).cpu(), "unrepresentable", status)
    status = np.where(beyond.cpu(), "unreachable", status)
    status = np.where(infeasible.cpu(), "infeasible", status)
    objective = torch.where(none, torch.inf, objective)
    rounding = (8 + math.log2(1 + unit.r.shape[-1])) * torch.finfo(torch.float64).eps * terms  # in the sum
    bound = torch.where(infeasible, torch.inf, units.norm((lower - rounding).clamp_min(0.0)))
    numbers = {
        "objective": objective,
        "margin": 1 / objective,
        "gap": torch.where(infeasible, 1 / found.reach, gap),
        "bound": bound.clamp_max(limits.max).where(~infeasible, torch.inf),
        "violation": torch.where(none, torch.nan, missed),
    }
    shape = problem.batch_shape
    return Solution(
        value=torch.where(none[:, None, None], torch.nan, value).reshape(problem.unknown_shape),
        dual=dual.reshape(problem.r.shape),
        **{name: number.to(dtype).reshape(shape) for name, number in numbers.items()},
        status=status.reshape(shape),
        iterations=found.iterations.reshape(shape),
        seconds=time.perf_counter() - start,
        norm=norm,
    )


def _methods(method: str, norm: Norm, problem: HardMarginProblem) -> list[str]:
    """The methods to try in turn."""
    rows, entries = problem.r.shape[-1], math.prod(problem.unknown_shape[len(problem.batch_shape) :])
    if method == "auto":
        if norm in ("nuc", "spectral"):
            return ["batched", "cvxpy"]
        if norm != "fro":
            return ["batched", "cvxpy", "exact"]
        if rows > LARGE:
            exact = ["exact"] if fits(rows, entries) else []
            dense = ["nnls", "batched"] if rows <= DENSE else []
            return ["large", *exact, *dense, *(["cvxpy"] if rows * entries <= PATIENT else [])]
        return ["batched", "exact", "nnls", "large", "cvxpy"]
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f'method must be "auto" or one of {sorted(METHODS)}, got {method!r}')
    if method in EUCLIDEAN and norm != "fro":
        raise ValueError(f'method "{method}" solves norm "fro" (or 2) only, got {norm!r}; use method "auto"')
    if method == "exact" and norm in ("nuc", "spectral"):
        raise ValueError(f'method "exact" solves norm "fro" and exponents p, got {norm!r}; use method "auto"')
    return [method]


def _tolerance(tol: float | None, norm: Norm) -> float:
    """The tolerance, checked, or the default of the norm."""
    if tol is None:
        return 1e-9 if norm == "fro" else 1e-6
    if not isinstance(tol, Real) or not 0 < tol < 1:
        raise ValueError(f"tol is a relative gap, a number above 0 and below 1 such as 1e-9; got {tol!r}")
    return float(tol)
