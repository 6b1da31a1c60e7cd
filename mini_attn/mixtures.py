"""Heads that keep several tokens: which mixtures they want, which tokens a path keeps, and where it ends."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn import losses, svm
from mini_attn.data import TokenData
from mini_attn.heads import MLPHead
from mini_attn.newton import loss_slopes, on_sphere
from mini_attn.tracing import Path


def best_mixture(
    head: MLPHead,
    data: TokenData,
    starts: Float[Tensor, "starts *trials n T"] | None = None,
    steps: int = 200,
) -> Float[Tensor, "*trials n T"]:
    """The attention that a head would like best, were it free to take any weights:

        argmax_s  y_i f(sum_t s_t x_it)    subject to    s_t >= 0,  sum_t s_t = 1,    for each sequence i.

    Where W can grow without bound and the SVM of the kept tokens is feasible, this is what the best W of
    length R tends to. Projected gradient ascent finds the face of the simplex, Newton steps find the point
    on it; tokens that are not kept have exactly 0. Where y f is concave on the tokens' hull there is one
    maximum, where it is convex the best is a token; else the starts compete, and nothing proves that the best
    of all was among their ends.

    Args:
        head: f.
        data: tokens and labels, with one query a sequence and no mask.
        starts: rows that are mixtures. None: each token, and their mean.
        steps: of both kinds, at most.

    Returns:
        s, (*trials, n, T).

    Introduced in lesson 13.
    """
    T = data.X.shape[-2]
    if starts is None:
        corners = torch.cat([torch.eye(T), torch.full((1, T), 1 / T)]).to(data.X)
        starts = corners.reshape(T + 1, *(1,) * (data.X.ndim - 2), T).expand(T + 1, *data.X.shape[:-1])
    ends = torch.stack([_climb(head, data, start, steps) for start in starts])
    outputs = torch.stack([_signed(head, data, s)[0] for s in ends])
    best = (outputs - outputs.amax(0) >= -1e-12 * outputs.abs().amax(0)).to(torch.int8).argmax(0)
    return ends.gather(0, best[None, ..., None].expand(1, *best.shape, T))[0]


def on_face(
    head: MLPHead, data: TokenData, s: Float[Tensor, "*trials n T"], steps: int = 20
) -> Float[Tensor, "*trials n T"]:
    """The stationary point of y_i f(sum_t s_t x_it) near s on its face: only tokens with s_t > 0 keep weight.

    Newton's method; a step that would leave the face is shortened to nine tenths of the way out. What a
    path keeps is such a point, and often not the best mixture: the path is local.

    Args:
        head, data: f and its data.
        s: (*trials, n, T), exactly 0 on the tokens that are not kept.

    Introduced in lesson 13.
    """
    for _ in range(steps):
        _, slopes, bend = _signed(head, data, s)
        ds = _newton(slopes, bend, s > 0)
        out = torch.where(ds < 0, -s / ds, torch.inf).amin(-1, keepdim=True)
        s = s + ds * torch.where(out > 1, 1.0, 0.9 * out)
    return s / s.sum(-1, keepdim=True)


def costs(
    head: MLPHead, data: TokenData, s: Float[Tensor, "*trials n T"], loss: str | losses.Loss = "logistic"
) -> Float[Tensor, "*trials n T"]:
    """What a little weight on a token costs: c_it = |l'(u_i)| y_i grad f(xbar_i).(xbar_i - x_it).

    0 on the kept tokens of a stationary mixture; at a best mixture nowhere negative.

    Introduced in lesson 13.
    """
    u, slopes, _ = _signed(head, data, s)
    slope, _ = loss_slopes(losses.get(loss), u)
    return slope[..., None] * (slopes - (s * slopes).sum(-1, keepdim=True))


def kept_tokens(
    X: Float[Tensor, "*trials n T d"],
    z: Float[Tensor, "*trials n d"],
    rates: Float[Tensor, "*trials n T"],
    rounds: int = 10,
) -> tuple[Bool[Tensor, "*trials n T"], svm.Solution]:
    """The tokens that keep weight while W grows, read from the rates at which the others fall behind.

    While ||W|| grows, log s_it - log s_i,winner tends to a constant for a kept token, and falls at the rate
    Delta_it / N for another one: N = ||W_dir||, and Delta_it >= 1 is its lead in
    :func:`mini_attn.svm.mixture_problem`. So rates times N are 0, or at least 1, whatever the data, and 1/2
    divides them. N depends on the kept set and the set on N: both are found in turn, from the set below the
    widest gap between the rates (as ratios, in each trial; what is below 1e-3 of the largest counts as 0).

    Args:
        X, z: tokens and queries.
        rates: fall of log s_it behind the winner's for a unit of ||W||; 0 for the winner.
        rounds: at most.

    Returns:
        The kept tokens, and the solution W_dir of their SVM in the norm "fro". Compare its leads, over N,
        with the rates: that is the proof of the reading. Where every token was read as kept, N = 0, and there
        is no proof unless the rates vanish.

    Introduced in lesson 13.
    """
    kept = _below_the_gap(rates)
    for _ in range(rounds):
        solution = svm.solve(svm.mixture_problem(X, z, kept), throw=False)
        now = (rates <= 0) | ((rates * solution.objective[..., None, None]).nan_to_num(torch.inf) < 0.5)
        if torch.equal(now, kept):
            return kept, solution
        kept = now
    return kept, svm.solve(svm.mixture_problem(X, z, kept), throw=False)


def mixture_path(
    head: MLPHead,
    data: TokenData,
    s: Float[Tensor, "*trials n T"],
    radii: Sequence[float] | Float[Tensor, "radii"],
    loss: str | losses.Loss = "logistic",
    tol: float = 1e-6,
    max_steps: int = 60,
) -> Path:
    """The regularisation path of W towards a mixture, its two parts solved apart, at any radius.

    Far out the kept tokens have the ratios of s, and what is left of the loss is the price of the others:

        min_W   log sum_it c_it s_ia exp(-(x_ia - x_it)^T W z_i)          over t not in O_i; any a in O_i
        s.t.    (x_ia - x_ib)^T W z_i = log s_ia - log s_ib  in O_i,      ||W||_F = R,

    with the :func:`costs` c_it; tokens with c_it <= 0 are left out: they fall behind all the same where they
    are no support tokens. The loss differs from this by a share of order exp(-lead). The problem is convex
    and its logarithm has no scale, so R may be 1e6, where the loss drowns in rounding near 30.

    Args:
        head, data: f and its data.
        s: a mixture stationary on its face, exactly 0 on tokens that are not kept.
        radii: R, increasing.
        loss, tol, max_steps: as for :func:`mini_attn.newton.newton_path`.

    Returns:
        A Path with "W", the logarithm as its loss, and the residual of the problem above: inf where R is too
        short for the ratios, or where every token is kept.

    Raises:
        ValueError: rows of s that are no mixture.

    Introduced in lesson 13.
    """
    if (s < 0).any() or ((s.sum(-1) - 1).abs() > 1e-9).any():
        raise ValueError("s must be a mixture in each sequence: no weight below 0, and sum 1")
    radii = torch.as_tensor(radii, dtype=torch.float64).flatten()
    with torch.no_grad():
        kept = s > 0
        log_s = s.clamp(min=torch.finfo(s.dtype).tiny).log()
        W_fin = svm.solve(svm.ratio_problem(data.X, data.z, kept, log_s), throw=False).value.flatten(-2)
        W_dir = svm.solve(svm.mixture_problem(data.X, data.z, kept), throw=False).value.flatten(-2)
        rows, equal = _comparisons(data, kept)
        J, basis = _beside(rows, equal)
        first = kept.to(torch.int8).argmax(-1, keepdim=True)
        price = (costs(head, data, s, loss) * s.gather(-1, first)).flatten(-2)
        tiny = torch.finfo(s.dtype).tiny
        log_c = price.clamp(min=tiny).log().masked_fill(equal | (price <= tiny), -torch.inf)
        log_c = log_c - (rows @ W_fin[..., None]).squeeze(-1)

        def evaluate(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            exponent = log_c - (J @ w[..., None]).squeeze(-1)
            q = exponent.softmax(-1)
            g = -(q[..., None, :] @ J).squeeze(-2)
            return exponent.logsumexp(-1), g, (J * q[..., None]).mT @ J - g[..., :, None] * g[..., None, :]

        straight = (basis @ W_dir[..., None]).squeeze(-1)
        straight = straight / straight.norm(dim=-1, keepdim=True)
        never = (log_c == -torch.inf).all(-1) | ~straight.isfinite().all(-1)
        w, before, kept_values = torch.zeros_like(straight), 0.0, []
        for R in radii.tolist():
            left = (R**2 - W_fin.square().sum(-1)).clamp(min=0).sqrt()
            stuck = never | (left == 0)
            start = torch.where(stuck[..., None], 1.0, w + (left - before)[..., None] * straight)
            ahead, value, residual = on_sphere(
                evaluate, J, start, left.clamp(min=tiny), tol, max_steps, stuck
            )
            w, before = torch.where(stuck[..., None], w, ahead), torch.where(stuck, before, left)
            W = (W_fin + (w[..., None, :] @ basis).squeeze(-2)).unflatten(-1, (-1, data.z.shape[-1]))
            kept_values.append((W, value, residual.masked_fill(stuck, torch.inf)))
    W, value, residual = (torch.stack(parts) for parts in zip(*kept_values, strict=True))
    return Path(radii, {"W": W}, value, residual)


def _below_the_gap(rates: Tensor) -> Tensor:
    largest = rates.flatten(-2).amax(-1, keepdim=True)
    ordered = (
        rates.flatten(-2).clamp(min=1e-3 * largest).clamp(min=torch.finfo(rates.dtype).tiny).sort(-1).values
    )
    below = ordered.gather(-1, ordered.log().diff(dim=-1).argmax(-1, keepdim=True))
    return rates <= below[..., None]


def _signed(head, data: TokenData, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """u = y f, (..., n), its slopes in s, (..., n, T), and second derivatives, (..., n, T, T)."""
    x = data.mix(s)
    f, slope, _ = head.linearised(x)
    VX = data.X @ head.V.mT[..., None, :, :]
    bend = (VX * (data.y[..., None] * head.curvature(x))[..., None, :]) @ VX.mT
    return data.y * f, data.y[..., None] * (data.X @ slope[..., None]).squeeze(-1), bend


def _newton(slopes: Tensor, bend: Tensor, kept: Tensor) -> Tensor:
    """ds with bend ds + slopes the same on all kept tokens, sum ds = 0, and ds = 0 elsewhere."""
    slopes = torch.where(
        kept, slopes - slopes.where(kept, 0.0).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True), 0.0
    )
    both = kept[..., :, None] & kept[..., None, :]
    identity = torch.eye(kept.shape[-1], dtype=bend.dtype, device=bend.device)
    system = torch.where(both, bend, identity)
    edge = kept.to(bend)
    border = torch.cat([system, edge[..., None]], -1)
    last = torch.cat([edge, torch.zeros_like(edge[..., :1])], -1)
    right = torch.cat([-slopes, torch.zeros_like(edge[..., :1])], -1)
    ds, info = torch.linalg.solve_ex(torch.cat([border, last[..., None, :]], -2), right[..., None])
    ds = ds[..., :-1, 0] * edge
    return ds.where((info == 0)[..., None] & ds.isfinite().all(-1, keepdim=True), torch.zeros_like(ds))


def _into_simplex(s: Tensor) -> Tensor:
    """The nearest point with s >= 0 and sum 1."""
    ordered = s.sort(-1, descending=True).values
    excess = (ordered.cumsum(-1) - 1) / torch.arange(1, s.shape[-1] + 1, device=s.device)
    return (s - excess.where(ordered > excess, -torch.inf).amax(-1, keepdim=True)).clamp(min=0)


def _climb(head, data: TokenData, s: Tensor, steps: int) -> Tensor:
    """A local maximum of y f over the simplices, uphill from s."""
    length = torch.ones_like(s[..., :1])
    u, slopes, bend = _signed(head, data, s)
    for _ in range(steps):
        before = s
        ahead = _into_simplex(s + length * slopes)
        higher = _signed(head, data, ahead)[0] >= u + 0.1 * ((ahead - s) * slopes).sum(-1)
        s = torch.where(higher[..., None], ahead, s)
        length = torch.where(higher[..., None], 2 * length, length / 4).clamp(1e-12, 1e3)
        u, slopes, bend = _signed(head, data, s)
        ahead = s + _newton(slopes, bend, s > 0)
        inside = (ahead >= 0).all(-1)
        reached = _signed(head, data, ahead)[0]
        taken = inside & (reached >= u - 4 * torch.finfo(s.dtype).eps * u.abs())
        s = torch.where(taken[..., None], ahead, s)
        u, slopes, bend = _signed(head, data, s)
        if (s - before).abs().amax() < 1e-13 and (_into_simplex(s + slopes) - s).abs().amax() < 1e-12:
            break
    return s


def _comparisons(data: TokenData, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Rows ((x_ia - x_it) z_i^T, flat), a the first kept token, and which are of kept tokens."""
    first = kept.to(torch.int8).argmax(-1)[..., None, None]
    a = data.X.gather(-2, first.expand(*first.shape[:-1], data.X.shape[-1]))
    rows = ((a - data.X)[..., :, None] * data.z[..., None, None, :]).flatten(-2)
    return rows.flatten(-3, -2), kept.flatten(-2)


def _beside(rows: Tensor, equal: Tensor) -> tuple[Tensor, Tensor]:
    """What the other rows have perpendicular to the equalities, in coordinates of their own: J, its basis."""
    _, S, B = torch.linalg.svd(rows * equal[..., None], full_matrices=False)
    least = 1e-10 * S.amax(-1, keepdim=True).clamp(min=1e-300)
    B = B * (least < S)[..., None]
    free = (rows - (rows @ B.mT) @ B) * ~equal[..., None]
    U, S, basis = torch.linalg.svd(free, full_matrices=False)
    return U * S[..., None, :], basis
