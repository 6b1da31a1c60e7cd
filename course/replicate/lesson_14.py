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


def attention_after(tokens, *steps):
    """Attention after so many growing normalised steps from W = 0, and W: one pair for each of ``steps``."""
    model = models.CrossAttention(tokens.X.shape[-1], trials=tokens.trials[0])
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    record = {"s": lambda model: model.attention(tokens), "W": lambda model: model.W}
    every = (0, *steps)
    options = {"record": record, "every": every, "schedule": train.growing, "progress": False}
    history = train.fit(model, tokens, optimizer, steps[-1], **options)
    return [(history["s"][every.index(step)], history["W"][every.index(step)]) for step in steps]


def misses(n, mask, d, *, trials, seed):
    """Which positions miss their best of T = 5 tokens after 500 steps, and how close its runner-up was."""
    tokens = positions(n, 5, d, mask, trials=trials, seed=seed)
    ((attention, _),) = attention_after(tokens, 500)
    missed = geometry.selected_tokens(attention) != tokens.optimal
    top = tokens.scores.topk(2, dim=-1).values
    seen = tokens.scores.masked_fill(~tokens.scores.isfinite(), torch.inf).amin(-1)
    apart = ((top[..., 0] - top[..., 1]) / (top[..., 0] - seen)).nan_to_num(1.0)  # of the best two, 0 to 1
    last = torch.arange(5 * n) % 5 == 4
    quarter = (apart > apart.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=apart.dtype))[:, None, None]).sum(
        0
    )
    numbers = {f"missed_{j + 1}": (missed & (quarter == j)).sum(-1) for j in range(4)}
    numbers |= {"missed": missed.sum(-1), "missed_last": (missed & last).sum(-1)}
    best = geometry.outcome(attention, tokens) == "global"
    return {name: one.to(torch.int16) for name, one in numbers.items()} | {"global": best}


def half(n, d, *, trials, seed):
    """As ``misses``, where half of the positions see all T = 5 tokens and the others only themselves."""
    tokens = positions(n, 5, d, "full", trials=trials, seed=seed)
    turn = torch.rand(trials, 5 * n, generator=torch.Generator().manual_seed(seed + 3)).argsort(-1)
    asks = (
        turn < (5 * n + torch.arange(trials)[:, None] % 2) // 2
    )  # if 5 n is odd, one more in each other trial
    itself = torch.eye(5, dtype=torch.bool).repeat(n, 1)
    tokens = dataclasses.replace(tokens, mask=asks[..., None] | itself)
    ((attention, _),) = attention_after(tokens, 500)
    missed = geometry.selected_tokens(attention) != tokens.optimal
    best = geometry.outcome(attention, tokens) == "global"
    return {"missed": missed.sum(-1).to(torch.int16), "global": best}


def crowded(n, m, d, *, trials, seed, T=8):
    """How often a position misses the best of 8 random tokens after 500 steps: the last one of each of n
    sequences of T tokens, in a crowd of others that see m random ones."""
    tokens = positions(n, T, d, "full", trials=trials, seed=seed)
    order = torch.rand(trials, n, T, T, generator=torch.Generator().manual_seed(seed + 4))
    number = torch.tensor([m] * (T - 1) + [8])[:, None]
    sees = order.argsort(-1).argsort(-1) < number
    tokens = dataclasses.replace(tokens, mask=sees.flatten(-3, -2))
    ((attention, _),) = attention_after(tokens, 500)
    missed = geometry.selected_tokens(attention) != tokens.optimal
    return {"missed": missed[:, T - 1 :: T].sum(-1).to(torch.int16)}


def new_crowd(crowd, *, trials, seed):
    """As ``crowded``, for "n T m d"."""
    n, T, m, d = map(int, crowd.split())
    return crowded(n, m, d, trials=trials, seed=seed, T=T)


NEW = ["12 8 2 12", "40 8 8 16", "45 8 8 24", "10 12 4 12", "20 16 2 16", "8 16 8 12", "6 24 3 10"]

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
        "14.controls",
        "Positions that miss their best token when all see three random tokens, beside three other masks.",
        misses,
        {"n": [3], "mask": ["full", "causal", "shuffled", "three"], "d": [6, 8, 12, 20]},
        trials=480,
        batch=120,
        paired=("mask",),
        minutes=3,
    ),
    Measured(
        "14.half",
        "Positions that miss their best token when only half of them ask.",
        half,
        {"n": [3], "d": [6, 8, 12, 20]},
        trials=480,
        batch=120,
        minutes=1,
    ),
    Measured(
        "14.crowding",
        "Positions that miss their best of all tokens, against how many sequences a batch has and how many "
        "tokens the other positions see.",
        crowded,
        {"n": [5, 8, 20], "m": [2, 3, 8], "d": [8, 16]},
        trials=240,
        batch=60,
        paired=("m",),
        minutes=3,
    ),
    Measured(
        "14.new_crowds",
        "As 14.crowding, in crowds of other sizes: sequences, tokens, tokens seen and dimension.",
        new_crowd,
        {"crowd": NEW},
        trials=240,
        batch=60,
        minutes=4,
    ),
]
