"""One large Euclidean problem at a time: multipliers and Newton steps find the support, a Cholesky factor
the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.rows import SLICE, normal_matrix
from mini_attn.svm.solution import BEYOND, ROUNDING

ROUNDS = 40  # of the multipliers
NEWTON = 120  # steps a round, at most
CONJUGATE = 300  # gradients a Newton step, at most
GROWTH = 6.0  # of the penalty from round to round
SLOWLY = 1.5  # likewise, for factorised steps once every row is met: rounding grows with sigma too
SETTLED = 0.2  # share of S that may still have changed when exact steps are tried
PATIENCE = 4  # rounds without half the gap of the best one
RIDGES, CORRECTIONS = (1e-13, 1e-11, 1e-9), 4
PIVOTS = 12  # exact steps on thousands of rows; more on fewer
DIRECT = 1024  # entries of W up to which a Newton step may factorise
WIDEST = 6000  # rows whose Gram matrix is made: 290 MB
CUTS = 20  # of the length of a Newton step


def solve_large(problem: HardMarginProblem, norm: str, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_F s.t. <A_j, W> >= r_j (= where equality), by the method of multipliers.

        W <- argmin_W 1/2 ||W||^2 + 1/(2 sigma) || (lambda + sigma (r - A W))_+ ||^2,   sigma <- 6 sigma
        lambda <- (lambda + sigma (r - A W))_+

    with A W the vector of all <A_j, W>, and ( )_+ the positive part on inequalities only. The inner problem
    is solved by Newton steps. Their matrix is I + sigma sum_{j in S} A_j A_j', where S holds the rows
    that still push, soon little more than the support; conjugate gradients only multiply with it. Where
    they are slow it is factorised, over the entries of W or, by Woodbury's identity, over the rows of S.
    Once S settles, G_SS lambda_S = r_S is solved exactly, a few rows leave and enter S, and the answer is
    exact to rounding (`_pivot`). Where the data contradict themselves, lambda grows along a ray. Memory
    beyond the rows is |S|^2. Rows that share b_j in equal runs (attention problems) are passed over as
    one batched product with W b_j.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: "fro".
        tol: relative gap that ends the work on a problem.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,), Newton steps and pivots: candidates for `certify`.

    Source: Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm in convex
        programming" (1976); Li, Sun & Toh, "A highly efficient semismooth Newton augmented Lagrangian method
        for solving Lasso problems" (2018).
    """
    answers = [_solve_one(problem[k], tol) for k in range(len(problem.a))]
    return tuple(torch.stack(parts) for parts in zip(*answers, strict=True))


@dataclass
class _State:
    """Where a solve stands: W, its left-hand sides, the multipliers and the steps that it took."""

    W: Tensor
    reach: Tensor
    dual: Tensor
    steps: int = 0
    direct: bool = False  # conjugate gradients have once been too slow


