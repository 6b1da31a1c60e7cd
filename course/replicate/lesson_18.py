"""Lesson 18 at length: small transformers on digits and sentences, head by head."""

import itertools
import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy, one_hot, softplus

from course.replicate import small_transformer as net
from course.replicate.stored import Measured, measured
from course.replicate.taken_apart import (
    LONGER,
    SETTINGS,
    cosine,
    few_sentences,
    hard,
    longer,
    taken_apart,
)
from mini_attn import datasets, svm

STEPS, LR = 400, 3e-3  # of training
LOOKS = (0, 10, 20, 40, 80, 160, 240, 320, 400)  # steps at which attention is looked at
SEEN, ASKED, PRICE = 200, 10, 1.0  # sequences in the statistics; in the SVMs; price of their slack
FURTHER = 2000  # steps of a few runs
SPREAD = {"soft": 0.4, "sharp": 0.02}  # of these targets lies evenly on all classes
READOUT = 4.0  # length of one linear layer's
# "labels, far as soft": labels, where they have gone as far as soft targets at the end
RIVALS = {"free": "free W", "pair": "untrained K and Q"}  # of transformers with labels
AIMS = ("soft", "labels, far as soft", "sharp", "labels, far as sharp", "labels")
NEAR = (0.25, 0.5, 1.0)  # distances on the way of one linear layer, in lengths of W_0
WAYS = (
    *("W by descent, 0.25", "W by descent, 0.5", "W by descent, 1", "W by descent"),
    *("K and Q by Adam, 0.25", "K and Q by Adam, 0.5", "K and Q by Adam, 1", "K and Q by Adam"),
    *("W by Adam", "K and Q by descent", "free W"),
)
LADDER = ("W by descent", "W by Adam", "K and Q by Adam", "W and the rest by Adam")  # in one transformer
OTHERS = {"soft": "soft targets", "entropy": "entropy"}  # losses of its first way
RUNGS = (0.5, 1.0)  # distances at which these are looked at
SHARES = (0.5, 0.75, 1.0)  # of the way to the minimum of soft targets
AFAR = 12.0  # lengths of W_0 that labels alone go
RIVALED = tuple(rival + far for far in (", 0.25", ", 0.5", ", 1", "") for rival in RIVALS.values())


def digits(runs, seed):
    """Splits of the digits, a run each: (X, real, y) of training and validation, arguments of `net.begin`."""
    pictures = datasets.digits()
    parts = [datasets.split(pictures, seed=seed + run) for run in range(runs)]
    found = []
    for part in (0, 1):
        some = torch.stack([one[part] for one in parts])
        X = pictures.X.float()[some]
        found.append((X, torch.ones(X.shape[:3], dtype=torch.bool), pictures.y[some]))
    return *found, {"T": X.shape[2], "classes": 10, "inputs": X.shape[3]}


def sentences(runs, seed, size=2000, T=16, n=2000):
    """The same for sentences of films."""
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
    return *found, {"T": T, "classes": 2, "vocabulary": len(written[0].vocabulary)}


def data(tokens, runs, seed):
    """Training and validation of the task, and the untrained transformers."""
    train, valid, sizes = (digits if tokens == "digits" else sentences)(runs, seed=seed % 10_000)
    return train, valid, net.begin(runs, **sizes, seed=seed)


def copied(P):
    """The weights as they are now."""
    return {name: weights.detach().clone() for name, weights in P.items()}


# --------------------------------------------------------------------------- what a head does
def sharpness(P, X, real):
    """Mean entropy of attention over the log of the number of tokens: (runs, layers, heads)."""
    keep, found = [], []
    with torch.no_grad():
        net.forward(P, X, real, keep)
    number = real.sum(-1)
    asks = (real & (number > 1)[..., None])[:, None]
    for _, s in keep:
        entropy = -(s * s.clamp_min(1e-30).log()).sum(-1) / number.clamp_min(2).log()[:, None, :, None]
        found.append((entropy * asks).sum((2, 3)) / asks.sum((2, 3)))
    return torch.stack(found, 1)


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


def sum_of_rows(a, real, selected):
    """The sum of all rows of each head's SVM, its direction at a price of 0: (runs, heads, d, d)."""
    a = a * real[..., None]
    x = a[:, None].expand(-1, selected.shape[1], *a.shape[1:])
    best = x.gather(3, selected[..., None].expand(*selected.shape, a.shape[-1]))
    ahead = real.sum(-1)[:, None, :, None, None] * best - x.sum(3, keepdim=True)
    return torch.einsum("rhikd,rhike->rhde", ahead, x)


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


def pair(P, k):
    """Keys and queries of layer k in float64, whose product is `centred`."""
    return [w - w.mean(-2, keepdim=True) for w in (P[f"{name}{k}"].detach().double() for name in "KQ")]


def unit(W):
    """W (..., d, d) over its length."""
    return W / W.norm(dim=(-2, -1), keepdim=True)


def reads(P, X, real):
    """What each layer reads, of unit length, in float64."""
    keep = []
    with torch.no_grad():
        net.forward(P, X, real, keep)
    return [a.double() / math.sqrt(a.shape[-1]) for a, _ in keep]


