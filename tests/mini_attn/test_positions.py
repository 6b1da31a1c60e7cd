"""Every position a query: the same as one sequence for each position, without the copies."""

import dataclasses
import math

import pytest
import torch
from gradients_by_autograd import directions, with_autograd
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_attn import data, geometry, losses, models, optim, paths, svm, train
from mini_attn.gradients import closed_form
from mini_attn.softmax import softmax

B, n, T, d = 2, 3, 4, 5
fewer = settings(max_examples=15, derandomize=True, deadline=None)


def randn(*shape, seed=9):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, v = randn(B, n, T, d, seed=1), randn(B, d, seed=2)
y = randn(B, n, T, seed=3).sign()
MASK = torch.arange(T) < torch.tensor([[4, 1, 3], [2, 4, 3]])[..., None]


def make_models(trials=B, scale=1.0, dtype=torch.float64):
    lead = () if trials is None else (trials,)
    head = models.LinearHead(d, trials, init=randn(*lead, d, seed=8), dtype=dtype)
    bent = models.MLPHead(d, 3, trials, "gelu", 4.0, randn(*lead, 3, d), trainable=True, dtype=dtype)
    return [
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d), dtype=dtype),
        models.FactoredAttention(d, 2, trials, scale=scale, seed=3, dtype=dtype),
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d), head=head, dtype=dtype),
        models.PromptAttention(d, trials, init=scale * randn(*lead, d), dtype=dtype),
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d), head=bent, dtype=dtype),
    ]


def visible(trial, i, k, causal, mask):
    """The tokens that a position sees, by definition."""
    return [t for t in range(T) if (mask is None or mask[trial, i, t]) and (t <= k or not causal)]


def positions(trial, causal, mask):
    """(i, k) of the real positions of a trial, and their numbers in the batch."""
    pairs = [(i, k) for i in range(n) for k in range(T) if mask is None or mask[trial, i, k]]
    return pairs, [i * T + k for i, k in pairs]


def copied(tokens, trial, causal, mask):
    """The real positions of a trial as sequences of their own, the tokens copied for each."""
    pairs, _ = positions(trial, causal, mask)
    sees = torch.zeros(len(pairs), T, dtype=torch.bool)
    for row, (i, k) in zip(sees, pairs, strict=True):
        row[visible(trial, i, k, causal, mask)] = True
    X, y = tokens.X[trial], tokens.y[trial].reshape(n, T)
    i, k = torch.tensor(pairs).T
    return data.TokenData(X[i], X[i, k], y[i, k], tokens.v[trial], mask=sees)


def single(model, trial):
    """The model with the weights of one trial."""
    one = next(
        one for one in make_models(None) if type(one) is type(model) and type(one.head) is type(model.head)
    )
    for own, w in zip(one.parameters(), model.parameters(), strict=True):
        own.data = w.detach()[trial].to(torch.float64)
    return one


masks = st.one_of(
    st.none(),
    st.lists(st.booleans(), min_size=B * n * T, max_size=B * n * T).map(
        lambda bits: torch.tensor(bits).reshape(B, n, T) | (torch.arange(T) == 2)
    ),
    st.lists(st.integers(1, T), min_size=B * n, max_size=B * n).map(
        lambda lengths: torch.arange(T) < torch.tensor(lengths).reshape(B, n, 1)
    ),
)


@pytest.mark.parametrize("causal", [False, True])
def test_logits_are_those_of_the_definition(causal):
    tokens = data.every_position(X, y, v, causal)
    W = randn(B, d, d)
    logits = models.CrossAttention(d, B, init=W).logits(tokens).unflatten(-2, (n, T))
    expected = torch.einsum("bite,bef,bikf->bikt", X, W, X)
    if causal:
        expected = expected.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -torch.inf)
    torch.testing.assert_close(logits, expected)
    gamma = torch.einsum("bik,bite,be->bikt", y, X, v)
    torch.testing.assert_close(
        tokens.scores.unflatten(-2, (n, T))[logits.isfinite()], gamma[logits.isfinite()]
    )


