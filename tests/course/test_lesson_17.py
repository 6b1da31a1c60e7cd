"""What lesson 17 builds from scratch agrees with `mini_attn`."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from course import exercises
from course.make.notebook import from_source
from course.replicate import lesson_17 as helper
from course.replicate.lesson_17 import (
    RUNNERS,
    at_length,
    drifting,
    integrated,
    problem_and_model,
    pull,
    reached,
    run,
)
from mini_attn import data, geometry, losses, models, optim, rates, svm, train
from mini_attn.gradients import closed_form

LESSON = Path(__file__).parents[2] / "course/source/17_convergence_rates.py"

weights_to_come, plain_reach, clock, fade = (spec.reference for spec in exercises.exercises("17"))


@pytest.fixture(scope="module")
def tight():
    """Tight rows of a prompt, their weights and strengths, and the library's law for it."""
    tokens = data.random_tokens(3, 4, 9, seed=3)
    problem = svm.token_problem(tokens.X, tokens.optimal)
    solution = svm.solve(problem)
    c = rates.strengths(tokens, tokens.optimal)
    carries = solution.dual > 1e-7 * solution.dual.max()
    return (
        problem.a[carries].numpy(),
        (solution.dual[carries] / solution.margin).numpy(),
        c[carries].numpy(),
        rates.remainder(problem, solution, c),
    )


def test_weights_are_the_librarys(tight):
    rows, lam, c, law = tight
    w, unit = np.random.default_rng(0).normal(size=9), lam @ rows / np.linalg.norm(lam @ rows)
    across = w - (w @ unit) * unit
    memory = across - law.span.numpy() @ across
    expected = 50 * unit + law.value.numpy().ravel() + memory
    assert weights_to_come(rows, lam, c, w, 50.0) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_an_error_is_integrated_to_where_it_is_asked_for(tight):
    """For a small error the integral is the exponential (here a slow one), also between its steps."""
    rows, lam, c, _ = tight
    mu = 1 / np.sqrt(lam.sum())
    across = rows - mu**2 * np.outer(np.ones(len(rows)), lam @ rows)
    kappa, directions = np.linalg.eigh(mu * (across.T * lam) @ across)
    u, places = 1e-4 * directions[:, -1], np.array([30.0, 40.25, 61.0])
    found = integrated(lambda *given: 0.01 * fade(*given), (rows, lam, c), 30.0, u, places)
    assert found == pytest.approx(1e-4 * np.exp(-0.01 * kappa[-1] * (places - 30)), rel=1e-4)
    way = drifting(fade, (rows, lam, c), 30.0, u)
    assert [next(way)[0] for _ in range(3)] == [30, 31, 32]


def test_other_pull_fades_along_the_svm_and_is_the_difference():
    run_of = helper.descent("W", 2, 17, 0.5, [400])
    laws, W = [run_of.tight(k) for k in range(2)], run_of.path[0]
    far = W + 1e5 * run_of.solution.value * run_of.solution.margin[:, None, None]
    assert (helper.other_pull(laws, run_of.tokens, far) < 1e-9).all()
    model = models.CrossAttention(10, trials=2, init=W)
    _, grads = closed_form(model, run_of.tokens, losses.logistic)()
    found = helper.other_pull(laws, run_of.tokens, W)
    for (rows, _, c), w, g, share in zip(
        laws, W.flatten(1).numpy(), grads["W"].flatten(1).numpy(), found, strict=True
    ):
        rest = -g - (c * np.exp(-rows @ w)) @ rows
        assert share == pytest.approx(np.linalg.norm(rest) / np.linalg.norm(g), rel=1e-5)


@pytest.mark.slow
def test_late_changes_of_tokens_are_mostly_forecast():
    """The lesson's forecast on four times its runs, among which are these."""
    source = from_source(LESSON, solved=True)
    (cell,) = [
        one.source for one in source.cells if "def forecast(" in one.source and one.cell_type == "code"
    ]
    lesson = {"np": np, "math": math}
    exec(cell.split("many = ")[0], lesson)
    many = helper.settled([*range(2, 14), *range(20, 32)])
    told = [state for begun in many.begun for state in helper.states(*begun)]
    alarm = np.array([lesson["forecast"](state) for state in told]) < math.inf
    assert len(alarm) == 2400
    assert many.changed.sum() == 24
    assert (many.changed & alarm).sum() == 23
    assert (~many.changed & alarm).sum() == 2


