"""Lesson 18 at length: small transformers on digits and sentences, head by head."""

import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from course.replicate import small_transformer as net
from course.replicate.stored import Measured
from course.replicate.taken_apart import (
    LONGER,
    SETTINGS,
    cosine,
    descend,
    few_sentences,
    longer,
    taken_apart,
)
from mini_attn import datasets, svm

LOOKS = (0, 10, 20, 40, 80, 160, 240, 320, 400)  # steps at which the heads are looked at
SEEN, ASKED, PRICE = 200, 10, 1.0  # sequences in the statistics; in the SVMs; price of their slack
EARLY = 80  # the step from which the future is predicted
ONWARD = (400, 4000)  # the last step of the ten runs, and ten times as many
ON_THE_WAY = (20, 40, 80, 160, 400)  # steps of one linear layer at which keys and queries are compared
PRICES = {"": PRICE, "_cheap": 0.01, "_dear": 100.0}


def digits(runs, seed):
    """Splits of the digits, a run each: (X, real, y) of training and validation, the ink of patches."""
    pictures = datasets.digits()
    parts = [datasets.split(pictures, seed=seed + run) for run in range(runs)]
    found = []
    for part in (0, 1):
        some = torch.stack([one[part] for one in parts])
        X = pictures.X.float()[some]
        found.append((X, torch.ones(X.shape[:3], dtype=torch.bool), pictures.y[some]))
    return *found, found[0][0].sum(-1), None


def sentences(runs, seed, size=2000, T=16, n=2000):
    """The same for sentences of films; in place of ink, how far a word's log-odds are from 0."""
    texts = datasets.reviews()
    parts = [datasets.split(texts, seed=seed + run) for run in range(runs)]
    written = [datasets.words(texts.texts, size, T, fit=one[0]) for one in parts]
    chance = torch.Generator().manual_seed(seed)
    found = []
    for part in (0, 1):
        some = [one[part][torch.randperm(len(one[part]), generator=chance)[:n]] for one in parts]
        X, real = (
            torch.stack([getattr(w, name)[rows] for w, rows in zip(written, some, strict=True)])
            for name in ("ids", "mask")
        )
        found.append((X, real, torch.stack([texts.y[rows] for rows in some])))
    X, real, y = found[0]
    counts = torch.ones(runs, 2, size)
    for label in (0, 1):
        here = (real & (y == label)[..., None]).flatten(1).float()
        counts[:, label].scatter_add_(1, X.flatten(1), here)
    odds = (counts[:, 1] / counts[:, 0]).log() - (counts[:, 1].sum(1) / counts[:, 0].sum(1)).log()[:, None]
    said = odds.abs()[torch.arange(runs)[:, None, None], X]
    return *found, said, [w.vocabulary for w in written]


# --------------------------------------------------------------------------- what a head does
def sharpness(s, real):
    """Mean entropy over log of the number of tokens, and mean largest attention: (runs, heads) each."""
    number = real.sum(-1)
    asks = (real & (number > 1)[..., None])[:, None]
    entropy = -(s * s.clamp_min(1e-30).log()).sum(-1) / number.clamp_min(2).log()[:, None, :, None]
    return [(part * asks).sum((2, 3)) / asks.sum((2, 3)) for part in (entropy, s.amax(-1))]


def choice(W, a, real):
    """The token with the largest logit, for each head and position: W (runs, heads, d, d)."""
    h = (a[:, None] @ W[:, :, None].mT) @ a[:, None].mT
    return h.masked_fill(~real[:, None, :, None], -torch.inf).argmax(-1)


def soft_svm(a, real, selected):
    """The soft-margin SVM's W of each head for what it selects, (runs, heads, d, d)."""
    X, mask = (x[:, None].expand(-1, selected.shape[1], *x.shape[1:]) for x in (a, real))
    solution = svm.solve_soft(X, selected, PRICE, mask)
    assert (solution.gap < 1e-3).all()
    return solution.value


