"""What lesson 05 builds from scratch agrees with `mini_attn`, with autograd and with exact arithmetic."""

import numpy as np
import pytest
import torch

from mini_attn import data, optim, train
from mini_attn.models import PromptAttention
from mini_attn.softmax import softmax, textbook_softmax


def gradient(function, h, g):
    h = torch.tensor(h, requires_grad=True)
    (function(h) * torch.as_tensor(g)).sum().backward()
    return h.grad.numpy()


@pytest.fixture(scope="module")
def toy(lesson):
    tokens = data.toy_one_sequence()
    lesson["K"], lesson["g"] = tokens.keys[0].numpy(), tokens.values[0].numpy()
    return tokens


@pytest.mark.parametrize("lead", [0.0, 10.0, 30.0, 60.0])
def test_both_formulas_of_the_gradient_are_the_librarys(lead, lesson):
    rng = np.random.default_rng(7)
    h, g = rng.normal(size=(5, 6)), rng.normal(size=(5, 6))
    h[np.arange(5), rng.integers(6, size=5)] += 4 + lead
    np.testing.assert_allclose(lesson["textbook"](h, g), gradient(textbook_softmax, h, g), atol=1e-15)
    cured = lesson["anchored"](h, g)
    np.testing.assert_allclose(cured, gradient(softmax, h, g), rtol=1e-9, atol=0)
    for row, values, entry in zip(h, g, cured, strict=True):
        np.testing.assert_allclose(entry, lesson["exact"](row, values), rtol=1e-9)


def test_the_library_takes_a_near_tie_for_a_tie_and_the_cure_does_not(lesson):
    h, g = np.array([3.0, 0.0]), np.array([1.0, 1.0 - 8e-16])
    assert (gradient(softmax, h, g) == 0).all()
    np.testing.assert_allclose(lesson["anchored"](h, g), lesson["exact"](h, g), rtol=1e-9)
    assert lesson["anchored"](h, g)[0] > 3e-17


@pytest.mark.parametrize(("function", "slopes"), [(softmax, "anchored"), (textbook_softmax, "textbook")])
def test_the_lessons_ascent_takes_the_librarys_path(function, slopes, toy, lesson):
    start = np.array([[0.3, -1.5]])
    ends = lesson["ascend"](start, lesson["unit"](0.2), {150}, slopes=lesson[slopes])[-1, 0]
    model = PromptAttention(d=2, init=torch.tensor(start[0]))
    descent = optim.NormalizedGD(model.parameters(), lr=0.2)
    train.fit(model, toy, descent, 150, "linear", progress=False, softmax=function)
    np.testing.assert_allclose(ends, model.p.detach(), atol=1e-2 if slopes == "textbook" else 1e-9)


def test_the_brackets_are_the_textbooks_and_the_true_one(lesson):
    values, leads = np.array([0.7, 0.5, -1.3, 0.9]), np.array([5.0, 25.0])
    computed, b = lesson["brackets"](values, leads)
    for lead, one, true in zip(leads, computed, b, strict=True):
        h = np.array([lead, 0, 0, 0])
        weight = lesson["anchored"](h, values)[0] / true
        assert abs(weight - 1) < 4 * np.exp(-lead)  # s_1, of which the gradient is a multiple
        np.testing.assert_allclose(one, lesson["textbook"](h, values)[0] / weight, atol=1e-15)
        np.testing.assert_allclose(true, lesson["exact"](h, values)[0] / weight, rtol=1e-12)


def test_a_gradient_of_zero_takes_no_step_and_a_tiny_one_a_whole_step(lesson):
    steps = lesson["unit"](0.5)(np.array([[0.0, 0.0], [3e-200, -4e-200]]))
    np.testing.assert_allclose(steps, [[0, 0], [0.3, -0.4]])


@pytest.mark.slow
@pytest.mark.parametrize(("T", "d", "seed"), [(8, 10, 3), (8, 10, 5), (6, 6, 1), (20, 4, 3)])
def test_without_noise_the_broken_runs_escape_exactly_where_the_losers_hull_says(T, d, seed, lesson):
    drawn = data.random_tokens(n=100, T=T, d=d, seed=seed)
    keys, values = drawn.keys.numpy(), drawn.values.numpy()
    follow, start = lesson["ascend"], np.zeros((100, d))
    cured = follow(start, lesson["unit"](0.2), {1000}, keys, values, slopes=lesson["anchored"])[0]
    order = np.argsort(-(keys @ cured[..., None])[..., 0])
    keys, values = np.take_along_axis(keys, order[..., None], 1), np.take_along_axis(values, order, 1)
    keys, values = (one[values.argmax(1) == 0] for one in (keys, values))
    said = np.array([lesson["broken_direction"](one).any() for one in keys])
    escaped = []
    for slopes in ("noise_removed", "textbook"):
        rule = lesson["unit"](0.2)
        end = follow(np.zeros((len(keys), d)), rule, {4000}, keys, values, slopes=lesson[slopes])[0]
        escaped.append(((keys[:, :1] - keys[:, 1:]) @ end[..., None]).min(1)[:, 0] > 39)
    assert (escaped[0] == said).all()
    assert not (escaped[1] & ~said).any()
    assert escaped[1].sum() >= 0.7 * said.sum()  # noise holds the others back


def test_what_figure_4_shows_past_the_wall(lesson):
    """Nothing for values 1 and 0; for 1 and 0.999 a grain or two now and then; anchored, no wall at all."""
    for values, expected in (((1.0, 0.0), {0}), ((1.0, 0.999), {0, 1, 2})):
        past = lesson["wall"](np.array(values)) + np.arange(0.1, 8, 0.05)
        assert set(lesson["brackets"](np.array(values), past)[0] * 2**53) <= expected
    computed, true = lesson["brackets"](np.array([0.0, -1.0]), np.arange(20, 60, 0.05))
    np.testing.assert_allclose(computed, true, rtol=1e-12)


def test_the_cures_own_wall_is_where_the_exponential_underflows():
    assert np.exp(np.float32(-103)) > 0 == np.exp(np.float32(-104))
    assert np.exp(-745) > 0 == np.exp(-745.2)
