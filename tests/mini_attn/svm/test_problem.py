"""The problem's rows, its constructors, and what it refuses."""

import pytest
import torch

from mini_attn import svm


def problem(m=3, d1=4, d2=2, batch=(), dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(*batch, m, d1, generator=generator, dtype=dtype)
    b = torch.randn(*batch, m, d2, generator=generator, dtype=dtype)
    return svm.HardMarginProblem(a, b, torch.ones(*batch, m, dtype=dtype))


@pytest.mark.parametrize(("m", "piece"), [(3, 2**16), (7, 3), (6, 3), (0, 3)])
def test_forward_and_adjoint_agree_with_the_expanded_rows(monkeypatch, m, piece):
    monkeypatch.setattr("mini_attn.svm.problem.PIECE", piece)
    p = problem(m, batch=(5,))
    W, dual = torch.randn(5, 4, 2, dtype=torch.float64), torch.randn(5, m, dtype=torch.float64)
    rows = torch.einsum("...mi,...mj->...mij", p.a, p.b)
    torch.testing.assert_close(p.forward(W), torch.einsum("...mij,...ij->...m", rows, W))
    torch.testing.assert_close(p.adjoint(dual), torch.einsum("...m,...mij->...ij", dual, rows))


def test_forward_and_adjoint_of_a_vector_problem():
    p = svm.HardMarginProblem(problem().a, None, torch.ones(3, dtype=torch.float64))
    w, dual = torch.randn(4, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    torch.testing.assert_close(p.forward(w), p.a @ w)
    torch.testing.assert_close(p.adjoint(dual), p.a.T @ dual)


def test_token_rows_are_winner_minus_each_other_token():
    keys = torch.arange(12.0).reshape(2, 3, 2) ** 2
    p = svm.token_problem(keys, torch.tensor([1, 2]))
    k = keys
    expected = torch.stack([k[0, 1] - k[0, 0], k[0, 1] - k[0, 2], k[1, 2] - k[1, 0], k[1, 2] - k[1, 1]])
    assert torch.equal(p.a, expected)
    assert p.b is None
    assert torch.equal(p.r, torch.ones(4))


def test_attention_rows_pair_the_difference_with_the_query():
    X, z = torch.randn(3, 2, 4, 5), torch.randn(3, 2, 5)
    selected = torch.tensor([[0, 3], [1, 1], [2, 0]])
    p = svm.attention_problem(X, z, selected)
    W = torch.randn(3, 5, 5)
    logits = torch.einsum("bntd,bde,bne->bnt", X, W, z)
    winner = logits.gather(-1, selected[..., None])
    others = torch.ones(3, 2, 4, dtype=torch.bool).scatter(-1, selected[..., None], False)
    torch.testing.assert_close(p.forward(W).reshape(3, 2, 3), (winner - logits)[others].reshape(3, 2, 3))


def test_label_rows_take_integer_labels():
    X = torch.randn(5, 2)
    y = torch.tensor([1, -1, 1, 1, -1])
    assert torch.equal(svm.label_problem(X, y).a, y[:, None] * X)


def test_masked_rows_vanish_whatever_they_held():
    p = problem()
    a = torch.cat([p.a, torch.full((1, 4), torch.nan, dtype=torch.float64)])
    b, r = torch.cat([p.b, p.b[:1]]), torch.cat([p.r, p.r[:1]])
    padded = svm.HardMarginProblem(a, b, r, mask=torch.tensor([True, True, True, False]))
    assert padded.r[-1] == 0
    assert not padded.a[-1].any()


GOOD = {"a": torch.ones(3, 4), "b": torch.ones(3, 2), "r": torch.ones(3)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": [[1.0]]}, r"a must be a torch tensor, got list; use torch.as_tensor\(a\)"),
        (
            {"a": torch.ones(3, 4, dtype=torch.int64)},
            r"must be float32 or float64, got torch.int64; use a\.d",
        ),
        ({"a": torch.ones(3)}, "a must have 2 dimensions or more"),
        ({"b": torch.ones(3, 2).double()}, "a is torch.float32 on cpu but b is torch.float64"),
        ({"b": torch.ones(2, 2)}, r"b has shape \(2, 2\), expected \(3, 'd2'\)"),
        ({"r": torch.ones(4)}, r"r has shape \(4,\), expected \(3,\)"),
        ({"equality": torch.ones(3)}, r"equality must be a bool tensor of shape \(3,\); got torch.float32"),
        ({"mask": torch.ones(2, dtype=torch.bool)}, r"mask must be a bool tensor of shape \(3,\)"),
        ({"r": torch.tensor([1.0, torch.inf, 1.0])}, r"r\[1\] is inf"),
        ({"b": torch.tensor([[1.0, 1.0], [1.0, torch.nan], [0.0, 0.0]])}, r"b\[1, 1\] is nan"),
    ],
)
def test_bad_problems_say_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        svm.HardMarginProblem(**(GOOD | change))


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        (torch.tensor([3]), "selected holds 3, but the 3 tokens"),
        (torch.tensor([-1]), "selected holds -1"),
        (torch.tensor([1.0]), "integers; got torch.float32"),
        (torch.tensor([0, 0]), r"shape \(1,\), a token number each"),
        (0, "got int"),
    ],
)
def test_bad_selections(selected, message):
    with pytest.raises(ValueError, match=message):
        svm.token_problem(torch.ones(1, 3, 2), selected)


