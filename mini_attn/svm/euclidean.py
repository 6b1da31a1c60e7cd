"""Many Euclidean (Frobenius) problems at once: block active sets, and an interior point where those fail."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import HOPELESS, certify

PIVOTS = 12  # block steps before the interior point takes over; random problems settle in 2 or 3
GUESSES = 16  # gradient steps before the first block; each costs a tenth of a block
NEWTON = 50
POLISHED = 64  # problems at a time
WIDEST = 2**16  # entries of the rows that are decomposed, for each


def solve_euclidean(problem: HardMarginProblem, norm: str, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """min ||W||_F s.t. <A_j, W> >= r_j (= where equality), through Gram matrices of the rows.

        dual: min_lambda 1/2 ||sum_j lambda_j A_j||_F^2 - r' lambda, lambda >= 0;   W = sum_j lambda_j A_j

    First block active sets (`block_pivot`), from a guess that a few gradient steps on the dual supply: where
    they settle, the answer is exact to rounding. They need not settle (degenerate or infeasible problems), so
    what certification rejects goes to `interior_point`, and from the support found there to block active
    sets once more.

    Args:
        problem: a batch with one leading dimension and rows near unit length, float64.
        norm: "fro".
        tol: relative gap that ends the work on a problem.

    Returns:
        W (B, d1, d2), dual (B, m), iterations (B,): candidates for `certify`.

    Source: Portugal, Judice & Vicente, "A comparison of block pivoting and interior-point algorithms for
        linear least squares problems with nonnegative variables" (1994).
    """
    gram = gram_matrix(problem)
    dual, sure, steps = block_pivot(problem, gram, _likely_support(problem, gram))
    W, done = problem.adjoint(dual), sure.clone()
    hard = torch.nonzero(~sure)[:, 0]  # these may be certified all the same, infeasible ones above all
    W[hard], done[hard] = _primal(problem[hard], dual[hard], tol)
    hard = hard[~done[hard]]
    scale = problem.r.new_ones(len(hard))
    for _ in range(4):  # rounding is least when ||W|| / scale is near 1, and ||W|| is not known beforehand
        if not len(hard):
            break
        part, part_gram = problem[hard], gram[hard]
        u, slack, count = interior_point(part, part_gram, scale)
        pivoted, _, more = block_pivot(part, part_gram, u > slack)
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
    rough = torch.nonzero(~done)[:, 0]
    if len(rough):
        for k in rough.split(POLISHED):
            W[k], dual[k] = _polished(problem[k], W[k], dual[k])
    return W, dual, steps


def block_pivot(
    problem: HardMarginProblem, gram: Float[Tensor, "B m m"], active: Bool[Tensor, "B m"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Guess the support P, solve G_PP lambda_P = r_P, drop rows with lambda_j <= 0, add rows that W violates.

    Args:
        problem: as in `solve_euclidean`.
        gram: G, as `gram_matrix` returns it.
        active: the first guess of P; equality rows are always in it, empty rows never.

    Returns:
        dual (B, m), sure (B,), steps (B,). sure: P settled, and one correction of lambda for rounding was so
        small that the next would not count. Elsewhere the weights are those of the last guess.

    Source: Portugal, Judice & Vicente (1994).
    """
    real = gram.diagonal(dim1=1, dim2=2) > 0
    always = problem.is_equality & real
    active = (active & real) | always
    dual, r = torch.zeros_like(problem.r), problem.r
    sure = torch.zeros(len(r), dtype=torch.bool, device=r.device)
    steps = torch.zeros(len(r), dtype=torch.int64, device=r.device)
    index = torch.arange(len(r), device=r.device)
    for _ in range(PIVOTS):
        weights, correction = _solve_on(gram, r, active)
        slack = _times(gram, weights) - r
        changed = (torch.where(active, weights > 0, slack < -1e-12) | always) & real
        settled = (changed == active).all(-1)
        dual[index], sure[index] = weights, settled & (correction < 1e-6)
        steps[index] += 1
        active = changed
        if settled.sum() * 8 > len(index):
            stay = torch.nonzero(~settled)[:, 0]
            if not len(stay):
                break
            index, gram, r, active, always, real = (x[stay] for x in (index, gram, r, active, always, real))
    return dual, sure, steps


def gram_matrix(problem: HardMarginProblem) -> Float[Tensor, "B m m"]:
    """<A_i, A_j> = (a_i . a_j) (b_i . b_j) for all pairs of rows."""
    return (problem.a @ problem.a.mT).mul_(problem.b @ problem.b.mT)


