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


@pytest.mark.parametrize("seed", range(3))
def test_the_cone_is_the_widest_in_which_the_choice_is_ahead(seed, lesson):
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(2, 4, 3))
    selected = (keys @ rng.normal(size=3)).argmax(axis=1)
    p_mm = svm.solve(svm.token_problem(torch.tensor(keys), torch.tensor(selected))).value.numpy()
    theta = lesson["cone"](*(torch.tensor(part)[None] for part in (keys, selected, p_mm))).item()
    across = rng.normal(size=(20_000, 3))
    across -= np.outer(across @ p_mm, p_mm) / (p_mm @ p_mm)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    for factor, ahead in ((0.999, 1.0), (1.05, 0.99)):
        angle = np.radians(factor * theta)
        p = np.cos(angle) * p_mm / np.linalg.norm(p_mm) + np.sin(angle) * across
        share = ((p @ keys.swapaxes(-1, -2)).argmax(axis=-1) == selected[:, None]).all(axis=0).mean()
        assert share == 1 if ahead == 1 else share < 1


def test_newtons_method_finds_the_minimum_it_starts_beside_and_none_on_the_way_to_infinity(lesson):
    corners = torch.tensor([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]]).double()
    keys = torch.stack([corners, torch.zeros_like(corners)], dim=1)[None]  # one sequence pulls towards each
    scores = torch.tensor([1.0, 0.0]).double().expand(1, 3, 2)
    for p, found in (([0.3, -0.2], True), ([9.0, 0.0], False)):  # the minimum is near 0
        assert lesson["finite_minimum"](torch.tensor([p]).double(), keys, scores).item() == found
    for p in ([3.0, 0.1], [300.0, 0.1]):  # a single sequence: to infinity, though the gradient vanishes there
        assert not lesson["finite_minimum"](torch.tensor([p]).double(), keys[:, :1], scores[:, :1]).any()