def compared(P, P_0, X, real, seed, shrunk=1.0):
    """Cosines of each head's movement from its start with SVMs over its tokens, and of the controls.

    With weight decay the start is where that alone would have brought W: `shrunk` times W_0.
    """
    generator, found = torch.Generator().manual_seed(seed), {}
    for k, a in enumerate(reads(P, X, real)):
        W, W_0 = centred(P, k), shrunk * centred(P_0, k)
        heads, moved = W.shape[1], W - W_0
        R = of_tokens(a, real, heads, generator)
        R = R * (moved.norm(dim=(-2, -1)) / R.norm(dim=(-2, -1)))[..., None, None]
        own = choice(W, a, real)
        chance = torch.rand(*own.shape, real.shape[-1], generator=generator)
        chance = chance.masked_fill(~real[:, None, :, None], -1.0).argmax(-1)
        fitted = soft_svm(a, real, own)
        layer = {
            "own": cosine(moved, fitted),
            "rows": cosine(moved, sum_of_rows(a, real, own)),
            "other_head": cosine(moved, fitted.roll(1, 1)),
            "random_tokens": cosine(moved, soft_svm(a, real, chance)),
            "never_trained": cosine(R, soft_svm(a, real, choice(W_0 + R, a, real))),
        }
        found = {name: [*found.get(name, []), part] for name, part in layer.items()}
    return {name: torch.stack(parts, 1) for name, parts in found.items()}


def right(P, X, real, y):
    """The share of right answers, (runs,)."""
    return (net.forward(P, X, real).argmax(-1) == y).float().mean(1).detach()


def winners(P, X, real, y, seed):
    """Which token gets the largest attention, beside a random one; (runs, layers, heads) each.

    best: how often it is the one with the best score. agree: in how many of the positions of a sequence it is
    the one that is chosen most often there.
    """
    keep, P = [], {name: w.clone().requires_grad_() for name, w in P.items()}
    answers = net.forward(P, X, real, keep)
    loss = cross_entropy(answers.flatten(0, 1), y.flatten(), reduction="sum")
    slopes = torch.autograd.grad(loss, [s for _, s in keep])
    asks = (real & (real.sum(-1) > 1)[..., None])[:, None]
    hidden, found = ~real[:, None, :, None], {}
    for (_, s), slope in zip(keep, slopes, strict=True):
        chance = torch.rand(s.shape, generator=torch.Generator().manual_seed(seed)).masked_fill(hidden, -1.0)
        best = (-slope).masked_fill(hidden, -torch.inf).argmax(-1)
        for name, selected in (("", s.argmax(-1)), ("chance_", chance.argmax(-1))):
            counts = torch.zeros_like(s[..., 0, :])
            counts.scatter_add_(-1, selected, asks.to(s.dtype).expand(selected.shape))
            now = {
                "best": ((selected == best) * asks).sum((2, 3)) / asks.sum((2, 3)),
                "agree": (counts.amax(-1) / counts.sum(-1).clamp_min(1)).mean(-1),
            }
            found |= {name + key: [*found.get(name + key, []), value] for key, value in now.items()}
    return {name: torch.stack(parts, 1).detach() for name, parts in found.items()}


def transformers(tokens, decay, *, trials, seed):
    """Two layers of four heads, trained on digits or sentences: every head at the end."""
    train, valid, P = data(tokens, trials, seed)
    first = copied(P)
    net.learn(P, *train, STEPS, 64, decay=decay, lr=LR, seed=seed)
    last, (X, real, y) = copied(P), (part[:, :SEEN] for part in train)
    found = {"train": right(last, *train), "valid": right(last, *valid), "entropy": sharpness(last, X, real)}
    found |= winners(last, X, real, y, seed)
    before = winners(first, X, real, y, seed)
    found |= {f"untrained_{name}": before[name] for name in ("best", "agree")}
    shrunk = (1 - LR * decay) ** (2 * STEPS)  # keys and queries, each at each step
    found |= compared(last, first, X[:, :ASKED], real[:, :ASKED], seed, shrunk)
    return {name: value.float() for name, value in found.items()}


def onward(tokens, *, trials, seed):
    """The transformers of `transformers` without decay, on the way."""
    train, _, P = data(tokens, trials, seed)
    some, found = [part[:, :1000] for part in train], {"entropy": [], "train": []}

    def look(step):
        if step in LOOKS:
            found["entropy"].append(sharpness(P, *(part[:, :SEEN] for part in train[:2])))
            found["train"].append(right(P, *some))

    net.learn(P, *train, LOOKS[-1], 64, lr=LR, seed=seed, look=look)
    return {name: torch.stack(values, 1) for name, values in found.items()}


def further(tokens, *, trials, seed):
    """The entropies of heads after `FURTHER` steps, five times those of `onward`."""
    train, _, P = data(tokens, trials, seed)
    net.learn(P, *train, FURTHER, 64, lr=LR, seed=seed)
    return {"entropy": sharpness(P, *(part[:, :SEEN] for part in train[:2]))}


# --------------------------------------------------------------------------- rivals of keys and queries
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


