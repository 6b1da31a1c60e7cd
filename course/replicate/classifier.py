"""A small classifier of real tokens with one attention layer, and mirror descent on all its weights.

    tokens x_t     digits: relu(E^T patch_t + P_t);  reviews: row word_t of E
    output         V^T sum_t s_t x_t,   s = softmax(X W z),   z = the mean token

Trials have data, start and order of their own; all are trained at once.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mini_attn import datasets

PARTS = ("training", "validation", "test")
WORDS, LENGTH = 2000, 24  # of the reviews


class Classifier:
    """The weights of `trials` classifiers, by name, each (trials, ...).

    Args:
        tokens: pictures, patches (trials, n, T, pixels), or texts, words (trials, n, T).
        classes, d: how many, and the embedding dimension.
        scale: of the outputs.
        seed: of the start.
    """

    def __init__(self, tokens: Tensor, classes: int, d: int, scale: float, seed: int):
        generator = torch.Generator().manual_seed(seed)
        trials, self.scale = len(tokens), scale

        def normal(size, *shape):
            return (size * torch.randn(trials, *shape, generator=generator)).requires_grad_()

        self.weights = {"W": normal(1 / d, d, d), "V": normal(d**-0.5, d, classes)}
        if tokens.is_floating_point():
            T, pixels = tokens.shape[2:]
            self.weights |= {"E": normal(pixels**-0.5, pixels, d), "P": normal(0.5, T, d)}
        else:
            self.weights["E"] = normal(0.3, WORDS, d)

    def embed(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens x_t, (trials, n, T, d), and which of them are real, (trials, n, T)."""
        E = self.weights["E"]
        if tokens.is_floating_point():
            X = torch.relu(tokens @ E[:, None] + self.weights["P"][:, None])
            return X, torch.ones(X.shape[:-1], dtype=torch.bool)
        first = E.shape[1] * torch.arange(len(E))[:, None, None]  # row of each trial's word 0
        return F.embedding(tokens + first, E.flatten(0, 1)), tokens > 0

    def __call__(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (trials, n, classes) and attention (trials, n, T)."""
        X, real = self.embed(tokens)
        z = (X * real[..., None]).sum(-2) / real.sum(-1, keepdim=True)
        h = (X @ (z @ self.weights["W"].mT)[..., None]).squeeze(-1)
        s = h.masked_fill(~real, -1e9).softmax(-1)
        return self.scale * (s[..., None, :] @ X).squeeze(-2) @ self.weights["V"], s


def dual(w: Tensor, rho: float) -> Tensor:
    """The mirror map, grad psi(w) = sign(w) |w|^(rho - 1); `dual(z, rho / (rho - 1))` is its inverse."""
    return w if rho == 2 else w.sign() * w.abs() ** (rho - 1)


def train(
    model: Classifier, parts: dict[str, tuple[Tensor, Tensor]], rho: dict[str, float], eta: float, **how
):
    """Mirror descent grad psi(w) <- grad psi(w) - eta g on mini-batches of the cross-entropy.

    Args:
        parts: for training, validation and test the tokens and the classes (trials, n).
        rho: the exponent of each weight, by name.
        eta: step size.
        how: epochs, batch (examples a step) and the seed of their order.

    Returns:
        Right answers in validation and test after each epoch, (trials, epochs, 2), int16.
    """
    tokens, y = parts["training"]
    generator = torch.Generator().manual_seed(how["seed"])
    each, batch = torch.arange(len(y))[:, None], how["batch"]
    z = {name: dual(w.detach(), rho[name]).clone() for name, w in model.weights.items()}
    right = []
    for _ in range(how["epochs"]):
        order = torch.rand(y.shape, generator=generator).argsort(1)
        for some in order[:, : y.shape[1] // batch * batch].split(batch, dim=1):
            f, _ = model(tokens[each, some])
            loss = F.cross_entropy(f.flatten(0, 1), y[each, some].flatten(), reduction="sum") / batch
            grads = torch.autograd.grad(loss, list(model.weights.values()))
            with torch.no_grad():
                for (name, w), g in zip(model.weights.items(), grads, strict=True):
                    z[name] -= eta * g
                    w.copy_(dual(z[name], rho[name] / (rho[name] - 1)))
        right.append([correct(model, *parts[part]) for part in PARTS[1:]])
    return torch.stack([torch.stack(two, -1) for two in right], 1).to(torch.int16)


@torch.no_grad()
def correct(model: Classifier, tokens: Tensor, y: Tensor) -> Tensor:
    """How many answers are right, (trials,)."""
    return (model(tokens)[0].argmax(-1) == y).sum(-1)


@lru_cache(maxsize=8)  # a sweep asks for the same few again and again
def real_data(name: str, trials: int, seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Training, validation and test parts, 60, 20 and 20 percent, each trial with a split of its own.

    Reviews are split by film, and each split counts its words in its own training part. Films have unequal
    numbers of sentences; the parts are cut to the smallest of the trials.
    """
    whole = datasets.digits() if name == "digits" else datasets.reviews()
    found = []
    for k in np.random.default_rng(seed).integers(0, 2**31, size=trials):
        split = datasets.split(whole, int(k))
        if name == "digits":
            tokens = whole.X.float()
        else:
            tokens = datasets.words(whole.texts, WORDS, LENGTH, fit=split[0]).ids
        order = [
            part[torch.randperm(len(part), generator=torch.Generator().manual_seed(int(k)))] for part in split
        ]
        found.append([(tokens[part], whole.y[part]) for part in order])
    sizes = [min(len(trial[j][1]) for trial in found) for j in range(3)]
    return {
        part: tuple(torch.stack([trial[j][i][:size] for trial in found]) for i in (0, 1))
        for j, (part, size) in enumerate(zip(PARTS, sizes, strict=True))
    }
