"""Lesson 18 at length: small transformers on digits and sentences, head by head."""

import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy, softplus

from course.replicate import small_transformer as net
from course.replicate.stored import Measured, measured
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

STEPS, LR = 400, 3e-3  # of training
LOOKS = (0, 10, 20, 40, 80, 160, 240, 320, 400)  # steps at which attention is looked at
SEEN, ASKED, PRICE = 200, 10, 1.0  # sequences in the statistics; in the SVMs; price of their slack
DISTANCES = (0.4, 0.7, 2.0, 4.0)  # in lengths of W_0, at which one linear layer is compared


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
            "other_head": cosine(moved, fitted.roll(1, 1)),
            "random_tokens": cosine(moved, soft_svm(a, real, chance)),
            "never_trained": cosine(R, soft_svm(a, real, choice(W_0 + R, a, real))),
        }
        found = {name: [*found.get(name, []), part] for name, part in layer.items()}
    return {name: torch.stack(parts, 1) for name, parts in found.items()}


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


def right(P, X, real, y):
    """The share of right answers, (runs,)."""
    return (net.forward(P, X, real).argmax(-1) == y).float().mean(1).detach()


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
    """Cosines of a trained movement, and of its rivals, to the SVMs of what they select.

    In a rival keys and queries flow along a constant pull, as far as training has moved W.

    Args:
        moved, W_0: (runs, heads, d, d). K, Q: (runs, heads, d, m), where the rivals start.
        pulls: name -> (runs, heads, d, d).
        judges: name -> (tokens of unit length, which are real), the sequences that are selected from.

    Returns:
        "own_name" and "pull_name": (runs, heads) each.
    """
    far, found = moved.norm(dim=(-2, -1)), {}
    moves = {"own": moved}
    for name, pull in pulls.items():
        moves[name] = moved_by_slopes(K, Q, pull / pull.norm(dim=(-2, -1), keepdim=True), far)
    for name, M in moves.items():
        for who, (a, real) in judges.items():
            selected = choice(W_0 + M, a, real)
            found[f"{name}_{who}"] = cosine(M, soft_svm(a, real, selected))
    return found


def first_slopes(P, loss, layers):
    """How the loss of the untrained P falls with W of each layer, (runs, heads, d, d) each.

    Args:
        loss: of weights with "W0", "W1" in the place of keys and queries.
    """
    W = {f"W{k}": net.matrix(P, k).detach().requires_grad_() for k in range(layers)}
    slopes = torch.autograd.grad(loss({name: w.detach() for name, w in P.items()} | W), [*W.values()])
    return [-slope.double() for slope in slopes]


def on_ten(tokens, *, trials, seed):
    """Movements of heads that learned ten sequences, and their two rivals.

    One moves keys and queries along random slopes of the ten sequences' tokens, as the trained network reads
    them ("flow"), one along the slope at the start ("first"). These ten judge, or ten unseen ones. By the
    unseen also "start_flow": a flow made of what the untrained network reads.
    """
    train, valid, P = data(tokens, trials, seed)
    X, real, y = (part[:, :ASKED] for part in train)
    new, new_real = (part[:, :ASKED] for part in valid[:2])
    first = copied(P)

    def loss(P):
        return cross_entropy(net.forward(P, X, real).flatten(0, 1), y.flatten(), reduction="sum")

    slopes = first_slopes(P, loss, 2)
    net.learn(P, X, real, y, STEPS, ASKED, lr=LR, seed=seed)
    P, found = copied(P), {}
    all_read = zip(reads(P, X, real), reads(first, X, real), reads(P, new, new_real), strict=True)
    for k, (a, a_first, judge) in enumerate(all_read):
        W_0 = centred(first, k)
        moved, size = centred(P, k) - W_0, W_0.norm(dim=(-2, -1))
        K, Q = (w - w.mean(-2, keepdim=True) for w in (first[f"{name}{k}"].double() for name in "KQ"))
        pulls = [of_tokens(x, real, len(K[0]), torch.Generator().manual_seed(seed + k)) for x in (a, a_first)]
        judges = {"seen": (a, real), "unseen": (judge, new_real)}
        layer = against_rivals(moved, W_0, K, Q, {"flow": pulls[0], "first": slopes[k]}, judges)
        unit = pulls[1] / pulls[1].norm(dim=(-2, -1), keepdim=True)
        M = moved_by_slopes(K, Q, unit, moved.norm(dim=(-2, -1)))
        layer["start_flow"] = cosine(M, soft_svm(judge, new_real, choice(W_0 + M, judge, new_real)))
        layer["moved"] = moved.norm(dim=(-2, -1)) / size
        for name, value in layer.items():
            found.setdefault(name, []).append(value)
    found = {name: torch.stack(parts, 1).float() for name, parts in found.items()}
    return found | {"train": right(P, X, real, y), "valid": right(P, *valid)}


