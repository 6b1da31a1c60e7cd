"""Lesson 16: dual variables, new sentences, chains, sequences that stay wrong; and data with cycles."""

import dataclasses
import functools

import numpy as np
import torch
from torch import Tensor

from course.replicate.stored import Measured
from mini_attn import geometry, svm, vocabulary


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


@functools.lru_cache(maxsize=1)  # `predict_next` asks again for each length of sentences
def dual_variables(data, W_hat):
    """lambda_r as [trial, q, a, b], and W~ as [trial, q, a]."""
    height, unit = W_hat.mT, torch.eye(W_hat.shape[-1])
    w = weights(data) * (height[..., :, None] - height[..., None, :] < 1 + 1e-5)  # tight rows only
    offset = torch.zeros_like(height)
    for _ in range(40):  # Newton's method for W~, with steps of at most 1
        dual = w * (offset[..., None, :] - offset[..., :, None]).exp()
        slope = torch.diag_embed((dual + dual.mT).sum(-1)) - dual - dual.mT
        wrong = dual.sum(-1) - dual.sum(-2) - height  # sum of lambda_r r, less W_hat
        move = torch.linalg.solve(slope + 1e-9 * unit, wrong)
        offset = offset + move / move.abs().amax(-1, keepdim=True).clamp(min=1)
    assert wrong.abs().max() < 1e-5
    return dual, offset


def scaled_pulls(data, W, W_hat):
    """The pulls w_r e^(-r.W), times the factor that brings them nearest to lambda_r, and lambda_r.

    Both are (trials, rows), with a place for each q, a, b.
    """
    h, dual = W.mT, dual_variables(data, W_hat)[0].flatten(1)
    logs = weights(data).log() + h[..., None, :] - h[..., :, None]
    pulls = (logs - logs.amax((1, 2, 3), keepdim=True)).exp().flatten(1)
    factor = (pulls * dual).sum(-1, keepdim=True) / pulls.square().sum(-1, keepdim=True)
    return factor * pulls, dual


def pulls_apart(data, W, W_hat):
    """How far the pulls w_r e^(-r.W), up to a factor, miss lambda_r, over the largest, (trials,)."""
    pulls, dual = scaled_pulls(data, W, W_hat)
    return (pulls - dual).abs().amax(-1) / dual.amax(-1)


def longest_step(data, W_hat):
    """eta* = 2 |W_hat| / sigma, (trials,), for unit vectors.

    sigma is the largest eigenvalue of the sum of lambda_r r r^T, which has one block for each query. Along
    W_hat the eigenvalue is 1, as r . W_hat = 1 on tight rows; so sigma is one across W_hat if it is above 1.
    """
    both = dual_variables(data, W_hat)[0]
    both = both + both.mT
    sigma = torch.linalg.eigvalsh(torch.diag_embed(both.sum(-1)) - both).amax((-1, -2))
    assert sigma.min() > 1.01
    return 2 * W_hat.flatten(1).norm(dim=-1) / sigma


def zero_rows(data, W_hat):
    """How many tight rows have lambda_r = 0 in each choice of dual variables, (trials,)."""
    height = W_hat.mT
    tight = (weights(data) > 0) & (height[..., :, None] - height[..., None, :] < 1 + 1e-5)
    return (tight & (dual_variables(data, W_hat)[0] < 1e-4)).sum((1, 2, 3))


def at_tokens(table, new):
    """The entries of a table [trial, q, a] at each sequence's tokens, (trials, n, T)."""
    return table[torch.arange(len(table))[:, None, None], new.tokens[..., -1:], new.tokens]


def at_pairs(table, new):
    """The entries of a table [trial, q, a, b] at each pair of a sequence's tokens, (trials, n, T, T)."""
    a, b, q = new.tokens[..., :, None], new.tokens[..., None, :], new.tokens[..., -1, None, None]
    return table[torch.arange(len(table))[:, None, None, None], q, a, b]


def _winner(votes, new):
    """What follows the token with the most votes (trials, n, T), in logs; and its lead over the next."""
    first = new.tokens.gather(-1, votes.argmax(-1, keepdim=True))
    rest = votes.masked_fill(new.tokens == first, -torch.inf).amax(-1)
    return new.following.gather(-1, first[..., 0]), votes.amax(-1) - rest


KINDS = ("decided", "one highest token", "tied", "left out")


