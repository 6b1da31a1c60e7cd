"""What lesson 06 builds from scratch agrees with `mini_attn`."""

import numpy as np
import pytest
import torch

from mini_attn import data, geometry, models, optim, svm, train


def selection(seed, n=3, T=4, d=6):
    """Random keys and a feasible choice of tokens."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(n, T, d))
    return keys, (keys @ rng.normal(size=d)).argmax(axis=1)


@pytest.mark.parametrize("scores", [(1.0, 0.9, 0.9), (1.0, 0.9, 0.0)])
@pytest.mark.parametrize("normalise", [True, False])
def test_the_lessons_descent_takes_the_librarys_path(scores, normalise, lesson):
    starts = np.array([[0.0, 1.0], [0.3, -1.5]])
    toy = data.toy_one_sequence(scores)
    steps = 500 if normalise else 50  # 500: far beyond where cancellation sets in
    path = lesson["descend"](
        starts, toy.keys[0].numpy(), np.array(scores), steps, lr=0.3, normalise=normalise
    )
    for start, end in zip(starts, path[-1], strict=True):
        model = models.PromptAttention(d=2, init=torch.tensor(start))
        kind = optim.NormalizedGD if normalise else torch.optim.SGD
        train.fit(model, toy, kind(model.parameters(), lr=0.3), steps=steps, progress=False)
        np.testing.assert_allclose(model.p.detach(), end, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_lessons_att_svm_is_the_librarys(seed, lesson):
    keys, selected = selection(seed)
    solution = svm.solve(svm.token_problem(torch.tensor(keys), torch.tensor(selected)))
    np.testing.assert_allclose(lesson["att_svm"](keys, selected), solution.value, rtol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_lessons_comparisons_are_the_librarys(seed, lesson):
    keys, selected = selection(seed)
    a = svm.token_problem(torch.tensor(keys), torch.tensor(selected)).a
    np.testing.assert_array_equal(lesson["comparisons"](keys, selected), a)


@pytest.mark.parametrize("keys", [[[-1.0, 0], [0, 0], [1, 0]], [[0, 1.0], [0, 1], [1, 0]]])
def test_the_lessons_att_svm_says_when_it_is_infeasible(keys, lesson):
    with pytest.raises(ValueError, match="infeasible"):
        lesson["att_svm"](np.array([keys]), np.array([1]))


@pytest.mark.parametrize("seed", range(10))
def test_local_optimality_is_the_librarys(seed, lesson):
    keys, selected = selection(seed)
    scores = np.random.default_rng(seed).uniform(size=keys.shape[:2])
    i = np.arange(len(keys))
    scores[i, selected] = np.sort(scores, axis=1)[:, -2] + 0.01  # good, but often not the best
    p_mm = svm.solve(svm.token_problem(torch.tensor(keys), torch.tensor(selected))).value
    library = geometry.locally_optimal(
        torch.tensor(scores), torch.tensor(keys) @ p_mm, torch.tensor(selected)
    )
    bars = lesson["score_to_beat"](keys, scores, selected, p_mm.numpy())
    assert (scores[i, selected] > bars).all() == library
