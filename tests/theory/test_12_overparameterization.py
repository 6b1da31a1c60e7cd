"""Lesson 12's claims on other seeds and sizes than the lesson's."""

import functools

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate import lesson_12 as runs
from mini_attn import data, svm
from mini_attn.sweep import wilson

enough, _, used_up, safe_level = (spec.reference for spec in exercises.exercises("12"))


def probability(share, n, d, kind):
    """The conic formula for the sum of n independent numbers of ties."""
    J, D = np.ones(1), d if kind == "p" else d * d
    for _ in range(n):
        J = np.convolve(J, share)
    return 2 * sum(J[k] for k in range(D - 1, -1, -2) if k < len(J))


def gaussian(n, T, d, trials, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(trials, *shape, generator=generator, dtype=torch.float64)  # noqa: E731
    return draw(n, T, d), draw(n, d)


@functools.cache
def distribution(T):
    h = np.random.default_rng(8).normal(size=(100_000, T))
    return np.bincount(used_up(h), minlength=T) / 100_000


def status(kind, X, z, selected):
    return svm.solve(runs.problem(kind, X, z, selected), throw=False).status == "optimal"


@pytest.mark.parametrize(("n", "T"), [(7, 2), (9, 2), (5, 3), (5, 4), (11, 4)])
def test_rows_are_independent_exactly_from_the_counted_dimension_on(n, T):
    d = enough(n, T)
    for size, full in ((d, True), (d - 1, False)):
        X, z = gaussian(n, T, size, 1, seed=n + T)
        problem = svm.attention_problem(X, z, torch.ones(1, n, dtype=torch.int64))
        rows = (problem.a[0, :, :, None] * problem.b[0, :, None]).flatten(1)
        assert (torch.linalg.matrix_rank(rows, rtol=1e-9) == len(rows)) == full
    assert d < n or n <= T - 1 or n < T


@pytest.mark.parametrize(("n", "T", "d", "seed"), [(5, 3, 3, 0), (5, 3, 3, 1), (17, 2, 4, 2)])
def test_one_row_more_than_numbers_can_be_turned_into_an_impossible_choice_at_any_length(n, T, d, seed):
    """Also on data nearby; and with another sign of one turned row it is possible again."""
    X, z = gaussian(n, T, d, 1, seed)
    X, chosen = X - X[:, :, :1], torch.zeros(1, n, dtype=torch.int64)
    problem = svm.attention_problem(X, z, chosen)
    rows = (problem.a[0, :, :, None] * problem.b[0, :, None]).flatten(1)
    c = torch.linalg.svd(rows.T).Vh[-1]
    assert len(rows) == d * d + 1
    assert c.abs().min() > 1e-4
    turned = X.clone()
    turned[:, :, 1:] *= c.sign().reshape(1, n, T - 1, 1)
    assert not status("W", turned, z, chosen).any()
    near = turned + 1e-6 * torch.randn(turned.shape, generator=torch.Generator().manual_seed(seed))
    assert not status("W", near, z, chosen).any()
    turned[:, 0, 1] *= -1
    assert status("W", turned, z, chosen).all()


def test_even_and_odd_numbers_are_equally_likely():
    for T in (2, 3, 5, 9):
        assert abs(distribution(T)[0::2].sum() - 0.5) < 0.006


@pytest.mark.parametrize(
    ("kind", "n", "T", "d"),
    [("p", 4, 5, 5), ("p", 7, 3, 6), ("W", 9, 4, 3), ("W", 9, 3, 3), ("W", 16, 2, 3)],
)
def test_random_choices_are_possible_as_often_as_predicted(kind, n, T, d):
    X, z = gaussian(n, T, d, 1000, seed=91)
    hits = status(kind, X, z, torch.zeros(1000, n, dtype=torch.int64)).sum()
    low, high = wilson(hits, 1000, 0.9999)
    expected = probability(distribution(T), n, d, kind)
    slack = 0.04 if kind == "W" and d < n and T > 2 else 0.005  # there the formula is close, not exact
    assert low - slack < expected < high + slack
    rows = n * (T - 1)
    if kind == "p":  # Cover's count refused
        cover = probability(np.array([0.5, 0.5]), rows, d, "p")
        assert not low - slack < cover < high + slack


def test_without_another_winner_every_run_is_global():
    total = 0
    for kind, n, T, d in (("p", 2, 5, 5), ("W", 2, 5, 4), ("p", 3, 3, 7)):
        tokens = data.random_tokens(n, T, d, trials=150, seed=77)
        unrivalled = (runs.wrong_winners(kind, tokens)[0] == 0) & runs.possible(kind, tokens)
        code = runs.words(runs.descend(runs.attend(kind, d, 150), tokens, 800), tokens)
        assert (code[unrivalled] == runs.GLOBAL).all()
        assert (code[~unrivalled] != runs.GLOBAL).any()
        total += int(unrivalled.sum())
    assert total > 80


@pytest.mark.parametrize("lr", [0.1, 3.0])
def test_orthogonal_tokens_and_queries_make_every_run_global(lr):
    tokens = data.random_tokens(5, 7, 7, trials=100, seed=19)
    X, z = (U @ V for U, _, V in (torch.linalg.svd(one, full_matrices=False) for one in (tokens.X, tokens.z)))
    ideal = data.TokenData(X=X, z=z, y=tokens.y, v=tokens.v)
    for data_set, every in ((ideal, True), (tokens, False)):
        code = runs.words(runs.descend(runs.attend("W", 7, 100), data_set, 400, lr=lr), data_set)
        assert bool((code == runs.GLOBAL).all()) == every


def test_rivals_are_escaped_by_their_number_whatever_the_dimension():
    one, pooled, many = [], [], []
    for d in (4, 24):
        tokens = runs.compressed(data.random_tokens(2, 5, d, trials=500, seed=12))
        model = runs.attend("p", tokens.keys.shape[-1], 500)
        won = runs.words(runs.descend(model, tokens, 600), tokens) == runs.GLOBAL
        rivals, can = runs.wrong_winners("p", tokens)[0], runs.possible("p", tokens)
        for chances, which in ((one, (rivals == 1) & can), (pooled, rivals > 0), (many, (rivals > 3) & can)):
            chances.append(won[which].double().mean())
    assert pooled[1] > pooled[0] + 0.2
    assert abs(one[1] - one[0]) < 0.08  # so the rise is that of the mix
    assert many[0] < one[0] - 0.25


def test_a_best_token_that_is_caught_up_costs_the_safe_level():
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(5000, 3, 4, generator=generator, dtype=torch.float64) * 3
    h = torch.randn(5000, 3, 4, generator=generator, dtype=torch.float64) * 4
    best = scores.argmax(-1, keepdim=True)
    h[:, 0].scatter_(-1, best[:, 0], h[:, 0].scatter(-1, best[:, 0], -torch.inf).amax(-1, keepdim=True))
    loss = lambda h: torch.nn.functional.softplus(-(h.softmax(-1) * scores).sum(-1)).mean(-1)  # noqa: E731
    level = torch.tensor([safe_level(one) for one in scores.numpy()])
    assert (loss(h) >= level).all()
    h.scatter_add_(-1, best, torch.full_like(h[..., :1], 40.0))  # far ahead: below the level
    assert (loss(h) < level).double().mean() > 0.99


def test_the_safe_level_is_reached():
    scores = np.random.default_rng(3).normal(size=(4, 5)) * 2
    costs = []
    for i in range(4):
        h = 80.0 * (scores == scores.max(axis=1, keepdims=True))
        h[i, scores[i].argsort()[-2]] = 80.0
        attention = np.exp(h - 80)
        u = (attention * scores).sum(axis=1) / attention.sum(axis=1)
        costs.append(np.logaddexp(0, -u).mean())
    np.testing.assert_allclose(min(costs), safe_level(scores), rtol=1e-9)


def test_two_tokens_are_covers_count():
    from math import comb

    half = np.array([0.5, 0.5])
    for n, d in ((5, 2), (7, 3), (9, 6), (4, 9)):
        wendel = sum(comb(n - 1, k) for k in range(d)) / 2 ** (n - 1)
        assert probability(half, n, d, "p") == pytest.approx(wendel)
        wendel = sum(comb(n - 1, k) for k in range(d * d)) / 2 ** (n - 1)
        assert probability(half, n, d, "W") == pytest.approx(wendel)


@pytest.mark.parametrize(("n", "T", "d"), [(5, 12, 3), (5, 8, 3), (2, 5, 2)])
def test_the_law_says_too_much_where_sequences_are_often_impossible_alone(n, T, d):
    """W with d < T - 1; for d >= n each sequence is on its own, with d numbers, and that is exact."""
    X, z = gaussian(n, T, d, 400, seed=17)
    low, high = wilson(status("W", X, z, torch.zeros(400, n, dtype=torch.int64)).sum(), 400, 0.99)
    share = distribution(T)
    assert high < probability(share, n, d, "W")
    alone = probability(share, 1, d, "p") ** n
    assert low - 0.005 < alone < high + 0.005 if d >= n else high < alone


@pytest.mark.parametrize(("kind", "n", "T", "d"), [("W", 3, 20, 3), ("W", 4, 12, 4), ("p", 1, 30, 2)])
def test_tokens_of_one_length_make_every_choice_possible_from_as_many_dimensions_as_sequences(kind, n, T, d):
    X, z = gaussian(n, T, d, 200, seed=23)
    first = torch.zeros(200, n, dtype=torch.int64)
    assert status(kind, X / X.norm(dim=-1, keepdim=True), z, first).all()
    assert status(kind, X, z, first).mean() < 0.9


@pytest.mark.parametrize(("n", "T", "d"), [(12, 5, 4), (9, 4, 3), (2, 3, 2)])
def test_the_count_holds_on_the_sphere_too(n, T, d):
    d = max(d, enough(n, T))
    X, z = gaussian(n, T, d, 1, seed=n)
    X = X / X.norm(dim=-1, keepdim=True)
    problem = svm.attention_problem(X, z, torch.zeros(1, n, dtype=torch.int64))
    rows = (problem.a[0, :, :, None] * problem.b[0, :, None]).flatten(1)
    assert torch.linalg.matrix_rank(rows, rtol=1e-9) == len(rows)


def test_below_as_many_dimensions_as_sequences_one_length_is_not_enough():
    X, z = gaussian(4, 40, 3, 100, seed=5)
    X = X / X.norm(dim=-1, keepdim=True)
    assert 0 < status("W", X, z, torch.zeros(100, 4, dtype=torch.int64)).mean() < 0.9


@pytest.mark.parametrize(("n", "T", "d"), [(5, 3, 24), (3, 5, 32), (8, 4, 96)])
def test_spread_and_support_tokens_follow_the_law(n, T, d):
    """n E delta^2 = d, by bisection, for Gaussian tokens and for tokens of one length."""
    g = np.random.default_rng(2).normal(size=(20_000, T))

    def at(lead):
        h = np.column_stack((g[:, 0] - lead, g[:, 1:]))
        j = used_up(h)
        ordered = np.hstack((h[:, :1], -np.sort(-h[:, 1:])))
        tied = np.arange(T) <= j[:, None]
        mean = (ordered * tied).sum(axis=1) / (j + 1)
        return (((ordered - mean[:, None]) * tied) ** 2).sum(axis=1).mean(), j.mean()

    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if n * at(middle)[0] < d else (low, middle)
    X, _ = gaussian(n, T, d, 300, seed=31)
    for tokens, length in ((X, 1.0), (X / X.norm(dim=-1, keepdim=True), d**-0.5)):
        solution = svm.solve(svm.token_problem(tokens, torch.zeros(300, n, dtype=torch.int64)), throw=False)
        assert (solution.status == "optimal").all()
        spread = float(solution.value.norm(dim=-1).median()) * length
        assert abs(spread * low - 1) < 0.15
        logits = (tokens @ solution.value[:, None, :, None])[..., 0]
        k = ((logits[..., :1] - logits[..., 1:]) < 1 + 1e-6).sum(-1).double().mean()
        assert abs(k - at(low)[1]) < 0.15
