"""Lesson 16: dual variables, new sentences, chains; and, at length, data with cycles."""

import dataclasses
import functools

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


@functools.lru_cache(maxsize=1)  # `foretell` asks again for each length of sentences
def dual_variables(data, W_hat):
    """lambda_r as [trial, q, a, b], W~ as [trial, q, a], and M's blocks [trial, q, a, b], one for each q."""
    height, unit = W_hat.mT, torch.eye(W_hat.shape[-1])
    w = weights(data) * (height[..., :, None] - height[..., None, :] < 1 + 1e-5)  # tight rows only
    offset = torch.zeros_like(height)
    for _ in range(40):  # Newton's method for W~, with steps of at most 1
        dual = w * (offset[..., None, :] - offset[..., :, None]).exp()
        M = torch.diag_embed((dual + dual.mT).sum(-1)) - dual - dual.mT
        wrong = dual.sum(-1) - dual.sum(-2) - height  # sum of lambda_r r, less W_hat
        move = torch.linalg.solve(M + 1e-9 * unit, wrong)
        offset = offset + move / move.abs().amax(-1, keepdim=True).clamp(min=1)
    assert wrong.abs().max() < 1e-5
    return dual, offset, M


def pulls_apart(data, W, W_hat):
    """How far the pulls w_r e^(-r.W), up to a factor, miss lambda_r, over the largest, (trials,)."""
    h, dual = W.mT, dual_variables(data, W_hat)[0].flatten(1)
    logs = weights(data).log() + h[..., None, :] - h[..., :, None]
    pulls = (logs - logs.amax((1, 2, 3), keepdim=True)).exp().flatten(1)
    factor = (pulls * dual).sum(-1, keepdim=True) / pulls.square().sum(-1, keepdim=True)
    return (factor * pulls - dual).abs().amax(-1) / dual.amax(-1)


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


KINDS = (
    "decided",
    "one highest",
    "tied, joined",
    "tied, never seen",
    "dead heat",
    "no prediction",
    "one token alone",
)


def foretell(new, data, W_hat):
    """The kind of each new sequence, an index of KINDS, and what comes next by order, heights or ties.

    Heights are alike within 0.02. In a dead heat the two largest shares are foretold as equal: what comes
    next is then left open, and the token returned means nothing.
    """
    above, (dual, offset, _) = vocabulary.priorities(data), dual_variables(data, W_hat)
    height, rows = at_tokens(W_hat.mT, new), dual > 1e-4
    top = height > height.amax(-1, keepdim=True) - 0.02
    both, same = top[..., :, None] & top[..., None, :], new.tokens[..., :, None] == new.tokens[..., None, :]
    decided = (at_pairs(vocabulary.closure(above), new) | same).all(-1).any(-1)
    joined = (at_pairs(vocabulary.closure(rows | rows.mT), new) | same | ~both).all(-1).all(-1)
    strange = (~at_tokens(above.any(-1) | above.any(-2), new) | ~top).all(-1)
    copies = same.sum(-1).double().log().masked_fill(~top, -torch.inf)
    by_law, law_leads = _winner(copies + at_tokens(offset, new), new)
    by_copies, copies_lead = _winner(copies, new)
    tied = (both & ~same).any(-1).any(-1)
    kind = torch.full(decided.shape, 5)
    kind[tied & joined] = 2
    kind[tied & joined & (law_leads < 1e-6)] = 4
    kind[tied & ~joined & strange] = 4
    kind[tied & ~joined & strange & (copies_lead > 0.01)] = 3
    kind[~tied & ~decided] = 1
    kind[decided] = 0
    kind[same.all(-1).all(-1)] = 6  # nothing to decide
    highest, _ = _winner(height, new)
    return kind, torch.where(kind == 2, by_law, torch.where(kind == 3, by_copies, highest))


