"""The SVMs of next-token prediction: rows by definition, answers by hand."""

import pytest
import torch

from mini_attn import svm
from mini_attn.vocabulary import next_tokens, priorities


def test_the_collocations_rows_by_definition():
    data, _ = next_tokens(3, 3, 4, d=5, trials=2, seed=1, targets=2)
    problem = svm.next_problem(data.embeddings, data.following)
    units = torch.eye(4, dtype=torch.float64)
    for trial in range(2):
        pairs = [(c, u) for c in range(4) for u in range(4) if u != data.following[trial, c]]
        a = torch.stack([units[data.following[trial, c]] - units[u] for c, u in pairs])
        assert torch.equal(problem.a[trial], a)
        assert torch.equal(problem.b[trial], data.embeddings[trial][[c for c, _ in pairs]])
    assert (problem.r == 1).all()


def test_unit_vectors_by_hand():
    following = torch.tensor([2, 2, 0, 1])
    W = svm.solve(svm.next_problem(torch.eye(4, dtype=torch.float64), following)).value
    expected = torch.nn.functional.one_hot(following, 4).T.double() - 0.25
    torch.testing.assert_close(W, expected, rtol=0, atol=1e-8)


def test_order_rows_by_definition():
    data, _ = next_tokens(5, 3, 4, d=6, trials=3, seed=2, queries=2)
    above = priorities(data)
    problem = svm.order_problem(data.embeddings, above)
    for trial in range(3):
        q, a, b = above[trial].nonzero().T
        E, rows = data.embeddings[trial], len(q)
        assert int(problem.mask[trial].sum()) == rows
        assert torch.equal(problem.a[trial, :rows], E[a] - E[b])
        assert torch.equal(problem.b[trial, :rows], E[q])


def test_a_chain_is_evenly_spaced_and_ties_stand_level():
    above = torch.zeros(5, 5, 5, dtype=torch.bool)
    above[2, 0, 1] = above[2, 1, 3] = above[4, 1, 0] = True
    E = torch.eye(5, dtype=torch.float64)
    W = svm.solve(svm.order_problem(E, above)).value
    assert W[:, 2].tolist() == pytest.approx([1, 0, 0, -1, 0], abs=1e-8)
    assert W[:, 4].tolist() == pytest.approx([-0.5, 0.5, 0, 0, 0], abs=1e-8)
    tied = torch.zeros_like(above)
    tied[2, 0, 1] = True
    W = svm.solve(svm.order_problem(E, above, tied)).value
    assert W[:, 2].tolist() == pytest.approx([1 / 3, 1 / 3, 0, -2 / 3, 0], abs=1e-8)


def test_shapes_are_checked():
    E = torch.eye(3, dtype=torch.float64)
    with pytest.raises(ValueError, match="above must be a bool tensor"):
        svm.order_problem(E, torch.zeros(3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="following must be"):
        svm.next_problem(E, torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="0 to V - 1"):
        svm.next_problem(E, torch.tensor([0, 1, 3]))