def nuclear_svm(a, real, selected, price=PRICE, steps=3000):
    """The same with the nuclear norm: argmin 1/2 ||W||_*^2 + C/2 sum xi^2, certified to a gap of 1e-3.

    Accelerated proximal descent that starts again where its momentum leads uphill. The bound is the one of
    :func:`mini_attn.svm.solve_soft`, with the spectral norm of sum xi A in the place of the Frobenius norm.
    """
    X, best = a[:, None], selected[..., None]
    rows = (real[..., :, None] & real[..., None, :])[:, None] & (torch.arange(a.shape[2]) != best)

    def leads(W):
        h = (X @ W[:, :, None].mT) @ X.mT
        return h.gather(-1, best) - h

    def total(weights):
        by_token = (-weights).scatter_add(-1, best, weights.sum(-1, keepdim=True))
        return (X.mT @ by_token.mT @ X).sum(2)

    def shrunk(W, tau):  # argmin_V 1/2 ||V - W||^2 + tau/2 ||V||_*^2
        U, s, V = torch.linalg.svd(W)
        k = torch.arange(1, s.shape[-1] + 1)
        cut = (tau * s.cumsum(-1) / (1 + tau * k)).amax(-1, keepdim=True)
        return U @ ((s - cut).clamp_min(0)[..., None] * V)

    W = total(rows.double())
    for _ in range(30):  # the largest curvature, by powers
        W = total(rows * leads(W / W.norm(dim=(-2, -1), keepdim=True)))
    curvature = 1.05 * price * W.norm(dim=(-2, -1), keepdim=True)
    W = ahead = torch.zeros_like(W)
    t = torch.ones_like(curvature)
    for step in range(steps):
        slack = (1 - leads(ahead)).clamp_min(0) * rows
        new = shrunk(ahead + price * total(slack) / curvature, 1 / curvature[..., 0])
        again = ((ahead - new) * (new - W)).sum((-2, -1), keepdim=True) > 0
        t = torch.where(again, 1.0, t)
        later = (1 + (1 + 4 * t**2).sqrt()) / 2
        ahead = new + torch.where(again, 0.0, (t - 1) / later) * (new - W)
        W, t = new, later
        if step % 20 == 19:
            slack = (1 - leads(W)).clamp_min(0) * rows
            missed = slack.square().sum((2, 3, 4))
            value = (torch.linalg.matrix_norm(W, "nuc") ** 2 + price * missed) / 2
            length = torch.linalg.matrix_norm(total(slack), 2) ** 2 + missed / price
            gap = 1 - slack.sum((2, 3, 4)) ** 2 / (2 * length * value)
            if (gap < 1e-3).all():
                return W
    raise ValueError(f"gaps of {gap.max():.1g} are left after {steps} steps")


def of_tokens(a, real, heads, generator):
    """Random W made of the head's tokens: sums of random multiples of x_t x_k^T, centred over t."""
    pairs = (real[..., :, None] & real[..., None, :])[:, None]  # (runs, 1, n, k, t)
    c = torch.randn(len(a), heads, *pairs.shape[2:], generator=generator, dtype=a.dtype) * pairs
    c = (c - c.sum(-1, keepdim=True) / pairs.sum(-1, keepdim=True).clamp_min(1)) * pairs
    return torch.einsum("rhikt,ritd,rike->rhde", c, a, a)


def centred(P, k):
    """W of layer k in float64, without what a token of mean 0 cannot feel."""
    W = net.matrix(P, k).detach().double()
    W = W - W.mean(-1, keepdim=True)
    return W - W.mean(-2, keepdim=True)


def reads(P, X, real):
    """What each layer reads, of unit length, in float64."""
    keep = []
    with torch.no_grad():
        net.forward(P, X, real, keep)
    return [a.double() / math.sqrt(a.shape[-1]) for a, _ in keep]


