"""Lesson 18. Real tokens: what of the theory is left in a small transformer, and what its controls say.

No theorem here, but measurements, on other seeds and sizes than the lesson's: one linear attention layer with
fixed embeddings and head goes to the Att-SVM of real words (Tarzanagh et al. 2023), a random W made of the
same tokens does not; a norm before the head takes the direction down to that control, and so do moving
embeddings when every token asks; an MLP only delays the decision. In a trained two-layer transformer the SVM
of a head's own selection has a cosine well above those of random tokens and of another head, and below that
of a matrix that nobody trained; attention sharpens while the data are fitted. Under a norm before the head
mixtures are better than tokens. Keys and queries of a linear layer lead two rivals that nobody trained by the
SVM of its few training sentences, and by more than by unseen ones.
"""

import pytest
import torch

from course.replicate import lesson_18 as stored
from course.replicate import taken_apart
from mini_attn import svm


@pytest.fixture(scope="module")
def digits():
    """Two runs, 240 steps; and what they were compared with: their weights, at last and at first."""
    given, compared = [], stored.compared

    def spy(*those):
        given.extend(those)
        return compared(*those)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "LOOKS", (0, 40, 80, 160, 240))
        patch.setattr(stored, "compared", spy)
        found = stored.transformers("digits", 0.0, trials=2, seed=4711)
    return found | {"compared": given}


def test_one_linear_layer_goes_to_its_svm_and_a_random_matrix_does_not():
    found = stored.taken_apart("base", trials=3, seed=77)
    assert (found["cosine"] > 0.99).all()
    assert (found["never_trained"] < 0.75).all()
    assert (found["decided"] == 1).all()


def test_another_size(monkeypatch):
    few = taken_apart.few_sentences
    monkeypatch.setattr(taken_apart, "few_sentences", lambda runs, seed: few(runs, seed, n=10, T=11))
    found = stored.taken_apart("base", trials=2, seed=78)
    assert (found["cosine"] > 0.99).all()


@pytest.mark.parametrize("setting", ["+ norm before the head", taken_apart.PAIR])
def test_what_brings_it_down_to_the_control(setting):
    found = stored.taken_apart(setting, trials=3, seed=79)
    assert found["whole"].median() < found["whole_never_trained"].median() + 0.12
    assert (found["decided"] > 0.9).all() if setting == taken_apart.PAIR else found["largest"].median() < 0.8