def predict_next(new, data, W_hat):
    """The kind of each new sequence, an index of KINDS, and what comes next by order, heights or ties.

    Left out are ties whose two largest shares come out equal, or of which nothing is known, and sequences of
    one repeated token; what is returned as their next token means nothing.
    """
    above, (dual, offset) = vocabulary.priorities(data), dual_variables(data, W_hat)
    height, rows = at_tokens(W_hat.mT, new), dual > 1e-4
    top = height > height.amax(-1, keepdim=True) - 1e-4
    both, same = top[..., :, None] & top[..., None, :], new.tokens[..., :, None] == new.tokens[..., None, :]
    decided = (at_pairs(vocabulary.closure(above), new) | same).all(-1).any(-1)
    connected = (at_pairs(vocabulary.closure(rows | rows.mT), new) | same | ~both).all(-1).all(-1)
    strange = (~at_tokens(above.any(-1) | above.any(-2), new) | ~top).all(-1)  # no relation names them
    copies = same.sum(-1).double().log().masked_fill(~top, -torch.inf)
    by_rows, lead_by_rows = _winner(copies + at_tokens(offset, new), new)
    by_copies, lead_by_copies = _winner(copies, new)
    known = torch.where(connected, lead_by_rows > 1e-6, strange & (lead_by_copies > 1e-6))
    tied = (both & ~same).any(-1).any(-1)
    kind = torch.where(decided, 0, torch.where(~tied, 1, torch.where(known, 2, 3)))
    kind[same.all(-1).all(-1)] = 3  # nothing to decide
    in_tie = torch.where(connected, by_rows, by_copies)
    return kind, torch.where(kind == 2, in_tie, _winner(height, new)[0])


def guesses(new, order):
    """How probably two guesses are correct, (trials, n) each, from the closed order [trial, q, a, b].

    By the count of the tokens below each token, less those above it (of equal counts, one at random); and by
    chance among the tokens that no other token of the sequence is above.
    """
    votes = at_tokens(order.sum(-1) - order.sum(-2), new)
    most = votes == votes.amax(-1, keepdim=True)
    copies = (new.tokens[..., :, None] == new.tokens[..., None, :]).sum(-1)
    free = (~at_pairs(order, new).any(-2) / copies).sum(-1)  # so many tokens, each counted once
    return (most & new.optimal).sum(-1) / most.sum(-1), 1 / free


def say_of_new(model, data, rank, W_hat):
    """What the model says of 4,000 new sentences each of 2, 3, 5 and 8 tokens, with 20 trials.

    Returns:
        For each of KINDS the number of sentences, of those said as predicted and correctly, and of those that
        the guesses get right, (4, 5); and how many sentences repeat one token.
    """
    implied = vocabulary.closure(vocabulary.priorities(data))
    counts, repeated = np.zeros((4, 5)), 0
    for T in (2, 3, 5, 8):
        new, _ = vocabulary.next_tokens(200, T, 20, queries=10, trials=20, seed=50 + T, rank=rank, like=data)
        kind, expected = predict_next(new, data, W_hat)
        said = model.predicted(new)
        found = torch.ones_like(said), said == expected, said == new.target, *guesses(new, implied)
        counts += [[float(one[kind == k].sum()) for one in found] for k in range(4)]
        repeated += int((new.tokens == new.tokens[..., :1]).all(-1).sum())
    return counts, repeated


def chains(lengths, V=20):
    """Under each query q a chain that ends with q: 40 sequences (a_k, a_k+1, q, q, q), or of one token."""
    draw, rows = np.random.default_rng(1), []
    for q, m in enumerate(lengths):
        chain = np.append(draw.permutation(np.delete(np.arange(V), q))[: m - 1], q)
        rows += [[chain[k], chain[k + 1], q, q, q] for k in range(m - 1)]
    rows += [[V - 1] * 5] * (40 - len(rows))
    follow, drawn = (torch.arange(V) + 1) % V, torch.tensor(np.array(rows))
    return vocabulary.NextTokens(torch.eye(V, dtype=torch.float64), follow, drawn, follow[drawn[:, 0]])