def against_rivals(moved, W_0, K, Q, pulls, judges):
    """Cosines of a trained movement, and of its rivals, to the SVMs of what the *trained* W selects.

    In a rival keys and queries flow along a constant pull, as far as training has moved W.

    Args:
        moved, W_0: (runs, heads, d, d). K, Q: (runs, heads, d, m), where the rivals start.
        pulls: name -> (runs, heads, d, d).
        judges: name -> (tokens of unit length, which are real), the sequences that are selected from.

    Returns:
        "own_name", "pull_name", and cosines, of moved to "first", and of the "judges"' two SVMs: (runs, heads).
    """  # noqa: E501
    far, found, fits = moved.norm(dim=(-2, -1)), {}, []
    moves = {"own": moved} | {name: moved_by_slopes(K, Q, unit(pull), far) for name, pull in pulls.items()}
    for who, (a, real) in judges.items():
        fitted = soft_svm(a, real, choice(W_0 + moved, a, real))
        found |= {f"{name}_{who}": cosine(M, fitted) for name, M in moves.items()}
        fits.append(fitted)
    return found | {"to_first": cosine(moved, moves["first"]), "judges": cosine(*fits)}


def first_slopes(P, loss, layers):
    """How the loss of the untrained P falls with W of each layer, (runs, heads, d, d) each.

    Args:
        loss: of weights with "W0", "W1" in the place of keys and queries.
    """
    W = {f"W{k}": net.matrix(P, k).detach().requires_grad_() for k in range(layers)}
    slopes = torch.autograd.grad(loss({name: w.detach() for name, w in P.items()} | W), [*W.values()])
    return [-slope.double() for slope in slopes]


def aimed_at(aim, y, classes):
    """The loss of answers (runs, n, classes) above its least, (runs,); only that of labels has no minimum.

    Cross entropy to the label, or to a target of which a share SPREAD is spread over all classes.
    """
    spread = SPREAD.get(aim, 0.0)
    goal = (1 - spread) * one_hot(y, classes) + spread / classes
    least = -(goal * goal.clamp_min(1e-30).log()).sum(-1)
    return lambda z: (-(goal * z.log_softmax(-1)).sum(-1) - least).mean(1)


def adam(P, loss, names):
    """A step of Adam on these weights."""
    optimizer = torch.optim.Adam([P[name].requires_grad_() for name in names], lr=LR)

    def step():
        optimizer.zero_grad()
        loss(P).sum().backward()
        optimizer.step()

    return step


def walk(P, loss, names, matrix, steps, fars=()):
    """Train; return the last weights, how far each layer has gone (layers, runs), and those at each of `fars`.

    Args:
        P: the start. loss: of weights, (runs,). names: of the weights that Adam trains.
        matrix: W of a layer, of weights and its number.
        fars: of (layers, runs), in lengths of W at the start, on the mean of heads. For each of them, of each
            layer and run, the weights of the first step at which it has gone as far, or the last ones.
    """  # noqa: E501
    P, layers = copied(P), 1 + ("K1" in P)
    start, thens = [matrix(P, k) for k in range(layers)], [[copied(P)] * layers for _ in fars]

    def gone(k):
        return ((matrix(P, k).detach() - start[k]).norm(dim=(-2, -1)) / start[k].norm(dim=(-2, -1))).mean(-1)

    going = [torch.ones(layers, len(start[0]), dtype=torch.bool) for _ in fars]
    step = adam(P, loss, names)
    for _ in range(steps):
        step()
        for far, then, on in zip(fars, thens, going, strict=True):
            for k in range(layers) if on.any() else ():
                which = {name: on[k].view(-1, *[1] * (w.dim() - 1)) for name, w in P.items()}
                then[k] = {name: torch.where(which[name], w.detach(), then[k][name]) for name, w in P.items()}
                on[k] &= gone(k) < far[k]
    return copied(P), torch.stack([gone(k) for k in range(layers)]), thens


def walks(P, loss, names, matrix, steps):
    """For each aim of AIMS the weights of each layer. loss: of weights and an aim, (runs,)."""
    ends = {aim: walk(P, lambda P, aim=aim: loss(P, aim), names, matrix, steps) for aim in SPREAD}
    fars = [far for _, far, _ in ends.values()]
    labels, _, thens = walk(P, lambda P: loss(P, "labels"), names, matrix, steps, fars)
    found = {aim: [last] * len(fars[0]) for aim, (last, _, _) in [*ends.items(), ("labels", (labels, 0, 0))]}
    found |= {f"labels, far as {aim}": then for aim, then in zip(ends, thens, strict=True)}
    return {aim: found[aim] for aim in AIMS}


