"""Sequences of several lengths in one batch: each is as if it stood alone, without padding."""

import copy
import dataclasses
import math
import pickle

import pytest
import torch
from gradients_by_autograd import directions, with_autograd
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_attn import data, geometry, losses, models, optim, paths, svm, train
from mini_attn.gradients import closed_form

n, T, d, B = 3, 5, 4, 2
fewer = settings(max_examples=15, derandomize=True, deadline=None)


def randn(*shape, seed=9):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_models(trials=B, scale=1.0, dtype=torch.float64):
    lead = () if trials is None else (trials,)
    head = models.LinearHead(d, trials, init=randn(*lead, d, seed=8), dtype=dtype)
    bent = models.MLPHead(d, 3, trials, "gelu", 4.0, randn(*lead, 3, d), trainable=True, dtype=dtype)
    return [
        models.PromptAttention(d, trials, init=scale * randn(*lead, d), dtype=dtype),
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d), dtype=dtype),
        models.FactoredAttention(d, 2, trials, scale=scale, seed=3, dtype=dtype),
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d), head=head, dtype=dtype),
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d), head=bent, dtype=dtype),
    ]


def ragged(mask, seed=0, keyed=False, held=math.nan):
    """Random tokens under this mask, with something where it is False."""
    trials = len(mask) if mask.ndim == 3 else None
    tokens = data.random_tokens(*mask.shape[-2:], d, trials, seed)
    padding = ~mask[..., None]
    keys = randn(*tokens.X.shape, seed=seed + 100).masked_fill(padding, held) if keyed else None
    return data.TokenData(
        tokens.X.masked_fill(padding, held), tokens.z, tokens.y, tokens.v, keys=keys, mask=mask
    )


def sequence(tokens, *at):
    """Sequence at = (trial, i), or (i,), as a problem of its own without padding."""
    real = tokens.mask[at]
    return data.TokenData(
        tokens.X[at][real][None],
        tokens.z[at][None],
        tokens.y[at][None],
        tokens.v[at[:-1]],
        keys=None if tokens.keys is tokens.X else tokens.keys[at][real][None],
    )


def single(model, trial):
    """The weights of one trial."""
    one = copy.deepcopy(model)
    for module in one.modules():
        for name, w in list(module.named_parameters(recurse=False)):
            setattr(module, name, torch.nn.Parameter(w.detach()[trial].clone()))
    return one


def everything(model, tokens, batch_dims=1):
    margins, grads = closed_form(model, tokens, losses.logistic, batch_dims)()
    logits, attention = model.logits(tokens).detach(), model.attention(tokens).detach()
    selected = geometry.selected_tokens(attention)
    return {
        "logits": logits,
        "attention": attention,
        "outputs": model(tokens).detach(),
        "scores": tokens.scores,
        "optimal": tokens.optimal,
        "selected": selected,
        "ahead": geometry.margins(logits, selected),
        "tight": geometry.support_tokens(logits, selected),
        "local": geometry.locally_optimal(tokens.scores, logits, selected),
        "margins": margins,
        **grads,
    }


def nonempty(bits):
    mask = torch.tensor(bits).reshape(B, n, T)
    mask[..., 0] |= ~mask.any(-1)
    return mask


masks = st.one_of(  # any subsets, or beginnings of several lengths
    st.lists(st.booleans(), min_size=B * n * T, max_size=B * n * T).map(nonempty),
    st.lists(st.integers(1, T), min_size=B * n, max_size=B * n).map(
        lambda lengths: torch.arange(T) < torch.tensor(lengths).reshape(B, n, 1)
    ),
)
LENGTHS = torch.tensor([[1, 3, 5], [2, 1, 4]])
MASK = torch.arange(T) < LENGTHS[..., None]


@given(masks, st.integers(0, 4), st.booleans(), st.sampled_from([torch.float64, torch.float32]))
@fewer
def test_each_sequence_is_as_if_alone(mask, kind, keyed, dtype):
    tokens = ragged(mask, keyed=keyed).to(dtype)
    model = make_models(scale=3.0, dtype=dtype)[kind]
    together = everything(model, tokens, None)
    close = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    for trial in range(B):
        one, total = single(model, trial), None
        for i in range(n):
            real = mask[trial, i]
            alone = everything(one, sequence(tokens, trial, i), None)
            for name in ("logits", "attention", "scores", "ahead"):
                torch.testing.assert_close(together[name][trial, i][real], alone[name][0], **close)
            for name in ("outputs", "margins"):
                torch.testing.assert_close(together[name][trial, i], alone[name][0], **close)
            for name in ("optimal", "selected"):
                assert together[name][trial, i] == real.nonzero()[alone[name][0], 0]
            grads = {name: alone[name] / n for name, _ in model.named_parameters()}
            total = grads if total is None else {name: total[name] + g for name, g in grads.items()}
        torch.testing.assert_close({name: together[name][trial] for name in total}, total, **close)
    hidden = ~mask
    assert (together["logits"][hidden] == -torch.inf).all()
    assert (together["attention"][hidden] == 0).all()
    assert (together["scores"][hidden] == -torch.inf).all()
    assert (together["ahead"][hidden] == torch.inf).all()
    assert not together["tight"][hidden].any()


