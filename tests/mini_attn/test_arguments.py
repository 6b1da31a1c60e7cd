"""Token numbers in any integer type mean what they say, and what is none is refused by name."""

import math

import pytest
import torch

from mini_attn import geometry, rates, svm
from mini_attn.arguments import bool_tensor, describe, token_numbers
from mini_attn.data import PointData, TokenData, every_position, random_tokens
from mini_attn.softmax import softmax
from mini_attn.sweep import wilson
from mini_attn.vocabulary import closure, next_tokens

UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", UNSIGNED + SIGNED)
@pytest.mark.parametrize("T", [3, 128, 256, 300])
def test_every_integer_type_counts_tokens(dtype, T):
    """T itself need not fit into the type: 300 is 44 in a byte."""
    given = torch.tensor([0, 2, 1]).to(dtype)
    assert token_numbers("selected", given, (3,), T, "cpu").tolist() == [0, 2, 1]
    X = torch.randn(3, T, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(T))
    expected = svm.token_problem(X, given.long()).a
    assert torch.equal(svm.token_problem(X, given).a, expected)
    assert torch.equal(geometry.margins(X[..., 0], given), geometry.margins(X[..., 0], given.long()))


@pytest.mark.parametrize(("dtype", "V"), [(torch.int8, 128), (torch.uint8, 256), (torch.uint64, 3)])
def test_every_integer_type_names_the_token_that_follows(dtype, V):
    """Of these V (V - 1) rows are many: only where the number of tokens just does not fit the type."""
    embeddings, follow = torch.eye(V, 2, dtype=torch.float64), torch.zeros(V, dtype=torch.int64)
    follow[:3] = torch.tensor([1, 0, 2])
    given, expected = (svm.next_problem(embeddings, numbers) for numbers in (follow.to(dtype), follow))
    assert torch.equal(given.a, expected.a)
    assert torch.equal(given.b, expected.b)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.tensor([0, 3]), "selected holds 3, but the 3 tokens are numbered 0 to 2"),
        (torch.tensor([-1, 0]), "selected holds -1"),
        (torch.tensor([0, 2**63 + 5], dtype=torch.uint64), f"selected holds {2**63 + 5}, but"),
        (torch.tensor([0.0, 1.0]), "token numbers, so integers; got torch.float32"),
        (torch.tensor([True, False]), "got torch.bool"),
        (torch.tensor([0]), r"shape \(2,\), a token number each; got torch.int64 of shape \(1,\)"),
        (torch.tensor([0, 1]).to_sparse(), "sparse"),
        ([0, 1], "got list"),
    ],
)
def test_what_is_no_token_number_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        token_numbers("selected", given, (2,), 3, "cpu")
    data = random_tokens(2, 3, 2, seed=0)
    for of in (rates.strengths, lambda data, given: rates.log_excess(data.scores, data, given)):
        with pytest.raises(ValueError, match=said):
            of(data, given)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint64, torch.int64])
@pytest.mark.parametrize("anything", [-100, -1, 3, 2**7 - 1])
def test_a_token_selected_at_padding_means_nothing(anything, dtype):
    X = torch.eye(3, dtype=torch.float64)[None]
    mask = torch.tensor([[True, True, False]])
    given = torch.tensor([[1, 0, anything]]).to(dtype)
    expected = svm.solve_soft(X, torch.tensor([[1, 0, 0]]), C=1.0, mask=mask)
    assert torch.equal(svm.solve_soft(X, given, C=1.0, mask=mask).value, expected.value)
    with pytest.raises(ValueError, match=r"selected holds .*\d, but the 3 tokens"):
        svm.solve_soft(X, given, C=1.0)
    with pytest.raises(ValueError, match="selected holds 3"):
        svm.solve_soft(X, torch.tensor([[3, 0, 0]]), C=1.0, mask=mask)


def test_attention_is_real():
    data, kept = random_tokens(2, 3, 2, seed=0), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="log_attention holds real numbers"):
        svm.ratio_problem(data.X, data.z, kept, torch.zeros(2, 3, dtype=torch.complex128))


def test_bytes_are_compared_as_numbers():
    """-128 has no absolute value in a byte."""
    byte = torch.tensor([-128, -128], dtype=torch.int8)
    assert geometry.cosine(byte, torch.ones_like(byte)) == pytest.approx(-1)
    assert geometry.bregman(byte, -torch.ones_like(byte), 2) == pytest.approx(0, abs=1e-12)
    y = torch.tensor([1, 1], dtype=torch.uint16)
    assert svm.label_problem(torch.eye(2), y).a.tolist() == torch.eye(2).tolist()


def test_numbers_beyond_floats_are_refused_in_words():
    X, y = torch.eye(2, dtype=torch.float64), torch.ones(2)
    with pytest.raises(ValueError, match="norm must be"):
        svm.solve(svm.label_problem(X, y), 10**400)
    with pytest.raises(ValueError, match="finite exponent"):
        geometry.bregman(X, X, 10**400)
    with pytest.raises(ValueError, match="positive finite price"):
        svm.solve_soft(X[None], torch.zeros(1, 2, dtype=torch.int64), C=10**400)
    with pytest.raises(ValueError, match="finite counts"):
        wilson(3, math.inf)
    with pytest.raises(ValueError, match="level"):
        wilson(3, 10, 1 - 1e-16)
    assert wilson(1e155, 2e155) == pytest.approx((0.5, 0.5))


