"""What lesson 13 builds from scratch agrees with `mini_attn`."""

from time import perf_counter

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from course import exercises
from course.replicate import lesson_13
from mini_attn import data, heads, losses, mixtures, models, newton, svm
from mini_attn.sweep import sweep

ceiling, both_parts, third, back_alone = (spec.reference for spec in exercises.exercises("13"))


def growth(pi, K):
    return 1 - K @ pi


def first_return(*pulls):
    return lesson_13.first_return(growth, *pulls)


def one(seed, T=3, d=4, y=-1.0, scale=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    V = rng.normal(size=(d, d))
    V *= scale / np.linalg.norm(V, axis=1, keepdims=True)
    tokens = torch.tensor(X)[None]
    drawn = data.TokenData(tokens, tokens[:, 0], torch.tensor([y]).double(), torch.zeros(d).double())
    return X, V, drawn, heads.MLPHead(d, d, activation="gelu", scale=4.0, init=torch.tensor(V))


@pytest.mark.parametrize("seed", range(4))
def test_head_and_gradient_are_the_librarys(seed, lesson):
    X, V, _, head = one(seed)
    f, slope, _ = head.linearised(torch.tensor(X))
    np.testing.assert_allclose(lesson["head"](X, V), f)
    np.testing.assert_allclose(lesson["gradient"](X, V), slope)


@pytest.mark.parametrize("seed", range(6))
def test_the_ceiling_touches_the_best_mixture_and_only_it(seed):
    for y in (-1.0, 1.0):
        X, V, drawn, head = one(seed, T=4, y=y)
        s = mixtures.best_mixture(head, drawn)[0].numpy()
        u = y * head(torch.tensor(s @ X)[None]).item()
        assert ceiling(s, X, V, y) == pytest.approx(u, abs=1e-9)
        other = np.full(4, 0.25)
        assert ceiling(other, X, V, y) >= u - 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_a_mixture_is_best_if_and_only_if_a_slope_is_above_zero_where_f_is_convex(seed, lesson):
    X, V, drawn, head = one(seed, T=4)
    assert (lesson["slopes"](X, V, -1.0) > 1e-9).any() == (
        (mixtures.best_mixture(head, drawn) > 1e-6).sum() > 1
    )


@pytest.mark.parametrize("seed", range(4))
def test_both_parts_solve_the_librarys_problems(seed):
    rng = np.random.default_rng(seed)
    X, z, s = rng.normal(size=(3, 5)), rng.normal(size=5), np.insert(rng.dirichlet([1, 1]), seed % 3, 0.0)
    kept = torch.tensor(s > 0)[None]
    tokens, query = torch.tensor(X)[None], torch.tensor(z)[None]
    log_s = torch.tensor(s)[None].clamp(min=1e-300).log()
    fin, towards = both_parts(X, z, s)
    np.testing.assert_allclose(fin, svm.solve(svm.ratio_problem(tokens, query, kept, log_s)).value, atol=1e-7)
    np.testing.assert_allclose(towards, svm.solve(svm.mixture_problem(tokens, query, kept)).value, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_third_part_is_the_limit_of_the_best_of_each_length(seed):
    """Where F^T (q e^(-F w)) = mu w: w = F^T a with F F^T a + log a = log(q / mu), mu down to e^-1e7."""
    spec = next(spec for spec in exercises.exercises("13") if spec.id == "13.3")
    for F, q in spec.draw(seed):
        G, w_dir, off = F @ F.T, np.linalg.pinv(F).sum(axis=1), []
        for size in (1e3, 1e5, 1e7):
            u = np.log(size * np.linalg.solve(G, np.ones(len(F))))
            for _ in range(50):
                u = u - np.linalg.solve(G * np.exp(u) + np.eye(len(F)), G @ np.exp(u) + u - np.log(q) - size)
            w = np.exp(u) @ F
            off.append(np.abs(w - (w @ w_dir) / (w_dir @ w_dir) * w_dir - third(F, q)).max())
        assert off[0] > off[1] > off[2]
        assert off[2] < 1e-3


@pytest.mark.parametrize(("pull", "k", "s"), [(0.05, 1.0, 0.002), (0.2, 3.0, 1e-5), (1e-4, 0.5, 1e-4)])
def test_one_token_alone_comes_back_when_its_equation_says_so(pull, k, s):
    """d p / d log time = p + k p^2 for p = -pi: p = pull t / (1 - k pull (t - 1)), so attention is s p / (pull t)."""  # noqa: E501
    when = back_alone(-pull, k, s, 100.0)
    now = np.array([-pull]), np.array([[k]]), np.array([s])
    assert first_return(*now, 100.0, 1e12) == pytest.approx(when, rel=1e-3)
    assert np.isinf(first_return(*now, 100.0, 0.99 * when))
    assert np.isinf(first_return(-now[0], *now[1:], 100.0, 1e12))


@pytest.mark.parametrize("seed", range(4))
def test_attention_is_what_the_pulls_say(seed):
    """The first time at which one is above 1/2 %, from attention itself, in steps of Euler of log time."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4, 6)) + 0.5
    K, s, pi = rows @ rows.T / 4, rng.uniform(1e-4, 4e-3, size=4), rng.uniform(0.2, 1, size=4)
    pi[0] *= -1
    u, pull, attention = 0.0, pi.copy(), s.copy()
    while attention.max() < 0.005 and u < 5:
        attention, pull, u = (
            attention * np.exp(-1e-4 * K @ pull),
            pull * np.exp(1e-4 * (1 - K @ pull)),
            u + 1e-4,
        )
    found = first_return(pi, K, s, 1.0, np.exp(5))
    assert found == pytest.approx(np.exp(u), rel=2e-3) if u < 5 else np.isinf(found)


@pytest.mark.parametrize("wrong", [lambda pi, K: 1 + K @ pi, lambda pi, K: 1 + 50 * np.abs(pi)])
def test_a_wrong_growth_ends_soon(wrong):
    now = np.array([2.0, 1.0, -0.1]), np.eye(3) + 0.3, np.full(3, 1e-3)
    started = perf_counter()
    lesson_13.first_return(wrong, *now, 3000, 1e20)
    assert perf_counter() - started < 2


def run_of(seed, d=5):
    drawn = data.random_tokens(3, 4, d, trials=1, seed=seed)
    drawn = data.TokenData(drawn.X, drawn.z, torch.tensor([[1.0, -1.0, -1.0]]).double(), drawn.v)
    head = heads.MLPHead(d, d, 1, "gelu", 4.0, seed=seed)
    return drawn, head, lesson_13.Flow(*(A[0].numpy() for A in (drawn.X, drawn.z, drawn.y, head.V)))


@pytest.mark.parametrize("seed", range(3))
def test_the_flow_has_the_librarys_gradient_and_its_own_jacobian(seed):
    drawn, head, flow = run_of(seed)
    h = np.random.default_rng(seed).normal(size=(3, 4))
    model = models.CrossAttention(5, trials=1, head=head)
    _, slope, _ = newton.logit_derivatives(model, drawn, losses.get("logistic"), torch.tensor(h)[None])
    np.testing.assert_allclose(flow.push(h), -slope[0] / 3, atol=1e-12)
    nudges = 1e-6 * np.eye(12).reshape(12, 3, 4)
    found = [flow.K @ (flow.push(h + e) - flow.push(h - e)).ravel() / 2e-6 for e in nudges]
    np.testing.assert_allclose(flow.jacobian(h), np.array(found).T, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_lessons_costs_and_steps_are_the_librarys(seed, lesson):
    drawn, head, flow = run_of(seed)
    X, y, V = (A[0].numpy() for A in (drawn.X, drawn.y, head.V))
    lesson |= {"X": X, "y": y, "V_138": V, "rows": flow.rows}
    W = np.random.default_rng(seed).normal(size=25)
    s = torch.tensor(flow.rows @ W).softmax(-1)
    np.testing.assert_allclose(lesson["costs"](s.numpy()), mixtures.costs(head, drawn, s[None])[0])
    G = lesson["downhill"](W)
    there = lesson_13.downhill(
        X[None], y[None], V[None], flow.rows.reshape(1, 12, 25), W.reshape(1, 5, 5), "gelu"
    )
    np.testing.assert_allclose(G / np.linalg.norm(G), there.ravel())


@pytest.mark.parametrize("eta", [0.1, 0.05])
def test_the_gradient_at_the_edge_tells_the_curvature(eta, lesson):
    """After 3,000 steps a run is half a step beyond the floor: there the gradient's length is H eta / 2."""
    drawn, head, flow = run_of(1)
    X, y, V = (A[0].numpy() for A in (drawn.X, drawn.y, head.V))
    lesson |= {"X": X, "y": y, "V_138": V, "rows": flow.rows}
    W = np.zeros(25)
    for _ in range(3000):
        G = lesson["downhill"](W)
        W = W + eta * G / np.linalg.norm(G)
    G = lesson["downhill"](W)
    H = flow.steepest(flow.rows @ (W + eta / 2 * G / np.linalg.norm(G)))
    assert 2 * np.linalg.norm(G) / eta == pytest.approx(H, rel=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_the_pulls_tend_to_the_multipliers_of_the_svm_and_k_pi_to_the_lags(seed):
    drawn, _, flow = run_of(seed)
    kept = np.zeros((3, 4), dtype=bool)
    kept[:, 0] = kept[1, 1] = True
    _, K = flow.pulls(kept, np.zeros((3, 4)), 1.0)
    u, pi = 0.0, np.full(len(K), 0.1)
    while u < 300:  # log time, in steps of Euler: the rest point is the same
        pi, u = pi * np.exp(0.02 * (1 - K @ pi)), u + 0.02
    solution = svm.solve(svm.mixture_problem(drawn.X, drawn.z, torch.tensor(kept)[None]))
    W = solution.value[0].numpy()
    h = (flow.rows @ W.ravel()).reshape(3, 4)
    np.testing.assert_allclose(K @ pi, (h[:, :1] - h)[~kept], atol=0.02)
    assert pi @ K @ pi == pytest.approx(float(solution.objective[0]) ** 2, rel=0.02)
    assert pi.sum() == pytest.approx(pi @ K @ pi, rel=0.02)  # no gap: the dual


@pytest.mark.parametrize("seed", range(4))
def test_Lambda_is_the_lag_in_the_svm_without_the_tokens_that_help(seed):
    *_, flow = run_of(seed)
    kept = np.zeros((3, 4), dtype=bool)
    kept[:, 0] = kept[1, 1] = True
    _, K = flow.pulls(kept, np.zeros((3, 4)), 1.0)
    pi = np.where(np.arange(8) == seed, -1.0, 1.0)
    rest = np.full(7, 0.1)
    for _ in range(20_000):  # the law for those that harm, in steps of Euler of log time
        rest = rest * np.exp(0.02 * (1 - K[pi > 0][:, pi > 0] @ rest))
    assert lesson_13.least_Lambda(pi, K) == pytest.approx(K[seed, pi > 0] @ rest, abs=1e-3)
    assert lesson_13.least_Lambda(-np.ones(8), K) == 0.0  # none harms
    assert lesson_13.least_Lambda(np.where(pi > 0, -1.0, 1.0), K) == pytest.approx(
        (K[seed] / K[seed, seed]).min()
    )


def test_a_support_token_that_helps_has_a_lag_below_1_once_its_own_row_is_left_out():
    """The three of the stored paths, drawn again: each is on its way back."""
    stored, where = lesson_13.measured("13.runs"), []
    found, seeds = stored.load().isel(kind=[0, 1]), {}

    def drawn(kind, d, *, trials, seed):
        seeds.setdefault((kind, d), []).append(seed)
        return {"none": torch.zeros(trials)}

    sweep(drawn, stored.grid, stored.trials, seed=stored.seed, batch=stored.batch, workers=1, progress=False)
    arrived = ((found.accepted > 0) & (found.error < 0.1)).values[..., None]
    these = arrived & (found.cost.values < -1e-9) & (found.lag.values < 1.001)
    for k, j, trial, i in np.argwhere(these):
        kind, d = str(found.kind.values[k]), int(found.d.values[j])
        batch, one = divmod(trial, stored.batch)
        tokens, head, loss = lesson_13.problem(kind, d, stored.batch, seeds[kind, d][batch])
        path = lesson_13.read(tokens, head, loss)
        prices, _ = lesson_13.costs_and_lags(tokens, head, path.log_s.exp(), path.kept, loss)
        price = prices[one, i].masked_fill(path.kept[one, i], torch.inf)
        assert price.min() == pytest.approx(float(found.cost.values[k, j, trial, i]), rel=1e-3)
        X, z, kept = tokens.X[one], tokens.z[one], path.kept[one]
        others = torch.ones_like(kept)
        others[i, price.argmin()] = False
        W = svm.solve(svm.mixture_problem(X[None], z[None], kept[None], others[None])).value[0]
        where.append(float((X[i, path.log_s[one, i].argmax()] - X[i, price.argmin()]) @ W @ z[i]))
    assert len(where) == 3
    assert max(where) < 0.999


@pytest.mark.slow
def test_the_ceiling_certifies_all_best_mixtures_where_f_is_convex():
    drawn, head, _ = lesson_13.problem("gelu", 6, 200, 1)
    X, y, V, s = (A.numpy() for A in (drawn.X, drawn.y, head.V, mixtures.best_mixture(head, drawn)))
    sure = (y < 0) & (np.abs(4 * X @ V[:, None].swapaxes(-1, -2)) < np.sqrt(2)).all(axis=(-1, -2))
    u = (y[..., None] * head(torch.tensor(s[..., None, :] @ X)).numpy())[..., 0]
    below = [ceiling(s[k, i], X[k, i], V[k], -1.0) - u[k, i] for k, i in np.argwhere(sure)]
    assert len(below) == 154
    assert max(below) < 1e-6


@pytest.mark.slow
def test_flow_is_stored_as_it_comes():
    stored = lesson_13.measured("13.fresh_flow").load()
    again = lesson_13.measured("13.fresh_flow").part(kind=["gelu"], d=[5])
    np.testing.assert_allclose(again.flow.squeeze(), stored.flow.sel(kind="gelu", d=5).squeeze(), rtol=0.01)


def test_a_step_at_the_edge_is_a_piece_of_flow():
    """From 3,000 to 12,000 normalised steps attention follows the flow for the time 2 j / H_max."""
    drawn, head, flow = run_of(1)
    W = lesson_13.descend(drawn, head, 0.05, [3000, 12_000])[:, 0]
    early, late = np.einsum("ntm,jm->jnt", flow.rows, W.reshape(2, -1))
    span = np.log(2 * np.array([3000.0, 12_000.0]) / flow.steepest(early))
    found = solve_ivp(
        lambda u, g: np.exp(u) * (flow.K @ flow.push(g.reshape(3, 4)).ravel()),
        span,
        early.ravel(),
        method="BDF",
        jac=lambda u, g: np.exp(u) * flow.jacobian(g.reshape(3, 4)),
        rtol=1e-6,
        atol=1e-6,
    )
    there = found.y[:, -1].reshape(3, 4)
    gap = (there - there.max(-1, keepdims=True)) - (late - late.max(-1, keepdims=True))
    assert np.abs(gap).max() < 0.15
