"""Small l_p problems without rounding, one at a time: quadratic programs in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from mini_attn.svm.entrywise import strides
from mini_attn.svm.exact import MOST
from mini_attn.svm.norms import dual_norm, nearest_limit
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rational import integer_rows, shortest

SMALL = 2**8  # entries m d1 d2 of a problem that is solved
STEPS, ALL_STEPS = 25, 100  # quadratic programs for one exponent, and for all
ENOUGH = 0.3  # share of tol that ends the work
FAR = 1e7  # stands for inf: N_p and N_inf differ by log(d1 d2) / p
FLATTEST, STEEPEST = 1e-12, 1e8  # slopes dW / dy that a program may have
CUTS = 12  # of the interval in which the best share of a step is looked for, each to an eighth


def solve_sequential(problem: HardMarginProblem, norm: float, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min (1/p) sum_k |W_k|^p s.t. <A_j, W> >= r_j (= where equality), by Newton's method on

        y = sum_j lambda_j A_j = sign(W) |W|^(p-1),   linearised as   W = c + slope y

    Each step is the Euclidean problem min sum_k (W_k - c_k)^2 / slope_k with the rows as they are, which
    `shortest` solves exactly: rows at an angle of 1e-9 from opposite cost no digit, where the Newton matrices
    of `solve_entrywise` lose 18. p moves outwards from 2 as there, for 1 and inf until it makes no
    difference. Choose it for small problems that nothing else decides; it takes a hundredth of a second, and
    gives up beyond 256 entries, 20 rows that hold exactly or 100 programs.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: p >= 1, not 2.
        tol: relative gap that ends the work on a problem.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certified_exactly`; 0 where it gave up.

    Source: Nocedal & Wright, "Numerical optimization" (2006), chapter 18.
    """
    dual = torch.zeros_like(problem.r)
    W, steps = problem.adjoint(dual), torch.zeros(len(dual), dtype=torch.int64, device=dual.device)
    limit = nearest_limit(norm)
    p = norm if limit is None else FAR if limit > 1 else FAR / (FAR - 1)
    for k in range(len(dual)):
        if problem.a[k].numel() * W.shape[-1] <= SMALL:
            with np.errstate(all="ignore"):
                w, weights, steps[k] = _solve_one(_Program(problem[k]), p, norm, tol)
            W[k], dual[k] = W.new_tensor(w).reshape(W[k].shape), dual.new_tensor(weights)
    return W, dual, steps


class _Program:
    """The rows of one problem as fractions, and Euclidean problems with these rows."""

    def __init__(self, problem: HardMarginProblem):
        a, b = problem.a.tolist(), problem.b.tolist()
        self.rows = [
            [Fraction(x) * Fraction(y) for x in left for y in right] for left, right in zip(a, b, strict=True)
        ]
        self.r = [Fraction(x) for x in problem.r.tolist()]
        self.equality = problem.is_equality.tolist()
        self.support: list[int] = []

    def solve(self, size: float, centre: np.ndarray, root: np.ndarray):
        """min sum_k ((w_k - centre_k) / root_k)^2 with right-hand sides r / size.

        Returns:
            w, y = (w - centre) / root^2, the weights lambda, and sum_j lambda_j r_j / size; None where it
            gave up.
        """
        c, roots = ([Fraction(x) for x in some.tolist()] for some in (centre, root))
        r = [bound / Fraction(size) for bound in self.r]
        left = [
            bound - sum(x * y for x, y in zip(row, c, strict=True))
            for bound, row in zip(r, self.rows, strict=True)
        ]
        rows = [[x * y for x, y in zip(row, roots, strict=True)] for row in self.rows]
        rows, left, factors = integer_rows(rows, None, left)
        z, weights = shortest(rows, left, self.equality, self.support, most=MOST)
        if z is None:
            return None
        weights = [x * factor for x, factor in zip(weights, factors, strict=True)]
        self.support = [j for j, x in enumerate(weights) if x]
        w = [x * y + shift for x, y, shift in zip(z, roots, c, strict=True)]
        y = [x / y for x, y in zip(z, roots, strict=True)]
        worth = sum(x * bound for x, bound in zip(weights, r, strict=True))
        return *(np.array([float(x) for x in some]) for some in (w, y, weights)), float(worth)


