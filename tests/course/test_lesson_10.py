"""What lesson 10 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import data, models, svm, train

first_logits, price, symmetric_part, survives = (spec.reference for spec in exercises.exercises("10"))


@pytest.mark.parametrize("seed", range(3))
def test_the_first_step_is_the_librarys(seed):
    tokens = data.random_tokens(n=3, T=4, d=5, seed=seed)
    model = models.CrossAttention(5)
    train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=1.7), steps=1, progress=False)
    mine = first_logits(*(a.numpy() for a in (tokens.X, tokens.z, tokens.scores)), 1.7)
    np.testing.assert_allclose(mine, model.logits(tokens).detach(), rtol=1e-9, atol=1e-12)


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


@pytest.mark.parametrize(("T", "d"), [(8, 10), (20, 6)])
def test_the_ratio_is_foreseen_from_the_scores(T, d, lesson):
    tokens = lesson["best_first"](data.random_tokens(n=40_000, T=T, d=d, seed=10))
    model = models.CrossAttention(d)
    train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=1.0), steps=1, progress=False)
    lesson["symmetric_part"] = symmetric_part
    ratio, _ = lesson["read"](model.W.detach().numpy(), tokens.v.numpy())
    assert ratio == pytest.approx(lesson["first_step"](T, d)[0], rel=0.03)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_what_survives_lets_no_rival_ahead_and_what_does_not_lets_one(d):
    """100,000 pairs, half of them near, against forms of any ratio and matrices beside them."""
    rng = np.random.default_rng(d)
    v = rng.normal(size=d)
    e = v / np.linalg.norm(v)
    x, other = rng.normal(size=(2, 100_000, d))
    other[::2] = x[::2] + 10 ** rng.uniform(-3, 0, size=(50_000, 1)) * other[::2]
    x, other = (array / np.linalg.norm(array, axis=1, keepdims=True) for array in (x, other))
    ahead = (x - other) @ e > 0
    best, rival = np.where(ahead[:, None], x, other), np.where(ahead[:, None], other, x)  # for the label 1
    best, rival = np.r_[best, rival], np.r_[rival, best]
    found = []
    for b, b_v in ((1, 1), (1, 3), (3, 1), (-1, 2), (1, -1), (-1, -1), (0.5, 0.6), (0, 0)):
        form = b * np.eye(d) + (b_v - b) * np.outer(e, e)
        for W in (form, form + 0.4 * rng.normal(size=(d, d))):
            served = (((best - rival) @ W) * best).sum(axis=1).min() > -1e-9
            assert survives(W, v) == served
            found.append(served)
    assert sum(found) == 2  # I and 0


def test_the_direction_of_the_svm_tends_to_what_survives(lesson):
    """T = 3, d = 2 and 4: the rest falls as data grow, and the ratio goes to 1."""
    lesson["symmetric_part"] = symmetric_part
    for d in (2, 4):
        means = []
        for n in (1_000, 16_000):
            runs = [lesson["self_svm"](n, 3, d, seed) for seed in (11, 12, 13)]
            ratio, rest = np.transpose([lesson["read"](*run) for run in runs])
            means.append((rest.mean(), abs(np.log(ratio)).mean()))
        assert means[1][0] < 0.7 * means[0][0]
        assert means[1][1] < means[0][1]


@pytest.mark.parametrize(("n", "T", "d"), [(6, 5, 7), (8, 12, 10)])
def test_the_others_help_if_queries_carry_the_answer_and_disturb_if_not(n, T, d, lesson):
    """More of 100 trials end at the best tokens than without the others, and fewer with random queries."""
    for seed in (21, 22):
        kinds = lesson["with_queries"](data.random_tokens(n, T, d, trials=100, seed=seed))
        found = {
            name: lesson["end_at_best"](tokens, schedule=train.growing) for name, tokens in kinds.items()
        }
        assert found["best"] > found["orthogonal"] > max(found["random"], found["other"])


def test_one_sequence_does_not_care_for_its_query(lesson):
    kinds = lesson["with_queries"](data.random_tokens(1, 6, 8, trials=100, seed=23))
    assert len({lesson["end_at_best"](tokens, schedule=train.growing) for tokens in kinds.values()}) == 1