def _times(gram: Tensor, dual: Tensor) -> Tensor:
    """G lambda, as lambda' G: three times as fast in a batch."""
    return (dual[:, None, :] @ gram)[:, 0]


def _likely_support(problem: HardMarginProblem, gram: Tensor) -> Tensor:
    """A first guess of P: lambda > 0 after projected gradient steps of Barzilai and Borwein's length."""
    floor = torch.where(problem.is_equality, -torch.inf, 0.0).to(problem.r)
    dual, rest = torch.zeros_like(problem.r), problem.r
    change, curvature = problem.r, _times(gram, problem.r)
    for _ in range(GUESSES):
        length = change.square().sum(-1) / (change * curvature).sum(-1).clamp_min(1e-300)
        ahead = torch.maximum(dual + length[:, None] * rest, floor)
        change = ahead - dual
        curvature = _times(gram, change)
        dual, rest = ahead, rest - curvature
    return dual > 0


def _solve_on(gram: Tensor, r: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    """lambda with G_PP lambda_P = r_P and zero elsewhere, (B, m), corrected once for rounding; and the
    correction's size relative to lambda's, (B,)."""
    m, width = active.shape[-1], max(1, int(active.sum(-1).max()))  # P may be empty everywhere
    rows = active.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :width]  # P first
    inside = active.gather(-1, rows).to(r.dtype)
    pairs = rows[:, :, None] * m + rows[:, None, :]
    G = gram.flatten(1).gather(-1, pairs.flatten(1)).view(pairs.shape)
    G.mul_(inside[:, :, None]).mul_(inside[:, None, :])
    # A little more than rounding on the diagonal lets dependent rows share their weight.
    ridge = 1.0 - inside * (1 - 1e-13)
    G.diagonal(dim1=1, dim2=2).add_(ridge)
    factor, asked = torch.linalg.cholesky_ex(G).L, r.gather(-1, rows) * inside
    weights = torch.cholesky_solve(asked[..., None], factor)[..., 0]
    rest = asked - _times(G, weights) + ridge * weights
    correction = torch.cholesky_solve(rest[..., None], factor)[..., 0]
    share = correction.abs().amax(-1) / weights.abs().amax(-1)
    return torch.zeros_like(r).scatter(-1, rows, weights + correction), share


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
        implementation of a primal-dual interior point method" (1992).
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


def _polished(problem: HardMarginProblem, W: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
    """W and lambda from a singular value decomposition of the support's rows, where that is better.

    A Gram matrix squares the condition number: of nearly opposite rows, at an angle below 1e-8, it tells
        nothing.
    """
    share = dual.abs() / dual.abs().amax(-1, keepdim=True)
    support = (share > 1e-9) | problem.is_equality
    width, entries = int(support.sum(-1).max()), W[0].numel()
    if not 0 < width * entries <= WIDEST:
        return W, dual
    rows = support.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :width]
    inside = support.gather(-1, rows).to(dual.dtype)
    a, b = (x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1])) for x in (problem.a, problem.b))
    A = (inside[..., None, None] * a[..., :, None] * b[..., None, :]).flatten(2)
    r = (problem.r.gather(-1, rows) * inside)[..., None]
    back = torch.linalg.pinv(A, rtol=1e-15)
    w = back @ r
    w = w + back @ (r - A @ w)
    weights = torch.zeros_like(dual).scatter(-1, rows, (back.mT @ w)[..., 0] * inside)
    w = w[..., 0].reshape(W.shape)
    before, after = (certify(problem, *pair, "fro")[2] for pair in ((W, dual), (w, weights)))
    better = after < before
    return torch.where(better[:, None, None], w, W), torch.where(better[:, None], weights, dual)


def _primal(problem: HardMarginProblem, dual: Tensor, tol: float) -> tuple[Tensor, Tensor]:
    """W proportional to sum_j lambda_j A_j with lambda's own length, and whether the pair is certified."""
    dual = problem.multipliers(dual)
    total = problem.adjoint(dual)
    square = total.square().sum((-2, -1))
    W = total * ((dual * problem.r).sum(-1) / square.clamp_min(1e-300))[:, None, None]
    _, _, gap, reach = certify(problem, W, dual, "fro")
    return W, (gap <= tol) | (reach >= HOPELESS)
