"""What lesson 04 builds from scratch agrees with `mini_attn` and torch."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from course import exercises
from course.replicate.lesson_04 import solve
from mini_attn import losses, svm

speed, best_blank, remembered, enclosed = (spec.reference for spec in exercises.exercises("04"))


def run(lesson, U, V, Y, etas, times, eps=0.0):
    """W at the given numbers of steps of the lesson's descent."""
    return np.array([U @ V.mT for U, V in lesson["descend"](U, V, Y, etas, times, eps)])


def rest(lesson, U, V, Y, eps, steps):
    """W after so many steps of size 4 and then of the lesson's larger one."""
    etas = np.repeat([4, min(48, 0.12 / eps)], steps)
    return run(lesson, U, V, Y, etas, [len(etas)], eps)[0]


def c_of(lesson, W, Y):
    """c of section 4.8 at each table W."""
    M, _ = lesson["far"](W, Y)
    return np.linalg.norm(M, 2, (-2, -1)) * np.linalg.norm(W, "nuc", (-2, -1)) / (M * W).sum((-2, -1))


def judge(lesson, U, V, Y):
    """c, the leading pair of the pull, (..., d) each, and the nuclear margin."""
    W = U @ V.mT
    M, least = lesson["far"](W, Y)
    left, _, right = np.linalg.svd(M)
    return c_of(lesson, W, Y), left[..., 0], right[..., 0, :], least / np.linalg.norm(W, "nuc", axis=(-2, -1))


def at_rest(W, Y):
    """u_min, the mean slope and u_mean, for each survey."""
    u, slopes = Y * W, np.where(Y == 0, 0, np.exp(-np.logaddexp(0, Y * W)))
    total, least = slopes.sum((-2, -1)), np.where(Y == 0, np.inf, u).min((-2, -1))
    return least, total / np.abs(Y).sum((-2, -1)), (slopes * u).sum((-2, -1)) / total


