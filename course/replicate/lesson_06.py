"""Lesson 06 at length: how often p chooses locally optimal tokens, and what the others come to."""

import numpy as np
import torch
from scipy.integrate import solve_ivp

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


def pushes_off(keys, scores, selected):
    """The comparisons k_alpha - k_t (n (T - 1), d) of one problem, and |l'| (gamma_alpha - gamma_t)."""
    own = np.arange(keys.shape[1]) == selected[:, None]  # (n, T)
    best = scores[own][:, None]
    strength = (best - scores) / (1 + np.exp(best))
    return (keys[own][:, None] - keys)[~own], strength[~own]


def flow_until_lost(A, strength, p, better):
    """From p at unit speed along the far force, until a row of ``better`` leads by 5: the path (steps, d)."""

    def direction(_, p):
        lead = A @ p
        force = (strength * np.exp(lead.min() - lead)) @ A
        return force / np.linalg.norm(force)

    def nearly_lost(_, p):
        return (A[better] @ p).min() - 5

    nearly_lost.terminal = True
    found = solve_ivp(direction, (0, 1e6), p, method="LSODA", events=nearly_lost, rtol=1e-6, atol=1e-6)
    return found.y.T, len(found.t_events[0]) == 1


def followed(d, *, trials, seed):
    """The problems of ``choices``; each choice that is not locally optimal is followed until it is lost.

    ``F``: by how much the lead over the better support token falls short of 1 at the SVM of all other
    comparisons; ``assumed``: the same if the other support tokens stay tight. ``lead``, ``excess``: after
    2,000 growing steps; ``lost``: the lead when it is lost. NaN for choices that are locally optimal.
    ``local``: whether growing steps taken on to the 10,000th come to a choice that is locally optimal.
    """
    tokens = data.random_tokens(SEQUENCES, LENGTH, d, trials=trials, seed=seed)
    p = follow(tokens, [2000], schedule=train.growing)[-1]
    odd = torch.where(~state(tokens, p)[0])[0].tolist()
    names = ("F", "assumed", "lead", "excess", "lost")
    out = {name: np.full(trials, np.nan, np.float32) for name in names}
    out["local"] = np.zeros(trials, bool)
    for trial in odd:
        part = data.TokenData(*(x[[trial]] for x in (tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys)))
        selected = geometry.selected_tokens(
            models.PromptAttention(d, trials=1, init=p[[trial]]).attention(part)
        )
        p_mm = svm.solve(svm.token_problem(part.keys, selected)).value[0].numpy()
        selected = selected[0].numpy()
        A, strength = pushes_off(part.keys[0].numpy(), part.scores[0].numpy(), selected)
        tight = np.isclose(A @ p_mm, 1, atol=1e-5)
        better = np.flatnonzero(tight & (strength < 0))
        path, lost = flow_until_lost(A, strength, p[trial].numpy(), better)
        row = better[(A[better] @ path[-1]).argmin()]
        rest = torch.tensor(np.delete(A, row, axis=0))
        without = svm.solve(svm.HardMarginProblem(rest, None, torch.ones(len(rest)).double())).value.numpy()
        others = np.delete(A[tight], tight[:row].sum(), axis=0)
        assumed = np.linalg.pinv(others) @ np.ones(len(others))
        lead = np.delete(path @ A.T, row, axis=1).min(axis=1)
        excess = path @ A[row] - lead
        out["F"][trial], out["assumed"][trial] = 1 - A[row] @ without, 1 - A[row] @ assumed
        out["lead"][trial], out["excess"][trial] = lead[0], excess[0]
        if lost:
            out["lost"][trial] = lead.max()
        out["local"][trial] = state(part, follow(part, [10_000], schedule=train.growing)[-1])[0][0]
    return out


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
        id="06.followed",
        what="What becomes of the choices of p that are not locally optimal, in ten dimensions.",
        trial=followed,
        grid={"d": [10]},
        trials=6000,
        batch=100,
        minutes=2,
    ),
    Measured(
        id="06.trained_on",
        what="Whether p stands still where its choice is not locally optimal, in three dimensions.",
        trial=trained_on,
        grid={"d": [3], "steps": [5000, 20000, 100000]},
        trials=600,
        batch=100,
        paired=("steps",),
        minutes=2,
    ),
]
