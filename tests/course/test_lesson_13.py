"""What lesson 13 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from course import exercises
from course.replicate import lesson_13
from mini_attn import data, heads, losses, mixtures, models, newton, svm

ceiling, both_parts, farther, comes_back, left_over = (spec.reference for spec in exercises.exercises("13"))


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


@pytest.mark.parametrize("seed", range(6))
def test_two_tokens_mix_where_the_best_mixture_keeps_both(seed, lesson):
    X, V, drawn, head = one(seed, T=2)
    kept = (mixtures.best_mixture(head, drawn)[0] > 0).sum().item()
    assert lesson["mixes"](X[:1], X[1:], V, -1.0)[0] == (kept == 2)


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


@pytest.mark.parametrize("eta", [0.1, 0.02])
def test_the_clocks_are_those_of_a_valley_that_is_stepped_through(eta):
    """D e^(-b/N) along, lam a^2 / 2 or |a| across: normalised steps, 20,000 and 60,000 of them."""
    N, D, lam = 2.0, 3.0, 0.5
    for smooth in (True, False):
        a, b, at = 0.3, 2.0, {}
        for j in range(1, 60_001):
            across = lam * a if smooth else np.sign(a)
            downhill = D / N * np.exp(-b / N)
            size = np.hypot(across, downhill)
            a, b = a - eta * across / size, b + eta * downhill / size
            at[j] = b
        if smooth:
            assert b / N == pytest.approx(np.log(2 * D * 60_000 / (lam * N**2)), abs=0.05)
        grown = farther(eta, 20_000, eta, 60_000, N)[0 if smooth else 1]
        assert at[60_000] - at[20_000] == pytest.approx(grown, abs=0.1)
        if not smooth:  # |G| = 1
            assert b == pytest.approx(N * np.log(eta * D * 60_000 / N**2), abs=0.3)


def test_what_dropped_tokens_keep_is_what_the_path_far_out_leaves_them():
    """On the path to R = 4096 attention left on the support tokens is in proportion to lambda / cost."""
    drawn = data.random_tokens(2, 3, 5, seed=3)
    drawn = data.TokenData(drawn.X, drawn.z, -torch.ones(2).double(), drawn.v)
    head = heads.MLPHead(5, 5, activation="gelu", scale=4.0, seed=3)
    s = mixtures.best_mixture(head, drawn)
    assert ((s > 0).sum(-1) == 2).any()
    solution = svm.solve(svm.mixture_problem(drawn.X, drawn.z, s > 0))
    first = (s > 0).to(torch.int8).argmax(-1, keepdim=True)
    others = torch.ones_like(s, dtype=torch.bool).scatter(-1, first, False)
    lam = torch.zeros_like(s)
    lam[others] = solution.dual.flatten()
    W = mixtures.mixture_path(head, drawn, s, [16, 256, 4096])["W"][-1]
    log_s = torch.einsum("ntd,de,ne->nt", drawn.X, W, drawn.z).log_softmax(-1)
    on = (lam > 1e-6) & (s == 0)
    assert on.sum() > 1
    found = (log_s[on] - log_s[on].max()).exp()
    predicted = left_over(lam[on].numpy(), mixtures.costs(head, drawn, s)[on].numpy())
    np.testing.assert_allclose(found / found.sum(), predicted, rtol=0.02)


def test_the_remainder_of_one_sequence_in_the_plane_lies_along_the_difference_of_the_dropped_tokens():
    """One token kept, two support tokens: r = log(l1 c2 / (l2 c1)) (x1 - x2) / |x1 - x2|^2, far out."""
    rng, tried = np.random.default_rng(5), 0
    z = torch.tensor([[1.0, 0.0]]).double()
    while tried < 5:
        X, V = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)) / 2
        head = heads.MLPHead(2, 3, activation="gelu", scale=4.0, init=torch.tensor(V))
        f, slope, _ = head.linearised(torch.tensor(X))
        best = int(f.argmax())
        rows = X[best] - np.delete(X, best, axis=0)
        p_dir = np.linalg.solve(rows, [1.0, 1.0])
        lam, cost = np.linalg.solve(rows.T, p_dir), rows @ slope[best].numpy()
        if min(lam) < 0.05 or min(cost) < 0.05:
            continue
        tried += 1
        parts, across = left_over(lam, cost), rows[1] - rows[0]  # x_1 - x_2
        r = np.log(parts[0] / parts[1]) * across / (across @ across)
        drawn = data.TokenData(torch.tensor(X)[None], z, torch.ones(1).double(), torch.zeros(2).double())
        s = torch.eye(3).double()[None, best]
        p = mixtures.mixture_path(head, drawn, s, [16, 256, 4096, 65_536])["W"][-1][:, 0].numpy()
        np.testing.assert_allclose(p - (p @ p_dir) / (p_dir @ p_dir) * p_dir, r, atol=1e-3)
        assert np.linalg.norm(r) > 0.01


@pytest.mark.parametrize(
    ("lead", "pull"), [(0.7, 0.05), (1.0, 0.2), (1.1, 0.3), (0.0, 0.01), (1.2, 0.1), (3.0, 1.9)]
)
def test_a_token_comes_back_when_the_equation_says_so(lead, pull):
    """1 / pull reaches 0 there, or grows for ever."""
    when = comes_back(lead, pull, 100.0)

    def inverse(u, w):
        return -(1 - lead) * w - 1

    end = 20.0 if np.isinf(when) else np.log(when / 100)
    w = solve_ivp(inverse, (0.0, end), [1 / pull], rtol=1e-10, atol=1e-12).y[0]
    assert (w[-1] > w[0]) if np.isinf(when) else abs(w[-1]) < 1e-6


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


@pytest.mark.parametrize("seed", range(4))
def test_a_lead_without_its_own_constraint(seed):
    """The SVM's if that is above 1; if it is 1 in the SVM, at most that."""
    drawn, _, flow = run_of(seed)
    kept = np.zeros((3, 4), dtype=bool)
    kept[:, 0] = kept[1, 1] = True
    W = svm.solve(svm.mixture_problem(drawn.X, drawn.z, torch.tensor(kept)[None])).value[0].numpy()
    h = (flow.rows @ W.ravel()).reshape(3, 4)
    for i, t in zip(*np.nonzero(~kept), strict=True):
        lead, kappa = flow.free(kept, i, t)
        assert kappa > 0
        assert (
            lead == pytest.approx(h[i, 0] - h[i, t], abs=1e-5) if h[i, 0] - h[i, t] > 1.001 else lead < 1.001
        )


def test_a_step_at_the_edge_is_a_piece_of_flow():
    """From 3,000 to 12,000 normalised steps attention follows the flow for the time 2 j / H_max."""
    drawn, head, flow = run_of(1)
    W = lesson_13.descend(drawn, head, 0.05, [3000, 12_000])[:, 0]
    early, late = np.einsum("ntm,jm->jnt", flow.rows, W.reshape(2, -1))
    times = 2 * np.array([3000.0, 12_000.0]) / flow.steepest(early)
    there = flow(early, times)[-1]
    gap = (there - there.max(-1, keepdims=True)) - (late - late.max(-1, keepdims=True))
    assert np.abs(gap).max() < 0.15