def cosine(a, b):
    return (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_the_lessons_descent_takes_torchs_path(m, eps, lesson):
    """On the signed entries x_i^T U V^T z_i, with torch's weight decay for the ridge; few steps."""
    truth, known = lesson["survey"](m, d=4)
    person, film = np.nonzero(known)
    start = 0.1 * np.random.default_rng(m).normal(size=(2, 4, m))
    U, V = (torch.nn.Parameter(torch.tensor(part)) for part in start)
    optimizer = torch.optim.SGD([U, V], lr=0.2, weight_decay=eps)
    for _ in range(40):
        optimizer.zero_grad()
        losses.logistic(torch.tensor(truth[known]) * (U[person] * V[film]).sum(dim=1)).mean().backward()
        optimizer.step()
    path = lesson["descend"](*start, truth * known, np.full(40, 0.2), [1, 40], eps)
    np.testing.assert_allclose(path[-1][0], U.detach(), rtol=1e-6)
    np.testing.assert_allclose(path[-1][1], V.detach(), rtol=1e-6)


def test_the_pull_is_the_negative_gradient(lesson):
    """For two surveys at once: the loss by the signed feature matrices A_i = y_i x_i z_i^T."""
    _, Y = lesson["tables"](range(2), 4)
    W = np.random.default_rng(0).normal(size=(2, 4, 4))
    for one, signs, found in zip(W, Y, lesson["pull"](W, Y), strict=True):
        person, film = np.nonzero(signs)
        A = signs[person, film, None, None] * np.eye(4)[person][:, :, None] * np.eye(4)[film][:, None, :]
        given = torch.tensor(one, requires_grad=True)
        losses.logistic((torch.tensor(A) * given).sum(dim=(1, 2))).mean().backward()
        np.testing.assert_allclose(found, -given.grad)


@pytest.mark.parametrize("seed", range(3))
def test_the_weights_certify_the_margin(seed, lesson):
    """Of `solve`, in the lesson's way: B(lambda) of S = lam * Y meets mu(W_nuc); S counts the rank."""
    truth, known = lesson["survey"](seed, 8)
    Y = truth * known
    W, largest, lam, (problem, solution) = solve(Y)
    sizes = np.linalg.svd(lam * Y, compute_uv=False)
    assert sizes[0] / lam[known].sum() == pytest.approx(largest, rel=1e-6)
    assert lesson["nearness"](W, Y, largest) == pytest.approx(1, rel=1e-6)
    rank = svm.certified_rank(problem, solution)
    assert rank == (sizes > 0.9999 * sizes[0]).sum() >= np.linalg.matrix_rank(W, tol=1e-6)


def test_a_kkt_point_need_not_solve():
    """Section 4.6: A = diag(1, 2), with the gap 1/c to the largest margin, that of diag(0, 1)."""
    A, U, V = np.diag([1.0, 2.0]), np.eye(2)[:, :1], np.eye(2)[:, :1]
    np.testing.assert_array_equal(A @ V, U)  # S = A
    np.testing.assert_array_equal(A.T @ U, V)
    margins = [(A * W).sum() / np.linalg.norm(W, "nuc") for W in (U @ V.T, np.diag([0.0, 1.0]))]
    assert margins == [1, np.linalg.norm(A, 2)]


def test_another_choice_of_weights_may_show_that_a_kkt_point_solves():
    """Question 1: with diag(1, -2) besides, the same point has c = 2 and c = 1, and the largest margin."""
    A, U = np.array([np.diag([1.0, 2.0]), np.diag([1.0, -2.0])]), np.eye(2)[:, :1]
    assert [(one * (U @ U.T)).sum() for one in A] == [1, 1]
    for lam, c in (((1, 0), 2), ((0.5, 0.5), 1)):
        S = np.tensordot(lam, A, 1)
        np.testing.assert_array_equal(S @ U, U)
        assert np.linalg.norm(S, 2) == c
    others = np.random.default_rng(0).normal(size=(20_000, 2, 2))
    least = np.einsum("iab,kab->ki", A, others).min(1)
    assert (least / np.linalg.norm(others, "nuc", (1, 2))).max() <= 1


def test_far_out_the_pull_is_the_same_up_to_its_length(lesson):
    truth, known = lesson["survey"](3, d=4)
    Y = truth * known
    W = np.random.default_rng(0).normal(size=(2, 4, 4))
    for one in W:
        scaled, least = lesson["far"](one, Y)
        plain = lesson["pull"](one, Y)
        np.testing.assert_allclose(scaled / np.abs(scaled).max(), plain / np.abs(plain).max(), atol=1e-12)
        assert least == pytest.approx((Y * one)[known].min())
    assert np.isfinite(lesson["far"](1e6 * W, Y)[0]).all()
    assert np.abs(lesson["far"](1e6 * W, Y)[0]).max() == pytest.approx(1)


def test_follow_follows_the_flow(lesson):
    """Against scipy's solver of U' = M V, V' = M^T U, M the scaled pull, until all u_i >= 3 log 10."""
    truth, known = lesson["survey"](3, d=4)
    Y = truth * known
    starts = [0.1, 1e-3]
    U, V = lesson["follow"](*lesson["begin"](starts, Y), Y, [3])
    (found,) = U @ V.mT

    def flow(_, pair):
        U, V = pair.reshape(2, 4, 4)
        M, _ = lesson["far"](U @ V.T, Y)
        return np.concatenate([(M @ V).ravel(), (M.T @ U).ravel()])

    def reached(_, pair):
        U, V = pair.reshape(2, 4, 4)
        return (Y * (U @ V.T))[known].min() - 3 * np.log(10)

    reached.terminal = True
    for start, W in zip(starts, found, strict=True):
        begin = np.concatenate([start * np.eye(4).ravel(), np.zeros(16)])
        end = solve_ivp(flow, (0, 1e4), begin, events=reached, rtol=1e-8, atol=1e-12).y_events[0][0]
        U, V = end.reshape(2, 4, 4)
        assert 0 <= (Y * W)[known].min() - 3 * np.log(10) < 0.5
        assert cosine(W, U @ V.T) > 0.999
        assert np.linalg.norm(W) == pytest.approx(np.linalg.norm(U @ V.T), rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_blank_is_the_best(seed):
    a, b, e = np.random.default_rng(seed).normal(size=3)

    def norm(c):
        return np.linalg.norm([[a, b], [e, c]], "nuc")

    best = best_blank(a, b, e)
    assert all(norm(best) <= norm(c) + 1e-12 for c in best + np.linspace(-3, 3, 601))


@pytest.mark.parametrize(("seed", "beta"), [(0, 2.0), (1, 0.5), (2, 1e-2)])
def test_a_run_remembers_its_start(seed, beta):
    """Descent in tiny steps under a pull that turns: cost and speeds from W, the pull and beta alone."""
    rng = np.random.default_rng(seed)
    U, V, one, other = beta * np.eye(4), np.zeros((4, 4)), *rng.normal(size=(2, 4, 4))
    for t in range(4000):
        M = one + np.sin(t / 500) * other
        before, (U, V) = (U, V), (U + 2e-4 * M @ V, V + 2e-4 * M.T @ U)
        if t in (1000, 3999):
            cost, speeds = remembered(before[0] @ before[1].T, M, beta)
            assert sum((part**2).sum() for part in before) / 2 == pytest.approx(cost, rel=0.01)
            sizes = [np.linalg.svd(a @ b.T)[1] for a, b in (before, (U, V))]
            np.testing.assert_allclose((sizes[1] - sizes[0]) / 2e-4, speeds, atol=0.02 * abs(speeds).max())


@pytest.mark.parametrize(("seed", "d", "decay"), [(1, 10, 1e-3), (3, 10, 1e-3), (7, 10, 3e-3), (2, 14, 1e-3)])
def test_under_a_penalty_a_newcomer_grows_at_a_constant_rate(seed, d, decay, lesson):
    """Other surveys, along the leading direction of S: 2 (c - 1) decay within 5 percent.

    The rival, 2 c decay, is off by more than twice.
    """
    truth, known = lesson["survey"](seed, d)
    Y = truth * known
    early, late = run(lesson, *lesson["begin"]([1e-8], Y), Y, np.full(1510, 4.0), [1500, 1510], decay)[:, 0]
    left, _, right = np.linalg.svd(lesson["far"](early, Y)[0])
    one, then = (left[:, 0] @ W @ right[0] for W in (early, late))
    c = c_of(lesson, early, Y)
    assert 0 < one < 0.01 * np.linalg.norm(early, 2)
    assert np.log(then / one) / 40 == pytest.approx(2 * (c - 1) * decay, rel=0.05)


@pytest.mark.parametrize("d", [10, 14])
def test_a_smaller_start_stalls_longer(d, lesson):
    """Other surveys: the medians' order at 100 digits, and that all margins climb."""
    Y = lesson["tables"](range(1230, 1240), d)[1]
    pairs = lesson["follow"](*lesson["begin"]([0.1, 1e-3, 1e-5], Y), Y, [10, 100])[:2]
    c, _, _, margins = judge(lesson, *pairs, Y)
    reached = margins / lesson["solve"](Y)[1]
    assert reached.max() < 1 + 1e-6
    assert (np.diff(reached, axis=0) > 0).all()
    assert (np.diff(np.median(reached[1], axis=1)) < -0.01).all()
    assert (np.diff(np.median(c[1], axis=1)) > 0.1).all()
    assert (c >= 1 - 1e-9).all()


@pytest.mark.parametrize(("seed", "d"), [(2000, 10), (3000, 10), (4000, 6), (5000, 16)])
def test_a_large_start_keeps_the_margin_of_entries_up_to_its_scale(seed, d, lesson):
    """Section 4.6, other surveys: until sigma_1 is beta^2 / 2. A start between is nearest far out."""
    Y, starts = lesson["tables"](range(seed, seed + 10), d)[1], np.array([30, 10, 0.1])
    largest = lesson["solve"](Y)[1]
    pairs = lesson["follow"](*lesson["begin"](starts, Y), Y, [1, 3, 10, 30, 100, 300])
    W = pairs[0] @ pairs[1].mT
    entries, reached = (np.median(lesson["nearness"](w, Y, largest), axis=-1) for w in (Y, W))
    scaled = np.median(np.linalg.norm(W, 2, (-2, -1)), axis=-1) / (starts**2 / 2)
    early = scaled < 0.5
    assert early[:, :2].any(0).all()
    np.testing.assert_allclose(reached[early], entries, atol=0.006)
    assert (reached[(scaled > 4) & (starts > 1)] > entries + 0.03).all()
    assert reached[-1].argmax() == 2


@pytest.mark.parametrize(("seed", "d"), [(2000, 10), (4000, 6), (5000, 16)])
def test_a_smoothed_margin_over_the_cost_climbs_from_every_start(seed, d, lesson):
    """Section 4.6: once L < log(2) / n. The cost exceeds the nuclear norm by at most d beta^2 / 2."""
    Y, starts = lesson["tables"](range(seed, seed + 10), d)[1], [30, 10, 0.1, 1e-3]
    U, V = lesson["follow"](*lesson["begin"](starts, Y), Y, [1, 3, 10, 30, 100, 300])
    W, cost = U @ V.mT, ((U**2).sum((-2, -1)) + (V**2).sum((-2, -1))) / 2
    total = np.where(Y == 0, 0, np.logaddexp(0, -Y * W)).sum((-2, -1))  # n L
    smoothed = -np.log(np.expm1(total)) / cost
    counts = (total < np.log(2))[:-1]
    assert counts[1:].all()
    assert (np.diff(smoothed, axis=0) > 0)[counts].all()
    beyond = cost - np.linalg.norm(W, "nuc", (-2, -1))
    assert (beyond < 1.01 * d * np.square(starts)[:, None] / 2 + 0.01 * cost).all()


def test_a_penalty_is_nearer_at_equal_digits_not_in_equal_steps(lesson):
    """Section 4.7, other surveys: medians at epsilon = 1e-4, 8,500 steps; then the flow at 3 digits."""
    Y = lesson["tables"](range(2000, 2020))[1]
    largest, pair = lesson["solve"](Y)[1], lesson["begin"]([0.1], Y)
    held, free = (
        rest(lesson, *pair, Y, eps, (500, 8000))[0]
        if eps
        else run(lesson, *pair, Y, np.repeat([4, 48], [500, 8000]), [8500])[0, 0]
        for eps in (1e-4, 0)
    )
    flow = (lambda U, V: U @ V.mT)(*lesson["follow"](*pair, Y, [3]))[0, 0]
    held, free, flow = (lesson["nearness"](W, Y, largest) for W in (held, free, flow))
    assert np.median(free) > np.median(held) > np.median(flow)
    assert (free > held).sum() > 10


def by_stretches(lesson, Y):
    """From 30 to 300 digits: each stretch's exponent with its own pair, c at both its ends, its length."""
    digits = [30, 40, 55, 75, 100, 135, 180, 240, 300]
    U, V = lesson["follow"](*lesson["begin"]([0.1, 1e-3, 1e-5], Y), Y, digits)
    W, (c, xi, zeta, _) = U @ V.mT, judge(lesson, U, V, Y)
    longer = np.diff(np.log(np.linalg.norm(W, "nuc", axis=(-2, -1))), axis=0)

    def missing(i, j):
        both = np.einsum("ksa,ksam->ksm", xi[i], U[j]) + np.einsum("ksb,ksbm->ksm", zeta[i], V[j])
        return np.log((both**2).sum(-1))

    grown = np.array([missing(i, i + 1) - missing(i, i) for i in range(len(longer))])
    return grown / longer, c, longer


@pytest.mark.parametrize(
    ("seed", "d"), [(1200, 10), (3000, 10), (4000, 10), (1400, 10), (5000, 14), (6000, 7)]
)
def test_with_the_pair_renewed_the_missing_part_grows_with_the_power_c(seed, d, lesson):
    """Other surveys and sizes: within .1 of the mean of c on 19 of 20."""
    exponents, c, longer = by_stretches(lesson, lesson["tables"](range(seed, seed + 20), d)[1])
    renewed = (exponents * longer).sum(0) / longer.sum(0)
    mean_c = ((c[:-1] + c[1:]) / 2 * longer).sum(0) / longer.sum(0)
    assert (abs(renewed - mean_c) < 0.1).mean() >= 0.95
    assert (abs(np.median(renewed, axis=1) - np.median(mean_c, axis=1)) < 0.1).all()
    assert (np.diff(np.median(c[[0, 4, -1]], axis=2), axis=0) < 0).all()


@pytest.mark.parametrize(("seed", "d", "error"), [(3000, 10, 0.005), (3100, 6, 0.01), (3200, 16, 0.005)])
def test_the_exponent_of_the_race_in_steps_of_one(seed, d, error, lesson):
    """Section 4.5, other surveys and sizes, with log(1 + sigma_k) of the first pull."""
    Y = lesson["tables"](range(seed, seed + 40), d)[1]
    bar = np.log1p(np.linalg.svd(Y / 2 / (Y != 0).sum((1, 2), keepdims=True), compute_uv=False))
    arrived = []
    for start in (1e-3, 1e-4):
        path = run(lesson, *lesson["begin"]([start], Y), Y, np.ones(900), range(3, 901, 3))[:, 0]
        first, second = np.log(np.linalg.svd(path, compute_uv=False)[..., :2]).T
        arrived.append([np.interp(0, one, two - one) for one, two in zip(first, second, strict=True)])
    found = -np.diff(arrived, axis=0)[0] / np.log(10)
    assert abs(found - (2 - 2 * bar[:, 1] / bar[:, 0])).max() < error


@pytest.mark.parametrize("seeds", [range(1200, 1220), range(1240, 1250)])
def test_follow_would_go_the_same_way_in_half_steps(seeds, lesson):
    """On the surveys of section 4.6 and on others: at 3 digits within .01 of mu-hat, then within .002."""
    Y = lesson["tables"](seeds)[1]
    U, V = lesson["begin"]([0.1, 1e-3, 1e-5], Y)
    largest = lesson["solve"](Y)[1]
    found, half = (
        judge(lesson, *lesson["follow"](U, V, Y, [3, 30, 300], most), Y)[-1] / largest
        for most in (0.02, 0.01)
    )
    np.testing.assert_allclose(found[0], half[0], atol=0.01)
    np.testing.assert_allclose(found[1:], half[1:], atol=0.002)


OTHER = [(7000, 10), (7020, 10), (8000, 10), (8020, 10), (9000, 10), (9000, 6)]


@pytest.mark.parametrize(("seed", "d"), [*OTHER, (9000, 16)])
def test_a_penalty_stops_at_a_number_of_digits(seed, d, lesson):
    """Other surveys and sizes: log10(mu-hat / epsilon) digits, never fewer; and what the outputs certify."""
    Y = lesson["tables"](range(seed, seed + 10), d)[1]
    largest = lesson["solve"](Y)[1]
    for eps, slack in ((1e-2, 0.06), (1e-3, 0.02), (1e-4, 0.01)):
        W = rest(lesson, *lesson["begin"]([0.1], Y), Y, eps, (500, 10_000))[0]
        beyond = -np.log10(at_rest(W, Y)[1]) - np.log10(largest / eps)
        assert beyond.min() > -1e-3
        assert beyond.max() < slack
        for one, signs, most in zip(W, Y, largest, strict=True):
            u = (signs * one)[signs != 0]
            lower, upper = enclosed(u, eps)
            assert lower == pytest.approx(u.min() / np.linalg.norm(one, "nuc"), rel=0.01)
            assert lower <= most * 1.001
            assert most <= upper * 1.001
            p = 1 / (1 + np.exp(u))
            gap = p @ u / p.sum() - u.min()
            assert u.min() < 0 or gap <= np.log(2 * len(u))


@pytest.mark.parametrize(("seed", "d"), [*OTHER, (9000, 16)])
def test_all_starts_rest_at_one_table(seed, d, lesson):
    Y = lesson["tables"](range(seed, seed + 10), d)[1]
    W = rest(lesson, *lesson["begin"]([1e-8, 0.1, 10], Y), Y, 1e-3, steps=(2000, 9000))
    away = np.linalg.norm(W - W[1], axis=(-2, -1)) / np.linalg.norm(W[1], axis=(-2, -1))
    assert away.max() < 0.01
    assert c_of(lesson, W, Y).max() < 1.01


@pytest.mark.parametrize("n", [3, 10, 50])
def test_outputs_weighted_by_their_slopes_exceed_the_least_by_at_most_log_2n(n):
    """Question 3, at the worst u that a search finds: all but one output alike."""
    for least in (0.0, 1.0, 10.0):
        u = np.array([[least, *np.full(n - 1, least + more)] for more in np.linspace(0, 20, 401)])
        p = 1 / (1 + np.exp(u))
        gap = (p * u).sum(1) / p.sum(1) - least
        assert 0.2 * np.log(n) < gap.max() < np.log(2 * n)


@pytest.mark.parametrize("seed", range(5))
def test_the_missing_part_grows_with_the_exponent_c(seed):
    """Of balanced factors, the pull held still: after many steps the ratio of the rates is c."""
    rng = np.random.default_rng(seed)
    left, right, turn = (np.linalg.qr(rng.normal(size=(size, size)))[0] for size in (4, 3, 3))
    roots, M = np.sqrt(rng.uniform(0.3, 3, 3)), rng.normal(size=(4, 3))
    U, V = left[:, :3] * roots @ turn.T, right * roots @ turn.T
    xi, _, zeta = np.linalg.svd(M)
    if xi[:, 0] @ U @ V.T @ zeta[0] < 0:
        M = -M
        xi, _, zeta = np.linalg.svd(M)

    def logs(U, V):
        part = np.sum((U.T @ xi[:, 0] + V.T @ zeta[0]) ** 2) / 4
        return np.log([part, np.linalg.norm(U @ V.T, "nuc")])

    for _ in range(3000):
        U, V = U + 2e-3 * M @ V, V + 2e-3 * M.T @ U
    change = logs(U + 1e-6 * M @ V, V + 1e-6 * M.T @ U) - logs(U, V)
    c = np.linalg.norm(M, 2) * np.linalg.norm(U @ V.T, "nuc") / (M * (U @ V.T)).sum()
    assert change[0] / change[1] == pytest.approx(c, rel=1e-2)


@pytest.mark.parametrize(("m", "shape"), [(4, (4, 6)), (5, (7, 5)), (5, (5, 5))])
def test_a_rest_of_full_width_repels_or_solves(m, shape):
    """Section 4.7: balanced factors without a free direction that rest have ||M||_op = epsilon."""
    rng = np.random.default_rng(m)
    left, right, turn = (np.linalg.qr(rng.normal(size=(size, size)))[0] for size in (*shape, m))
    roots = np.sqrt(rng.uniform(0.5, 2, m))
    U, V = left[:, :m] * roots @ turn.T, right[:, :m] * roots @ turn.T
    # the pulls with M V = 0.1 U and M^T U = 0.1 V: one of them, and what is free beside it
    M = (
        0.1 * left[:, :m] @ right[:, :m].T
        + left[:, m:] @ rng.normal(size=(shape[0] - m, shape[1] - m)) @ right[:, m:].T
    )
    np.testing.assert_allclose(M @ V, 0.1 * U, atol=1e-12)
    np.testing.assert_allclose(M.T @ U, 0.1 * V, atol=1e-12)
    assert np.linalg.norm(M, 2) == pytest.approx(0.1)


@pytest.mark.slow
def test_the_larger_start_is_nearer_on_other_surveys(lesson):
    """Section 4.6 on 100 other surveys; and on small ones, where the order is another."""
    nearer = []
    for seed in (1400, 1500, 1600, 1700, 1800):
        Y = lesson["tables"](range(seed, seed + 20))[1]
        pair = lesson["follow"](*lesson["begin"]([0.1, 1e-3, 1e-5], Y), Y, [300])[:2]
        margins = judge(lesson, *pair, Y)[-1][0]
        nearer.append((margins[:-1] > margins[1:]).sum(axis=1))
    assert np.sum(nearer, axis=0).tolist() == [91, 99]
    Y = lesson["tables"](range(21000, 21060), 6)[1]
    pair = lesson["follow"](*lesson["begin"]([0.1, 1e-3], Y), Y, [300])[:2]
    margins = judge(lesson, *pair, Y)[-1][0]
    assert (margins[0] > margins[1]).sum() < 20


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "d"), [(range(7000, 7200), 10), (range(7200, 7300), 16)])
def test_the_largest_margin_fills_the_blanks_a_little_worse(seeds, d, lesson):
    """On other surveys and at another size: W_nuc by half a point and more."""
    truths, Y = lesson["tables"](seeds, d)
    short = run(lesson, *lesson["begin"]([1e-3], Y), Y, np.full(2000, d**2 / 100), [2000])[0, 0]
    short, nuclear = (lesson["filled"](W, truths, Y) for W in (short, lesson["solve"](Y)[0]))
    assert (nuclear - short).mean() < -0.5


