"""Lesson 17. How fast: one curve of error against length, many clocks, and steps that are too long.

Soudry et al. 2018, Ji and Telgarsky 2021 (linear models) and Vasudeva et al. 2024 (attention) bound rates.
Measured here on other seeds and sizes than the lesson's: the error at a given length is that of the remainder
and does not depend on the clock; the remainder follows from the SVM; normalised descent's angle falls as 1/j,
not as 1/sqrt(j); growing steps end at 1/j, and steps that come down again beat it; a dual variable has a
memory; Polyak's steps have the length of the SVM's solution, less what a zigzag takes; a run of one clock
tells the time of another; Adam's loss falls at the predicted speed.
"""

import math

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate.lesson_17 import (
    RUNNERS,
    Runner,
    angle,
    at_length,
    limit,
    problem_and_model,
    run,
)
from course.replicate.lesson_17 import size as norm_of
from mini_attn import data, geometry, losses, models, optim, rates, svm
from mini_attn.gradients import closed_form

plain_steps, adam_speed = (exercises.exercises("17")[k].reference for k in (1, 4))
SIZES = [(5, 4, 12), (3, 6, 7)]


def prepared(size, seed):
    """Tokens, the tokens that 1,500 steps of 0.4 select, their SVM, and where that run was."""
    n, T, d = size
    tokens = data.random_tokens(n, T, d, trials=8, seed=seed)
    model = models.CrossAttention(d, trials=8)
    at = [100, 200, 400, 800, 1500, 3000]
    path, _ = run(tokens, model, constant(0.4), at)
    selected = geometry.selected_tokens(model.attention(tokens).detach())
    problem = svm.attention_problem(tokens.X, tokens.z, selected)
    return tokens, selected, problem, svm.solve(problem), at, path


def constant(lr):
    return Runner(lambda weights: optim.NormalizedGD(weights, lr=lr, batch_dims=1), ())


@pytest.fixture(scope="module", params=SIZES, ids=str)
def long_run(request):
    return prepared(request.param, 170)


def size(path):
    return torch.stack([W.flatten(1).norm(dim=1) for W in path], -1)


def test_the_angle_falls_as_one_over_j(long_run):
    _, _, _, solution, at, path = long_run
    angles = torch.stack([angle(W, solution.value) for W in path], -1)
    x = torch.tensor(at, dtype=torch.float64)
    slopes = rates.slope(x, angles)
    assert -1.1 < slopes.median() < -0.85  # not -1/2


def test_the_remainder_follows_from_the_svm(long_run):
    tokens, selected, problem, solution, _, path = long_run
    law = rates.remainder(problem, solution, rates.strengths(tokens, selected))
    w, r = path[-1].flatten(1), law.value.flatten(1)
    unit = solution.value.flatten(1) / solution.objective[:, None]
    across = w - (w * unit).sum(1, keepdim=True) * unit
    inside = (law.span @ across[..., None])[..., 0]
    miss = (inside - r).norm(dim=1) / r.norm(dim=1)
    assert miss.median() < 0.05
    assert (across - inside).norm(dim=1).median() > 0.5  # the memory: r alone would be too small


def test_one_curve_for_two_clocks(long_run):
    tokens, selected, _, solution, _, path = long_run
    other = models.CrossAttention(tokens.X.shape[-1], trials=8)
    growing = Runner(constant(0.05).make, (), schedule=lambda j: j**0.5)
    at = [50, 100, 200, 400, 600]
    theirs, _ = run(tokens, other, growing, at)
    same = (geometry.selected_tokens(other.attention(tokens).detach()) == selected).all(-1)
    assert same.sum() >= 6
    curves = [(size(p), torch.stack([angle(W, solution.value) for W in p], -1)) for p in (path, theirs)]
    one, two = (at_length(*curve, 200.0)[same] for curve in curves)
    assert ((two / one - 1).abs() < 0.35).all()
    at_equal_steps = curves[1][1][same, 3] / curves[0][1][same, 2]  # both after 400 steps
    assert (at_equal_steps < 0.7).all()


