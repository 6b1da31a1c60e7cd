"""Lesson 10. W is a p for the keys x z^T: it goes to the Frobenius Att-SVM of the tokens it selects.

Tarzanagh et al. 2023, "Transformers as Support Vector Machines", informally: gradient descent on W
converges in direction to W_mm = argmin ||W||_F s.t. (x_alpha - x_t)^T W z >= 1 for a locally optimal alpha;
the regularisation path to that of the best tokens; rank W_mm <= min(n, d). Argued and measured in the
lesson: the part of a start outside the span of the comparisons stays; two queries at an angle have the
margins c cos(angle/2), c sin(angle/2); in self-attention the number of sequences that prefer their own
query scatters, and W turns to the identity where they agree; two answers to one query share attention by
log(n_1 / n_2).
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mini_attn import data, geometry, models, optim, paths, svm, train

SEEDS = (51, 52)  # the lesson uses others
SIZES = ((6, 8, 10), (5, 7, 9))  # the second is nobody's


def with_own_queries(tokens):
    return replace(tokens, z=tokens.X[..., 0, :].contiguous())


def trained(tokens, steps, start=None, schedule=train.growing):
    model = models.CrossAttention(tokens.X.shape[-1], trials=tuple(tokens.trials), init=start)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=len(tokens.trials))
    train.fit(model, tokens, optimizer, steps, schedule=schedule, progress=False)
    return model.requires_grad_(False)


def att_svm(tokens, selected, norm="fro"):
    return svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=norm, throw=False)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("size", "seed"), [(SIZES[0], 51), (SIZES[1], 52)])
def test_descent_goes_to_the_frobenius_svm_of_a_locally_optimal_choice(size, seed, own):
    """Cosine above .999 and locally optimal in each of 40 trials; to the nuclear SVM as the solutions."""
    tokens = data.random_tokens(*size, trials=40, seed=seed)
    tokens = with_own_queries(tokens) if own else tokens
    model = trained(tokens, 2000)
    selected = geometry.selected_tokens(model.attention(tokens))
    fro, nuc = (att_svm(tokens, selected, norm) for norm in ("fro", "nuc"))
    assert (geometry.cosine(model.W, fro.value) > 0.999).all()
    logits = models.CrossAttention(size[2], trials=40, init=fro.value).logits(tokens)
    assert geometry.locally_optimal(tokens.scores, logits, selected).all()
    to_nuclear = geometry.cosine(model.W, nuc.value)
    assert (to_nuclear - geometry.cosine(fro.value, nuc.value)).abs().max() < 0.01
    assert to_nuclear.mean() < 0.93


@pytest.mark.parametrize("seed", SEEDS)
def test_the_published_curve(seed):
    """n=6, T=8, d=10, constant steps of .1 from zero: means in (.995, 1) and (.84, .88) after 2,000."""
    tokens = data.random_tokens(6, 8, 10, trials=60, seed=seed)
    model = trained(tokens, 2000, schedule=None)
    selected = geometry.selected_tokens(model.attention(tokens))
    fro, nuc = (geometry.cosine(model.W, att_svm(tokens, selected, norm).value) for norm in ("fro", "nuc"))
    assert fro.mean() > 0.995
    assert 0.84 < nuc.mean() < 0.88
    assert (nuc < fro).all()


@pytest.mark.parametrize(("n", "T", "d", "distinct"), [(4, 5, 7, 4), (11, 2, 5, 11), (9, 4, 8, 3)])
def test_the_rank_is_that_of_the_queries_that_carry(n, T, d, distinct):
    tokens = data.random_tokens(n=n, T=T, d=d, trials=50, seed=53)
    tokens = replace(tokens, z=tokens.z[:, torch.arange(n) % distinct])
    solution = att_svm(tokens, tokens.optimal)
    good = torch.as_tensor(solution.status == "optimal")
    assert good.sum() > 20
    rank = torch.linalg.matrix_rank(solution.value[good], rtol=1e-5)
    assert (rank <= min(distinct, d)).all()
    assert rank.max() == min(distinct, d)
    a = svm.attention_problem(tokens.X, tokens.z, tokens.optimal).a.unflatten(-2, (n, T - 1))
    a_bar = (solution.dual.unflatten(-1, (n, T - 1))[..., None] * a).sum(-2)
    assert (geometry.cosine(a_bar.mT @ tokens.z, solution.value)[good] > 1 - 1e-9).all()
    carry = a_bar.norm(dim=-1) > 1e-5 * a_bar.norm(dim=-1).amax(-1, keepdim=True)
    assert torch.equal(rank, torch.linalg.matrix_rank((tokens.z * carry[..., None])[good], rtol=1e-5))


def test_independent_queries_make_every_choice_feasible():
    tokens = data.random_tokens(n=7, T=25, d=7, trials=20, seed=54)
    selected = torch.randint(0, 25, (20, 7), generator=torch.Generator().manual_seed(1))
    assert (att_svm(tokens, selected).status == "optimal").all()
    shared = replace(tokens, z=tokens.z[:, :1].expand_as(tokens.z))
    assert (att_svm(shared, selected).status != "optimal").all()


def test_orthogonal_queries_share_nothing():
    tokens = data.random_tokens(n=4, T=6, d=5, seed=55)
    tokens = replace(tokens, z=torch.linalg.qr(tokens.z.mT)[0].mT.contiguous())
    W = att_svm(tokens, tokens.optimal).value
    alone = [
        svm.solve(svm.token_problem(tokens.X[i : i + 1], tokens.optimal[i : i + 1])).value for i in range(4)
    ]
    torch.testing.assert_close(tokens.z @ W.mT, torch.stack(alone), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("size", [(3, 4, 7), (5, 3, 9)])
def test_what_a_start_has_outside_the_span_stays(size):
    """And after 2,000 growing steps from norm 60 it is the error, within 15% in the median."""
    n, _, d = size
    tokens = data.random_tokens(*size, trials=20, seed=56)
    start = torch.randn(20, d, d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    start *= 60 / start.flatten(1).norm(dim=1)[:, None, None]
    model = trained(tokens, 2000, start)
    rows = (tokens.X[:, :, 1:] - tokens.X[:, :, :1])[..., None] * tokens.z[:, :, None, None, :]
    basis = torch.linalg.qr(rows.flatten(1, 2).flatten(2).mT)[0]  # (trials, d^2, n (T - 1))

    def outside(W):
        w = W.flatten(1)[..., None]
        return (w - basis @ (basis.mT @ w)).squeeze(-1)

    torch.testing.assert_close(outside(model.W), outside(start), atol=1e-8, rtol=0)
    limit = att_svm(tokens, geometry.selected_tokens(model.attention(tokens))).value
    error = 1 - geometry.cosine(model.W, limit)
    foreseen = 1 - (1 - (outside(start).norm(dim=1) / model.W.flatten(1).norm(dim=1)) ** 2).sqrt()
    assert (error > foreseen - 1e-9).all()
    assert (error / foreseen).median() < 1.15
    fresh = torch.linalg.svd(tokens.z)[2][:, -1, :, None]  # orthogonal to all queries
    torch.testing.assert_close(model.W @ fresh, start @ fresh, atol=1e-8, rtol=0)
    assert n < d


def test_the_path_is_global_and_a_followed_branch_need_not_be():
    tokens = data.random_tokens(5, 7, 9, trials=20, seed=57)
    W_mm = att_svm(tokens, tokens.optimal).value
    ray = W_mm / W_mm.flatten(1).norm(dim=1)[:, None, None]
    branch = paths.regularization_path(models.CrossAttention(9, trials=20, init=200 * ray), tokens, [200])
    followed = paths.regularization_path(models.CrossAttention(9, trials=20), tokens, [3, 10, 30, 100, 200])
    assert (geometry.cosine(branch["W"][0], W_mm) > 0.998).all()
    assert (branch.loss[0] <= followed.loss[-1] + 1e-9).all()
    chosen = models.CrossAttention(9, trials=20, init=followed["W"][-1]).logits(tokens).argmax(-1)
    assert geometry.cosine(followed["W"][-1], att_svm(tokens, chosen).value).median() > 0.999
    assert 3 < (chosen == tokens.optimal).all(-1).sum() < 20


@pytest.mark.parametrize("seed", SEEDS)
def test_sequences_infect_each_other_in_self_attention_only(seed):
    """n = 24, T = 3, d = 5, 200 trials: who prefers token 1 after one step, and after 600."""
    cross = data.random_tokens(24, 3, 5, trials=200, seed=seed)
    fair = (24 * 2 / 9) ** 0.5
    scatter = {}
    for name, tokens in (("cross", cross), ("self", with_own_queries(cross))):
        for steps in (1, 600):
            attention = trained(tokens, steps, schedule=None).attention(tokens)
            first = (attention.argmax(-1) == 0).sum(-1).double()
            scatter[name, steps] = first.std() / fair
            assert abs(first.mean() - 8) < 1
    assert scatter["cross", 1] < 1.2
    assert scatter["self", 1] > 1.6
    assert scatter["self", 600] < 0.8 * scatter["self", 1]


@pytest.mark.parametrize(("n", "least"), [(5, 0.5), (30, 0.9)])
def test_sequences_that_agree_on_themselves_teach_new_ones(n, least):
    """T = 6, d = 8, query = best token; chance is one in six, and what a query from outside reaches."""
    tokens = data.random_tokens(n, 6, 8, trials=10, seed=58)
    order = tokens.scores.argsort(dim=-1, descending=True)[..., None].expand_as(tokens.X)
    tokens = replace(tokens, X=tokens.X.gather(-2, order))
    new = data.random_tokens(300, 6, 8, trials=10, seed=59)
    share = {}
    for name, query in (("cross", lambda same: same), ("self", with_own_queries)):
        model = trained(query(tokens), 800)
        share[name] = (model.logits(query(new)).argmax(-1) == 0).double().mean()
    assert share["self"] > least
    assert abs(share["cross"] - 1 / 6) < 0.04


def test_the_rule_of_all_own_is_feasible_for_any_number_and_turns_to_the_identity():
    alike = []
    for n in (4, 16, 100):
        tokens = with_own_queries(data.random_tokens(n, 5, 6, trials=5, seed=60))
        solution = att_svm(tokens, torch.zeros(5, n, dtype=torch.int64))
        assert (solution.status == "optimal").all()
        identity = torch.eye(6, dtype=torch.float64).expand_as(solution.value)
        alike.append(geometry.cosine(solution.value, identity).mean())
    assert alike[0] + 0.1 < alike[1] < alike[2] - 0.03
    assert alike[2] > 0.85


@pytest.mark.parametrize(("first", "second"), [(5, 4), (5, 3), (7, 3), (3, 1), (5, 1)])
def test_a_contradiction_is_settled_by_the_logarithm_of_the_majority(first, second):
    """One query, words a, b and each side's loser: h_a - h_b = 2 artanh log(n_1/n_2) below e, else grows."""
    a, b, c, other, query = torch.eye(5, dtype=torch.float64)
    X = torch.stack([torch.stack([a, b, c])] * first + [torch.stack([a, b, other])] * second)
    y = torch.tensor([1.0] * first + [-1.0] * second, dtype=torch.float64)
    tokens = data.TokenData(X=X, z=query.expand(len(y), 5), y=y, v=a - b - 2 * c + 2 * other)
    assert str(att_svm(tokens, tokens.optimal).status) == "infeasible"
    model = models.CrossAttention(5)
    record, sgd = {"h": lambda m: m.logits(tokens)[0]}, torch.optim.SGD(model.parameters(), lr=3.0)
    h = train.fit(model, tokens, sgd, 4000, record=record, every=[400, 4000], progress=False)["h"][1:]
    apart, ahead = h[:, 0] - h[:, 1], h[:, 0] - h[:, 2]
    assert ahead[1] - ahead[0] > 2
    if first / second < np.e:
        assert abs(apart[1] - 2 * np.arctanh(np.log(first / second))) < 0.1
        assert abs(apart[1] - apart[0]) < 1.5
    else:
        assert apart[1] - apart[0] > 1.7
