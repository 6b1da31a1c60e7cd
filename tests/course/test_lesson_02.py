"""What lesson 02 builds from scratch agrees with `mini_attn.svm` (its solutions equal these references)."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import svm

two_points, proved_angle, after_move, longest_step, wrong_side = (
    spec.reference for spec in exercises.exercises("02")
)


@pytest.fixture(params=range(3))
def signed(request):
    A = np.random.default_rng(request.param).normal(size=(12, 3))
    A[:, 0] = np.abs(A[:, 0]) + 0.3
    return A


def library(A):
    return svm.solve(svm.label_problem(torch.as_tensor(A), torch.ones(len(A), dtype=torch.float64)))


def test_two_points_and_margins_are_the_librarys(signed, lesson):
    a, b = signed[:2]
    np.testing.assert_allclose(two_points(a, b), library(signed[:2]).value, rtol=1e-9)
    bound = lesson["upper_bound"](lesson["best_weights"](signed), signed)
    np.testing.assert_allclose(bound, library(signed).margin, rtol=1e-9)


def test_a_proved_angle_is_at_least_the_true_one(signed):
    rng, w_hat = np.random.default_rng(9), library(signed).value.numpy()
    for _ in range(50):
        w, lam = w_hat + 0.1 * rng.normal(size=3), rng.uniform(size=12) ** 4
        true = np.degrees(np.arccos(w @ w_hat / np.linalg.norm(w) / np.linalg.norm(w_hat)))
        assert proved_angle(w, lam, signed) >= true - 1e-9
    assert proved_angle(w_hat, library(signed).dual.numpy(), signed) < 1e-3


def test_a_point_of_the_hull_is_nearer_than_part_3_proves(signed):
    """The square of the cosine is at least mu(a_bar) / B, and the answer for w = a_bar says so."""
    rng, w_hat, sharper = np.random.default_rng(9), library(signed).value.numpy(), 0
    w_hat = w_hat / np.linalg.norm(w_hat)
    for _ in range(200):
        lam = rng.uniform(size=12) ** 4
        a_bar = lam @ signed / lam.sum()
        ratio = (signed @ a_bar).min() / (a_bar @ a_bar)
        if ratio > 0:
            assert w_hat @ a_bar / np.linalg.norm(a_bar) >= np.sqrt(ratio) - 1e-12
            proved = proved_angle(a_bar, lam, signed)
            assert proved == pytest.approx(np.degrees(np.arccos(np.sqrt(ratio))), abs=1e-4)
            sharper += proved < np.degrees(np.arccos(ratio)) - 1
    assert sharper > 5


@pytest.mark.parametrize("q", [0.2, 0.5, 0.7])
def test_a_move_changes_the_margin_within_the_bounds_and_reaches_both(q):
    """Two support vectors in three dimensions, moves of any direction; a third point stays far away."""
    a, b = np.array([0.8, 2 * (1 - q), 0.0]), np.array([0.8, -2 * q, 0.0])
    least, greatest = after_move(0.8, q, 2.0, 0.25)
    ways = np.random.default_rng(3).normal(size=(400, 3))
    flat = np.linspace(0, 2 * np.pi, 400)
    ways = np.concatenate([ways, np.stack([np.cos(flat), np.sin(flat), 0 * flat], axis=1)])
    moved = a + 0.25 * ways / np.linalg.norm(ways, axis=1, keepdims=True)
    sets = np.stack([moved, np.tile(b, (800, 1)), np.tile([5.0, 0.0, 0.1], (800, 1))], axis=1)
    ones = torch.ones(800, 3, dtype=torch.float64)
    margins = svm.solve(svm.label_problem(torch.tensor(sets), ones)).margin.numpy()
    assert (margins > least - 1e-9).all()
    assert (margins < greatest + 1e-9).all()
    np.testing.assert_allclose([margins.min(), margins.max()], [least, greatest], atol=1e-4)


def test_the_law_of_a_move_holds_for_any_number_of_support_vectors(lesson):
    """With the distance of the moved point from the affine hull of the others for ||a - b||."""
    rng, kept = np.random.default_rng(5), 0
    for seed in range(10):
        A = lesson["draw"](seed)
        q = lesson["best_weights"](A)
        support, a_hat = np.flatnonzero(q), q @ A
        mu = np.linalg.norm(a_hat)
        for i in support:
            others = A[support[support != i]]
            flat, away = (others[1:] - others[0]).T, A[i] - others[0]
            across = away - flat @ np.linalg.lstsq(flat, away, rcond=None)[0]
            apart = np.linalg.norm(across)
            least, _ = after_move(mu, q[i], apart, 0.05) if apart > 0.05 else (np.nan, np.nan)
            worst = mu * np.sqrt(max(0, 1 - (0.05 / apart) ** 2)) * a_hat / mu**2 + 0.05 / apart**2 * across
            ways = [-worst, *rng.normal(size=(10, 6))]
            ends = []
            for way in ways:
                moved = A + 0.05 * np.eye(40)[i][:, None] * way / np.linalg.norm(way)
                new = lesson["best_weights"](moved)
                ends.append(lesson["upper_bound"](new, moved))
                if len(ends) == 1 and np.flatnonzero(new).tolist() != support.tolist():
                    break
            else:
                kept += 1
                assert ends[0] == pytest.approx(least, abs=1e-12)
                assert min(ends) > least - 1e-9
    assert kept > 20


def test_how_far_a_point_can_be_on_the_wrong_side(signed, lesson):
    """Who can is what the flipped problems say, whatever the lengths; how far is reached, not exceeded."""
    again = []
    for i in range(12):
        flipped = np.where(np.arange(12)[:, None] == i, -signed, signed)
        again.append(lesson["upper_bound"](lesson["best_weights"](flipped), flipped) > 1e-9)
    far = wrong_side(signed)
    assert (far > 1e-9).tolist() == again
    stretched = signed * np.random.default_rng(2).uniform(0.2, 5, size=(12, 1))
    assert (wrong_side(stretched) > 1e-9).tolist() == again
    tried = np.random.default_rng(3).normal(size=(200_000, 3))
    scores = tried @ signed.T / np.linalg.norm(tried, axis=1, keepdims=True)
    for i in range(12):
        held = (np.delete(scores, i, axis=1) >= 0).all(axis=1)
        reached = max(0.0, -scores[held, i].min())
        assert reached <= far[i] + 1e-12
        assert reached > 0.95 * far[i] - 0.02


@pytest.mark.parametrize(("n", "d"), [(12, 3), (40, 6), (30, 8)])
def test_the_gradients_weights_settle_below_the_longest_step(lesson, n, d):
    """A small tilt of the settled direction dies out just below eta*, and grows just above."""
    for seed in range(50, 53):
        A = lesson["draw"](seed, n, d)
        best = lesson["best_weights"](A)
        longest = longest_step(A, best)
        for factor, settles in ((0.8, True), (1.2, False)):
            (w,) = lesson["descend"](A, factor * longest, [20_000])
            bound = lesson["upper_bound"](lesson["gradient_weights"](w, A), A)
            assert (bound < 1.001 * lesson["upper_bound"](best, A)) == settles


def test_no_hint_on_the_longest_step_scales_the_weights(signed):
    """With weights that do not add up to one, right answers differ: the reference gives none."""
    weights = np.full(12, 1 / 12)
    assert longest_step(signed, weights) > 0
    with pytest.raises(ValueError, match="add up to one"):
        longest_step(signed, 2 * weights)


def test_the_lessons_sets_keep_what_the_longest_step_assumes(lesson):
    """All points on the edge have weight, and are affinely independent: the best weights are unique."""
    for A in map(lesson["draw"], range(30)):
        q = lesson["best_weights"](A)
        a_hat = q @ A
        assert (np.isclose(A @ a_hat, a_hat @ a_hat, rtol=1e-9) == (q > 0)).all()
        assert np.linalg.matrix_rank(A[q > 0][1:] - A[q > 0][0]) == (q > 0).sum() - 1 > 0


@pytest.mark.parametrize("step", [0.5, 0.25])
def test_the_mean_of_two_steps_is_best_where_no_single_steps_weights_are(lesson, step):
    """On sets that the lesson does not show; what it proves for w_t is then near the true angle."""
    sets = np.stack([lesson["draw"](seed) for seed in range(100, 130)])
    best = np.array([lesson["best_weights"](one) for one in sets])
    w = lesson["descend"](sets, step, [2498, 2499, 2500])
    q = lesson["gradient_weights"](w, sets)
    least = lesson["upper_bound"](best, sets)
    assert np.abs(q[2] - q[0]).max() < 1e-3
    assert (lesson["upper_bound"](q[1:].mean(axis=0), sets) < 1.001 * least).all()
    assert (lesson["upper_bound"](q[2], sets) < 1.001 * least).sum() < 25
    a_hats = np.einsum("knd,kn->kd", sets, best)
    proved = [proved_angle(*one) for one in zip(w[2], q[1:].mean(axis=0), sets, strict=True)]
    assert (proved >= lesson["between"](w[2], a_hats) - 1e-5).all()
    assert np.median(proved) < 0.5


@pytest.mark.parametrize("first", [0, 30, 60, 90, 120, 150])
def test_weights_that_settle_put_the_gradient_ahead_of_the_iterate_and_others_far_behind(lesson, first):
    """Medians over 30 sets, in degrees: with steps of 0.15 nearly all settle, with 0.5 few."""
    draws = np.stack([lesson["draw"](seed) for seed in range(first, first + 30)])
    a_hats = np.stack([lesson["best_weights"](A) @ A for A in draws])
    for step, behind in ((0.15, False), (0.5, True)):
        (w,) = lesson["descend"](draws, step, [2500])
        a_bars = np.einsum("knd,kn->kd", draws, lesson["gradient_weights"](w, draws))
        iterate, gradient = (np.median(lesson["between"](one, a_hats)) for one in (w, a_bars))
        assert 0.05 < iterate < 0.4
        assert gradient > 40 if behind else gradient < iterate / 4


def test_with_a_point_on_the_edge_that_has_no_weight_the_tilt_falls_like_one_over_t(lesson):
    """So the lesson asks that all points on the edge have weight."""
    A = np.array([[1.0, 1, 0], [1, -1, 0], [1, 0, 1]])
    w = lesson["descend"](A, 0.5, [1000, 10_000])
    a_bar = lesson["gradient_weights"](w, A) @ A
    np.testing.assert_allclose(np.linalg.norm(a_bar[:, 1:], axis=1) * [1000, 10_000], 2, rtol=0.01)