def _solve_one(program: _Program, p: float, norm: float, tol: float):
    """W, weights and the number of programs, with p in place of norm; zeros where it gave up."""
    w, weights = np.zeros(len(program.rows[0])), np.zeros(len(program.r))
    upper, lower, count, size = np.inf, 0.0, 1, 1.0
    try:
        answer = program.solve(size, w, w + 1)
        for now in strides(p):
            for _ in range(STEPS):
                if answer is None or upper - lower < ENOUGH * tol * upper or count == ALL_STEPS:
                    return w, weights, count
                answer, size = _scaled(answer, size, now)
                found = program.solve(size, *_linearised(answer, now))
                count += 1
                if found is None:
                    return w, weights, count
                answer = _between(answer, found, now)
                for one in (found, answer):
                    if (length := size * _norm(one[0], norm)) < upper:
                        w, upper = one[0] * size, length
                    if (bound := size * one[3] / _norm(one[1], dual_norm(norm))) > lower:
                        weights, lower = one[2], bound
                if now != p and _gap(found, now) < 1e-2:
                    answer = found
                    break
    except (ArithmeticError, ValueError):  # beyond floats
        pass
    return w, weights, count


def _norm(x: np.ndarray, p: float):
    """||x||_p over the last dimension."""
    largest = np.abs(x).max(-1, keepdims=True)
    if np.isinf(p):
        return largest[..., 0]
    return largest[..., 0] * ((np.abs(x) / largest) ** p).sum(-1) ** (1 / p)


def _gap(answer, p: float) -> float:
    w, y, _, worth = answer
    return 1 - worth / (_norm(w, p) * _norm(y, p / (p - 1)))


def _scaled(answer, size: float, p: float):
    """The answer with ||w||_p = 1, and the multiple of y and the weights with the largest
    worth - (1/q) ||y||_q^q."""
    w, y, weights, worth = answer
    length, q = _norm(w, p), p / (p - 1)
    worth /= length
    scale = np.exp((np.log(worth) - q * np.log(_norm(y, q))) / (q - 1))
    return (w / length, y * scale, weights * scale, worth * scale), size * length


def _linearised(answer, p: float):
    """c and the root of the slope of W = c + slope y, at W where p > 2 and at y where p < 2: there slopes
    stay finite."""
    w, y, _, _ = answer
    if p < 2:
        q = p / (p - 1)
        root = _short((q - 1) * np.abs(y) ** (q - 2))
        return np.sign(y) * np.abs(y) ** (q - 1) - root**2 * y, root
    root = _short(1 / ((p - 1) * np.abs(w) ** (p - 2)))
    return w - root**2 * np.sign(w) * np.abs(w) ** (p - 1), root


def _short(slope: np.ndarray) -> np.ndarray:
    """Its root with 12 bits, which keep the integers short."""
    mantissa, exponent = np.frexp(np.sqrt(slope.clip(FLATTEST, STEEPEST)))
    return np.ldexp(np.round(mantissa * 2**12), exponent - 12)


def _between(answer, found, p: float):
    """The best point on the way from one answer to the next: of W where p > 2, of the weights where p < 2."""
    at = 1 if p < 2 else 0
    one, move = answer[at], found[at] - answer[at]

    def value(share):
        if p > 2:
            return _norm(one + share[:, None] * move, p)
        worth = answer[3] + share * (found[3] - answer[3])
        return _norm(one + share[:, None] * move, p / (p - 1)) / worth.clip(1e-300)  # of any length

    low, high = 0.0, 1.0
    for _ in range(CUTS):
        shares = np.linspace(low, high, 17)
        best = int(np.argmin(value(shares)))
        low, high = shares[max(best - 1, 0)], shares[min(best + 1, 16)]
    share = shares[best]
    return tuple(one + share * (other - one) for one, other in zip(answer, found, strict=True))