@given(masks, st.sampled_from([0.0, 1.0, 30.0]))
@fewer
def test_closed_form_equals_autograd(mask, scale):
    tokens = ragged(mask)
    for model in make_models(scale=scale):
        grads = closed_form(model, tokens, losses.logistic)()[1]
        expected = with_autograd(model, tokens)[1]
        for name in grads:
            close = {"rtol": 1e-10, "atol": 1e-13 * float(expected[name].abs().max())}
            torch.testing.assert_close(grads[name], expected[name], **close)
        grads = closed_form(model, tokens, losses.logistic, 1)()[1]
        expected = with_autograd(model, tokens, batch_dims=1)[1]
        if all(g.abs().amax() > 0 for g in expected.values()):
            ours, autograds = (
                {name: g.nan_to_num() for name, g in directions(x).items()} for x in (grads, expected)
            )
            torch.testing.assert_close(ours, autograds, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "held", [math.nan, *(pytest.param(held, marks=pytest.mark.slow) for held in (math.inf, 1e300, -7.0))]
)
@pytest.mark.parametrize("keyed", [False, True])
def test_what_the_padding_holds_does_not_change_a_bit(held, keyed):
    clean, spoilt = (ragged(MASK, keyed=keyed, held=h) for h in (0.0, held))
    for one, other in zip(make_models(scale=20.0), make_models(scale=20.0), strict=True):
        for name, value in everything(one, clean).items():
            assert torch.equal(value, everything(one, spoilt)[name]), name
        for model, tokens in ((one, clean), (other, spoilt)):
            weights = [w for name, w in model.named_parameters() if not name.startswith("head")]
            train.fit(model, tokens, optim.NormalizedGD(weights, 0.1, 1), 20, progress=False)
        for w, w_ in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(w, w_)
    paddings = ~MASK[..., None]
    raw = randn(B, n, T, d).masked_fill(paddings, held), randn(B, n, T, d).masked_fill(paddings, 0.0)
    for make in (
        lambda X: svm.token_problem(X, clean.optimal, mask=MASK),
        lambda X: svm.attention_problem(X, clean.z, clean.optimal, MASK),
    ):
        first, second = (svm.solve(make(X), throw=False) for X in raw)
        assert torch.equal(first.value, second.value)
        assert torch.equal(first.dual, second.dual)


def test_padding_is_zero_and_clean_data_are_not_copied():
    tokens = ragged(MASK)
    assert (tokens.X[~MASK] == 0).all()
    assert data.TokenData(tokens.X, tokens.z, tokens.y, tokens.v, mask=MASK).X is tokens.X


@given(masks)
@fewer
def test_problems_have_the_rows_of_the_real_tokens(mask):
    tokens = ragged(mask)
    selected = tokens.optimal
    for problem, rows in (
        (svm.token_problem(tokens.keys, selected, mask=mask), 1),
        (svm.attention_problem(tokens.keys, tokens.z, selected, mask), 2),
        (svm.sequence_problem(tokens, selected), 2),
    ):
        for trial in range(B):
            left = []
            for i in range(n):
                alone = sequence(tokens, trial, i)
                made = (
                    svm.token_problem(alone.keys, alone.optimal)
                    if rows == 1
                    else svm.attention_problem(alone.keys, alone.z, alone.optimal)
                )
                left.append(made.a if rows == 1 else made.a[:, :, None] * made.b[:, None])
            a = problem.a[trial] if rows == 1 else problem.a[trial][:, :, None] * problem.b[trial][:, None]
            torch.testing.assert_close(a[problem.mask[trial]], torch.cat(left))
            assert not problem.r[trial][~problem.mask[trial]].any()


