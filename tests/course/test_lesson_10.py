"""What lesson 10 builds from scratch agrees with `mini_attn`."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from course import exercises
from course.check.checking import verdict
from mini_attn import data, models, svm, train

first_logits, symmetric_part, noise, falls_by = (spec.reference for spec in exercises.exercises("10"))


@pytest.mark.parametrize("seed", range(3))
def test_the_first_step_is_the_librarys(seed):
    tokens = data.random_tokens(n=3, T=4, d=5, seed=seed)
    model = models.CrossAttention(5)
    train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=1.7), steps=1, progress=False)
    mine = first_logits(*(a.numpy() for a in (tokens.X, tokens.z, tokens.scores)), 1.7)
    np.testing.assert_allclose(mine, model.logits(tokens).detach(), rtol=1e-9, atol=1e-12)


def rotations(d, v, count, rng):
    """Random orthogonal matrices that leave v alone."""
    basis = np.linalg.qr(np.column_stack([v, rng.normal(size=(d, d - 1))]))[0]
    turn = np.zeros((count, d, d))
    turn[:, 0, 0] = 1
    Q, upper = np.linalg.qr(rng.normal(size=(count, d - 1, d - 1)))
    turn[:, 1:, 1:] = Q * np.sign(np.einsum("kii->ki", upper))[:, None]
    return basis @ turn @ basis.T


@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_average_over_rotations_about_v_is_what_the_formula_says(d):
    """20,000 random orthogonal matrices across v; and no single one of them changes the answer."""
    rng = np.random.default_rng(d)
    W, v = rng.normal(size=(d, d)), rng.normal(size=d)
    omega = rotations(d, v, 20_000, rng)
    answer = symmetric_part(W, v)
    np.testing.assert_allclose(omega[0] @ v, v, atol=1e-12)
    np.testing.assert_allclose(omega[0].T @ answer @ omega[0], answer, atol=1e-12)
    np.testing.assert_allclose(np.mean(omega.transpose(0, 2, 1) @ W @ omega, axis=0), answer, atol=0.05)


@pytest.mark.parametrize("seed", [5, 6])
def test_an_average_over_samples_is_told_so(seed):
    """Whatever its draws, if it repeats them; an answer as far off that is none of these is not."""
    spec = next(one for one in exercises.exercises("10") if one.id == "10.2")
    going_on = np.random.default_rng(seed)

    def sampled(W, v, rng=None):
        omega = rotations(len(v), v, 1000, rng or np.random.default_rng(seed))
        return np.mean(omega.transpose(0, 2, 1) @ W @ omega, axis=0)

    assert "an average over samples" in verdict(spec, sampled).text
    assert "two different answers" in verdict(spec, lambda W, v: sampled(W, v, going_on)).text
    assert "an average over samples" not in verdict(spec, lambda W, v: symmetric_part(W, v) + 0.5).text


@pytest.mark.parametrize(("T", "d"), [(5, 6), (3, 9)])
def test_the_first_step_on_many_sequences_has_the_two_numbers(T, d, lesson):
    """60,000 sequences, their best token first, against the two expectations of the text; rival, 1.5."""
    tokens = lesson["by_score"](data.random_tokens(n=60_000, T=T, d=d, seed=9))
    model = models.CrossAttention(d)
    train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=1.0), steps=1, progress=False)
    W = model.W.detach().numpy()
    scores = tokens.scores.numpy()
    u, best = scores.mean(axis=1), scores[:, 0]
    pull = (scores - u[:, None]) / (1 + np.exp(u))[:, None]
    b_v = ((pull * scores).mean(axis=1) * best).mean()
    b = (pull[:, 0] * (1 - best**2)).mean() / T / (d - 1)
    lesson["symmetric_part"] = symmetric_part
    ratio = lesson["ratio"](W, tokens.v.numpy())
    form = symmetric_part(W, tokens.v.numpy())
    assert tokens.v.numpy() @ W @ tokens.v.numpy() == pytest.approx(b_v, rel=1e-6)
    assert ratio == pytest.approx(b_v / b, rel=0.04)
    assert ratio > 1.5
    assert np.linalg.norm(W - form) < 0.05 * np.linalg.norm(W)


@pytest.mark.parametrize("r", [0.4, 3.0, 15.0])
def test_a_token_is_ahead_of_the_query_itself_beyond_the_threshold(r, lesson):
    """10,000 pairs of unit vectors in five dimensions, of both signs of the score."""
    rng = np.random.default_rng(3)
    z, x, e = rng.normal(size=(3, 10_000, 5))
    z, x, e = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (z, x, e))
    gamma = (z * e).sum(axis=1)
    moved = z + (r - 1) * gamma[:, None] * e
    cosine = (x * moved).sum(axis=1) / np.linalg.norm(moved, axis=1)
    np.testing.assert_array_equal(cosine > lesson["threshold"](r, gamma), ((x - z) * moved).sum(axis=1) > 0)


@pytest.mark.parametrize(("T", "d", "r"), [(5, 7, 9.0), (12, 9, 30.0), (20, 30, 20.0)])
def test_the_share_of_tokens_that_select_themselves(T, d, r, lesson):
    """In 20,000 sequences a random token asks; rivals: that of bI, 1, and that of chance, 1 / T."""
    tokens = data.random_tokens(20_000, T, d, seed=31)
    W = torch.eye(d, dtype=torch.float64) + (r - 1) * torch.outer(tokens.v, tokens.v)
    share = (lesson["selects"](W, tokens.X)[:, 0] == 0).double().mean().item()
    assert share == pytest.approx(lesson["share_itself"](r, T, d), abs=0.015)
    assert 1.5 / T < share < 0.97


@pytest.mark.parametrize("seed", [41, 42])
def test_the_first_steps_queries_attend_to_themselves_if_r_is_far_below_d(seed, lesson):
    """A random token asks 2,000 fresh sequences; with nearly the same r / T opposite rules."""
    lesson["symmetric_part"] = symmetric_part
    found = []
    for T, d in ((8, 5), (8, 50), (25, 12)):
        tokens = lesson["by_score"](data.random_tokens(n=6000, T=T, d=d, seed=seed))
        model = models.CrossAttention(d)
        train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=1.0), steps=1, progress=False)
        W = model.W.detach()
        r = lesson["ratio"](W.numpy(), tokens.v.numpy())
        drawn, best = lesson["fresh"](T, d, tokens.v, seed=seed + 10)
        found.append((lesson["selects"](W, drawn)[:, 0] == 0).double().mean().item())
        assert found[-1] == pytest.approx(lesson["share_itself"](r, T, d), abs=0.045)
        assert (lesson["selects"](W, best)[:, 0] == 0).double().mean() > 0.99
    assert found[1] > 0.99 > 0.75 > found[0] > found[2]


@pytest.mark.parametrize("d", [2, 3, 6])
def test_no_matrix_but_a_multiple_of_the_identity_lets_no_rival_ahead(d):
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
            assert served == (np.allclose(W, W[0, 0] * np.eye(d)) and W[0, 0] >= 0)
            found.append(served)
    assert sum(found) == 2  # I and 0


def test_what_each_token_that_asks_selects(lesson):
    """Of two data sets, each with its own W, against one logit at a time."""
    generator = torch.Generator().manual_seed(7)
    W = torch.randn(2, 4, 4, dtype=torch.float64, generator=generator)
    X = torch.randn(2, 3, 5, 4, dtype=torch.float64, generator=generator)
    picks = lesson["selects"](W, X)
    for k, i, asks in np.ndindex(2, 3, 5):
        logits = [float(x @ W[k] @ X[k, i, asks]) for x in X[k, i]]
        assert picks[k, i, asks] == np.argmax(logits)


def svm_errors(lesson, tokens):
    """From all comparisons, where the lesson takes the nearest."""
    best = lesson["by_score"](tokens)
    W = svm.solve(svm.attention_problem(best.X, best.z, torch.zeros(best.y.shape, dtype=torch.int64))).value
    return lesson["error"](W).numpy()


@pytest.mark.parametrize(("n", "T", "d"), [(400, 3, 2), (1600, 2, 3)])
def test_the_nearest_comparisons_make_the_svm(n, T, d, lesson):
    """Those that the table's cell hands to the solver, on its own draws; the error is that of W / b - I."""
    found = lesson["errors"](n, T, d, 4, seed=9)
    np.testing.assert_allclose(
        found, svm_errors(lesson, data.random_tokens(n, T, d, trials=4, seed=9)), rtol=1e-5
    )
    W = torch.randn(5, d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) + 2 * torch.eye(
        d
    )
    plain = [np.linalg.norm(w * d / np.trace(w) - np.eye(d)) for w in W.numpy()]
    np.testing.assert_allclose(lesson["error"](W), plain)


