"""The first paper's toy of one sequence: both of its SVMs, and who wins from everywhere."""

import torch

from course.replicate.rows import Estimate, Row, exact
from mini_attn import data, geometry, models, optim, svm, train
from mini_attn.sweep import wilson

STARTS = 400


def half_squared(token: int) -> Estimate:
    """||p||^2 / 2 for the shortest p that selects a token."""
    problem = svm.token_problem(data.toy_one_sequence().keys, torch.tensor([token]))
    return exact(round(float(svm.solve(problem).objective ** 2 / 2), 5))


def first_token_wins() -> Estimate:
    """Share of starts, normal with standard deviation 2, from which descent selects token 1."""
    generator = torch.Generator().manual_seed(6)
    starts = 2 * torch.randn(STARTS, 2, generator=generator, dtype=torch.float64)
    tokens = data.toy_one_sequence((1.0, 0.9, 0.9))
    model = models.PromptAttention(2, trials=STARTS, init=starts)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, 1000, progress=False)
    first = geometry.selected_tokens(model.attention(tokens))[:, 0] == 0
    return Estimate(float(first.double().mean()), *map(float, wilson(int(first.sum()), STARTS)), STARTS)


ROWS = [
    Row(
        "06.global",
        "max-margin",
        "toy of one sequence: half the squared length of the SVM's solution for the best token",
        0.49505,
        5e-6,
        lambda: half_squared(0),
        "6.3",
    ),
    Row(
        "06.local",
        "max-margin",
        "the same for the second token, which is locally optimal",
        0.5,
        5e-6,
        lambda: half_squared(1),
        "6.3",
    ),
    Row(
        "06.equal",
        "max-margin",
        "the same toy with scores 1, .9, .9: share of starts from which descent selects the best token",
        1.0,
        0.0,
        first_token_wins,
        "6.5",
        seed=6,
    ),
]