def compared(P, P_0, P_early, X, real, seed):
    """Cosines of each head's movement from its start with SVMs over its tokens, and of the controls."""
    generator, found = torch.Generator().manual_seed(seed), {}
    for k, (a, a_early) in enumerate(zip(reads(P, X, real), reads(P_early, X, real), strict=True)):
        W, W_0, W_early = (centred(one, k) for one in (P, P_0, P_early))
        heads, moved = W.shape[1], W - W_0
        R = of_tokens(a, real, heads, generator)
        R = R * (moved.norm(dim=(-2, -1)) / R.norm(dim=(-2, -1)))[..., None, None]
        own, early = choice(W, a, real), choice(W_early, a_early, real)
        chance = torch.rand(*own.shape, real.shape[-1], generator=generator)
        chance = chance.masked_fill(~real[:, None, :, None], -1.0).argmax(-1)
        fitted, to_come, next_early = soft_svm(a, real, own), W - W_early, soft_svm(a_early, real, early)
        layer = {
            "own": cosine(moved, fitted),
            "other head": cosine(moved, fitted.roll(1, 1)),
            "start": cosine(moved, soft_svm(a, real, choice(W_0, a, real))),
            "random tokens": cosine(moved, soft_svm(a, real, chance)),
            "never trained": cosine(R, soft_svm(a, real, choice(W_0 + R, a, real))),
            "future": cosine(to_come, next_early),
            "momentum": cosine(to_come, W_early - W_0),
            "whole W": cosine(W, fitted),
            "length": W.norm(dim=(-2, -1)),
            "moved": moved.norm(dim=(-2, -1)),
            "kept choice": (own == choice(W_0, a, real)).double().mean((-2, -1)),
        }
        found = {name: [*found.get(name, []), part] for name, part in layer.items()}
    return {name: torch.stack(parts, 1) for name, parts in found.items()}


def winners(P, X, real, y, says, seed):
    """Which tokens get the largest attention, beside a random real token: (runs, layers, heads) each."""
    keep = []
    answers = net.forward(P, X, real, keep)
    loss = cross_entropy(answers.flatten(0, 1), y.flatten(), reduction="sum")
    scores = [-slope for slope in torch.autograd.grad(loss, [s for _, s in keep])]
    asks = (real & (real.sum(-1) > 1)[..., None])[:, None]
    found = {}

    def mean(x):
        return (x * asks).sum((2, 3)) / asks.sum((2, 3))

    for k, ((a, s), score) in enumerate(zip(keep, scores, strict=True)):
        hidden = ~real[:, None, :, None]
        chance = torch.rand(s.shape, generator=torch.Generator().manual_seed(seed)).masked_fill(hidden, -1.0)
        size = (a[:, None] @ P[f"V{k}"][:, :, None] @ P[f"O{k}"][:, :, None]).norm(dim=-1).detach()
        for name, selected in (("", s.argmax(-1)), ("chance ", chance.argmax(-1))):
            counts = torch.zeros_like(s[..., 0, :]).scatter_add_(
                -1, selected, asks.float().expand(selected.shape)
            )
            best = score.masked_fill(hidden, -torch.inf).argmax(-1)
            told = says[:, None, :, None].expand(s.shape).gather(-1, selected[..., None])[..., 0]
            value = size[..., None, :].expand(s.shape).gather(-1, selected[..., None])[..., 0]
            layer = {
                "best": mean((selected == best).float()),
                "says": mean(told),
                "value": mean(value),
                "itself": mean((selected == torch.arange(s.shape[-1])).float()),
                "agree": (counts.amax(-1) / counts.sum(-1).clamp_min(1)).mean(-1),
            }
            found = {**found, **{name + key: [*found.get(name + key, []), x] for key, x in layer.items()}}
    return {name: torch.stack(parts, 1) for name, parts in found.items()}


