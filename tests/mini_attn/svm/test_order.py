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
    with pytest.raises(ValueError, match="numbered 0 to 2"):
        svm.next_problem(E, torch.tensor([0, 1, 3]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_the_next_tokens_may_be_integers_of_any_size(dtype):
    following = torch.tensor([1, 0, 2])
    small = svm.next_problem(torch.eye(3).double(), following.to(dtype))
    assert torch.equal(small.a, svm.next_problem(torch.eye(3).double(), following).a)


@pytest.mark.parametrize(
    ("embeddings", "following", "says"),
    [
        (torch.eye(2).double(), torch.tensor([True, False]), "so integers; got"),
        (torch.eye(2).double(), torch.tensor([1.0, 0.0]), "so integers; got"),
        ([[1.0, 0.0], [0.0, 1.0]], torch.tensor([1, 0]), "use torch"),
        (torch.ones(2), torch.tensor([1, 0]), "2 dimensions or more"),
    ],
)
def test_what_is_no_collocation_is_said(embeddings, following, says):
    with pytest.raises(ValueError, match=says):
        svm.next_problem(embeddings, following)


def test_an_order_of_no_tensor_is_said():
    with pytest.raises(ValueError, match="use torch"):
        svm.order_problem([[1.0, 0.0]], torch.zeros(1, 1, 1, dtype=torch.bool))
