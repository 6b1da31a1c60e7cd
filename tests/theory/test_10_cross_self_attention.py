"""Lesson 10. W is a p for the keys x z^T: it goes to the Frobenius Att-SVM of the tokens it selects.

Tarzanagh et al. 2023, "Transformers as Support Vector Machines", informally: gradient descent on W converges
in direction to W_mm = argmin ||W||_F s.t. (x_alpha - x_t)^T W z >= 1 for a locally optimal alpha;
rank W_mm <= min(n, d). Argued and measured in the lesson: in self-attention W goes towards
b (I - ee^T) + b_v ee^T, e along v; descent ends at the SVM of a local choice; as data grow, W_mm tends to
b I. And beyond it: the part of a start outside the span of the comparisons stays under plain gradient steps,
and bounds the cosine.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mini_attn import data, geometry, models, optim, svm, train

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
    """And after 2,000 growing steps from norm 60 the error is that part's and the remainder's, to 1%."""
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
    limit = att_svm(tokens, geometry.selected_tokens(model.attention(tokens))).value.flatten(1)
    error = 1 - geometry.cosine(model.W.flatten(1), limit, batch_dims=1)
    limit = limit / limit.norm(dim=1, keepdim=True)
    kept, R = outside(start).norm(dim=1), model.W.flatten(1).norm(dim=1)
    inside = model.W.flatten(1) - outside(model.W)
    r = (inside - (inside * limit).sum(1, keepdim=True) * limit).norm(dim=1)
    assert (error > (kept / R) ** 2 / 2 - 1e-9).all()
    assert (error / ((kept**2 + r**2) / (2 * R**2)) - 1).abs().max() < 0.01
    assert (r / kept).max() > 0.15  # so that the bound alone is refused
    fresh = torch.linalg.svd(tokens.z)[2][:, -1, :, None]  # orthogonal to all queries
    torch.testing.assert_close(model.W @ fresh, start @ fresh, atol=1e-8, rtol=0)
    assert n < d
    for name, optimizer in (
        ("adam", lambda W: torch.optim.Adam(W, lr=0.05)),
        ("decay", lambda W: torch.optim.SGD(W, lr=1.0, weight_decay=1e-3)),
    ):
        other = models.CrossAttention(d, trials=20, init=start)
        train.fit(other, tokens, optimizer(other.parameters()), 300, progress=False)
        assert ((other.W - start) @ fresh).norm(dim=(1, 2)).min() > 0.1, name


def best_first(tokens):
    order = tokens.scores.argsort(dim=-1, descending=True)[..., None].expand_as(tokens.X)
    return replace(tokens, X=tokens.X.gather(-2, order))


@pytest.mark.parametrize(("n", "least"), [(5, 0.5), (30, 0.9)])
def test_a_query_that_carries_the_answer_teaches_new_sequences(n, least):
    """T = 6, d = 8: the best token, or the best token turned; an independent query stays near one in six."""
    tokens = best_first(data.random_tokens(n, 6, 8, trials=10, seed=58))
    new = best_first(replace(data.random_tokens(1000, 6, 8, trials=10, seed=59), v=tokens.v))
    turn = torch.linalg.qr(
        torch.randn(8, 8, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    )[0]
    queries = {
        "independent": lambda same: same,
        "own": with_own_queries,
        "turned": lambda same: replace(same, z=same.X[..., 0, :] @ turn.T),
    }
    share, W = {}, {}
    for name, query in queries.items():
        model = trained(query(tokens), 800)
        W[name] = att_svm(query(tokens), tokens.optimal * 0).value
        first = model.logits(query(new)).argmax(-1)
        share[name] = (first == 0).double().mean()
        if name == "independent":  # a coin decides which token is the best and which the worst
            assert abs(share[name] - (first == 5).double().mean()) < 0.03
            middle = ((first == 2) | (first == 3)).double().mean() / 2
            assert share[name] > middle  # W z leans to v or to -v
    assert share["own"] > least
    assert abs(share["turned"] - share["own"]) < 0.003
    torch.testing.assert_close(W["turned"] @ turn, W["own"], atol=1e-5, rtol=1e-5)
    assert 1 / 6 < share["independent"] < 0.25


@pytest.mark.parametrize("size", [(60, 6, 8), (50, 5, 9)])
def test_every_token_that_asks_a_new_sequence_selects_itself(size):
    """At the end of descent and in the SVM of the best tokens' queries; the rival: the best is selected."""
    tokens = with_own_queries(best_first(data.random_tokens(*size, trials=10, seed=78)))
    X = best_first(replace(data.random_tokens(1000, *size[1:], trials=10, seed=79), v=tokens.v)).X
    for W in (trained(tokens, 1000).W, att_svm(tokens, tokens.optimal * 0).value):
        logits = torch.einsum("kstd,kde,kqse->kqst", X, W, X.transpose(1, 2))  # a row for each asker
        picks = logits.argmax(-1)
        for asks in range(size[1]):
            assert (picks[:, asks] == asks).double().mean() > 0.93
            assert asks == 0 or (picks[:, asks] == 0).double().mean() < 0.05