def favourites(P, X, real, vocabulary):
    """For each layer the five words, of frequent ones, that win the largest share of queries beside them."""
    keep = []
    with torch.no_grad():
        net.forward(P, X, real, keep)
    found = []
    for run in range(len(X)):
        for _, s in keep:
            picks = s[run].argmax(-1).where(real[run], -1)  # (heads, n, k)
            won, offered = torch.zeros(2, len(vocabulary[run]))
            asks = real[run].sum(-1).float()[:, None].expand(X[run].shape)
            offered.scatter_add_(0, X[run].flatten(), (asks * real[run] * len(picks)).flatten())
            for head in picks:
                words = X[run].gather(-1, head.clamp_min(0))
                won.scatter_add_(0, words.flatten(), (head >= 0).flatten().float())
            rate = torch.where(offered >= 300, won / offered.clamp_min(1), -1.0)
            rate[0] = -1.0
            found.append([vocabulary[run][w] for w in rate.topk(5).indices])
    return np.array(found).reshape(len(X), -1)


def transformers(tokens, decay, *, trials, seed):
    """Two layers of four heads, trained on digits or sentences: every head on the way and at the end."""
    train, valid, says, vocabulary = (digits if tokens == "digits" else sentences)(trials, seed=seed % 10_000)
    X, real, y = train
    size = {"inputs": X.shape[-1]} if vocabulary is None else {"vocabulary": len(vocabulary[0])}
    P = net.begin(trials, X.shape[2], int(y.max()) + 1, **size, seed=seed)
    kept, seen = {}, {}

    def look(step):
        if step not in LOOKS:
            return
        kept[step] = {name: weights.detach().clone() for name, weights in P.items()}
        keep, now = [], {}
        with torch.no_grad():
            for name, (X, real, y), rows in (("train", train, 1000), ("valid", valid, 300)):
                answers = net.forward(P, X[:, :rows], real[:, :rows])
                now[name] = (answers.argmax(-1) == y[:, :rows]).float().mean(1)
                log = answers.log_softmax(-1).gather(-1, y[:, :rows, None])[..., 0]
                now[name + "_loss"] = -log.mean(1)
            net.forward(P, train[0][:, :SEEN], train[1][:, :SEEN], keep)
        sharp = [sharpness(s, train[1][:, :SEEN]) for _, s in keep]
        now["entropy"], now["largest"] = (torch.stack(parts, 1) for parts in zip(*sharp, strict=True))
        for name, value in now.items():
            seen.setdefault(name, []).append(value)

    net.learn(P, X, real, y, LOOKS[-1], 64, decay=decay, seed=seed, look=look)
    found = {name: torch.stack(parts, 1) for name, parts in seen.items()}
    first, early, last = (kept[step] for step in (0, EARLY, LOOKS[-1]))
    found |= compared(last, first, early, X[:, :ASKED], real[:, :ASKED], seed)
    for prefix, weights in (("", last), ("untrained ", first)):
        weights = {name: w.requires_grad_() for name, w in weights.items()}
        chosen = winners(weights, X[:, :SEEN], real[:, :SEEN], y[:, :SEEN], says[:, :SEEN], seed)
        found |= {prefix + name: value for name, value in chosen.items()}
    found = {name.replace(" ", "_"): value.detach().float() for name, value in found.items()}
    none = np.full((trials, 10), "-", dtype="U20")
    words = none if vocabulary is None else favourites(last, X[:, :SEEN], real[:, :SEEN], vocabulary)
    return found | {"favourites": words.astype("U20")}


def one_question(real):
    """In place of the softmax: all positions of a sequence ask the same, their mean."""
    asks = real[:, None, :, :, None].float()

    def softmax(h, _):
        mean = (h.clamp_min(-1e4) * asks).sum(3, keepdim=True) / asks.sum(3, keepdim=True)
        return mean.softmax(-1).expand_as(h)

    return softmax


def even(h, _):
    """In place of the softmax: all real tokens alike."""
    return torch.zeros_like(h).masked_fill(h.isinf(), -torch.inf).softmax(-1)


def right_with(P, X, real, y, instead):
    """The share of right answers, (runs,), with something else in place of some layers' softmax."""
    x = net.embed(P, X)
    for k in (0, 1):
        x = net.layer(P, k, x, real, softmax=instead.get(k, torch.softmax))
    mean = (net.norm(x) * real[..., None]).sum(2) / real.sum(2, keepdim=True)
    return ((mean @ P["read"]).argmax(-1) == y).float().mean(1)