def test_growth_ends_at_one_over_j(long_run):
    """Linearly growing steps, which would have -2 if they settled."""
    tokens, _, _, _, _, _ = long_run
    model = models.CrossAttention(tokens.X.shape[-1], trials=8)
    at = [200, 400, 800, 2000]
    path, _ = run(tokens, model, Runner(constant(0.5).make, (), schedule=lambda j: j), at)
    selected = geometry.selected_tokens(model.attention(tokens).detach())
    solution = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected))
    angles = torch.stack([angle(W, solution.value) for W in path], -1)
    slope = rates.slope(torch.tensor(at, dtype=torch.float64), angles).median()
    assert -1.3 < slope < -0.7


def prompt_angles(trials, seed, runner, at, norm="fro"):
    """Angles of a run on prompts of another size to its SVM, (trials, len(at)), and its last p and SVM."""
    tokens = data.random_tokens(5, 4, 12, trials=trials, seed=seed)
    model = models.PromptAttention(12, trials=trials)
    path, _ = run(tokens, model, runner, at)
    selected = geometry.selected_tokens(model.attention(tokens).detach())
    problem, solution = limit(tokens, "p", selected, norm)
    return torch.stack([angle(p, solution.value) for p in path], -1), path[-1], problem, solution


def test_steps_that_come_down_again_beat_one_over_j():
    """Up for 3 tenths of the run, then down: the angle has the exponent of R, towards -2."""
    angles, lengths = [], []
    for steps in (300, 3000):

        def schedule(j, J=steps):
            return 0.1 * j if j <= 0.3 * J else 0.03 * J * ((1 - j / J) / 0.7) ** 4 + 0.2

        found, p, _, _ = prompt_angles(8, 173, Runner(constant(1.0).make, (), schedule=schedule), [steps])
        angles.append(found[:, 0])
        lengths.append(p.norm(dim=1))
    exponent = (angles[1] / angles[0]).log10()
    grown = (lengths[1] / lengths[0]).log10()
    assert -2.0 < exponent.median() < -1.5
    assert abs(exponent + grown).median() < 0.1
    only_up = Runner(constant(0.1).make, (), schedule=lambda j: j)
    linear = prompt_angles(8, 173, only_up, [3000])[0][:, 0]
    assert (angles[1] < 0.5 * linear).sum() >= 6


@pytest.mark.parametrize(("rho", "a"), [(1.3, -0.5), (1.5, -0.6)])
def test_memory_in_the_dual_variable(rho, a):
    """For rho < 2 and falling steps it decides: 1 + a, neither 1 / R nor the zigzag."""
    mirror = Runner(
        lambda w: optim.MirrorDescent(w, lr=4.0, p=rho, batch_dims=1), (), schedule=lambda j: j**a
    )
    at = [200, 356, 632, 1125, 2000]
    angles = prompt_angles(8, 174, mirror, at, rho)[0]
    slope = rates.slope(torch.tensor(at, dtype=torch.float64), angles).median()
    assert abs(slope + 1 + a) < 0.15
    assert slope > -min(1.0, (1 + a) / (rho - 1)) + 0.2


def test_adams_epsilon_plays_no_part_yet():
    def end(eps):
        adam = Runner(lambda w: torch.optim.Adam(w, lr=0.01, eps=eps), (), exact=True)
        return prompt_angles(4, 175, adam, [1500], math.inf)[0]

    torch.testing.assert_close(end(1e-8), end(0.0), rtol=2e-3, atol=0)


