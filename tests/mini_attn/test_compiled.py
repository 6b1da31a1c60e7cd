"""Compiled steps are torch's: the same weights, alone and among others; torch takes them where it must."""

import builtins
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mini_attn import compiled, kernels, losses, steps
from mini_attn.data import TokenData, random_tokens
from mini_attn.heads import LinearHead
from mini_attn.models import CrossAttention, FactoredAttention, PromptAttention
from mini_attn.optim import NormalizedGD
from mini_attn.softmax import softmax
from mini_attn.train import fit, growing

MODELS = {
    "p": lambda d, trials: PromptAttention(d, trials),
    "W": lambda d, trials: CrossAttention(d, trials),
    "KQ": lambda d, trials: FactoredAttention(d, max(1, d - 1), trials),
}


def tokens(n, T, d, trials, seed):
    """Random tokens with any trial dimensions."""
    flat = random_tokens(n, T, d, math.prod(trials), seed)
    return TokenData(*(x.reshape(*trials, *x.shape[1:]) for x in (flat.X, flat.z, flat.y, flat.v)))


def start(kind, d, trials, size=1.0, seed=0):
    model = MODELS[kind](d, trials)
    draw = torch.Generator().manual_seed(seed)
    for w in model.parameters():
        w.data.copy_(size * torch.randn(w.shape, generator=draw, dtype=torch.float64))
    return model


def trained(model, data, lr=0.1, count=20, **options):
    optimizer = NormalizedGD(model.parameters(), lr, batch_dims=len(model.trials))
    fit(model, data, optimizer, count, progress=False, **options)
    return [w.detach().clone() for w in model.parameters()]


@pytest.fixture
def with_torch(monkeypatch):
    """Train as where nothing is compiled."""

    def train(*args, **options):
        with monkeypatch.context() as patch:
            patch.setattr(steps, "descent", lambda *_: None)
            return trained(*args, **options)

    return train


@pytest.fixture
def chosen(monkeypatch):
    """Whether each fit was compiled."""
    seen, choose = [], steps.descent

    def spy(*args):
        seen.append(choose(*args))
        return seen[-1]

    monkeypatch.setattr(steps, "descent", spy)
    return lambda: [one is not None for one in seen]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("loss", ["linear", "logistic", "exponential"])
@pytest.mark.parametrize(
    ("trials", "own", "n", "T", "d"),
    [
        ((), (), 3, 4, 5),
        ((1,), (1,), 1, 3, 2),
        ((7,), (7,), 6, 8, 10),
        ((70,), (70,), 2, 3, 4),
        ((70,), (), 2, 3, 4),
        ((2, 3), (2, 3), 4, 2, 3),
        ((5,), (5,), 3, 1, 2),  # nothing to choose
        ((5,), (5,), 1, 3, 1),
        ((600,), (600,), 6, 8, 10),  # several blocks
    ],
)
def test_the_steps_are_torchs(with_torch, chosen, kind, loss, trials, own, n, T, d):
    data = tokens(n, T, d, own, seed=1)
    options = {"loss": loss, "schedule": growing, "every": 7}
    expected = with_torch(start(kind, d, trials), data, **options)
    for seen, wanted in zip(trained(start(kind, d, trials), data, **options), expected, strict=True):
        torch.testing.assert_close(seen, wanted, rtol=1e-9, atol=1e-9)
    assert all(chosen())


@given(
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(["linear", "logistic", "exponential"]),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([1e-90, 1e-3, 1.0, 1e3, 1e90]),
    st.sampled_from([1e-90, 1e-3, 1.0, 1e3, 1e90]),
    st.booleans(),
)
def test_one_step_from_anywhere_at_any_scale(kind, loss, seed, n, T, d, size, weights, twice):
    data = random_tokens(n, T, d, 3, seed=seed)
    if twice:  # a token that occurs twice ties in every way
        data = replace(data, X=torch.cat([data.X, data.X[..., :1, :]], -2))
    lengths = 1 + torch.rand(data.X.shape[:-1], generator=torch.Generator().manual_seed(seed)).double()
    keys = data.X * lengths[..., None] * size  # on a line, tokens of length 1 would cancel to rounding noise
    if twice:
        keys[..., -1, :] = keys[..., 0, :]
    data = replace(data, keys=keys)
    before = [w.detach().clone() for w in start(kind, d, 3, weights, seed).parameters()]
    choose = steps.descent
    after = []
    for way in (choose, lambda *_: None):
        steps.descent = way
        try:
            after.append(trained(start(kind, d, 3, weights, seed), data, weights, 1, loss=loss))
        finally:
            steps.descent = choose
    for seen, wanted, was in zip(*after, before, strict=True):
        torch.testing.assert_close(seen - was, wanted - was, rtol=1e-6, atol=1e-7 * weights)


