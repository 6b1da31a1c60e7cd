"""Next-token prediction: both stages' directions with their SVMs, and data with cycles with theirs."""

from functools import cache

import xarray as xr

from course.replicate.rows import Row, mean
from mini_attn import geometry, svm, train
from mini_attn.next_token import NextTokenTransformer, collocation, descend
from mini_attn.vocabulary import next_tokens, priorities

TRIALS = 40
SEED = 16


@cache
def cosines() -> xr.Dataset:
    """Of W_ov and W_kq with their SVMs after 500 and 1,000 growing normalised steps, (trial,)."""
    data, _ = next_tokens(40, 5, 20, d=20, queries=10, trials=TRIALS, seed=SEED)  # Gaussian embeddings
    model = NextTokenTransformer(20, 20, TRIALS)
    descend(model, collocation(data), 500, train=["W_ov"], schedule=train.growing)
    descend(model, data, 1000, schedule=train.growing)
    limits = {
        "W_ov": svm.solve(svm.next_problem(data.embeddings, data.following)).value,
        "W_kq": svm.solve(svm.order_problem(data.embeddings, priorities(data))).value,
    }
    found = {name: geometry.cosine(getattr(model, name).detach(), W) for name, W in limits.items()}
    return xr.Dataset({name: ("trial", cosine.numpy()) for name, cosine in found.items()})


ROWS = [
    Row(
        "16.value",
        "next-token",
        "20 tokens, d = 20, stage one: mean cosine of W_ov with its SVM, 500 growing steps (shown: to 1)",
        1.0,
        0.005,
        lambda: mean(cosines().W_ov),
        "16.3",
        seed=SEED,
    ),
    Row(
        "16.order",
        "next-token",
        "the same, stage two: mean cosine of W_kq with its SVM 1,000 more (shown: to 1)",
        1.0,
        0.005,
        lambda: mean(cosines().W_kq),
        "16.4",
        seed=SEED,
    ),
    Row(
        "16.cycles",
        "graph",
        "data with cycles, n, T, d = 6, 4, 8: mean correlation of W with W_dir, 4,000 steps (.976 to .993)",
        0.985,
        0.009,
        lambda found: mean(found.direction.where(found.cyclic).sel(steps=4000)),
        "16.8",
        "16.cycles",
    ),
]