def on_ten(tokens, n=ASKED, steps=STEPS, *, trials, seed):
    """Movements of heads that learned n sequences: (runs, AIMS, layers, heads).

    The n sequences judge, or n unseen ones. Names with "free_" and "pair_", (runs, layers, heads), are of the
    RIVALS: W moved straight, or keys and queries that flow, along a random sum over the tokens that the layer
    reads, as far as with labels. They are judged by what they select themselves.
    """
    train, valid, P = data(tokens, trials, seed)
    X, real, y = (part[:, :n] for part in train)
    new, new_real = (part[:, :n] for part in valid[:2])
    start, generator, found = copied(P), torch.Generator().manual_seed(seed), {}

    def loss(P, aim):
        return aimed_at(aim, y, P["read"].shape[-1])(net.forward(P, X, real))

    for aim, weights in walks(start, loss, [*start], centred, steps).items():
        slopes, layers = first_slopes(start, lambda P, aim=aim: loss(P, aim).sum(), 2), {}
        for k, P in enumerate(weights):
            a, W_0, factors = reads(P, X, real)[k], centred(start, k), pair(start, k)
            moved, size = centred(P, k) - W_0, W_0.norm(dim=(-2, -1))
            judges = {"seen": (a, real), "unseen": (reads(P, new, new_real)[k], new_real)}
            layer = against_rivals(moved, W_0, *factors, {"first": slopes[k]}, judges)
            gone = 1 - loss(P, aim) / loss(start, aim)
            layer |= {"moved": moved.norm(dim=(-2, -1)) / size, "gone": gone[:, None].expand_as(size)}
            if aim == "labels":
                far, R = moved.norm(dim=(-2, -1)), unit(of_tokens(a, real, W_0.shape[1], generator))
                moves = {"free": far[..., None, None] * R, "pair": moved_by_slopes(*factors, R, far)}
                for rival, step in moves.items():
                    values = against_rivals(step, W_0, *factors, {"first": slopes[k]}, judges)
                    values["moved"] = far / size
                    for name, value in values.items():
                        found.setdefault(f"{rival}_{name}", []).append(value)
            for name, value in layer.items():
                layers.setdefault(name, []).append(value)
        for name, parts in layers.items():
            found.setdefault(name, []).append(torch.stack(parts, 1))
    return {name: torch.stack(parts, 1).float() for name, parts in found.items()}


def ten_sentences(d, T, n, trials, seed):
    """Words (trials, n, T) and labels that a layer learns, embeddings, and judges: those n, or new ones."""
    X, y, E = few_sentences(trials, seed % 10_000, n=n + ASKED, T=T, d=d)
    half = (n + ASKED) // 2
    fresh = torch.arange(n + ASKED) % half >= n // 2
    tokens = {"seen": net.embed({"embed": E}, X[:, ~fresh]), "unseen": net.embed({"embed": E}, X[:, fresh])}
    judges = {who: (x, torch.ones(x.shape[:3], dtype=torch.bool)) for who, x in tokens.items()}
    return X[:, ~fresh], y[:, ~fresh], E, judges


def descent(P, loss, names, length=0.03):
    """A step of gradient descent on these weights of each run, all of them together of this length."""

    def step():
        weights = [P[name].requires_grad_() for name in names]
        slopes = torch.autograd.grad(loss(P).sum(), weights)
        size = sum(slope.flatten(1).square().sum(1) for slope in slopes).sqrt()
        with torch.no_grad():
            for w, slope in zip(weights, slopes, strict=True):
                w -= length * slope / size.view(-1, *[1] * (slope.dim() - 1))

    return step


def until(P, method, loss, names, fars, steps):
    """W (runs, 1, d, d) at the first step at which it has gone as far as each of `fars` (runs,), or at the last.

    Args:
        P: the start. method: `adam` or `descent`. loss: of weights, (runs,). names: of the trained weights.
        fars: in lengths of W at the start. steps: at most.
    """  # noqa: E501
    P = copied(P)
    step, W_0 = method(P, loss, names), net.matrix(P, 0).detach().clone()
    thens, going = [W_0] * len(fars), [torch.ones(len(W_0), dtype=torch.bool) for _ in fars]
    for _ in range(steps):
        step()
        W = net.matrix(P, 0).detach().clone()
        gone = ((W - W_0).norm(dim=(-2, -1)) / W_0.norm(dim=(-2, -1)))[:, 0]
        for k, (far, on) in enumerate(zip(fars, going, strict=True)):
            thens[k] = torch.where(on[:, None, None, None], W, thens[k])
            on &= gone < far
        if not any(on.any() for on in going):
            break
    return thens


