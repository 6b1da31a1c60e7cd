"""The second paper's curve of W: its cosine with the Frobenius and the nuclear SVM of its tokens."""

from functools import cache

import torch
import xarray as xr

from course.replicate.rows import Row, mean
from mini_attn import data, geometry, models, optim, svm, train

TRIALS = 200


@cache
def cosines() -> xr.Dataset:
    """After the paper's 2,000 steps of 0.1 from torch's own start, for each norm, (trial,)."""
    tokens = data.random_tokens(6, 8, 10, trials=TRIALS, seed=1000)
    generator = torch.Generator().manual_seed(10)
    start = 2 * torch.rand(TRIALS, 10, 10, generator=generator, dtype=torch.float64) - 1
    model = models.CrossAttention(10, trials=TRIALS, init=start / 10**0.5)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, 2000, progress=False)
    model.requires_grad_(False)
    selected = geometry.selected_tokens(model.attention(tokens))
    problem = svm.attention_problem(tokens.X, tokens.z, selected)
    limits = {norm: svm.solve(problem, norm=norm).value for norm in ("fro", "nuc")}
    return xr.Dataset({norm: ("trial", geometry.cosine(model.W, limit)) for norm, limit in limits.items()})


ROWS = [
    Row(
        "10.frobenius",
        "transformers",
        "n, T, d = 6, 8, 10: mean cosine of W with the Frobenius SVM of its tokens after 2,000 steps",
        0.995,
        0.005,  # read off the plot: it ends between .99 and 1
        lambda: mean(cosines().fro, runs=40),
        "10.5",
        seed=1000,
    ),
    Row(
        "10.nuclear",
        "transformers",
        "the same, with the nuclear SVM",
        0.86,
        0.01,
        lambda: mean(cosines().nuc, runs=40),
        "10.5",
        seed=1000,
    ),
]
