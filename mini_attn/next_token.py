"""A one-layer transformer that predicts the next token, and its cross-entropy without cancellation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mini_attn.heads import _parameter
from mini_attn.models import joint_trials
from mini_attn.optim import NormalizedGD
from mini_attn.train import step_factor
from mini_attn.vocabulary import NextTokens


class NextTokenTransformer(nn.Module):
    """Logits of the next token, o = W_ov X^T softmax(X W_kq x_T), for each trial. Data without trials are
    shared by all.

    Args:
        V: size of the vocabulary. d: dimension of embeddings.
        trials: leading dimensions, None, a number or a tuple.
        W_ov: start, broadcast to (*trials, V, d); zeros if None. W_kq: likewise, (*trials, d, d).
        dtype: of the parameters.

    Source: Huang, Liang, Yang, "Non-asymptotic convergence of training transformers for next-token
        prediction" (2024). Introduced in lesson 16.
    """

    def __init__(self, V: int, d: int, trials=None, W_ov=None, W_kq=None, dtype=torch.float64):
        super().__init__()
        self.W_ov = _parameter(trials, (V, d), W_ov, dtype)
        self.W_kq = _parameter(trials, (d, d), W_kq, dtype)

    @property
    def trials(self) -> torch.Size:
        """Shape of the leading trial dimensions; ``()`` for a single model."""
        return self.W_kq.shape[:-2]

    def logits(self, data: NextTokens) -> Float[Tensor, "*trials n T"]:
        """Return h_it = x_it^T W_kq z_i, (..., n, T)."""
        self._check(data)
        return (data.X @ (data.z @ self.W_kq.mT)[..., None])[..., 0]

    def attention(self, data: NextTokens) -> Float[Tensor, "*trials n T"]:
        """Return the softmax of the logits, (..., n, T)."""
        return self.logits(data).softmax(-1)

    def forward(self, data: NextTokens) -> Float[Tensor, "*trials n V"]:
        """Return o, the logits of the next token, (..., n, V)."""
        mixed = (self.attention(data)[..., None, :] @ data.X)[..., 0, :]
        return mixed @ self.W_ov.mT

    def predicted(self, data: NextTokens) -> Tensor:
        """Return the most likely next token, (..., n) integers."""
        return self(data).argmax(-1)

    def _check(self, data: NextTokens):
        own, theirs = tuple(self.W_ov.shape[-2:]), tuple(data.embeddings.shape[-2:])
        if own != theirs:
            raise ValueError(f"the model has (V, d) = {own}, the data have {theirs}")
        if data.embeddings.dtype != self.W_ov.dtype or data.embeddings.device != self.W_ov.device:
            raise ValueError(
                f"the model is {self.W_ov.dtype} on {self.W_ov.device}, the data are "
                f"{data.embeddings.dtype} on {data.embeddings.device}; give both the same"
            )
        joint_trials(self, data)

    def _for_trials(self, x: Tensor, data: NextTokens) -> Tensor:
        """x of the data, with the trials that the model has and the data may lack."""
        return x.expand(*joint_trials(self, data), *x.shape[len(data.trials) :])

    @torch.no_grad()
    def gradients(self, data: NextTokens, of: Iterable[str] = ("W_ov", "W_kq")) -> dict[str, Tensor]:
        """The gradient of the mean cross-entropy, *log-scaled*: in each trial divided by one positive factor
        for both weights, the largest probability that the right answer lacks, taken out in logs.

        The gradient in W_kq has a scale of its own, since it also lacks the losers' attention; so both are
        right in direction, and their common scale is "scale", the log of (what W_kq's was divided by over
        what W_ov's was divided by), (*trials,).

        Args:
            data: sequences and their next tokens.
            of: the weights wanted, "W_ov", "W_kq" or both.

        Returns:
            "W_ov" (*trials, V, d), "W_kq" (*trials, d, d), those of them that are wanted; if both are, also
            "scale" (*trials,).
        """
        log_s = self.logits(data).log_softmax(-1)
        X, z, target = (self._for_trials(x, data) for x in (data.X, data.z, data.target))
        s = log_s.exp()
        mixed = (s[..., None] * X).sum(-2)  # (..., n, d); products of many small matrices are slower
        log_missing, blame = _blame(mixed @ self.W_ov.mT, target)
        pulls = {}
        if "W_ov" in of:
            most = log_missing.amax(-1, keepdim=True)
            most = torch.where(most > -torch.inf, most, 0.0)  # a vocabulary of one word: nothing is missing
            weighted = blame * (log_missing - most).exp()[..., None] / blame.shape[-2]
            pulls["W_ov"] = weighted.mT @ mixed
        if "W_kq" not in of:
            return pulls

        # values of the tokens, g_t = -x_t . W_ov^T blame, against the winner's: a difference within what
        # rounding does to it is a tie, or tokens with the same next one would drift apart
        winner = log_s.argmax(-1, keepdim=True)
        apart = X - X.gather(-2, winner[..., None].expand(*winner.shape, X.shape[-1]))
        ahead = -(apart @ (blame @ self.W_ov)[..., None])[..., 0]  # (..., n, T), g_t - g_winner
        largest = self.W_ov.abs().amax(-2)[..., None, :, None]  # sum |blame| = 2
        size = (apart.abs() @ largest)[..., 0]
        loses = ahead.abs() > 2 * sum(self.W_ov.shape[-2:]) * torch.finfo(size.dtype).eps * size
        log_weight = (log_s + log_missing[..., None]).masked_fill(~loses, -torch.inf)
        top = log_weight.flatten(-2).amax(-1)
        top = torch.where(top.isfinite(), top, 0.0)
        weight = (log_weight - top[..., None, None]).exp()
        small = (s * ahead).sum(-1, keepdim=True)
        share = (weight * ahead).sum(-1, keepdim=True)
        u = torch.where(loses, weight * (ahead - small), -s * share) / s.shape[-2]
        pulls["W_kq"] = -(u[..., None] * X).sum(-2).mT @ z
        return {**pulls, "scale": top - most[..., 0]} if "W_ov" in of else pulls

    @torch.no_grad()
    def log_excess(self, data: NextTokens) -> Float[Tensor, "*trials"]:
        """log(L - L_inf), where L_inf is the cross-entropy with all attention on an optimal token.

        From differences, so that it stays right far below the rounding error of L. Each sequence needs an
        optimal token. Returns (*trials,); nan where L < L_inf, -inf where float64 cannot hold L - L_inf.
        """
        s = self.attention(data)
        X, target = self._for_trials(data.X, data), self._for_trials(data.target, data)
        best = self._for_trials(data.optimal, data).to(torch.int8).argmax(-1)[..., None, None]
        ideal = X.gather(-2, best.expand(*best.shape[:-2], 1, X.shape[-1]))
        off = (s[..., None, :] @ (X - ideal))[..., 0, :] @ self.W_ov.mT  # o - o_ideal
        log_p = (ideal[..., 0, :] @ self.W_ov.mT).log_softmax(-1)
        moved = off - off.gather(-1, target[..., None])
        # log(1 + sum p (e^moved - 1)), where e^moved may overflow though p e^moved does not
        each = torch.where(moved > 30, (log_p + moved).exp(), log_p.exp() * moved.clamp(max=30).expm1())
        excess = torch.log1p(each.sum(-1))
        excess = torch.where(excess < torch.inf, excess, torch.logsumexp(log_p + moved, -1))
        return excess.mean(-1).log()


def _blame(o: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 - pi_y), (..., n), and (pi - e_y) / (1 - pi_y), (..., n, V), for pi = softmax(o)."""
    others = o.scatter(-1, target[..., None], -torch.inf)
    log_sum = torch.logsumexp(others, -1, keepdim=True)
    lead = (log_sum - o.gather(-1, target[..., None]))[..., 0]
    blame = (others - log_sum).exp().scatter(-1, target[..., None], -1.0)
    return torch.nn.functional.logsigmoid(lead), blame


def collocation(data: NextTokens) -> NextTokens:
    """The collocation as data: one sequence for each token of the vocabulary, that token alone.

    Introduced in lesson 16.
    """
    each = torch.arange(data.following.shape[-1], device=data.following.device)
    return NextTokens(
        data.embeddings, data.following, each.expand(data.following.shape)[..., None], data.following
    )


def descend(
    model: NextTokenTransformer,
    data: NextTokens,
    steps: int,
    lr: float = 0.1,
    train: Iterable[str] = ("W_kq",),
    schedule: Callable[[int], float] | None = None,
    record: Callable[[NextTokenTransformer], Tensor] | None = None,
    every: int = 1,
) -> list[Tensor]:
    """Normalised gradient descent on the mean cross-entropy, in each trial.

        W <- W - lr schedule(j) G / ||G||,    G = dL/dW, over all weights that train together

    Stage one: ``descend(model, collocation(data), steps, train=["W_ov"])``; stage two, as it stands.

    Args:
        model: changed in place.
        data: sequences and their next tokens.
        steps: how many. lr: step length.
        train: names of the weights that move: "W_ov", "W_kq" or both.
        schedule: factor of step j = 1, 2, ..., such as :func:`mini_attn.train.growing`; None for 1.
        record, every: what to note of the model before step 1 and after each `every` steps.

    Returns:
        What `record` returned; an empty list if it is None.

    Raises:
        ValueError: other names than these, fewer than 0 steps, a factor that is not positive and finite, or
            data with trials that the model lacks.

    Introduced in lesson 16.
    """
    names = [train] if isinstance(train, str) else list(train)
    if not names or not set(names) <= {"W_ov", "W_kq"}:
        raise ValueError(f'train = {names}; expected "W_ov", "W_kq" or both')
    for name, number, fewest in (("steps", steps, 0), ("every", every, 1)):
        if not isinstance(number, Integral) or number < fewest:
            raise ValueError(f"{name} = {number!r}; expected a whole number, {fewest} or more")
    trials = joint_trials(model, data)
    if model.trials != trials:
        raise ValueError(
            f"the data have trials {tuple(data.trials)} and the model {tuple(model.trials)}; "
            f"give the model trials={tuple(trials)}, one set of weights for each"
        )
    weights = [getattr(model, name) for name in names]
    optimizer = NormalizedGD(weights, lr=lr, batch_dims=weights[0].ndim - 2)
    noted = []
    for step in range(steps + 1):
        if record is not None and step % every == 0:
            noted.append(record(model))
        if step == steps:
            break
        grads = model.gradients(data, names)
        if len(names) == 2:
            grads["W_kq"] = grads["W_kq"] * grads["scale"].exp()[..., None, None]
        for group in optimizer.param_groups:
            group["lr"] = lr * (step_factor(schedule, step + 1) if schedule else 1.0)
        with torch.no_grad():
            optimizer.move({weight: grads[name] for weight, name in zip(weights, names, strict=True)})
    return noted
