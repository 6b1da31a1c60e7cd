"""A small transformer as functions of its weights, for many runs at once: the model of lesson 18.

What a model has, its weights say: without ``U0`` layer 0 has no MLP and no residual, without ``V0``
the tokens are their own values, with ``W0`` in place of ``K0`` and ``Q0`` attention is not factored.
"""

import math

import torch
from torch.nn.functional import cross_entropy, layer_norm

from mini_attn.softmax import softmax as exact_softmax


def begin(runs, T, classes, inputs=None, vocabulary=None, *, d=32, heads=4, layers=2, seed=0):
    """Random weights: a dict name -> (runs, ...), all of them trained.

    Args:
        runs: independent models. T: places in a sequence. classes: of the answer.
        inputs: entries of an input token (patches), or vocabulary: number of words; one of the two.
        d, heads, layers: sizes; each head has d / heads columns.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, scale):
        weights = torch.randn(runs, *shape, generator=generator)
        return (scale * weights).requires_grad_()

    m = d // heads
    P = {"embed": draw(vocabulary, d, scale=1.0) if vocabulary else draw(inputs, d, scale=2 * inputs**-0.5)}
    P |= {"place": draw(T, d, scale=0.5), "read": draw(d, classes, scale=d**-0.5)}
    for k in range(layers):
        P |= {f"{name}{k}": draw(heads, d, m, scale=d**-0.5) for name in "KQV"}
        P |= {f"O{k}": draw(heads, m, d, scale=d**-0.5), f"U{k}": draw(d, 2 * d, scale=d**-0.5)}
        P |= {f"D{k}": draw(2 * d, d, scale=(2 * d) ** -0.5)}
        P |= {f"b{k}": torch.zeros(runs, 1, 2 * d, requires_grad=True)}
    return P


def embed(P, X):
    """Tokens (runs, n, T, d) from words (runs, n, T) or patches (runs, n, T, inputs), with their places."""
    if X.is_floating_point():
        x = X @ P["embed"][:, None]
    else:
        x = P["embed"][torch.arange(len(X))[:, None, None], X]
    return x + P["place"][:, None] if "place" in P else x


def norm(x):
    """Each token minus its mean, over its standard deviation."""
    return layer_norm(x, x.shape[-1:])


def matrix(P, k):
    """W of each head of layer k, (runs, heads, d, d), with the factor of the logits in it."""
    if f"W{k}" in P:
        return P[f"W{k}"]
    return P[f"K{k}"] @ P[f"Q{k}"].mT / math.sqrt(P[f"K{k}"].shape[-1])


def layer(P, k, x, real, keep=None, normed=True, softmax=torch.softmax):
    """One layer: x (runs, n, T, d), real (runs, n, T) -> (runs, n, T, d). Keeps what it read and attended."""
    a = norm(x) if normed else x
    heads = a[:, None]
    h = (heads @ matrix(P, k)[:, :, None].mT) @ heads.mT  # (runs, heads, n, k, t): x_t^T W x_k
    s = softmax(h.masked_fill(~real[:, None, :, None], -torch.inf), -1)
    if keep is not None:
        keep.append((a, s))
    mixed = s @ (heads @ P[f"V{k}"][:, :, None]) if f"V{k}" in P else s @ heads
    mixed = (mixed @ P[f"O{k}"][:, :, None]).sum(1) if f"O{k}" in P else mixed.sum(1)
    if f"U{k}" not in P:
        return mixed
    x = x + mixed
    hidden = torch.relu((norm(x) if normed else x).flatten(1, 2) @ P[f"U{k}"] + P[f"b{k}"])
    return x + (hidden @ P[f"D{k}"]).view_as(x)


def forward(P, X, real, keep=None):
    """Answers (runs, n, classes): layers, norm, mean over the real tokens, and the readout."""
    x, k = embed(P, X), 0
    while f"V{k}" in P:
        x, k = layer(P, k, x, real, keep), k + 1
    mean = (norm(x) * real[..., None]).sum(2) / real.sum(2, keepdim=True)
    return mean @ P["read"]


def learn(P, X, real, y, steps, batch, decay=0.0, lr=3e-3, seed=0, look=None):
    """AdamW on batches of `batch` sequences; `look(step)` is called before each step and at the end."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(P.values(), lr=lr, weight_decay=decay)
    runs, n = y.shape
    each, order, at = torch.arange(runs)[:, None], None, n
    for step in range(steps + 1):
        if look is not None:
            look(step)
        if step == steps:
            return
        if at + batch > n:
            order, at = torch.rand(runs, n, generator=generator).argsort(1), 0
        some = order[:, at : at + batch]
        at += batch
        answers = forward(P, X[each, some], real[each, some])
        loss = cross_entropy(answers.flatten(0, 1), y[each, some].flatten(), reduction="sum") / batch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# ------------------------------------------------------------------ a single attention layer, taken apart
INGREDIENTS = (
    "readout learns", "K and Q", "embeddings learn", "Adam", "every token asks", "norm before the readout",
    "residual and MLP", "second layer", "weight decay",
)  # fmt: skip


def simple(has, runs, d, columns, seed):
    """Weights of one attention layer with W = 0, and what `has` of INGREDIENTS adds to it."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape, scale):
        return scale * torch.randn(runs, *shape, generator=generator, dtype=torch.float64)

    v = draw(d, 1, scale=1.0)
    P = {"read": v / v.norm(dim=1, keepdim=True)}
    for k in range(1 + ("second layer" in has)):
        if "K and Q" in has:
            P |= {f"{name}{k}": draw(1, d, columns, scale=d**-0.5) for name in "KQ"}
        else:
            P[f"W{k}"] = torch.zeros(runs, 1, d, d, dtype=torch.float64)
        if "residual and MLP" in has:
            P |= {f"V{k}": draw(1, d, d, scale=d**-0.5), f"U{k}": draw(d, 2 * d, scale=d**-0.5)}
            P |= {f"D{k}": draw(2 * d, d, scale=(2 * d) ** -0.5)}
            P[f"b{k}"] = torch.zeros(runs, 1, 2 * d, dtype=torch.float64)
    return P


def outputs(P, x, has, keep=None):
    """Outputs f (runs, n), of the mean over all positions that ask, or of the last one."""
    real = torch.ones(x.shape[:3], dtype=torch.bool)
    for k in range(1 + ("second layer" in has)):
        softmax = lambda h, _: exact_softmax(h)  # noqa: E731
        x = layer(P, k, x, real, keep, "norm before the readout" in has, softmax)
    x = norm(x) / math.sqrt(x.shape[-1]) if "norm before the readout" in has else x
    asks = slice(None) if "every token asks" in has else slice(-1, None)
    return (x[:, :, asks] @ P["read"][:, None]).squeeze(-1).mean(-1)
