"""What lesson 18 builds from scratch agrees with `mini_attn` and with the model of the stored sweeps."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate import lesson_18 as stored
from course.replicate import small_transformer as net
from course.replicate import taken_apart
from mini_attn import svm

sharpness, agreement, lower_bound, untrained, flip_test = (
    spec.reference for spec in exercises.exercises("18")
)
REAL = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], dtype=torch.bool)


def weights(lesson):
    P = lesson["begin"](3, 5, 4, seed=1)
    return P, {name: w.detach()[None] if name[0] != "b" else w.detach()[None, None] for name, w in P.items()}


def test_the_transformer_is_the_stored_sweeps(lesson):
    P, batched = weights(lesson)
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(3, 5, 3, generator=generator, dtype=torch.float64)
    mine, theirs = [], []
    answers = lesson["transformer"](P, X @ P["embed"] + P["place"], REAL, mine)
    expected = net.forward(batched, X[None], REAL[None], theirs)[0]
    torch.testing.assert_close(answers, expected)
    for (a, s), (b, r) in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b[0])
        torch.testing.assert_close(s.swapaxes(0, 1), r[0])
    assert not mine[0][1][0, :, :, 4].any()  # nobody looks at padding


def test_one_question_for_all_is_the_stored_one(lesson):
    P, batched = weights(lesson)
    x = torch.rand(3, 5, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    full, keep = torch.ones(3, 5, dtype=torch.bool), []
    _, s, _ = lesson["attend"](P, 1, x, full, shared=True)
    for real in (full, REAL):
        net.layer(batched, 1, x[None], real[None], keep, softmax=stored.one_question(real[None]))
    (_, same), (_, padded) = keep
    torch.testing.assert_close(s.swapaxes(0, 1), same[0])
    assert not padded[0, :, 0, :, 4].any()  # nobody looks at padding, and
    other = torch.cat([x[:, :4], 9 * x[:, 4:]], 1)  # what asks there does not count
    net.layer(batched, 1, other[None], REAL[None], keep, softmax=stored.one_question(REAL[None]))
    torch.testing.assert_close(keep[-1][1][0, :, 0], padded[0, :, 0])


def test_even_attention_leaves_padding_out():
    h = torch.randn(2, 3).masked_fill(torch.tensor([False, False, True]), -torch.inf)
    torch.testing.assert_close(stored.even(h, -1), torch.tensor([[0.5, 0.5, 0.0]]).expand(2, 3))


def test_the_shapes_of_the_start_are_the_stored_ones(lesson):
    P, _ = weights(lesson)
    batched = net.begin(1, 5, 4, inputs=3)
    assert {name: w.numel() for name, w in P.items()} == {name: w.numel() for name, w in batched.items()}


def test_sharpness_is_the_stored_one():
    s = torch.rand(1, 2, 3, 5, 5, dtype=torch.float64).masked_fill(~REAL[None, None, :, None], 0)
    s = s / s.sum(-1, keepdim=True)
    entropy, largest = stored.sharpness(s, REAL[None])
    asks = REAL & (REAL.sum(-1) > 1)[:, None]
    number = REAL.sum(-1)[:, None].expand(3, 5)[asks].numpy()
    for head in range(2):
        rows = s[0, head][asks].numpy()
        assert float(entropy[0, head]) == pytest.approx(sharpness(rows, number).mean())
        assert float(largest[0, head]) == pytest.approx(rows.max(-1).mean())


def test_an_untrained_matrix_is_of_the_stored_form():
    a = torch.randn(1, 3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    W = stored.of_tokens(a, REAL[None], 1, torch.Generator().manual_seed(2))[0, 0]
    c = torch.randn(1, 1, 3, 5, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)[0, 0]
    np.testing.assert_allclose(untrained(c.numpy(), a[0].numpy(), REAL.numpy()), W, atol=1e-12)


def test_a_gradient_has_that_form():
    """Slopes of any function of the attention add up to 0 over the tokens."""
    a = torch.randn(2, 4, 3, dtype=torch.float64)
    W = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    h = torch.einsum("ikd,ed,ite->ikt", a, W, a)
    h.retain_grad()
    (h.softmax(-1).pow(2) * torch.rand(2, 4, 4)).sum().backward()
    full = np.ones((2, 4), dtype=bool)
    np.testing.assert_allclose(untrained(h.grad.numpy(), a.numpy(), full), W.grad, atol=1e-12)


def test_the_bound_is_tight_at_the_solution_and_below_it_elsewhere():
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    selected = torch.randint(0, 4, (2, 4), generator=generator)
    solution = svm.solve_soft(X, selected, 2.0, tol=1e-10)
    i, k, t = np.nonzero(np.arange(4) != selected.numpy()[..., None])
    A = np.einsum("rd,re->rde", X[i, selected[i, k]] - X[i, t], X[i, k]).reshape(len(i), -1)
    w = solution.value.numpy().ravel()
    assert lower_bound(A, w, 2.0) == pytest.approx(float(solution.objective), rel=1e-6)
    for shift in np.random.default_rng(0).normal(size=(20, 9)):
        assert lower_bound(A, w + shift, 2.0) <= float(solution.objective) * (1 + 1e-9)


def test_flips_of_unequal_runs():
    trained = np.array([[1.0, 3.0], [2.0, 2.0], [-0.5, -0.5]])
    assert flip_test(trained, 0 * trained) == 0.5  # +-2 +-2 +-.5: four of eight sums reach 3.5
    assert flip_test(np.ones((10, 8)), np.zeros((10, 8))) == 2 / 1024


@pytest.mark.parametrize(("selected", "share"), [([0, 0, 1, 2, 2], 0.5), ([3, 3, 3, 3, 0], 1.0)])
def test_agreement_leaves_padding_out(selected, share):
    assert agreement(np.array([selected]), REAL[:1].numpy()) == pytest.approx([share])


def test_ingredients_add_up():
    assert taken_apart.ingredients("base") == ()
    assert taken_apart.ingredients("+ Adam") == ("Adam",)
    assert taken_apart.ingredients(taken_apart.PAIR) == ("embeddings learn", "every token asks")
    assert len(set(taken_apart.SETTINGS)) == len(net.INGREDIENTS) + 2