@pytest.mark.parametrize(("T", "d"), [(2, 3), (2, 5), (3, 4)])
def test_the_error_of_the_svm_falls_with_the_data_as_the_theorem_says(T, d, lesson):
    """From 300 to 9,600 sequences, seeds of its own; the rivals, one dimension more and one less."""
    few = svm_errors(lesson, data.random_tokens(300, T, d, trials=20, seed=40)).mean()
    more = lesson["errors"](9600, T, d, 20, seed=41).mean()
    power = np.log(few / more) / np.log(32)
    assert 1 / (d + 0.2) < power < 1 / (d - 1.5)
    assert few / more == pytest.approx(falls_by(32, d), rel=0.3)


def leads(tokens):
    """Leads of token 1 after the first step, up to a factor: by the own part, by all; (trials, n, T - 1)."""
    u, gaps = tokens.scores.mean(-1, keepdim=True), tokens.X[..., :1, :] - tokens.X[..., 1:, :]
    g = ((tokens.scores - u) / (1 + u.exp())).unsqueeze(-2) @ tokens.X
    W = g.squeeze(-2).mT @ tokens.z
    return (gaps @ g.mT).squeeze(-1), (gaps @ (tokens.z @ W.mT)[..., None]).squeeze(-1)


def share(lead):
    return (lead > 0).all(-1).double().mean().item()


