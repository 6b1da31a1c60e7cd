"""Lesson 18. Real tokens: what of the theory is left in a small transformer, and what its controls say.

Measurements on other seeds and sizes than the lesson's. One linear attention layer with fixed embeddings and
readout goes to the Att-SVM of real words (Tarzanagh et al. 2023), a random W of the same tokens does not; a
norm before the readout takes the direction down to that control, since mixtures score best: attention goes to
the coefficients of a projection on the cone of the tokens. So do moving embeddings when every token asks; an
MLP only delays the decision. In a two-layer transformer the SVM of a head's own selection has a cosine well
above that of random tokens or of another head, and below that of a matrix that nobody trained; attention
sharpens while the data are fitted. What W has that is new, by gradient descent in a linear layer or in a
transformer that is frozen else, leans to the SVM of the sequences that it learned; what keys and queries by
Adam have leans far less.
"""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from course.replicate import lesson_18 as stored
from course.replicate import taken_apart
from mini_attn import svm

PAIR = "+ embeddings learn, every token asks"


@pytest.fixture(scope="module")
def digits():
    """Two runs, 240 steps; and what they were compared with: their weights, at last and at first."""
    given, compared = [], stored.compared

    def spy(*those):
        given.extend(those)
        return compared(*those)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "STEPS", 240)
        patch.setattr(stored, "compared", spy)
        found = stored.transformers("digits", 0.0, trials=2, seed=4711)
    return found | {"compared": given}


def test_one_linear_layer_goes_to_its_svm_and_a_random_matrix_does_not():
    found = stored.taken_apart("base", trials=3, seed=77)
    assert (found["whole"] > 0.99).all()
    assert (found["whole_never_trained"] < 0.75).all()
    assert (found["decided"] == 1).all()


def test_another_size(monkeypatch):
    few = taken_apart.few_sentences
    monkeypatch.setattr(taken_apart, "few_sentences", lambda runs, seed: few(runs, seed, n=10, T=11))
    found = stored.taken_apart("base", trials=2, seed=78)
    assert (found["whole"] > 0.99).all()


@pytest.mark.parametrize("setting", ["+ norm before the readout", PAIR])
def test_what_brings_it_down_to_the_control(setting):
    found = stored.taken_apart(setting, trials=3, seed=79)
    assert found["whole"].median() < found["whole_never_trained"].median() + 0.12
    assert (found["decided"] > 0.9).all() if setting == PAIR else found["decided"].median() < 0.3


@pytest.fixture(scope="module")
def layer():
    """One linear layer on twelve sentences, of another dimension; its own seeds."""
    return stored.one_layer(24, 12, n=12, trials=6, seed=84)


def gap(found, rival=""):
    """Of the new part, of each head or run, before it is divided by that of the SVM."""
    cos, parts = found[f"{rival}to_first"], []
    for who in ("seen", "unseen"):
        own, first = found[f"{rival}own_{who}"], found[f"{rival}first_{who}"]
        parts.append((own - cos * first) / (1 - cos**2).sqrt())
    return parts[0] - parts[1]


def test_a_layer_leads_by_the_few_sentences_that_it_was_trained_on(layer):
    assert (layer["own_seen"] - layer["first_seen"])[:, stored.WAYS.index("K and Q by Adam")].mean() > 0.08


def test_w_by_descent_is_ahead_of_each_other_way(layer):
    moved, mean = (dict(zip(stored.WAYS, x.T, strict=True)) for x in (layer["moved"], gap(layer)))
    gone = dict(zip(stored.WAYS, layer["gone"].T, strict=True))
    for way in ("W by Adam", "K and Q by descent", "K and Q by Adam"):
        torch.testing.assert_close(moved[way], moved["W by descent"], rtol=0.04, atol=0)
        assert gone[way].mean() > 0.9
        assert mean[way].mean() < mean["W by descent"].mean() - 0.02
    assert mean["free W"].mean() < mean["W by descent"].mean() - 0.04
    for part in ("W by descent", "K and Q by Adam"):
        for far in stored.NEAR:
            assert (moved[f"{part}, {far:g}"] >= far - 1e-6).all()
            assert (moved[f"{part}, {far:g}"] < far + 0.08).all()


