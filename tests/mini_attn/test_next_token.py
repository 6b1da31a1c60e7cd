"""The one-layer transformer: gradients by autograd, far out too, and its excess loss."""

import pytest
import torch

from mini_attn import geometry, svm
from mini_attn.next_token import NextTokenTransformer, collocation, descend
from mini_attn.vocabulary import NextTokens, next_tokens, priorities


def randn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def model_and_data(scale=1.0, targets=None):
    data, _ = next_tokens(6, 4, 5, d=7, queries=3, targets=targets, trials=3, seed=1)
    W_kq = scale * randn(3, 7, 7, seed=3)
    return NextTokenTransformer(5, 7, 3, W_ov=randn(3, 5, 7, seed=2), W_kq=W_kq), data


def loss(model, data):
    return -model(data).log_softmax(-1).gather(-1, data.target[..., None])[..., 0].mean(-1)


@pytest.mark.parametrize("targets", [None, 2])
def test_gradients_and_their_common_scale_are_autograds(targets):
    model, data = model_and_data(targets=targets)
    exact = torch.autograd.grad(loss(model, data).sum(), [model.W_ov, model.W_kq])
    ours = model.gradients(data)
    for name in ("W_ov", "W_kq"):
        (alone,) = model.gradients(data, [name]).items()
        assert alone[0] == name
        assert torch.equal(alone[1], ours[name])
    ratios = []
    for name, grad in zip(("W_ov", "W_kq"), exact, strict=True):
        ratio = (grad * ours[name]).sum((1, 2)) / ours[name].square().sum((1, 2))
        torch.testing.assert_close(ratio[:, None, None] * ours[name], grad, rtol=1e-9, atol=1e-15)
        ratios.append(ratio)
    torch.testing.assert_close(ratios[1] / ratios[0], ours["scale"].exp(), rtol=1e-9, atol=0)


def test_gradients_survive_saturation():
    """Attention within e^-1000 of one token: the exact gradient is 0 in floats, ours has its direction."""
    model, data = model_and_data(scale=1e4)
    pull = model.gradients(data)["W_kq"]
    assert pull.isfinite().all()
    assert (pull.flatten(1).norm(dim=1) > 1e-6).all()
    exact = torch.autograd.grad(loss(model, data).sum(), [model.W_kq])[0]
    assert exact.abs().max() < 1e-12


def test_tokens_that_only_rounding_sets_apart_stay_level():
    """Other processors add in another order. Far out, a value's last digit outweighs every real pull."""
    data, _ = next_tokens(40, 4, 16, queries=8, targets=6, trials=5, seed=46)
    W_ov = 8 * (torch.eye(16, dtype=torch.float64)[data.following].mT - 1 / 16)
    W_kq = 100 * svm.solve(svm.order_problem(data.embeddings, priorities(data))).value
    rounded = W_ov * (1 + torch.finfo(W_ov.dtype).eps * randn(*W_ov.shape, seed=4))
    exact, ours = (
        NextTokenTransformer(16, 16, 5, W_ov=W, W_kq=W_kq).gradients(data)["W_kq"] for W in (W_ov, rounded)
    )
    assert (geometry.cosine(ours, exact) > 1 - 1e-9).all()


def test_the_excess_is_the_difference_of_losses():
    model, data = model_and_data(scale=0.1)
    right = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = NextTokenTransformer(5, 7, 3, W_ov=3 * right, W_kq=model.W_kq)
    ideal = data.X.gather(
        -2, data.optimal.to(torch.int8).argmax(-1)[..., None, None].expand(3, 6, 1, 7)
    ).squeeze(-2)
    best = -(ideal @ model.W_ov.mT).log_softmax(-1).gather(-1, data.target[..., None])[..., 0].mean(-1)
    difference = (loss(model, data) - best).detach()
    assert (difference > 1e-3).all()
    torch.testing.assert_close(model.log_excess(data).exp().detach(), difference)


def test_steps_have_their_length_and_weights_that_do_not_train_stand_still():
    model, data = model_and_data()
    before = model.W_kq.detach().clone(), model.W_ov.detach().clone()
    noted = descend(model, data, 1, lr=0.3, record=lambda model: model.W_kq.detach().clone())
    torch.testing.assert_close((noted[1] - before[0]).flatten(1).norm(dim=1), torch.full((3,), 0.3).double())
    assert torch.equal(model.W_ov, before[1])
    exact = torch.autograd.grad(loss(model, data).sum(), [model.W_ov, model.W_kq])
    start = model.W_ov.detach().clone(), model.W_kq.detach().clone()
    descend(model, data, 1, lr=0.3, train=["W_ov", "W_kq"])
    moved = [start[0] - model.W_ov.detach(), start[1] - model.W_kq.detach()]
    both = [torch.cat([part.flatten(1) for part in parts], 1) for parts in (exact, moved)]
    assert (geometry.cosine(*both, batch_dims=1) > 1 - 1e-12).all()
    with pytest.raises(ValueError, match="W_q"):
        descend(model, data, 1, train=["W_q"])