@pytest.fixture(scope="module")
def control():
    """One linear layer on twelve sentences, of another dimension; seeds of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "ON_THE_WAY", (40, 200))
        return stored.control(24, 8, n=12, trials=4, seed=84)


def leads(found, judges):
    """Means over the trials of the lead over each rival at each look: (2, looks)."""
    return torch.stack(
        [(found[f"own_{judges}"] - found[f"{name}_{judges}"]).mean(0) for name in ("flow", "adam")]
    )


def test_a_layer_leads_nobody_by_the_few_sentences_that_it_was_trained_on(control):
    for judges in ("seen", "seen_cheap", "seen_dear"):
        found = leads(control, judges)
        assert (found > 0.02).all()
        assert (found[:, 1] > 0.08).all()
    assert (control["moved"][:, 0] < 2).all()


def test_they_see_more_of_its_lead_than_unseen_ones(control):
    for end in ("", "_cheap", "_dear", "_nuclear"):
        assert (leads(control, f"seen{end}")[:, 1] > leads(control, f"unseen{end}")[:, 1] + 0.02).all()


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


def test_the_test_of_the_future_is_failed_by_a_layer_that_goes_to_its_svm():
    found = stored.taken_apart("+ every token asks", trials=2, seed=79)
    assert (found["whole"] > 0.95).all()
    assert (found["future"] < found["momentum"] - 0.05).all()
    assert (found["settled"] < 0.7).all()


def test_keys_and_queries_go_nearer_to_the_nuclear_svm():
    found = stored.taken_apart("+ K and Q", trials=2, seed=80)
    assert (found["nuclear"] > found["cosine"] + 0.05).all()


def test_a_heads_own_svm_against_its_controls(digits):
    own = digits["own"].mean((1, 2))
    assert (own > 0.35).all()
    assert (digits["never_trained"].mean((1, 2)) > own).all()
    for rival in ("random_tokens", "other_head"):
        assert (digits[rival].mean((1, 2)).abs() < 0.1).all()
    assert (digits["start"].mean((1, 2)) < own - 0.15).all()
    assert (digits["future"].mean((1, 2)) < digits["momentum"].mean((1, 2))).all()


def test_the_control_is_ahead_at_another_price(digits):
    last, first, _, X, real, seed = digits["compared"]
    own, nobody, generator = [], [], torch.Generator().manual_seed(seed)
    for k, a in enumerate(stored.reads(last, X, real)):
        W, W_0 = (stored.centred(P, k) for P in (last, first))
        R = stored.of_tokens(a, real, W.shape[1], generator)
        R = R * ((W - W_0).norm(dim=(-2, -1)) / R.norm(dim=(-2, -1)))[..., None, None]
        for found, moved in ((own, W - W_0), (nobody, R)):
            fitted = svm.solve_soft(*spread(a, stored.choice(W_0 + moved, a, real)), 30.0)
            found.append(stored.cosine(moved, fitted.value).mean(1))
    assert (torch.stack(nobody).mean(0) > torch.stack(own).mean(0) + 0.03).all()


def test_adam_moves_nobodys_keys_and_queries_as_far_as_it_should():
    generator = torch.Generator().manual_seed(7)
    K, Q = torch.randn(2, 1, 3, 6, 2, generator=generator, dtype=torch.float64)
    R = torch.randn(1, 3, 6, 6, generator=generator, dtype=torch.float64)
    R, far = R / R.norm(dim=(-2, -1), keepdim=True), torch.tensor([[0.2, 0.5, 1.0]], dtype=torch.float64)
    moved = stored.moved_by_adam(K, Q, R, far, stored.centre)
    torch.testing.assert_close(moved.norm(dim=(-2, -1)), far, rtol=1e-3, atol=0)
    torch.testing.assert_close(moved.sum(-1), torch.zeros(1, 3, 6, dtype=torch.float64), rtol=0, atol=1e-9)
    longer = stored.moved_by_adam(K, Q, 1e3 * R, far, stored.centre)
    torch.testing.assert_close(longer, moved, rtol=0, atol=1e-5)


def test_transformers_on_ten_sequences_have_less_of_an_excess_than_the_layer(control):
    found = stored.on_ten("digits", trials=2, seed=4713, steps=300)
    for name in ("own", "flow", "adam"):
        assert found[f"{name}_seen_nuclear"].shape == (2, 2, 4)
    assert (found["train"] == 1).all()
    assert (found["flow_unseen"].mean() > found["own_unseen"].mean() - 0.08).all()
    seen, unseen = (found[f"own_{who}"] - found[f"flow_{who}"] for who in ("seen", "unseen"))
    excess = (leads(control, "seen") - leads(control, "unseen"))[0, 1]
    assert ((seen - unseen).mean((1, 2)) < excess).all()


def test_the_nuclear_soft_svm_becomes_the_hard_one_with_its_price():
    generator = torch.Generator().manual_seed(5)
    a = torch.nn.functional.normalize(
        torch.randn(2, 3, 4, 6, generator=generator, dtype=torch.float64), dim=-1
    )
    real = torch.ones(a.shape[:3], dtype=torch.bool)
    selected = stored.choice(torch.randn(2, 1, 6, 6, generator=generator, dtype=torch.float64), a, real)
    hard = svm.solve(taken_apart.hard(a, a, selected[:, 0]), norm="nuc").value
    low, high = (stored.cosine(stored.nuclear_svm(a, real, selected, C)[:, 0], hard) for C in (1.0, 300.0))
    assert (low < 0.98).all()
    assert (high > 0.999).all()
    assert (stored.cosine(svm.solve_soft(a[:, None], selected, 300.0).value[:, 0], hard) < 0.97).all()
    with pytest.raises(ValueError, match="are left after 20 steps"):
        stored.nuclear_svm(a, real, selected, 300.0, steps=20)


def test_padding_does_not_count_in_the_nuclear_soft_svm():
    generator = torch.Generator().manual_seed(6)
    a = torch.randn(1, 2, 5, 4, generator=generator, dtype=torch.float64)
    real = (torch.arange(5) < 4).expand(1, 2, 5)
    selected = torch.zeros(1, 1, 2, 5, dtype=torch.int64)
    short = stored.nuclear_svm(a[:, :, :4], real[..., :4], selected[..., :4])
    torch.testing.assert_close(stored.nuclear_svm(a, real, selected), short)


def spread(a, selected):
    """The tokens once for each head, and what each head selects."""
    return a[:, None].expand(-1, selected.shape[1], *a.shape[1:]), selected


def test_attention_sharpens_while_the_data_are_fitted(digits):
    entropy, right = digits["entropy"].mean((2, 3)), digits["train"]
    assert (right[:, -1] > 0.97).all()
    for e, r in zip(entropy, right, strict=True):
        at = int((r >= 0.97).int().argmax())
        assert e[0] - e[at] > 0.75 * (e[0] - e[-1])
        assert e[-1] > 0.3


def test_layer_two_agrees_and_the_best_token_seldom_wins(digits):
    assert (digits["agree"][:, 1].mean(-1) > digits["chance_agree"][:, 1].mean(-1) + 0.3).all()
    assert (digits["best"].mean((1, 2)) < 0.25).all()


@pytest.mark.parametrize(("T", "C"), [(5, 1.0), (12, 0.01), (24, 30.0)])
def test_for_orthonormal_tokens_the_cosine_follows_its_law_at_each_price(T, C):
    generator = torch.Generator().manual_seed(T)
    X = torch.eye(T, dtype=torch.float64).expand(40, 1, T, T)
    real = torch.ones(X.shape[:3], dtype=torch.bool)
    W = stored.of_tokens(X, real, 1, generator)[:, 0]
    found = stored.cosine(W, svm.solve_soft(X, stored.choice(W[:, None], X, real)[:, 0], C).value).mean()
    largest = torch.randn(50_000, T, generator=generator, dtype=torch.float64).amax(-1).mean()
    assert abs(found - largest * T**0.5 / (T - 1)) < 0.03


@pytest.fixture(scope="module")
def ends():
    """What training comes to on sentences of another size, for four settings."""
    sentences = taken_apart.few_sentences(3, 82, n=10, T=11)
    settings = ("base", "+ every token asks", "+ norm before the head", "+ residual and MLP")
    return {setting: taken_apart.at_the_end(setting, sentences, seed=82) for setting in settings}


def test_the_best_token_wins_in_most_choices_where_the_theory_holds(ends):
    for setting in ("base", "+ every token asks"):
        assert (ends[setting]["best"] > 0.5).all()
    assert (ends["+ norm before the head"]["best"] < 0.5).all()


def test_under_the_norm_a_mixture_beats_each_token_and_an_mlp_gains_by_a_decision(ends):
    plain, normed, mlp = (
        ends[setting] for setting in ("base", "+ norm before the head", "+ residual and MLP")
    )
    torch.testing.assert_close(plain["loss"], plain["sharp"], atol=2e-4, rtol=0)
    assert (plain["loss"] >= plain["alone"] - 1e-8).all()  # a weighted mean of values is no better
    assert (normed["loss"] < normed["alone"] - 2e-3).all()
    assert (normed["loss"] < normed["sharp"] - 2e-3).all()
    assert (mlp["sharp"] < mlp["loss"] - 1).all()
    assert (mlp["best"] > 0.6).all()
