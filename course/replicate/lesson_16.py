"""Lesson 16 at length: which lead of W_ov keeps attention free, who stays trapped, data with cycles."""

import numpy as np
import torch
from torch import Tensor

from course.replicate.stored import Measured
from mini_attn import geometry, next_token, svm, train, vocabulary

V = 20  # as published


def trained(n, T, d, queries, lead, steps, *, trials, seed, targets=None):
    """Both stages: W_ov from its SVM, `lead` long in units of it, and W_kq from 0 by growing steps."""
    data, _ = vocabulary.next_tokens(n, T, V, d, queries, targets, trials, seed)
    W_ov = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = next_token.NextTokenTransformer(V, d or V, trials, W_ov=lead * W_ov)
    next_token.descend(model, data, steps, schedule=train.growing)
    return data, model.requires_grad_(False)


def off(data, model):
    """Which sequences are wrong: under half of their attention is on optimal tokens, (trials, n) bool."""
    return (model.attention(data) * data.optimal).sum(-1) < 0.5


def trapped(d, lead, *, trials, seed):
    """Sequences on a wrong token after 400 steps, for n = 60, T = 5 and 10 queries; d = 0: unit vectors."""
    data, model = trained(60, 5, d or None, 10, lead, 400, trials=trials, seed=seed)
    solution = svm.solve(svm.order_problem(data.embeddings, vocabulary.priorities(data)))
    return {
        "wrong": off(data, model).sum(-1).to(torch.int16),
        "cosine": geometry.cosine(model.W_kq, solution.value).numpy().astype(np.float32),
        "mistakes": (model.predicted(data) != data.target).sum(-1).to(torch.int16),
    }


def longer(d, lead, *, trials, seed):
    """Sequences on a wrong token after 400 steps, as in `trapped`, and after 4,000 where there was one."""
    data, model = trained(60, 5, d or None, 10, lead, 400, trials=trials, seed=seed)
    wrong = off(data, model).sum(-1).to(torch.int16)
    still, k = wrong.clone(), wrong.nonzero()[:, 0]
    if len(k):
        some = vocabulary.NextTokens(data.embeddings[k], data.following[k], data.tokens[k], data.target[k])
        caught = next_token.NextTokenTransformer(V, d or V, len(k), model.W_ov[k], model.W_kq[k])
        next_token.descend(caught, some, 3600, schedule=lambda step: train.growing(400 + step))
        still[k] = off(some, caught).sum(-1).to(torch.int16)
    return {"wrong": wrong, "still": still}


def above(data, s, out):
    """The height H of the loser with most attention minus the optimal token's, the least of `out` (trials,).

    In the SVM of all sequences but `out`, (trials, n) bool, whose margin is 1; losers that share a sequence's
    attention s, (trials, n, T), are level there. inf where `out` is empty.
    """
    query = data.tokens[..., -1]
    tokens = torch.where(out[..., None], query[..., None], data.tokens)  # which asks for nothing
    target = torch.where(out, data.following.gather(-1, query), data.target)
    others = vocabulary.NextTokens(data.embeddings, data.following, tokens, target)
    asked = vocabulary.priorities(others)
    tied, losers = torch.zeros_like(asked), s * ~data.optimal
    for trial, i in out.nonzero().tolist():
        share = data.tokens[trial, i, losers[trial, i] > 0.05]
        tied[trial, query[trial, i], share[:1], share[1:]] = share[:1] != share[1:]
    W = svm.solve(svm.order_problem(data.embeddings, asked, tied)).value
    h = (data.X @ (data.z @ W.mT)[..., None])[..., 0]
    height = h.gather(-1, losers.argmax(-1, keepdim=True))[..., 0]
    lead = height - h.masked_fill(~data.optimal, -torch.inf).amax(-1)
    return lead.masked_fill(~out, torch.inf).amin(-1).to(torch.float32)


def silent(n, lead, *, trials, seed):
    """H of the wrong sequences after 400 steps, unit vectors, and of a right one, drawn at random.

    For n = 60 the data sets of `longer`. Right ones count if they hold a loser.
    """
    data, model = trained(n, 5, None, 10, lead, 400, trials=trials, seed=seed)
    wrong, s = off(data, model), model.attention(data)
    chance = torch.rand(trials, n, generator=torch.Generator().manual_seed(seed))
    drawn = (chance * (~wrong & ~data.optimal.all(-1))).argmax(-1)
    one = torch.arange(n) == drawn[:, None]
    return {
        "wrong": wrong.sum(-1).to(torch.int16),
        "above": above(data, s, wrong),
        "above_right": above(data, s, one),
    }


def general(n, T, tokens, d, *, trials, seed) -> vocabulary.NextTokens:
    """Any data: random sequences, and as the answer any of their tokens; unit embeddings, next(c) = c."""
    generator = torch.Generator().manual_seed(seed)
    E = torch.randn(trials, tokens, d, generator=generator, dtype=torch.float64)
    drawn = (torch.rand(trials, n, T, generator=generator) * tokens).long()
    place = (torch.rand(trials, n, 1, generator=generator) * T).long()
    itself = torch.arange(tokens).expand(trials, tokens).contiguous()
    target = drawn.gather(-1, place)[..., 0]
    return vocabulary.NextTokens(E / E.norm(dim=-1, keepdim=True), itself, drawn, target)


def pull(W: Tensor, data: vocabulary.NextTokens) -> Tensor:
    """The gradient of mean_i -log(attention on tokens equal to y_i), free of cancellation, (trials, d, d)."""
    X, z, optimal = data.X, data.z, data.optimal
    h = (X @ (z @ W.mT)[..., None])[..., 0]
    s = h.softmax(-1)
    within = h.masked_fill(~optimal, -torch.inf).softmax(-1)
    loses = (s * ~optimal).sum(-1, keepdim=True)
    u = torch.where(optimal, -within * loses, s) / s.shape[-2]
    return (u[..., None, :] @ X)[..., 0, :].mT @ z