def test_w_by_descent_leads_its_rivals_at_half_a_length_too(layer):
    rivals = stored.rivals_of_layer(24, 12, n=12, trials=6, seed=84)
    at = stored.RIVALED.index("free W")
    torch.testing.assert_close(rivals["own_seen"][:, at], layer["own_seen"][:, stored.WAYS.index("free W")])
    mean = dict(zip(stored.RIVALED, gap(rivals).mean(0).tolist(), strict=True))
    for k, far in enumerate((0.25, 0.25, 0.5, 0.5, 1.0, 1.0)):
        moved = rivals["moved"][:, k]
        torch.testing.assert_close(moved, torch.full_like(moved, far), rtol=1e-4, atol=0)
    ways = dict(zip(stored.WAYS, gap(layer).mean(0).tolist(), strict=True))
    for rival in stored.RIVALS.values():
        assert ways["W by descent, 0.5"] > mean[f"{rival}, 0.5"] + 0.015
        assert ways["W by descent"] > mean[rival] + 0.15


@pytest.mark.parametrize(
    ("d", "price", "seed"), [(32, 0.1, 85), (32, 10.0, 86), (64, 10.0, 87), (16, 10.0, 88)]
)
def test_a_layer_leads_a_free_w_at_other_prices(d, price, seed):
    W_0, _, _, v, y, *judges = stored.few_layers(3, seed, d=d)
    x = judges[0]

    def pull(W):
        a, W = d**0.5 * x, W.clone().requires_grad_()
        f = ((a @ W[:, None].mT @ a.mT).softmax(-1) @ a).mean(2) @ v
        (slope,) = torch.autograd.grad(torch.nn.functional.softplus(-y * f[..., 0]).mean(-1).sum(), W)
        return -stored.unit(slope)

    W, G = W_0, pull(W_0)
    for _ in range(160):
        W = W + 0.03 * pull(W)
    R = stored.of_tokens(x, torch.ones(x.shape[:3], dtype=torch.bool), 1, torch.Generator().manual_seed(seed))
    gaps = []
    for moved in (W - W_0, (W - W_0).norm(dim=(-2, -1), keepdim=True) * stored.unit(R[:, 0])):
        N = moved - (moved * G).sum((-2, -1), keepdim=True) * G
        chosen = [(a @ (W_0 + moved)[:, None].mT @ a.mT).argmax(-1) for a in judges]
        S, other = (svm.solve_soft(a, these, price).value for a, these in zip(judges, chosen, strict=True))
        gaps.append((stored.cosine(N, S) - stored.cosine(N, other)) / (1 - stored.cosine(S, other)))
    assert (gaps[0] > gaps[1] + 0.3).all()


@pytest.mark.parametrize(("d", "seed"), [(32, 89), (48, 91)])
def test_a_loss_with_a_minimum_leads_a_free_w_too_and_so_does_the_entropy(d, seed):
    """The negative control of 18.5, and 18.6's descent in the entropy of attention, in a linear layer."""
    W_0, _, _, v, y, *judges = stored.few_layers(10, seed, d=d)
    x, size = judges[0], W_0.norm(dim=(1, 2), keepdim=True)
    real = torch.ones(x.shape[:3], dtype=torch.bool)
    R = stored.unit(stored.of_tokens(x, real, 1, torch.Generator().manual_seed(seed))[:, 0])

    def pull(W, p=1.0):
        a, W = d**0.5 * x, W.clone().requires_grad_()
        yf = y * (((a @ W[:, None].mT @ a.mT).softmax(-1) @ a).mean(2) @ v)[..., 0]
        softplus = torch.nn.functional.softplus
        loss = (p * softplus(-yf) + (1 - p) * softplus(yf)).mean(-1).sum()
        return -torch.autograd.grad(loss, W)[0]

    def lead(moved, first):
        gaps = []
        for step in (moved, moved.norm(dim=(1, 2), keepdim=True) * R):
            G = stored.unit(first)
            N = step - (step * G).sum((1, 2), keepdim=True) * G
            chosen = [(a @ (W_0 + step)[:, None].mT @ a.mT).argmax(-1) for a in judges]
            S, other = (svm.solve_soft(a, these, 1.0).value for a, these in zip(judges, chosen, strict=True))
            gaps.append((stored.cosine(N, S) - stored.cosine(N, other)) / (1 - stored.cosine(S, other)))
        return (gaps[0] - gaps[1]).mean()

    def go_on(W, p, far, steps):
        for _ in range(steps):
            short = (W - W_0).norm(dim=(1, 2), keepdim=True) < far
            W = W + 0.03 * short * stored.unit(pull(W, p))
        return W

    first = {p: pull(W_0, p) for p in (1.0, 0.95)}
    soft = go_on(W_0, 0.95, torch.inf, 100)
    labels = go_on(W_0, 1.0, (soft - W_0).norm(dim=(1, 2), keepdim=True), 120)
    assert lead(labels - W_0, first[1.0]) > lead(soft - W_0, first[0.95]) + 0.05 > 0.2

    def sharper(W):
        W = W.clone().requires_grad_()
        logs = (d * x @ W[:, None].mT @ x.mT).log_softmax(-1)
        return torch.autograd.grad((logs.exp() * logs).sum(-1).mean((1, 2)).sum(), W)[0]

    W = W_0
    while (short := (W - W_0).norm(dim=(1, 2), keepdim=True) < size).any():
        W = W + 0.03 * short * stored.unit(sharper(W))
    assert lead(W - W_0, sharper(W_0)) > 0.3


