"""Lesson 06. Descent on attention weights selects locally optimal tokens and runs along their Att-SVM.

Tarzanagh et al. 2023 (two papers), informally: ||p|| -> infinity and p/||p|| -> p_mm(alpha) for a locally
optimal choice alpha; likewise W and the Frobenius Att-SVM over the outer products (x_alpha - x_t) z^T.
"""

import pytest
import torch

from mini_attn import data, geometry, models, optim, svm, train

SEEDS = (31, 32)  # the lesson uses others
TRIALS = 60


@pytest.fixture(scope="module", params=SEEDS)
def tokens(request):
    return data.random_tokens(n=5, T=6, d=8, trials=TRIALS, seed=request.param)


def trained(model, tokens, steps=4000):
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, progress=False, schedule=train.growing)
    return geometry.selected_tokens(model.attention(tokens))


def test_the_prompt_runs_along_the_svm_of_a_locally_optimal_choice(tokens):
    model = models.PromptAttention(8, trials=TRIALS)
    selected = trained(model, tokens)
    solution = svm.solve(svm.token_problem(tokens.keys, selected))
    cosine = geometry.cosine(model.p.detach(), solution.value)
    assert cosine.quantile(0.05) > 0.999
    logits = models.PromptAttention(8, trials=TRIALS, init=solution.value).logits(tokens).detach()
    local = geometry.locally_optimal(tokens.scores, logits, selected)
    assert local[cosine > 0.9999].all()
    assert local.sum() >= TRIALS - 3


def test_the_matrix_runs_along_the_frobenius_svm(tokens):
    model = models.CrossAttention(8, trials=TRIALS)
    selected = trained(model, tokens)
    solution = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected))
    cosine = geometry.cosine(model.W.detach(), solution.value)
    assert cosine.quantile(0.05) > 0.999
    rank = torch.linalg.matrix_rank(solution.value, rtol=1e-6)
    assert (rank <= min(5, 8)).all()  # W_mm = sum_i xbar_i z_i^T


def test_the_first_papers_toy():
    tokens = data.toy_one_sequence()
    for token, half_squared in ((0, 0.49505), (1, 0.5)):
        solution = svm.solve(svm.token_problem(tokens.keys, torch.tensor([token])))
        assert float(solution.objective**2 / 2) == pytest.approx(half_squared, abs=5e-6)


@pytest.mark.parametrize(("scores", "reached"), [((1.0, 0.9, 0.9), {0}), ((1.0, 0.9, 0.0), {0, 1})])
def test_equal_losers_leave_one_attractor_and_unequal_ones_two(scores, reached):
    tokens = data.toy_one_sequence(scores)
    generator = torch.Generator().manual_seed(33)
    starts = 4 * torch.randn(200, 2, generator=generator, dtype=torch.float64)
    model = models.PromptAttention(2, trials=200, init=starts)
    selected = trained(model, tokens, steps=1000)
    assert set(selected.flatten().tolist()) == reached