def test_solutions_are_those_of_shorter_problems():
    """Two trials whose sequences have three and four tokens, one by one and as a batch."""
    mask = (torch.arange(T) < torch.tensor([3, 4])[:, None])[:, None].expand(B, n, T)
    tokens = ragged(mask, seed=3)
    lead = torch.tensor([[1.0, 1.0, 0.0]] * B, dtype=torch.float64)
    problem = svm.token_problem(tokens.keys, tokens.optimal, lead, mask)
    relaxed = svm.solve(problem, throw=False)
    solution = svm.solve(svm.attention_problem(tokens.keys, tokens.z, tokens.optimal, mask))
    for trial, length in enumerate((3, 4)):
        keys, optimal, z = tokens.keys[trial, :, :length], tokens.optimal[trial], tokens.z[trial]
        alone = svm.solve(svm.attention_problem(keys, z, optimal))
        torch.testing.assert_close(solution.value[trial], alone.value, rtol=1e-6, atol=1e-8)
        alone = svm.solve(svm.token_problem(keys, optimal, lead[trial]), throw=False)
        assert alone.status == relaxed.status[trial]
        torch.testing.assert_close(relaxed.value[trial], alone.value, rtol=1e-6, atol=1e-8, equal_nan=True)


def short(tokens, trial, length):
    return data.TokenData(tokens.X[trial, :, :length], tokens.z[trial], tokens.y[trial], tokens.v[trial])


def test_training_and_outcomes_are_those_of_shorter_problems():
    mask = (torch.arange(T) < torch.tensor([1, 4])[:, None])[:, None].expand(B, n, T)
    mask = torch.cat([mask, torch.ones(1, n, T, dtype=torch.bool)])
    tokens = ragged(mask, seed=1)
    model = models.CrossAttention(d, trials=3)
    history = train.fit(
        model, tokens, optim.NormalizedGD(model.parameters(), 0.1, 1), 300, every=100, progress=False
    )
    solution = svm.solve(svm.sequence_problem(tokens, tokens.optimal), throw=False)
    attention = model.attention(tokens)
    words = geometry.outcome(attention, tokens, feasible=solution.status == "optimal")
    for trial, length in enumerate((1, 4, T)):
        alone, one = short(tokens, trial, length), models.CrossAttention(d)
        expected = train.fit(
            one, alone, optim.NormalizedGD(one.parameters(), 0.1, 0), 300, every=100, progress=False
        )
        torch.testing.assert_close(model.W[trial], one.W, rtol=1e-6, atol=1e-9)
        for name in ("loss", "log_loss"):
            torch.testing.assert_close(history[name][:, trial], expected[name], rtol=1e-7, atol=1e-9)
        feasible = torch.tensor(solution.status[trial] == "optimal")
        assert words[trial] == geometry.outcome(one.attention(alone), alone, feasible)


def test_one_token_has_no_choice():
    tokens = data.random_tokens(2, 3, d, trials=B, lengths=1)
    model = models.CrossAttention(d, B, init=randn(B, d, d))
    assert (model.attention(tokens)[..., 0] == 1).all()
    for batch_dims in (None, 1):
        assert closed_form(model, tokens, losses.logistic, batch_dims)()[1]["W"].abs().max() == 0
    solution = svm.solve(svm.sequence_problem(tokens, tokens.optimal))
    assert solution.value.abs().max() == 0
    assert geometry.outcome(model.attention(tokens), tokens).tolist() == ["global"] * B
    selected = geometry.selected_tokens(model.attention(tokens))
    assert geometry.locally_optimal(tokens.scores, model.logits(tokens).detach(), selected).all()
    before = model.W.detach().clone()
    history = train.fit(model, tokens, optim.NormalizedGD(model.parameters(), 0.1, 1), 5, progress=False)
    assert torch.equal(model.W, before)
    torch.testing.assert_close(history["loss"][-1], losses.logistic(tokens.scores[..., 0]).mean(-1))
    path = paths.regularization_path(models.PromptAttention(d, B), tokens, [1.0])
    assert path["p"].abs().max() == 0
    assert path.residual.abs().max() == 0


def test_there_may_be_no_trials():
    tokens = data.random_tokens(2, 3, 4, trials=0, lengths=[1, 2])
    assert tokens.scores.shape == (0, 2, 3)
    assert models.CrossAttention(4, 0)(tokens).shape == (0, 2)
    assert svm.sequence_problem(tokens, tokens.optimal).r.shape == (0, 4)