def test_a_step_of_descent_goes_along_the_slope_and_stops_as_far():
    """A slope that stays: known distances, of each run."""
    A = torch.tensor([[[[3.0, 4.0]]], [[[0.0, -2.0]]]])
    P = {"W0": torch.ones(2, 1, 1, 2, dtype=torch.float64)}
    size, fars = 2**0.5, [torch.tensor([0.1, 0.2]), torch.tensor([9.0, 0.1])]
    found = stored.until(P, stored.descent, lambda P: (P["W0"] * A).sum((1, 2, 3)), ["W0"], fars, 12)
    towards = -A / A.norm(dim=-1, keepdim=True)
    for W, far in zip(found, fars, strict=True):
        steps = (far * size / 0.03).ceil().clamp_max(12)
        expected = 1 + 0.03 * steps.view(2, 1, 1, 1) * towards
        torch.testing.assert_close(W, expected.double())
    assert (P["W0"] == 1).all()


def test_labels_are_stopped_at_the_first_step_as_far():
    """One weight each run, that Adam moves by 0.003 a step: known distances."""
    P = {"W0": torch.ones(2, 1, 1, 1), "other": torch.zeros(2, 3)}

    def loss(P):
        return -P["W0"].flatten() - P["other"].sum(1)

    fars = torch.tensor([[0.0075, 9.0]]), torch.tensor([[0.001, 0.0105]])
    last, gone, thens = stored.walk(P, loss, [*P], lambda P, k: 1 * P["W0"], 5, fars)
    torch.testing.assert_close(last["W0"].flatten(), torch.tensor([1.015, 1.015]))
    torch.testing.assert_close(gone, torch.tensor([[0.015, 0.015]]))
    for (then,), far in zip(thens, ([0.009, 0.015], [0.003, 0.012]), strict=True):
        torch.testing.assert_close(then["W0"].flatten(), 1 + torch.tensor(far))
        torch.testing.assert_close(then["other"], torch.tensor(far)[:, None].expand(2, 3))
    assert (P["W0"] == 1).all()


def test_the_sum_of_rows_is_the_svm_at_a_small_price():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(2, 3, 5, 6, generator=generator, dtype=torch.float64)
    real = torch.arange(5) < torch.tensor([5, 4, 3])[:, None]
    real = real.expand(2, -1, -1)
    chosen = torch.randint(0, 3, (2, 1, 3, 5), generator=generator)
    rows = stored.sum_of_rows(a, real, chosen)
    solution = svm.solve_soft(*(x[:, None] for x in (a,)), chosen, 1e-7, real[:, None])
    assert (stored.cosine(rows, solution.value) > 1 - 1e-6).all()


def test_an_mlp_only_delays_the_decision():
    """A loss that underflows stops every weight; its log does not."""
    early, late = (
        taken_apart.taken_apart("+ residual and MLP", trials=2, seed=79, steps=steps) for steps in (300, 1000)
    )
    assert (early["decided"] < 0.3).all()
    assert (late["decided"] > 0.75).all()
    assert (late["length"] > 10 * early["length"]).all()
    for found in (early, late):
        assert (found["whole"] > found["whole_never_trained"] + 0.05).all()