def test_collocation_has_each_token_alone():
    _, data = model_and_data()
    alone = collocation(data)
    assert alone.optimal.all()
    assert alone.tokens.shape == (3, 5, 1)


@pytest.mark.parametrize("scale", [1.0, 300.0, 3000.0])
def test_the_excess_is_finite_where_exponentials_overflow(scale):
    """Long W_ov: e^(o - o_ideal) overflows, though the loss that it belongs to does not."""
    model, data = model_and_data()
    limit = svm.solve(svm.next_problem(data.embeddings, data.following)).value
    model = NextTokenTransformer(5, 7, 3, W_ov=scale * limit, W_kq=model.W_kq)
    best = data.optimal.double().argmax(-1)[..., None, None]
    ideal = data.X.gather(-2, best.expand(*best.shape[:-1], 7))[..., 0, :] @ model.W_ov.mT
    least = -ideal.log_softmax(-1).gather(-1, data.target[..., None])[..., 0].mean(-1)
    expected = (loss(model, data) - least).log()
    torch.testing.assert_close(model.log_excess(data), expected, rtol=1e-9, atol=1e-9)


def test_a_vocabulary_of_one_word_has_nothing_to_learn():
    data = NextTokens(
        torch.ones(1, 2, dtype=torch.float64), torch.zeros(1, dtype=torch.int64),
        torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64),
    )  # fmt: skip
    model = NextTokenTransformer(1, 2)
    descend(model, data, 2, train=["W_ov", "W_kq"])
    assert (model.W_ov == 0).all()
    assert (model.W_kq == 0).all()


@pytest.mark.parametrize(
    ("steps", "schedule", "message"), [(-1, None, "steps = -1"), (2, lambda j: float("nan"), "= nan")]
)
def test_steps_that_are_none_are_refused(steps, schedule, message):
    model, data = model_and_data()
    with pytest.raises(ValueError, match=message):
        descend(model, data, steps, schedule=schedule)


def test_data_without_trials_are_shared_by_all_trials_of_a_model():
    data, _ = next_tokens(6, 4, 5, d=7, seed=1)
    given = {"W_ov": randn(3, 5, 7, seed=2), "W_kq": randn(3, 7, 7, seed=3)}
    together = NextTokenTransformer(5, 7, 3, **given)
    ours, excess = together.gradients(data), together.log_excess(data)
    descend(together, data, 3, train=["W_ov", "W_kq"])
    for k in range(3):
        alone = NextTokenTransformer(5, 7, **{name: W[k] for name, W in given.items()})
        for name, gradient in alone.gradients(data).items():
            assert torch.allclose(ours[name][k], gradient, rtol=1e-12, atol=1e-15)
        assert torch.allclose(excess[k], alone.log_excess(data), rtol=1e-12, equal_nan=True)
        descend(alone, data, 3, train=["W_ov", "W_kq"])
        assert torch.allclose(together.W_kq[k], alone.W_kq, rtol=1e-12)


@pytest.mark.parametrize(
    ("V", "d", "trials", "more", "message"),
    [
        (5, 7, None, {}, r"give the model trials=\(3,\)"),
        (5, 7, 2, {}, r"the model has trials \(2,\), the data \(3,\)"),
        (5, 8, 3, {}, r"the model has \(V, d\) = \(5, 8\)"),
        (4, 7, 3, {}, r"the model has \(V, d\) = \(4, 7\)"),
        (5, 7, 3, {"every": 0}, "every = 0"),
        (5, 7, 3, {"steps": 2.5}, "steps = 2.5"),
    ],
)
def test_models_that_do_not_fit_the_data_are_refused(V, d, trials, more, message):
    data, _ = next_tokens(6, 4, 5, d=7, trials=3, seed=1)
    with pytest.raises(ValueError, match=message):
        descend(NextTokenTransformer(V, d, trials), data, **{"steps": 1, **more})


def test_a_model_of_another_dtype_is_refused():
    data, _ = next_tokens(6, 4, 5, d=7, seed=1)
    with pytest.raises(ValueError, match="the model is torch"):
        NextTokenTransformer(5, 7, dtype=torch.float32)(data)