def alone(tokens):
    """Each sequence as a trial of its own."""
    one = {name: getattr(tokens, name).flatten(0, 1)[:, None] for name in "Xzy"}
    return data.TokenData(**one, v=tokens.v.repeat_interleave(tokens.X.shape[1], dim=0))


@pytest.mark.parametrize(("T", "d"), [(5, 7), (12, 10)])
def test_the_others_help_if_queries_carry_the_answer_and_disturb_if_not(T, d, lesson):
    """The first step: help grows as the others, noise as their root."""
    for seed in (21, 22):
        means, spreads = [], []
        for n in (6, 46):
            tokens = data.random_tokens(n, T, d, trials=100, seed=seed)
            best = lesson["by_score"](tokens)
            own, lead = leads(best)
            noise = leads(replace(best, z=tokens.z))[1]
            means.append(((lead - own).mean() / own.mean()).item())
            spreads.append((noise - own).std().item())
            assert abs((noise - own).mean() / own.mean()) < 0.1
            assert share(lead) > share(own) > share(noise)
        assert means[1] / means[0] == pytest.approx(9, rel=0.3)
        assert spreads[1] / spreads[0] == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize(("n", "T", "d"), [(8, 6, 9), (20, 12, 12)])
def test_at_the_end_too_best_queries_help_and_random_ones_disturb(n, T, d, lesson):
    tokens = data.random_tokens(n, T, d, trials=40, seed=26)
    best = lesson["by_score"](tokens)
    found = []
    for asked in (best, alone(best), replace(best, z=tokens.z)):
        model = models.CrossAttention(d, trials=len(asked.X))
        lesson["fit"](model, asked, 1000, schedule=train.growing)
        found.append((model.attention(asked).argmax(-1) == 0).double().mean().item())
    assert found[0] >= found[1] > found[2]


def test_two_tokens_alone_are_always_the_right_way_round(lesson):
    best = lesson["by_score"](data.random_tokens(10, 2, 6, trials=100, seed=27))
    own, lead = leads(alone(best))
    torch.testing.assert_close(own, lead)
    assert share(own) == 1


def test_the_leads_are_those_of_a_step_of_descent(lesson):
    tokens = lesson["by_score"](data.random_tokens(4, 3, 5, seed=24))
    model = models.CrossAttention(5)
    train.fit(model, tokens, torch.optim.SGD(model.parameters(), lr=12.0), steps=1, progress=False)
    h = model.logits(tokens).detach()
    batch = replace(tokens, **{name: getattr(tokens, name)[None] for name in "Xzyv"})
    lead = leads(batch)[1][0]
    torch.testing.assert_close(lead * 12.0 / (4 * 3), h[:, :1] - h[:, 1:])


@pytest.mark.parametrize(("n", "T", "d"), [(900, 4, 90), (150, 6, 60), (3000, 3, 70)])
def test_random_queries_disturb_as_the_law_says(n, T, d, lesson):
    """The noise over the own amount, in logits and in the share that selects the best; sizes of its own."""
    found, spreads = [], []
    for seed in range(max(1, 6000 // n)):
        tokens = data.random_tokens(n, T, d, seed=seed)
        logits = first_logits(*(a.numpy() for a in (tokens.X, tokens.z, tokens.scores)), n)
        u = tokens.scores.mean(-1, keepdim=True)
        g = ((tokens.scores - u) / (1 + u.exp()) / T).unsqueeze(-2) @ tokens.X
        own = (tokens.X @ g.mT).squeeze(-1).numpy()
        spreads.append((logits - own).std() * 2 * T * d**0.5)
        found.append((logits.argmax(1) == tokens.optimal.numpy()).mean())
    assert np.mean(spreads) == pytest.approx(noise(n, T, d), rel=0.07)
    assert np.mean(found) == pytest.approx(lesson["law"](noise(n, T, d), T), abs=0.04)


def test_a_coin_exchanges_the_best_and_the_worst_for_any_matrix():
    """Of 20,000 new sequences with random queries, and any W; with the best as queries it does not."""
    tokens = data.random_tokens(20_000, 5, 6, seed=8)
    W = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    W = W + 3 * torch.outer(tokens.v, tokens.v)
    picks = models.CrossAttention(6, init=W).logits(tokens).argmax(-1)
    best, worst = ((picks == one).double().mean() for one in (tokens.optimal, tokens.scores.argmin(-1)))
    assert abs(best - worst) < 0.012
    assert tokens.scores.gather(-1, picks[:, None]).mean().abs() < 0.01
