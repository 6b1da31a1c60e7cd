import pytest
import torch
from gradients_by_autograd import directions, with_autograd

from mini_attn import data, gradients, losses, models, optim, train
from mini_attn.gradients import closed_form
from mini_attn.softmax import softmax

tokens = data.random_tokens(n=4, T=5, d=6, trials=3, seed=1)
points = data.PointData(tokens.X[..., 0, :], tokens.y)


def randn(*shape, seed=9):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_models(trials=3, d=6, scale=1.0):
    factored = models.FactoredAttention(d, 2, trials=trials, scale=scale, seed=3)
    lead = () if trials is None else (trials,)
    return [
        models.LinearClassifier(d, trials, init=scale * randn(*lead, d)),
        models.PromptAttention(d, trials, init=scale * randn(*lead, d)),
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d)),
        factored,
        models.PromptAttention(
            d,
            trials,
            init=scale * randn(*lead, d),
            head=models.LinearHead(d, trials, init=randn(*lead, d, seed=8)),
        ),
    ]


def assert_same_direction(model, problem, loss=losses.logistic):
    grads = closed_form(model, problem, loss, 1)()[1]
    expected = with_autograd(model, problem, loss, 1)[1]
    torch.testing.assert_close(directions(grads), directions(expected), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_closed_form_equals_autograd(loss, scale):
    loss = losses.get(loss)
    for model in make_models(scale=scale):
        problem = tokens if hasattr(model, "attention") else points
        margins, grads = closed_form(model, problem, loss)()
        expected_margins, expected = with_autograd(model, problem, loss, None)
        torch.testing.assert_close(margins, expected_margins, rtol=1e-12, atol=1e-14)
        for name in grads:
            close = {"rtol": 1e-10, "atol": 1e-13 * float(expected[name].abs().max())}
            torch.testing.assert_close(grads[name], expected[name], **close)
        model.zero_grad()
        if scale:
            assert_same_direction(model, problem, loss)


def test_log_scaled_gradients_do_not_underflow():
    for model in make_models(scale=1e4)[:3]:
        problem = tokens if hasattr(model, "attention") else points
        grads = closed_form(model, problem, losses.logistic, 1)()[1]
        assert all((g.flatten(1).norm(dim=1) > 1e-4).all() for g in grads.values())


@pytest.mark.parametrize(("sequence", "piece"), [(0, 2**19), (2**14, 100)])
@pytest.mark.parametrize("shape", [(4, 5, 6), (2, 9, 5)])  # T < d and T > d
def test_large_sequences_and_batches_take_other_ways_to_the_same_gradient(
    monkeypatch, sequence, piece, shape
):
    monkeypatch.setattr(gradients, "_SEQUENCE", sequence)
    monkeypatch.setattr(gradients, "_PIECE", piece)
    large = data.random_tokens(*shape, trials=3, seed=2)
    for model in make_models(3, shape[-1])[1:]:
        assert_same_direction(model, large)
    one = data.random_tokens(*shape, seed=2)
    for model in make_models(3, shape[-1])[1:]:
        assert_same_direction(model, one)


def test_trials_broadcast_both_ways():
    one = data.random_tokens(n=4, T=5, d=6, seed=1)
    for model in make_models(3)[1:]:
        assert_same_direction(model, one)
    for model in make_models(None):
        problem = tokens if hasattr(model, "attention") else points
        grads = closed_form(model, problem, losses.logistic)()[1]
        torch.testing.assert_close(grads, with_autograd(model, problem, losses.logistic, None)[1])


def test_keys_of_their_own_and_ties():
    keys, X = randn(3, 4, 5, 6, seed=4), tokens.X.clone()
    X[..., 1, :] = X[..., 0, :]  # equal scores, different keys
    keyed = data.TokenData(X, tokens.z, tokens.y, tokens.v, keys=keys)
    for model in make_models()[1:]:
        assert_same_direction(model, keyed)


class Sigmoid(models.LinearHead):
    def forward(self, X):
        return super().forward(X).sigmoid()


class Doubled(models.CrossAttention):
    def logits(self, data):
        return 2 * super().logits(data)


def test_what_only_autograd_knows_is_left_to_it():
    headed = models.PromptAttention(6, 3, head=Sigmoid(6, 3))
    for model in (headed, Doubled(6, 3)):
        assert closed_form(model, tokens, losses.logistic) is None
    doubled, plain = Doubled(6, 3), models.CrossAttention(6, 3)
    for model, lr in ((doubled, 0.05), (plain, 0.1)):
        train.fit(model, tokens, optim.NormalizedGD(model.parameters(), lr, 1), 20, progress=False)
    torch.testing.assert_close(2 * doubled.W, plain.W)


def test_training_is_the_same_either_way():
    ends = []
    for options in ({}, {"softmax": lambda h, batch_dims=None: softmax(h, batch_dims)}):
        model = models.FactoredAttention(6, 3, trials=3, seed=1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        history = train.fit(model, tokens, optimizer, 40, progress=False, **options)
        ends.append((model.W.detach(), history["loss"]))
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-11)


def test_frozen_parameters_stay():
    model = models.FactoredAttention(6, 3, trials=3, seed=1)
    model.Q.requires_grad_(False)
    before = model.Q.clone()
    for optimizer in (optim.NormalizedGD([model.K], 0.1, 1), torch.optim.SGD([model.K], 0.1)):
        train.fit(model, tokens, optimizer, 5, progress=False)
        assert torch.equal(model.Q, before)
        assert model.Q.grad is None


def test_bad_data_are_refused_before_the_first_step():
    with pytest.raises(ValueError, match="the model has d = 5, the data have d = 6"):
        closed_form(models.PromptAttention(5, 3), tokens, losses.logistic)
    with pytest.raises(ValueError, match=r"the model has trials \(2,\), the data \(3,\)"):
        closed_form(models.PromptAttention(6, 2), tokens, losses.logistic)
