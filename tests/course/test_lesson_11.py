"""What lesson 11 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate.lesson_11 import EPS, public_descent, start
from mini_attn import data, flow, losses, models, optim, svm, train
from mini_attn.gradients import closed_form

length_at_rest, newcomer, verdict, cost_with_memory, rank_bound = (
    spec.reference for spec in exercises.exercises("11")
)


def arrays(tokens):
    return tuple(part.numpy() for part in (tokens.X, tokens.z, tokens.y, tokens.v))


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e5])
def test_the_lessons_pull_is_the_librarys(size, lesson):
    tokens = data.random_tokens(3, 4, 5, trials=4, seed=1)
    W = size * torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model = models.CrossAttention(5, trials=4, init=W)
    scaled = -closed_form(model, tokens, losses.logistic, 1)()[1]["W"]
    mine = lesson["pull"](W.numpy(), *arrays(tokens))
    np.testing.assert_allclose(lesson["unit"](mine), lesson["unit"](scaled.numpy()), atol=1e-9)


def test_the_lessons_descent_takes_the_librarys_path(lesson):
    tokens = data.random_tokens(6, 8, 10, trials=3, seed=2)
    KQ = start(10, 10, 3, seed=4)
    model = models.FactoredAttention(10, 10, trials=3)
    with torch.no_grad():
        model.K.copy_(KQ[0])
        model.Q.copy_(KQ[1])
    groups = [{"params": [model.K]}, {"params": [model.Q]}]
    train.fit(model, tokens, optim.NormalizedGD(groups, lr=0.1, batch_dims=1), 150, progress=False)
    lesson |= dict(zip("Xzyv", arrays(tokens), strict=True))
    path = lesson["descend"](*KQ.numpy(), steps=150, every=50)
    np.testing.assert_allclose(path[-1], model.W.detach(), rtol=1e-5, atol=1e-6)


def test_the_lessons_forces_are_the_librarys(lesson):
    tokens = data.random_tokens(4, 5, 6, trials=3, seed=5)
    run = flow.follow(models.FactoredAttention(6, 6, trials=3, scale=0.1), tokens, [10.0, 40.0])
    lesson |= dict(zip("Xzyv", arrays(tokens), strict=True))
    np.testing.assert_allclose(
        lesson["forces"](run.W.numpy()),
        flow.forces(
            run.W,
            data.TokenData(*(torch.stack([part] * 2) for part in (tokens.X, tokens.z, tokens.y, tokens.v))),
        ),
        rtol=1e-6,
        atol=1e-9,
    )


def test_the_public_steps_with_a_ridge_are_the_librarys():
    tokens = data.random_tokens(6, 8, 10, trials=3, seed=3)
    KQ = start(10, 10, 3, seed=1)
    by_hand = public_descent(tokens, KQ, "exact", (400,))[0]
    model = models.FactoredAttention(10, 10, trials=3)
    with torch.no_grad():
        model.K.copy_(KQ[0])
        model.Q.copy_(KQ[1])
    groups = [{"params": [model.K]}, {"params": [model.Q]}]
    optimizer = optim.NormalizedGD(groups, lr=0.1, batch_dims=1)
    train.fit(model, tokens, optimizer, 400, progress=False, ridge=EPS)
    lengths = [torch.linalg.matrix_norm(W, "nuc") for W in (by_hand, model.W.detach())]
    torch.testing.assert_close(
        *lengths, rtol=5e-3, atol=0
    )  # both at rest; the eps in the norm matters little


def test_the_rank_bound_is_the_librarys_certificate():
    tokens = data.random_tokens(5, 5, 8, trials=20, seed=0)
    problem = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    solution = svm.solve(problem, norm="nuc")
    certified = svm.certified_rank(problem, solution)
    values = torch.linalg.svdvals(problem.adjoint(solution.dual)).clamp(max=1).numpy()
    gaps = solution.gap.clamp_min(EPS).numpy()
    mine = [rank_bound(s, gap, np.sqrt(gap)) for s, gap in zip(values, gaps, strict=True)]
    assert mine == certified.tolist()


def test_a_memory_costs_what_a_pair_with_it_costs():
    rng = np.random.default_rng(0)
    Q = rng.normal(size=(4, 4))
    K = np.linalg.cholesky(Q.T @ Q + 2.25 * np.eye(4)).T  # K'K - Q'Q = 1.5^2 I
    K = np.linalg.qr(rng.normal(size=(4, 4)))[0] @ K
    cost = ((K**2).sum() + (Q**2).sum()) / 2
    assert cost_with_memory(K @ Q.T, 1.5) == pytest.approx(cost)
    assert cost_with_memory(K @ Q.T, 0.0) < 0.95 * cost


def test_verdicts_of_runs():
    tokens = data.random_tokens(6, 8, 10, trials=6, seed=3)
    for m, words in ((10, {"arrived", "slow"}), (1, {"stuck"})):
        run = flow.follow(models.FactoredAttention(10, m, trials=6, scale=0.01), tokens, [60.0])
        S = flow.forces(run.W[0], tokens)
        found = {verdict(*(x.numpy() for x in one), 0.05) for one in zip(run.K[0], run.Q[0], S, strict=True)}
        assert found <= words
