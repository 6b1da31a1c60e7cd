import numpy as np
import pytest
import torch

from mini_attn import data, geometry, svm


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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[0.5, 0.5]], "attention must be a tensor .*got list"),
        (
            torch.tensor([[1, 0]]),
            r"floating numbers.*got torch.int64 of shape \(1, 2\); use attention.double",
        ),
        (torch.tensor([[True, False]]), "got torch.bool"),
        (torch.tensor([[0.5, 0.5]]).to_sparse(), "attention must be dense.*to_dense"),
    ],
)
def test_what_is_no_attention_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        geometry.selected_tokens(given)


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
        (lambda: geometry.cosine(torch.tensor(1.0), torch.tensor(1.0)), r"shape \(\) hold no vector"),
        (lambda: geometry.cosine(torch.ones(3, 0), torch.ones(3, 0)), r"shape \(3, 0\) hold no vector"),
        (
            lambda: geometry.margins(logits, selected[:1]),
            r"of shape \(2,\), a token number each; got torch.int64 of shape \(1,\)",
        ),
        (lambda: geometry.margins(logits, [0, 1]), "selected must be a dense tensor .*; got list"),
        (lambda: geometry.margins(logits, torch.tensor([0, 3])), "selected holds 3, but the 3 tokens"),
        (lambda: geometry.margins(logits, torch.tensor([0.0, 1.0])), "token numbers, so integers; got"),
        (
            lambda: geometry.support_tokens(logits, selected, lead=torch.ones(3)),
            r"lead must be a tensor of shape \(2,\), a number per sequence; got torch.float32 of shape",
        ),
        (
            lambda: geometry.locally_optimal(torch.zeros(3, 3), logits, selected),
            r"scores have shape \(3, 3\), which does not fit \(2, 3\)",
        ),
        (
            lambda: geometry.outcome(torch.ones(1, 1, 2), data.toy_one_sequence()),
            r"the data's scores have shape \(1, 3\), which does not fit \(1, 1, 2\)",
        ),
        (
            lambda: geometry.outcome(torch.ones(1, 3), data.toy_one_sequence(), np.array("optimal")),
            r'feasible holds <U7 of shape \(\); expected bool of shape \(\), .* == "optimal"',
        ),
        (
            lambda: geometry.outcome(torch.ones(4, 1, 3), data.toy_one_sequence(), [True, False]),
            r"feasible holds bool of shape \(2,\); expected bool of shape \(4,\)",
        ),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_locally_optimal_asks_for_evidence_trial_by_trial():
    good = torch.tensor([[3.0, 2.0, 1.0], [0.0, 5.0, 4.0]], dtype=torch.float64)
    scores = torch.tensor([[1.0, 0.5, 9.0], [9.0, 1.0, 0.5]], dtype=torch.float64)
    behind, tied, lost, empty = good.clone(), good.clone(), good.clone(), torch.full_like(good, torch.nan)
    behind[0, 2], tied[0, 1], lost[1, 0] = 9.0, 3.0, torch.nan
    infinite = torch.stack([good[0], torch.tensor([0.0, torch.inf, torch.inf])])
    logits = torch.stack([good, behind, tied, lost, empty, infinite, good])
    chosen = selected.expand(7, 2)
    alone = [geometry.locally_optimal(scores, one, selected).item() for one in logits]
    assert alone == [True, False, False, False, False, False, True]
    assert geometry.locally_optimal(scores, logits, chosen).tolist() == alone
    assert not geometry.support_tokens(logits, chosen)[3:5].any()
    assert not geometry.locally_optimal(  # the token behind has no margin at all
        torch.tensor([[0.0, 9, 9]]), torch.tensor([[1.0, 2, 0]]), torch.tensor([0])
    )
    unknown = scores.clone()
    unknown[0, 1] = torch.nan  # of a support token
    assert not geometry.locally_optimal(unknown, good, selected)


def test_masked_tokens_are_no_rivals():
    masked = logits.clone()
    masked[0, 1] = -torch.inf
    assert geometry.support_tokens(masked, selected).tolist() == [[False] * 3, [False, False, True]]
    assert geometry.locally_optimal(torch.tensor([[0.0, 9, 9], [0, 1, 0]]), masked, selected)


