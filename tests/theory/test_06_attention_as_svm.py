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
    logits = models.CrossAttention(8, trials=TRIALS, init=solution.value).logits(tokens).detach()
    assert geometry.locally_optimal(tokens.scores, logits, selected).all()
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


@pytest.mark.parametrize("b", [0.1, 0.5, 2.0])
def test_with_equal_losers_a_path_ends_beside_its_ray_where_an_integral_says(b):
    """Keys (-b, 1), (1, 0), (0, 0): p_1 + b p_2 - log(b + (1 + b) exp(p_1)) / (1 + b) is conserved."""
    tokens = data.toy_one_sequence((1.0, 0.2, 0.2))
    tokens.keys[0, 0] = torch.tensor([-b, 1.0])
    start = torch.randn(20, 2, generator=torch.Generator().manual_seed(34), dtype=torch.float64)
    model = models.PromptAttention(2, trials=20, init=start)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.02, batch_dims=1)
    train.fit(model, tokens, optimizer, 2000, progress=False)

    def conserved(p):
        return p @ torch.tensor([1, b], dtype=p.dtype) - (b + (1 + b) * p[:, 0].exp()).log() / (1 + b)

    torch.testing.assert_close(conserved(model.p.detach()), conserved(start), atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ("b", "scores"), [(0.1, (1.0, 0.9, 0.7)), (0.4, (1.0, 0.6, 0.3)), (1.5, (0.3, 0.2, -1.0))]
)
def test_the_second_best_token_holds_below_a_line_parallel_to_its_cone(b, scores):
    """E = b p_1 - p_2 has dE ~ b - C exp(-E), C = (1 + b + b^2) (g_1 - g_2) / (g_2 - g_3)."""
    tokens = data.toy_one_sequence(scores)
    tokens.keys[0, 0] = torch.tensor([-b, 1.0])
    C = (1 + b + b**2) * (scores[0] - scores[1]) / (scores[1] - scores[2])
    p1 = torch.tensor([10.0, 20, 30], dtype=torch.float64)
    line = torch.stack([p1, b * p1 - torch.tensor(C / b).log()], dim=-1)
    start = torch.cat([line + torch.tensor([0, 0.03]), line - torch.tensor([0, 0.03])])
    model = models.PromptAttention(2, trials=6, init=start)
    selected = trained(model, tokens, steps=1000)
    assert selected.flatten().tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("b", "scores"), [(0.1, (1.0, 0.9, 0.7)), (0.4, (1.0, 0.6, 0.3)), (1.5, (0.3, 0.2, -1.0))]
)
def test_where_the_third_token_leads_another_line_parts_the_starts(b, scores):
    """D = p_2 - (1 + b) p_1 has dD ~ (1 + b + b^2) (g_1 - g_3) exp(D) - (1 + b) (g_2 - g_3)."""
    tokens = data.toy_one_sequence(scores)
    tokens.keys[0, 0] = torch.tensor([-b, 1.0])
    p1 = torch.tensor([-10.0, -20, -40], dtype=torch.float64)
    ratio = (1 + b) * (scores[1] - scores[2]) / ((1 + b + b**2) * (scores[0] - scores[2]))
    line = torch.stack([p1, (1 + b) * p1 + torch.tensor(ratio).log()], dim=-1)
    start = torch.cat([line + torch.tensor([0, 0.05]), line - torch.tensor([0, 0.05])])
    model = models.PromptAttention(2, trials=6, init=start)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.05, batch_dims=1)
    train.fit(model, tokens, optimizer, 5000, progress=False)
    selected = geometry.selected_tokens(model.attention(tokens))
    assert selected.flatten().tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(("n", "T", "d"), [(5, 6, 8), (3, 4, 7)])
