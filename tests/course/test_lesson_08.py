"""What lesson 08 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate import lesson_08 as kit
from mini_attn import data, models, optim, svm, train
from mini_attn.paths import regularization_path

first_turn, curvature, offset, proving_loss = (spec.reference for spec in exercises.exercises("08"))


def problem(lesson, seed, T=4):
    rng = np.random.default_rng(seed)
    keys, scores = rng.normal(size=(T, 2)), rng.uniform(-1, 1, size=T)
    return keys, scores, kit.tokens_of(keys, scores)


@pytest.mark.parametrize("seed", range(3))
def test_the_shortfall_is_the_best_score_minus_the_models_output(seed, lesson):
    keys, scores, tokens = problem(lesson, seed)
    p = np.random.default_rng(seed + 10).normal(size=(5, 2))
    output = models.PromptAttention(2, 5, init=p)(tokens)[:, 0].detach()
    np.testing.assert_allclose(lesson["shortfall"](p, keys, scores), scores.max() - output, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_search_and_the_library_find_one_minimiser(seed, lesson):
    keys, scores, tokens = problem(lesson, seed)
    (searched,) = lesson["search"](keys, scores, np.array([0.7]))
    ring = lesson["circle"](np.linspace(0, 2 * np.pi, 10_000), 0.7)
    value = lesson["shortfall"]
    assert value(searched[None], keys, scores) <= value(ring, keys, scores).min()
    np.testing.assert_allclose(
        regularization_path(models.PromptAttention(2), tokens, [0.7])["p"][0], searched, atol=1e-5
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_curvature_is_the_second_difference_on_the_circle(seed, lesson):
    _, _, tokens = problem(lesson, seed, T=5)
    p = regularization_path(models.PromptAttention(2), tokens, [2.0], tol=1e-9)["p"]
    derivatives = (torch.autograd.functional.jacobian, torch.autograd.functional.hessian)
    g, H = (of(lambda q: kit.mean_loss(q, tokens.keys, tokens.scores), p[0]).numpy() for of in derivatives)
    around = lesson["circle"](np.arctan2(*p[0].numpy()[::-1]) + np.array([-1e-3, 0, 1e-3]), 2.0)
    low, middle, high = (kit.mean_loss(torch.tensor(q), tokens.keys, tokens.scores) for q in around)
    assert curvature(p[0].numpy(), g, H) == pytest.approx((low - 2 * middle + high).item() / 4e-6, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_turn_is_that_of_a_quadratic(seed):
    """On g.p + p.H p / 2: the minimiser on a small sphere by its multiplier, and the flow in closed form."""
    rng = np.random.default_rng(seed)
    A, g, R = rng.normal(size=(4, 4)), rng.normal(size=4), 1e-4
    values, vectors = np.linalg.eigh(A + A.T)
    inner, unit = vectors.T @ g, g / np.linalg.norm(g)
    low, high = 0.5 * np.linalg.norm(g) / R, 2 * np.linalg.norm(g) / R
    for _ in range(100):
        mu = (low + high) / 2
        low, high = (mu, high) if np.linalg.norm(inner / (values + mu)) > R else (low, mu)
    path = -vectors @ (inner / (values + mu))
    flow = vectors @ (inner * np.expm1(-values * R / np.linalg.norm(g)) / values)
    for p, turn in zip((path, flow), first_turn(g, A + A.T), strict=True):
        apart = (p / np.linalg.norm(p) + unit) / np.linalg.norm(p)
        np.testing.assert_allclose(apart, turn, atol=1e-2 * np.linalg.norm(turn))


def test_the_lessons_descent_is_the_librarys(lesson):
    keys, scores, tokens = problem(lesson, 3)
    model = models.PromptAttention(2)
    optimizer = optim.NormalizedGD(model.parameters(), lr=0.04)
    record = {"p": lambda m: m.p}
    path = train.fit(model, tokens, optimizer, 150, record=record, every=1, progress=False)["p"]
    own = kit.descend(keys, scores, (0, 0), 150, 0.04)
    np.testing.assert_allclose(own, path, atol=1e-9)


def test_a_point_of_given_length_is_the_nearest_of_the_run(lesson):
    run = np.array([[0.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 5.0]])
    np.testing.assert_allclose(kit.at_length(run, 2.5), [2.5, 0.0])


def test_the_offset_is_where_the_library_goes(lesson):
    tokens = kit.unit_problems(trials=6, seed=12)
    solution = svm.solve(svm.token_problem(tokens.keys, tokens.optimal))
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


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_below_c_proves_the_choice_and_no_larger_number_does(seed):
    """On any attention, not only that of a softmax: 20,000 draws, and the two tokens that decide."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(3, 4))
    best, c = scores.argmax(axis=1), proving_loss(scores)
    s = rng.dirichlet(np.full(4, 0.3), size=(20_000, 3))
    s = 0.3 * s + 0.7 * np.eye(4)[best] if seed else s
    loss = np.logaddexp(0, -(s * scores).sum(axis=-1)).mean(axis=-1)
    selected = (s.argmax(axis=-1) == best).all(axis=-1)
    assert selected[loss < c].all()
    runner_up = np.sort(scores, axis=1)[:, -2]
    outputs = np.where(np.eye(3, dtype=bool), (scores.max(axis=1) + runner_up) / 2, scores.max(axis=1))
    np.testing.assert_allclose(np.logaddexp(0, -outputs).mean(axis=1).min(), c)
