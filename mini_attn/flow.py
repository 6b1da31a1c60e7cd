"""Gradient flow of keys and queries, followed in log time, and the forces that drive it."""

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn import losses
from mini_attn.data import TokenData
from mini_attn.gradients import closed_form
from mini_attn.models import CrossAttention, FactoredAttention, joint_trials
from mini_attn.threads import SMALL, one_thread


@dataclass(frozen=True)
class Flow:
    """Keys and queries where the smallest lead first reached given levels.

    Args:
        leads: the levels, (levels,).
        K, Q: (levels, *trials, d, m); where a level was not reached, the last ones.
        reached: (levels, *trials).
        steps: how many were taken.

    Introduced in lesson 11.
    """

    leads: Tensor
    K: Tensor
    Q: Tensor
    reached: Bool[Tensor, "levels *trials"]
    steps: int

    @property
    def W(self) -> Tensor:
        """K Q^T, (levels, *trials, d, d)."""
        return self.K @ self.Q.mT


@torch.no_grad()
def follow(
    model: FactoredAttention,
    data: TokenData,
    leads: list[float],
    turn: float = 0.02,
    move: float = 0.4,
    loss: str | losses.Loss = "logistic",
    max_steps: int = 20_000,
) -> Flow:
    """Gradient flow of (K, Q) on the mean loss, in all trials at once, until the smallest lead is large.

        K' = M Q,   Q' = M^T K,   M = -grad_W L(K Q^T),

    by Euler steps of a length of their own in each trial: none is longer than ``turn`` times
    sqrt(||K||_F^2 + ||Q||_F^2), and none moves the difference of two logits by more than ``move``, to first
    order. Time itself is not kept: the loss is near e^-lead, and plain descent would need about e^lead steps.

    With ``move=inf`` the weights grow by a factor at each step, so that any norm is reached soon. Far out
    such steps overshoot: now one comparison pulls, now another, and only their average over many steps is
    the flow's. The direction then zigzags by about ``turn``.

    Args:
        model: FactoredAttention with a fixed linear head; it starts from its parameters, which are left at
            the end. Zero is stationary.
        data: as for :func:`mini_attn.train.fit`.
        leads: levels, increasing, of min over i, t of h_{i alpha_i} - h_it, alpha_i the token that has most
            attention at that moment.
        turn, move: see above; both positive.
        loss: "logistic", "exponential", "linear", or a Loss.
        max_steps: the flow ends then, reached or not.

    Raises:
        ValueError: a model of another kind, or trained with its head; levels that do not increase; lengths
            that are not positive.

    Source: Lyu and Li 2020, and Ji and Telgarsky 2020, on where such flows go.
    Introduced in lesson 11.
    """
    if not isinstance(model, FactoredAttention) or getattr(model, "head", None) is not None:
        raise ValueError(f"model is {type(model).__name__}; expected FactoredAttention with head=None")
    if joint_trials(model, data) != model.trials:
        raise ValueError(f"the data have trials {tuple(data.trials)}, the model {tuple(model.trials)}")
    levels = torch.as_tensor(leads, dtype=torch.float64, device=data.X.device).flatten()
    if not len(levels) or (levels.diff() <= 0).any():
        raise ValueError(f"leads = {levels.tolist()}; expected at least one, each larger than the one before")
    if not (turn > 0 and move > 0):
        raise ValueError(f"turn = {turn}, move = {move}; expected positive lengths")
    evaluate = closed_form(model, data, losses.get(loss), len(model.trials))
    K, Q = model.K.data, model.Q.data
    kept_K, kept_Q = (w.expand(len(levels), *w.shape).clone() for w in (K, Q))
    levels_first = levels.reshape(-1, *(1,) * len(model.trials))
    reached = torch.zeros(len(levels), *model.trials, dtype=torch.bool, device=K.device)
    step = 0
    with one_thread() if data.entries <= SMALL else nullcontext():
        while True:
            h = data.compare(model.queries(data)[0])
            best = h.argmax(-1, keepdim=True)
            ahead = (h.gather(-1, best) - h).scatter(-1, best, torch.inf)
            new = (ahead.amin((-1, -2)) >= levels_first) & ~reached
            if new.any():
                reached |= new
                for kept, w in ((kept_K, K), (kept_Q, Q)):
                    kept[new] = w.expand_as(kept)[new]
            if step == max_steps or reached.all():
                break
            g = evaluate()[1]
            dK, dQ = -g["K"], -g["Q"]
            dh = data.compare(data.z @ (dK @ Q.mT + K @ dQ.mT).mT)
            dh = dh.masked_fill(~h.isfinite(), 0.0)
            speed = (dh - dh.gather(-1, best)).abs().amax((-1, -2))
            size, length = (_length(*pair) for pair in ((K, Q), (dK, dQ)))
            eta = torch.minimum(turn * size / length, move / speed)
            eta = eta.nan_to_num(0.0, posinf=0.0)[..., None, None]  # no force at all
            K.add_(eta * dK)
            Q.add_(eta * dQ)
            step += 1
    missing = ~reached
    for kept, w in ((kept_K, K), (kept_Q, Q)):
        kept[missing] = w.expand_as(kept)[missing]
    return Flow(levels, kept_K, kept_Q, reached, step)


def _length(K: Tensor, Q: Tensor) -> Float[Tensor, "*trials"]:
    return (K.square().sum((-1, -2)) + Q.square().sum((-1, -2))).sqrt()


@torch.no_grad()
def forces(
    W: Float[Tensor, "*trials d d"], data: TokenData, loss: str | losses.Loss = "logistic"
) -> Float[Tensor, "*trials d d"]:
    """S = sum_it lambda_it A_it at W: the pull M = -grad_W L, in units that W itself sets,

        S = (||W||_* / <M, W>) M,    so that    <S, W> = ||W||_*.

    The weights lambda_it are the forces of the comparisons A_it = (x_{i alpha_i} - x_it) z_i^T, once the
    attention is hard. At a KKT point of min ||K||^2 + ||Q||^2 the live directions have singular value 1 in S;
    if none is larger, W solves the nuclear-norm problem. M is log-scaled, so that no W is too large.

    Args:
        W: attention matrices. data: what they attend to. loss: as for :func:`follow`.

    Returns:
        S, (*trials, d, d); NaN where there is no force at all.

    Introduced in lesson 11.
    """
    trials = W.shape[:-2]
    model = CrossAttention(W.shape[-1], trials=tuple(trials), init=W, dtype=W.dtype).to(W.device)
    M = -closed_form(model, data, losses.get(loss), len(trials))()[1]["W"]
    size = torch.linalg.matrix_norm(W, "nuc") / (M * W).sum((-2, -1))
    return size[..., None, None] * M