@pytest.mark.parametrize("size", [1e-170, 1e-158, 1e170])
def test_a_gradient_whose_square_leaves_the_numbers(with_torch, size):
    data = random_tokens(3, 4, 5, 6, seed=7)
    data = replace(data, keys=data.X * size)
    seen, wanted = (train(PromptAttention(5, 6), data, 1 / size, 1)[0] for train in (trained, with_torch))
    torch.testing.assert_close(seen, wanted, rtol=1e-12, atol=0)
    torch.testing.assert_close((seen * size).norm(dim=-1), torch.ones(6, dtype=torch.float64))


@pytest.mark.parametrize("kind", MODELS)
def test_a_trial_is_the_same_alone_and_among_others(kind):
    data = random_tokens(3, 4, 5, 40, seed=2)
    together = trained(start(kind, 5, 40), data, count=300)
    for k in (0, 17, 39):
        model = start(kind, 5, 40).block(slice(k, k + 1))
        for seen, wanted in zip(
            trained(model, data.block(slice(k, k + 1)), count=300), together, strict=True
        ):
            assert torch.equal(seen[0], wanted[k])


def test_descent_goes_on_where_every_gradient_underflows(with_torch):
    data = random_tokens(3, 4, 5, 20, seed=3)
    seen, wanted = (train(start("W", 5, 20, size=1e4), data, 10.0, 50)[0] for train in (trained, with_torch))
    torch.testing.assert_close(seen, wanted, rtol=1e-9, atol=1e-9)
    moved = (seen - start("W", 5, 20, size=1e4).W.detach()).flatten(1).norm(dim=-1)
    assert (moved > 100).sum() >= 15  # the others zigzag, or all their winners are best


def test_one_trial_that_diverges_harms_no_other():
    data = random_tokens(3, 4, 5, 6, seed=4)
    model, among = PromptAttention(5, 6), PromptAttention(5, 6)
    keys = data.keys.clone()
    keys[2] *= 1e308
    with pytest.raises(FloatingPointError, match=r"in trials \[2\].* by step 20"):
        trained(among, replace(data, keys=keys), 0.5, every=20)
    trained(model, data, 0.5, every=20)
    others = [0, 1, 3, 4, 5]
    assert torch.equal(model.p[others], among.p[others])


@pytest.mark.parametrize("way", ["trained", "with_torch"])
def test_what_a_callback_changes_counts_in_every_block(request, way, with_torch):
    def run(trials):
        model = start("W", 10, trials)
        data = random_tokens(6, 8, 10, trials, seed=9)
        optimizer = NormalizedGD(model.parameters(), 0.1, batch_dims=1)

        def shorter(model):
            optimizer.param_groups[0]["lr"] /= 2
            model.W.data[0] = 0.0  # the first trial starts anew
            return model.W.detach().flatten(1).norm(dim=1)[0]

        history = fit(model, data, optimizer, 6, every=2, progress=False, record={"norm": shorter})
        return history["norm"], model.W.detach()

    if way == "with_torch":
        request.getfixturevalue("monkeypatch").setattr(steps, "descent", lambda *_: None)
    for trials in (1, 400):  # one block, two
        _, W = run(trials)
        lengths = (W - start("W", 10, trials).W.detach()).flatten(1).norm(dim=1)
        # the first trial stands at zero; the others took two steps of each of three lengths
        assert (lengths[1:] <= 2 * (0.05 + 0.025 + 0.0125) + 1e-9).all()
        assert (lengths[1:] > 0.1).all()
        assert not W[0].any()