def one_layer(d, T=16, n=ASKED, steps=STEPS, *, trials, seed):
    """One linear layer that learns the labels of n sentences of T words in each of WAYS: (trials, WAYS) each.

    Every token asks. The embeddings are random, of length sqrt(d), as those that a transformer's heads read; the
    readout is random, too, of length `READOUT`. The n sentences judge, or ten others. Without a number, a way is
    as far as keys and queries are after these steps of Adam.
    """  # noqa: E501
    has, found = ("K and Q", "every token asks", "Adam"), {}
    X, y, E, judges = ten_sentences(d, T, n, trials, seed)
    P = {**net.simple(has, trials, d, 8, seed), "embed": math.sqrt(d) * E}
    pairs = P | {"read": READOUT * P["read"]}
    W_0 = net.matrix(pairs, 0)
    whole = {name: pairs[name] for name in ("embed", "read")} | {"W0": W_0}

    def loss(P):
        f = net.outputs(P, net.embed(P, X), has, [])
        return aimed_at("labels", (y > 0).long(), 2)(torch.stack([torch.zeros_like(f), f], -1))

    near = [torch.full((trials,), far) for far in NEAR]
    *on_the_way, last = until(
        pairs, adam, loss, ("K0", "Q0"), [*near, torch.full((trials,), math.inf)], steps
    )
    size = W_0.norm(dim=(-2, -1))
    end = ((last - W_0).norm(dim=(-2, -1)) / size)[:, 0]
    ends = dict(zip(WAYS[4:8], [*on_the_way, last], strict=True))
    ends |= zip(WAYS[:4], until(whole, descent, loss, ["W0"], [*near, end], 4 * steps), strict=True)
    ends["W by Adam"] = until(whole, adam, loss, ["W0"], [end], 4 * steps)[0]
    ends["K and Q by descent"] = until(pairs, descent, loss, ("K0", "Q0"), [end], 4 * steps)[0]
    R = unit(of_tokens(*judges["seen"], 1, torch.Generator().manual_seed(seed)))
    ends["free W"] = W_0 + (end[:, None] * size)[..., None, None] * R
    (slope,) = first_slopes(pairs, lambda P: loss(P).sum(), 1)
    for way in WAYS:
        W = ends[way]
        moved = W - W_0
        far = moved.norm(dim=(-2, -1))
        pair = way.startswith("K and Q")
        first = moved_by_slopes(pairs["K0"], pairs["Q0"], unit(slope), far) if pair else slope
        fits = {who: soft_svm(a, real, choice(W, a, real)) for who, (a, real) in judges.items()}
        layer = {f"own_{who}": cosine(moved, fitted) for who, fitted in fits.items()}
        layer |= {f"first_{who}": cosine(first, fitted) for who, fitted in fits.items()}
        layer |= {"to_first": cosine(moved, first), "judges": cosine(*fits.values()), "moved": far / size}
        layer["gone"] = (1 - loss(whole | {"W0": W}) / loss(whole))[:, None]
        for name, value in layer.items():
            found.setdefault(name, []).append(value[:, 0])
    return {name: torch.stack(values, 1).float() for name, values in found.items()}


def rivals_of_layer(d, T=16, n=ASKED, steps=STEPS, *, trials, seed):
    """The same of RIVALS in the layers that `one_layer` has with this seed: (trials, RIVALED)."""
    has, found = ("K and Q", "every token asks", "Adam"), {}
    X, y, E, judges = ten_sentences(d, T, n, trials, seed)
    P = {**net.simple(has, trials, d, 8, seed), "embed": math.sqrt(d) * E}
    P["read"] = READOUT * P["read"]
    W_0 = net.matrix(P, 0)

    def loss(P):
        f = net.outputs(P, net.embed(P, X), has, [])
        return aimed_at("labels", (y > 0).long(), 2)(torch.stack([torch.zeros_like(f), f], -1))

    size = W_0.norm(dim=(-2, -1))
    (last,) = until(P, adam, loss, ("K0", "Q0"), [torch.full((trials,), math.inf)], steps)
    R = unit(of_tokens(*judges["seen"], 1, torch.Generator().manual_seed(seed)))
    (slope,) = first_slopes(P, lambda P: loss(P).sum(), 1)
    for far in (*(near * size for near in NEAR), (last - W_0).norm(dim=(-2, -1))):
        rivals = {"free": [far[..., None, None] * unit(M) for M in (R, slope)]}
        rivals["pair"] = [moved_by_slopes(P["K0"], P["Q0"], unit(M), far) for M in (R, slope)]
        for moved, first in rivals.values():
            values = {"to_first": cosine(moved, first), "moved": far / size}
            fits = [soft_svm(a, real, choice(W_0 + moved, a, real)) for a, real in judges.values()]
            values["judges"] = cosine(*fits)
            for who, fitted in zip(judges, fits, strict=True):
                values |= {f"own_{who}": cosine(moved, fitted), f"first_{who}": cosine(first, fitted)}
            for name, value in values.items():
                found.setdefault(name, []).append(value[:, 0])
    return {name: torch.stack(values, 1).float() for name, values in found.items()}


