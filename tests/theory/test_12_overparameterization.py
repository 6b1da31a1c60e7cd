"""Lesson 12's claims on other seeds and sizes than the lesson's."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate import lesson_12 as runs
from mini_attn import data, geometry, svm
from mini_attn.sweep import wilson

enough, _, probability, *_ = (spec.reference for spec in exercises.exercises("12"))


def gaussian(n, T, d, trials, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(trials, *shape, generator=generator, dtype=torch.float64)  # noqa: E731
    return draw(n, T, d), draw(n, d)


def used_up(T, draws=100_000, seed=8):
    """How many tokens are tied with the first at the nearest point where it is ahead: by pooling."""
    g = np.random.default_rng(seed).normal(size=(draws, T))
    others = -np.sort(-g[:, 1:], axis=1)
    means = np.cumsum(np.hstack([g[:, :1], others]), axis=1) / np.arange(1, T + 1)
    return (others > means[:, :-1]).sum(axis=1)


def distribution(T):
    return np.bincount(used_up(T), minlength=T) / 100_000


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


def test_even_and_odd_numbers_are_equally_likely():
    for T in (2, 3, 5, 9):
        assert abs(distribution(T)[0::2].sum() - 0.5) < 0.006


@pytest.mark.parametrize(
    ("kind", "n", "T", "d"), [("p", 4, 5, 5), ("p", 7, 3, 6), ("W", 3, 7, 3), ("W", 9, 3, 3), ("W", 16, 2, 3)]
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


def orthonormal(rows):
    U, _, V = torch.linalg.svd(rows, full_matrices=False)
    return U @ V


@pytest.mark.parametrize("lr", [0.1, 3.0])
def test_orthogonal_tokens_and_queries_make_every_run_global(lr):
    tokens = data.random_tokens(5, 7, 7, trials=100, seed=19)
    ideal = data.TokenData(X=orthonormal(tokens.X), z=orthonormal(tokens.z), y=tokens.y, v=tokens.v)
    for data_set, every in ((ideal, True), (tokens, False)):
        code = runs.words(runs.descend(runs.attend("W", 7, 100), data_set, 400, lr=lr), data_set)
        assert bool((code == runs.GLOBAL).all()) == every


def test_orthogonal_queries_free_the_sequences_and_orthogonal_tokens_do_not():
    tokens = data.random_tokens(4, 3, 4, trials=200, seed=61)
    share, rivals, escape = [], [], []
    for keys, z in ((0, 0), (0, 1), (1, 0)):
        X, q = (orthonormal(a) if change else a for a, change in ((tokens.X, keys), (tokens.z, z)))
        changed = data.TokenData(X=tokens.X, z=q, y=tokens.y, v=tokens.v, keys=X)
        won = runs.words(runs.descend(runs.attend("W", 4, 200), changed, 400), changed) == runs.GLOBAL
        rival = runs.wrong_winners("W", changed)[0] > 0
        share.append(won.double().mean())
        rivals.append(rival.double().mean())
        escape.append(won[rival].double().mean())
    assert share[1] > share[0] + 0.02
    assert share[2] < share[0]
    assert max(rivals[1:]) < rivals[0] - 0.05  # both remove rivals
    assert escape[1] > escape[0] + 0.03 > escape[2] + 0.08  # one makes them easier to escape, one harder


def test_favoured_and_far_is_global():
    for kind, n, T, d in (("p", 3, 5, 9), ("W", 5, 3, 5)):
        tokens = data.random_tokens(n, T, d, trials=300, seed=29)
        favoured = (runs.first_leads(kind, tokens) > 0).all(dim=-1)
        model = runs.attend(kind, d, 300)
        torch.nn.functional.softplus(-tokens.y * model(tokens)).mean(-1).sum().backward()
        step = -next(model.parameters()).grad
        step = 300 * step / step.flatten(1).norm(dim=1).reshape(-1, *[1] * (step.ndim - 1))
        code = runs.words(runs.descend(runs.attend(kind, d, 300, init=step), tokens, 600), tokens)
        assert favoured.sum() > 40
        assert (code[favoured] == runs.GLOBAL).all()
        assert (code[~favoured] != runs.GLOBAL).sum() > 20


def test_sequences_fail_as_if_independent_when_they_crowd():
    shares = []
    for d in (6, 20):
        found = runs.crowded("p, n = d/2", d, trials=200, seed=33)
        won, right = (found["code"] == runs.GLOBAL).double().mean(), found["right"].mean()
        assert abs(won - right ** (d // 2)) < 0.12
        shares.append(won)
    assert shares[1] < shares[0] - 0.2


def test_the_formula_is_far_off_for_many_tokens_in_few_dimensions():
    X, z = gaussian(5, 14, 3, 400, seed=17)
    share = status("W", X, z, torch.zeros(400, 5, dtype=torch.int64)).mean()
    assert share < 0.75 * probability(distribution(14), 5, 3, "W")


def test_p_and_W_err_alike_at_the_same_load():
    error = []
    for kind, n, d in (("p", 20, 40), ("W", 24, 7), ("W", 12, 7)):
        tokens = data.random_tokens(n, 3, d, trials=100, seed=51)
        attention = runs.descend(runs.attend(kind, d, 100), tokens, 300)
        error.append((geometry.selected_tokens(attention) != tokens.optimal).double().mean())
    assert abs(error[1] - error[0]) < 0.03
    assert error[2] < error[0] - 0.03  # half the load