def along_over_across(W, v):
    along = (v[:, None] @ W @ v[..., None]).flatten() / (v * v).sum(-1)
    return float(along.mean() / ((W.diagonal(dim1=-2, dim2=-1).sum(-1) - along) / (W.shape[-1] - 1)).mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_w_turns_to_what_commutes_with_all_rotations_about_v_not_to_the_identity(seed):
    """More along v than across: six times as much after the first step, less than four times in the SVM."""
    d, T, n = 7, 5, 120
    raw = data.random_tokens(n, T, d, trials=6, seed=seed)
    tokens = with_own_queries(best_first(raw))
    first = trained(tokens, 1, schedule=None).W
    solution = att_svm(tokens, tokens.optimal * 0)
    assert (solution.status == "optimal").all()
    assert 1.2 < along_over_across(solution.value, raw.v) < 3 < 4 < along_over_across(first, raw.v)
    e = raw.v / raw.v.norm(dim=-1, keepdim=True)
    P = e[..., :, None] * e[..., None, :]
    along = (P * first).sum((-2, -1), keepdim=True)
    across = (first.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] - along) / (d - 1)
    form = across * (torch.eye(d, dtype=torch.float64) - P) + along * P
    assert geometry.cosine(first, form).mean() > 0.95
    assert geometry.cosine(first, torch.eye(d, dtype=torch.float64).expand_as(first)).mean() < 0.85


def first_ratio(T, d, seed):
    """b_v / b of the first step, from the scores of 100,000 sequences: coordinates of random unit vectors."""
    half = (d - 1) / 2
    scores = -np.sort(1 - 2 * np.random.default_rng(seed).beta(half, half, size=(100_000, T)), axis=1)
    u, best = scores.mean(axis=1, keepdims=True), scores[:, 0]
    slope = 1 / (1 + np.exp(u[:, 0]))
    along = slope * ((scores - u) * scores).sum(axis=1) * best
    return (d - 1) * along.mean() / (slope * (best - u[:, 0]) * (1 - best**2)).mean()


@pytest.mark.parametrize("T", [3, 8, 20])
def test_the_ratio_of_the_first_step_is_the_number_of_tokens_in_large_dimensions(T):
    assert first_ratio(T, 2000, 67) == pytest.approx(T, rel=0.02)
    assert first_ratio(T, 200, 68) == pytest.approx(T, rel=0.05)
    assert first_ratio(T, 6, 69) > 0.95 * T


@pytest.mark.parametrize(("T", "d", "seed"), [(8, 6, 74), (20, 20, 75)])
def test_the_rest_of_the_svm_falls_slower_with_the_data_than_that_of_the_first_step(T, d, seed):
    """From 50 to 400 sequences; and the lead that the form gives a query, in two terms."""

    def rest(W, e):
        along = (e[:, None] @ W @ e[..., None]).flatten()
        across = (W.diagonal(dim1=-2, dim2=-1).sum(-1) - along) / (d - 1)
        P = e[:, :, None] * e[:, None, :]
        form = across[:, None, None] * (torch.eye(d) - P) + along[:, None, None] * P
        x, others = tokens.X[..., :1, :], tokens.X[..., 1:, :]
        lead = ((x - others) @ (form[:, None] @ x.mT)).squeeze(-1)
        gamma, more = tokens.scores, (along - across)[:, None, None]
        far = across[:, None, None] * (1 - (x * others).sum(-1))
        torch.testing.assert_close(lead, far + more * gamma[..., :1] * (gamma[..., :1] - gamma[..., 1:]))
        return ((W - form).flatten(1).norm(dim=1) / W.flatten(1).norm(dim=1)).mean()

    found = []
    for n in (50, 400):
        tokens = with_own_queries(best_first(data.random_tokens(n, T, d, trials=3, seed=seed)))
        first = trained(tokens, 1, schedule=None).W
        found.append((rest(first, tokens.v), rest(att_svm(tokens, tokens.optimal * 0).value, tokens.v)))
    assert 2.2 < found[0][0] / found[1][0] < 3.6  # the root of 8 is 2.8
    assert 1.05 < found[0][1] / found[1][1] < 1.9
    assert found[1][1] > 0.28


@pytest.mark.parametrize(("T", "d", "seed"), [(2, 3, 76), (4, 4, 77)])
def test_the_svm_tends_to_the_identity_as_data_grow_and_without_negative_scores_it_does_not(T, d, seed):
    """100 and 4,000 sequences: cosine to I; the rival, gamma_1 > 0 alone, keeps more along v."""
    found = {}
    for n in (100, 4_000):
        raw = best_first(data.random_tokens(n, T, d, trials=3, seed=seed))
        for k in range(3):
            for keep in (raw.scores[k, :, 0] > -2, raw.scores[k, :, 0] > 0):
                X = raw.X[k][keep]
                W = svm.solve(svm.attention_problem(X, X[:, 0], torch.zeros(len(X), dtype=torch.int64))).value
                cosine = float(W.trace() / W.norm() / d**0.5)
                ratio = along_over_across(W[None], raw.v[k : k + 1])
                found.setdefault((n, bool(keep.all())), []).append((cosine, ratio))
    few, many, positive = (np.array(found[key]) for key in ((100, True), (4_000, True), (4_000, False)))
    assert ((1 - many[:, 0]).mean() < 0.4 * (1 - few[:, 0]).mean()) & (many[:, 0] > 0.94).all()
    assert (positive[:, 1] > 1.15).all()
    assert positive[:, 1].mean() > many[:, 1].mean() + 0.2


@pytest.mark.parametrize(("T", "d", "seed"), [(5, 8, 70), (16, 8, 71), (25, 12, 72)])
def test_later_steps_take_the_ratio_from_that_of_the_first_to_that_of_the_svm(T, d, seed):
    """600 growing steps on 100 sequences; the rivals, the first step's ratio and 1."""
    raw = best_first(data.random_tokens(100, T, d, trials=4, seed=seed))
    tokens = with_own_queries(raw)
    solution = att_svm(tokens, tokens.optimal * 0)
    assert (solution.status == "optimal").all()
    first, last = (along_over_across(trained(tokens, steps).W, raw.v) for steps in (1, 600))
    limit = along_over_across(solution.value, raw.v)
    assert abs(last - limit) < 0.15
    assert first > 0.8 * T > 1.5 * limit
    assert limit > 1.1