def onward(tokens, *, trials, seed):
    """The transformers of `transformers` at the end of its steps and ten times as far: (runs, 2, ...)."""
    train, valid, says, vocabulary = (digits if tokens == "digits" else sentences)(trials, seed=seed % 10_000)
    X, real, y = train
    size = {"inputs": X.shape[-1]} if vocabulary is None else {"vocabulary": len(vocabulary[0])}
    P = net.begin(trials, X.shape[2], int(y.max()) + 1, **size, seed=seed)
    kept, seen = {}, {}

    def look(step):
        if step not in (0, EARLY, *ONWARD):
            return
        kept[step] = {name: weights.detach().clone() for name, weights in P.items()}
        if step not in ONWARD:
            return
        now = compared(kept[step], kept[0], kept[EARLY], X[:, :ASKED], real[:, :ASKED], seed)
        now = {name: now[name] for name in ("own", "never trained", "length")}
        keep, alike = [], one_question(valid[1])
        with torch.no_grad():
            net.forward(P, X[:, :SEEN], real[:, :SEEN], keep)
            now["entropy"] = torch.stack([sharpness(s, real[:, :SEEN])[0] for _, s in keep], 1)
            now["train"] = right_with(P, *train, {})
            now["valid"] = right_with(P, *valid, {})
            now |= {f"alike {k + 1}": right_with(P, *valid, {k: alike}) for k in (0, 1)}
            now["even 2"] = right_with(P, *valid, {1: even})
        some = (part[:, :SEEN] for part in (X, real, y, says))
        now["best"] = winners({k: w.clone().requires_grad_() for k, w in kept[step].items()}, *some, seed)[
            "best"
        ]
        for name, value in now.items():
            seen.setdefault(name.replace(" ", "_"), []).append(value.detach().float())

    net.learn(P, X, real, y, ONWARD[-1], 64, seed=seed, look=look)
    return {name: torch.stack(values, 1) for name, values in seen.items()}


def moved_by_slopes(K, Q, R, far):
    """How far W = K Q^T / sqrt(m) gets when K and Q flow along R, until it has moved by `far`.

    K' = R Q and Q' = R^T K is linear, with a symmetric matrix: its eigenvectors solve it.

    Args:
        K, Q: (..., d, m). R: (..., d, d), of length one. far: (...,).
    """
    d, m = K.shape[-2:]
    B = torch.zeros(*R.shape[:-2], 2 * d, 2 * d, dtype=R.dtype)
    B[..., :d, d:], B[..., d:, :d] = R, R.mT
    rates, U = torch.linalg.eigh(B)
    begin = U.mT @ torch.cat([K, Q], -2)

    def moved(t):
        both = U @ ((rates * t[..., None]).exp()[..., None] * begin)
        return (both[..., :d, :] @ both[..., d:, :].mT - K @ Q.mT) / math.sqrt(m)

    low, high = torch.zeros_like(far), torch.ones_like(far)
    while (short := moved(high).norm(dim=(-2, -1)) < far).any():
        high = torch.where(short, 2 * high, high)
    for _ in range(50):
        t = (low + high) / 2
        short = moved(t).norm(dim=(-2, -1)) < far
        low, high = torch.where(short, t, low), torch.where(short, high, t)
    return moved(high)


def moved_by_adam(K, Q, R, far, felt=lambda W: W, lr=3e-3):
    """The same where Adam moves K and Q along R; of W only what is `felt` counts."""
    K_0, Q_0 = K, Q
    K, Q = K.clone().requires_grad_(), Q.clone().requires_grad_()
    adam, before, found = torch.optim.Adam([K, Q], lr=lr), torch.zeros_like(R), torch.zeros_like(R)
    while True:
        K.grad, Q.grad = (-R @ Q).detach(), (-R.mT @ K).detach()
        adam.step()
        with torch.no_grad():
            moved = felt((K @ Q.mT - K_0 @ Q_0.mT) / math.sqrt(K.shape[-1]))
        last, now = (x.norm(dim=(-2, -1)) for x in (before, moved))
        share = ((far - last) / (now - last))[..., None, None]
        there = ((last < far) & (now >= far))[..., None, None] & (found == 0)
        found = torch.where(there, before + share * (moved - before), found)
        if (found != 0).flatten(-2).any(-1).all():
            return found
        before = moved