def test_pull_is_the_librarys_gradient():
    tokens = data.random_tokens(4, 5, 7, trials=3, seed=4)
    generator = torch.Generator().manual_seed(0)
    for scale in (0.0, 1.0, 40.0):
        W = scale * torch.randn(3, 7, 7, generator=generator, dtype=torch.float64)
        model = models.CrossAttention(7, trials=3, init=W)
        _, grads = closed_form(model, tokens, losses.logistic)()
        direction, log_length = pull(W, tokens)
        assert (geometry.cosine(direction, -grads["W"]) > 1 - 1e-9).all()
        torch.testing.assert_close(log_length.exp(), grads["W"].flatten(1).norm(dim=1), rtol=1e-9, atol=0)


def test_plain_descents_length_is_measured(tight):
    """Descent on the tight rows alone, which is the curve, from its start."""
    rows, lam, c, law = tight
    w = 4 * lam @ rows / np.linalg.norm(lam @ rows) + law.value.numpy().ravel()
    told = [plain_reach(rows, lam, c, 1.0, 10**power) for power in (4, 5)]
    for _ in range(100_000):
        w = w + c * np.exp(-rows @ w) @ rows
    assert w @ (lam @ rows) / np.linalg.norm(lam @ rows) == pytest.approx(told[1], rel=0.01)
    assert told[1] - told[0] == pytest.approx(math.log(10) / float(1 / np.linalg.norm(lam @ rows)))


@pytest.mark.parametrize("mu", [-0.1, 0.03, 0.3, 1.0])
def test_a_clock_counts_short_steps(mu):
    """On the curve itself, ||G|| = e^(-3 - mu (R - 5)), step by step, from three places on it."""
    R, eta = 5.0, 0.01
    for _ in range(10_000):
        R += eta * math.exp(-3 - mu * (R - 5))
    places = np.array([5.0, 0.7 * 5 + 0.3 * R, R])
    assert 10 ** clock(places, -3 - mu * (places - 5), eta) == pytest.approx(10_000, rel=2e-3)


@pytest.mark.parametrize("twice", [1, 2])
@pytest.mark.parametrize("size", [1e-3, 6.0])
def test_off_the_remainder_short_steps_change_u_as_told(tight, twice, size):
    """Normalised steps on the tight rows alone, from a small error and from a large one."""
    rows, lam, c, law = tight
    rows, lam, r = rows * twice, lam / twice**2, law.value.numpy().ravel() / twice
    c = lam * np.exp(rows @ r)
    unit = lam @ rows / np.linalg.norm(lam @ rows)
    nudge = np.linalg.pinv(rows) @ np.random.default_rng(1).normal(size=len(rows))
    u = nudge - (nudge @ unit) * unit
    told = u = size * u / np.ptp(rows @ u)
    begin, R, eta = np.linalg.norm(u), 0.0, 2e-3
    for _ in range(3000):
        pull = (c * np.exp(-rows @ (r + u))) @ rows
        step = eta * pull / np.linalg.norm(pull)
        told = told + (step @ unit) * fade(rows, lam, told)
        u, R = u + step - (step @ unit) * unit, R + step @ unit
    assert np.linalg.norm(u) < 0.95 * begin
    assert np.linalg.norm(told - u) < 1e-3 * begin


@pytest.mark.parametrize("name", ["NGD", "growing", "mirror 3", "sign, decaying", "spectral"])
def test_stored_runs_step_as_fit_does(name):
    tokens, model = problem_and_model("W", 2, seed=1)
    runner = RUNNERS[name]
    (mine,), _ = run(tokens, model, runner, [25])
    other = models.CrossAttention(10, trials=2)
    train.fit(
        other, tokens, runner.make(list(other.parameters())), 25, schedule=runner.schedule, progress=False
    )
    torch.testing.assert_close(mine, other.W.detach())


def test_polyaks_steps_are_the_librarys_while_the_loss_can_tell():
    tokens, model = problem_and_model("W", 2, seed=1)
    selected = tokens.optimal
    (mine,), _ = run(tokens, model, RUNNERS["Polyak"], [6], selected)
    other = models.CrossAttention(10, trials=2)
    least = losses.logistic.value(tokens.scores.amax(-1)).mean(-1)
    optimizer = optim.PolyakGD(other.parameters(), target=least, max_step=20.0, batch_dims=1)
    train.fit(other, tokens, optimizer, 6, progress=False)
    torch.testing.assert_close(mine, other.W.detach(), rtol=1e-6, atol=1e-8)


def test_reached_takes_the_log_of_the_steps_as_linear_in_one_over_the_angle():
    log_steps = np.array([10.0, 20.0, 40.0])
    assert reached(1 / log_steps, log_steps, 1 / 33) == pytest.approx(33)
    assert math.isnan(reached(1 / log_steps, log_steps, 1 / 50))


def test_interpolation_in_logs():
    x = torch.tensor([[1.0, 10.0, 100.0]])
    assert float(at_length(x, 3 * x**-1.5, 20.0)) == pytest.approx(3 * 20**-1.5)
