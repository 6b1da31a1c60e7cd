"""Solvers: many small problems of one batch, against a modelling layer and a loop."""

import numpy as np
import torch
from baselines import solve_with_cvxpy, solve_with_nnls
from measure import pairs

from mini_attn import data, svm
from mini_attn.svm.problem import HardMarginProblem

SIZE = {"n": 6, "T": 8, "d": 10}


def _problems(count, seed=0):
    tokens = data.random_tokens(**SIZE, trials=count, seed=seed)
    return tokens, svm.attention_problem(tokens.X, tokens.z, tokens.optimal)


def _numpy(tokens, count):
    arrays = (tokens.X, tokens.z, tokens.optimal)
    return [tuple(part[k].numpy() for part in arrays) for k in range(count)]


def _excess(problem: HardMarginProblem, values, norm, objective):
    """Largest relative excess of the baseline's N(W), once W is scaled to be feasible, over ours."""
    W = torch.as_tensor(np.stack(values))
    part = problem[: len(W)]
    W = W / part.forward(W).amin(-1)[:, None, None]
    if norm == "nuc":
        size = torch.linalg.svdvals(W).sum(-1)
    else:
        size = torch.linalg.vector_norm(W.flatten(1), 2 if norm == "fro" else norm, dim=1)
    return float((size / objective[: len(W)] - 1).max())


def _compare(count, part, repeats, norm, name, baseline):
    """One row of a table: a batch of ``count`` against ``baseline`` on the first ``part``."""
    tokens, problem = _problems(count)
    small = _numpy(tokens, part)
    found = {}

    def ours():
        found["ours"] = svm.solve(problem, norm=norm)
        return count

    def theirs():
        found["theirs"] = [baseline(*one) for one in small]
        return part

    row = pairs(ours, theirs, repeats)
    solution = found["ours"]
    return {
        "norm": str(norm),
        "baseline": name,
        "ours_ms": 1e3 * row["seconds_per_unit"],
        "baseline_ms": 1e3 * row["baseline_seconds_per_unit"],
        "times_faster": row["times_faster"],
        "our_largest_gap": float(solution.gap.max()),
        "baseline_largest_gap": _excess(problem, found["theirs"], norm, solution.objective),
        "problems": count,
        "baseline_problems": part,
        "repeats": repeats,
    }


def _with(norm, solver, **options):
    return lambda X, z, selected: solve_with_cvxpy(X, z, selected, norm, solver, **options)


def frobenius(quick):
    count, part, repeats = (20, 2, 1) if quick else (1000, 20, 11)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    rows = [
        _compare(count, part, repeats, "fro", "cvxpy + Clarabel at 1e-10", _with("fro", "CLARABEL", **tight)),
        _compare(count, 5 * part, repeats, "fro", "loop over scipy.optimize.nnls", solve_with_nnls),
    ]
    return f"Frobenius problems, n=6, T=8, d=10 (42 rows); times per problem of {count} at once", rows


def nuclear(quick):
    count, part, repeats = (10, 1, 1) if quick else (200, 5, 21)
    rows = [
        _compare(count, part, repeats, "nuc", "cvxpy + SCS, default", _with("nuc", "SCS")),
        _compare(count, part, repeats, "nuc", "cvxpy + Clarabel, default", _with("nuc", "CLARABEL")),
    ]
    return f"Nuclear problems, n=6, T=8, d=10; times per problem of {count} at once", rows


def entrywise(quick):
    count, part, repeats = (10, 1, 1) if quick else (200, 5, 21)
    name = "cvxpy + Clarabel, default"
    rows = [_compare(count, part, repeats, p, name, _with(p, "CLARABEL")) for p in (1.5, 3.0)]
    return f"Entrywise l_p problems, n=6, T=8, d=10; times per problem of {count} at once", rows
