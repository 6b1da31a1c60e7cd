import numpy as np
import pytest
import torch

from mini_attn import data, losses, models

tokens = data.random_tokens(n=3, T=4, d=5, trials=2, seed=1)


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def test_linear_classifier_is_a_dot_product():
    points = data.PointData(randn(2, 6, 3), torch.ones(2, 6, dtype=torch.float64))
    w = randn(2, 3)
    expected = torch.einsum("bnd,bd->bn", points.X, w)
    torch.testing.assert_close(models.LinearClassifier(3, trials=2, init=w)(points), expected)


def test_prompt_attention_is_softmax_of_key_scores():
    p = randn(2, 5)
    s = torch.softmax(torch.einsum("bntd,bd->bnt", tokens.X, p), -1)
    model = models.PromptAttention(5, trials=2, init=p)
    torch.testing.assert_close(model.attention(tokens), s)
    torch.testing.assert_close(model(tokens), torch.einsum("bnt,bntd,bd->bn", s, tokens.X, tokens.v))


def test_cross_attention_logits_are_bilinear():
    W = randn(2, 5, 5)
    model = models.CrossAttention(5, trials=2, init=W)
    torch.testing.assert_close(model.logits(tokens), torch.einsum("bnti,bij,bnj->bnt", tokens.X, W, tokens.z))


def test_factored_attention_is_cross_attention_with_the_product():
    factored = models.FactoredAttention(5, 3, trials=2, seed=4)
    joined = models.CrossAttention(5, trials=2, init=factored.W.detach())
    torch.testing.assert_close(factored(tokens), joined(tokens))
    assert factored.K.shape == (2, 5, 3)
    assert torch.equal(factored.K, models.FactoredAttention(5, 3, trials=2, seed=4).K)
    assert 0.03 < factored.K.std() < 0.3


@pytest.mark.parametrize(
    "make",
    [models.PromptAttention, models.CrossAttention, lambda d, **k: models.FactoredAttention(d, 2, **k)],
)
def test_logits_read_keys_and_outputs_read_tokens(make):
    keyed = data.TokenData(tokens.X, tokens.z, tokens.y, tokens.v, keys=tokens.X.flip(2))
    model = make(5, trials=2)
    for parameter in model.parameters():
        parameter.data.copy_(randn(*parameter.shape))
    torch.testing.assert_close(model.logits(keyed), model.logits(tokens).flip(2))
    assert not torch.allclose(model(keyed), model(tokens))


def test_trainable_head_replaces_the_fixed_one():
    head = models.LinearHead(5, trials=2, init=tokens.v)
    model = models.PromptAttention(5, trials=2, init=randn(2, 5), head=head)
    fixed = models.PromptAttention(5, trials=2, init=randn(2, 5))
    torch.testing.assert_close(model(tokens), fixed(tokens))
    model(tokens).sum().backward()
    assert head.v.grad.abs().sum() > 0


def test_one_data_set_serves_many_starts():
    single = data.random_tokens(3, 4, 5, seed=1)
    starts = randn(7, 5)
    many = models.PromptAttention(5, trials=7, init=starts)(single)
    one = models.PromptAttention(5, init=starts[3])(single)
    torch.testing.assert_close(many[3], one)
    W = randn(7, 5, 5)
    many = models.CrossAttention(5, trials=7, init=W)(single)
    torch.testing.assert_close(many[3], models.CrossAttention(5, init=W[3])(single))


def test_trials_do_not_influence_each_other():
    model = models.CrossAttention(5, trials=2, init=randn(2, 5, 5))
    model(tokens)[0].sum().backward()
    assert model.W.grad[0].abs().sum() > 0
    assert (model.W.grad[1] == 0).all()


def test_start_is_copied_and_zero_by_default():
    init = randn(5)
    model = models.PromptAttention(5, trials=2, init=init)
    model.p.data.zero_()
    assert init.abs().sum() > 0
    assert (models.CrossAttention(5).W == 0).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: models.PromptAttention(4, trials=2)(tokens), "the model has d = 4, the data have d = 5"),
        (lambda: models.PromptAttention(5, trials=3)(tokens), r"trials \(3,\), the data \(2,\)"),
        (lambda: models.CrossAttention(5, 2, dtype=torch.float32)(tokens), r"move one of them with \.to"),
        (
            lambda: models.CrossAttention(5, init=torch.ones(4, 5)),
            r"init has shape \(4, 5\); expected one that",
        ),
        (lambda: models.PromptAttention(0), "d = 0"),
        (lambda: models.FactoredAttention(5, 0), "m = 0"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: models.CrossAttention(4, trials=2.5), r"trials = \(2\.5,\); expected None, a whole number"),
        (lambda: models.CrossAttention(4, trials=(2, -1)), r"trials = \(2, -1\)"),
        (
            lambda: models.LinearClassifier(4)(data.random_tokens(3, 3, 4)),
            r"LinearClassifier reads PointData, X \(\.\.\., n, d\); got TokenData with X of shape \(3, 3",
        ),
        (
            lambda: models.CrossAttention(2)(data.separable_points(4)),
            "CrossAttention reads TokenData, .*; got PointData",
        ),
    ],
)
def test_data_and_trials_of_the_wrong_kind_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_sizes_may_come_from_numpy():
    model = models.FactoredAttention(np.int64(4), np.int64(2), trials=np.int64(3))
    assert model.K.shape == (3, 4, 2)


def test_second_derivatives_reach_the_weights():
    tokens = data.random_tokens(3, 4, 2, seed=1)

    def ours(p):
        outputs = torch.func.functional_call(models.PromptAttention(2), {"p": p}, (tokens,))
        return losses.logistic(tokens.y * outputs).mean()

    def plain(p):
        attention = torch.softmax((tokens.keys @ p[:, None]).squeeze(-1), -1)
        return torch.nn.functional.softplus(-tokens.y * (attention * tokens.values).sum(-1)).mean()

    p = torch.tensor([0.5, -1.0], dtype=torch.float64)
    hessian = torch.autograd.functional.hessian(ours, p)
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(plain, p))
    assert hessian.abs().min() > 1e-4