def ladder(way=LADDER[0], aim="labels", n=ASKED, steps=STEPS, *, trials, seed):
    """Transformers on n digits of which a part is trained, at RUNGS: (runs, RUNGS, layers, heads).

    All but W, or keys and queries, of both layers is as it was drawn; in the last of LADDER nothing is. At a
    distance a layer is looked at in the network of the first step at which its heads have gone as far in the
    mean. Both of RIVALS go as far, are judged by their own choices and have the network's own first slope.

    Args:
        aim: of `aimed_at`, or "entropy", the mean entropy of attention over these n digits.
    """
    train, valid, P = data("digits", trials, seed)
    (X, real, y), (new, new_real, _) = ([part[:, :n] for part in some] for some in (train, valid))
    start, generator, found = copied(P), torch.Generator().manual_seed(seed), {}
    P, pairs, every = copied(P), way.startswith("K and Q"), way.endswith("the rest by Adam")
    if not pairs:
        P = {name: w for name, w in P.items() if name[0] not in "KQ"}
        P |= {f"W{k}": net.matrix(start, k).clone() for k in (0, 1)}

    def loss(P):
        keep = []
        z = net.forward(P, X, real, keep)
        if aim == "entropy":
            return -sum((s * s.clamp_min(1e-30).log()).sum(-1).mean((1, 2, 3)) for _, s in keep)
        return aimed_at(aim, y, z.shape[-1])(z)

    def gone(k):
        moved, size = (W.norm(dim=(-2, -1)) for W in (centred(P, k) - centred(start, k), centred(start, k)))
        return (moved / size).mean(-1)

    names = [*P] if every else [name for name in P if name[0] in "KQW"]
    if way.endswith("descent"):  # of all heads together, so that each goes about as far as in `one_layer`
        step = descent(P, loss, names, 0.03 * math.sqrt(2 * P["W0"].shape[1]))
    else:
        step = adam(P, loss, names)
    going = [[torch.ones(trials, dtype=torch.bool) for _ in range(2)] for _ in RUNGS]
    thens = [[copied(P)] * 2 for _ in RUNGS]
    for _ in range(steps):
        step()
        for far, then, on in zip(RUNGS, thens, going, strict=True):
            for k in (0, 1):
                if on[k].any():
                    then[k] = {
                        name: torch.where(on[k].view(-1, *[1] * (w.dim() - 1)), w.detach(), then[k][name])
                        for name, w in P.items()
                    }
                    on[k] &= gone(k) < far
        if not any(on.any() for rung in going for on in rung):
            break
    slopes = first_slopes(start, lambda P: loss(P).sum(), 2)
    for weights in thens:
        layers = {}
        for k, then in enumerate(weights):
            a, W_0, factors = reads(then, X, real)[k], centred(start, k), pair(start, k)
            judges = (a, real), (reads(then, new, new_real)[k], new_real)
            moved, R = centred(then, k) - W_0, unit(of_tokens(a, real, W_0.shape[1], generator))
            far = moved.norm(dim=(-2, -1))
            first = moved_by_slopes(*factors, unit(slopes[k]), far) if pairs else slopes[k]
            rivals = {"free_": far[..., None, None] * R, "pair_": moved_by_slopes(*factors, R, far)}
            for who, step in {"": moved, **rivals}.items():
                fits = [soft_svm(tokens, are, choice(W_0 + step, tokens, are)) for tokens, are in judges]
                values = {"to_first": cosine(step, first), "judges": cosine(*fits)}
                values["moved"] = far / W_0.norm(dim=(-2, -1))
                for name, fitted in zip(("seen", "unseen"), fits, strict=True):
                    values |= {f"own_{name}": cosine(step, fitted), f"first_{name}": cosine(first, fitted)}
                for name, value in values.items():
                    layers.setdefault(who + name, []).append(value)
            fallen = 1 - loss(then) / loss(start)
            layers.setdefault("gone", []).append(fallen[:, None].expand_as(far))
        for name, parts in layers.items():
            found.setdefault(name, []).append(torch.stack(parts, 1))
    return {name: torch.stack(parts, 1).float() for name, parts in found.items()}


def untrained_pairs(far, *, trials, seed):
    """Nuclear: cosines of untrained keys and queries on 16 sentences to the nuclear SVM of what they select.

    A rival of "+ K and Q" of `taken_apart`, which goes about as far; beyond 10 it no longer matters how far.
    """
    X, _, E = few_sentences(trials, seed)
    P, a = net.simple(("K and Q",), trials, 32, 8, seed), net.embed({"embed": E}, X)
    c = torch.randn(a.shape[:3], generator=torch.Generator().manual_seed(seed), dtype=a.dtype)
    R = unit(torch.einsum("rit,ritd,rie->rde", c - c.mean(-1, keepdim=True), a, a[:, :, -1]))
    moved = moved_by_slopes(P["K0"][:, 0], P["Q0"][:, 0], R, torch.full((trials,), far, dtype=a.dtype))
    W, asks = net.matrix(P, 0)[:, 0] + moved, a[:, :, -1:]
    problem = hard(a, asks, (asks @ W.mT[:, None] @ a.mT).argmax(-1))
    return {"nuclear": cosine(W, svm.solve(problem, norm="nuc").value)}


def under_norms(trials, seed, n=16, T=8, d=32, steps=1000, length=0.02):
    """One layer of `taken_apart` with a norm before attention and before the readout, in short steps.

    Returns:
        What the last word of each sentence looks at, (trials n, T), the tokens as the layer reads them,
        (trials n, T, d), and the readout of length one, times the label, (trials n, d).
    """
    X, y, E = few_sentences(trials, seed, n=n, T=T, d=d)
    has, a, keep = ("norm before the readout",), net.norm(net.embed({"embed": E}, X)), []
    P = net.simple(has, trials, d, 8, seed) | {"embed": E}
    step = descent(P, lambda P: softplus(-y * net.outputs(P, net.embed(P, X), has)).mean(-1), ["W0"], length)
    for _ in range(steps):
        step()
    with torch.no_grad():
        net.outputs(P, net.embed(P, X), has, keep)
    goal = y[..., None] * P["read"].mT
    return [x.flatten(0, 1).numpy() for x in (keep[0][1][:, 0, :, -1], a, goal)]


