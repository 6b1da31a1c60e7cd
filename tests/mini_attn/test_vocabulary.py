"""Next-token data: realisable by construction, and their order by definition."""

import itertools

import pytest
import torch

from mini_attn.vocabulary import NextTokens, closure, next_tokens, priorities, same_component


@pytest.mark.parametrize(("V", "targets", "trials"), [(6, None, 4), (7, 3, 4), (5, None, None)])
def test_drawn_data_are_realisable(V, targets, trials):
    data, rank = next_tokens(12, 4, V, queries=2, targets=targets, trials=trials, seed=1)
    assert data.optimal.any(-1).all()
    assert int(data.tokens[..., -1].max()) < 2
    assert not closure(priorities(data)).diagonal(dim1=-2, dim2=-1).any()
    if targets is None:
        assert torch.equal(data.following.sort(-1).values, torch.arange(V).expand(data.following.shape))
    else:
        assert int(data.following.max()) == targets - 1
    new, same = next_tokens(9, 6, V, queries=2, targets=targets, trials=trials, seed=2, rank=rank, like=data)
    assert same is rank
    both = priorities(data) | priorities(new)
    assert not closure(both).diagonal(dim1=-2, dim2=-1).any()  # one language, one order


def test_the_sequences_are_the_same_for_all_embeddings():
    one, two = (next_tokens(5, 3, 6, d, trials=2, seed=3)[0] for d in (None, 4))
    assert torch.equal(one.tokens, two.tokens)
    assert torch.equal(one.target, two.target)
    assert two.X.shape == (2, 5, 3, 4)
    assert torch.equal(two.X[1, 2, 0], two.embeddings[1, two.tokens[1, 2, 0]])
    assert torch.equal(two.z, two.X[..., -1, :])


def test_priorities_by_definition():
    data, _ = next_tokens(10, 4, 5, queries=3, targets=3, trials=3, seed=4)
    above = priorities(data)
    for trial in range(3):
        expected = torch.zeros(5, 5, 5, dtype=torch.bool)
        for sequence, y in zip(data.tokens[trial].tolist(), data.target[trial].tolist(), strict=True):
            for a, b in itertools.product(sequence, repeat=2):
                follows = data.following[trial]
                expected[sequence[-1], a, b] |= bool(follows[a] == y) and bool(follows[b] != y)
        assert torch.equal(above[trial], expected)


def test_closure_and_components():
    above = torch.zeros(7, 7, dtype=torch.bool)
    for a, b in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (3, 2)):
        above[a, b] = True
    reach = closure(above)
    assert reach[0, 5]
    assert not reach[5, 0]
    assert reach.diagonal().nonzero().flatten().tolist() == [2, 3]
    assert not reach[6].any()
    together = same_component(above)
    assert together[2, 3]
    assert together.sum() == 7 + 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": torch.tensor([[0, 4]])}, "numbered 0 to 3"),
        ({"target": torch.tensor([0, 1])}, "target has shape"),
        ({"following": torch.zeros(3, dtype=torch.int64)}, "following has shape"),
        ({"tokens": torch.tensor([[0.0, 1.0]])}, "int64"),
        ({"embeddings": torch.eye(4, dtype=torch.int64)}, "floating"),
    ],
)
def test_data_that_do_not_fit_are_refused(change, says):
    good = {
        "embeddings": torch.eye(4, dtype=torch.float64),
        "following": torch.arange(4),
        "tokens": torch.tensor([[0, 1]]),
        "target": torch.tensor([1]),
    }
    NextTokens(**good)
    with pytest.raises(ValueError, match=says):
        NextTokens(**{**good, **change})


@pytest.mark.parametrize("change", [{"n": 0}, {"T": 2.5}, {"queries": 7}, {"targets": 0}])
def test_sizes_are_checked(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        next_tokens(**{"n": 3, "T": 3, "V": 6, **change})
