"""Lesson 14 at length: which choices of tokens one W can make for all positions, and which training makes."""

from itertools import product

import numpy as np
import torch

from course.replicate.stored import Measured
from mini_attn import data, geometry, models, optim, svm, train


def positions(n, T, d, mask, *, trials, seed):
    """Random tokens in which every position asks, with a fair label of its own; mask: "full" or "causal"."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    y = 2.0 * torch.randint(0, 2, (trials, n, T), generator=generator).to(torch.float64) - 1.0
    return data.every_position(drawn.X, y, drawn.v, causal=mask == "causal")


def random_choice(tokens, seed):
    """For each position one of the tokens that it sees, all with the same probability."""
    chance = torch.rand(tokens.scores.shape, generator=torch.Generator().manual_seed(seed + 2))
    return chance.masked_fill(~tokens.scores.isfinite(), -1.0).argmax(-1)


def reached(problems):
    """Whether some W makes the choice, in each trial."""
    status = svm.solve(problems, throw=False).status
    assert "stopped" not in status  # "unreachable", very rare, is infeasible up to rounding
    return status == "optimal"


def feasible(n, T, mask, d, *, trials, seed):
    """Whether some W makes a random choice of tokens, and whether some W makes the best choice."""
    tokens = positions(n, T, d, mask, trials=trials, seed=seed)
    choices = {"random": random_choice(tokens, seed), "best": tokens.optimal}
    return {name: reached(svm.sequence_problem(tokens, choice)) for name, choice in choices.items()}


def feasible_by_size(size, tokens, *, trials, seed):
    """Whether some W makes a random choice, with full attention, for a size "n T d".

    Args:
        tokens: "shared": of length one, the same for all positions of a sequence, which ask with them;
            "own": of length one, each position has its own and a Gaussian query; "Gaussian": its own, not
            scaled to length one.
    """
    n, T, d = map(int, size.split())
    if tokens == "shared":
        return {"random": feasible(n, T, "full", d, trials=trials, seed=seed)["random"]}
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(trials, n * T, T, d, dtype=torch.float64, generator=generator)
    z = torch.randn(trials, n * T, d, dtype=torch.float64, generator=generator)
    choice = torch.randint(0, T, (trials, n * T), generator=generator)
    X = X if tokens == "Gaussian" else X / X.norm(dim=-1, keepdim=True)
    return {"random": reached(svm.attention_problem(X, z, choice))}


def share_feasible(seen, d, share_of):
    """Lesson 12's Proposition, the mean of (-1)^(J - R): which share of random choices some W makes.

    Args:
        seen: how many tokens each position sees.
        d: the dimension.
        share_of: for each number of tokens seen, the shares of draws with 0, 1, 2, ... ties.
    """
    # signed chances: b positions with d ties or more, S ties in the rest
    chance = np.zeros((len(seen) + 1, sum(seen) + 1))
    chance[0, 0] = 1
    for m in seen:
        now = np.zeros_like(chance)
        for ties, share in enumerate(share_of[m]):
            if ties >= d:
                now[1:] += (-1) ** ties * share * chance[:-1]
            else:
                now[:, ties:] += (-1) ** ties * share * chance[:, : chance.shape[1] - ties]
        chance = now
    b, S = np.indices(chance.shape)
    R = d * np.minimum(b, d) + np.minimum(d * np.maximum(d - b, 0), S)
    return float((chance * (-1.0) ** R).sum())


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


def stored_choices(few, longer):
    """Whether some W makes the random choice: (mask, n, T, d) -> one answer a trial; from the two sweeps."""
    found = {}
    for mask, n, T, d in product(("full", "causal"), (1, 3, 6), (3, 5), few.d.values.tolist()):
        found[mask, n, T, d] = few.random.sel(mask=mask, n=n, T=T, d=d).values
    for size in longer["size"].values:
        key = ("full", *map(int, size.split()))
        more = longer.random.sel(size=size, tokens="shared").values
        found[key] = np.append(found.get(key, np.zeros(0, dtype=bool)), more)
    return found


def others_flipped(tokens, T, which):
    """The runs that reverse the pull on one position each: all other labels of its sequence change sign.

    Args:
        tokens: of full attention, (runs, n T) examples.
        which: the positions, (runs, n T) bool.

    Returns:
        One run for each of these positions, and the index of the position in it: a pair of arrays.
    """
    run, at = np.nonzero(which)
    new, (i, k) = np.arange(len(run)), np.divmod(at, T)
    y = tokens.y[run].unflatten(-1, (-1, T))
    y[new, i] *= -1
    y[new, i, k] *= -1  # its own label stays
    return data.every_position(tokens.X[run], y, tokens.v[run]), (new, at)


SHAPES = ["1 3 2", "1 5 3", "6 5 6", "2 8 4", "2 8 5", "2 8 6", "1 16 5", "1 16 6", "1 16 7"]
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
        minutes=1,
    ),
    Measured(
        "14.longer",
        "Which random choices one W can make, for longer sequences too, and of which tokens.",
        feasible_by_size,
        {"size": SHAPES, "tokens": ["shared", "own", "Gaussian"]},
        trials=300,
        batch=60,
        minutes=1.5,
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
        minutes=1.75,
    ),
]