def begin_one(inputs, T, classes, seed, d=32, heads=4):
    """Random weights of the lesson's own transformer: named as the text does, with the layer behind."""
    generator, m = torch.Generator().manual_seed(seed), d // heads
    shapes = {"embed": (inputs, d), "place": (T, d), "read": (d, classes)}
    for layer in (0, 1):
        shapes |= {f"{name}{layer}": (heads, d, m) for name in "KQV"}
        shapes |= {f"O{layer}": (heads, m, d)}
        shapes |= {f"U{layer}": (d, 2 * d), f"b{layer}": (2 * d,), f"D{layer}": (2 * d, d)}
    size = {"embed": 2 * inputs**-0.5, "place": 0.5, "b0": 0.0, "b1": 0.0}
    P = {}
    for name, shape in shapes.items():
        draw = torch.randn(shape, generator=generator, dtype=torch.float64)
        P[name] = (size.get(name, shape[-2] ** -0.5 if len(shape) > 1 else 0) * draw).requires_grad_()
    return P


def few_layers(trials, seed, d=32):
    """Linear layers that learn ten sentences of 16 words, as `one_layer` has them.

    Returns:
        W at the start, (trials, d, d), its keys and queries (trials, d, 8), readouts (trials, d, 1), labels
        (trials, 10), and the tokens, of length one, of the ten sentences and of ten new ones, (trials, 10,
        16, d) each.
    """
    _, y, _, judges = ten_sentences(d, 16, ASKED, trials, seed)
    P = net.simple(("K and Q",), trials, d, 8, seed)
    start = [w[:, 0] for w in (net.matrix(P, 0), P["K0"], P["Q0"])]
    return *start, READOUT * P["read"], y, *(judges[who][0] for who in ("seen", "unseen"))


def partings(p, *, trials, seed):
    """W by descent in the linear layers of `few_layers`, with soft targets and with labels, on the way.

    Soft targets go until W stands still, and labels as far, in each layer. Both are looked at where they have
    gone each of SHARES of this way. With p = 1, labels alone go `AFAR` lengths of W_0.

    Args:
        p: the label's share of the targets.

    Returns:
        Of labels and soft targets, (trials, SHARES, 2): the gap, the distance in lengths of W_0, and the cosine to
        S. Of both, (trials, SHARES): their cosine; and "slope", at the soft end in that of the start, (trials,).
    """  # noqa: E501
    W_0, _, _, v, y, x_ten, x_new = few_layers(trials, seed)
    size, a, found = W_0.norm(dim=(1, 2)), math.sqrt(W_0.shape[-1]) * x_ten, {}

    def loss(W, p):
        yf = y * (((a @ W[:, None].mT @ a.mT).softmax(-1) @ a).mean(2) @ v)[..., 0]
        return (p * softplus(-yf) + (1 - p) * softplus(yf)).mean(-1)

    def pull(W, p):
        W = W.clone().requires_grad_()
        return -torch.autograd.grad(loss(W, p).sum(), W)[0]

    def descended(p, steps, fars):
        """W at the first step at which it has gone each of `fars`, or at the last. Steps as on the page."""
        W, now, stride = W_0, loss(W_0, p), torch.full_like(size, 0.03)
        thens, going = [W_0 for _ in fars], [torch.ones_like(size, dtype=torch.bool) for _ in fars]
        for _ in range(steps):
            there = W + stride[:, None, None] * unit(pull(W, p))
            then = loss(there, p)
            falls = then < now
            W, now = torch.where(falls[:, None, None], there, W), torch.where(falls, then, now)
            stride = torch.where(falls, 1.2 * stride, stride / 2).clamp(max=0.03)
            for k, far in enumerate(fars):
                thens[k] = torch.where(going[k][:, None, None], W, thens[k])
                going[k] &= (W - W_0).norm(dim=(1, 2)) < far
            if not any(on.any() for on in going):
                break
        return thens

    def looked_at(W, p):
        moved, G, fits = W - W_0, unit(pull(W_0, p)), []
        for x in (x_ten, x_new):
            selected = (x @ W[:, None].mT @ x.mT).argmax(-1)
            fits.append(svm.solve_soft(x, selected, C=1.0, tol=1e-3).value)
        N = moved - (moved * G).sum((1, 2), keepdim=True) * G
        gap = (cosine(N, fits[0]) - cosine(N, fits[1])) / (1 - cosine(*fits))
        whole = fits[0] - (fits[0] * G).sum((1, 2), keepdim=True) * G  # if the movement were S itself
        most = (cosine(whole, fits[0]) - cosine(whole, fits[1])) / (1 - cosine(*fits))
        away = moved.norm(dim=(1, 2)) / size
        return {"gap": gap, "moved": away, "to_svm": cosine(moved, fits[0]), "most": most}

    steps, far = (1000, AFAR * size) if p == 1 else (400, torch.full_like(size, math.inf))
    (end,) = descended(p, steps, [far])
    way = (end - W_0).norm(dim=(1, 2))
    fars = [share * way for share in SHARES]
    softs = [*descended(p, steps, fars[:-1]), end]
    labels = descended(1.0, steps, fars) if p < 1 else softs
    for soft, label in zip(softs, labels, strict=True):
        both = looked_at(label, 1.0), looked_at(soft, p)
        for name in both[0]:
            found.setdefault(name, []).append(torch.stack([one[name] for one in both], 1))
        found.setdefault("alike", []).append(cosine(label - W_0, soft - W_0))
    slope = pull(end, p).norm(dim=(1, 2)) / pull(W_0, p).norm(dim=(1, 2))
    return {name: torch.stack(parts, 1).float() for name, parts in found.items()} | {"slope": slope.float()}


