"""Lesson 06 at length: how often p chooses locally optimal tokens, and what the others come to."""

import numpy as np

from course.replicate.stored import Measured
from mini_attn import data, geometry, models, optim, svm, train

SEQUENCES, LENGTH = 6, 8
STEPS = [100, 300, 1000, 2000]


def follow(tokens, steps, weights=None, schedule=None):
    """Train p by normalised steps of 0.1, times the schedule: where it is after each of so many steps."""
    trials, d = tokens.trials[0], tokens.X.shape[-1]
    model = models.PromptAttention(d, trials=trials, init=weights)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    options = {"record": {"p": lambda m: m.p}, "every": steps, "schedule": schedule, "progress": False}
    return train.fit(model, tokens, optimizer, steps[-1], **options)["p"][-len(steps) :]


def state(tokens, p):
    """What p has chosen: locally optimal; soft: some sequence gives no token 99%; cosine to its Att-SVM."""
    trials, d = p.shape
    s = models.PromptAttention(d, trials=trials, init=p).attention(tokens).detach()
    selected = geometry.selected_tokens(s)
    target = svm.solve(svm.token_problem(tokens.keys, selected), throw=False).value
    at_target = models.PromptAttention(d, trials=trials, init=target).logits(tokens).detach()
    local = geometry.locally_optimal(tokens.scores, at_target, selected)
    return local, s.amax(-1).amin(-1) < 0.99, geometry.cosine(p, target)


def choices(d, *, trials, seed):
    """What p has chosen after each of STEPS growing steps from 0, in random problems with n = 6, T = 8."""
    tokens = data.random_tokens(SEQUENCES, LENGTH, d, trials=trials, seed=seed)
    path = follow(tokens, STEPS, schedule=train.growing)
    local, soft, cosine = (
        np.stack(one, axis=-1) for one in zip(*(state(tokens, p) for p in path), strict=True)
    )
    return {"local": local, "soft": soft, "close": cosine > 0.995}


def trained_on(d, steps, *, trials, seed):
    """The choices that are not locally optimal after 2,000 growing steps, after more steps of length 0.1.

    ``share``: distance covered in the last 1,000 steps, as a share of their length; NaN for the others.
    """
    tokens = data.random_tokens(SEQUENCES, LENGTH, d, trials=trials, seed=seed)
    p = follow(tokens, [2000], schedule=train.growing)[-1]
    odd = ~state(tokens, p)[0]
    part = data.TokenData(tokens.X[odd], tokens.z[odd], tokens.y[odd], tokens.v[odd], tokens.keys[odd])
    before, after = follow(part, [steps - 1000, steps], weights=p[odd])
    found = {
        "share": np.full(trials, np.nan, np.float32),
        "local": ~odd.numpy(),
        "soft": np.zeros(trials, bool),
    }
    found["share"][odd] = (after - before).norm(dim=-1) / 100
    local, soft, _ = state(part, after)
    found["local"][odd], found["soft"][odd] = local, soft
    return found


MEASURED = [
    Measured(
        id="06.choices",
        what="Which choices of p are locally optimal, after 100, 300, 1,000 and 2,000 steps.",
        trial=choices,
        grid={"d": [3, 10]},
        trials=6000,
        batch=100,
        minutes=3,
    ),
    Measured(
        id="06.trained_on",
        what="Whether p stands still where its choice is not locally optimal, in three dimensions.",
        trial=trained_on,
        grid={"d": [3], "steps": [5000, 20000]},
        trials=600,
        batch=100,
        paired=("steps",),
        minutes=2,
    ),
]