def stays(tokens, *, trials, seed):
    """How far the heads of `on_ten` get in ten times as many steps, in lengths of W_0."""
    (X, real, y), _, P = data(tokens, trials, seed)
    W_0 = [centred(P, k) for k in (0, 1)]
    net.learn(P, X[:, :ASKED], real[:, :ASKED], y[:, :ASKED], 10 * STEPS, ASKED, lr=LR, seed=seed)
    gone = [(centred(P, k) - W_0[k]).norm(dim=(-2, -1)) / W_0[k].norm(dim=(-2, -1)) for k in (0, 1)]
    return {"moved": torch.stack(gone, 1).float()}


def control(d, T, n=ASKED, distances=DISTANCES, *, trials, seed):
    """The same in one linear layer on sentences of T words; every token asks; Adam trains K and Q alone.

    The embeddings are random, of length sqrt(d), as those that a transformer's heads read. The n sentences
    judge, or ten others. In each trial at the first steps at which W has moved by these distances, in
    lengths of W_0: (trials, distances) each.
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
    W_0 = net.matrix(first, 0)

    def margins(P):
        return y * net.outputs(P, net.embed(P, X), has, [])

    (slope,) = first_slopes(P, lambda P: softplus(-margins(P)).mean(-1).sum(), 1)
    pulls = {"flow": of_tokens(*judges["seen"], 1, torch.Generator().manual_seed(seed)), "first": slope}
    for name in first:
        P[name].requires_grad_()
    sizes = (trials, len(distances))
    there, W, fit = torch.zeros(sizes).bool(), torch.zeros(*sizes, d, d).double(), torch.zeros(sizes).double()

    def look(step):
        with torch.no_grad():
            now, correct = net.matrix(P, 0)[:, 0], (margins(P) > 0).double().mean(-1)
        gone = (now - W_0[:, 0]).norm(dim=(-2, -1)) / W_0[:, 0].norm(dim=(-2, -1))
        for i, distance in enumerate(distances):
            here = (gone >= distance) & ~there[:, i]
            W[here, i], fit[here, i] = now[here], correct[here]
            there[:, i] |= here

    descend(P, X, [*first], y, has, 4 * STEPS, look)
    assert there.all()
    found = {"train": fit}
    for i in range(len(distances)):
        moved = W[:, None, i] - W_0
        now = against_rivals(moved, W_0, first["K0"], first["Q0"], pulls, judges)
        now["moved"] = moved.norm(dim=(-2, -1)) / W_0.norm(dim=(-2, -1))
        for name, value in now.items():
            found[name] = [*found.get(name, []), value[:, 0]]
    return {
        name: (torch.stack(value, 1) if name != "train" else value).float() for name, value in found.items()
    }


def numbers(d, T, n=ASKED, distances=(0.4, 4.0), size=16.0, *, trials, seed):
    """The layer of `control`, trained by least squares to have random numbers as its logits: no SVM.

    The numbers are normal, of standard deviation `size`; the loss has a minimum. The first slope is its own.
    """
    X, _, E = few_sentences(trials, seed % 10_000, n=n + ASKED, T=T, d=d)
    half = (n + ASKED) // 2
    fresh = torch.arange(n + ASKED) % half >= n // 2
    tokens = {"seen": net.embed({"embed": E}, X[:, ~fresh]), "unseen": net.embed({"embed": E}, X[:, fresh])}
    judges = {who: (x, torch.ones(x.shape[:3], dtype=torch.bool)) for who, x in tokens.items()}
    P, generator = net.simple(("K and Q",), trials, d, 8, seed), torch.Generator().manual_seed(seed)
    first = {name: P[name].clone() for name in ("K0", "Q0")}
    W_0, a = net.matrix(first, 0), math.sqrt(d) * tokens["seen"][:, None]
    goal = size * torch.randn(trials, 1, n, T, T, generator=generator, dtype=torch.float64)

    def loss(P):
        logits = (a @ net.matrix(P, 0)[:, :, None].mT) @ a.mT
        return (logits - goal).square().mean((1, 2, 3, 4)).sum()

    pulls = {"flow": of_tokens(*judges["seen"], 1, generator), "first": first_slopes(P, loss, 1)[0]}
    adam = torch.optim.Adam([P[name].requires_grad_() for name in first], lr=LR)
    W, there = torch.zeros(len(distances), *W_0.shape).double(), torch.zeros(len(distances), trials).bool()
    for _ in range(4 * STEPS):
        now = net.matrix(P, 0).detach()
        gone = (now - W_0).norm(dim=(-2, -1))[:, 0] / W_0.norm(dim=(-2, -1))[:, 0]
        for i, distance in enumerate(distances):
            here = (gone >= distance) & ~there[i]
            W[i, here] = now[here]
            there[i] |= here
        if there.all():
            break
        adam.zero_grad()
        loss(P).backward()
        adam.step()
    assert there.all()
    found = [against_rivals(one - W_0, W_0, first["K0"], first["Q0"], pulls, judges) for one in W]
    for one, at in zip(W, found, strict=True):
        at["moved"] = (one - W_0).norm(dim=(-2, -1)) / W_0.norm(dim=(-2, -1))
    return {name: torch.stack([at[name][:, 0] for at in found], 1).float() for name in found[0]}


def cases(name):
    """What 18.6 compares: case -> cosines by the ten learned and ten unseen, (2, runs, heads).

    For "moved" the distances from the start in lengths of W_0, (runs, heads).
    """
    labels, random, ten = (measured(f"18.{sweep}").load() for sweep in ("control", "numbers", "ten"))
    sizes, found = ((32, 16), (32, 8), (16, 16), (16, 8)), {}

    def of(cell):
        if name == "moved":
            return cell[name].values
        return np.stack([cell[f"{name}_{who}"].values for who in ("seen", "unseen")])

    def add(what, sweep, d, T, i, distance):
        found[f"{what}, d = {d}, T = {T}, {distance:g} lengths"] = of(sweep.sel(d=d, T=T))[..., [i]]

    for d, T in sizes:
        add("linear layer", labels, d, T, 0, DISTANCES[0])
    add("linear layer", labels, *sizes[0], 1, DISTANCES[1])
    add("random numbers", random, *sizes[0], 0, DISTANCES[0])
    for tokens in ("digits", "sentences"):
        for layer in (0, 1):
            far = float(ten.moved.sel(tokens=tokens)[:, layer].mean())
            at = f"transformer, {tokens}, layer {layer + 1}, {far:.1f} lengths"
            found[at] = of(ten.sel(tokens=tokens))[..., layer, :]
    for what, sweep, i in (("linear layer", labels, 3), ("random numbers", random, 1)):
        for d, T in sizes:
            add(what, sweep, d, T, i, DISTANCES[3])
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
        minutes=5,
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
        "18.ten",
        "The same on ten sequences: SVMs over these and over unseen ones, and two rivals.",
        on_ten,
        {"tokens": ["digits", "sentences"]},
        trials=20,
        batch=5,
        minutes=3,
    ),
    Measured(
        "18.stays",
        "How far these heads get in ten times as many steps.",
        stays,
        {"tokens": ["digits", "sentences"]},
        trials=5,
        batch=5,
        minutes=1,
    ),
    Measured(
        "18.control",
        "The same in one linear layer on ten sentences, at equal distances from the start, at four sizes.",
        control,
        {"d": [16, 32], "T": [8, 16]},
        trials=20,
        batch=5,
        minutes=2,
    ),
    Measured(
        "18.numbers",
        "The same in this layer, trained by least squares to have random numbers as its logits.",
        numbers,
        {"d": [16, 32], "T": [8, 16]},
        trials=20,
        batch=5,
        minutes=2,
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
]