def test_spectral_steps_on_keys_and_queries_leave_the_sooner_the_longer_they_are():
    reached = []
    for lr, last in ((0.16, 300), (0.04, 1000)):
        tokens, model = problem_and_model("KQ", 6, 4)
        runner = Runner(lambda w, lr=lr: optim.SpectralDescent(w, lr=lr, batch_dims=1), ())
        path, _ = run(tokens, model, runner, [last // 2, 3 * last // 4, last])
        selected = geometry.selected_tokens(model.attention(tokens).detach())
        own = limit(tokens, "KQ", selected, "spectral")[1].value
        lengths = torch.stack([norm_of(W, "spectral") for W in path], -1)
        assert (lengths[:, 0] < 1150).all()
        assert (lengths[:, -1] > 1150).all()
        reached.append(at_length(lengths, torch.stack([angle(W, own) for W in path], -1), 1150.0).median())
    assert reached[0] > 1.5 * reached[1]


def test_steps_beyond_the_longest_that_settles_have_the_better_constant(long_run):
    tokens, selected, problem, solution, _, path = long_run
    longest = rates.remainder(problem, solution, rates.strengths(tokens, selected)).longest[:, None, None]
    ends = []
    for factor in (0.97, 3.0):
        model = models.CrossAttention(tokens.X.shape[-1], trials=8, init=path[2])
        evaluate = closed_form(model, tokens, losses.logistic, 1)
        for _ in range(1500):
            G = evaluate()[1]["W"]
            model.W.data.sub_(factor * longest * G / G.flatten(1).norm(dim=1)[:, None, None])
        ends.append(angle(model.W.detach(), solution.value))
    ratio = ends[1] / ends[0]
    assert 0.4 < ratio.median() < 0.75
    assert (ratio < 0.75).sum() >= 7  # of 8: a row that is nearly tight may still decide one


def test_polyaks_steps(long_run):
    tokens, selected, _, solution, _, _ = long_run
    model = models.CrossAttention(tokens.X.shape[-1], trials=8)
    at = [60, 300]
    path, _ = run(tokens, model, RUNNERS["Polyak"], at, selected)
    same = (geometry.selected_tokens(model.attention(tokens).detach()) == selected).all(-1)
    logs = [rates.log_excess(tokens.compare(tokens.z @ W.mT), tokens, selected)[same] for W in path]
    grown = (size(path)[:, 1] - size(path)[:, 0])[same] / 240 * solution.margin[same]
    fall = (logs[0] - logs[1]) / 240
    assert same.sum() >= 5
    torch.testing.assert_close(grown, fall, rtol=0.05, atol=0.02)  # both are the part that zigzags leave
    assert (grown < 1.15).all()
    assert grown.median() > 0.35


def test_plain_descents_time_is_read_from_normalised_steps():
    tokens = data.random_tokens(4, 5, 9, trials=6, seed=171)
    slow = models.CrossAttention(9, trials=6)
    (W,), _ = run(tokens, slow, RUNNERS["GD"], [600])
    model = models.CrossAttention(9, trials=6)
    walk = Runner(constant(0.02).make, (), exact=True, kind="clock")
    path, clocks = run(tokens, model, walk, list(range(20, 801, 20)))
    lengths, clocks = size(path), torch.stack(clocks, -1) - math.log(1.0)
    for k in range(6):
        read = np.exp(np.interp(math.log(float(W[k].norm())), lengths[k].log(), clocks[k]))
        assert abs(read / 600 - 1) < 0.06  # twice as many steps give but a fifth of a unit of length more


def test_adams_speed_on_attention():
    tokens = data.random_tokens(4, 5, 9, trials=6, seed=172)
    for beta_2, slower in ((0.95, 0.95), (0.995, 0.5)):
        model = models.CrossAttention(9, trials=6)
        betas = (0.9, beta_2)
        adam = Runner(lambda w, b=betas: torch.optim.Adam(w, lr=0.01, betas=b, eps=0.0), (), exact=True)
        path, _ = run(tokens, model, adam, [2000, 3000])
        selected = geometry.selected_tokens(model.attention(tokens).detach())
        mu = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=math.inf).margin
        first, last = (rates.log_excess(tokens.compare(tokens.z @ W.mT), tokens, selected) for W in path)
        b = (first - last) / 1000
        said = torch.tensor([adam_speed(0.01, float(m), 0.9, beta_2) for m in mu], dtype=b.dtype)
        ratio = b / said
        assert abs(ratio.median() - 1) < 0.1
        assert beta_2 > 0.95 or (abs(ratio - 1) < 0.05).all()  # a long memory takes longer to settle
        assert (b < slower * 0.01 * mu).all()
