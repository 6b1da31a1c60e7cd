"""Lesson 06 at length: how often p chooses locally optimal tokens, and what the others come to."""

from course.replicate.stored import Measured
from mini_attn import data, geometry, models, optim, svm, train


def chooses_well(tokens, steps):
    """Whether p's choice is locally optimal after so many growing steps from 0, (trials,)."""
    trials, d = tokens.trials[0], tokens.X.shape[-1]
    model = models.PromptAttention(d, trials=trials)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, schedule=train.growing, progress=False)
    selected = geometry.selected_tokens(model.attention(tokens))
    target = svm.solve(svm.token_problem(tokens.keys, selected), throw=False).value
    at_target = models.PromptAttention(d, trials=trials, init=target).logits(tokens).detach()
    return geometry.locally_optimal(tokens.scores, at_target, selected)


def choices(d, *, trials, seed):
    """Random problems with n = 6, T = 8: is p's choice locally optimal after 2,000 steps, or after 10,000?"""
    tokens = data.random_tokens(n=6, T=8, d=d, trials=trials, seed=seed)
    local = chooses_well(tokens, 2000)
    later, odd = local.clone(), ~local
    if odd.any():
        part = data.TokenData(tokens.X[odd], tokens.z[odd], tokens.y[odd], tokens.v[odd], tokens.keys[odd])
        later[odd] = chooses_well(part, 10_000)
    return {"local": local, "later": later}


MEASURED = [
    Measured(
        id="06.choices",
        what="Whether p chooses locally optimal tokens in 2,000 steps, and if not, in 10,000.",
        trial=choices,
        grid={"d": [10]},
        trials=6000,
        batch=100,
        minutes=2,
    ),
]