def test_the_log_of_the_loss_and_its_slope_survive_the_loss():
    u = torch.tensor([[-40.0, 0.5, 31.0], [2000.0, 2001.0, 1999.0]], dtype=torch.float64, requires_grad=True)
    log = taken_apart.log_loss(u)
    torch.testing.assert_close(log[0], torch.nn.functional.softplus(-u[0]).mean().log())
    assert torch.nn.functional.softplus(-u[1]).mean() == 0
    (slope,) = torch.autograd.grad(log.sum(), u)
    torch.testing.assert_close(slope[1], -torch.softmax(-u[1].detach(), 0))


def test_keys_and_queries_go_nearer_to_the_nuclear_svm():
    found = stored.taken_apart("+ K and Q", trials=2, seed=80)
    assert (found["nuclear"] > found["whole"] + 0.05).all()


def test_a_heads_own_svm_against_its_controls(digits):
    own = digits["own"].mean((1, 2))
    assert (own > 0.35).all()
    assert (digits["never_trained"].mean((1, 2)) > own).all()
    for rival in ("random_tokens", "other_head"):
        assert (digits[rival].mean((1, 2)).abs() < 0.1).all()


@pytest.mark.parametrize("price", [0.03, 30.0])
def test_the_order_of_the_controls_holds_at_other_prices(digits, price):
    last, first, X, real, seed, _ = digits["compared"]
    generator, cosines = torch.Generator().manual_seed(seed), []
    for k, a in enumerate(stored.reads(last, X, real)):
        W, W_0 = (stored.centred(P, k) for P in (last, first))
        free = stored.of_tokens(a, real, W.shape[1], generator)
        normal = torch.randn(W.shape, generator=generator, dtype=W.dtype)
        far, found = (W - W_0).norm(dim=(-2, -1), keepdim=True), []
        for moved in (far * stored.unit(free), W - W_0, far * stored.unit(normal)):
            fitted = svm.solve_soft(*spread(a, stored.choice(W_0 + moved, a, real)), price)
            found.append(stored.cosine(moved, fitted.value).mean(1))
        cosines.append(torch.stack(found))
    free, own, gaussian = torch.stack(cosines, 1)  # (layers, networks) each
    assert free.mean() > own.mean() + 0.02
    assert (own > gaussian + 0.1).all()


def test_transformers_on_a_few():
    found = stored.on_ten("digits", n=12, steps=300, trials=2, seed=4713)
    for name in ("own", "first"):
        assert found[f"{name}_seen"].shape == (2, 5, 2, 4)
    for rival in stored.RIVALS:
        assert found[f"{rival}_own_seen"].shape == found[f"{rival}_judges"].shape == (2, 2, 4)
        torch.testing.assert_close(found[f"{rival}_moved"], found["moved"][:, stored.AIMS.index("labels")])
    assert (found["free_to_first"].abs() < 0.4).all()
    moved, gone = (dict(zip(stored.AIMS, found[name].unbind(1), strict=True)) for name in ("moved", "gone"))
    assert min(gone[aim].min() for aim in ("labels", *stored.SPREAD)) > 0.97
    assert (gap(found).mean((0, 2, 3)).abs() < 0.08).all()
    for aim in stored.SPREAD:
        last = torch.minimum(moved[aim].mean(-1), moved["labels"].mean(-1))
        torch.testing.assert_close(moved[f"labels, far as {aim}"].mean(-1), last, rtol=0.1, atol=0)
    assert moved["labels"].mean() < 1


def test_the_least_of_a_loss_is_taken_off():
    y, z = torch.tensor([[0, 2]]), torch.tensor([[[3.0, 1.0, 0.0], [0.0, 1.0, 2.0]]])
    labels, soft = (stored.aimed_at(aim, y, 3) for aim in ("labels, far as soft", "soft"))
    torch.testing.assert_close(labels(z)[0], torch.nn.functional.cross_entropy(z[0], y[0]))
    goal = 0.6 * torch.nn.functional.one_hot(y, 3) + 0.4 / 3
    torch.testing.assert_close(soft(goal.log()), torch.zeros(1), atol=1e-6, rtol=0)
    smooth = torch.nn.functional.cross_entropy(z[0], y[0], label_smoothing=0.4)
    entropy = -(goal * goal.log()).sum(-1).mean()
    torch.testing.assert_close(soft(z)[0], smooth - entropy)


