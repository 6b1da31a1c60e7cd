"""Lesson 12's claims on other seeds and sizes than the lesson's."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate import lesson_12 as runs
from mini_attn import data, svm
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
    ("kind", "n", "T", "d"), [("p", 4, 5, 5), ("p", 7, 3, 6), ("W", 3, 7, 3), ("W", 9, 3, 3)]
)
def test_random_choices_are_possible_as_often_as_predicted(kind, n, T, d):
    X, z = gaussian(n, T, d, 1000, seed=91)
    hits = status(kind, X, z, torch.zeros(1000, n, dtype=torch.int64)).sum()
    low, high = wilson(hits, 1000, 0.9999)
    expected = probability(distribution(T), n, d, kind)
    slack = 0.04 if kind == "W" and d < n else 0.005  # there the formula is close, not exact
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


def test_sequences_fail_as_if_independent_when_they_crowd():
    shares = []
    for d in (6, 20):
        found = runs.crowded("p, n = d/2", d, trials=200, seed=33)
        won, right = (found["code"] == runs.GLOBAL).double().mean(), found["right"].mean()
        assert abs(won - right ** (d // 2)) < 0.12
        shares.append(won)
    assert shares[1] < shares[0] - 0.2
