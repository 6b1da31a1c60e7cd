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


def above(data, s, k, i, out):
    """H, (m,): how far the loser with most attention stands above the optimal token in sequence i of trial k.

    In the SVM of all sequences of the trial but this one and `out`, (trials, n) bool, whose margin is 1;
    losers that share the sequence's attention s, (m, T), are level there. k, i (m,): integers.
    """
    out = out[k]
    out[torch.arange(len(k)), i] = True
    E, following, tokens, target = data.embeddings[k], data.following[k], data.tokens[k], data.target[k]
    query = tokens[..., -1]
    others = vocabulary.NextTokens(  # in place of those left out, sequences that ask for nothing
        E,
        following,
        torch.where(out[..., None], query[..., None], tokens),
        torch.where(out, following.gather(-1, query), target),
    )
    asked = vocabulary.priorities(others)
    optimal, tied = data.optimal[k, i], torch.zeros_like(asked)
    losers = s * ~optimal
    for row, one in enumerate(i.tolist()):
        share = tokens[row, one, losers[row] > 0.05]
        tied[row, query[row, one], share[:1], share[1:]] = share[:1] != share[1:]
    W = svm.solve(svm.order_problem(E, asked, tied)).value
    h = (data.X[k, i] @ (W @ data.z[k, i][..., None]))[..., 0]
    height = h.gather(-1, losers.argmax(-1, keepdim=True))[..., 0]
    return height - h.masked_fill(~optimal, -torch.inf).amax(-1)


def silent(n, lead, *, trials, seed):
    """H of sequences in which a loser once had over .9 of attention, unit vectors, 400 steps: (trials,) each.

    How many ended wrong ("trapped") and how many right ("freed"), with H below, at and above 1.
    """
    data, _ = vocabulary.next_tokens(n, 5, V, None, 10, trials=trials, seed=seed)
    W_ov = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model, taken = next_token.NextTokenTransformer(V, V, trials, W_ov=lead * W_ov), 0
    then, held = torch.zeros(*data.tokens.shape, dtype=W_ov.dtype), torch.zeros(trials, n, dtype=torch.bool)
    for step in (3, 5, 8, 12, 16, 20, 30, 40, 60, 80, 120, 200, 400):
        how = {"schedule": lambda j, since=taken: train.growing(since + j)}
        next_token.descend(model, data, step - taken, **how)
        taken, s = step, model.attention(data).detach()
        new = ((s * ~data.optimal).amax(-1) > 0.9) & ~held
        then, held = torch.where(new[..., None], s, then), held | new
    wrong, found = off(data, model), {}
    for name, which, seen in (("trapped", wrong, s), ("freed", held & ~wrong, then)):
        k, i = which.nonzero().T
        H = above(data, seen[k, i], k, i, wrong) if len(k) else torch.zeros(0)
        level = (H - 1).abs() < 1e-3
        for kind, part in (("below", ~level & (H < 1)), ("at", level), ("above", ~level & (H > 1))):
            found[f"{name}_{kind}"] = torch.bincount(k[part], minlength=trials).to(torch.int16)
    return found


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
        "On other data sets: how many of these are there still after ten times as many steps.",
        longer,
        {"d": [0, 20], "lead": [0.25, 1.0, 2.0]},
        trials=30,
        batch=30,
        seed=1,
        minutes=2,
    ),
    Measured(
        "16.silent",
        "Sequences once on a wrong token: how high it stands in the SVM of the others, and which come right.",
        silent,
        {"n": [60, 100], "lead": [0.25, 1.0, 2.0]},
        trials=60,
        batch=30,
        seed=1,
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
