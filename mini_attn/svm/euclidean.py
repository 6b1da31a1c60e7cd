"""Many Euclidean (Frobenius) problems at once: block active sets, and an interior point where those fail."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import certify

PIVOTS = 12  # block steps before the interior point takes over; random problems settle in 3 or 4
GUESSES = 4  # gradient steps before the first block; more of them save fewer blocks than they cost
NEWTON = 50


def solve_euclidean(
    problem: HardMarginProblem, norm: str, tol: float, guess: Bool[Tensor, "B m"] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_F s.t. <A_j, W> >= r_j (= where equality), through Gram matrices of the rows.

        dual: min_lambda 1/2 ||sum_j lambda_j A_j||_F^2 - r' lambda, lambda >= 0;   W = sum_j lambda_j A_j

    First block active sets (`block_pivot`): where they settle, the answer is exact to rounding. They need not
    settle (degenerate or infeasible problems), so what certification rejects goes to `interior_point`,
    and from the support found there to block active sets once more.

    Args:
        problem: a batch with one leading dimension and unit rows, float64.
        norm: "fro".
        tol: relative gap that ends the work on a problem.
        guess: rows that may support W. Default: those that a few gradient steps on the dual leave in it.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Portugal, Judice & Vicente, "A comparison of block pivoting and interior-point algorithms for
        linear least squares problems with nonnegative variables" (1994). Introduced in lesson 02.
    """
    gram = gram_matrix(problem)
    dual, steps = block_pivot(problem, gram, _likely_support(problem, gram) if guess is None else guess)
    W, done = _primal(problem, dual, tol)
    hard = torch.nonzero(~done)[:, 0]
    scale = problem.r.new_ones(len(hard))
    for _ in range(4):  # rounding is least when ||W|| / scale is near 1, and ||W|| is not known beforehand
        if not len(hard):
            break
        part, part_gram = problem[hard], gram[hard]
        u, slack, count = interior_point(part, part_gram, scale)
        pivoted, more = block_pivot(part, part_gram, u > slack)
        steps[hard] += count + more
        for candidate in (u, pivoted):
            candidate_W, candidate_done = _primal(part, candidate, tol)
            better = candidate_done | ~done[hard]
            dual[hard] = torch.where(better[:, None], candidate, dual[hard])
            W[hard] = torch.where(better[:, None, None], candidate_W, W[hard])
            done[hard] |= candidate_done
        share = (u * part.r).sum(-1) / scale  # = ||W||^2 / (scale^2 + ||W||^2) at the optimum
        length = (share.clamp_min(1e-12) / (1 - share).clamp_min(1e-12)).sqrt()
        again = ~done[hard] & (length > 10)
        hard, scale = hard[again], (scale * length)[again]
    return W, dual, steps


def block_pivot(
    problem: HardMarginProblem, gram: Float[Tensor, "B m m"], active: Bool[Tensor, "B m"]
) -> tuple[Tensor, Tensor]:
    """Guess the support P, solve G_PP lambda_P = r_P, drop rows with lambda_j <= 0, add rows that W violates.

    Args:
        problem: as in `solve_euclidean`.
        gram: G, as `gram_matrix` returns it.
        active: the first guess of P; equality rows are always in it, empty rows never.

    Returns:
        dual (B, m), steps (B,). Where the sets did not settle the weights are those of the last guess.

    Source: Portugal, Judice & Vicente (1994). Introduced in lesson 02.
    """
    real = (problem.a != 0).any(-1)
    always = problem.is_equality & real
    active = (active & real) | always
    dual = torch.zeros_like(problem.r)
    steps = torch.zeros(len(dual), dtype=torch.int64, device=dual.device)
    index, r = torch.arange(len(dual), device=dual.device), problem.r
    for _ in range(PIVOTS):
        rows, weights, factor = _solve_on(gram, r, active)
        dual[index] = weights
        slack = (weights[:, None, :] @ gram)[:, 0] - r
        changed = (torch.where(active, weights > 0, slack < -1e-12) | always) & real
        settled = (changed == active).all(-1)
        steps[index] += 1
        active = changed
        if settled.sum() * 8 > len(index):
            done, stay = torch.nonzero(settled)[:, 0], torch.nonzero(~settled)[:, 0]
            dual[index[done]] = _refine(problem[index[done]], weights[done], rows[done], factor[done])
            index = index[stay]
            if not len(index):
                break
            gram, r, active, always, real = (x[stay] for x in (gram, r, active, always, real))
    return dual, steps


def gram_matrix(problem: HardMarginProblem) -> Float[Tensor, "B m m"]:
    """<A_i, A_j> = (a_i . a_j) (b_i . b_j) for all pairs of rows."""
    return (problem.a @ problem.a.mT).mul_(problem.b @ problem.b.mT)


def _likely_support(problem: HardMarginProblem, gram: Tensor) -> Tensor:
    """A first guess of P: lambda > 0 after a few projected gradient steps of Barzilai and Borwein's length."""

    def residual(dual):
        return problem.r - (dual[:, None, :] @ gram)[:, 0]

    dual, rest = torch.zeros_like(problem.r), problem.r
    change, change_of_rest = problem.r, problem.r - residual(problem.r)
    for _ in range(GUESSES):
        step = change.square().sum(-1) / (change * change_of_rest).sum(-1).clamp_min(1e-300)
        ahead = dual + step[:, None] * rest
        ahead = torch.where(problem.is_equality, ahead, ahead.clamp_min(0))
        ahead_rest = residual(ahead)
        change, change_of_rest = ahead - dual, rest - ahead_rest
        dual, rest = ahead, ahead_rest
    return dual > 0