def test_shuffled_scores_pass_with_the_chance_of_the_best_of_one_and_its_support_tokens(n, T, d):
    """prod_i 1 / (1 + m_i), and not one half for each support token: they share their rival."""
    tokens = data.random_tokens(n, T, d, trials=100, seed=35)
    generator = torch.Generator().manual_seed(35)
    p = torch.randn(100, d, generator=generator, dtype=torch.float64)
    selected = models.PromptAttention(d, trials=100, init=p).logits(tokens).argmax(-1)
    p_mm = svm.solve(svm.token_problem(tokens.keys, selected)).value
    logits = models.PromptAttention(d, trials=100, init=p_mm).logits(tokens).detach()
    scores = torch.rand(1000, 100, n, T, generator=generator, dtype=torch.float64)
    passed = geometry.locally_optimal(scores, logits.expand(1000, -1, -1, -1), selected.expand(1000, -1, -1))
    lead = logits.gather(-1, selected[..., None]) - logits
    m = torch.isclose(lead, torch.ones_like(lead), atol=1e-6).sum(-1)
    share = passed.double().mean().item()
    assert share == pytest.approx((1 / (1 + m)).prod(-1).mean().item(), rel=0.1)
    assert share > 1.3 * (0.5 ** m.sum(-1)).mean()


def output(p, keys, scores):
    return torch.softmax(keys @ p, dim=-1) @ scores


@pytest.mark.parametrize(("T", "d"), [(4, 2), (8, 3), (8, 10), (40, 5)])
def test_with_keys_of_one_length_the_laplacian_of_one_output_vanishes_where_its_gradient_does(T, d):
    """Laplacian f = -2 (kbar - c) . grad f, kbar = sum_t s_t k_t, for keys on a sphere about c."""
    generator = torch.Generator().manual_seed(36)
    keys, scores, p, c = (
        torch.randn(size, generator=generator, dtype=torch.float64) for size in ((T, d), (T,), (d,), (d,))
    )
    keys = 1.7 * keys / keys.norm(dim=1, keepdim=True) + c
    second, slope = (
        torch.func.jacrev(torch.func.grad(output))(p, keys, scores),
        torch.func.grad(output)(p, keys, scores),
    )
    torch.testing.assert_close(second.trace(), -2 * (torch.softmax(keys @ p, dim=0) @ keys - c) @ slope)


