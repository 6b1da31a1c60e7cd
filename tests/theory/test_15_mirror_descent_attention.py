"""Lesson 15. Mirror descent: where W goes in another norm, which tokens it can hold, and how sparse it is.

Julistiono, Tarzanagh and Azizan 2024, informally: mirror descent in l_rho goes to the l_rho Att-SVM of a
locally optimal choice. Measured here, on other seeds and sizes than the lesson's: each run is near its own
SVM and not the others'; the divergence is the support comparisons' missing margin; a choice that is not
locally optimal is lost and one that is stays; a turn of the coordinates changes W unless rho = 2.
"""

import dataclasses
import math

import pytest
import torch

from course.replicate.lesson_15 import descended, kept, solution
from mini_attn import data, geometry, svm, train


@pytest.fixture(scope="module")
def runs():
    """20 data sets of 4 sequences of 5 tokens in 7 dimensions; three exponents."""
    tokens = data.random_tokens(4, 5, 7, trials=20, seed=151)
    return tokens, {rho: descended(tokens, rho, 1500, schedule=train.growing)[0] for rho in (1.3, 2.0, 3.0)}


def test_each_run_goes_to_the_svm_of_its_own_norm(runs):
    tokens, models_of = runs
    for rho, model in models_of.items():
        selected = kept(tokens, model)
        apart = {one: geometry.bregman(model.W, solution(tokens, selected, one), rho) for one in models_of}
        assert apart[rho].median() < (3e-3 if rho == 3 else 1e-3)
        for other in set(models_of) - {rho}:
            assert apart[other].median() > 8 * apart[rho].median()
            assert apart[other].median() > 0.02


@pytest.mark.parametrize("rho", [1.3, 3.0])
def test_the_divergence_is_the_margin_that_support_comparisons_lack(runs, rho):
    tokens, models_of = runs
    W = models_of[2.0].W  # far from the SVM in l_rho
    problem = svm.attention_problem(tokens.X, tokens.z, kept(tokens, models_of[2.0]))
    limit = svm.solve(problem, norm=rho)
    q = limit.dual / limit.dual.sum(-1, keepdim=True)
    leads = problem.forward(W) * limit.objective[:, None]
    leads = leads / torch.linalg.vector_norm(W.flatten(1), ord=rho, dim=1, keepdim=True)
    D = geometry.bregman(W, limit.value, rho)
    torch.testing.assert_close(D, 1 - (q * leads).sum(-1), atol=1e-4, rtol=0)
    assert (1 - leads.amin(-1) > D - 1e-4).all()
    assert (
        (geometry.bregman(limit.value, W, rho) - D).abs() > 2e-4
    ).double().mean() > 0.8  # the rival, reversed


def test_what_is_not_locally_optimal_is_lost_and_what_is_stays(runs):
    tokens = data.random_tokens(6, 8, 6, trials=60, seed=152)  # low dimension: more support tokens matter
    model, _ = descended(tokens, 1.5, 1000, schedule=train.growing)
    chosen = kept(tokens, model)
    least = geometry.margins(model.logits(tokens), chosen).amin((-2, -1))
    settled = (model.attention(tokens).amax(-1) > 0.99).all(-1) & (least > 0)
    far = 8 * model.W / least.clamp(min=1e-9)[:, None, None]
    far = torch.where(settled[:, None, None], far, 0.0)
    after, _ = descended(tokens, 3.0, 3000, far, schedule=train.growing)
    held = (kept(tokens, after) == chosen).all(-1)
    logits = tokens.compare(tokens.z @ solution(tokens, chosen, 3.0).mT)
    could = geometry.locally_optimal(tokens.scores, logits, chosen, tol=1e-3)
    assert (settled & ~could).sum() >= 3
    assert (held & settled & ~could).sum() <= 0.34 * (settled & ~could).sum()
    assert (held & settled & could).sum() >= 0.9 * (settled & could).sum()


@pytest.mark.parametrize("rho", [1.2, 2.0])
def test_a_turn_of_the_coordinates_changes_w_unless_rho_is_2(rho):
    tokens = data.random_tokens(4, 4, 8, trials=15, seed=154)
    draw = torch.randn(8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    turn = torch.linalg.qr(draw)[0]
    turned = dataclasses.replace(tokens, X=tokens.X @ turn, z=tokens.z @ turn, v=tokens.v @ turn)
    plain, other = (descended(each, rho, 800, schedule=train.growing)[0] for each in (tokens, turned))
    cosine = geometry.cosine(turn @ other.W @ turn.T, plain.W).median()
    assert cosine > 0.999 if rho == 2 else cosine < 0.9


def test_with_short_steps_each_locally_optimal_choice_is_held():
    tokens = data.random_tokens(6, 8, 10, trials=30, seed=9)
    model, _ = descended(tokens, 2.0, 1000, schedule=train.growing)
    chosen = kept(tokens, model)
    lead = geometry.margins(model.logits(tokens), chosen).amin((-2, -1))
    logits = tokens.compare(tokens.z @ solution(tokens, chosen, 1.1).mT)
    could = geometry.locally_optimal(tokens.scores, logits, chosen, tol=1e-3)
    far, held = 10 * model.W / lead[:, None, None], {}
    for eta in (0.1, 0.001):
        after, _ = descended(tokens, 1.1, 1000, far, eta=eta, schedule=train.growing)
        held[eta] = (kept(tokens, after) == chosen).all(-1)
    assert torch.equal(held[0.001] & could, could)
    assert (held[0.1] & could).sum() < could.sum()


@pytest.mark.parametrize(("rho", "eta"), [(1.25, 0.1), (1.5, 0.1), (1.5, 1.0)])
def test_the_divergence_falls_as_the_square_of_the_mirror_image_and_long_steps_cancel(rho, eta):
    tokens = data.random_tokens(4, 5, 7, trials=20, seed=157)
    how = {"record": {"W": lambda model: model.W}, "every": [1000, 4000]}
    model, history = descended(tokens, rho, 4000, eta=eta, **how)
    both = history["W"][1:]
    rows = svm.attention_problem(tokens.X, tokens.z, kept(tokens, model))
    own = svm.solve(rows, norm=rho)
    falls = torch.stack([geometry.bregman(W, own.value, rho) for W in both]).log().diff(dim=0)[0]
    length = torch.linalg.vector_norm(both, rho, dim=(-1, -2)) ** (rho - 1)
    assert abs((falls / length.log().diff(dim=0)[0]).median() + 2) < 0.1
    dual = rho / (rho - 1)
    foreseen = 1 / (own.dual * rows.a.norm(p=dual, dim=-1) * rows.b.norm(p=dual, dim=-1)).sum(-1)
    off = length[1] / (4000 * eta) / foreseen - 1
    power = falls.median() / math.log(4)
    if (rho, eta) == (1.5, 0.1):  # in between: steps begin to cancel
        assert -1.7 < power < -1.3
        assert off.min() > 0.3
    else:
        assert -2.1 < power < -1.8
        assert 0 < off.min() < off.max() < 0.08