def test_support_tokens_of_relaxed_solutions_are_the_rows_with_a_dual():
    tokens = data.random_tokens(4, 5, 6, trials=60, seed=1)
    for asked in (torch.ones(60, 4), torch.tensor([1.0, 0, 1, 0]).expand(60, 4), torch.zeros(60, 4)):
        lead = asked.clone()
        lead[::2, 1] = 0.5
        solution = svm.solve(svm.token_problem(tokens.keys, tokens.optimal, lead), throw=False)
        ok = torch.as_tensor(solution.status == "optimal")
        assert ok.sum() > 30
        logits = (tokens.keys @ solution.value[..., None, :, None]).squeeze(-1)
        others = torch.arange(5) != tokens.optimal[..., None]
        pulls = torch.zeros(60, 4, 5, dtype=torch.float64).masked_scatter(others, solution.dual) > 1e-6
        for scale in (1.0, 1e-6, 1e9):  # a direction will do
            tight = geometry.support_tokens(scale * logits, tokens.optimal, lead=lead)
            assert torch.equal(tight[ok] & pulls[ok], pulls[ok])
            near = (logits.gather(-1, tokens.optimal[..., None]) - logits - lead[..., None]).abs() < 1e-4
            assert torch.equal(tight[ok], (near & others)[ok])
        # each selected token is the best of its sequence: any solution will do, and nothing else
        local = geometry.locally_optimal(tokens.scores, logits, tokens.optimal, lead=lead)
        assert local[ok].all()
        assert not local[torch.as_tensor(solution.status == "infeasible")].any()
        beaten = torch.where(pulls, 2.0, 0.0) - others.double()
        assert not geometry.locally_optimal(beaten, logits, tokens.optimal, lead=lead)[
            pulls.any((1, 2))
        ].any()


def test_lead_of_one_changes_nothing():
    ones = torch.ones(2, dtype=torch.long)
    assert torch.equal(
        geometry.support_tokens(logits, selected, lead=ones), geometry.support_tokens(logits, selected)
    )


@pytest.mark.parametrize("kind", [np.asarray, list, torch.tensor])
def test_outcome_takes_what_a_solution_says(kind):
    tokens = data.random_tokens(n=2, T=3, d=4, trials=3, seed=0)
    attention = torch.nn.functional.one_hot(tokens.optimal, 3).double()
    status = np.array(["optimal", "infeasible", "optimal"])
    words = geometry.outcome(attention, tokens, feasible=kind(status == "optimal"))
    assert words.tolist() == ["global", "infeasible", "global"]
    solution = svm.solve(svm.token_problem(tokens.keys[0], tokens.optimal[0]))
    one = data.TokenData(*(getattr(tokens, part)[0] for part in "Xzyv"))
    assert geometry.outcome(attention[0], one, feasible=solution.status == "optimal").item() == "global"


def test_scores_of_one_problem_serve_many_trials():
    many = geometry.locally_optimal(torch.zeros(2, 3), logits.expand(4, 2, 3), selected.expand(4, 2))
    assert many.tolist() == [False] * 4


def test_bregman_of_equal_directions_is_never_negative():
    a = randn(2000, 7)
    assert (geometry.bregman(3 * a, a, 1.5) >= 0).all()


@pytest.mark.parametrize("wrong", [torch.tensor([[0, 9, 9]]), torch.tensor([[0j, 9, 9]]), [[0.0, 9.0, 9.0]]])
def test_logits_and_weights_that_are_not_floating_are_refused_by_name(wrong):
    for function in (geometry.margins, geometry.support_tokens):
        with pytest.raises(ValueError, match="logits"):
            function(wrong, torch.tensor([1]))


@pytest.mark.parametrize("wrong", [torch.tensor([0j, 9]), torch.tensor([True, False]), [0.0, 9.0]])
def test_weights_that_are_no_real_numbers_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match="weights are"):
        geometry.cosine(wrong, wrong)


def test_whole_numbers_have_directions_too():
    assert geometry.cosine(torch.tensor([3, 4]), torch.tensor([0, 2])).item() == pytest.approx(0.8)