@given(masks, st.booleans(), st.integers(0, 4), st.sampled_from([torch.float64, torch.float32]))
@fewer
def test_positions_are_sequences_that_share_their_tokens(mask, causal, kind, dtype):
    tokens = data.every_position(X.to(dtype), y.to(dtype), v.to(dtype), causal, mask)
    model = make_models(scale=2.0, dtype=dtype)[kind]
    margins, grads = closed_form(model, tokens, losses.logistic)()
    outputs, attention = model(tokens).detach(), model.attention(tokens).detach()
    loss = losses.mean(losses.logistic(margins), tokens.present)
    log_loss = losses.logistic.log_mean(margins, tokens.present)
    close = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    wide = tokens.to(torch.float64)
    for trial in range(B):
        alone, one = copied(wide, trial, causal, mask), single(model, trial)
        _, rows = positions(trial, causal, mask)
        expected_margins, expected = closed_form(one, alone, losses.logistic)()
        close |= {"check_dtype": False}
        torch.testing.assert_close(outputs[trial, rows], one(alone).detach(), **close)
        torch.testing.assert_close(attention[trial, rows], one.attention(alone).detach(), **close)
        torch.testing.assert_close(margins[trial, rows], expected_margins, **close)
        torch.testing.assert_close(tokens.scores[trial, rows], alone.scores, **close)
        assert torch.equal(tokens.optimal[trial, rows], alone.optimal)
        torch.testing.assert_close(loss[trial], losses.logistic(expected_margins).mean(), **close)
        torch.testing.assert_close(log_loss[trial], losses.logistic.log_mean(expected_margins), **close)
        torch.testing.assert_close({name: g[trial] for name, g in grads.items()}, expected, **close)
    for part in (outputs, attention, margins, *grads.values()):
        assert part.isfinite().all()


@given(masks, st.booleans(), st.sampled_from([0.0, 1.0, 30.0]))
@fewer
def test_closed_form_equals_autograd(mask, causal, scale):
    tokens = data.every_position(X, y, v, causal, mask)
    for model in make_models(scale=scale):
        margins, grads = closed_form(model, tokens, losses.logistic)()
        torch.testing.assert_close(margins, tokens.y * model(tokens).detach())
        expected = with_autograd(model, tokens)[1]
        for name in grads:
            close = {"rtol": 1e-10, "atol": 1e-13 * float(expected[name].abs().max())}
            torch.testing.assert_close(grads[name], expected[name], **close)
        ours = directions(closed_form(model, tokens, losses.logistic, 1)()[1])
        autograds = directions(with_autograd(model, tokens, batch_dims=1)[1])
        for name, g in ours.items():  # no pull at all has no direction
            torch.testing.assert_close(g.nan_to_num(), autograds[name].nan_to_num(), rtol=1e-10, atol=1e-12)


def test_trials_broadcast_both_ways():
    one = data.every_position(X[0], y[0], v[0], True, MASK[0])
    many = data.every_position(
        *(part[:1].expand(B, *part.shape[1:]) for part in (X, y, v)), True, MASK[[0, 0]]
    )
    for shared, model in zip(make_models(), make_models(), strict=True):
        torch.testing.assert_close(
            closed_form(shared, one, losses.logistic)(), closed_form(model, many, losses.logistic)()
        )
        torch.testing.assert_close(shared.logits(one), model.logits(many))
    tokens = data.every_position(X, y, v, True, MASK)
    for model in make_models(None):
        grads = closed_form(model, tokens, losses.logistic)()[1]
        torch.testing.assert_close(grads, with_autograd(model, tokens)[1])


def test_log_scaled_gradients_do_not_underflow_and_padding_does_not_scale_them():
    """Padding reads a margin that may be the smallest of all, and must not lend its slope."""
    tokens = data.every_position(X, y, v, True, MASK)
    model = models.CrossAttention(d, B, init=1e4 * randn(B, d, d), head=models.LinearHead(d, B, init=1e4 * v))
    far = dataclasses.replace(tokens, y=model(tokens).detach().sign())
    assert (losses.logistic(far.y * model(far)).detach()[far.present] == 0).all()
    for grads in (
        closed_form(model, far, losses.logistic, 1)()[1],
        with_autograd(model, far, batch_dims=1)[1],
    ):
        assert (grads["head.v"].norm(dim=1) > 1e-4).all()


