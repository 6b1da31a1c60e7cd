import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_attn import models, svm
from mini_attn.data import TokenData
from mini_attn.svm.solution import violation

NORMS = ["fro", "nuc", "spectral", 1, 1.5, 3, math.inf]
few = settings(derandomize=True, max_examples=8, deadline=None)


def draw(n, T, d, batch=(), seed=0, share=0.5, whole=False):
    """Tokens, queries, and a mask of kept tokens, at least one in each sequence."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(*batch, n, T, d, generator=generator, dtype=torch.float64)
    z = torch.randn(*batch, n, d, generator=generator, dtype=torch.float64)
    kept = torch.rand(*batch, n, T, generator=generator) < share
    kept[..., 0] |= ~kept.any(-1)
    return (X.round(), z.round(), kept) if whole else (X, z, kept)


def logits(X, z, W):
    return torch.einsum("...ntd,...de,...ne->...nt", X, W, z)


def test_rows_are_those_of_the_definition():
    X, z, _ = draw(2, 3, 2)
    kept = torch.tensor([[False, True, True], [True, False, False]])
    problem = svm.mixture_problem(X, z, kept)
    expected = torch.stack([X[0, 1] - X[0, 0], X[0, 1] - X[0, 2], X[1, 0] - X[1, 1], X[1, 0] - X[1, 2]])
    assert torch.equal(problem.a, expected)
    assert torch.equal(problem.b, z.repeat_interleave(2, 0))
    assert problem.r.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert problem.is_equality.tolist() == [False, True, False, False]


def test_one_kept_token_is_a_selected_token_and_all_kept_ask_nothing():
    X, z, _ = draw(3, 4, 5, batch=(6,))
    selected = torch.randint(4, (6, 3), generator=torch.Generator().manual_seed(1))
    one = svm.mixture_problem(X, z, torch.nn.functional.one_hot(selected, 4).bool())
    expected = svm.solve(svm.attention_problem(X, z, selected))
    torch.testing.assert_close(svm.solve(one).value, expected.value)
    everything = svm.solve(svm.mixture_problem(X, z, torch.ones(6, 3, 4, dtype=torch.bool)))
    assert (everything.value == 0).all()
    assert set(everything.status) == {"optimal"}


@pytest.mark.parametrize("norm", NORMS)
def test_answers_keep_the_mixture_and_lead_the_rest(norm):
    X, z, kept = draw(3, 5, 6, batch=(30,))
    problem = svm.mixture_problem(X, z, kept)
    solution = svm.solve(problem, norm)
    h = logits(X, z, solution.value)
    top = h.masked_fill(~kept, -math.inf).amax(-1, keepdim=True)
    size = solution.objective[:, None, None] * 10  # X and z have length about 2.5 each
    assert ((top - h).masked_fill(~kept, 0.0) <= 1e-8 * size).all()
    assert ((top - h).masked_fill(kept, math.inf) >= 1 - 1e-8 * size).all()
    assert (solution.dual[problem.is_equality] < 0).any()
    assert (solution.dual[~problem.is_equality] >= 0).all()
    assert len(set(problem.is_equality.sum(-1).tolist())) > 4  # different numbers side by side


@pytest.mark.parametrize(
    "norm", ["fro", "nuc", *(pytest.param(norm, marks=pytest.mark.slow) for norm in NORMS[2:])]
)
@few
@given(
    n=st.integers(1, 3),
    T=st.integers(2, 5),
    d=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    whole=st.booleans(),
)
def test_two_solvers_agree(norm, n, T, d, seed, whole):
    problem = svm.mixture_problem(*draw(n, T, d, batch=(3,), seed=seed, whole=whole))
    one = svm.solve(problem, norm, method="batched", throw=False)
    two = svm.solve(problem, norm, method="cvxpy", tol=1e-5, throw=False)
    assert one.status.tolist() == two.status.tolist()
    torch.testing.assert_close(one.objective, two.objective, rtol=1e-5, atol=1e-9)


@few
@given(n=st.integers(1, 3), T=st.integers(2, 5), d=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_elimination_of_the_equalities_leads_to_the_same_answer(n, T, d, seed):
    """Coordinates of the null space of the equality rows, and inequalities alone there."""
    problem = svm.mixture_problem(*draw(n, T, d, seed=seed))
    rows = (problem.a[:, :, None] * problem.b[:, None, :]).flatten(1)
    equal = problem.is_equality
    _, S, Vh = torch.linalg.svd(rows[equal])
    basis = Vh[int((1e-10 * S.amax() < S).sum()) if len(S) else 0 :].mT  # (D, k)
    inside = rows[~equal] @ basis
    if not basis.shape[1] or (inside.norm(dim=1) < 1e-9).any():
        return  # a dropped token among the kept ones' affine hull: infeasible, but for rounding
    reduced = svm.HardMarginProblem(inside, None, problem.r[~equal])
    one, two = svm.solve(problem, throw=False), svm.solve(reduced, throw=False)
    # elimination rounds the rows, so that it cannot tell "infeasible" from "unreachable"
    assert (one.status == "optimal") == (two.status == "optimal")
    torch.testing.assert_close(one.objective, two.objective, rtol=1e-8, atol=1e-12)
    if one.status == "optimal":
        torch.testing.assert_close(one.value.flatten(), basis @ two.value, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("norm", NORMS)
def test_a_dropped_token_between_kept_ones_is_refuted(norm):
    X, z, kept = draw(1, 3, 4, batch=(5,), whole=True)
    z[..., 0] = 1.0
    kept[:] = torch.tensor([True, True, False])
    X[2:, 0, 2] = (X[2:, 0, 0] + X[2:, 0, 1]) / 2  # exact: whole numbers
    X[:2, 0, 2] = X[:2, 0, 0] + torch.tensor([9.0, 1.0, 0.0, 5.0], dtype=torch.float64)
    X[:2, 0, 1, 1] += 100.0
    problem = svm.mixture_problem(X, z, kept)
    solution = svm.solve(problem, norm, throw=False)
    assert solution.status.tolist() == ["optimal"] * 2 + ["infeasible"] * 3
    ray = solution.dual[2:]
    torch.testing.assert_close((ray * problem.r[2:]).sum(-1), torch.ones(3, dtype=torch.float64))
    assert problem[2:].adjoint(ray).abs().max() < 1e-12


def test_copies_of_kept_tokens_ask_nothing_more_and_copies_of_dropped_ones_contradict():
    X, z, kept = draw(2, 4, 5, batch=(4,))
    expected = svm.solve(svm.mixture_problem(X, z, kept))
    more = torch.cat([X, X], -2), z, torch.cat([kept, kept], -1)
    torch.testing.assert_close(svm.solve(svm.mixture_problem(*more)).value, expected.value)
    crossed = svm.mixture_problem(*more[:2], torch.cat([kept, kept.roll(1, -1)], -1))
    assert set(svm.solve(crossed, throw=False).status) == {"infeasible"}


def test_a_miss_counts_on_either_side_of_an_equality():
    X, z, kept = draw(2, 4, 5, seed=3)
    problem = svm.mixture_problem(X, z, kept)
    solution = svm.solve(problem)
    assert solution.violation < 1e-12
    j = int(torch.nonzero(problem.is_equality)[0])
    row = problem.a[j][:, None] * problem.b[j]
    for side in (-1, 1):  # weak duality sees nothing of this, the violation does
        moved = solution.value + side * 1e-3 * row
        missed = (problem.forward(moved) - problem.r).abs()[j]
        size = row.norm() * moved.norm()

        one = svm.HardMarginProblem(*(x[None] for x in (problem.a, problem.b, problem.r, problem.equality)))
        assert violation(one, moved[None]) >= missed / size * (1 - 1e-9) > 1e-5


def test_float32_and_trial_dimensions():
    X, z, kept = draw(3, 4, 6, batch=(2, 3))
    double = svm.solve(svm.mixture_problem(X, z, kept), "nuc")
    single = svm.solve(svm.mixture_problem(X.float(), z.float(), kept), "nuc")
    assert single.value.dtype == torch.float32
    assert single.value.shape == (2, 3, 6, 6)
    torch.testing.assert_close(single.value.double(), double.value, rtol=1e-3, atol=1e-4)
    X, z, kept = draw(1, 2, 1)
    alone = svm.solve(svm.mixture_problem(X, z, torch.tensor([[True, False]])))
    torch.testing.assert_close(alone.value * (X[0, 0] - X[0, 1]) * z[0], torch.ones(1, 1).double())


def test_masked_tokens_ask_nothing():
    X, z, kept = draw(2, 5, 4, seed=4)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5])
    kept &= mask
    kept[0, 0] = True
    X[~mask] = math.nan
    ragged = svm.solve(svm.mixture_problem(X, z, kept, mask))
    apart = [
        svm.mixture_problem(X[i : i + 1, m], z[i : i + 1], kept[i : i + 1, m]) for i, m in enumerate(mask)
    ]
    joined = svm.HardMarginProblem(
        *(torch.cat([getattr(p, k) for p in apart]) for k in ("a", "b", "r", "equality"))
    )
    torch.testing.assert_close(ragged.value, svm.solve(joined).value)


def test_the_two_parts_make_the_attention():
    """W_fin + R W_dir: the ratios of the kept tokens, and nothing for the others."""
    X, z, kept = draw(3, 4, 8, batch=(5,))
    log_s = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    log_s = log_s.masked_fill(~kept, -math.inf).log_softmax(-1)
    problem = svm.ratio_problem(X, z, kept, log_s)
    finite = svm.solve(problem)
    direction = svm.solve(svm.mixture_problem(X, z, kept))
    model = models.CrossAttention(8, trials=5, init=finite.value + 60 * direction.value)
    y, v = torch.ones(5, 3, dtype=torch.float64), torch.ones(5, 8, dtype=torch.float64)
    s = model.attention(TokenData(X, z, y, v))
    torch.testing.assert_close(s, log_s.exp(), rtol=1e-7, atol=1e-9)
    rows = problem.adjoint(finite.dual)  # the shortest one lies in the span of the equalities
    assert (1 - torch.nn.functional.cosine_similarity(rows.flatten(1), finite.value.flatten(1))).max() < 1e-9


def test_copies_with_different_attention_are_refuted():
    X, z, kept = draw(1, 3, 4)
    X[0, 1] = X[0, 0]
    kept[:] = True
    log_s = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64).log()
    statuses = Counter()
    for norm in NORMS:
        statuses[str(svm.solve(svm.ratio_problem(X, z, kept, log_s), norm, throw=False).status)] += 1
    assert statuses == {"infeasible": len(NORMS)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kept": torch.zeros(2, 3, dtype=torch.bool)}, r"kept\[0\] keeps no token; expected at least one"),
        ({"kept": torch.ones(2, 3)}, r"kept must be a bool tensor of shape \(2, 3\), .* got torch.float32"),
        ({"kept": torch.ones(3, dtype=torch.bool)}, r"kept must be a bool tensor of shape \(2, 3\)"),
        ({"mask": torch.tensor([[True] * 3, [True, True, False]])}, r"kept\[1\] keeps a token that the mask"),
        ({"z": torch.ones(3, 4, dtype=torch.float64)}, r"z has shape \(3, 4\), expected \(2, 'd'\)"),
        ({"X": [1.0]}, "kept must be a bool tensor of shape None"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(change, says):
    X, z, _ = draw(2, 3, 4)
    given = {"X": X, "z": z, "kept": torch.ones(2, 3, dtype=torch.bool), **change}
    with pytest.raises(ValueError, match=says):
        svm.mixture_problem(**given)


def test_ratios_need_the_attention_of_each_kept_token():
    X, z, _ = draw(2, 3, 4)
    kept = torch.ones(2, 3, dtype=torch.bool)
    log_s = torch.zeros(2, 3, dtype=torch.float64)
    log_s[1, 2] = -math.inf
    with pytest.raises(ValueError, match=r"log_attention\[1, 2\] is -inf, but this token is kept"):
        svm.ratio_problem(X, z, kept, log_s)
    with pytest.raises(ValueError, match=r"log_attention must be a tensor of shape \(2, 3\), got"):
        svm.ratio_problem(X, z, kept, log_s[0])