def test_each_sequence_may_have_its_own_lead():
    keys = torch.tensor([[[1.0, 0], [0, 0], [0, 2]], [[0, 1], [0, 0], [3, 0]]])
    selected = torch.tensor([0, 2])
    plain = svm.token_problem(keys, selected)
    relaxed = svm.token_problem(keys, selected, torch.tensor([1, 0]))
    assert torch.equal(relaxed.a, plain.a)
    assert relaxed.r.tolist() == [1, 1, 0, 0]
    batch = svm.token_problem(keys.expand(3, 2, 3, 2), selected.expand(3, 2), torch.ones(3, 2))
    assert torch.equal(batch.r, plain.r.expand(3, 4))


def test_bad_leads():
    with pytest.raises(ValueError, match=r"lead must be a tensor of shape \(2,\), one number per sequence"):
        svm.token_problem(torch.ones(2, 3, 2), torch.tensor([0, 1]), torch.ones(4))


def test_bad_labels_and_queries():
    with pytest.raises(ValueError, match=r"labels y must be -1 or \+1"):
        svm.label_problem(torch.ones(2, 2), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"y must be a tensor of shape \(2,\)"):
        svm.label_problem(torch.ones(2, 2), torch.tensor([1]))
    with pytest.raises(ValueError, match="one query per sequence"):
        svm.attention_problem(torch.ones(2, 3, 4), torch.ones(3, 4), torch.tensor([0, 0]))
    with pytest.raises(ValueError, match=r"X is torch.float32 on cpu but z is torch.float64"):
        svm.attention_problem(torch.ones(2, 3, 4), torch.ones(2, 4).double(), torch.tensor([0, 0]))


def test_an_index_picks_problems_and_never_rows():
    a = torch.randn(3, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    batch = svm.HardMarginProblem(a, None, torch.ones(3, 3, dtype=torch.float64))
    assert batch[1].batch_shape == ()
    assert batch[torch.tensor([True, False, True])].batch_shape == (2,)
    for index in ((slice(None), 0), (0, 0)):
        with pytest.raises(IndexError, match="leading dimensions"):
            batch[index]
    with pytest.raises(IndexError, match="not rows"):
        batch[0][0]
    whole = svm.HardMarginProblem(
        a.expand(2, 3, 3, 2), None, batch.r.expand(2, 3, 3), batch.r.expand(2, 3, 3) > 0
    )
    for index, same in ((..., 1), (slice(None), 1)), ((1, ..., [0, 2]), (1, [0, 2])), (..., slice(None)):
        found, wanted = whole[index], whole[same]
        assert found.batch_shape == wanted.batch_shape
        assert torch.equal(found.a, wanted.a)
        assert torch.equal(found.equality, wanted.equality)
    assert batch[0][...].a.shape == (3, 2)
    with pytest.raises(IndexError, match="not rows"):
        batch[0][..., 0]


def test_labels_that_are_truth_values_are_refused():
    with pytest.raises(ValueError, match=r"y = 2\.0"):
        svm.label_problem(torch.ones(2, 2, dtype=torch.float64), torch.tensor([True, True]))


def test_what_is_no_real_dense_number_is_refused():
    X = torch.ones(2, 3, 4, dtype=torch.float64)
    selected = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match="keys must be dense"):
        svm.token_problem(X.to_sparse(), selected)
    with pytest.raises(ValueError, match="lead holds real numbers"):  # its imaginary part was dropped
        svm.token_problem(X, selected, lead=torch.tensor([1j, 2j]))
    with pytest.raises(ValueError, match="data must be TokenData, got str"):
        svm.sequence_problem("data", selected)
    with pytest.raises(ValueError, match="expected a HardMarginProblem"):
        svm.exact_ray("problem", selected)


def test_points_without_coordinates_have_no_w():
    X = torch.zeros(2, 3, 0, dtype=torch.float64)
    problems = svm.label_problem(X[0], torch.ones(3)), svm.token_problem(X, torch.tensor([0, 1]))
    for problem in problems:
        assert svm.solve(problem, throw=False).status == "infeasible"
