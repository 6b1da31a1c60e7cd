"""The second paper's own way of training (K, Q), as its public code does it, beside ours."""

import torch
from measure import pairs
from torch import nn

from mini_attn import data, geometry, models, optim, svm, train

EPS = torch.finfo(torch.float64).eps  # the ridge in the public code


def _start(d, trials):
    """torch's default start of nn.Linear, U(-1/sqrt d, 1/sqrt d), for K and Q: (trials, d, d) each."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, trials, d, d)
    return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) / d**0.5


def _ours(tokens, start, steps, ridge, schedule=None):
    trials, d = tokens.trials[0], tokens.X.shape[-1]
    model = models.FactoredAttention(d, d, trials=trials)
    with torch.no_grad():
        model.K.copy_(start[0])
        model.Q.copy_(start[1])
    groups = [{"params": [model.K]}, {"params": [model.Q]}]
    optimizer = optim.NormalizedGD(groups, lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, progress=False, ridge=ridge, schedule=schedule)
    return model.W.detach(), model.attention(tokens).detach()


def _by_hand(tokens, start, steps, ridge, trial):
    """One trial: two layers, torch's softmax, a ridge of one epsilon, each gradient divided by its norm."""
    X, z, y, v = (part[trial] for part in (tokens.X, tokens.z, tokens.y, tokens.v))
    K, Q = (w[trial].clone().requires_grad_() for w in start)
    for _ in range(steps):
        s = torch.softmax((X @ (z @ Q @ K.T)[..., None]).squeeze(-1), -1)
        loss = nn.functional.softplus(-y * ((s[..., None] * X).sum(-2) @ v)).mean()
        loss = loss + ridge * (K.square().sum() + Q.square().sum())
        grads = torch.autograd.grad(loss, (K, Q))
        with torch.no_grad():
            for w, g in zip((K, Q), grads, strict=True):
                w -= 0.1 * g / g.norm()
    with torch.no_grad():
        W = K @ Q.T
        return W, torch.softmax((X @ (z @ W.T)[..., None]).squeeze(-1), -1)


def _cosines(tokens, W, attention):
    """Of W with the nuclear SVM of the tokens that it selects, (trials,)."""
    problem = svm.attention_problem(tokens.X, tokens.z, geometry.selected_tokens(attention))
    return geometry.cosine(W, svm.solve(problem, norm="nuc", throw=False).value)


def published(quick):
    trials, part, steps, repeats = (3, 1, 20, 1) if quick else (40, 2, 2000, 3)
    tokens = data.random_tokens(n=6, T=8, d=10, trials=trials, seed=0)
    start = _start(10, trials)
    rows = []
    for ridge, schedule in ((EPS, None), (0.0, None), (0.0, train.growing)):
        found, by_hand, turn = {}, {}, iter(range(10**6))

        def ours(ridge=ridge, schedule=schedule, found=found):
            found["W"], found["attention"] = _ours(tokens, start, steps, ridge, schedule)
            return trials

        def theirs(ridge=ridge, by_hand=by_hand, turn=turn):
            for _ in range(part):
                trial = next(turn) % trials
                by_hand[trial] = _by_hand(tokens, start, steps, ridge, trial)
            return part

        measured = pairs(ours, theirs, repeats)
        same = sorted(by_hand)
        own = _cosines(tokens, **found)
        some = data.TokenData(*(getattr(tokens, name)[same] for name in ("X", "z", "y", "v")))
        other = _cosines(some, *(torch.stack([by_hand[k][i] for k in same]) for i in (0, 1)))
        rows.append(
            {
                "ridge": ridge,
                "steps": f"{steps} {'growing' if schedule else 'constant'}",
                "ours_ms_a_trial": 1e3 * measured["seconds_per_unit"],
                "by_hand_ms_a_trial": 1e3 * measured["baseline_seconds_per_unit"],
                "times_faster": measured["times_faster"],
                "cosine_mean": float(own.nanmean()),
                "cosine_least": float(own[~own.isnan()].amin()),
                "cosine_same_trials": float(own[same].nanmean()),
                "cosine_by_hand": float(other.nanmean()),
                "trials": trials,
                "by_hand_trials": len(same),
                "repeats": repeats,
            }
        )
    title = (
        "(K, Q) as in the second paper: normalised apart, torch's start; nuclear cosines; by hand 2,000 steps"
    )
    return title, rows
