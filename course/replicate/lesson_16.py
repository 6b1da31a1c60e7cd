"""Lesson 16 at length: how long a stage one keeps attention free, and data with cycles."""

import dataclasses
import itertools

import numpy as np
import torch
from torch import Tensor

from course.replicate.stored import Measured
from mini_attn import geometry, next_token, svm, train, vocabulary

V = 20  # as published


def stack(some):
    """Data sets of the same shape as the trials of one."""
    fields = [field.name for field in dataclasses.fields(vocabulary.NextTokens)]
    return vocabulary.NextTokens(*(torch.stack([getattr(one, name) for one in some]) for name in fields))


def weights(data):
    """w_r as [trial, q, a, b]: k_b / k_a, summed over the sequences that ask for a > b under q."""
    trials, n, T = data.tokens.shape
    V, trial = data.embeddings.shape[-1], torch.arange(trials)
    w = torch.zeros(trials, V, V, V, dtype=torch.float64)
    for i in range(n):
        best = data.optimal[:, i]
        a = data.tokens[trial, i, best.to(torch.int8).argmax(-1)]
        for t in range(T):  # each copy of a loser counts 1 / k_a
            w[trial, data.tokens[:, i, -1], a, data.tokens[:, i, t]] += ~best[:, t] / best.sum(-1)
    return w


def dual_variables(data, W_hat):
    """lambda_r as [trial, q, a, b], W~ as [trial, q, a], and M's blocks [trial, q, a, b], one for each q."""
    h, unit = W_hat.mT, torch.eye(W_hat.shape[-1])
    w = weights(data) * (h[..., :, None] - h[..., None, :] < 1 + 1e-5)  # tight rows only
    edge = torch.zeros_like(h)
    for _ in range(40):  # Newton's method for W~, with steps of at most 1
        dual = w * (edge[..., None, :] - edge[..., :, None]).exp()
        M = torch.diag_embed((dual + dual.mT).sum(-1)) - dual - dual.mT
        wrong = dual.sum(-1) - dual.sum(-2) - h  # sum of lambda_r r, less W_hat
        move = torch.linalg.solve(M + 1e-9 * unit, wrong)
        edge = edge + move / move.abs().amax(-1, keepdim=True).clamp(min=1)
    assert wrong.abs().max() < 1e-5
    return dual, edge, M


def step_threshold(solution, M):
    """eta*, (trials,), from the SVM and M."""
    return 2 * solution.objective / torch.linalg.eigvalsh(M)[..., -1].amax(-1)


def at_tokens(table, new):
    """The entries of a table [trial, q, a] at each sequence's tokens, (trials, n, T)."""
    return table[torch.arange(len(table))[:, None, None], new.tokens[..., -1:], new.tokens]


def at_pairs(table, new):
    """The entries of a table [trial, q, a, b] at each pair of a sequence's tokens, (trials, n, T, T)."""
    a, b, q = new.tokens[..., :, None], new.tokens[..., None, :], new.tokens[..., -1, None, None]
    return table[torch.arange(len(table))[:, None, None, None], q, a, b]


def winner(votes, new):
    """What follows the token with the most votes (trials, n, T), in logs; and its lead over the next."""
    first = new.tokens.gather(-1, votes.argmax(-1, keepdim=True))
    rest = votes.masked_fill(new.tokens == first, -torch.inf).amax(-1)
    return new.following.gather(-1, first[..., 0]), votes.amax(-1) - rest


def chains(lengths, V=20):
    """Under each query q a chain that ends with q: 40 sequences (a_k, a_k+1, q, q, q), or of one token."""
    draw, rows = np.random.default_rng(1), []
    for q, m in enumerate(lengths):
        chain = np.append(draw.permutation(np.delete(np.arange(V), q))[: m - 1], q)
        rows += [[chain[k], chain[k + 1], q, q, q] for k in range(m - 1)]
    rows += [[V - 1] * 5] * (40 - len(rows))
    follow, drawn = (torch.arange(V) + 1) % V, torch.tensor(np.array(rows))
    return vocabulary.NextTokens(torch.eye(V, dtype=torch.float64), follow, drawn, follow[drawn[:, 0]])


def late_sentence(sizes, level, V=20):
    """Sequences (a, b, q), q = 0, that ask for levels; the last has a new token against one of `level`."""
    names = np.split(np.arange(sum(sizes))[::-1], np.cumsum(sizes)[:-1])
    drawn = [[a, b, 0] for high, low in itertools.pairwise(names) for a in high for b in low]
    drawn += drawn[:1] * (48 - len(drawn)) + [[V - 1, names[level][0], 0]]
    follow, drawn = (torch.arange(V) + 1) % V, torch.tensor(np.array(drawn))
    return vocabulary.NextTokens(torch.eye(V, dtype=torch.float64), follow, drawn, follow[drawn[:, 0]])


def off(data, model):
    """Which sequences are wrong: under half of their attention is on optimal tokens, (trials, n) bool."""
    return (model.attention(data) * data.optimal).sum(-1) < 0.5


