import pytest
import torch

from mini_attn import data, geometry


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_cosine_compares_directions_in_each_trial():
    a, b = randn(4, 5, 5), randn(4, 5, 5, seed=1)
    expected = (a * b).sum((1, 2)) / (a.norm(dim=(1, 2)) * b.norm(dim=(1, 2)))
    torch.testing.assert_close(geometry.cosine(a, b), expected)
    torch.testing.assert_close(geometry.cosine(1e200 * a, 1e-200 * a), torch.ones(4, dtype=torch.float64))
    assert geometry.cosine(a[0], b[0], batch_dims=0).shape == ()
    assert geometry.cosine(a[0, 0], b[0, 0]).shape == ()
    assert geometry.cosine(torch.zeros(2, 3), torch.ones(2, 3)).isnan().all()


def test_bregman_is_one_minus_cosine_at_two_and_zero_for_equal_directions():
    a, b = randn(4, 5), randn(4, 5, seed=1)
    torch.testing.assert_close(geometry.bregman(a, b, 2.0), 1 - geometry.cosine(a, b))
    for p in (1.2, 3.0):
        assert (geometry.bregman(a, b, p) > 0).all()
        torch.testing.assert_close(geometry.bregman(3 * a, a, p), torch.zeros(4, dtype=torch.float64))


def test_bregman_follows_its_definition():
    a, b, p = randn(5), randn(5, seed=1), 3.0
    u, w = a / a.abs().pow(p).sum() ** (1 / p), b / b.abs().pow(p).sum() ** (1 / p)
    psi = lambda x: x.abs().pow(p).sum() / p  # noqa: E731
    expected = psi(u) - psi(w) - (w.sign() * w.abs() ** (p - 1) * (u - w)).sum()
    torch.testing.assert_close(geometry.bregman(a, b, p), expected)


logits = torch.tensor([[3.0, 2.0, 1.0], [0.0, 5.0, 4.00001]], dtype=torch.float64)
selected = torch.tensor([0, 1])


def test_margins_count_from_the_selected_token():
    expected = torch.tensor([[torch.inf, 1.0, 2.0], [5.0, torch.inf, 0.99999]], dtype=torch.float64)
    torch.testing.assert_close(geometry.margins(logits, selected), expected)


def test_support_tokens_are_the_tight_ones():
    assert geometry.support_tokens(logits, selected).tolist() == [[False, True, False], [False, False, True]]
    assert geometry.support_tokens(logits, selected, tol=1e-7).tolist() == [[False] * 3, [False, False, True]]


def test_locally_optimal_looks_at_support_tokens_only():
    scores = torch.tensor([[1.0, 0.5, 9.0], [9.0, 1.0, 0.5]], dtype=torch.float64)
    assert geometry.locally_optimal(scores, logits, selected)
    worse = scores.clone()
    worse[1, 2] = 1.5
    assert not geometry.locally_optimal(worse, logits, selected)
    tied = scores.clone()
    tied[0, 1] = 1.0
    assert not geometry.locally_optimal(tied, logits, selected)


def test_one_token_sequences_have_no_support_tokens():
    one, zero = torch.zeros(2, 1), torch.zeros(2, dtype=torch.long)
    assert not geometry.support_tokens(one, zero).any()
    assert geometry.locally_optimal(one, one, zero)


def test_outcome_names_what_happened():
    tokens = data.random_tokens(n=2, T=3, d=4, trials=4, seed=0)
    best = torch.nn.functional.one_hot(tokens.optimal, 3).double()
    attention = best.clone()
    attention[1] = best[1].roll(1, -1)
    attention[2, 0] = torch.tensor([0.5, 0.3, 0.2])
    attention[3] = best[3].roll(1, -1)
    feasible = torch.tensor([True, True, False, False])
    assert geometry.outcome(attention, tokens).tolist() == ["global", "local", "undecided", "local"]
    assert geometry.outcome(attention, tokens, feasible).tolist() == [
        "global",
        "local",
        "undecided",
        "infeasible",
    ]
    assert geometry.selected_tokens(attention).shape == (4, 2)


def test_outcome_of_a_single_problem():
    tokens = data.toy_one_sequence()
    assert geometry.outcome(torch.tensor([[1.0, 0.0, 0.0]]), tokens).item() == "global"


def test_outcome_of_many_trials_on_one_problem():
    attention = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.5, 0.5, 0.0]]])
    words = geometry.outcome(attention, data.toy_one_sequence())
    assert words.tolist() == ["global", "local", "undecided"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: geometry.cosine(torch.ones(2), torch.ones(3)), "shapes .* differ"),
        (lambda: geometry.cosine(torch.ones(2), torch.ones(2), batch_dims=1), "allows 0 to 0"),
        (lambda: geometry.bregman(torch.ones(2), torch.ones(2), 1.0), "p = 1.0"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(call, says):
    with pytest.raises(ValueError, match=says):
        call()