def test_where_only_torch_can(chosen):
    data = random_tokens(3, 4, 5, 2, seed=5)
    masked = random_tokens(3, 4, 5, 2, seed=5, lengths=torch.tensor([2, 4, 4]))
    single = PromptAttention(5, 2, dtype=torch.float32)
    trained(single, data.to(torch.float32))
    trained(start("p", 5, 2), masked)
    trained(start("p", 5, 2), data, ridge=0.1)
    trained(start("p", 5, 2), data, softmax=lambda h, batch_dims=None: softmax(h, batch_dims))
    own = losses.Loss("own", torch.neg, losses.linear.log, torch.zeros_like)
    trained(start("p", 5, 2), data, loss=own)
    model = PromptAttention(5, 2, head=LinearHead(5, 2))
    groups = [{"params": [model.p]}, {"params": [model.head.v]}]
    fit(model, data, NormalizedGD(groups, 0.1, batch_dims=1), 2, progress=False)
    model = FactoredAttention(5, 5, 2)
    fit(model, data, NormalizedGD([model.K], 0.1, batch_dims=1), 2, progress=False)
    fit(model, data, torch.optim.SGD(model.parameters(), 0.1), 2, progress=False)
    assert not any(chosen())
    assert len(chosen()) == 8


def test_large_products_are_left_to_torch(chosen):
    data = random_tokens(2, 2, 128, 1, seed=8)
    for model in (
        PromptAttention(128, 1),
        FactoredAttention(128, 1, 1),
        CrossAttention(128, 1),
        FactoredAttention(128, 64, 1),
    ):
        trained(model, data, count=1)
    assert chosen() == [True, True, False, False]


SEALED = ModuleNotFoundError("left out", name="mini_attn.kernels")
BROKEN = [RuntimeError("no folder"), EOFError("cut short"), ModuleNotFoundError("no numba", name="numba")]


@pytest.mark.parametrize("error", [SEALED, *BROKEN])
def test_without_compiled_code_torch_takes_the_steps_and_says_so(monkeypatch, with_torch, error):
    def refuse(name, *args, **kwargs):
        if name == "mini_attn.kernels":
            raise error
        return bring(name, *args, **kwargs)

    data = random_tokens(3, 4, 5, 2, seed=6)
    expected = with_torch(start("p", 5, 2), data)
    bring = builtins.__import__
    compiled._loops.cache_clear()
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as said:
        patch.setattr(builtins, "__import__", refuse)
        warnings.simplefilter("always")
        for _ in range(2):
            for seen, wanted in zip(trained(start("p", 5, 2), data), expected, strict=True):
                assert torch.equal(seen, wanted)
    compiled._loops.cache_clear()
    assert len(said) == (error is not SEALED)  # once a process
    assert all(str(error) in str(warning.message) for warning in said)


def test_what_has_underflowed_does_not_pull(with_torch):
    # the query of the first sequence is zero: its tokens tie, and pull at no weight, yet outweigh all others
    keys = torch.tensor([[[0.0, 1], [1, 0]], [[0, 800], [0, 0]], [[900, 0], [0, 0]]]).double()
    gamma = torch.tensor([[1.0, 0.5], [1, 0.5], [1, 0.5]]).double()
    X = torch.nn.functional.pad(gamma[..., None], (0, 1))
    z = torch.tensor([[0.0, 0], [1, 0], [1, 0]]).double()
    data = TokenData(X=X, z=z, y=torch.ones(3).double(), v=torch.tensor([1.0, 0]).double(), keys=keys)
    init = torch.tensor([[1.0, 0], [1, 0]]).double()
    for train in (trained, with_torch):
        (W,) = train(CrossAttention(2, 1, init=init), data, count=1)
        assert torch.equal(W[0], init)


def test_exponentials_are_right_to_two_units_in_the_last_place():
    x = -np.concatenate([np.linspace(0, 2, 10001), np.geomspace(1e-300, 708, 10001)])
    seen = x.copy()
    kernels._exp(seen, np.empty_like(x))
    wanted = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(seen - wanted) / wanted) < 2 * np.finfo(float).eps
    rest = np.array([-1e4, -np.inf, np.nan])
    kernels._exp(rest, np.empty_like(rest))
    assert (rest[:2] == 0).all()
    assert np.isnan(rest[2])


def test_the_last_trial_fills_the_last_block():
    x, out = np.arange(5.0)[:, None, None], np.empty((1, 1, 4))
    for start, expected in ((0, [0, 1, 2, 3]), (4, [4, 4, 4, 4])):
        kernels._side_by_side(x, start, out)
        assert out.ravel().tolist() == expected
