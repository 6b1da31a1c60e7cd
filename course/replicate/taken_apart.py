"""One attention layer on real words: a setting where the theory holds, and what a transformer adds to it."""

import math

import torch
from torch.nn.functional import softplus

from course.replicate import small_transformer as net
from mini_attn import datasets, svm
from mini_attn.softmax import softmax


def cosine(A, B):
    """Of matrices in the last two dimensions."""
    return (A * B).sum((-2, -1)) / (A.norm(dim=(-2, -1)) * B.norm(dim=(-2, -1)))


def few_sentences(runs, seed, n=16, T=8, d=32):
    """Beginnings of sentences of T different known words, half of them fresh: words (runs, n, T), labels."""
    texts = datasets.reviews()
    written = datasets.words(texts.texts, 2000, T)
    in_order = written.ids.sort(-1).values
    fits = (in_order[:, 0] > 1) & (in_order.diff(dim=1) != 0).all(1)
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(runs):
        for label in (0, 1):
            these = torch.nonzero(fits & (texts.y == label))[:, 0]
            rows.append(these[torch.randperm(len(these), generator=generator)[: n // 2]])
    rows = torch.stack(rows).view(runs, n)
    embeddings = torch.randn(runs, 2000, d, generator=generator, dtype=torch.float64)
    return written.ids[rows], 2.0 * texts.y[rows] - 1, embeddings / embeddings.norm(dim=-1, keepdim=True)


def log_loss(u):
    """log of the mean loss over the margins u (runs, n), also where the loss itself underflows."""
    far = u > 30  # there log(softplus(-u)) = -u, to the last bit
    each = torch.where(far, -u, softplus(-u.masked_fill(far, 0.0)).log())
    return each.logsumexp(-1) - math.log(u.shape[-1])


def outputs_for_slopes(P, X, has):
    """`net.outputs` of one layer without norm, with slopes of W, keys and queries that survive saturation.

    They are right up to a factor in each run, see :func:`mini_attn.softmax.softmax`; those of others are not.
    """
    real = torch.ones(X.shape[:3], dtype=torch.bool)
    x = net.layer(P, 0, net.embed(P, X), real, None, False, lambda h, _: softmax(h, batch_dims=1))
    asks = slice(None) if "every token asks" in has else slice(-1, None)
    return (x[:, :, asks] @ P["read"][:, None]).squeeze(-1).mean(-1)


def descend(P, X, trained, y, has, steps, look):
    """Growing normalised steps, each weight on its own, or Adam; `look(step)` before each step and last.

    A normalised step goes along the slope of log L. That is the slope of L over L, but does not vanish with
    it: L rounds to 0 where all margins exceed 745, and there every weight would stand still. Nor do slopes
    of W vanish with a decided attention: in one layer they are taken through a log-scaled softmax.
    """
    decay = float("weight decay" in has)
    adam = torch.optim.AdamW([P[name] for name in trained], lr=3e-3, weight_decay=decay)
    grow = {*has} in ({"embeddings learn"}, {"embeddings learn", "every token asks"}, {"residual and MLP"})
    scaled = [name for name in trained if name[0] in "WKQ"] if grow else []  # there attention saturates
    exact = [name for name in trained if name not in scaled]

    def slopes(names, f):
        u = y * f
        loss = softplus(-u).mean(-1).sum() if "Adam" in has else log_loss(u).sum()
        return zip(names, torch.autograd.grad(loss, [P[name] for name in names]), strict=True)

    for step in range(steps + 1):
        look(step)
        if step == steps:
            return
        found = [*slopes(exact, net.outputs(P, net.embed(P, X), has))]
        found += slopes(scaled, outputs_for_slopes(P, X, has)) if scaled else []
        with torch.no_grad():
            for name, slope in found:
                w = P[name]
                if "Adam" in has:
                    w.grad = slope
                    continue
                w.mul_(1 - 0.01 * decay)
                flat = slope.flatten(1)
                largest = flat.abs().amax(1, keepdim=True)
                # tokens that coincide at the start give layer 2 a slope of exactly 0; later, none is cut
                assert step == 0 or (largest > 1e-280).all(), f"{name} stands still from step {step} on"
                unit = flat / largest.clamp_min(1e-290)
                unit = unit / unit.norm(dim=1, keepdim=True).clamp_min(1e-9)
                length = (0.02 * w.flatten(1).norm(dim=1, keepdim=True)).clamp_min(0.1)
                w -= (length * unit).view_as(w)
            if "Adam" in has:
                adam.step()


def hard(a, asks, selected):
    """The hard-margin SVM's rows for queries (runs, n, k, d) over tokens a (runs, n, T, d)."""
    ahead = (
        a.gather(2, selected[..., None].expand(*selected.shape, a.shape[-1]))[..., None, :] - a[:, :, None]
    )
    others = torch.arange(a.shape[2]) != selected[..., None]
    z = asks[..., None, :].expand(ahead.shape)
    rows = [x[others].view(len(a), -1, a.shape[-1]) for x in (ahead, z)]
    return svm.HardMarginProblem(*rows, torch.ones_like(rows[0][..., 0]))


def taken_apart(setting, *, trials, seed, steps=300):
    """One attention layer on 16 sentences; "+ x": with an ingredient.

    Of the last layer: the cosine of W with the hard-margin SVM of what it selects, at its own inputs; the
    same for a random movement, made of its tokens; with keys and queries, the cosine with the nuclear SVM;
    the share of decided choices, and the length of W.
    """
    has = ingredients(setting)
    X, y, E = few_sentences(trials, seed % 10_000)
    P = {**net.simple(has, trials, 32, 8, seed), "embed": E}
    learns = {"read": "readout learns" in has, "embed": "embeddings learn" in has}
    trained = [name for name in P if learns.get(name, True)]
    for name in trained:
        P[name].requires_grad_()
    k = int("second layer" in has)
    W_0 = net.matrix(P, k)[:, 0].detach().clone()
    descend(P, X, trained, y, has, steps, lambda step: None)
    keep = []
    with torch.no_grad():
        net.outputs(P, net.embed(P, X), has, keep)
        (a, s), W = keep[k], net.matrix(P, k)[:, 0]
    asking = slice(None) if "every token asks" in has else slice(-1, None)
    s, asks = s[:, 0, :, asking], a[:, :, asking]
    problem = hard(a, asks, s.argmax(-1))
    fitted = svm.solve(problem, throw=False)
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(*s.shape, generator=generator, dtype=torch.float64)
    R = torch.einsum("rikt,ritd,rike->rde", c - c.mean(-1, keepdim=True), a, asks)
    R = R * ((W - W_0).norm(dim=(-2, -1)) / R.norm(dim=(-2, -1)))[:, None, None]
    random = hard(a, asks, (asks @ (W_0 + R).mT[:, None] @ a.mT).argmax(-1))
    nuclear = svm.solve(problem, norm="nuc", throw=False).value if has == ("K and Q",) else torch.nan * W
    return {
        "whole": cosine(W, fitted.value).float(),
        "whole_never_trained": cosine(W_0 + R, svm.solve(random, throw=False).value).float(),
        "nuclear": cosine(W, nuclear).float(),
        "decided": (s.amax(-1) > 0.99).double().mean((1, 2)).float(),
        "length": W.norm(dim=(-2, -1)).float(),
    }


def ingredients(setting):
    """What is added to the plain layer: () for "base", ("x", "z") for "+ x, z"."""
    return () if setting == "base" else tuple(setting.removeprefix("+ ").split(", "))


SETTINGS = [
    "base", "+ readout learns", "+ K and Q", "+ embeddings learn", "+ Adam", "+ every token asks",
    "+ norm before the readout", "+ residual and MLP",
]  # fmt: skip
LONGER = ["+ Adam", "+ norm before the readout", "+ residual and MLP"]


def longer(setting, *, trials, seed):
    """Ten times as many steps; or, with an MLP, those until nearly all choices are made."""
    steps = 1000 if setting == "+ residual and MLP" else 3000
    return taken_apart(setting, trials=trials, seed=seed, steps=steps)