def confidence(W_ov, data):
    """How far next(a)'s logit is above all others with attention on a, the least over a, (trials,)."""
    o, after = W_ov @ data.embeddings.mT, data.following[..., None, :]  # o: (trials, V, tokens)
    return (o.gather(-2, after)[..., 0, :] - o.scatter(-2, after, -torch.inf).amax(-2)).amin(-1)


def stages(d, first, *, trials, seed):
    """Both stages from 0 by growing steps, `first` and 400, for n = 40, T = 5, 10 queries; d = 0: units."""
    data, _ = vocabulary.next_tokens(40, 5, V, d or None, 10, trials=trials, seed=seed)
    model = next_token.NextTokenTransformer(V, d or V, trials)
    next_token.descend(model, next_token.collocation(data), first, train=["W_ov"], schedule=train.growing)
    next_token.descend(model, data, 400, schedule=train.growing)
    model.requires_grad_(False)
    solution = svm.solve(svm.order_problem(data.embeddings, vocabulary.priorities(data)))
    return {
        "wrong": off(data, model).sum(-1).to(torch.int16),
        "confidence": confidence(model.W_ov, data).numpy().astype(np.float32),
        "cosine": geometry.cosine(model.W_kq, solution.value).numpy().astype(np.float32),
    }


def relations(data, kept):
    """The order that the kept sequences ask for, kept (trials, n) bool; the others are (q, q, ..., q)."""
    query = data.tokens[..., -1:]
    tokens = torch.where(kept[..., None], data.tokens, query)
    target = torch.where(kept, data.target, data.following.gather(-1, query[..., 0]))
    return vocabulary.priorities(vocabulary.NextTokens(data.embeddings, data.following, tokens, target))


def behind(data, W):
    """By how much the highest loser is above the optimal token under W, in each sequence, (trials, n)."""
    h = (data.X @ (data.z @ W.mT)[..., None])[..., 0]
    loser = h.masked_fill(data.optimal, -torch.inf).amax(-1)
    return loser - h.masked_fill(~data.optimal, -torch.inf).amax(-1)


def _lags(data, kept):
    """`behind` under the SVM of the kept sequences, and that SVM's W."""
    W = svm.solve(svm.order_problem(data.embeddings, relations(data, kept))).value
    return behind(data, W), W


def trapped(d, first, *, trials, seed):
    """The runs of `stages` again, then 1,000 steps of 0.5: which wrong sequences come back?

    "early", "near": wrong after 60 steps of stage two; of these, less than 1 behind under the SVM of the
    sequences that are not wrong. "near_end": of these wrong in the end. "wrong", "far": wrong after 400; of
    these 1 or more behind. "end": of "wrong" still so in the end. "dropped": of the first five sequences,
    each dropped in turn, those 1 or more behind under the SVM of the other 39. "others", "all": cosine of
    W_kq to the SVM of the sequences that are not wrong in the end, and of all.
    """
    data, _ = vocabulary.next_tokens(40, 5, V, d or None, 10, trials=trials, seed=seed)
    model = next_token.NextTokenTransformer(V, d or V, trials)
    next_token.descend(model, next_token.collocation(data), first, train=["W_ov"], schedule=train.growing)
    next_token.descend(model, data, 60, schedule=train.growing)
    early = off(data, model).detach()
    near = early & (_lags(data, ~early)[0] < 1 - 1e-6)
    next_token.descend(model, data, 340, schedule=lambda j: train.growing(j + 60))
    wrong = off(data, model).detach()
    far = wrong & (_lags(data, ~wrong)[0] > 1 - 1e-6)
    next_token.descend(model, data, 1000, lr=0.5)
    end = off(data, model).detach()
    dropped = torch.zeros(trials)
    for i in range(5):
        kept = torch.arange(40).expand(trials, 40) != i
        dropped += _lags(data, kept)[0][:, i] > 1 - 1e-6
    W_all = svm.solve(svm.order_problem(data.embeddings, vocabulary.priorities(data))).value
    counts = {
        "early": early,
        "near": near,
        "near_end": near & end,
        "wrong": wrong,
        "far": far,
        "end": wrong & end,
        "new": end & ~early,
    }
    W = model.W_kq.detach()
    return {
        **{name: one.sum(-1).to(torch.int16) for name, one in counts.items()},
        "dropped": dropped.to(torch.int16),
        "others": geometry.cosine(W, _lags(data, ~end)[1]).numpy().astype(np.float32),
        "all": geometry.cosine(W, W_all).numpy().astype(np.float32),
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
        "16.stages",
        "How many sequences end on a wrong token, against the length of stage one.",
        stages,
        {"d": [0, 20], "first": [10, 25, 50, 100, 200, 500]},
        trials=60,
        batch=30,
        seed=1,
        minutes=1,
    ),
    Measured(
        "16.trapped",
        "Which wrong sequences of the same runs come back, and how far behind the others' SVM has them.",
        trapped,
        {"d": [0, 20], "first": [10, 25]},
        trials=60,
        batch=30,
        seed=1,
        minutes=2,
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
