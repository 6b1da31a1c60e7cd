"""What lesson 10 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import data, models, svm, train

first_logits, price, symmetric_part, worst_cosine, consistent = (
    spec.reference for spec in exercises.exercises("10")
)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_step_is_the_librarys(seed):
    tokens = data.random_tokens(n=3, T=4, d=5, seed=seed)
    model = models.CrossAttention(5)
    train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=1.7), steps=1, progress=False)
    mine = first_logits(*(a.numpy() for a in (tokens.X, tokens.z, tokens.scores)), 1.7)
    np.testing.assert_allclose(mine, model.logits(tokens).detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("n", "T", "d"), [(3, 4, 5), (7, 3, 4)])
def test_the_svm_from_inner_products_is_the_librarys(n, T, d, lesson):
    tokens = data.random_tokens(n=n, T=T, d=d, seed=7)
    solution = svm.solve(svm.attention_problem(tokens.X, tokens.z, tokens.optimal))
    a = lesson["comparisons"](tokens.X.numpy(), tokens.optimal.numpy())
    lam = lesson["weights"](lesson["gram"](a, tokens.z.numpy()))
    W = (lam[:, None] * a).T @ np.repeat(tokens.z.numpy(), T - 1, axis=0)
    np.testing.assert_allclose(W, solution.value, atol=1e-6 * solution.objective)
    assert lam.sum() == pytest.approx(float(solution.objective) ** 2, rel=1e-6)


def test_contradictory_inner_products_are_infeasible(lesson):
    a = np.array([[1.0, 2.0], [-1.0, -2.0]])
    with pytest.raises(ValueError, match="infeasible"):
        lesson["weights"](lesson["gram"](a, np.array([[1.0, 0.5], [1.0, 0.5]])))


@pytest.mark.parametrize("angle", [0.3, 1.1, 2.6])
@pytest.mark.parametrize("agree", [True, False])
def test_the_price_is_the_svms(angle, agree):
    generator = torch.Generator().manual_seed(1)
    pair = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64))[0]
    z = torch.stack([basis[0], np.cos(angle) * basis[0] + np.sin(angle) * basis[1]])
    selected = torch.tensor([0, 0 if agree else 1])
    solution = svm.solve(svm.attention_problem(pair.expand(2, 2, 6), z, selected))
    distance = float((pair[0] - pair[1]).norm())
    assert price(distance, angle, agree) == pytest.approx(float(solution.objective), rel=1e-6)


def test_words_without_a_loop_are_those_that_the_solver_can_select():
    rng = np.random.default_rng(3)
    embedding = torch.tensor(rng.normal(size=(7, 9)))
    answers = []
    for _ in range(40):
        words, selected = rng.integers(0, 7, size=(3, 3)), rng.integers(0, 3, size=3)
        X = embedding[torch.tensor(words)]
        solution = svm.solve(svm.attention_problem(X, X[:, 0], torch.tensor(selected)), throw=False)
        answers.append(consistent(words, selected))
        assert answers[-1] == (str(solution.status) == "optimal")
    assert 5 < sum(answers) < 35


@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_average_over_rotations_about_v_is_what_the_formula_says(d):
    """20,000 random orthogonal matrices across v; and no single one of them changes the answer."""
    rng = np.random.default_rng(d)
    W, v = rng.normal(size=(d, d)), rng.normal(size=d)
    basis = np.linalg.qr(np.column_stack([v, rng.normal(size=(d, d - 1))]))[0]
    turn = np.zeros((20_000, d, d))
    turn[:, 0, 0] = 1
    Q, upper = np.linalg.qr(rng.normal(size=(20_000, d - 1, d - 1)))
    turn[:, 1:, 1:] = Q * np.sign(np.einsum("kii->ki", upper))[:, None]
    omega = basis @ turn @ basis.T
    answer = symmetric_part(W, v)
    np.testing.assert_allclose(omega[0] @ v, v, atol=1e-12)
    np.testing.assert_allclose(omega[0].T @ answer @ omega[0], answer, atol=1e-12)
    np.testing.assert_allclose(np.mean(omega.transpose(0, 2, 1) @ W @ omega, axis=0), answer, atol=0.05)


@pytest.mark.parametrize(("T", "d"), [(5, 6), (3, 9)])
def test_the_first_step_on_many_sequences_has_the_two_numbers(T, d, lesson):
    """60,000 sequences, their best token first, against the two expectations of the text; rival, 1.5."""
    tokens = lesson["best_first"](data.random_tokens(n=60_000, T=T, d=d, seed=9))
    model = models.CrossAttention(d)
    train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=1.0), steps=1, progress=False)
    W = model.W.detach().numpy()
    scores = tokens.scores.numpy()
    u, best = scores.mean(axis=1), scores[:, 0]
    pull = (scores - u[:, None]) / (1 + np.exp(u))[:, None]
    b_v = ((pull * scores).mean(axis=1) * best).mean()
    b = (pull[:, 0] * (1 - best**2)).mean() / T / (d - 1)
    lesson["symmetric_part"] = symmetric_part
    ratio, rest = lesson["read"](W, tokens.v.numpy())
    assert tokens.v.numpy() @ W @ tokens.v.numpy() == pytest.approx(b_v, rel=1e-6)
    assert ratio == pytest.approx(b_v / b, rel=0.04)
    assert ratio > 1.5
    assert rest < 0.05


@pytest.mark.parametrize("d", [2, 5, 9])
@pytest.mark.parametrize("r", [0.3, 2.0, 8.0])
def test_no_query_is_turned_farther_than_the_worst(r, d):
    """20,000 random queries of the plane that e spans with another axis, and as many of all directions."""
    rng = np.random.default_rng(d)
    e = np.linalg.qr(rng.normal(size=(d, d)))[0][0]
    W = np.eye(d) + (r - 1) * np.outer(e, e)
    x = rng.normal(size=(40_000, d))
    x[:20_000] = np.outer(x[:20_000, 0], e) + np.outer(x[:20_000, 1], np.linalg.qr(np.c_[e, x[0]])[0][:, 1])
    p = x @ W
    cosine = (x * p).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(p, axis=1)
    assert worst_cosine(r) - 1e-12 <= cosine.min() < worst_cosine(r) + 1e-5
