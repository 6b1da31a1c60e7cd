"""Every norm through cvxpy and Clarabel, one problem at a time: slow, and readable."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from mini_attn.svm.nnls import least_distance
from mini_attn.svm.norms import Norm, nearest_limit
from mini_attn.svm.problem import HardMarginProblem

TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11, "tol_ktratio": 1e-8, "max_iter": 200}


def solve_cvxpy(problem: HardMarginProblem, norm: Norm, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min N(W) s.t. <A_j, W> >= r_j (= where equality), as it is written. Choose it to check another method.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: as `parse_norm` returns it.
        tol: unused: the interior-point method goes as far as it can.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Diamond & Boyd, "CVXPY" (2016); Goulart & Chen, "Clarabel" (2024).
    """
    arrays = [t.cpu().numpy() for t in (problem.a, problem.b, problem.r, problem.is_equality)]
    answers = [_solve_one(*(array[k] for array in arrays), norm) for k in range(len(problem.a))]
    W, dual = (torch.from_numpy(np.stack([answer[i] for answer in answers])).to(problem.a) for i in (0, 1))
    return W, dual, torch.tensor([answer[2] for answer in answers])


def _solve_one(a, b, r, equality, norm):
    import cvxpy as cp  # here: it is rarely needed, and takes half a second to load

    d1, d2 = a.shape[1], b.shape[1]
    A = (a[:, :, None] * b[:, None, :]).reshape(len(a), d1 * d2)
    W = cp.Variable((d1, d2))
    reach = A @ cp.vec(W, order="C")
    at_least = reach[~equality] >= r[~equality] if (~equality).any() else None
    equal = reach[equality] == r[equality] if equality.any() else None
    constraints = [c for c in (at_least, equal) if c is not None]
    program = cp.Problem(cp.Minimize(_norm(W, norm)), constraints)
    try:
        with warnings.catch_warnings():  # "may be inaccurate": the certificate says how inaccurate
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", RuntimeWarning)  # powers of a long W overflow
            program.solve(solver=cp.CLARABEL, **TIGHT)
        status = program.status
    except cp.SolverError:
        status = "failed"
    except BaseException as error:  # a panic of Clarabel, which is written in Rust, is no Exception
        if type(error).__name__ != "PanicException":
            raise
        status = "failed"
    steps = program.solver_stats.num_iters if program.solver_stats else 0
    dual = np.zeros(len(r))
    if status in ("optimal", "optimal_inaccurate"):
        if at_least is not None:
            dual[~equality] = at_least.dual_value
        if equal is not None:
            dual[equality] = -equal.dual_value  # cvxpy adds nu (reach - r) to the objective
        return W.value, dual, steps
    # Feasibility does not depend on the norm, so the Euclidean problem gives the ray.
    return np.full((d1, d2), np.nan), least_distance(A, r, equality), steps


def _norm(W, norm):
    import cvxpy as cp

    if norm == "fro":
        return cp.norm(W, "fro")
    if norm == "nuc":
        return cp.normNuc(W)
    if norm == "spectral":
        return cp.sigma_max(W)
    entries, limit = cp.vec(W, order="C"), nearest_limit(norm)
    if limit is None:
        return cp.pnorm(entries, norm)
    return cp.norm1(entries) if limit == 1 else cp.norm_inf(entries)
