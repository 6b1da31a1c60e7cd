"""What lesson 15 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate import classifier, measured, rows_15
from course.replicate.lesson_15 import STEPS, choose, descended, kept, redrawn, solution, start
from mini_attn import data, geometry, models, optim, svm, train

distance, falls, optimal, standard_error = (spec.reference for spec in exercises.exercises("15"))


@pytest.mark.parametrize("rho", [1.1, 1.5, 2.0, 3.0])
def test_mirror_steps_by_the_power_are_the_optimisers(lesson, rho):
    tokens = data.random_tokens(3, 4, 5, seed=3)
    model, mine = models.CrossAttention(5), models.CrossAttention(5)
    train.fit(model, tokens, optim.MirrorDescent(model.parameters(), lr=0.1, p=rho), 20, progress=False)
    for _ in range(20):
        loss = torch.nn.functional.softplus(-tokens.y * mine(tokens)).mean()
        (G,) = torch.autograd.grad(loss, mine.parameters())
        step = 0.1 * G.numpy() / np.linalg.norm(G.numpy().ravel(), rho / (rho - 1))
        W = lesson["power"](lesson["power"](mine.W.detach().numpy(), rho - 1) - step, 1 / (rho - 1))
        mine = models.CrossAttention(5, init=torch.from_numpy(W))
    torch.testing.assert_close(mine.W, model.W, rtol=1e-6, atol=1e-12)


def test_far_out_the_bare_gradient_is_0():
    tokens, model = data.random_tokens(6, 8, 10, seed=5), models.CrossAttention(10)
    optimizer = optim.MirrorDescent(model.parameters(), 0.1, 1.1)
    how = {"schedule": train.growing, "progress": False}
    train.fit(model, tokens, optimizer, 100, every=100, **how)
    before = model.W.detach().clone()
    loss = torch.nn.functional.softplus(-tokens.y * model(tokens)).mean()
    (G,) = torch.autograd.grad(loss, model.parameters())
    assert (G == 0).all()
    train.fit(model, tokens, optimizer, 3, every=3, **how)
    assert not torch.equal(model.W, before)  # scaled up first


@pytest.mark.parametrize("rho", [1.4, 2.0, 3.5])
def test_the_distance_is_the_librarys_divergence_from_the_svm(rho):
    tokens = data.random_tokens(3, 4, 6, seed=6)
    problem = svm.token_problem(tokens.X, tokens.optimal)
    solution = svm.solve(problem, norm=rho)
    W = solution.value + torch.randn(6, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    found = distance(W.numpy(), problem.a.numpy(), solution.dual.numpy(), rho)
    assert found == pytest.approx(float(geometry.bregman(W, solution.value, p=rho, batch_dims=0)), abs=1e-5)


@pytest.mark.parametrize("c", [0.0, 0.5])
@pytest.mark.parametrize("rho", [1.3, 2.0, 3.5])
def test_the_power_is_that_of_the_larger_of_two_errors(rho, c):
    j = np.array([1e8, 1e12])
    length = j ** (1 + c)  # of S
    in_W, in_S = length ** (-1 / (rho - 1)), j**c / length  # relative to the lengths
    slope = np.diff(np.log((in_W + in_S) ** 2)) / np.diff(np.log(j))
    assert falls(rho, c) == pytest.approx(slope[0], abs=0.01)


@pytest.mark.parametrize("rho", [1.4, 2.0, 3.5])
def test_optimal_is_the_librarys_local_optimality(rho):
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 40, 3))
    b += a
    keys = torch.tensor(np.stack([np.zeros_like(a), -a, -b], axis=1))[:, None]  # selected, worse, better
    selected = torch.zeros(40, 1, dtype=torch.int64)
    solution = svm.solve(svm.token_problem(keys, selected), norm=rho, throw=False)
    logits = (keys @ solution.value[:, None, :, None])[..., 0]
    scores = torch.tensor([0.5, 0.0, 1.0]).expand(40, 1, 3)
    found = geometry.locally_optimal(scores, logits, selected)
    np.testing.assert_array_equal(optimal(a, b, rho), found)
    assert 5 < found.sum() < 35


def test_the_corrected_error_is_unbiased():
    rng = np.random.default_rng(3)
    r, J = 0.4, 6
    made = r**0.5 * rng.normal(size=(20_000, 1)) + (1 - r) ** 0.5 * rng.normal(size=(20_000, J))
    found = np.mean([standard_error(one, r) ** 2 for one in made])
    assert found == pytest.approx(made.mean(axis=1).var(), rel=0.03)


def test_the_classifier_sees_real_tokens_only_and_its_steps_are_mirror_steps():
    tokens = torch.tensor([[[5, 7, 0, 0], [5, 7, 9, 3]]])
    model = classifier.Classifier(tokens, classes=2, d=4, scale=1.0, seed=0)
    with torch.no_grad():
        model.weights["E"][0, 0] = 1e6  # padding's row must not matter
    f, s = model(tokens)
    assert (s[0, 0, 2:] == 0).all()
    assert f.abs().max() < 100
    y = torch.tensor([[0, 1]])
    parts = dict.fromkeys(classifier.PARTS, (tokens, y))
    before = {name: w.detach().clone() for name, w in model.weights.items()}
    loss = torch.nn.functional.cross_entropy(model(tokens)[0].flatten(0, 1), y.flatten())
    grads = dict(zip(before, torch.autograd.grad(loss, list(model.weights.values())), strict=True))
    classifier.train(model, parts, dict.fromkeys(before, 3.0), 0.1, epochs=1, batch=2, seed=0)
    for name, w in before.items():
        z = w * w.abs() - 0.1 * grads[name]
        torch.testing.assert_close(
            model.weights[name].detach(), z.sign() * z.abs().sqrt(), rtol=1e-4, atol=1e-5
        )


def test_at_2_the_sweep_with_equal_steps_repeats_the_other():
    choices = measured("15.selection").load().transpose("trial", "rho", ...).isel(rho=1)
    equal = measured("15.equal").load().sel(eta=0.1)
    assert ((equal.chosen.values[:, 1] != choices.chosen.values).any(axis=-1)).sum() <= 2
    assert (equal.held.values[:, 1, 1] != choices.held.values[:, 1]).sum() <= 2


def test_the_data_sets_that_are_drawn_again_are_those_of_the_stored_runs():
    choices = measured("15.selection").load().transpose("trial", "rho", ...).chosen.values[:, 1]
    tokens = redrawn("15.selection")
    found = kept(tokens, descended(tokens, 2.0, STEPS, schedule=train.growing)[0]).numpy()
    assert (found != choices).any(axis=-1).sum() <= 2


def test_from_ten_times_as_far_out_in_S_long_steps_hold_what_they_lost_from_near():
    found = measured("15.equal").load().sel(eta=0.1)
    chosen, held = found.chosen.values, found.held.values.astype(bool)
    could = found.better.values > 1.001
    differ = (chosen[:, 0] != chosen[:, 1]).any(axis=-1) & could[:, [0, 1], [0, 1]].all(axis=-1)
    lost = differ & could[:, 1, 0] & ~held[:, 1, 0]  # the choice of 2, given to 1.1
    assert lost.sum() == 25
    drawn = redrawn("15.equal")
    tokens = data.TokenData(*(getattr(drawn, name)[torch.from_numpy(lost)] for name in "Xzyv"))
    model, _ = descended(tokens, 2.0, STEPS, schedule=train.growing)
    choice = kept(tokens, model)
    assert (choice.numpy() != chosen[lost, 1]).any(axis=-1).sum() <= 1
    lead = geometry.margins(model.logits(tokens), choice).amin((-2, -1))
    for far, holds in ((1, 0), (10, 25)):  # in S, the power 0.1 of W
        W_0 = far**10 * 10 * model.W / lead[:, None, None]
        ends = kept(tokens, descended(tokens, 1.1, STEPS, W_0, schedule=train.growing)[0])
        assert abs((ends == choice).all(-1).sum() - holds) <= 1


@pytest.mark.slow
def test_at_1_5_steps_of_a_tenth_are_too_short_for_the_slope():
    tokens = data.random_tokens(6, 8, 10, trials=10, seed=777)
    how = {"eta": 0.1, "record": {"W": lambda model: model.W}, "every": [5_000, 15_000, 50_000]}
    model, history = descended(tokens, 1.5, 50_000, start(10, 10, 778), **how)
    limit = solution(tokens, kept(tokens, model), 1.5)
    first, last = (geometry.bregman(W, limit, 1.5) for W in history["W"][2:])
    assert -1.65 < float(((last / first).log() / np.log(10 / 3)).median()) < -1.45


def test_shorter_steps_and_longer_runs_change_at_most_2_of_200_choices():
    choices = measured("15.selection").load().transpose("trial", "rho", ...)
    for one in (choices.finer, choices.longer):
        assert ((one.values == 0).sum(axis=0) <= 2).all()


@pytest.mark.parametrize("name", ["digits", "reviews"])
def test_the_last_epoch_is_that_of_the_replication_table(name):
    found = rows_15._quoted(measured(f"15.{name}").load(), 2.0, "last")
    np.testing.assert_allclose(choose(name, 2.0)[2], found)