def centre(W):
    """W without what tokens of mean 0 cannot feel."""
    W = W - W.mean(-1, keepdim=True)
    return W - W.mean(-2, keepdim=True)


def right(P, X, real, y):
    """The share of right answers, (runs,)."""
    return (net.forward(P, X, real).argmax(-1) == y).float().mean(1)


def against_nobody(moved, W_0, K, Q, pull, judges, felt=lambda W: W):
    """Cosines of a trained movement, and of two that nobody trained, to the SVMs of what they select.

    Keys and queries flow along the pull, or Adam moves them along it, as far as training has moved W.

    Args:
        moved, W_0, pull: (runs, heads, d, d). K, Q: (runs, heads, d, m), where the rivals start.
        judges: name -> (tokens of unit length, which are real), the sequences that are selected from.

    Returns:
        "own_name", "flow_name", "adam_name": (runs, heads); also with "_cheap", "_dear" and "_nuclear".
    """
    pull = pull / pull.norm(dim=(-2, -1), keepdim=True)
    far, found = moved.norm(dim=(-2, -1)), {}
    flow, adam = moved_by_slopes(K, Q, pull, far), moved_by_adam(K, Q, pull, far, felt)
    for name, M in (("own", moved), ("flow", flow), ("adam", adam)):
        for who, (a, real) in judges.items():
            selected = choice(W_0 + M, a, real)
            X, mask = (x[:, None].expand(-1, selected.shape[1], *x.shape[1:]) for x in (a, real))
            for end, price in PRICES.items():
                fitted = svm.solve_soft(X, selected, price, mask)
                assert (fitted.gap < 1e-3).all()
                found[f"{name}_{who}{end}"] = cosine(M, fitted.value)
            found[f"{name}_{who}_nuclear"] = cosine(M, nuclear_svm(a, real, selected))
    return found


def on_ten(tokens, *, trials, seed, steps=LOOKS[-1]):
    """Movements of heads that learned ten sequences, and those that nobody trained.

    Two rivals move keys and queries along random slopes of the ten sequences' tokens, as the trained network
    reads them. These ten judge, or ten unseen ones. By the unseen also "start_flow": a flow made of what the
    untrained network reads.
    """
    train, unseen, _, vocabulary = (digits if tokens == "digits" else sentences)(trials, seed=seed % 10_000)
    X, real, y = (part[:, :ASKED] for part in train)
    size = {"inputs": X.shape[-1]} if vocabulary is None else {"vocabulary": len(vocabulary[0])}
    P = net.begin(trials, X.shape[2], int(train[2].max()) + 1, **size, seed=seed)
    first = {name: weights.detach().clone() for name, weights in P.items()}
    net.learn(P, X, real, y, steps, ASKED, seed=seed)
    new, new_real = (part[:, :ASKED] for part in unseen[:2])
    found = {}
    all_read = zip(reads(P, X, real), reads(first, X, real), reads(P, new, new_real), strict=True)
    for k, (a, a_first, judge) in enumerate(all_read):
        W_0 = centred(first, k)
        moved = centred(P, k) - W_0
        far, heads = moved.norm(dim=(-2, -1)), moved.shape[1]
        K, Q = (w - w.mean(-2, keepdim=True) for w in (first[f"{name}{k}"].double() for name in "KQ"))
        draw = [of_tokens(x, real, heads, torch.Generator().manual_seed(seed + k)) for x in (a, a_first)]
        pull, at_first = (M / M.norm(dim=(-2, -1), keepdim=True) for M in draw)
        judges = {"seen": (a, real), "unseen": (judge, new_real)}
        layer = against_nobody(moved, W_0, K, Q, pull, judges, centre)
        M = moved_by_slopes(K, Q, at_first, far)
        layer["start_flow"] = cosine(M, soft_svm(judge, new_real, choice(W_0 + M, judge, new_real)))
        layer["moved"] = far / W_0.norm(dim=(-2, -1))
        for name, value in layer.items():
            found.setdefault(name, []).append(value)
    found = {name: torch.stack(parts, 1).float() for name, parts in found.items()}
    return found | {"train": right(P, X, real, y).detach(), "valid": right(P, *unseen).detach()}