def finite_part(data: vocabulary.NextTokens, steps: int = 60) -> tuple[Tensor, Tensor]:
    """W_fin: the shortest minimiser of the same loss, each sequence reduced to its answer's component.

    Newton's method with pseudo-inverses from 0: what has no curvature is never entered.

    Returns:
        W_fin (trials, d, d), and the norm of what remains of the gradient (trials,).
    """
    X, z, optimal = data.X, data.z, data.optimal
    together = vocabulary.same_component(vocabulary.priorities(data))  # (trials, V, V, V)
    each = torch.arange(len(X))[:, None]
    inside = together[each, data.tokens[..., -1], data.target].gather(-1, data.tokens)  # (trials, n, T)
    rows = torch.einsum("bntd,bne->bntde", X, z).flatten(-2)
    W = X.new_zeros(len(X), rows.shape[-1])
    for _ in range(steps):
        h = torch.einsum("bntk,bk->bnt", rows, W).masked_fill(~inside, -torch.inf)
        s, within = h.softmax(-1), h.masked_fill(~optimal, -torch.inf).softmax(-1)
        G = torch.einsum("bnt,bntk->bk", s - within, rows)
        centred = rows - torch.einsum("bnt,bntk->bnk", s, rows)[:, :, None]
        H = torch.einsum("bnt,bntk,bntl->bkl", s, centred, centred)
        move = (torch.linalg.pinv(H, rtol=1e-9, hermitian=True) @ G[..., None])[..., 0]
        W = W - move / move.norm(dim=-1, keepdim=True).clamp(min=1.0)
    return W.unflatten(-1, z.shape[-1:] * 2), G.norm(dim=-1)


def on_rows(pairs: Tensor, E: Tensor) -> Tensor:
    """The projection on the span of (e_a - e_b) e_q^T over pairs [q, a, b], (trials, d^2, d^2)."""
    between = E[:, :, None] - E[:, None]
    within = torch.einsum("xqab,xabi,xabj->xqij", pairs.to(E.dtype), between, between)
    S = torch.einsum("xqij,xqk,xql->xikjl", within, E, E).flatten(3).flatten(1, 2)
    return torch.linalg.pinv(S, rtol=1e-9, hermitian=True) @ S


def cycles(steps, *, trials, seed):
    """n = 6, T = 4, six tokens, d = 8: W after steps of length .01 from 0 against W_fin + R W_dir.

    "both", "direction", "minus": cosines of W to R W_dir with W_fin, 0 and -W_fin beside it. "inside": how
    far W and W_fin are apart on the rows of tied pairs, where W_dir is 0.
    """
    data = general(6, 4, 6, 8, trials=trials, seed=seed)
    above = vocabulary.priorities(data)
    tied = above & vocabulary.same_component(above)
    W_dir = svm.solve(svm.order_problem(data.embeddings, above, tied)).value
    W_fin, rest = finite_part(data)
    assert rest.max() < 1e-9
    W = torch.zeros_like(W_dir)
    for _ in range(steps):
        G = pull(W, data)
        W = W - 0.01 * G / G.flatten(1).norm(dim=1)[:, None, None].clamp(min=1e-300)
    size = W_dir.square().sum((1, 2), keepdim=True).clamp(min=1e-300)

    def multiple(W):
        return (W * W_dir).sum((1, 2), keepdim=True) / size * W_dir

    def near(limit):
        return geometry.cosine(W, limit + multiple(W - limit)).numpy().astype(np.float32)

    def length(W):
        return W.flatten(1).norm(dim=1).numpy().astype(np.float32)

    plain = svm.solve(svm.order_problem(data.embeddings, above), throw=False)
    return {
        "both": near(W_fin),
        "direction": near(torch.zeros_like(W)),
        "minus": near(-W_fin),
        "cyclic": tied.flatten(1).any(1),
        "solvable": plain.status == "optimal",
        "rest": length(W - W_fin - multiple(W - W_fin)),
        "inside": length(on_rows(tied, data.embeddings) @ (W - W_fin).flatten(1)[..., None]),
        "W_fin": length(W_fin),
        "W": length(W),
    }


MEASURED = [
    Measured(
        "16.trapped",
        "How many sequences end on a wrong token, against the lead that W_ov gives the right answer.",
        trapped,
        {"d": [0, 20], "lead": [0.25, 1.0, 2.0, 4.0, 8.0]},
        trials=60,
        batch=10,
        paired=("d", "lead"),
        minutes=1,
    ),
    Measured(
        "16.longer",
        "Of these, how many are there still after ten times as many steps.",
        longer,
        {"d": [0, 20], "lead": [0.25, 1.0, 2.0]},
        trials=30,
        batch=30,
        seed=1,
        paired=("d", "lead"),
        minutes=2,
    ),
    Measured(
        "16.silent",
        "With unit vectors: how high wrong tokens stand above right ones in the SVM of the other sequences.",
        silent,
        {"n": [60, 100], "lead": [0.25, 1.0, 2.0]},
        trials=30,
        batch=30,
        seed=1,
        paired=("n", "lead"),
        minutes=1,
    ),
    Measured(
        "16.cycles",
        "Data that contradict themselves: W after 1,000 to 16,000 steps, against W_fin + R W_dir.",
        cycles,
        {"steps": [1000, 4000, 16000]},
        trials=400,
        batch=100,
        paired=("steps",),
        minutes=1,
    ),
]