def _solve_on(gram: Tensor, r: Tensor, active: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """lambda with G_PP lambda_P = r_P, zero elsewhere: (B, m); the rows of P, padded with others: (B, k); and
    the factor of G_PP, padded with ones on its diagonal: (B, k, k)."""
    m, width = active.shape[-1], int(active.sum(-1).max())
    rows = active.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :width]  # P first
    inside = active.gather(-1, rows).to(r.dtype)
    pairs = rows[:, :, None] * m + rows[:, None, :]
    G = gram.flatten(1).gather(-1, pairs.flatten(1)).view(pairs.shape)
    G.mul_(inside[:, :, None]).mul_(inside[:, None, :])
    # A little more than rounding on the diagonal lets dependent rows share their weight.
    G.diagonal(dim1=1, dim2=2).add_(1.0 - inside * (1 - 1e-13))
    factor = torch.linalg.cholesky_ex(G).L
    weights = torch.cholesky_solve((r.gather(-1, rows) * inside)[..., None], factor)[..., 0]
    return rows, torch.zeros_like(r).scatter(-1, rows, weights * inside), factor


def _refine(problem: HardMarginProblem, weights: Tensor, rows: Tensor, factor: Tensor) -> Tensor:
    """One Newton correction of lambda_P by what the rows of P still miss, free of the Gram matrix' rounding."""
    rest = problem.r - problem.forward(problem.adjoint(weights))
    inside = weights.gather(-1, rows) != 0
    rest = torch.where(inside, rest.gather(-1, rows), 0.0)
    correction = torch.cholesky_solve(rest[..., None], factor)[..., 0]
    return weights.scatter_add(-1, rows, torch.where(inside, correction, 0.0))


def interior_point(
    problem: HardMarginProblem, gram: Float[Tensor, "B m m"], scale: Float[Tensor, " B"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Mehrotra's predictor-corrector on the least-distance form, whose optimum exists for every problem.

        min_{u >= 0} 1/2 || sum_j u_j A_j ||^2 + 1/2 (1 - sum_j u_j r_j / scale)^2,   lambda proportional to u

    A zero minimum means that u is a ray. u is free on equality rows.

    Args:
        problem: as in `solve_euclidean`.
        gram: as `gram_matrix` returns it.
        scale: best near ||W||.

    Returns:
        u (B, m), slack (B, m), steps (B,).

    Source: Lawson & Hanson, "Solving least squares problems" (1974), chapter 23; Mehrotra, "On the
        implementation of a primal-dual interior point method" (1992). Introduced in lesson 02.
    """
    free = problem.is_equality
    r = problem.r / scale[:, None]
    empty = (problem.a == 0).all(-1).to(r.dtype)  # an empty row becomes the harmless u_j + 1 >= 0
    H = gram + r[:, :, None] * r[:, None, :]
    H.diagonal(dim1=1, dim2=2).add_(empty + 1e-14)
    count = (~free).sum(-1, keepdim=True).clamp_min(1)
    u = torch.full_like(r, 1.0 / r.shape[-1])
    s = torch.where(free, 0.0, 1.0).to(r)
    steps = torch.zeros(len(r), dtype=torch.int64, device=r.device)
    for _ in range(NEWTON):
        Hu = problem.forward(problem.adjoint(u)) + r * (u * r).sum(-1, keepdim=True) + empty * u
        rest = r - empty - Hu + s
        mu = (u * s).sum(-1, keepdim=True) / count
        unfinished = ((mu > 1e-18) | (rest.abs().amax(-1, keepdim=True) > 1e-14))[:, 0]
        if not unfinished.any():
            break
        steps += unfinished
        du, ds = _mehrotra_step(H, rest, u, s, free, mu, count)
        sound = (unfinished & du.isfinite().all(-1) & ds.isfinite().all(-1))[:, None]
        u, s = u + torch.where(sound, du, 0.0), s + torch.where(sound, ds, 0.0)
    return u, s, steps


def _mehrotra_step(H, rest, u, s, free, mu, count) -> tuple[Tensor, Tensor]:
    """Predictor and corrector with one factor: H du - ds = rest and u ds + s du = center - u s - du ds."""
    ratio = torch.where(free, 0.0, s / u)
    factor = torch.linalg.cholesky_ex(H + torch.diag_embed(ratio)).L

    def direction(product):
        push = torch.where(free, 0.0, product / u)
        du = torch.cholesky_solve((rest + push)[..., None], factor)[..., 0]
        return du, push - ratio * du

    def largest_step(x, dx):
        ratio = torch.where((dx < 0) & ~free, -x / dx, torch.inf)
        return (0.995 * ratio.amin(-1, keepdim=True)).clamp_max(1.0)

    du, ds = direction(-u * s)
    step = torch.minimum(largest_step(u, du), largest_step(s, ds))
    ahead = torch.where(free, 0.0, (u + step * du) * (s + step * ds)).sum(-1, keepdim=True) / count
    center = (ahead / mu.clamp_min(1e-300)).clamp(0, 1) ** 3 * mu
    du, ds = direction(center - u * s - du * ds)
    step = torch.minimum(largest_step(u, du), largest_step(s, ds))
    return step * du, step * ds


def _primal(problem: HardMarginProblem, dual: Tensor, tol: float) -> tuple[Tensor, Tensor]:
    """W proportional to sum_j lambda_j A_j with lambda's own length, and whether the pair is certified."""
    dual = torch.where(problem.is_equality, dual, dual.clamp_min(0))
    total = problem.adjoint(dual)
    square = total.square().sum((-2, -1))
    W = total * ((dual * problem.r).sum(-1) / square.clamp_min(1e-300))[:, None, None]
    _, _, gap, infeasible = certify(problem, W, dual, "fro")
    return W, infeasible | (gap <= tol)
