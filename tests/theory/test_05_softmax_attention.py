"""Lesson 05. The gradient of softmax attention vanishes as it saturates, and the textbook formula loses it.

At lead Delta the attention off the winner and the gradient are at most of order exp(-Delta). The winner's
bracket g_a - f comes in whole spacings of floats, and is lost between two sides of a wall near
53 log 2 + log(|sum_t (g_a - g_t)| / |g_a|). The error pushes along the winner's key: the origin of the keys
decides where a run goes.
"""

import math

import numpy as np
import pytest
import torch

from course import exercises
from mini_attn import data, softmax

_, lengthening, crawl, _, broken_direction = (spec.reference for spec in exercises.exercises("05"))
generator = torch.Generator().manual_seed(2025)
DIRECTION = torch.randn(200, 6, generator=generator, dtype=torch.float64)
VALUES = torch.randn(200, 6, generator=generator, dtype=torch.float64)


def gradient(function, logits, **options):
    logits = logits.clone().requires_grad_()
    (function(logits, **options) * VALUES).sum().backward()
    return logits.grad


def with_lead(lead):
    """Random logits, scaled so that each row's winner has this lead."""
    top = DIRECTION.topk(2, dim=-1).values
    return DIRECTION * (lead / (top[:, 0] - top[:, 1]))[:, None]


@pytest.mark.parametrize("lead", [5.0, 20.0, 100.0, 600.0])
def test_attention_and_gradient_vanish_with_the_lead(lead):
    logits = with_lead(lead)
    off = torch.softmax(logits, -1).sort(-1).values[:, :-1].sum(-1)
    assert (off <= 5 * math.exp(-lead)).all()
    spread = VALUES.amax(-1) - VALUES.amin(-1)
    size = gradient(softmax.softmax, logits).abs().sum(-1)
    assert (size <= 2 * spread * 5 * math.exp(-lead)).all()


def test_the_textbook_formula_is_noise_beyond_its_wall():
    for lead, right in ((15.0, True), (36.0, False), (45.0, False)):
        logits = with_lead(lead)
        exact = gradient(softmax.softmax, logits)
        error = (gradient(softmax.textbook_softmax, logits) - exact).norm(dim=-1) / exact.norm(dim=-1)
        assert (error.median() < 1e-6) if right else (error.median() > 0.05)


def test_in_logs_the_direction_survives_any_lead():
    near = gradient(softmax.softmax, with_lead(300.0), batch_dims=1)
    plain = gradient(softmax.softmax, with_lead(300.0))
    unit = plain / plain.abs().amax(-1, keepdim=True)
    torch.testing.assert_close(near / near.abs().amax(-1, keepdim=True), unit)
    far = gradient(softmax.softmax, with_lead(1e6), batch_dims=1)
    assert (far.abs().amax(-1) > 1e-3).all()
    assert (gradient(softmax.softmax, with_lead(1e6)) == 0).all()


@pytest.mark.parametrize("T", [2, 7, 40])
@pytest.mark.parametrize(("dtype", "bits"), [(torch.float64, 53), (torch.float32, 24)])
def test_the_winners_entry_is_lost_between_both_sides_of_the_wall_and_in_whole_spacings(T, dtype, bits):
    random = torch.Generator().manual_seed(T)
    values = (4 * torch.rand(100, 1, T, generator=random, dtype=torch.float64) - 2).to(dtype)
    top = values[..., :1]
    shift = 53 * math.log(2) - bits * math.log(2)
    leads = torch.arange(22, 62, 0.1, dtype=torch.float64).sub(shift).to(dtype)
    h = torch.zeros(len(leads), T, dtype=dtype)
    h[:, 0] = leads
    s = torch.softmax(h, -1)
    computed = (top - (s * values).sum(-1, keepdim=True))[..., 0].double()
    true = (s[:, 1:] * (top - values[..., 1:]).double()).sum(-1)
    lost = (computed / true - 1).abs() > 0.5
    size = top[..., 0].double().abs()
    spacing = 2.0**-bits * 2.0 ** torch.ceil(torch.log2(size))
    multiples = computed / spacing
    near = true.abs() < 1000 * spacing  # f and the winner's value have the same exponent
    assert (multiples == multiples.round())[near].all()
    assert lost[true.abs() < 0.66 * spacing].all()  # certain: 0 and one grain are both too far off
    assert not lost[true.abs() > 4 * T * 2.0**-bits * size].any()  # certain: 2T roundings
    assert 0.02 < lost.double().mean() < 0.98