def test_a_resumed_run_is_the_uninterrupted_one():
    tokens = data.random_tokens(n, T, d, trials=B, seed=4, lengths=LENGTHS)
    ends = []
    for stops in ((40,), (15, 40)):
        history = None
        for steps in stops:
            model = models.FactoredAttention(d, 2, B)
            optimizer = torch.optim.Adam(model.parameters(), 0.05)
            history = train.fit(model, tokens, optimizer, steps, every=5, progress=False, resume=history)
        ends.append((model.W.detach(), history["loss"]))
    for whole, resumed in zip(*ends, strict=True):
        assert torch.equal(whole, resumed)


def test_paths_are_those_of_shorter_problems():
    mask = (torch.arange(T) < torch.tensor([3, 4])[:, None])[:, None].expand(B, n, T)
    tokens = ragged(mask, seed=2)
    for make in (
        lambda trials: models.PromptAttention(d, trials),
        lambda trials: models.FactoredAttention(d, 2, trials),
    ):
        path = paths.regularization_path(make(B), tokens, [1.0, 3.0], tol=1e-7)
        for trial, length in enumerate((3, 4)):
            alone = paths.regularization_path(make(None), short(tokens, trial, length), [1.0, 3.0], tol=1e-7)
            torch.testing.assert_close(path.loss[:, trial], alone.loss, rtol=1e-7, atol=1e-9)
            for name in {"p", "W"} & set(path.values):
                torch.testing.assert_close(path[name][:, trial], alone[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [0, 1])
def test_second_derivatives_are_those_without_padding(kind):
    tokens = ragged(MASK[0, 1:2], seed=5)
    name = ("p", "W")[kind]

    def hessian(problem):
        model = make_models(None)[kind]

        def value(w):
            outputs = torch.func.functional_call(model, {name: w}, (problem,))
            return losses.logistic(problem.y * outputs).mean()

        return torch.autograd.functional.hessian(value, getattr(model, name).detach())

    expected = hessian(sequence(tokens, 0))
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(hessian(tokens), expected, rtol=1e-10, atol=1e-14)


def test_the_mask_and_the_keys_survive_moving_and_replacing():
    for keyed in (False, True):
        tokens = ragged(MASK, keyed=keyed)
        for twin in (
            tokens.to(torch.float32),
            tokens.to("cpu"),
            tokens.to("cpu", torch.float64),
            dataclasses.replace(tokens, y=-tokens.y),
            dataclasses.replace(tokens, X=2 * tokens.X),
            pickle.loads(pickle.dumps(tokens)),
            copy.deepcopy(tokens),
        ):
            assert torch.equal(twin.mask, MASK)
            assert (twin.keys is twin.X) is not keyed
        assert tokens.to(torch.float32).X.dtype == torch.float32
        assert dataclasses.replace(tokens, mask=None).mask is None
        again = dataclasses.replace(tokens, X=tokens.X.masked_fill(~MASK[..., None], math.nan))
        assert (again.keys is again.X) is not keyed
        assert again.X.isfinite().all()


def test_lengths_only_hide_tokens():
    every, some = (data.random_tokens(n, T, d, trials=B, seed=6, lengths=x) for x in (None, LENGTHS))
    assert every.mask is None
    assert torch.equal(some.mask.sum(-1), LENGTHS)
    assert torch.equal(some.X[some.mask], every.X[some.mask])
    for name in "zyv":
        assert torch.equal(getattr(some, name), getattr(every, name))
    same = data.random_tokens(n, T, d, trials=B, lengths=[1, 2, 3])
    assert same.mask.sum(-1).tolist() == [[1, 2, 3]] * B
    assert data.random_tokens(n, T, d, lengths=2).mask.sum(-1).tolist() == [2] * n


def test_ten_thousand_tokens():
    lengths = torch.tensor([10_000, 3, 1])
    tokens = data.random_tokens(3, 10_000, 8, lengths=lengths)
    model = models.CrossAttention(8, init=5 * randn(8, 8))
    margins, grads = closed_form(model, tokens, losses.logistic)()
    parts = []
    for i, length in enumerate(lengths):
        alone = data.TokenData(*(getattr(tokens, part)[i : i + 1] for part in "Xzy"), tokens.v)
        alone = dataclasses.replace(alone, X=alone.X[:, :length])
        m, g = closed_form(model, alone, losses.logistic)()
        torch.testing.assert_close(margins[i : i + 1], m)
        parts.append(g["W"])
    torch.testing.assert_close(grads["W"], sum(parts) / 3)
    selected = geometry.selected_tokens(model.attention(tokens))
    problem = svm.token_problem(tokens.keys, selected, mask=tokens.mask)
    assert problem.mask.sum() == 9_999 + 2


@pytest.mark.slow
def test_everything_is_the_same_elsewhere(device):
    tokens = ragged(MASK)
    there = tokens.to(device)
    assert there.mask.device.type == device.type
    for kind in range(5):
        here = everything(make_models()[kind], tokens)
        for name, value in everything(make_models()[kind].to(device), there).items():
            assert value.device.type == device.type
            torch.testing.assert_close(value.cpu(), here[name])
    for make in (
        lambda x: svm.token_problem(x.keys, tokens.optimal, mask=x.mask),
        lambda x: svm.attention_problem(x.keys, x.z, tokens.optimal, x.mask),
        lambda x: svm.sequence_problem(x, tokens.optimal),
    ):
        solution, expected = (svm.solve(make(x), throw=False) for x in (there, tokens))
        assert solution.status.tolist() == expected.status.tolist()
        torch.testing.assert_close(solution.objective.cpu(), expected.objective)
    ends = []
    for place in (there, tokens):
        model = models.CrossAttention(d, B).to(place.X.device)
        train.fit(model, place, optim.NormalizedGD(model.parameters(), 0.1, 1), 20, progress=False)
        ends.append(model.W.detach().cpu())
    torch.testing.assert_close(*ends)
    with pytest.raises(ValueError, match=r"mask is on cpu, the rest on .*; move it: mask\.to"):
        dataclasses.replace(there, mask=MASK)


def good():
    return dict(X=torch.ones(2, 3, 4), z=torch.ones(2, 4), y=torch.ones(2), v=torch.ones(4))


EMPTY = torch.tensor([[True, False, False], [False, False, False]])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mask": EMPTY}, "mask has no real token in sequence 1; attention needs at least one"),
        ({"mask": torch.ones(2, 3)}, r"mask must be a bool tensor of shape \(2, 3\), .* got torch.float32"),
        (
            {"mask": torch.ones(2, 2, dtype=torch.bool)},
            r"of shape \(2, 3\), .* got torch.bool of shape \(2, 2\)",
        ),
        ({"mask": [[True] * 3] * 2}, "mask must be a bool tensor of shape .* got list"),
        (
            {"mask": ~EMPTY, "X": torch.full((2, 3, 4), math.nan)},
            r"X holds NaN or inf, first at index \(0, 1, 0\)",
        ),
        ({"positions": 0}, "positions = 0; expected a whole number"),
        ({"positions": 2}, r"z has shape \(2, 4\); the other fields imply \(4, 4\)"),
    ],
)
def test_bad_masks_are_refused_with_a_reason(change, says):
    with pytest.raises(ValueError, match=says):
        data.TokenData(**(good() | change))


