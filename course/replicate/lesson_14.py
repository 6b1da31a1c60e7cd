"""Lesson 14 at length: which choices of tokens one W can make for all positions, and which training makes."""

import dataclasses

import torch

from course.replicate.stored import Measured
from mini_attn import data, geometry, models, optim, svm, train


def positions(n, T, d, mask, *, trials, seed):
    """Random tokens in which every position asks, with a fair label of its own.

    Args:
        mask: what a position k = 1, ..., T sees. "full": everything; "causal": t <= k; "shuffled": as many
            tokens as when causal, but random ones; "three": three random tokens, for all k; "no runner-up":
            all but its second best token; "no other one": all but a random token that is neither best nor
            second best.
    """
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    y = 2.0 * torch.randint(0, 2, (trials, n, T), generator=generator).to(torch.float64) - 1.0
    order = torch.rand(trials, n, T, T, generator=generator)
    tokens = data.every_position(drawn.X, y, drawn.v, causal=mask == "causal")
    if mask in ("full", "causal"):
        return tokens
    if mask in ("shuffled", "three"):
        number = torch.arange(1, T + 1)[:, None] if mask == "shuffled" else 3
        sees = order.argsort(-1).argsort(-1) < number
    else:
        rank = tokens.scores.argsort(-1, descending=True).argsort(-1).unflatten(-2, (n, T))
        place = 1 if mask == "no runner-up" else 2 + (order[..., :1] * (T - 2)).long()
        sees = rank != place
    return dataclasses.replace(tokens, mask=sees.flatten(-3, -2))


def random_choice(tokens, seed):
    """For each position one of the tokens that it sees, all with the same probability."""
    chance = torch.rand(tokens.scores.shape, generator=torch.Generator().manual_seed(seed + 2))
    return chance.masked_fill(~tokens.scores.isfinite(), -1.0).argmax(-1)


def feasible(n, T, mask, d, *, trials, seed):
    """Whether some W makes a random choice of tokens, and whether some W makes the best choice."""
    tokens = positions(n, T, d, mask, trials=trials, seed=seed)
    found = {}
    for name, choice in (("random", random_choice(tokens, seed)), ("best", tokens.optimal)):
        status = svm.solve(svm.sequence_problem(tokens, choice), throw=False).status
        assert "stopped" not in status  # "unreachable", very rare, is infeasible up to rounding
        found[name] = status == "optimal"
    return found


def feasible_by_size(size, *, trials, seed):
    """Whether some W makes a random choice, with full attention, for a size "n T d"."""
    n, T, d = map(int, size.split())
    return {"random": feasible(n, T, "full", d, trials=trials, seed=seed)["random"]}


def attention_after(tokens, *steps):
    """Attention after so many growing normalised steps from W = 0, and W: one pair for each of ``steps``."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    record = {"s": lambda model: model.attention(tokens), "W": lambda model: model.W}
    every = (0, *steps)
    options = {"record": record, "every": every, "schedule": train.growing, "progress": False}
    history = train.fit(model, tokens, optimizer, steps[-1], **options)
    return [(history["s"][every.index(step)], history["W"][every.index(step)]) for step in steps]


def pulled_wrongly(tokens, n, T):
    """Whose y_k f_k the own sequence's part of the first step from W = 0 lowers: (..., n, T).

    To first order, all positions with the same slope of the loss: W moves along the sum over k of
    y_k u_k x_k^T, where u_k is the sum over the tokens in sight of s_kt (v.x_t - f_k) x_t.
    """
    sees = tokens.scores.isfinite().unflatten(-2, (n, T))
    values = (tokens.X @ tokens.v[..., None, :, None])[..., 0][..., None, :]  # (..., n, 1, T)
    s = sees / sees.sum(-1, keepdim=True)
    lean = s * (values - (s * values).sum(-1, keepdim=True))  # u_k = sum over t of lean_kt x_t
    inner = tokens.X @ tokens.X.mT
    y = tokens.y.unflatten(-1, (n, T))
    return y * ((lean @ inner @ lean.mT * inner) @ y[..., None])[..., 0] < 0


def misses(size, mask, *, trials, seed):
    """Which positions miss their best token, for a size "n T d": (n, 16), filled up with False.

    A miss is a position whose largest attention, after 500 steps, is not on its best token. Also which
    positions the first step pulls the wrong way, for which it raises the logit of another token more than
    that of the best, and whether some W has the best token at all positions.
    """
    n, T, d = map(int, size.split())
    tokens = positions(n, T, d, mask, trials=trials, seed=seed)
    after = attention_after(tokens, 1, 500)
    other, missed = ((geometry.selected_tokens(s) != tokens.optimal).unflatten(-1, (n, T)) for s, _ in after)
    status = svm.solve(svm.sequence_problem(tokens, tokens.optimal), throw=False).status
    found = {"missed": missed, "wrong": pulled_wrongly(tokens, n, T), "other": other}
    filled = {name: torch.nn.functional.pad(one, (0, 16 - T)) for name, one in found.items()}
    return {**filled, "feasible": status == "optimal"}


LONG = ["2 8 4", "2 8 5", "2 8 6", "1 16 5", "1 16 6", "1 16 7"]
SIZES = ["2 3 5", "2 5 7", "2 8 10", "2 16 16"]

MEASURED = [
    Measured(
        "14.feasible",
        "Which random and which best choices one W can make, against n, T, d and the mask.",
        feasible,
        {"n": [1, 3, 6], "T": [3, 5], "mask": ["full", "causal"], "d": list(range(2, 10))},
        trials=300,
        batch=60,
        paired=("mask",),
        minutes=2,
    ),
    Measured(
        "14.longer",
        "Which random choices one W can make for longer sequences.",
        feasible_by_size,
        {"size": LONG},
        trials=100,
        batch=20,
        minutes=1,
    ),
    Measured(
        "14.misses",
        "Which positions miss their best token, full and causal, what the first step does to each, and "
        "whether some W would have it everywhere.",
        misses,
        {"size": SIZES, "mask": ["full", "causal"]},
        trials=720,
        batch=120,
        paired=("mask",),
        minutes=4,
    ),
]
