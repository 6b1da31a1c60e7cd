"""Second-order steps on a sphere, and the regularisation paths that need them.

A head that wants a mixture makes the loss stiff: along the ratios of the kept tokens its curvature is of
order one, along everything else it falls like exp(-R). Gradient steps bounce across the one and stand still
along the other; a Newton step solves both.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mini_attn import losses
from mini_attn.balls import into_ball
from mini_attn.data import TokenData
from mini_attn.models import CrossAttention, PromptAttention, joint_trials
from mini_attn.tracing import Path

Evaluation = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def newton_path(
    model: nn.Module,
    data: TokenData,
    radii: Sequence[float] | Float[Tensor, "radii"],
    loss: str | losses.Loss = "logistic",
    tol: float = 1e-6,
    max_steps: int = 40,
) -> Path:
    """Follow the minimiser of the loss on a growing sphere with Newton steps, in every trial at once.

    For each radius R:   argmin L(w)   subject to   ||w|| = R,   w = p, or W in the Frobenius norm.

    As :func:`mini_attn.paths.regularization_path`, for losses so stiff that gradient steps do not arrive:
    heads that keep several tokens of a sequence. The path starts at R_1 along descent's first step. All of it
    happens in the span of the rows k_it z_i^T, at most n T dimensions, where the steps are exact:

        d = -|P (H + mu I) P|^+ P g,    mu = -g.w / R^2,    P = I - w w^T / R^2,

    with |.| the matrix of absolute eigenvalues; a step changes no logit by more than one, and one that helps
    neither the loss nor, where rounding hides the loss, the residual, is tried again at a quarter.

    A trial that has not arrived at some radius stays behind: at all larger ones its residual is inf and
    its weights are those of the last one where it arrived. In float64 that is where the pull, exp(-lead),
    drowns in the rounding of the stiff part: leads near 30. :func:`mini_attn.mixtures.mixture_path` goes on.

    Args:
        model: PromptAttention or CrossAttention with a fixed head, linear or an MLPHead. It says what is
            trained, and is left at the last radius; its parameters are not read.
        data: with one query a sequence.
        radii: R, positive and increasing. Steps of a quarter octave are followed safely.
        loss: "logistic", "exponential", "linear", or a Loss.
        tol: residual, as of a :class:`mini_attn.tracing.Path`, at which a trial has arrived.
        max_steps: Newton steps a radius, at most.

    Raises:
        ValueError: radii that do not increase; another model, a trainable head, data with several queries a
            sequence.

    Source: the path is that of Tarzanagh et al. 2023, "Transformers as Support Vector Machines"; for Newton's
    method on a sphere see Absil, Mahony and Sepulchre, "Optimization Algorithms on Matrix Manifolds", 2008.
    Introduced in lesson 13.
    """
    loss = losses.get(loss)
    radii = torch.as_tensor(radii, dtype=torch.float64).flatten()
    if not len(radii) or not radii.isfinite().all() or radii[0] <= 0 or (radii.diff() <= 0).any():
        raise ValueError(
            f"radii = {radii.tolist()}; expected positive numbers, each larger than the one before"
        )
    if not isinstance(model, PromptAttention | CrossAttention) or data.positions > 1:
        raise ValueError(
            f"newton_path follows PromptAttention and CrossAttention with one query a sequence; got "
            f"{type(model).__name__} and data with positions = {data.positions}"
        )
    if model.head is not None and any(True for _ in model.head.parameters()):
        raise ValueError(
            "a path is followed with a fixed head; expected head=None, or an MLPHead not trainable"
        )
    model._check(data)
    if joint_trials(model, data) != model.trials:
        raise ValueError(
            f"the data have trials {tuple(data.trials)}; give the model trials={tuple(data.trials)}"
        )
    with torch.no_grad():
        return _follow(model, data, radii, loss, tol, max_steps)


def _follow(model, data: TokenData, radii: Tensor, loss, tol: float, max_steps: int) -> Path:
    ((name, parameter),) = model.named_parameters()
    trials = model.trials
    J, basis = _coordinates(model, data)
    J = J.expand(*trials, *J.shape[-3:])

    def evaluate(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value, g, H = logit_derivatives(model, data, loss, (J @ w[..., None, :, None]).squeeze(-1))
        J_ = J.flatten(-3, -2)
        g = (g.flatten(-2)[..., None, :] @ J_).squeeze(-2)
        return value.mean(-1), g / data.y.shape[-1], J_.mT @ (H @ J).flatten(-3, -2) / data.y.shape[-1]

    w = torch.zeros(*trials, J.shape[-1], dtype=J.dtype, device=J.device)
    w = -unit(evaluate(w)[1])
    kept = {"value": [], "loss": [], "residual": []}
    behind = torch.zeros(trials, dtype=torch.bool, device=J.device)
    for R in radii.tolist():
        ahead, value, residual = on_sphere(evaluate, J.flatten(-3, -2), w, R, tol, max_steps, behind)
        behind = behind | (residual > tol)
        w = torch.where(behind[..., None], w, ahead)
        back = (w[..., None, :] @ basis).squeeze(-2).reshape(parameter.shape)
        kept["value"].append(back)
        kept["loss"].append(torch.where(behind, evaluate(w)[0], value) if behind.any() else value)
        kept["residual"].append(residual.masked_fill(behind, torch.inf))
    parameter.copy_(kept["value"][-1])
    return Path(
        radii, {name: torch.stack(kept["value"])}, *(torch.stack(kept[k]) for k in ("loss", "residual"))
    )


def _coordinates(model, data: TokenData) -> tuple[Tensor, Tensor]:
    """J (..., n, T, k) and orthonormal rows B (..., k, D): logits J w, up to shifts, at B^T w."""
    keys = data.keys if data.hidden is None else data.keys.masked_fill(data.hidden[..., None], 0.0)
    real = torch.ones_like(keys[..., :1]) if data.hidden is None else (~data.hidden)[..., None].to(keys)
    rows = real * (keys - keys.sum(-2, keepdim=True) / real.sum(-2, keepdim=True))
    if isinstance(model, CrossAttention):
        rows = (rows[..., :, None] * data.z[..., None, None, :]).flatten(-2)
    U, S, basis = torch.linalg.svd(rows.flatten(-3, -2), full_matrices=False)
    return (U * S[..., None, :]).unflatten(-2, rows.shape[-3:-1]), basis


def logit_derivatives(
    model: nn.Module, data: TokenData, loss: losses.Loss, h: Float[Tensor, "*trials n T"]
) -> tuple[Float[Tensor, "*trials n"], Float[Tensor, "*trials n T"], Float[Tensor, "*trials n T T"]]:
    """l(u_i), its gradient and its second derivatives in the logits of sequence i.

    With G_t = y grad f(xbar).x_t, s the attention and c_t = s_t (G_t - sum_tau s_tau G_tau):

        du/dh = c,    d^2u/dh^2 = diag(c) - s c^T - c s^T + y B^T f''(xbar) B,
        B = d xbar / dh = (s_t (x_t - xbar))_t

    Differences of G are taken from the winner, so that nothing cancels (see `softmax`).
    """
    if data.hidden is not None:
        h = h.masked_fill(data.hidden, -torch.inf)
    s = torch.log_softmax(h, -1).exp()
    y, xbar = data.y, data.mix(s)
    winner = s.argmax(-1, keepdim=True)
    if model.head is None:
        f, scores = (xbar * data.v[..., None, :]).sum(-1), data.y[..., None] * data.values
    else:
        f, slope, _ = model.head.linearised(xbar)
        scores = y[..., None] * (data.X @ slope[..., None]).squeeze(-1)
    ahead = scores - scores.gather(-1, winner)
    c = s * (ahead - (s * ahead).sum(-1, keepdim=True))
    twice = torch.diag_embed(c) - s[..., :, None] * c[..., None, :] - c[..., :, None] * s[..., None, :]
    if model.head is not None:
        VX = data.X @ model.head.V.mT[..., None, :, :]
        VX = VX - VX.gather(-2, winner[..., None].expand(*winner.shape, VX.shape[-1]))
        B = s[..., None] * (VX - (s[..., None] * VX).sum(-2, keepdim=True))
        twice = twice + (B * (y[..., None] * model.head.curvature(xbar))[..., None, :]) @ B.mT
    u = y * f
    slope, curvature = loss_slopes(loss, u)
    return (
        loss.value(u),
        slope[..., None] * c,
        curvature[..., None, None] * c[..., :, None] * c[..., None, :] + slope[..., None, None] * twice,
    )


def loss_slopes(loss: losses.Loss, u: Tensor) -> tuple[Tensor, Tensor]:
    """l'(u) and l''(u)."""
    with torch.enable_grad():
        u = u.detach().requires_grad_()
        log_slope = loss.log_slope(u)
        (rate,) = (
            torch.autograd.grad(log_slope.sum(), u) if log_slope.requires_grad else (torch.zeros_like(u),)
        )
    slope = -log_slope.detach().exp()
    return slope, slope * rate