def test_the_trial_of_an_empty_sequence_is_named():
    mask = MASK.clone()
    mask[1, 2] = False
    with pytest.raises(ValueError, match=r"no real token in sequence \(1, 2\)"):
        ragged(mask)


@pytest.mark.parametrize(
    ("lengths", "says"),
    [
        (0, "lengths = 0; expected whole numbers from 1 to T = 5"),
        ([1, 2, 6], r"lengths = \[1, 2, 6\]; expected whole numbers from 1 to T = 5"),
        (2.0, "lengths = 2.0; expected whole numbers"),
        ([1, 2], r"lengths has shape \(2,\); expected one that broadcasts to \(2, 3\)"),
    ],
)
def test_bad_lengths_are_refused_with_a_reason(lengths, says):
    with pytest.raises(ValueError, match=says):
        data.random_tokens(n, T, d, trials=B, lengths=lengths)


def test_a_masked_token_cannot_be_selected():
    tokens = ragged(MASK)
    selected = tokens.optimal.clone()
    selected[1, 1] = 2
    for make in (
        lambda: svm.token_problem(tokens.keys, selected, mask=MASK),
        lambda: svm.attention_problem(tokens.keys, tokens.z, selected, MASK),
    ):
        with pytest.raises(ValueError, match=r"selected\[1, 1\] is 2, which the mask hides"):
            make()
    with pytest.raises(ValueError, match=r"mask must be a bool tensor of shape \(2, 3, 5\)"):
        svm.token_problem(tokens.keys, tokens.optimal, mask=MASK[0])
    with pytest.raises(ValueError, match=r"selected must be a tensor of shape \(2, 3\)"):
        svm.sequence_problem(tokens, tokens.optimal[0])
