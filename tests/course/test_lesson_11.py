"""What lesson 11 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate.lesson_11 import (
    EPS,
    convex_rest,
    gradient,
    public_descent,
    selection,
    settled,
    start,
    stepped,
)
from mini_attn import data, flow, losses, models, optim, train
from mini_attn.gradients import closed_form
from mini_attn.softmax import softmax

length_at_rest, another_ridge, share_growth, least_decay = (
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
    mine, largest = lesson["pull"](W.numpy(), *arrays(tokens))
    np.testing.assert_allclose(lesson["unit"](mine), lesson["unit"](scaled.numpy()), atol=1e-9)
    if size < 100:  # else all underflows
        h = tokens.compare(tokens.z @ W.mT).requires_grad_()
        loss = torch.nn.functional.softplus(-tokens.y * (softmax(h) * tokens.values).sum(-1)).mean(-1).sum()
        force = torch.autograd.grad(loss, h)[0]
        exact = -torch.einsum("knt,kntd,kne->kde", force, tokens.X, tokens.z)
        np.testing.assert_allclose(
            mine * np.exp(largest) / 3, exact, rtol=1e-9, atol=1e-12 * exact.abs().max()
        )


def test_the_lessons_descent_takes_the_librarys_path(lesson):
    tokens = data.random_tokens(6, 8, 10, trials=3, seed=2)
    KQ = start(10, 10, 3, seed=4)
    model = models.FactoredAttention(10, 10, trials=3)
    with torch.no_grad():
        model.K.copy_(KQ[0])
        model.Q.copy_(KQ[1])
    groups = [{"params": [model.K]}, {"params": [model.Q]}]
    train.fit(model, tokens, optim.NormalizedGD(groups, lr=0.1, batch_dims=1), 150, progress=False)
    path, *_ = lesson["descend"](KQ.numpy(), arrays(tokens), steps=150, every=50)
    np.testing.assert_allclose(lesson["product"](path[-1]), model.W.detach(), rtol=1e-5, atol=1e-6)


def test_the_lessons_steps_with_a_ridge_are_the_public_ones(lesson):
    """Also with two step lengths side by side."""
    tokens = data.random_tokens(6, 8, 10, trials=3, seed=2)
    KQ = start(10, 10, 3, seed=4)
    problem = arrays(tokens)
    np.testing.assert_allclose(
        lesson["downhill"](KQ.numpy(), problem, EPS)[0], -gradient(KQ, tokens), atol=1e-12
    )
    eta = np.array([0.1, 0.03])[:, None, None, None]
    both = lesson["descend"](np.stack([KQ.numpy()] * 2, axis=1), problem, 60, 60, eta, EPS)[0][0]
    for k, lr in enumerate((0.1, 0.03)):
        np.testing.assert_allclose(both[:, k], stepped(KQ, tokens, 60, lr), rtol=1e-7, atol=1e-9)


def test_the_lessons_forces_are_the_librarys(lesson):
    tokens = data.random_tokens(4, 5, 6, trials=3, seed=5)
    run = flow.follow(models.FactoredAttention(6, 6, trials=3, scale=0.1), tokens, [10.0, 40.0])
    M = lesson["pull"](run.W.numpy(), *arrays(tokens))[0]
    np.testing.assert_allclose(
        lesson["in_its_units"](M, run.W.numpy()),
        flow.forces(
            run.W,
            data.TokenData(*(torch.stack([part] * 2) for part in (tokens.X, tokens.z, tokens.y, tokens.v))),
        ),
        rtol=1e-6,
        atol=1e-9,
    )


def test_the_lessons_comparisons_are_those_of_the_svm(lesson):
    tokens = data.random_tokens(4, 5, 6, trials=3, seed=9)
    W = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    _, A, F = selection(tokens.compare(tokens.z @ W.mT), tokens)
    for k, one in enumerate(zip(W.numpy(), *arrays(tokens), strict=True)):
        a, f = lesson["comparisons"](*one)
        np.testing.assert_allclose(a, A[k], atol=1e-12)
        np.testing.assert_allclose(f, F[k], atol=1e-12)


def test_the_lessons_residual_is_that_of_the_gradient(lesson):
    tokens = data.random_tokens(4, 5, 6, trials=3, seed=3)
    KQ = settled(start(6, 6, 3, seed=1), tokens, 100, 0.1)
    lesson["ours"] = arrays(tokens)
    top, bottom = (one.square().sum((0, -1, -2)).sqrt() for one in (gradient(KQ, tokens), 2 * EPS * KQ))
    np.testing.assert_allclose(lesson["residual"](KQ.numpy(), EPS), top / bottom, rtol=1e-6)


@pytest.mark.slow
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


def test_the_two_ways_to_write_the_public_steps_agree():
    tokens = data.random_tokens(4, 5, 6, trials=3, seed=3)
    KQ = start(6, 6, 3, seed=1)
    later = stepped(KQ, tokens, 100, 0.1)
    torch.testing.assert_close(public_descent(tokens, KQ, "exact", (100,))[0], later[0] @ later[1].mT)


def test_the_steps_to_rest_are_the_public_ones():
    tokens = data.random_tokens(4, 5, 6, trials=3, seed=3)
    KQ = start(6, 6, 3, seed=1)
    torch.testing.assert_close(settled(KQ, tokens, 100, 0.1), stepped(KQ, tokens, 100, 0.1))


def test_the_sums_of_the_lessons_descent(lesson):
    """Time is that of the flow, the mean of both factors', and M counts by it."""
    tokens = data.random_tokens(4, 5, 6, trials=3, seed=3)
    KQ = start(6, 6, 3, seed=1).numpy()
    pairs, time, moved = lesson["descend"](KQ, arrays(tokens), 2, 1, eta=0.1, ridge=EPS)
    total = sums = 0.0
    for at in (KQ, pairs[0]):
        g, M = lesson["downhill"](at, arrays(tokens), EPS)
        dt = (0.1 / (np.linalg.norm(g, axis=(-2, -1), keepdims=True) + EPS)).mean(axis=0)
        total, sums = total + dt, sums + M * dt
    np.testing.assert_allclose(time[-1], total, rtol=1e-12)
    np.testing.assert_allclose(moved[-1], sums, rtol=1e-10, atol=1e-12)