@given(masks, st.booleans())
@fewer
def test_problems_have_the_rows_of_the_definition(mask, causal):
    tokens = data.every_position(X, y, v, causal, mask)
    problem = svm.sequence_problem(tokens, tokens.optimal)
    assert problem.r.shape == (B, n * T * (T - 1))
    rows = problem.a[..., :, None] * problem.b[..., None, :]
    for trial in range(B):
        expected = []
        for i, k in positions(trial, causal, mask)[0]:
            sees = visible(trial, i, k, causal, mask)
            x = X[trial, i]
            best = max(sees, key=lambda t, x=x, s=y[trial, i, k], trial=trial: float(s * (x[t] @ v[trial])))
            expected += [(x[best] - x[t])[:, None] * x[k] for t in sees if t != best]
        counted = (
            torch.ones_like(problem.r[trial], dtype=bool) if problem.mask is None else problem.mask[trial]
        )
        assert counted.sum() == len(expected)
        if expected:
            torch.testing.assert_close(rows[trial][counted], torch.stack(expected))
        assert not problem.r[trial][~counted].any()


def test_one_query_a_sequence_is_the_attention_problem():
    tokens = data.random_tokens(n, T, d, trials=B)
    ours = svm.sequence_problem(tokens, tokens.optimal)
    usual = svm.attention_problem(tokens.X, tokens.z, tokens.optimal)
    assert all(torch.equal(getattr(ours, name), getattr(usual, name)) for name in "abr")
    assert ours.mask is None


@pytest.mark.parametrize(("causal", "mask"), [(False, None), (True, MASK)])
def test_training_finds_the_problem_of_the_tokens_it_selects(causal, mask):
    tokens = data.every_position(X, y, v, causal, mask)
    model = models.CrossAttention(d, B)
    history = train.fit(
        model,
        tokens,
        optim.NormalizedGD(model.parameters(), 0.1, 1),
        1000,
        every=500,
        schedule=train.growing,
        progress=False,
    )
    attention = model.attention(tokens).detach()
    selected = geometry.selected_tokens(attention)
    solution = svm.solve(svm.sequence_problem(tokens, selected), throw=False)
    feasible = solution.status == "optimal"
    words = geometry.outcome(attention, tokens, feasible=feasible)
    assert feasible.any()
    assert (geometry.cosine(model.W.detach(), solution.value)[torch.as_tensor(feasible)] > 0.999).all()
    logits = tokens.compare(tokens.z @ solution.value.mT)
    local = geometry.locally_optimal(tokens.scores, logits, selected)
    tight = geometry.support_tokens(logits, selected)
    for trial in range(B):
        alone, one = copied(tokens, trial, causal, mask), single(model, trial)
        _, rows = positions(trial, causal, mask)
        ok = torch.tensor(feasible[trial])
        assert words[trial] == geometry.outcome(one.attention(alone), alone, feasible=ok)
        torch.testing.assert_close(
            history["loss"][-1, trial], losses.logistic(alone.y * one(alone)).mean().detach()
        )
        torch.testing.assert_close(
            history["log_loss"][-1, trial], losses.logistic.log_mean(alone.y * one(alone)).detach()
        )
        if feasible[trial]:
            own = (alone.scores, logits[trial, rows], selected[trial, rows])
            assert local[trial] == geometry.locally_optimal(*own)
            assert torch.equal(tight[trial, rows], geometry.support_tokens(*own[1:]))
            others = [row for row in range(n * T) if row not in rows]
            assert not tight[trial, others].any()


