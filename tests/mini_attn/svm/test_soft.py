"""The soft-margin attention SVM: its certificate, both limits, and another solver."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from mini_attn import data, geometry, svm


def tokens(batch=3, n=2, T=4, d=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(batch, n, T, d, generator=generator, dtype=torch.float64)
    return X, torch.randint(0, T, (batch, n, T), generator=generator)


def rows(X, selected, mask):
    """All comparisons of one problem, (rows, d * d)."""
    n, T, _ = X.shape
    return np.array(
        [
            np.outer(X[i, selected[i, k]] - X[i, t], X[i, k]).ravel()
            for i in range(n)
            for k in range(T)
            for t in range(T)
            if t != selected[i, k] and mask[i, k] and mask[i, t]
        ]
    )


@pytest.mark.parametrize("C", [0.01, 1.0, 50.0])
def test_the_objective_is_that_of_a_general_solver(C):
    X, selected = tokens(seed=1)
    mask = torch.ones_like(selected, dtype=torch.bool)
    mask[1, 0, 3] = mask[2, 1, 1:] = False
    selected[1, 0, selected[1, 0] == 3] = 0
    selected[2, 1] = 0
    solution = svm.solve_soft(X, selected, C, mask, tol=1e-9)
    assert (solution.gap <= 1e-9).all()
    for k in range(3):
        A = rows(X[k].numpy(), selected[k].numpy(), mask[k].numpy())

        def objective(w, A=A):
            slack = np.maximum(0, 1 - A @ w)
            return w @ w / 2 + C / 2 * slack @ slack, w - C * A.T @ slack

        found = minimize(
            objective, np.zeros(25), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 1e-14}
        )
        assert float(solution.objective[k]) == pytest.approx(found.fun, rel=1e-6)
        np.testing.assert_allclose(solution.value[k].numpy().ravel(), found.x, atol=1e-4)
        assert float(solution.slack[k].square().sum()) == pytest.approx(
            (np.maximum(0, 1 - A @ found.x) ** 2).sum(), rel=1e-3
        )


def test_a_high_price_gives_the_hard_margin_and_a_low_one_the_sum_of_all_comparisons():
    drawn = data.random_tokens(2, 3, 12, trials=4, seed=2)
    asking = data.every_position(drawn.X, torch.ones(4, 2, 3, dtype=torch.float64), drawn.v)
    selected = torch.randint(0, 3, (4, 2, 3), generator=torch.Generator().manual_seed(3))
    hard = svm.solve(svm.sequence_problem(asking, selected.flatten(1)))
    soft = svm.solve_soft(drawn.X, selected, 1e7, tol=1e-9)
    assert (geometry.cosine(soft.value, hard.value) > 1 - 1e-6).all()
    problem = svm.sequence_problem(asking, selected.flatten(1))
    total = problem.adjoint(torch.ones_like(problem.r))
    low = svm.solve_soft(drawn.X, selected, 1e-7, tol=1e-9)
    assert (geometry.cosine(low.value, total) > 1 - 1e-9).all()
    assert (geometry.cosine(low.value, hard.value) < 0.99).all()


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-9, 1.0, 10.0, 1e9])
def test_any_price_of_any_tokens_is_solved(scale):
    generator = torch.Generator().manual_seed(0)
    X, selected = torch.randn(6, 8, 10, generator=generator, dtype=torch.float64), torch.zeros(6, 8).long()
    for price in (1e-6, 1.0, 1e2, 1e3, 1e6):  # from 0, Newton's method ends at gaps of 1 for the last three
        found = svm.solve_soft(scale * X, selected, price / scale**4)
        assert found.gap <= 1e-4
        assert 0 < found.objective * scale**4 < 18.523  # half the square of the hard margin's W


def test_a_price_below_the_tolerance_still_has_a_direction():
    X, selected = tokens(seed=4)
    value = svm.solve_soft(X, selected, 1e-7).value
    for k in range(3):
        total = rows(X[k].numpy(), selected[k].numpy(), np.ones((2, 4), dtype=bool)).sum(0)
        cosine = value[k].numpy().ravel() @ total / np.linalg.norm(value[k]) / np.linalg.norm(total)
        assert cosine > 1 - 1e-6


def test_what_the_padding_holds_does_not_matter():
    X, selected = tokens(seed=4)
    mask = torch.arange(4).expand_as(selected) < 3
    selected = selected % 3
    one = svm.solve_soft(X, selected, 1.0, mask)
    filled = torch.where(mask[..., None], X, torch.nan)
    other = svm.solve_soft(filled, torch.where(mask, selected, 2), 1.0, mask)
    torch.testing.assert_close(one.value, other.value)
    torch.testing.assert_close(one.value, svm.solve_soft(X[..., :3, :], selected[..., :3], 1.0).value)


def test_leading_dimensions_are_problems_of_their_own():
    X, selected = tokens(batch=6, seed=5)
    whole = svm.solve_soft(X.view(2, 3, *X.shape[1:]), selected.view(2, 3, 2, 4), 1.0, tol=1e-8)
    assert whole.value.shape == (2, 3, 5, 5)
    assert whole.slack.shape == (2, 3, 2, 4, 4)
    alone = svm.solve_soft(X[4], selected[4], 1.0, tol=1e-8)
    torch.testing.assert_close(whole.value[1, 1], alone.value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, s: (X.float(), s, 1.0), "float64"),
        (lambda X, s: (X, s[..., :2], 1.0), "selected must be a dense tensor of shape"),
        (lambda X, s: (X, s, 0.0), "price"),
        (lambda X, s: (X, s, torch.inf), "price"),
        (lambda X, s: (X, s, 1.0, None, torch.nan), "tol = nan"),
        (lambda X, s: (X * torch.nan, s, 1.0), "longest token has length nan"),
        (lambda X, s: (X * 1e80, s, 1.0), "expected finite tokens, and C length"),
        (lambda X, s: (X * 1e-80, s, 1.0), "expected finite tokens, and C length"),
        (lambda X, s: (X, s + 4, 1.0), "numbered 0 to 3"),
        (lambda X, s: (X, s, 1.0, torch.zeros(2, 2, dtype=torch.bool)), "mask must be a bool tensor"),
        (lambda X, s: (X, 0 * s, 1.0, torch.arange(4).expand_as(s) > 0), "mask hides"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        svm.solve_soft(*change(*tokens()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": "abc"}, "X must be a torch tensor"),
        ({"X": torch.zeros(1, 2, 3, dtype=torch.complex128)}, "X must be float32 or float64"),
        ({"X": torch.zeros(1, 2, 0, dtype=torch.float64)}, "d >= 1"),
        ({"selected": [[0, 0]]}, "selected must be a dense tensor"),
        ({"selected": torch.zeros(1, 2, dtype=torch.bool)}, "integers; got torch.bool"),
        ({"selected": torch.zeros(1, 2)}, "integers; got torch.float32"),
        ({"mask": torch.ones(1, 2)}, "mask must be a bool tensor"),
        ({"C": "1"}, "C = '1'"),
        ({"tol": None}, "tol = None"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_name(change, message):
    given = {"X": randn(1, 2, 3), "selected": torch.zeros(1, 2, dtype=torch.int64), "C": 1.0}
    with pytest.raises(ValueError, match=message):
        svm.solve_soft(**{**given, **change})


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_token_numbers_may_have_any_integer_dtype():
    X, selected = tokens()
    assert torch.equal(
        svm.solve_soft(X, selected.to(torch.uint8), 1.0).value, svm.solve_soft(X, selected, 1.0).value
    )


@pytest.mark.slow
def test_a_price_beyond_rounding_ends_soon_and_says_what_it_proves(monkeypatch):
    gradients = []
    plain = svm.soft._conjugate

    def counted(*given):
        gradients.append(1)
        return plain(*given)

    monkeypatch.setattr(svm.soft, "_conjugate", counted)
    X = randn(1, 1, 2, 3)
    selected = torch.zeros(1, 1, 2, dtype=torch.int64)
    hard = svm.solve_soft(X, selected, 1e8)
    soft = svm.solve_soft(X, selected, 1e60)
    assert len(gradients) < 400  # Newton steps
    assert torch.allclose(soft.value, hard.value, rtol=1e-6, atol=1e-9)
    X, selected = tokens(20, 4, 6, 8)
    soft = svm.solve_soft(X, selected, 1e60)
    assert not soft.objective.isnan().any()
    assert not soft.gap.isnan().any()
