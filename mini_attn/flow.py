"""Gradient flow of keys and queries, followed in log time, and the forces that drive it."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mini_attn import losses
from mini_attn.data import TokenData
from mini_attn.gradients import closed_form, contractions
from mini_attn.models import CrossAttention, FactoredAttention, joint_trials
from mini_attn.softmax import contrast, logit_gradient, tokens_first, winners
from mini_attn.threads import threads_for


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
    turn: float | Float[Tensor, "*trials"] = 0.02,
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
        turn, move: see above; both positive. ``turn`` may differ between trials.
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
    turn = torch.as_tensor(turn, dtype=model.K.dtype, device=model.K.device)
    if not ((turn > 0).all() and move > 0):
        raise ValueError(f"turn = {turn.tolist()}, move = {move}; expected positive lengths")
    model._check(data)
    loss, lead = losses.get(loss), len(model.trials)
    compare, pull = contractions(data.keys, data.positions, model.trials)
    scores = data.y[..., None] * data.values
    scores = tokens_first(scores.expand(*model.trials, *scores.shape[-2:]))  # (T, *trials, n)
    hidden = None if data.hidden is None else tokens_first(data.hidden.expand(*model.trials, -1, -1))
    K, Q = model.K.data, model.Q.data
    kept_K, kept_Q = (w.expand(len(levels), *w.shape).clone() for w in (K, Q))
    levels_first = levels.reshape(-1, *(1,) * lead)
    reached = torch.zeros(len(levels), *model.trials, dtype=torch.bool, device=K.device)
    best, step = None, 0
    with threads_for(data):
        while True:
            zQ = data.z @ Q
            h = compare(zQ @ K.mT)  # (T, *trials, n)
            if hidden is not None:
                h.masked_fill_(hidden, -torch.inf)
            now = winners(h)
            if best is None or not torch.equal(now, best):
                best, pulls = now, contrast(scores, now)
            ahead = (h.gather(0, best) - h).scatter_(0, best, torch.inf)
            new = (ahead.amin(0).amin(-1) >= levels_first) & ~reached
            if new.any():
                reached |= new
                for kept, w in ((kept_K, K), (kept_Q, Q)):
                    kept[new] = w.expand_as(kept)[new]
            if step == max_steps or reached.all():
                break
            log_s = torch.log_softmax(h, dim=0)
            s = log_s.exp()
            slope = loss.log_slope((s * scores).sum(0))
            force = pull(logit_gradient(log_s, s, *pulls, lead, slope))  # M = sum_i force_i z_i^T
            dK, dQ = force.mT @ zQ, data.z.mT @ (force @ K)
            eta = turn * _length(K, Q) / _length(dK, dQ)
            if move < torch.inf:
                dh = compare((data.z @ dQ) @ K.mT + zQ @ dK.mT)
                if hidden is not None:
                    dh.masked_fill_(hidden, 0.0)
                speed = (dh - dh.gather(0, best)).abs().amax(0).amax(-1)
                eta = torch.minimum(eta, move / speed)
            eta = eta.nan_to_num(0.0, posinf=0.0)[..., None, None]  # no force at all
            K.addcmul_(eta, dK)
            Q.addcmul_(eta, dQ)
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