def control(d, T, n=ASKED, *, trials, seed):
    """The same in one linear layer on sentences of T words; every token asks; Adam trains K and Q alone.

    The embeddings are random, of length sqrt(d), as those that a transformer's heads read. The n sentences
    judge, or ten others. On the way: (trials, looks) each.
    """
    has = ("K and Q", "every token asks", "Adam")
    X, y, E = few_sentences(trials, seed % 10_000, n=n + ASKED, T=T, d=d)
    half = (n + ASKED) // 2
    fresh = torch.arange(n + ASKED) % half >= n // 2
    X, new, y = X[:, ~fresh], X[:, fresh], y[:, ~fresh]
    tokens = {"seen": net.embed({"embed": E}, X), "unseen": net.embed({"embed": E}, new)}
    judges = {who: (x, torch.ones(x.shape[:3], dtype=torch.bool)) for who, x in tokens.items()}
    P = {**net.simple(has, trials, d, 8, seed), "embed": math.sqrt(d) * E}
    first = {name: P[name].clone() for name in ("K0", "Q0")}
    for name in first:
        P[name].requires_grad_()
    W_0, found = net.matrix(first, 0), {}
    pull = of_tokens(*judges["seen"], 1, torch.Generator().manual_seed(seed))

    def look(step):
        if step not in ON_THE_WAY:
            return
        with torch.no_grad():
            f = net.outputs(P, net.embed(P, X), has, [])
        moved = net.matrix(P, 0).detach() - W_0
        now = against_nobody(moved, W_0, first["K0"], first["Q0"], pull, judges)
        now["moved"] = moved.norm(dim=(-2, -1)) / W_0.norm(dim=(-2, -1))
        now["train"] = (y * f > 0).double().mean(-1, keepdim=True)
        for name, value in now.items():
            found.setdefault(name, []).append(value[:, 0])

    descend(P, X, [*first], y, has, ON_THE_WAY[-1], look)
    return {name: torch.stack(value, 1).float() for name, value in found.items()}


MEASURED = [
    Measured(
        "18.heads",
        "Two layers of four heads, trained on digits and on sentences: each head on the way and at the end.",
        transformers,
        {"tokens": ["digits", "sentences"], "decay": [0.0, 1.0]},
        trials=10,
        batch=5,
        paired=("decay",),
        minutes=6,
    ),
    Measured(
        "18.ten",
        "The same on ten sequences: SVMs over these and over unseen ones, and what nobody trained.",
        on_ten,
        {"tokens": ["digits", "sentences"]},
        trials=10,
        batch=5,
        minutes=5,
    ),
    Measured(
        "18.onward",
        "The same without decay, ten times as many steps, and with one question for all positions.",
        onward,
        {"tokens": ["digits", "sentences"]},
        trials=5,
        batch=5,
        minutes=8,
    ),
    Measured(
        "18.apart",
        "One attention layer on 16 sentences, and what the ingredients of a transformer do to its direction.",
        taken_apart,
        {"setting": SETTINGS},
        trials=10,
        batch=5,
        paired=("setting",),
        minutes=3,
    ),
    Measured(
        "18.longer",
        "Ingredients that left attention undecided, with 1,000 or 3,000 steps.",
        longer,
        {"setting": LONGER},
        trials=10,
        batch=10,
        minutes=2,
    ),
    Measured(
        "18.control",
        "The same in one linear layer on ten sentences, on the way, at four sizes.",
        control,
        {"d": [16, 32], "T": [8, 16]},
        trials=10,
        batch=5,
        minutes=4,
    ),
]
