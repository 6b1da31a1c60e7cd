"""What lesson 03 builds from scratch agrees with `mini_attn` and torch."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import data, models, optim, svm, train

steepest_steps, certify, safe_steps, mirror_step, spectral_step, muon_spectrum = (
    spec.reference for spec in exercises.exercises("03")
)


@pytest.fixture(params=range(3))
def A(request):
    """Signed points that some direction separates."""
    rng = np.random.default_rng(request.param)
    A = rng.normal(size=(8, 3))
    A[:, 0] = np.abs(A[:, 0]) + 0.3
    return A


def trained(A, make, steps):
    points = data.PointData(torch.tensor(A), torch.ones(len(A), dtype=torch.float64))
    model = models.LinearClassifier(d=A.shape[1])
    train.fit(model, points, make(model.parameters()), steps, loss="exponential", progress=False)
    return model.w.detach().numpy()


@pytest.mark.parametrize(
    ("move", "make"),
    [
        (lambda w, g, eta: w + eta * steepest_steps(g)[1], lambda w: optim.NormalizedGD(w, lr=0.3)),
        (lambda w, g, eta: w + eta * steepest_steps(g)[2], lambda w: optim.SignDescent(w, lr=0.3)),
        (lambda w, g, eta: mirror_step(w, g, eta, 1.5), lambda w: optim.MirrorDescent(w, lr=0.3, p=1.5)),
        (lambda w, g, eta: mirror_step(w, g, eta, 3.0), lambda w: optim.MirrorDescent(w, lr=0.3, p=3.0)),
    ],
    ids=["l_2", "l_inf", "mirror 1.5", "mirror 3"],
)
def test_descent_from_scratch_follows_the_library(A, move, make, lesson):
    path = lesson["descend"](A, move, np.full(15, 0.3))  # few steps: p = 3 amplifies rounding near zero
    np.testing.assert_allclose(trained(A, make, 15), path[-1], rtol=1e-7)


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_adam_from_scratch_is_torchs(A, eps, lesson):
    path = lesson["adam"](A, np.full(60, 0.05), eps=eps)
    by_torch = trained(A, lambda w: torch.optim.Adam(w, lr=0.05, betas=(0.9, 0.95), eps=eps), 60)
    np.testing.assert_allclose(by_torch, path[-1], rtol=1e-9)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, np.inf])
def test_the_bounds_meet_at_the_librarys_solution(A, p):
    ones = torch.ones(len(A), dtype=torch.float64)
    solution = svm.solve(svm.HardMarginProblem(torch.tensor(A), None, ones), norm=p)
    lower, upper = certify(solution.value.numpy(), solution.dual.numpy(), A, p)
    assert lower == pytest.approx(float(solution.margin), rel=1e-6)
    assert upper == pytest.approx(float(solution.margin), rel=1e-5)


@pytest.mark.parametrize("shape", [(3, 5), (4, 4), (6, 2)])
@pytest.mark.parametrize("deficient", [False, True])
def test_the_spectral_step_is_the_librarys(shape, deficient):
    G = np.random.default_rng(0).normal(size=shape)
    G -= deficient * G.mean(axis=0)  # like a cross-entropy's gradient: its rows add up to zero
    W = torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64))
    W.grad = torch.tensor(G)
    optim.SpectralDescent([W], lr=1.0).step()
    np.testing.assert_allclose(spectral_step(G), W.detach(), atol=1e-12)


def test_orthogonalise_is_muons(lesson):
    """One step of torch's Muon from zero, whose polynomial runs in bfloat16 (three digits)."""
    G = np.random.default_rng(0).normal(size=(4, 6))
    W = torch.nn.Parameter(torch.zeros(4, 6, dtype=torch.float64))
    W.grad = torch.tensor(G)
    torch.optim.Muon([W], lr=1.0, weight_decay=0.0).step()
    np.testing.assert_allclose(W.detach(), -lesson["orthogonalise"](G), atol=0.05)


def test_the_polynomial_acts_on_singular_values(lesson):
    G = np.random.default_rng(1).normal(size=(2, 4, 6))
    sigma = np.linalg.svd(G / np.linalg.norm(G, axis=(1, 2), keepdims=True), compute_uv=False)
    lifted = np.linalg.svd(lesson["orthogonalise"](G), compute_uv=False)
    np.testing.assert_allclose(lifted, -np.sort(-lesson["becomes"](sigma)), rtol=1e-9)
    for k in range(2):
        np.testing.assert_allclose(muon_spectrum(3 * sigma[k]), lifted[k] / lifted[k, 0], rtol=1e-9)
    polar = lesson["orthogonalise"](G, (1.5, -0.5, 0.0), 40)
    np.testing.assert_allclose(polar, [-spectral_step(one) for one in G], atol=1e-9)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_safe_steps_are_safe_and_no_length_needs_fewer(A, row, lesson):
    rho, dual = ((1.0, np.inf), (2.0, 2), (np.inf, 1))[row]
    mu_hat, a_max = lesson["largest_margin"](A, rho)[1], np.linalg.norm(A, dual, axis=1).max()
    eta, t = safe_steps(mu_hat, a_max, len(A), 0.3)

    def loss_of_margin(eta, t):
        return (a_max**2 / 2 * eta**2 * t + np.log(len(A))) / (eta * t)

    assert loss_of_margin(eta, t) == pytest.approx(0.3 * mu_hat)
    assert all(loss_of_margin(eta * factor, t) > 0.3 * mu_hat for factor in (0.8, 0.99, 1.01, 1.25))
    path = lesson["descend"](
        A, lambda w, g, eta: w + eta * steepest_steps(g)[row], np.full(int(np.ceil(t)), eta)
    )
    assert certify(path[-1], np.ones(len(A)), A, rho)[0] >= 0.7 * mu_hat


def test_adam_outlives_underflow(lesson):
    """Long after e^-u has become 0 in float64, the steps are still those of sign descent."""
    A = np.array([[2.0, 1.0], [1.0, 3.0]])
    path = lesson["adam"](A, np.full(20_000, 0.015), beta2=0.9)
    assert (A @ path[-1]).min() > 750
    last = np.diff(path[-100:], axis=0)
    assert (last > 0.01).all()
    np.testing.assert_allclose(last[:, 0], last[:, 1], rtol=1e-3)