def _solve_one(problem: HardMarginProblem, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    passes = _passes(problem)
    zero = torch.zeros_like(problem.r)
    state, sigma, before = _State(passes.adjoint(zero), zero, zero), 1.0, None
    best, best_gap, gap, waited, farthest = (state.W, zero), torch.inf, 1.0, 0, 1.0
    for _ in range(ROUNDS):
        old = state.dual
        _newton(problem, passes, state, sigma, 0.1 * max(min(gap, 0.1, 1 / farthest), 1e-12))
        state.dual = _push(problem, state, sigma)
        gap = _gap(problem, passes, state)
        waited = 0 if gap < 0.5 * best_gap or gap == torch.inf else waited + 1
        if gap < best_gap:
            best, best_gap = (state.W, state.dual), gap
        for ray in (state.dual, problem.multipliers(state.dual - old)):
            reach = _reach(problem, passes, ray)
            if reach >= BEYOND:
                return state.W, ray, torch.tensor(state.steps, device=zero.device)
            if reach > 2 * farthest:  # a proof that there is no W is on its way
                waited, farthest = 0, reach
        active = state.dual != 0
        settled = before is not None and int((active ^ before).sum()) <= SETTLED * int(active.sum()) + 2
        exact = _pivot(problem, passes, active, state) if settled and gap > 0.1 * tol else None
        if exact is not None:
            best = exact
        if exact is not None or gap <= 0.1 * tol or waited == PATIENCE:
            break
        before, sigma = active, sigma * (GROWTH if best_gap == torch.inf or not state.direct else SLOWLY)
    return *best, torch.tensor(state.steps, device=zero.device)


def _push(problem: HardMarginProblem, state: _State, sigma: float) -> Tensor:
    return problem.multipliers(state.dual + sigma * (problem.r - state.reach))


def _newton(
    problem: HardMarginProblem, passes: _Passes, state: _State, sigma: float, accuracy: float
) -> None:
    """Minimise over W for the multipliers and the penalty at hand, to a gradient of `accuracy` ||W||."""
    for _ in range(NEWTON):
        push = _push(problem, state, sigma)
        active = (push != 0) | problem.is_equality
        gradient = state.W - passes.adjoint(push)
        size, length = float(torch.linalg.matrix_norm(gradient)), float(torch.linalg.matrix_norm(state.W))
        if size <= accuracy * length:
            break
        state.steps += 1
        enough = min(0.1, size / max(length, 1e-300)) * size
        move = None if state.direct else _conjugate(passes.on(active), sigma, -gradient, enough)
        if move is None:
            if gradient.numel() <= DIRECT:
                state.direct = True
                move = _factored(problem, active, sigma, -gradient)
            elif int(active.sum()) <= WIDEST:
                move = _factored_in_rows(problem, active, sigma, -gradient)
            else:
                move = _conjugate(passes.on(active), sigma, -gradient, torch.inf)
        along = passes.forward(move)
        slope, start = float((gradient * move).sum()), _penalised(problem, state, sigma, move, along, 0.0)
        length = 1.0
        for _ in range(CUTS):
            if _penalised(
                problem, state, sigma, move, along, length
            ) <= start + 1e-4 * length * slope + 1e-13 * abs(start):
                break
            length /= 2
        else:
            break  # rounding: no shorter step is better
        state.W, state.reach = state.W + length * move, state.reach + length * along
    state.reach = passes.forward(state.W)


def _conjugate(
    passes: tuple[Callable, Callable], sigma: float, right: Tensor, enough: float
) -> Tensor | None:
    """(I + sigma sum_S A_j A_j')^-1 right by conjugate gradients; None where they do not get to `enough`.

    With enough = inf they go as far as they are allowed.
    """
    forward, adjoint = passes
    move, rest, step, power = torch.zeros_like(right), right, right, float((right * right).sum())
    for _ in range(CONJUGATE):
        curved = step + sigma * adjoint(forward(step))
        far = power / float((step * curved).sum())
        move, rest = move + far * step, rest - far * curved
        now = float((rest * rest).sum())
        if now <= enough**2 < torch.inf:
            return move
        step, power = rest + (now / power) * step, now
    return move if enough == torch.inf else None


def _factored(problem: HardMarginProblem, active: Tensor, sigma: float, right: Tensor) -> Tensor:
    """The same by a Cholesky factor, for a W of few entries."""
    rows = torch.nonzero(active)[:, 0]
    part = HardMarginProblem(problem.a[None, rows], problem.b[None, rows], problem.r[None, rows])
    H = normal_matrix(part, torch.full_like(part.r, sigma))[0]
    H.diagonal().add_(1.0)
    factor = torch.linalg.cholesky_ex(H).L
    return torch.cholesky_solve(right.reshape(-1, 1), factor).reshape(right.shape)


def _factored_in_rows(problem: HardMarginProblem, active: Tensor, sigma: float, right: Tensor) -> Tensor:
    """The same for few rows: (I + sigma A' A)^-1 = I - A' (I / sigma + A A')^-1 A, with A the rows in S."""
    rows = torch.nonzero(active)[:, 0]
    a, b = problem.a[rows], problem.b[rows]
    G = _gram(a, b)
    G.diagonal().add_(1 / sigma)
    factor = torch.linalg.cholesky_ex(G).L
    weights = torch.cholesky_solve(((a @ right) * b).sum(-1, keepdim=True), factor)
    return right - a.mT @ (weights * b)


def _gram(a: Tensor, b: Tensor) -> Tensor:
    """<A_i, A_j> for all i, j; a second matrix never stands beside it."""
    G = a @ a.mT
    for part, some in zip(G.split(SLICE), b.split(SLICE), strict=True):
        part.mul_(some @ b.mT)
    return G


def _penalised(problem, state: _State, sigma: float, move: Tensor, along: Tensor, length: float) -> float:
    there = _State(state.W + length * move, state.reach + length * along, state.dual)
    return 0.5 * float(there.W.square().sum()) + float(_push(problem, there, sigma).square().sum()) / (
        2 * sigma
    )


def _gap(problem: HardMarginProblem, passes: _Passes, state: _State) -> float:
    """What `certify` will say of the state, without its plain passes."""
    r, equality, reach = problem.r, problem.is_equality, state.reach
    asking = (r > 0) & ~equality
    if (asking & (reach <= 0)).any():
        return torch.inf
    fixed = bool((equality & (r != 0)).any()) or not asking.any()
    scale = 1.0 if fixed else float(torch.where(asking, r / torch.where(asking, reach, 1.0), 0.0).amax())
    upper = scale * float(torch.linalg.matrix_norm(state.W))
    missing = problem.missing(r - scale * reach).amax()
    lower = _reach(problem, passes, state.dual)
    return abs(upper - lower) / upper + float(missing) / upper if upper > 0 else float(missing > 0)


def _reach(problem: HardMarginProblem, passes: _Passes, dual: Tensor) -> float:
    """The lower bound on ||W|| that weights prove, less what rounding may add to it."""
    total = torch.linalg.matrix_norm(passes.adjoint(dual)) + ROUNDING * dual.abs().sum()
    return max(0.0, float((dual * problem.r).sum() / total)) if total > 0 else 0.0


def _pivot(
    problem: HardMarginProblem, passes: _Passes, active: Tensor, state: _State
) -> tuple[Tensor, Tensor] | None:
    """W and lambda with G_SS lambda_S = r_S, where S settles in a few exchanges; None where it does not.

    Source: Portugal, Judice & Vicente, "A comparison of block pivoting and interior-point algorithms for
        linear least squares problems with nonnegative variables" (1994).
    """
    r, always = problem.r, problem.is_equality
    widest = min(
        WIDEST, int(1.2 * state.W.numel()) + 64
    )  # there are never more independent rows than entries
    fewest, waited, pivots = len(r), 0, 0
    while True:
        rows = torch.nonzero(active)[:, 0]
        if not 0 < len(rows) <= widest or pivots >= PIVOTS * max(1, min(16, WIDEST // (4 * len(rows)))):
            return None
        state.steps, pivots = state.steps + 1, pivots + 1
        a, b = problem.a[rows], problem.b[rows]
        G = _gram(a, b)
        for ridge in RIDGES:  # dependent rows share their weight
            G.diagonal().add_(ridge)
            factor, info = torch.linalg.cholesky_ex(G)
            if not info:
                break
        else:
            return None
        del G
        dual, W = torch.zeros_like(r[rows]), torch.zeros_like(state.W)
        for _ in range(CORRECTIONS):  # each takes away the rounding errors of the one before
            rest = r[rows] - ((a @ W) * b).sum(-1)
            change = torch.cholesky_solve(rest[:, None], factor)[:, 0]
            dual, W = dual + change, W + a.mT @ (change[:, None] * b)
        weights = torch.zeros_like(r).index_copy(0, rows, dual)
        slack = passes.forward(W) - r
        wrong = torch.where(active, (weights < 0) & ~always, slack < -1e-12)
        count = int(wrong.sum())
        if not count:  # dependent rows may contradict each other, and then none of them is met
            met = slack[rows].abs().amax() <= 1e-9 * (1 + torch.linalg.matrix_norm(W))
            return (W, weights) if met else None
        fewest, waited = (count, 0) if count < fewest else (fewest, waited + 1)
        if waited >= 3:  # exchanges of whole blocks may go round in circles, that of one row may not
            one = wrong.to(torch.int8).argmax()
            wrong = torch.zeros_like(wrong)
            wrong[one] = True
        room = max(16, len(rows) // 8)
        if int((wrong & ~active).sum()) > room:  # far from W more rows are missed than can support it
            worst = slack.where(wrong & ~active, 0.0).topk(room, largest=False).indices
            wrong &= active.index_fill(0, worst, True)
        active = active ^ wrong


@dataclass
class _Passes:
    """W -> A W and lambda -> sum_j lambda_j A_j over all rows, in the cheapest order for these rows."""

    problem: HardMarginProblem
    run: int  # rows in a row that share b_j

    def __post_init__(self):
        a, b = self.problem.a, self.problem.b
        self.a, self.b = a.reshape(-1, self.run, a.shape[-1]), b[:: self.run].contiguous()

    def forward(self, W: Tensor) -> Tensor:
        if self.run == 1:
            return self.problem.forward(W)
        return (self.a @ (self.b @ W.mT)[..., None]).reshape(-1)

    def adjoint(self, dual: Tensor) -> Tensor:
        if self.run == 1:
            return self.problem.adjoint(dual)
        return (dual.reshape(-1, 1, self.run) @ self.a)[:, 0].mT @ self.b

    def on(self, active: Tensor) -> tuple[Callable, Callable]:
        """The two passes with the rows outside S left out: W -> weights, and back."""
        rows = torch.nonzero(active)[:, 0]
        if 4 * len(rows) > len(active):
            return lambda W: self.forward(W) * active, self.adjoint
        part = HardMarginProblem(self.problem.a[rows], self.problem.b[rows], self.problem.r[rows])
        return part.forward, part.adjoint


def _passes(problem: HardMarginProblem) -> _Passes:
    b = problem.b
    changes = 1 + (b[1:] != b[:-1]).any(-1).nonzero()[:, 0]
    run = int(changes[0]) if len(changes) else len(b)
    regular = len(b) % run == 0 and torch.equal(changes, torch.arange(run, len(b), run, device=b.device))
    return _Passes(problem, run if regular else 1)