@pytest.mark.parametrize("seed", range(3))
def test_the_speed_is_that_of_a_tiny_step(seed):
    rng = np.random.default_rng(seed)
    U, V, M = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.normal(size=(4, 5))
    moved = (U + 1e-7 * M @ V) @ (V + 1e-7 * M.T @ U).T
    np.testing.assert_allclose((moved - U @ V.T) / 1e-7, speed(U, V, M), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("d", [10, 14])
def test_the_second_singular_value_slows_down_as_forecast(d, lesson):
    """Other surveys: by exercise 04.3, and more slowly once the first is 10."""
    slower = []
    for seed in range(300, 310):
        truth, known = lesson["survey"](seed, d)
        Y, start = truth * known, 1e-3 * np.eye(d)
        pairs = lesson["descend"](start, 0 * start, Y, np.ones(399), range(40, 400))
        sizes = np.linalg.svd([U @ V.T for U, V in pairs], compute_uv=False)
        when = np.argmax(sizes[:, 0] > 10)
        rates = []
        for k in (0, when):
            (U, V), (one, then) = pairs[k], sizes[[k, k + 3], 1]
            M = lesson["pull"](U @ V.T, Y)
            rates.append(remembered(U @ V.T, M, 1e-3)[1][1] / one)
            assert np.log(then / one) / 3 == pytest.approx(rates[-1], rel=0.06)
        slower.append(rates[1] < 0.95 * rates[0])
    assert sum(slower) >= 9


def test_the_flow_keeps_a_difference_from_every_start():
    """Section 4.5: U^T U - V^T V, for narrow factors and a pull that turns; in tiny steps, nearly."""
    rng = np.random.default_rng(0)
    (U, V), (one, other) = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 5))
    kept = U.T @ U - V.T @ V
    for t in range(4000):
        M = one + np.sin(t / 500) * other
        U, V = U + 1e-4 * M @ V, V + 1e-4 * M.T @ U
    assert np.linalg.norm(U.T @ U) > 1.2 * np.linalg.norm(kept)
    np.testing.assert_allclose(U.T @ U - V.T @ V, kept, atol=0.02 * np.linalg.norm(kept))


def test_a_new_column_leads_out_of_a_rest(lesson):
    """Section 4.7: where a run of two columns rests with c > 1.3, a third one lowers the penalised loss."""
    _, Y = lesson["tables"](range(1200, 1210))
    eps, rng = 1e-3, np.random.default_rng(4)
    pair = 1e-3 * rng.normal(size=(2, len(Y), 10, 2))
    before = rest(lesson, *pair, Y, eps, (8000, 0))
    left, sizes, right = np.linalg.svd(before)
    roots = np.sqrt(sizes[:, None, :2])
    more = [
        np.concatenate([part, 1e-3 * rng.normal(size=(len(Y), 10, 1))], axis=2)
        for part in (left[:, :, :2] * roots, right[:, :2].mT * roots)
    ]
    after = rest(lesson, *more, Y, eps, (8000, 0))

    def charged(W):
        losses = np.where(Y == 0, 0, np.logaddexp(0, -Y * W)).sum((1, 2)) / np.abs(Y).sum((1, 2))
        return losses + eps * np.linalg.norm(W, "nuc", axis=(1, 2))

    stuck = c_of(lesson, before, Y) > 1.3
    assert stuck.sum() >= 5
    assert (charged(after) < 0.999 * charged(before))[stuck].all()
