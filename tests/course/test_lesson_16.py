"""What lesson 16 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from course import exercises
from course.replicate.lesson_16 import finite_part, general, pull
from mini_attn import geometry, svm
from mini_attn.next_token import NextTokenTransformer
from mini_attn.vocabulary import NextTokens, closure, next_tokens, priorities, same_component

relations, value_matrix, slope, decided, finite_lead = (spec.reference for spec in exercises.exercises("16"))


@pytest.mark.parametrize("targets", [None, 3])
def test_relations_are_the_librarys(targets):
    data, _ = next_tokens(20, 4, 6, queries=3, targets=targets, seed=1)
    arrays = (part.numpy() for part in (data.tokens, data.target, data.following))
    np.testing.assert_array_equal(relations(*arrays), priorities(data).numpy())


@pytest.mark.parametrize("targets", [None, 2])
def test_the_value_matrix_is_the_svms(targets):
    data, _ = next_tokens(1, 2, 6, targets=targets, seed=2)
    solution = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    np.testing.assert_allclose(value_matrix(data.following.numpy()), solution, atol=1e-8)


def test_the_slope_is_the_svms_margin():
    above = torch.zeros(6, 6, 6, dtype=torch.bool)
    for q, length in ((0, 4), (3, 2), (5, 3)):
        for c in range(length - 1):
            above[q, c, c + 1] = True
    solution = svm.solve(svm.order_problem(torch.eye(6, dtype=torch.float64), above))
    assert slope([4, 2, 3], 0.2) == pytest.approx(-0.2 / float(solution.objective))


def test_decided_sequences_have_one_token_above_the_others():
    data, _ = next_tokens(12, 4, 7, queries=1, seed=3)
    above = priorities(data)[0]
    assert (decided(above.numpy(), data.tokens.numpy()) >= 0).all()  # by the data themselves
    reach = closure(above)
    tokens = torch.randint(0, 7, (60, 3), generator=torch.Generator().manual_seed(4))
    for sequence, winner in zip(tokens, decided(above.numpy(), tokens.numpy()), strict=True):
        beats = [all(reach[a, b] or a == b for b in sequence) for a in sequence]
        assert (winner >= 0) == any(beats)
        assert winner < 0 or beats[sequence.tolist().index(winner)]


def test_the_finite_lead_is_the_librarys_finite_part():
    E = torch.eye(3, dtype=torch.float64)[None]
    copies_a, won = np.array([2, 1, 3, 1, 4, 2, 1]), np.array([True, True, False, True, True, False, True])
    tokens = torch.tensor([[[0] * a + [1] * (6 - a) for a in copies_a]])  # the query is b, the token 1
    W, rest = finite_part(NextTokens(E, torch.arange(3)[None], tokens, torch.tensor(~won).long()[None]))
    assert rest < 1e-12
    lead = finite_lead(won, copies_a, 6 - copies_a)
    assert float(W[0, 0, 1] - W[0, 1, 1]) == pytest.approx(lead, abs=1e-9)


def test_attention_gradient_is_the_librarys(lesson):
    data, _ = next_tokens(8, 4, 6, d=5, seed=5)
    rng = np.random.default_rng(0)
    W_ov, W_kq = rng.normal(size=(6, 5)), rng.normal(size=(5, 5))
    mine = lesson["attention_gradient"](W_kq, W_ov, data.X.numpy(), data.target.numpy())
    ours = NextTokenTransformer(6, 5, W_ov=W_ov, W_kq=W_kq).gradients(data)["W_kq"]
    assert geometry.cosine(torch.from_numpy(mine), ours, batch_dims=0) > 1 - 1e-12


def test_the_pull_of_general_data_is_autograds():
    data = general(5, 4, 6, 8, trials=2, seed=6)
    W = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(7)).double().requires_grad_()
    h = (data.X @ (data.z @ W.mT)[..., None])[..., 0]
    loss = -(h.softmax(-1) * data.optimal).sum(-1).log().mean(-1).sum()
    torch.testing.assert_close(pull(W.detach(), data), torch.autograd.grad(loss, [W])[0])
    together = same_component(priorities(data))
    assert together.diagonal(dim1=-2, dim2=-1).all()