def chains(lengths, V=20):
    """Under each query q a chain that ends with q: 40 sequences (a_k, a_k+1, q, q, q), or of one token."""
    draw, rows = np.random.default_rng(1), []
    for q, m in enumerate(lengths):
        chain = np.append(draw.permutation(np.delete(np.arange(V), q))[: m - 1], q)
        rows += [[chain[k], chain[k + 1], q, q, q] for k in range(m - 1)]
    rows += [[V - 1] * 5] * (40 - len(rows))
    follow, drawn = (torch.arange(V) + 1) % V, torch.tensor(np.array(rows))
    return vocabulary.NextTokens(torch.eye(V, dtype=torch.float64), follow, drawn, follow[drawn[:, 0]])


def constant_steps(data, W_ov, eta, steps=500, every=50):
    """log(L - L_inf), (records, runs, trials), in stage two from 0 by steps of length eta (runs, trials)."""
    data, model = stack(len(eta) * [data]), next_token.NextTokenTransformer(V, V, eta.shape, W_ov=W_ov)
    excess = []
    for j in range(steps + 1):
        if j % every == 0:
            excess.append(model.log_excess(data).detach())
        G = model.gradients(data, ["W_kq"])["W_kq"]
        with torch.no_grad():
            model.W_kq -= (eta / torch.linalg.matrix_norm(G))[..., None, None] * G
    return torch.stack(excess)


def off(data, model):
    """Which sequences are wrong: under half of their attention is on optimal tokens, (trials, n) bool."""
    return (model.attention(data) * data.optimal).sum(-1) < 0.5


def left_on_optimal(data, W_ov, steps=400):
    """The attention on optimal tokens after so many growing steps of stage two from 0, (trials, n)."""
    model = next_token.NextTokenTransformer(*W_ov.shape[-2:], len(W_ov), W_ov=W_ov)
    next_token.descend(model, data, steps, schedule=train.growing)
    return (model.attention(data).detach() * data.optimal).sum(-1)


def by_lookup(data, c, steps, lr=0.1):
    """The model after growing steps of stage two from 0, if W_ov x_a is as `confident` has it.

    As `descend`, five times faster: it needs E W E^T only at pairs of tokens, and looks these up. Each trial
    needs a loser.
    """
    E, tokens, n, (V, d) = data.embeddings, data.tokens, data.tokens.shape[1], data.embeddings.shape[1:]
    pair = (tokens * V + tokens[..., -1:]).flatten(1)  # each token with its query, (trials, n T)
    after = data.following.gather(-1, tokens.flatten(1)).view_as(tokens)
    W, no_pairs, no_logits = E.new_zeros(len(E), d, d), E.new_zeros(len(E), V * V), E.new_zeros(len(E), n, V)
    for j in range(1, steps + 1):
        log_s = (E @ W @ E.mT).flatten(1).gather(-1, pair).view_as(tokens).log_softmax(-1)
        s, winner = log_s.exp(), log_s.argmax(-1, keepdim=True)
        log_missing, blame = next_token._blame(no_logits.scatter_add(-1, after, c * s), data.target)
        value = -blame.gather(-1, after)  # up to a factor
        ahead = value - value.gather(-1, winner)
        log_weight = (log_s + log_missing[..., None]).masked_fill(ahead == 0, -torch.inf)
        weight = (log_weight - log_weight.amax((1, 2), keepdim=True)).exp()
        mean, share = ((of * ahead).sum(-1, keepdim=True) for of in (s, weight))
        slopes = torch.where(ahead == 0, -s * share, weight * (ahead - mean)).flatten(1)
        G = E.mT @ no_pairs.scatter_add(-1, pair, slopes).unflatten(-1, (V, V)) @ E
        W = W + lr * j**0.5 * G / torch.linalg.matrix_norm(G, keepdim=True)
    return next_token.NextTokenTransformer(V, d, len(E), W_kq=W)


def by_themselves(data, which):
    """Each of the sequences that which (trials, n) marks as a data set of its own."""
    k, i = which.nonzero().T
    tokens, target = data.tokens[k, i][:, None], data.target[k, i][:, None]
    return vocabulary.NextTokens(data.embeddings[k], data.following[k], tokens, target)