def test_tied_rivals_do_not_set_the_pace():
    keys, g, p = np.array([2.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0]), 0.0
    for _ in range(30_000):
        e = np.exp(keys * p)
        s = e / e.sum()
        p += (s * (g - s @ g)) @ keys
    assert abs(p - crawl(keys, g, 1.0, 30_000)) < 0.01  # log(4 j) / 2; the nearest rival says log(j) / 1
    assert p < 0.6 * math.log(30_000)


def run(keys, g, function, start, steps, lr=0.2):
    """Normalised descent on -f, one problem a trial: p, (trials, d)."""
    keys, start = torch.as_tensor(keys), torch.as_tensor(start).clone()
    for _ in range(steps):
        h = (keys @ start[..., None])[..., 0].requires_grad_()
        (function(h) * torch.as_tensor(g)).sum().backward()
        step = (h.grad[:, None] @ keys)[:, 0]
        step = step / step.abs().amax(-1, keepdim=True).clamp(min=1e-320)
        start = start + lr * step / step.norm(dim=-1, keepdim=True).clamp(min=1e-320)
    return start.numpy()


@pytest.mark.parametrize("seed", range(2))
def test_with_the_winners_key_at_the_origin_the_error_pushes_nowhere(seed):
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(20, 4, 5))
    g = np.concatenate([np.ones((20, 1)), rng.uniform(0, 0.999, (20, 3))], axis=1)
    towards = keys[:, 0] - keys[:, 1:].mean(1)
    least = np.einsum("rtd,rd->rt", keys[:, :1] - keys[:, 1:], towards).min(1)
    keys, g, towards, least = (array[least > 0.3] for array in (keys, g, towards, least))
    start = 25 * towards / least[:, None]
    true = run(keys, g, softmax.softmax, start, 300)
    moved = run(keys - keys[:, :1], g, softmax.textbook_softmax, start, 300)
    broken = run(keys, g, softmax.textbook_softmax, start, 300)
    np.testing.assert_allclose(moved, true, rtol=1e-6, atol=1e-6)
    assert np.median(np.linalg.norm(broken - true, axis=1)) > 5


@pytest.mark.parametrize(("T", "d", "seed"), [(5, 6, 1), (12, 9, 2)])
def test_the_lost_entry_alone_turns_a_run_round(T, d, seed):
    rng = np.random.default_rng(seed)
    keys, g = rng.normal(size=(40, T, d)) / math.sqrt(d), rng.uniform(0, 1, (40, T))

    def zeroed(h):
        winner = torch.nn.functional.one_hot(h.detach().argmax(-1), T).bool()
        lead = -h.detach().topk(2).values.diff(dim=-1)
        h.register_hook(lambda slopes: slopes.where(~winner | (lead < 36.7), 0))
        return softmax.softmax(h)

    cured = run(keys, g, softmax.softmax, np.zeros((40, d)), 1000)

    def turned(function):
        """The cosine to the cured run after 1,000 steps, (trials,)."""
        p = run(keys, g, function, np.zeros((40, d)), 1000)
        return (p * cured).sum(-1) / np.linalg.norm(p, axis=-1) / np.linalg.norm(cured, axis=-1)

    assert np.median(turned(zeroed)) < 0.95
    assert np.median(turned(softmax.textbook_softmax)) < 0.95


