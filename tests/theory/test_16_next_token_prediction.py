"""Lesson 16. Next-token prediction: two stages, two SVMs, and what a trained model says of new sequences.

Huang, Liang and Yang 2024, informally: normalised descent on W_ov over the collocation goes to its SVM of
many classes, and then on W_kq to the SVM of the order that realisable data ask for. Measured here, on other
seeds and sizes than the lesson's: both; only the data's relations are rows; the slope of log(L - L_inf) is
-eta / |W_kq|; decided new sequences are answered rightly, and those against the order wrongly; of two optimal
tokens one wins, or they tie. Li et al. 2024: with cycles, W_fin and R W_dir.
"""

import pytest
import torch

from course.replicate import lesson_16 as replicate
from course.replicate.lesson_16 import cycles
from mini_attn import geometry, svm, train
from mini_attn.next_token import NextTokenTransformer, collocation, descend
from mini_attn.vocabulary import closure, next_tokens, priorities


@pytest.mark.parametrize(("V", "d"), [(12, 12), (9, 15)])
def test_stage_one_goes_to_the_svm_of_the_collocation(V, d):
    data, _ = next_tokens(1, 2, V, d, trials=10, seed=41)
    limit = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = NextTokenTransformer(V, d, trials=10)
    descend(model, collocation(data), 1, train=["W_ov"])
    assert (geometry.cosine(model.W_ov.detach(), limit) < 0.97).all()
    descend(model, collocation(data), 1000, train=["W_ov"], schedule=train.growing)
    assert (geometry.cosine(model.W_ov.detach(), limit) > 0.999).all()


def test_with_unit_vectors_one_step_is_enough():
    data, _ = next_tokens(1, 2, 13, targets=6, trials=5, seed=42)
    limit = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = NextTokenTransformer(13, 13, trials=5)
    descend(model, collocation(data), 1, train=["W_ov"])
    assert (geometry.cosine(model.W_ov.detach(), limit) > 1 - 1e-12).all()


@pytest.fixture(scope="module")
def stage_two():
    """25 data sets of 30 sequences of 6 tokens from 14, five queries; unit vectors."""
    data, rank = next_tokens(30, 6, 14, queries=5, trials=25, seed=43)
    W_ov = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = NextTokenTransformer(14, 14, 25, W_ov=10 * W_ov)
    descend(model, data, 600, schedule=train.growing)
    return data, rank, 10 * W_ov, model.requires_grad_(False)


def test_stage_two_goes_to_the_svm_of_the_datas_relations(stage_two):
    data, rank, _, model = stage_two
    solution = svm.solve(svm.order_problem(data.embeddings, priorities(data)))
    assert (geometry.cosine(model.W_kq, solution.value) > 0.99).all()
    by_token = rank.gather(-1, data.following[:, None].expand(25, 14, 14))
    whole = by_token[..., :, None] > by_token[..., None, :]
    asked = priorities(data).flatten(-2).any(-1)
    rival = svm.solve(svm.order_problem(data.embeddings, whole & asked[..., None, None])).value
    assert (geometry.cosine(model.W_kq, rival) < 0.9).all()


def test_the_slope_is_the_margin(stage_two):
    data, _, W_ov, _ = stage_two
    solution = svm.solve(svm.order_problem(data.embeddings, priorities(data)))
    model = NextTokenTransformer(14, 14, 25, W_ov=W_ov)
    lines = descend(model, data, 500, lr=0.5, record=lambda model: model.log_excess(data).detach(), every=250)
    ratio = (lines[2] - lines[1]) / 250 * solution.objective / -0.5
    assert ((ratio - 1).abs() < 0.03).all()
    assert (solution.objective > 2).all()  # the rival slope, -eta, is far off


def test_new_sequences(stage_two):
    data, rank, _, model = stage_two
    order, trial = closure(priorities(data)), torch.arange(25)[:, None, None]
    for sign, wants in ((rank, True), (1 - rank, False)):
        new, _ = next_tokens(300, 3, 14, queries=5, trials=25, seed=44, rank=sign, like=data)
        best = new.tokens.gather(-1, new.optimal.to(torch.int8).argmax(-1, keepdim=True))
        query = new.tokens[..., -1:]
        below = order[trial, query, best, new.tokens] | new.optimal
        against = order[trial, query, new.tokens, best].any(-1)
        asked = below.all(-1) if wants else against
        assert asked.sum() > 300
        assert ((model.predicted(new) == new.target)[asked] == wants).all()


def test_of_two_optimal_tokens_one_wins():
    data, _ = next_tokens(40, 4, 16, queries=8, targets=6, trials=20, seed=46)
    units = torch.eye(16, dtype=torch.float64)
    W_ov = units[data.following].mT - 1 / 16
    nearly = 1e-3 * torch.randn(20, 16, 16, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    model = NextTokenTransformer(16, 16, 20, W_ov=8 * W_ov, W_kq=nearly)  # at 0 two may be exactly level
    descend(model, data, 800, schedule=train.growing)
    model.requires_grad_(False)
    all_pairs = svm.solve(svm.order_problem(data.embeddings, priorities(data))).value
    s = model.attention(data)
    same = data.tokens[..., :, None] == data.tokens[..., None, :]
    per_token = (same * s[..., None, :]).sum(-1) * data.optimal
    chosen = data.tokens.gather(-1, per_token.argmax(-1, keepdim=True)).expand(data.tokens.shape)
    where = torch.arange(20)[:, None, None].expand(chosen.shape)
    query = data.tokens[..., -1:].expand(chosen.shape)
    above, loses = torch.zeros(20, 16, 16, 16, dtype=torch.bool), ~data.optimal
    above[where[loses], query[loses], chosen[loses], data.tokens[loses]] = True
    own = svm.solve(svm.order_problem(data.embeddings, above)).value
    columns = own.gather(-1, data.tokens[..., -1][:, None].expand(20, 16, -1)).mT
    gap = columns.gather(-1, chosen) - columns.gather(-1, data.tokens)
    others = data.optimal & (data.tokens != chosen)
    shares = others & (per_token > 0.01)
    assert shares.any()
    assert gap[shares].max() < 1e-6  # who shares is level in the SVM of the chosen
    assert gap[others & ~shares].min() > 0.01
    cosine = geometry.cosine(model.W_kq, own)
    assert cosine.min() > 0.999
    assert (cosine > geometry.cosine(model.W_kq, all_pairs)).all()
    assert geometry.cosine(model.W_kq, all_pairs).median() < 0.97


def test_cycles_leave_a_finite_part(monkeypatch):
    finite_part, found = replicate.finite_part, []

    def finite_part_once(data):
        found[:] = found or finite_part(data)
        return found

    monkeypatch.setattr(replicate, "finite_part", finite_part_once)  # the same after any number of steps
    late, early = (cycles(steps, trials=40, seed=47) for steps in (2000, 500))
    loops = late["cyclic"].numpy()
    assert 5 < loops.sum() < 35
    assert late["both"][loops].mean() > 0.97
    assert late["both"].mean() > early["both"].mean()
    assert not late["solvable"][loops].any()