def test_with_keys_of_two_lengths_it_does_not():
    keys = torch.tensor([[-1.0, 0], [0, 0], [1, 0]], dtype=torch.float64)
    scores, p = torch.tensor([0.0, 1, 0], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    assert torch.func.grad(output)(p, keys, scores).norm() < 1e-12
    assert torch.func.jacrev(torch.func.grad(output))(p, keys, scores).trace() < -0.1


def test_a_best_token_that_cannot_be_ahead_does_not_keep_attention_soft():
    """The best key lies inside the hull; from every start a worse token wins, and p runs off."""
    keys = torch.tensor([[-0.5, 0], [2, 0], [0, 2], [0, -2], [-2, 0]], dtype=torch.float64)
    scores = torch.tensor([1, 0.9, 0, 0, 0], dtype=torch.float64)
    e1 = torch.tensor([1.0, 0.0], dtype=torch.float64)
    tokens = data.TokenData((scores[:, None] * e1)[None], e1[None], e1[:1], e1, keys[None])
    assert svm.solve(svm.token_problem(keys[None], torch.tensor([0])), throw=False).status == "infeasible"
    start = 2 * torch.randn(30, 2, generator=torch.Generator().manual_seed(35), dtype=torch.float64)
    model = models.PromptAttention(2, trials=30, init=start)
    selected = trained(model, tokens, steps=1000)
    assert (selected == 1).all()
    assert (model.p.detach().norm(dim=-1) > 1000).all()


def pushes(tokens, p):
    """The length of -grad L over the sum of its pairs' lengths: 0 if they cancel, (trials,)."""
    log_s = models.PromptAttention(p.shape[-1], trials=len(p), init=p).logits(tokens).detach().log_softmax(-1)
    better = (tokens.scores[..., :, None] - tokens.scores[..., None, :]).clamp(min=0)
    log_pair = (log_s[..., :, None] + log_s[..., None, :]).where(better > 0, -torch.inf)
    log_pair = log_pair - log_pair.amax((-3, -2, -1), keepdim=True)
    steep = torch.sigmoid(-(log_s.exp() * tokens.scores).sum(-1))
    one = (steep[..., None, None] * log_pair.exp() * better)[..., None] * (
        tokens.keys[..., :, None, :] - tokens.keys[..., None, :, :]
    )
    return one.sum((-4, -3, -2)).norm(dim=-1) / one.norm(dim=-1).sum((-3, -2, -1))


@pytest.mark.parametrize(("n", "T", "seed"), [(6, 8, 31), (5, 6, 32)])
def test_with_little_room_p_rests_where_pushes_cancel_unless_its_choice_is_locally_optimal(n, T, seed):
    tokens = data.random_tokens(n, T, 3, trials=TRIALS, seed=seed)
    model = models.PromptAttention(3, trials=TRIALS)
    trained(model, tokens, steps=2000)
    optimizer = optim.NormalizedGD(model.parameters(), lr=4.5, batch_dims=1)
    train.fit(model, tokens, optimizer, 20_000, progress=False, schedule=lambda j: 0.999**j)
    p, selected = model.p.detach(), geometry.selected_tokens(model.attention(tokens))
    p_mm = svm.solve(svm.token_problem(tokens.keys, selected), throw=False).value
    logits = models.PromptAttention(3, trials=TRIALS, init=p_mm).logits(tokens).detach()
    local, left = geometry.locally_optimal(tokens.scores, logits, selected), pushes(tokens, p)
    own = tokens.keys.gather(-2, selected[..., None, None].expand(-1, -1, 1, 3))
    longest = (own - tokens.keys).norm(dim=-1).amax((-1, -2))
    rests = left < 1e-7
    assert (left > 1 / (p_mm.norm(dim=-1) * longest))[local & ~rests].all()
    assert (local & ~rests).sum() > 0.6 * TRIALS
    assert (rests & ~local).sum() >= 3
    assert (~rests & ~local).sum() < 0.1 * TRIALS


@pytest.mark.parametrize("half", [0.3, 0.7])
def test_two_sequences_hold_p_between_them_where_the_shorter_comparison_takes_over(half):
    """Keys 1, 0 with scores 1, 0 push right, keys `half`, 0 with scores 0, 1 push left, and longer."""
    keys = torch.tensor([[[1.0], [0]], [[half], [0]]], dtype=torch.float64)
    X = torch.tensor([[[1.0], [0]], [[0], [1]]], dtype=torch.float64)  # scores, as v = y = 1
    one = torch.ones(1, dtype=torch.float64)
    tokens = data.TokenData(X, X[:, 0], one.expand(2), one, keys)
    model = models.PromptAttention(1, trials=3, init=torch.tensor([[0.0], [20], [-20]], dtype=torch.float64))
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.5, batch_dims=1)
    train.fit(model, tokens, optimizer, 3000, progress=False, schedule=lambda j: 0.99**j)
    first, second, third = model.p.detach()[:, 0].tolist()
    assert first == pytest.approx(second, abs=1e-4)
    assert 0.1 < first < 15
    assert third < -40


@pytest.mark.parametrize(
    ("keys", "scores"), [((-1.0, 0.0, 1.0), (0.0, 1.0, 0.0)), ((-1.0, 0.2, 1.0), (0.3, 1.0, 0.0))]
)
def test_one_sequence_holds_p_at_one_point_where_its_best_key_lies_between_the_others(keys, scores):
    keys = torch.tensor(keys, dtype=torch.float64)[None, :, None]
    X = torch.tensor(scores, dtype=torch.float64)[None, :, None]
    one = torch.ones(1, dtype=torch.float64)
    tokens = data.TokenData(X, X[:, 0], one, one, keys)
    assert svm.solve(svm.token_problem(keys, torch.tensor([1])), throw=False).status == "infeasible"
    starts = torch.tensor([[-20.0], [-3], [0.3], [5], [20]], dtype=torch.float64)
    model = models.PromptAttention(1, trials=5, init=starts)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.5, batch_dims=1)
    train.fit(model, tokens, optimizer, 3000, progress=False, schedule=lambda j: 0.99**j)
    end = model.p.detach()[:, 0]
    torch.testing.assert_close(end, end[:1].expand(5), atol=1e-4, rtol=0)
    assert end.abs().max() < 1


@pytest.mark.parametrize(("T", "d", "seed"), [(8, 2, 36), (20, 3, 37)])
def test_on_the_unit_sphere_one_sequence_can_put_any_token_ahead(T, d, seed):
    keys = data.random_tokens(n=1, T=T, d=d, trials=50, seed=seed).keys
    ahead = (keys @ keys.transpose(-1, -2))[:, 0]  # p = k_alpha, (trials, alpha, T)
    assert (ahead.argmax(-1) == torch.arange(T)).all()
