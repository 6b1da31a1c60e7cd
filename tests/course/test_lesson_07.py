"""What lesson 07 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from mini_attn import data, models, optim, svm, train


@pytest.mark.parametrize("seed", range(3))
def test_the_widgets_descent_takes_the_librarys_path(seed, lesson):
    rng = np.random.default_rng(seed)
    keys, scores, start = rng.normal(size=(5, 2)), rng.uniform(size=5), rng.normal(size=(4, 2))
    own = lesson["descend"](start, keys, scores, steps=80)
    tokens = lesson["with_scores"](keys[None], scores[None])
    model = models.PromptAttention(2, trials=4, init=torch.tensor(start))
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, 80, progress=False, schedule=train.growing)
    np.testing.assert_allclose(model.p.detach(), own, rtol=1e-6)


def test_a_sequence_has_the_scores_and_keys_it_is_given(lesson):
    keys, scores = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0.3, -0.2, 0.9])
    tokens = lesson["with_scores"](keys[None], scores[None])
    np.testing.assert_array_equal(tokens.keys[0], keys)
    np.testing.assert_array_equal(tokens.scores[0], scores)


def test_enumeration_solves_each_choice_as_if_it_were_alone(lesson):
    tokens = data.random_tokens(n=2, T=3, d=3, trials=3, seed=11)
    found = lesson["enumerate_choices"](tokens)
    assert found["alpha"].shape == (3, 9, 2)
    for trial in range(3):
        for choice in range(9):
            alone = svm.solve(
                svm.token_problem(tokens.keys[trial], found["alpha"][trial, choice]), throw=False
            )
            assert bool(found["feasible"][trial, choice]) == (alone.status == "optimal")
            if found["feasible"][trial, choice]:
                np.testing.assert_allclose(found["p_mm"][trial, choice], alone.value, rtol=1e-5)
    assert (found["global"].sum(dim=1) <= 1).all()