@pytest.mark.parametrize("d", [3, 6])
def test_the_broken_run_goes_where_a_winner_at_the_origin_would(d):
    rng = np.random.default_rng(d)
    keys = rng.normal(size=(150, 3, d))
    g = np.concatenate([np.ones((150, 1)), rng.uniform(0, 0.9, (150, 2))], axis=1)
    towards = keys[:, 0] - keys[:, 1:].mean(1)
    least = np.einsum("rtd,rd->rt", keys[:, :1] - keys[:, 1:], towards).min(1)
    keys, g, towards, least = (array[least > 0.1] for array in (keys, g, towards, least))
    p = run(keys, g, softmax.textbook_softmax, 50 * towards / least[:, None], 1200)
    lead = np.einsum("rtd,rd->rt", keys[:, :1] - keys[:, 1:], p).min(1)
    escapes = np.array([broken_direction(one).any() for one in keys])
    assert (lead[escapes] > 60).mean() > 0.95
    assert (lead[~escapes] < 50).mean() > 0.95
    assert min(escapes.sum(), (~escapes).sum()) > 10


@pytest.mark.parametrize(("T", "d", "seed"), [(8, 4, 3), (4, 3, 4)])
def test_a_run_breaks_when_its_bracket_is_lost_and_then_the_losers_hull_decides(T, d, seed):
    drawn = data.random_tokens(n=60, T=T, d=d, seed=seed)
    keys, g = drawn.keys.numpy(), drawn.values.numpy()
    true = broken = np.zeros((60, d))
    predicted, broke = np.zeros(60), np.zeros(60)
    for step in range(1, 601):
        true = run(keys, g, softmax.softmax, true, 1)
        broken = run(keys, g, softmax.textbook_softmax, broken, 1)
        h = np.einsum("rtd,rd->rt", keys, true)
        top = np.take_along_axis(g, h.argmax(1)[:, None], 1)
        bracket = (np.exp(h - h.max(1, keepdims=True)) * (top - g)).sum(1)
        predicted[(predicted == 0) & (np.abs(bracket) < 2.0**-53 * np.abs(top[:, 0]))] = step
        broke[(broke == 0) & (np.linalg.norm(broken - true, axis=1) > 0.1)] = step
    known = predicted > 0
    assert known.mean() > 0.85
    assert (np.abs(broke[known] / predicted[known] - 1) < 0.2).all()

    order = np.argsort(-h, axis=1)  # the winner first
    keys, g = np.take_along_axis(keys, order[..., None], 1), np.take_along_axis(g, order, 1)
    escapes = np.array([broken_direction(one).any() for one in keys])
    end = run(keys, g, softmax.textbook_softmax, np.zeros((60, d)), 3000)
    escaped = np.einsum("rtd,rd->rt", keys[:, :1] - keys[:, 1:], end).min(1) > 60
    assert not escaped[~escapes].any()
    assert escaped[escapes].mean() > 0.7
    assert min(escapes.sum(), (~escapes).sum()) > 5


def test_a_longer_p_may_lower_the_output_though_the_best_token_leads():
    """df/dR = Cov_s(k . u, g): at first it counts who falls behind, in the end only who leads."""
    keys, g = np.array([[-0.1, 1.0], [1, 0], [0, 0]]), np.array([1.0, 0.9, 0.0])
    lengths = np.array([0.01, 1.0, 3.0, 30.0])
    slopes = [lengthening(np.array([-R, 0]), keys, g) for R in lengths]
    assert [slope > 0 for slope in slopes] == [False, False, True, True]
    for R, slope in zip(lengths, slopes, strict=True):
        e = np.exp(np.outer([R + 1e-5, R - 1e-5], keys @ [-1, 0]))
        f = e @ g / e.sum(1)
        assert abs((f[0] - f[1]) / 2e-5 - slope) < 1e-8
