"""Lesson 08: descent in the plane; problems packed and scaled; their loss; random starts for the path."""

import numpy as np
import torch

from mini_attn import data, geometry, models, optim, svm, train
from mini_attn.paths import regularization_path

MEASURED = []  # plain functions: no sweep is stored


def force(p, keys, scores):
    """-grad Gamma at one point p, (d,); -grad L is a positive multiple of it. keys (T, d), scores (T,)."""
    h = keys @ p
    s = np.exp(h - h.max())
    s = s / s.sum()
    lead = scores - scores[s.argmax()]  # from the token ahead, so that nothing cancels far out (lesson 05)
    return (s * (lead - s @ lead)) @ keys


def descend(keys, scores, start, steps, length=0.05):
    """Normalised descent from start (2,) with steps of this length: (1 + steps, 2)."""
    run = [np.array(start, dtype=float)]
    for _ in range(steps):
        pull = force(run[-1], keys, scores)
        run.append(run[-1] + length * pull / np.linalg.norm(pull))
    return np.array(run)


def at_length(run, R):
    """The point of a run (steps, 2) that is nearest to length R, scaled to it."""
    p = run[np.abs(np.linalg.norm(run, axis=1) - R).argmin()]
    return p * (R / np.linalg.norm(p))


def fields(tokens):
    """What TokenData is made of; tokens.scores and tokens.optimal follow from it."""
    return tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys


def tokens_of(keys, scores):
    """TokenData of one sequence of the plane: keys (T, 2), scores (T,), both numpy."""
    scores, e1 = torch.tensor(scores), torch.tensor([1.0, 0.0], dtype=torch.float64)
    X = (scores[:, None] * e1)[None]  # x_t = (gamma_t, 0), which the head v = e1 reads as gamma_t
    return data.TokenData(X=X, z=e1[None], y=e1[:1], v=e1, keys=torch.tensor(keys)[None])


def trials_of(tokens, which):
    """Some of the trials: which is a slice, or None to make one problem a batch of one trial."""
    return data.TokenData(*(part[which] for part in fields(tokens)))


def unit_problems(trials, seed, n=3, T=4, d=10):
    """Random problems, keys scaled to ||p_mm|| = 1; their best tokens must be feasible."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    lengths = svm.solve(svm.token_problem(drawn.keys, drawn.optimal)).value.norm(dim=-1)
    return data.TokenData(*fields(drawn)[:-1], drawn.keys * lengths[:, None, None, None])


def joined(*problems):
    """The trials of several TokenData as one."""
    return data.TokenData(*map(torch.cat, zip(*map(fields, problems), strict=True)))


def mean_loss(p, keys, scores):
    """L at any number of points: p (..., d), keys (..., n, T, d), scores (..., n, T) -> (...)."""
    h = (keys @ p[..., None, :, None])[..., 0]
    ahead = scores.gather(-1, h.argmax(-1, keepdim=True))  # from the token ahead, so that nothing cancels
    signed = ahead[..., 0] + (torch.softmax(h, dim=-1) * (scores - ahead)).sum(-1)
    return torch.nn.functional.softplus(-signed).mean(-1)


def derivatives(p, keys, scores):
    """g (trials, d) and H (trials, d, d) of L by autograd, each trial at its own point p (trials, d)."""
    p = p.detach().clone().requires_grad_()
    (g,) = torch.autograd.grad(mean_loss(p, keys, scores).sum(), p, create_graph=True)
    rows = [torch.autograd.grad(entry.sum(), p, retain_graph=True)[0] for entry in g.T]
    return g.detach(), torch.stack(rows, dim=1)


def random_starts(tokens, R, times):
    """Losses at which projected steps from random starts of length R end, (trials, times)."""
    copies = data.TokenData(*(part.repeat_interleave(times, 0) for part in fields(tokens)))
    trials, d = len(copies.keys), copies.keys.shape[-1]
    p = torch.randn(trials, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model = models.PromptAttention(d, trials, init=R * p / p.norm(dim=-1, keepdim=True))
    return regularization_path(model, copies, [R], tol=1e-4).loss[0].reshape(-1, times)


def follow_and_descend(problems, radii):
    """The follower's losses (radii, trials); descent's model, from 0 to a length of about 330; whether its
    tokens are the best ones, (trials,)."""
    trials, d = len(problems.keys), problems.keys.shape[-1]
    follower = models.PromptAttention(d, trials)
    losses = regularization_path(follower, problems, radii, tol=1e-4, max_steps=200).loss
    model = models.PromptAttention(d, trials)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.02, batch_dims=1)
    train.fit(model, problems, optimizer, 17000, progress=False)
    same = (geometry.selected_tokens(model.attention(problems)) == problems.optimal).all(dim=-1)
    return losses, model, same
