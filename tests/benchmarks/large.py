"""One problem with very many rows: how time and memory grow, and a plain first-order method beside it."""

import torch
from baselines import accelerated_dual
from measure import pairs, peak_memory, seconds

from mini_attn import svm

SIZE = {"n": 250, "T": 16, "d": 16}


def _planted(n, T, d, seed=0):
    """Tokens on the sphere; the first of each sequence is moved towards 2 Q z_i, so that a W separates it."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, T, d, generator=generator, dtype=torch.float64)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    X, z = X / X.norm(dim=-1, keepdim=True), z / z.norm(dim=-1, keepdim=True)
    Q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    X[:, 0] += 2 * z @ Q.T
    return X, z


def _solved(X, z, tol):
    """One row of the table."""
    selected = torch.zeros(len(X), dtype=torch.int64)
    problem = svm.attention_problem(X, z, selected)
    took, solution = seconds(lambda: svm.solve(problem, norm="fro", tol=tol))
    row = dict(zip("nTd", X.shape, strict=True))
    row |= {"rows": problem.r.shape[-1], "seconds": took, "gap": float(solution.gap)}
    row |= {"support": int((solution.dual > 0).sum())}
    row["problem_MiB"] = sum(part.nbytes for part in (problem.a, problem.b, problem.r)) / 2**20
    row["beyond_MiB"] = peak_memory(lambda: svm.solve(problem, norm="fro", tol=tol))
    return row, problem


def large(quick):
    rows = []
    for name in ("n", "T", "d"):
        for k in range(0 if name == "n" else 1, 2 if quick else 5):
            row, _ = _solved(*_planted(**dict(SIZE, **{name: SIZE[name] * 2**k})), 1e-9)
            rows.append(row)
    X, z = _planted(60, 16, 16) if quick else _planted(1000, 64, 64)
    row, problem = _solved(X, z, 1e-8)
    found = {}

    def ours():
        svm.solve(problem, norm="fro", tol=1e-8)
        return 1

    def theirs():
        found["gap"] = accelerated_dual(X, z, 1e-8)[1]
        return 1

    measured = pairs(ours, theirs, 1 if quick else 3)
    row |= {"seconds": measured["seconds_per_unit"], "times_faster": measured["times_faster"]}
    row |= {"first_order_s": measured["baseline_seconds_per_unit"], "first_order_gap": found["gap"]}
    rows.append(row)
    if not quick:
        rows.append(_solved(*_planted(10_000, 128, 64), 1e-4)[0])
    return "One large Frobenius problem; beside it accelerated projected gradient on the factored dual", rows