def confident(c, d, n, T, V, trials, seed):
    """Data sets, and their W_ov: W_ov x_a is c in next(a)'s place, less c / V in all. Unit vectors if d is
    None, else Gaussian."""
    data, _ = vocabulary.next_tokens(n, T, V, d, queries=10, trials=trials, seed=seed)
    columns = torch.eye(V, dtype=torch.float64)[data.following].mT - 1 / V
    return data, c * columns @ torch.linalg.inv(data.embeddings.mT)


def ahead_without(data, out):
    """How far losers are ahead of the optimal tokens at the SVM of what sequences not in `out` ask for.

    Args:
        out: (trials, n) bool, not all of a trial.
    Returns:
        Of the highest loser of each sequence, (trials, n), -inf for those not in `out`; and that SVM's
        solution, (trials, d, d).
    """
    k, i = out.nonzero().T
    tokens, target, another = data.tokens.clone(), data.target.clone(), (~out).to(torch.int8).argmax(-1)[k]
    tokens[k, i], target[k, i] = data.tokens[k, another], data.target[k, another]  # again: nothing new asked
    rest = dataclasses.replace(data, tokens=tokens, target=target)
    W = svm.solve(svm.order_problem(data.embeddings, vocabulary.priorities(rest))).value
    h = (data.X @ (data.z @ W.mT)[..., None])[..., 0]
    loser, optimal = (h.masked_fill(no, -torch.inf).amax(-1) for no in (data.optimal, ~data.optimal))
    return (loser - optimal).masked_fill(~out, -torch.inf), W


def stay_wrong(c, d, n=80, T=8, V=20, seeds=(3, 21), steps=400, lr=0.1):
    """Of ten data sets a seed: how many sequences are wrong, how many of these if each is trained by itself,
    and in how many a loser is more than 1 ahead at the SVM of the right ones; of as many others, left out at
    random, in how many a loser is ahead, and in how many by more than 1; of the wrong ones, in how many by at
    least 1; and the cosines of W to that SVM, of the data sets with wrong ones."""
    total, cosines = np.zeros(6, int), []
    for seed in seeds:
        data, _ = confident(c, d, n, T, V, 10, seed)
        model = by_lookup(data, c, steps, lr)
        wrong = off(data, model)
        by_chance = torch.rand(wrong.shape, generator=torch.Generator().manual_seed(seed)) + wrong
        others = by_chance.argsort(-1).argsort(-1) < wrong.sum(-1, keepdim=True)
        ahead, W_right = ahead_without(data, wrong)
        themselves = by_themselves(data, wrong)
        alone = off(themselves, by_lookup(themselves, c, 400))
        by_chance = ahead_without(data, others)[0]
        counted = (wrong, alone, ahead > 1 + 1e-4, by_chance > 1e-4, by_chance > 1 + 1e-4, ahead > 1 - 1e-4)
        total += [int(one.sum()) for one in counted]
        cosines.append(geometry.cosine(model.W_kq.detach(), W_right)[wrong.any(-1)])
    return total, torch.cat(cosines)


def still_wrong(steps, *, trials, seed):
    """At c = 0.5, how many of 80 sequences of 8 tokens are wrong after so many growing steps.

    "unit_most", "gaussian_most": the most attention that one of these has on its optimal tokens, 0 if none.
    """
    found = {}
    for name, d in (("unit", None), ("gaussian", V)):
        attention = left_on_optimal(*confident(0.5, d, 80, 8, V, trials, seed), steps)
        wrong = attention < 0.5
        found[name] = wrong.sum(-1).float()
        found[f"{name}_most"] = (attention * wrong).amax(-1).float()
    return found


def confidence(W_ov, data):
    """How far next(a)'s logit is above all others with attention on a, the least over a, (trials,)."""
    o, after = W_ov @ data.embeddings.mT, data.following[..., None, :]  # o: (trials, V, tokens)
    return (o.gather(-2, after)[..., 0, :] - o.scatter(-2, after, -torch.inf).amax(-2)).amin(-1)


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
    Measured(
        "16.still_wrong",
        "Sequences that stay wrong with little confidence, after 400 and 2,400 steps, and their attention.",
        still_wrong,
        {"steps": [400, 2400]},
        trials=20,
        batch=20,
        paired=("steps",),
        minutes=0.75,
    ),
]