def cases(name):
    """What 18.5 and 18.6 compare: (where, what) -> cosines by ten learned and ten unseen, (2, runs, heads).

    "what" is one of WAYS or RIVALED in the linear layer "d = 32", "labels", "soft targets" or one of RIVALS
    in transformers on "digits" or "sentences", and "digits" or one of RIVALS, with ", 0.5" or ", 1", where
    one of LADDER is trained of a transformer, or "W by descent, " with a loss of OTHERS. For "to_first",
    "judges" and "moved" (in lengths of W_0): (runs, heads).
    """
    names = ("ten", "layer", "rivals", "ladder", "losses")
    ten, layer, rivals, rungs, losses = (measured(f"18.{one}").load() for one in names)

    def of(cell, rival=""):
        if name in ("moved", "to_first", "judges"):
            return cell[rival + name].values
        return np.stack([cell[f"{rival}{name}_{who}"].values for who in ("seen", "unseen")])

    found = {("d = 32", way): of(layer.sel(d=32))[..., at, None] for at, way in enumerate(WAYS)}
    found |= {("d = 32", way): of(rivals.sel(d=32))[..., at, None] for at, way in enumerate(RIVALED)}
    named = {f"{rival}_": what for rival, what in RIVALS.items()}
    for tokens in ("digits", "sentences"):
        cell = ten.sel(tokens=tokens)
        parts = {"labels": of(cell)[..., AIMS.index("labels"), :, :]}
        parts["soft targets"] = of(cell)[..., AIMS.index("soft"), :, :]
        parts |= {what: of(cell, rival) for rival, what in named.items()}
        found |= {(tokens, what): x.reshape(*x.shape[:-2], -1) for what, x in parts.items()}
    trained = {way: rungs.sel(way=way) for way in LADDER}
    trained |= {f"{LADDER[0]}, {what}": losses.sel(aim=aim) for aim, what in OTHERS.items()}
    for (way, cell), (rival, what) in itertools.product(trained.items(), ({"": "digits"} | named).items()):
        x = of(cell, rival)
        parts = {f"{what}, {far:g}": x[..., at, :, :] for at, far in enumerate(RUNGS)}
        found |= {(way, what): x.reshape(*x.shape[:-2], -1) for what, x in parts.items()}
    return found


MEASURED = [
    Measured(
        "18.heads",
        "Two layers of four heads, trained on digits and on sentences: each head at the end.",
        transformers,
        {"tokens": ["digits", "sentences"], "decay": [0.0, 1.0]},
        trials=10,
        batch=5,
        paired=("decay",),
        minutes=3.5,
    ),
    Measured(
        "18.onward",
        "The same without decay, on the way.",
        onward,
        {"tokens": ["digits", "sentences"]},
        trials=10,
        batch=5,
        minutes=1,
    ),
    Measured(
        "18.further",
        "The entropies of its heads on digits after 2,000 steps.",
        further,
        {"tokens": ["digits"]},
        trials=5,
        batch=5,
        minutes=1,
    ),
    Measured(
        "18.ten",
        "The same on ten sequences, with three aims, and two rivals: SVMs over these and over unseen ones.",
        on_ten,
        {"tokens": ["digits", "sentences"]},
        trials=20,
        batch=5,
        minutes=3,
    ),
    Measured(
        "18.ladder",
        "Transformers on ten digits, all of them frozen but W, or keys and queries; and none of it.",
        ladder,
        {"way": list(LADDER)},
        trials=20,
        batch=5,
        paired=("way",),
        minutes=4,
    ),
    Measured(
        "18.losses",
        "The first of them with two other losses: soft targets, and the entropy of attention.",
        ladder,
        {"aim": list(OTHERS)},
        trials=20,
        batch=5,
        paired=("aim",),
        minutes=2,
    ),
    Measured(
        "18.layer",
        "One linear layer on ten sentences, its W or keys and queries trained, at two sizes.",
        one_layer,
        {"d": [16, 32]},
        trials=20,
        batch=5,
        minutes=1,
    ),
    Measured(
        "18.rivals",
        "Its two rivals at four distances, in the same layers.",
        rivals_of_layer,
        {"d": [16, 32]},
        trials=20,
        batch=5,
        minutes=1,
    ),
    Measured(
        "18.partings",
        "One linear layer with soft targets until W stands still, and with labels as far.",
        partings,
        {"p": [0.8, 0.9, 0.95, 0.99, 1.0]},
        trials=100,
        batch=20,
        minutes=4,
    ),
    Measured(
        "18.apart",
        "One attention layer on 16 sentences, and what the ingredients of a transformer do to its direction.",
        taken_apart,
        {"setting": SETTINGS},
        trials=10,
        batch=5,
        paired=("setting",),
        minutes=2,
    ),
    Measured(
        "18.pairs",
        "Untrained keys and queries, as far as the trained: the nuclear SVM of what they select.",
        untrained_pairs,
        {"far": [3000.0]},
        trials=10,
        batch=10,
        minutes=0.25,
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
]