def test_the_lessons_convex_problem_is_the_stored_one(lesson):
    """Also against the SVM: the weights found are those of the SVM of their own leads."""
    tokens = data.random_tokens(4, 5, 6, trials=2, seed=3)
    h = tokens.scores * 100  # selects the best
    chosen, A, F = selection(h, tokens)
    assert (chosen == tokens.optimal).all()
    for a, f in zip(A, F, strict=True):
        W = lesson["minimum"](a, f, EPS)
        stored = convex_rest(a[f > 0], f[f > 0], EPS)  # on all of R^d, not on the span of the queries
        np.testing.assert_allclose(W, stored, rtol=0, atol=1e-4 * abs(stored).max())
        leads = np.einsum("mde,de->m", a, W)
        S = np.einsum("m,mde->de", f * np.exp(-leads) / (2 * EPS), a)
        assert np.linalg.norm(S, 2) == pytest.approx(1, abs=1e-3)
        assert (S * W).sum() == pytest.approx(np.linalg.norm(W, "nuc"), rel=1e-3)


def test_the_least_decay_is_where_zero_becomes_stable():
    """By the second derivatives of loss and decay at K = Q = 0."""
    tokens = data.random_tokens(4, 5, 3, trials=3, seed=8)
    for one in zip(*arrays(tokens), strict=True):
        X, z, y, v = map(torch.tensor, one)

        def value(flat, w, X=X, z=z, y=y, v=v):
            K, Q = flat.view(2, 3, 3)
            s = torch.softmax(torch.einsum("ntd,de,ne->nt", X, K @ Q.mT, z), -1)
            loss = torch.nn.functional.softplus(-y * (s * (X @ v)).sum(-1)).mean()
            return loss + w / 2 * flat.square().sum()

        star = least_decay(*one)
        for part in (0.9, 1.1):
            at = torch.zeros(18, dtype=torch.float64)
            H = torch.autograd.functional.hessian(lambda flat, w=part * star: value(flat, w), at)
            assert (torch.linalg.eigvalsh(H)[0] > 0) == (part > 1)