def by_lookup(data, c, steps, lr=0.1, W=None, taken=0):
    """W_kq after growing steps of stage two, if embeddings are unit vectors and W_ov is c times its SVM.

    As `descend`, several times faster: the logits are looked up in W. From W after so many steps taken, or
    from 0. Each trial needs two tokens with different next ones in some sequence.
    """
    tokens, n, V = data.tokens, data.tokens.shape[1], data.embeddings.shape[-1]
    pair = (tokens * V + tokens[..., -1:]).flatten(1)  # each token with its query, (trials, n T)
    after = data.following.gather(-1, tokens.flatten(1)).view_as(tokens)
    no_pairs, no_logits = (
        torch.zeros(*shape, dtype=torch.float64) for shape in ((len(tokens), V * V), (len(tokens), n, V))
    )
    W = no_pairs if W is None else W.flatten(1)
    for j in range(taken + 1, taken + steps + 1):
        log_s = W.gather(-1, pair).view_as(tokens).log_softmax(-1)
        s = log_s.exp()
        probability = no_logits.scatter_add(-1, after, c * s).softmax(-1).gather(-1, after)
        value = (after == data.target[..., None]).double() - probability  # over c
        ahead = value - value.gather(-1, log_s.argmax(-1, keepdim=True))  # of the winner: exact late, too
        log_weight = log_s.masked_fill(ahead == 0, -torch.inf)
        weight = (log_weight - log_weight.amax((1, 2), keepdim=True)).exp()
        mean, share = ((of * ahead).sum(-1, keepdim=True) for of in (s, weight))
        slopes = torch.where(ahead == 0, -s * share, weight * (ahead - mean)).flatten(1)
        G = no_pairs.scatter_add(-1, pair, slopes)
        W = W + lr * j**0.5 * G / G.norm(dim=-1, keepdim=True)
    return W.unflatten(-1, (V, V))


def lead_of_others(data, W):
    """How far the highest of the other tokens is ahead of the optimal ones, in logits, (trials, n)."""
    h = (data.X @ (data.z @ W.mT)[..., None])[..., 0]
    other, optimal = (h.masked_fill(no, -torch.inf).amax(-1) for no in (data.optimal, ~data.optimal))
    return other - optimal


def wrong_ones(data, W):
    """Which sequences have less than half of their attention on optimal tokens, (trials, n) bool."""
    s = (data.X @ (data.z @ W.mT)[..., None])[..., 0].softmax(-1)
    return (s * data.optimal).sum(-1) < 0.5


def svm_without(data, out):
    """The SVM of what the sequences not in `out` ask for, (trials, V, V): out (trials, n) bool, not all."""
    k, i = out.nonzero().T
    tokens, target, another = data.tokens.clone(), data.target.clone(), (~out).to(torch.int8).argmax(-1)[k]
    tokens[k, i], target[k, i] = data.tokens[k, another], data.target[k, another]  # again: nothing new asked
    rest = dataclasses.replace(data, tokens=tokens, target=target)
    return svm.solve(svm.order_problem(data.embeddings, vocabulary.priorities(rest))).value


def leads_alone(data):
    """Delta of each sequence if it alone is left out of the SVM, (trials, n), for unit vectors.

    Then each query has a column of its own, so one sequence of each query can be left out at a time.
    """
    query = data.tokens[..., -1]
    turn = (query[..., :, None] == query[..., None, :]).tril(-1).sum(-1)
    Delta = torch.empty(turn.shape, dtype=torch.float64)
    for k in range(int(turn.max()) + 1):
        Delta[turn == k] = lead_of_others(data, svm_without(data, turn == k))[turn == k]
    return Delta


def stay_wrong(c, n=80, T=8, V=20, seed=3, steps=400, later=2400):
    """Of 20 data sets with unit vectors and W_ov = c times its SVM: how many sequences are wrong after so
    many growing steps; of these, how many still are at the later one, and how many have Delta > 1, and 1."""
    data, _ = vocabulary.next_tokens(n, T, V, queries=10, trials=20, seed=seed)
    W = by_lookup(data, c, steps)
    wrong = wrong_ones(data, W)
    some = wrong.any(-1)
    if not some.any():
        return 4 * [0]
    data = vocabulary.NextTokens(
        data.embeddings[some], data.following[some], data.tokens[some], data.target[some]
    )
    wrong, W = wrong[some], by_lookup(data, c, later - steps, W=W[some], taken=steps)
    Delta = lead_of_others(data, svm_without(data, wrong))[wrong]
    counted = wrong, wrong_ones(data, W) & wrong, Delta > 1 + 1e-4, abs(Delta - 1) < 1e-4
    return [int(one.sum()) for one in counted]


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
