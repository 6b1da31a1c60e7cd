"""What lesson 01 builds from scratch agrees with `mini_attn` (its solutions equal these references)."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import data, models, optim, svm, train

gradient, margin, best_direction, predict, offset, normalized_step = (
    spec.reference for spec in exercises.exercises("01")
)


@pytest.fixture(params=range(3))
def points(request):
    return data.separable_points(n=10, seed=request.param)


def test_the_best_of_many_angles_is_the_librarys_svm(points):
    X, y = points.X.numpy(), points.y.numpy()
    solution = svm.solve(svm.label_problem(points.X, points.y))
    best = best_direction(X, y, np.radians(np.arange(0, 360, 0.01)))
    np.testing.assert_allclose(best, solution.value / solution.value.norm(), atol=2e-4)
    np.testing.assert_allclose(margin(best, X, y), solution.margin, rtol=1e-3)


@pytest.mark.parametrize("normalized", [False, True])
def test_descent_from_scratch_follows_the_library(points, normalized):
    X, y, w = points.X.numpy(), points.y.numpy(), np.zeros(2)
    model = models.LinearClassifier(d=2)
    optimizer = (optim.NormalizedGD if normalized else torch.optim.SGD)(model.parameters(), lr=0.5)
    train.fit(model, points, optimizer, steps=50, progress=False)
    for _ in range(50):
        w = normalized_step(w, X, y, 0.5) if normalized else w - 0.5 * gradient(w, X, y)
    np.testing.assert_allclose(model.w.detach(), w, rtol=1e-9)


def test_the_offset_predicts_where_descent_is():
    """Two support vectors and a point far away: the prediction is exact soon."""
    S = np.array([[1.0, 0.8], [1.0, -1.5]])
    X, y = np.vstack([S, [[4.0, 0.0]]]), np.ones(3)
    lam = np.linalg.solve(S.T, [1.0, 0.0])  # the SVM is (1, 0), of margin 1
    w = np.zeros(2)
    for _ in range(20_000):
        w = w - gradient(w, X, y)
    np.testing.assert_allclose(w, np.log(20_000) * np.array([1.0, 0.0]) + offset(S, lam, 1.0, 3), atol=2e-3)
    loss, slope = predict(20_000, 1.0, 1.0)
    np.testing.assert_allclose(np.logaddexp(0, -X @ w).mean(), loss, rtol=2e-3)
    assert slope == 1.0