def test_every_way_of_training_takes_the_padding():
    """By trial and by the sum, in closed form and by autograd: the same steps."""
    tokens = data.every_position(X, y, v, True, MASK)
    autograd = {"softmax": lambda h, batch_dims=None: softmax(h, batch_dims)}
    for make in (
        lambda w, trials: optim.NormalizedGD(w, 0.1, 1),
        lambda w, trials: optim.PolyakGD(w, target=torch.zeros(trials), max_step=1e3, batch_dims=1),
        lambda w, trials: torch.optim.SGD(w, 0.5),
    ):
        ends = []
        for options in ({}, autograd):
            model = models.CrossAttention(d, B, init=0.1 * randn(B, d, d))
            train.fit(model, tokens, make(model.parameters(), B), 3, progress=False, **options)
            ends.append(model.W.detach())
        for trial in range(B):
            alone = copied(tokens, trial, True, MASK)
            model = models.CrossAttention(d, 1, init=0.1 * randn(B, d, d)[trial])
            train.fit(model, alone, make(model.parameters(), 1), 3, progress=False)
            for end in ends:
                torch.testing.assert_close(end[trial], model.W.detach()[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cut", [[slice(0, 1), slice(1, 2)], [slice(None)]])
def test_blocks_of_trials_keep_their_masks(cut, monkeypatch):
    """The second trial has a mask but no padding: alone it would not know that others have."""
    mask = torch.cat([MASK[:1], torch.ones_like(MASK[1:])])
    tokens = data.every_position(X, y, v, True, mask)
    monkeypatch.setattr("mini_attn.steps.trial_blocks", lambda model, data, room=0: cut)
    model = models.CrossAttention(d, B)
    train.fit(model, tokens, optim.NormalizedGD(model.parameters(), 0.1, 1), 20, progress=False)
    for trial in range(B):
        alone, one = copied(tokens, trial, True, mask), models.CrossAttention(d, 1)
        train.fit(one, alone, optim.NormalizedGD(one.parameters(), 0.1, 1), 20, progress=False)
        torch.testing.assert_close(model.W[trial], one.W[0], rtol=1e-8, atol=1e-10)


def test_the_size_of_a_step_counts_the_logits():
    assert data.every_position(X, y, v).entries == B * n * T * d  # d > T
    assert data.every_position(X[..., :2], y, v[..., :2]).entries == B * n * T * T
    assert data.random_tokens(3, 4, 5).entries == 60
    assert data.PointData(X[0, 0], y[0, 0]).entries == T * d


def test_paths_are_those_of_the_copies():
    tokens = data.every_position(X, y, v, True, MASK)
    path = paths.regularization_path(models.CrossAttention(d, B), tokens, [1.0, 3.0], tol=1e-7)
    for trial in range(B):
        alone = copied(tokens, trial, True, MASK)
        expected = paths.regularization_path(models.CrossAttention(d), alone, [1.0, 3.0], tol=1e-7)
        torch.testing.assert_close(path.loss[:, trial], expected.loss, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(path["W"][:, trial], expected["W"], rtol=1e-4, atol=1e-4)


def test_a_first_position_has_no_choice():
    tokens = data.every_position(X[:, :, :1], y[:, :, :1], v, causal=True)
    model = models.CrossAttention(d, B, init=randn(B, d, d))
    assert (model.attention(tokens) == 1).all()
    assert closed_form(model, tokens, losses.logistic, 1)()[1]["W"].abs().max() == 0
    assert svm.sequence_problem(tokens, tokens.optimal).r.shape == (B, 0)
    tokens = data.every_position(X, y, v, causal=True)
    problem = svm.sequence_problem(tokens, tokens.optimal)
    assert not problem.mask.unflatten(-1, (n, T, T - 1))[:, :, 0].any()
    assert problem.mask.sum() == B * n * T * (T - 1) / 2
    assert tokens.present is None  # it counts in the loss


@pytest.mark.parametrize("held", [math.nan, math.inf, 1e300, -7.0])
@pytest.mark.parametrize("causal", [False, True])
def test_what_the_padding_holds_does_not_change_a_bit(held, causal):
    padding = ~MASK
    tokens = data.every_position(X, y, v, causal, MASK)
    spoilt = data.every_position(
        X.masked_fill(padding[..., None], held), y.masked_fill(padding, held), v, causal, MASK
    )
    for name in ("X", "z", "y", "v", "mask", "scores", "present"):
        assert torch.equal(getattr(spoilt, name), getattr(tokens, name))
    assert (tokens.X[padding] == 0).all()
    assert torch.equal(tokens.present, MASK.flatten(-2))
    assert spoilt.keys is spoilt.X
    assert spoilt.z.data_ptr() == spoilt.X.data_ptr()


def test_tokens_that_a_row_does_not_see_do_not_change_a_bit_of_its_gradient():
    """Not even as a measure of the rounding error of those that it sees."""
    seen = torch.tensor([[True, True, False], [False, False, True]])
    ends = []
    for size in (1.0, 1e17):
        tokens = X[0, :1, :3] * torch.tensor([1.0, 1.0, size], dtype=torch.float64)[:, None]
        pair = data.TokenData(tokens, X[0, 1, :2], y[0, 0, :2], v[0], mask=seen, positions=2)
        ends.append([])
        for model in make_models(None)[:3]:
            for batch_dims in (None, 0):
                margins, grads = closed_form(model, pair, losses.logistic, batch_dims)()
                ends[-1] += [margins[:1], *(g for name, g in grads.items() if name != "head.v")]
            ends[-1] += [g for name, g in with_autograd(model, pair)[1].items() if name != "head.v"]
    assert all(torch.equal(one, other) and one.abs().max() > 0 for one, other in zip(*ends, strict=True))


def test_tokens_are_stored_once():
    for causal in (False, True):
        tokens = data.every_position(X, y, v, causal)
        assert tokens.X.data_ptr() == tokens.z.data_ptr() == X.data_ptr()
        assert tokens.X.shape == X.shape
        assert tokens.keys is tokens.X
        for twin in (tokens.to(torch.float32), dataclasses.replace(tokens, y=-tokens.y)):
            assert twin.keys is twin.X
            assert twin.positions == T
    assert data.every_position(X, y, v).mask is None


@pytest.mark.parametrize("kind", [0, 2])
def test_second_derivatives_are_those_of_the_copies(kind):
    tokens = data.every_position(X, y, v, True, MASK)

    def hessian(model, problem):
        def value(W):
            outputs = torch.func.functional_call(model, {"W": W}, (problem,))
            return losses.mean(losses.logistic(problem.y * outputs), problem.present).sum()

        return torch.autograd.functional.hessian(value, model.W.detach())

    model = make_models()[kind]
    full = hessian(model, tokens)
    for trial in range(B):
        expected = hessian(single(model, trial), copied(tokens, trial, True, MASK))
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(full[trial, :, :, trial], expected, rtol=1e-9, atol=1e-13)


def test_rows_without_a_token_are_only_for_sequences_that_others_see():
    tokens = data.every_position(X, y, v, False, MASK)
    assert not tokens.present.all()
    spoilt = dataclasses.replace(
        tokens,
        z=tokens.z.masked_fill(~tokens.present[..., None], math.nan),
        y=tokens.y.masked_fill(~tokens.present, math.nan),
    )
    assert torch.equal(spoilt.z, tokens.z)
    assert torch.equal(spoilt.y, tokens.y)
    mask = tokens.mask.clone()
    mask[1, T : 2 * T] = False
    with pytest.raises(ValueError, match=r"no real token in sequence \(1, 1\)"):
        dataclasses.replace(tokens, mask=mask)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"X": X[0, 0]}, "X must be a tensor of shape"),
        (
            {"y": y[..., 0]},
            r"y must be a tensor of shape \(2, 3, 4\), a label per position; got torch.float64",
        ),
        ({"y": 1.0}, "got float"),
        ({"y": 2 * y.abs()}, r"labels y must be -1 or \+1; found 2"),
        (
            {"mask": MASK[0]},
            r"bool tensor of shape \(2, 3, 4\), .* got torch.bool of shape \(3, 4\)",
        ),
        ({"mask": MASK.double()}, "got torch.float64"),
        ({"mask": MASK & False}, r"mask has no real token in sequence \(0, 0\)"),
        ({"X": X / 0}, "X holds NaN or inf"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(change, says):
    with pytest.raises(ValueError, match=says):
        data.every_position(**({"X": X, "y": y, "v": v} | change))


def test_a_token_that_a_position_does_not_see_cannot_be_selected():
    tokens = data.every_position(X, y, v, causal=True)
    selected = tokens.optimal.clone()
    selected[1, T + 1] = 2
    with pytest.raises(ValueError, match=r"selected\[1, 1, 1\] is 2, which the mask hides"):
        svm.sequence_problem(tokens, selected)


def test_everything_is_the_same_elsewhere(device):
    def run(place):
        tokens = data.every_position(*(part.to(place) for part in (X, y, v)), True, MASK.to(place))
        model = make_models()[2].to(place)
        _, grads = closed_form(model, tokens, losses.logistic, 1)()
        history = train.fit(
            model, tokens, optim.NormalizedGD([model.W], 0.1, 1), 20, every=10, progress=False
        )
        selected = geometry.selected_tokens(model.attention(tokens))
        solution = svm.solve(svm.sequence_problem(tokens, selected), throw=False)
        local = geometry.locally_optimal(tokens.scores, model.logits(tokens).detach(), selected)
        words = geometry.outcome(model.attention(tokens), tokens).tolist()
        return [model.W.detach(), history["log_loss"], solution.objective, local, *grads.values()], words

    with pytest.raises(ValueError, match=r"mask is on cpu, the rest on .*; move it: mask\.to"):
        data.every_position(*(part.to(device) for part in (X, y, v)), mask=MASK)
    (here, words), (there, same) = run(torch.device("cpu")), run(device)
    assert words == same
    for value, expected in zip(there, here, strict=True):
        assert value.device.type == device.type
        torch.testing.assert_close(value.cpu(), expected, rtol=1e-6, atol=1e-9)
