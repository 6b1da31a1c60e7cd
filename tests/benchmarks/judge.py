"""An independent judge of solutions: long doubles for bounds, rational numbers for what they leave open."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np

from mini_attn.svm import HardMarginProblem, exact_ray, rational, solve

LONG = np.longdouble
ROUNDING = 1e-13  # what float64 may add to a gap on the way
EDGE = 1e6  # "unreachable" must prove that W is this many times longer than one row alone asks for


def default_tol(norm, vector):
    return 1e-9 if norm in ("fro", 2) or (vector and norm in ("nuc", "spectral")) else 1e-6


def judge(problem, solution, norm, strict=False):
    """What is wrong with each answer, in one line each: "" for nothing, "open: ..." where nobody knows.

    Args:
        problem: HardMarginProblem with one leading dimension.
        strict: "optimal" is wrong where no W exists, however little is missing.
    """
    facts = _Facts(problem, solution, norm)
    return [_verdict(facts, k, strict) for k in range(len(problem.r))]


class _Facts:
    """The numbers of a batch in long doubles."""

    def __init__(self, problem, solution, norm):
        vector = problem.b is None
        self.norm = "fro" if norm == 2 or (vector and norm in ("nuc", "spectral")) else norm
        self.tol = default_tol(norm, vector)
        self.problem, self.weights = problem, solution.dual
        self.floats = (problem.a, problem.b, problem.r)
        self.norm_said = solution.norm
        self.equality = problem.is_equality.numpy()
        self.status = np.asarray(solution.status)
        self.unit = unit = float(np.finfo(problem.r.numpy().dtype).eps)
        self.narrow = 8 * unit if unit > 1e-10 else 0  # what rounding the answer to float32 may cost

        a, r = problem.a.numpy().astype(LONG), problem.r.numpy().astype(LONG)
        b = np.ones((*r.shape, 1), LONG) if vector else problem.b.numpy().astype(LONG)
        self.value, dual = solution.value.numpy(), solution.dual.numpy().astype(LONG)
        W = self.value.astype(LONG)[..., None] if vector else self.value.astype(LONG)
        star = dual_norm(self.norm)
        self.r, self.dual = r, dual
        self.reach = np.einsum("kmi,kij,kmj->km", a, W, b)
        self.terms = np.einsum("kmi,kij,kmj->km", np.abs(a), np.abs(W), np.abs(b))
        self.plain_reach = problem.forward(solution.value).numpy()
        self.size = size(W, self.norm)
        self.row_size = size(a[..., None], "fro") * size(b[..., None], "fro")
        row_star = size(a[..., None], _vector(star)) * size(b[..., None], _vector(star))
        length = size(W, "fro")[:, None]
        self.miss = np.where(self.equality, np.abs(r - self.reach), np.maximum(r - self.reach, 0))
        allowed = self.row_size * length + np.abs(r)
        self.violation = _worst(np.where(self.miss > 0, self.miss / np.where(allowed > 0, allowed, 1), 0))
        self.asked = _worst(np.where(row_star > 0, np.abs(r) / np.where(row_star > 0, row_star, 1), 0))

        self.total = size(np.einsum("kmi,km,kmj->kij", a, dual, b), star) * (1 + LONG(1e-14))
        self.worth = (dual * r).sum(-1)
        # and the sum of the lambda_j r_j by so much
        self.doubt = 4 * self.unit * np.abs(dual * r).sum(-1)
        self.lower = np.where(self.worth > 0, self.worth / np.where(self.total > 0, self.total, 1), 0)
        # one rounding of every weight moves sum_j lambda_j A_j by so much, relative to its size
        weighed = np.abs(dual) * row_star
        self.noise = 4 * self.unit * weighed.sum(-1) / np.where(self.total > 0, self.total, 1)
        above = (r > 0) & ~self.equality
        with np.errstate(all="ignore"):
            stretch = np.where(above, r / self.reach, 1)
            self.stretch = np.maximum(_worst(np.where(above, stretch, 1)), 1)
            rest = np.where(above, 0, self.miss * np.abs(dual)).sum(-1)
            self.slippage = np.where(self.size > 0, rest / self.size, 0)
        names = ("objective", "margin", "gap", "violation")
        self.claims = {name: getattr(solution, name).numpy().astype(LONG) for name in names}

    def exact_rows(self, k):
        a, b, r = self.floats
        return rational.integer_rows(a[k].tolist(), None if b is None else b[k].tolist(), r[k].tolist())[:2]

    def shortest(self, k):
        """The exact Euclidean answer of problem k, None where no W exists."""
        support = np.nonzero(np.nan_to_num(self.dual[k]))[0].tolist()
        return shortest(*self.exact_rows(k), self.equality[k].tolist(), support)

    def refuted(self, k):
        """Whether the library has an exact ray of problem k, and it is one."""
        try:
            ray = exact_ray(self.problem[k], self.weights[k])
        except ValueError:
            return False
        a, b, r = self.floats
        left = sum(x * Fraction(bound) for x, bound in zip(ray, r[k].tolist(), strict=True))
        total = {}
        for j in np.nonzero(ray)[0].tolist():
            other = [1.0] if b is None else b[k, j].tolist()
            for i, x in enumerate(a[k, j].tolist()):
                for h, y in enumerate(other):
                    total[i, h] = total.get((i, h), 0) + ray[j] * Fraction(x) * Fraction(y)
        signs = all(x >= 0 or fixed for x, fixed in zip(ray, self.equality[k], strict=True))
        return signs and left == 1 and not any(total.values())

    def repaired(self, k):
        """N(V) for the V nearest to W (in the Euclidean norm) that meets every row exactly."""
        rows, r = self.exact_rows(k)
        W = [Fraction(x) for x in self.value[k].ravel().tolist()]
        common = math.lcm(*(x.denominator for x in W))
        whole = [int(x * common) for x in W]
        left = [
            common * bound - sum(map(operator.mul, row, whole)) for row, bound in zip(rows, r, strict=True)
        ]
        step = shortest([[common * x for x in row] for row in rows], left, self.equality[k].tolist())
        moved = [_long(x + y) for x, y in zip(W, step, strict=True)]
        shape = self.value[k].shape if self.value[k].ndim == 2 else (-1, 1)
        return size(np.array(moved).reshape(shape), self.norm)


def _verdict(facts, k, strict):
    status = str(facts.status[k])
    if facts.norm_said != facts.norm:
        return f"norm said to be {facts.norm_said}"
    if status == "optimal":
        return _optimal(facts, k, strict)
    if status == "infeasible":
        return _infeasible(facts, k)
    if status == "unreachable":
        return _unreachable(facts, k)
    if status == "unrepresentable":
        return _unrepresentable(facts, k)
    if status == "stopped":
        gap = facts.claims["gap"][k]
        violation = facts.claims["violation"][k]
        fine = gap <= facts.tol and violation <= facts.tol
        return f"stopped though the gap is {gap:.1e} and the violation {violation:.1e}" if fine else ""
    return f"unknown status {status}"


def _optimal(facts, k, strict):
    claims = {name: claim[k] for name, claim in facts.claims.items()}
    N, unit, r, reach = facts.size[k], facts.unit, facts.r[k], facts.reach[k]
    tol = facts.tol + facts.narrow
    if not np.isfinite(facts.value[k]).all():
        return "optimal with a W that is not finite"
    wrong_side = (r > 0) & ~((reach > 0) & (facts.plain_reach[k] > 0))
    if wrong_side.any():
        j = int(np.argmax(wrong_side))
        return f"optimal with a row of wrong sign: r = {r[j]:.1e}, <A, W> = {reach[j]:.1e}"
    if not facts.violation[k] <= tol:
        return f"optimal with a row missed: violation {facts.violation[k]:.1e}"
    if not claims["gap"] <= facts.tol:
        return f"optimal with a gap of {claims['gap']:.1e}"
    if (
        "violation" in claims
        and not abs(claims["violation"] - facts.violation[k]) <= 0.1 * facts.tol + 8 * unit
    ):
        return f"violation said to be {claims['violation']:.1e}, is {facts.violation[k]:.1e}"
    if not abs(claims["objective"] - N) <= (1e-12 + 8 * unit) * N:
        return f"objective said to be {claims['objective']:.6e}, is {N:.6e}"
    if 1e-300 < N < 1e300 and not abs(claims["margin"] * N - 1) <= 1e-12 + 8 * unit:
        return f"margin said to be {claims['margin']:.6e}, is {1 / N:.6e}"
    if (facts.dual[k] < 0)[~facts.equality[k]].any():
        return "optimal with a negative weight on an inequality"
    if not facts.total[k] <= 1 + 1e-9 + 8 * unit + facts.noise[k]:
        return f"optimal with weights beyond the dual ball: {facts.total[k]:.9f}"
    room = claims["gap"] + ROUNDING + facts.narrow
    if N == 0:
        return "" if not facts.miss[k].any() else _by_exact(facts, k, room, strict)
    proved = abs(N - facts.lower[k]) <= room * N
    reached = N * (facts.stretch[k] - 1) <= facts.tol * N and facts.slippage[k] <= facts.tol / 10
    if proved and reached:
        return "optimal though no W exists" if strict and facts.shortest(k) is None else ""
    return _by_exact(facts, k, room, strict)


def _by_exact(facts, k, room, strict):
    """Compare an "optimal" answer with the truth in rational numbers."""
    N, lower = facts.size[k], facts.lower[k]
    w = facts.shortest(k)
    if w is None:
        near = abs(N - lower) <= max(room, facts.tol) * N  # contradictory by less than tol
        return "optimal though no W exists" if strict or not near else ""
    if facts.norm == "fro":
        true = _root(sum(x * x for x in w))
        off = abs(N - true) / (N if N else LONG(1))
        # half the gap may be W's violation, which the exact answer does not have
        return (
            ""
            if off <= max(room, facts.tol)
            else f"optimal, and off by {off:.1e} (gap {facts.claims['gap'][k]:.1e})"
        )
    if lower - N > (room + facts.noise[k]) * N:
        return f"optimal below the proved bound by {(lower - N) / N:.1e}"
    longer = facts.repaired(k) / N - 1
    if longer > facts.tol:
        return f"open: meeting every row exactly takes {longer:.1e} more"
    if N - lower <= (room + facts.noise[k]) * N:
        return ""
    if facts.noise[k] > facts.tol:
        return f"open: the weights leave {(N - lower) / N:.1e}"
    return f"optimal, and the weights leave {(N - lower) / N:.1e} (gap {facts.claims['gap'][k]:.1e})"


def _infeasible(facts, k):
    if not facts.refuted(k):
        return "infeasible without a proof" if facts.shortest(k) is None else "infeasible though a W exists"
    weights, worth = facts.dual[k], facts.worth[k] + facts.doubt[k]
    if not np.isfinite(weights).all() or (weights < 0)[~facts.equality[k]].any() or not worth > 0:
        return "infeasible with weights that are no ray"
    leaves = facts.asked[k] * facts.total[k] / worth
    if not leaves <= 1e-3 + facts.noise[k] * leaves:
        return f"infeasible with weights that leave {leaves:.1e}"
    if facts.claims["objective"][k] != np.inf or facts.claims["margin"][k] != 0:
        return "infeasible with a finite objective"
    return ""


def _unreachable(facts, k):
    if (facts.dual[k] < 0)[~facts.equality[k]].any() or not facts.lower[k] >= 0:
        return "unreachable with weights that prove nothing"
    if not facts.total[k] <= 1 + 1e-9 + 8 * facts.unit + facts.noise[k]:
        return f"unreachable with weights beyond the dual ball: {facts.total[k]:.9f}"
    if not facts.lower[k] >= EDGE * facts.asked[k]:
        return f"unreachable though W need be only {facts.lower[k] / facts.asked[k]:.1e} of what one row asks"
    return ""


def _unrepresentable(facts, k):
    """The gap must be as small as for "optimal", and what the dtype makes of W must be of no use."""
    gap, N, lower = facts.claims["gap"][k], facts.claims["objective"][k], facts.lower[k]
    if not gap <= facts.tol:
        return f"unrepresentable with a gap of {gap:.1e}"
    limits = np.finfo(facts.problem.r.numpy().dtype)
    if np.isinf(N):
        return (
            ""
            if not limits.tiny < lower < limits.max / 2
            else f"unrepresentable though W is {lower:.1e} long"
        )
    low = (facts.r[k] > 0) & (facts.reach[k] <= 16 * facts.unit * facts.terms[k])
    if not low.any():
        return "unrepresentable though the dtype has room for every margin"
    one = facts.problem[k : k + 1]  # rounding took the weights of a float32 problem too
    parts = [None if x is None else x.double() for x in (one.a, one.b, one.r)]
    double = HardMarginProblem(*parts, one.equality)
    solution = solve(double, facts.norm, throw=False)
    verdict = judge(double, solution, facts.norm)[0]
    if solution.status[0] != "optimal" or verdict:
        return f"unrepresentable, and in float64 it is {solution.status[0]} {verdict}"
    off = abs(N / LONG(solution.objective[0].item()) - 1)
    return f"unrepresentable, and off by {off:.1e}" if off > 2 * facts.tol + facts.narrow else ""


def shortest(rows, r, equality, first=()):
    """The exact Euclidean answer, or None where no w exists: believed only after its own proof is checked."""
    w, weights = rational.shortest(rows, r, equality, first)
    assert all(x >= 0 or fixed for x, fixed in zip(weights, equality, strict=True))
    total = [sum(map(operator.mul, weights, column)) for column in zip(*rows, strict=True)]
    worth = sum(map(operator.mul, weights, r))
    if w is None:
        assert not any(total)
        assert worth > 0
        return None
    slack = [sum(map(operator.mul, row, w)) - bound for row, bound in zip(rows, r, strict=True)]
    assert all(x == 0 if fixed else x >= 0 for x, fixed in zip(slack, equality, strict=True))
    assert total == w  # then ||w||^2 = worth, and no feasible w is shorter
    assert sum(x * x for x in w) == worth
    return w


def dual_norm(norm):
    named = {"fro": "fro", "nuc": "spectral", "spectral": "nuc", 1: math.inf, math.inf: 1}
    return named[norm] if norm in named else LONG(norm) / (LONG(norm) - 1)


def size(W, norm):
    """N(W) over the last two dimensions; in long doubles but for singular values, whose error is 1e-15."""
    if 0 in W.shape[-2:] or not W.size:
        return np.zeros(W.shape[:-2], LONG)
    with np.errstate(all="ignore"):
        largest = np.abs(W).max((-2, -1))
        scale = np.where((largest > 0) & np.isfinite(largest), largest, 1)
        W = (
            np.abs(W / scale[..., None, None])
            if norm not in ("nuc", "spectral")
            else W / scale[..., None, None]
        )
        if norm in ("nuc", "spectral"):
            singular = np.linalg.svd(np.nan_to_num(W.astype(float)), compute_uv=False)
            return scale * (singular.sum(-1) if norm == "nuc" else singular[..., 0])
        if norm == math.inf:
            return largest
        p = 2 if norm == "fro" else LONG(norm)
        return scale * (W**p).sum((-2, -1)) ** (1 / LONG(p))


def _vector(norm):
    """The norm of a and of b whose product is the norm of a b'."""
    return "fro" if norm in ("nuc", "spectral") else norm


def _worst(rows):
    return rows.max(-1, initial=0)


def _long(x: Fraction):
    return _root(x * x) * (1 if x > 0 else -1)


def _root(x: Fraction):
    """The square root of a rational number as a long double."""
    if not x:
        return LONG(0)
    shift = (x.numerator.bit_length() - x.denominator.bit_length() - 122) // 2
    scaled = x / Fraction(4) ** shift
    return np.ldexp(LONG(math.isqrt(scaled.numerator // scaled.denominator)), shift)