def test_the_judges_are_those_of_the_trained_movement():
    g = torch.Generator().manual_seed(1)
    a = torch.nn.functional.normalize(torch.randn(1, 3, 5, 6, generator=g, dtype=torch.float64), dim=-1)
    real = torch.ones(1, 3, 5, dtype=torch.bool)
    b = torch.nn.functional.normalize(torch.randn(1, 3, 5, 6, generator=g, dtype=torch.float64), dim=-1)
    K, Q = torch.randn(2, 1, 2, 6, 3, generator=g, dtype=torch.float64)
    W_0, moved, pull = torch.randn(3, 1, 2, 6, 6, generator=g, dtype=torch.float64)
    found = stored.against_rivals(moved, W_0, K, Q, {"first": pull}, {"seen": (a, real), "new": (b, real)})
    fitted, other = (stored.soft_svm(x, real, stored.choice(W_0 + moved, x, real)) for x in (a, b))
    rival = stored.moved_by_slopes(K, Q, stored.unit(pull), moved.norm(dim=(-2, -1)))
    torch.testing.assert_close(found["own_seen"], stored.cosine(moved, fitted))
    torch.testing.assert_close(found["first_seen"], stored.cosine(rival, fitted))
    torch.testing.assert_close(found["judges"], stored.cosine(fitted, other))


def test_the_first_slopes_are_those_of_the_loss():
    P = stored.data("digits", 1, 6)[2]
    g = torch.Generator().manual_seed(0)
    A = torch.randn(1, 4, 32, 32, generator=g)
    (one,) = stored.first_slopes(P, lambda P: (A * P["W0"]).sum() + P["read"].sum(), 1)
    torch.testing.assert_close(one, -A.double())


def spread(a, selected):
    """The tokens once for each head, and what each head selects."""
    return a[:, None].expand(-1, selected.shape[1], *a.shape[1:]), selected


def test_attention_sharpens_while_the_data_are_fitted(monkeypatch):
    monkeypatch.setattr(stored, "LOOKS", (0, 40, 80, 160, 240))
    found = stored.onward("digits", trials=2, seed=4711)
    entropy, right = found["entropy"].mean((2, 3)), found["train"]
    assert (right[:, -1] > 0.97).all()
    for e, r in zip(entropy, right, strict=True):
        at = int((r >= 0.97).int().argmax())
        assert e[0] - e[at] > 0.75 * (e[0] - e[-1])
        assert e[-1] > 0.3


@pytest.mark.parametrize(("seed", "T", "d"), [(12, 8, 64), (13, 11, 32)])
def test_under_a_norm_attention_goes_to_the_best_mixture(seed, T, d):
    off, alone = [], []
    for s, X, goal in zip(*stored.under_norms(3, seed, n=12, T=T, d=d), strict=True):
        c, _ = nnls(X.T, goal)
        if c.any():  # else every token scores below 0
            off.append(abs(s - c / c.sum()).sum() / 2)
            alone.append(abs(s - np.eye(T)[(X @ goal).argmax()]).sum() / 2)
    assert len(off) >= 34
    assert np.mean(off) < 0.1
    assert np.mean(alone) > 0.3


def test_w_by_descent_is_seen_in_a_transformer_that_is_frozen_else():
    found = stored.ladder("W by descent", trials=2, seed=4714)
    assert found["moved"].shape == (2, 2, 2, 4)
    for at, far in enumerate(stored.RUNGS):
        torch.testing.assert_close(found["moved"][:, at].mean(-1), torch.full((2, 2), far), rtol=0.05, atol=0)
    mean, free, pairs = (gap(found, rival).mean((0, 2, 3)) for rival in ("", "free_", "pair_"))
    assert (mean > torch.maximum(free, pairs) + 0.03).all()


def test_decay_alone_is_no_movement():
    P = stored.copied(stored.data("digits", 1, 5)[2])
    shrunk = {name: 0.7 * w if name[0] in "KQ" else w for name, w in P.items()}
    torch.testing.assert_close(0.49 * stored.centred(P, 0), stored.centred(shrunk, 0))


def test_layer_two_agrees_and_the_best_token_seldom_wins(digits):
    assert (digits["agree"][:, 1].mean(-1) > digits["chance_agree"][:, 1].mean(-1) + 0.3).all()
    assert (digits["best"].mean((1, 2)) < 0.25).all()