def test_empty_data_are_refused_in_words():
    empty = torch.zeros(0, 2, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="at least one sequence"):
        svm.solve_soft(empty, torch.zeros(0, 2, dtype=torch.int64), C=1.0)
    with pytest.raises(ValueError, match="V = 0"):
        svm.next_problem(torch.zeros(0, 0), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match="a record or more"):
        rates.slope(torch.zeros(0), torch.zeros(0))
    with pytest.raises(ValueError, match="draws = 0"):
        rates.interval(torch.ones(3), draws=0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"trials": -1}, "trials = -1"),
        ({"trials": True}, "trials = True"),
        ({"d": 0}, "d = 0"),
        ({"rank": torch.full((4, 4), math.nan)}, "without NaN"),
        ({"rank": torch.zeros(3, 4)}, r"shape \(4, 4\)"),
        ({"like": 3}, "got int"),
        ({"like": next_tokens(2, 2, 3)[0]}, r"like.following must be a tensor of shape \(4,\)"),
    ],
)
def test_what_next_tokens_cannot_draw_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        next_tokens(3, 3, 4, **wrong)


@pytest.mark.parametrize(
    "above", [torch.zeros(3, 3), torch.zeros(3, dtype=torch.bool), [[True]], torch.tensor(True)]
)
def test_an_order_is_square_and_bool(above):
    with pytest.raises(ValueError, match="bool tensor"):
        closure(above)


def test_a_mask_on_another_device_says_how_to_move_it():
    mask = torch.tensor([True, False])
    assert bool_tensor("mask", mask, (2,), mask.device) is mask
    with pytest.raises(ValueError, match=r"mask is on cpu, the rest on cuda:0; move it: mask.to\('cuda:0'\)"):
        bool_tensor("mask", mask, (2,), torch.device("cuda:0"))


def nested(tensor):
    return torch.nested.nested_tensor([tensor.reshape(-1), tensor.reshape(-1)[:1]])


def jagged(tensor):
    return torch.nested.nested_tensor([tensor.reshape(-1), tensor.reshape(-1)[:1]], layout=torch.jagged)


def quantized(tensor):
    return torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8)


def meta(tensor):
    return tensor.to("meta")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:.*quantiz")
@pytest.mark.parametrize("kind", [nested, jagged, quantized, meta, torch.Tensor.to_sparse])
def test_no_tensor_without_numbers_is_taken(kind):
    X = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    z, flags, label, number = X[:, 0], X[..., 0] >= 0, X.new_ones(2), torch.zeros(2, dtype=torch.int64)
    problem, square = svm.HardMarginProblem, torch.ones(3, 3, dtype=torch.bool)
    calls = {
        "a": lambda bad: problem(bad(X), None, X[..., 0]),
        "equality": lambda bad: problem(X, None, X[..., 0], equality=bad(flags)),
        "mask": lambda bad: problem(X, None, X[..., 0], mask=bad(flags)),
        "keys": lambda bad: svm.token_problem(bad(X), number),
        "selected": lambda bad: svm.token_problem(X, bad(number)),
        "lead": lambda bad: svm.token_problem(X, number, lead=bad(label)),
        "mask ": lambda bad: svm.token_problem(X, number, mask=bad(flags)),
        "z": lambda bad: svm.attention_problem(X, bad(z), number),
        "y": lambda bad: svm.label_problem(z, bad(label)),
        "X": lambda bad: svm.mixture_problem(bad(X), z, flags),
        "kept": lambda bad: svm.mixture_problem(X, z, bad(flags)),
        "mask  ": lambda bad: svm.mixture_problem(X, z, flags, bad(flags)),
        "log_attention": lambda bad: svm.ratio_problem(X, z, flags, bad(X[..., 0])),
        "mask   ": lambda bad: svm.solve_soft(X, flags.long(), C=1.0, mask=bad(flags)),
        "selected ": lambda bad: svm.solve_soft(X, bad(flags.long()), C=1.0),
        "following": lambda bad: svm.next_problem(X[0], bad(torch.zeros(3, dtype=torch.int64))),
        "above": lambda bad: closure(bad(square)),
        "logits": lambda bad: softmax(bad(X)),
        "logits ": lambda bad: geometry.margins(bad(X), number),
        "selected  ": lambda bad: geometry.margins(X, bad(number)),
        "attention": lambda bad: geometry.selected_tokens(bad(X)),
        "weights": lambda bad: geometry.cosine(z, bad(z)),
        "X ": lambda bad: TokenData(bad(X), z, label, X[0, 0]),
        "X  ": lambda bad: PointData(bad(z), label),
        "y ": lambda bad: every_position(X, bad(X[..., 0]), X[0, 0]),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name.strip()} must be dense, got torch"):
            call(kind)
    assert "torch.q" in describe(kind(z)) or "torch.float64" in describe(kind(z))