def unit(w: Tensor) -> Tensor:
    """w / ||w||; zero stays zero."""
    return w / w.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(w.dtype).tiny)


def on_sphere(
    evaluate: Evaluation,
    J: Float[Tensor, "*trials rows k"],
    w: Float[Tensor, "*trials k"],
    R: float | Float[Tensor, "*trials"],
    tol: float,
    max_steps: int,
    skip: Tensor | None = None,
) -> tuple[Float[Tensor, "*trials k"], Float[Tensor, "*trials"], Float[Tensor, "*trials"]]:
    """Newton steps to a stationary point of the function on ||w|| = R: (w, value, residual).

    Args:
        evaluate: w -> value (*trials,), gradient (*trials, k), second derivatives (*trials, k, k).
        J: a step changes no entry of J w by more than one.
        w: where to start, up to its length.
        skip: trials that nobody waits for.
    """
    R = torch.as_tensor(R, dtype=w.dtype, device=w.device)[..., None]
    w = R * unit(w)
    value, g, H = evaluate(w)
    residual = _residual(w / R, g)
    cap, rounding = torch.ones_like(value), 8 * torch.finfo(w.dtype).eps
    identity = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    for _ in range(max_steps):
        waiting = residual > 0.01 * tol
        waiting = (waiting if skip is None else waiting & ~skip) & H.isfinite().all((-2, -1))
        if not waiting.any():
            break
        at = w / R
        mu = -(g * at).sum(-1, keepdim=True) / R
        P = identity - at[..., :, None] * at[..., None, :]
        # of trials that have lost their numbers, whatever torch can take
        M = torch.where(H.isfinite().all((-2, -1), keepdim=True), P @ H @ P, identity)
        curvature, E = torch.linalg.eigh((M + M.mT) / 2)
        bend = (curvature + mu).abs().clamp(min=torch.finfo(w.dtype).tiny)
        bend = torch.maximum(bend, 1e-15 * curvature.abs().amax(-1, keepdim=True))
        step = -(E @ ((E.mT @ (P @ g[..., None])) / bend[..., None])).squeeze(-1)
        step = step - (step * at).sum(-1, keepdim=True) * at
        change = (J @ step[..., None]).abs().amax((-2, -1)).clamp(min=torch.finfo(w.dtype).tiny)
        ahead = R * unit(w + (cap / change).clamp(max=1.0)[..., None] * step)
        new_value, new_g, new_H = evaluate(ahead)
        new_residual = _residual(ahead / R, new_g)
        noise = rounding * value.abs()
        taken = waiting & (
            (new_value < value - noise) | ((new_value <= value + noise) & (new_residual < residual))
        )
        cap = torch.where(taken, (2 * cap).clamp(max=1.0), torch.minimum(cap, change) / 4)
        w, g = (torch.where(taken[..., None], new, old) for new, old in ((ahead, w), (new_g, g)))
        value, residual = (
            torch.where(taken, new, old) for new, old in ((new_value, value), (new_residual, residual))
        )
        H = torch.where(taken[..., None, None], new_H, H)
    return w, value, residual


def _residual(at: Tensor, g: Tensor) -> Tensor:
    """|| P(at - g / ||g||) - at ||, P the projection on the unit ball, as of a Path."""
    ahead = into_ball(at - unit(g))
    return (ahead - at).norm(dim=-1).nan_to_num(torch.inf)
