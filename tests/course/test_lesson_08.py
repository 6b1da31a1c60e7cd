"""What lesson 08 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import data, models, optim, svm, train
from mini_attn.paths import regularization_path

shortfall, projected_step, offset, jump_radius, mixture_point = (
    spec.reference for spec in exercises.exercises("08")
)


def problem(lesson, seed, T=4):
    rng = np.random.default_rng(seed)
    keys, scores = rng.normal(size=(T, 2)), rng.uniform(-1, 1, size=T)
    return keys, scores, lesson["tokens_of"](keys, scores)


@pytest.mark.parametrize("seed", range(3))
def test_the_shortfall_is_the_best_score_minus_the_models_output(seed, lesson):
    keys, scores, tokens = problem(lesson, seed)
    p = np.random.default_rng(seed + 10).normal(size=(5, 2))
    output = models.PromptAttention(2, 5, init=p)(tokens)[:, 0].detach()
    np.testing.assert_allclose(shortfall(p, keys, scores), scores.max() - output, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_search_and_projected_steps_and_the_library_find_one_minimiser(seed, lesson):
    keys, scores, tokens = problem(lesson, seed)
    (searched,) = lesson["search"](keys, scores, np.array([0.7]))
    ring = lesson["circle"](np.linspace(0, 2 * np.pi, 10_000), 0.7)
    assert shortfall(searched[None], keys, scores) <= shortfall(ring, keys, scores).min()
    np.testing.assert_allclose(
        regularization_path(models.PromptAttention(2), tokens, [0.7])["p"][0], searched, atol=1e-5
    )
    np.testing.assert_allclose(lesson["follow"](keys, scores, [0.7])[0], searched, atol=2e-3)


def test_the_lessons_descent_is_the_librarys(lesson):
    keys, scores, tokens = problem(lesson, 3)
    model = models.PromptAttention(2)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.04)
    record = {"p": lambda m: m.p}
    path = train.fit(model, tokens, optimizer, 150, record=record, every=1, progress=False)["p"]
    own = lesson["descend"](keys, scores, (0, 0), 150, 0.04)
    np.testing.assert_allclose(own, path, atol=1e-9)


def test_a_point_of_given_length_is_the_nearest_of_the_run(lesson):
    run = np.array([[0.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 5.0]])
    np.testing.assert_allclose(lesson["at_length"](run, 2.5), [2.5, 0.0])


def test_the_offset_is_where_the_library_goes(lesson):
    tokens, solution = lesson["unit_problems"](trials=6, seed=12)
    row = svm.token_problem(tokens.keys, tokens.optimal).a[0].numpy()
    lam = solution.dual[0].numpy()
    gaps = (tokens.scores.amax(-1, keepdim=True) - tokens.scores)[0]
    slope = 1 / (1 + tokens.scores[0].amax(-1, keepdim=True).exp())
    weights = (slope * gaps)[gaps > 0].numpy()
    tight = lam > 1e-6
    r = offset(row[tight], weights[tight], lam[tight])
    one = data.TokenData(*(a[0] for a in (tokens.X, tokens.z, tokens.y, tokens.v, tokens.keys)))
    p_mm = solution.value[0].numpy()
    sideways = np.zeros(10)  # the first start, on the ray, knows nothing of r
    for R in (100.0, 3000.0):
        model = models.PromptAttention(10, init=torch.tensor(R * p_mm + sideways))
        p = regularization_path(model, one, [R], tol=1e-8)["p"][0].numpy()
        sideways = p - (p @ p_mm) * p_mm
    np.testing.assert_allclose(sideways, r, atol=0.02)


def test_a_mixture_has_the_attention_that_was_asked_for(lesson):
    keys, share = np.array([[0.2, 1.0], [1.1, 0.3], [-0.5, -0.4]]), np.array([0.35, 0.65])
    p = mixture_point(keys, share, 30.0)
    tokens = lesson["tokens_of"](keys, np.zeros(3))
    attention = models.PromptAttention(2, init=p).attention(tokens)[0].detach()
    np.testing.assert_allclose(attention, [0.35, 0.65, 0], atol=1e-8)
    assert np.linalg.norm(p) == pytest.approx(30)


def test_a_projected_step_stays_in_the_ball_and_moves_no_inner_point():
    p, g = np.array([[0.1, 0.2], [3.0, 4.0]]), np.zeros((2, 2))
    np.testing.assert_allclose(projected_step(p, g, 1.0, 2.5), [[0.1, 0.2], [1.5, 2.0]])
