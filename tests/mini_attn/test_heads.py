import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call

from mini_attn import data, heads, losses, models, optim, paths, train
from mini_attn.gradients import closed_form
from mini_attn.softmax import softmax

tokens = data.random_tokens(n=4, T=5, d=6, trials=3, seed=1)
ACTIVATIONS = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "tanh": torch.tanh}


def randn(*shape, seed=9):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_models(head, trials=3, d=6, scale=1.0):
    lead = () if trials is None else (trials,)
    return [
        models.PromptAttention(d, trials, init=scale * randn(*lead, d), head=head),
        models.CrossAttention(d, trials, init=scale * randn(*lead, d, d), head=head),
        models.FactoredAttention(d, 2, trials, scale=scale, seed=3, head=head),
    ]


def loss_of(model, problem, loss, batch_dims):
    scaled = model(problem, softmax=lambda h: softmax(h, batch_dims))
    return loss(problem.y * scaled, batch_dims).mean(-1).sum()


def assert_gradients_agree(model, problem, loss, batch_dims=None):
    """The closed form and autograd; log-scaled, up to a factor a trial, of which the head has its own."""
    model.zero_grad()
    loss_of(model, problem, loss, batch_dims).backward()
    grads = closed_form(model, problem, loss, batch_dims)()[1]
    assert set(grads) == {name for name, _ in model.named_parameters()}
    for own in (True, False):
        names = [name for name in grads if name.startswith("head") != own]
        for part in range(3) if batch_dims else [...]:
            both = [[of[name][part].flatten() for name in names] for of in (grads, gradients(model))]
            g, expected = (torch.cat(some) if some else torch.ones(1) for some in both)
            if batch_dims:
                g, expected = g / g.norm(), expected / expected.norm()
            torch.testing.assert_close(g, expected, rtol=0, atol=1e-11 * float(expected.abs().max()))


def gradients(model):
    return {name: w.grad for name, w in model.named_parameters()}


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_the_head_reads_the_attention_output(activation):
    head = heads.MLPHead(6, 7, trials=3, activation=activation, scale=4.0, seed=2)
    for model in make_models(head):
        s = torch.softmax(model.logits(tokens), -1)
        output = torch.einsum("bnt,bntd->bnd", s, tokens.X)
        hidden = ACTIVATIONS[activation](4.0 * torch.einsum("bhd,bnd->bnh", head.V, output))
        torch.testing.assert_close(model(tokens), hidden.sum(-1))


def test_a_head_may_read_tokens_one_by_one():
    class ByToken(heads.MLPHead):
        on_output = False

    head = ByToken(6, 7, trials=3)
    model = models.PromptAttention(6, 3, init=randn(3, 6), head=head)
    values = torch.einsum("bhd,bntd->bnth", head.V, tokens.X).relu().sum(-1)
    torch.testing.assert_close(model(tokens), (model.attention(tokens) * values).sum(-1))
    assert closed_form(model, tokens, losses.logistic) is None


@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_closed_form_equals_autograd(activation, loss, scale):
    head = heads.MLPHead(6, 7, 3, activation, scale=4.0, seed=2, trainable=True)
    for model in make_models(head, scale=scale):
        assert_gradients_agree(model, tokens, losses.get(loss))
        if scale:
            assert_gradients_agree(model, tokens, losses.get(loss), 1)


def test_a_fixed_head_is_no_parameter_and_keeps_its_weights():
    head = heads.MLPHead(6, 7, trials=3, seed=2)
    model = models.CrossAttention(6, 3, head=head)
    assert [name for name, _ in model.named_parameters()] == ["W"]
    assert "head.V" in model.state_dict()
    before = head.V.clone()
    train.fit(model, tokens, optim.NormalizedGD(model.parameters(), 0.1, 1), 5, progress=False)
    assert torch.equal(head.V, before)
    assert_gradients_agree(model, tokens, losses.logistic, 1)


def test_a_trained_head_needs_a_group_of_its_own():
    head = heads.MLPHead(6, 7, 3, activation="gelu", scale=4.0, trainable=True)
    model = models.PromptAttention(6, 3, head=head)
    with pytest.raises(ValueError, match="share a parameter group"):
        train.fit(model, tokens, optim.NormalizedGD(model.parameters(), 0.1, 1), 1, progress=False)
    groups = [{"params": [model.p]}, {"params": head.parameters()}]
    history = train.fit(model, tokens, optim.NormalizedGD(groups, 0.05, 1), 50, progress=False)
    assert (history["loss"][-1] < history["loss"][0] - 0.05).all()


def test_one_head_serves_many_trials_and_many_heads_one_data_set():
    shared = heads.MLPHead(6, 7, activation="gelu", scale=4.0, seed=2, trainable=True)
    for model in make_models(shared):
        assert_gradients_agree(model, tokens, losses.logistic)
    one = data.random_tokens(n=4, T=5, d=6, seed=1)
    many = heads.MLPHead(6, 7, 3, activation="gelu", scale=4.0, seed=2, trainable=True)
    for model in make_models(many):
        assert_gradients_agree(model, one, losses.logistic)
        assert_gradients_agree(model, one, losses.logistic, 1)
    for model in make_models(shared, trials=None):
        assert_gradients_agree(model, one, losses.logistic)


def test_keys_of_their_own_choose_and_tokens_are_read():
    keyed = data.TokenData(tokens.X, tokens.z, tokens.y, tokens.v, keys=randn(3, 4, 5, 6, seed=4))
    for model in make_models(heads.MLPHead(6, 7, 3, activation="gelu", trainable=True)):
        assert_gradients_agree(model, keyed, losses.logistic, 1)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_second_derivatives(activation):
    small = data.random_tokens(n=2, T=3, d=3, seed=1)
    head = heads.MLPHead(3, 4, activation=activation, scale=4.0, seed=2, trainable=True)
    model = models.CrossAttention(3, init=randn(3, 3), head=head)
    inputs = [w.detach().clone().requires_grad_() for w in model.parameters()]

    def outputs(W, V):
        return functional_call(model, {"W": W, "head.V": V}, (small,))

    assert gradcheck(outputs, inputs)
    assert gradgradcheck(outputs, inputs)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_slopes_are_those_of_torch_at_kinks_and_far_out(activation):
    u = torch.tensor([[-750.0, -40.0, -1e-300, 0.0, 1e-300, 40.0, 750.0]], dtype=torch.float64)
    head = heads.MLPHead(1, 1, activation=activation, init=1.0, trainable=True)
    x = u.mT.clone().requires_grad_()
    value = head(x[..., None, :]).squeeze(-1)
    (expected,) = torch.autograd.grad(value.sum(), x)
    g, slope, _ = head.linearised(x.detach())
    torch.testing.assert_close(g, value.detach(), rtol=0, atol=0)
    torch.testing.assert_close(slope, expected, rtol=1e-14, atol=1e-16)


def test_dead_units_leave_a_trial_where_it_is():
    """No unit is on for any token, so that no token is better than another."""
    X = tokens.X.abs()
    positive = data.TokenData(X, tokens.z, tokens.y, tokens.v)
    head = heads.MLPHead(6, 7, init=-torch.ones(7, 6))
    model = models.PromptAttention(6, 3, init=randn(3, 6), head=head)
    before = model.p.detach().clone()
    train.fit(model, positive, optim.NormalizedGD(model.parameters(), 0.1, 1), 3, progress=False)
    assert torch.equal(model.p, before)


def test_log_scaled_gradients_do_not_underflow():
    head = heads.MLPHead(6, 7, 3, activation="gelu", scale=4.0, seed=2)
    for model in make_models(head, scale=1e4):
        own = [g.flatten(1).norm(dim=1) for g in closed_form(model, tokens, losses.logistic, 1)()[1].values()]
        assert all((size > 1e-4).all() for size in own)


def test_several_tokens_keep_weight():
    """tanh(4 x_1) + tanh(4 x_2) is 1 at either of two tokens and 1.9 halfway between them."""
    X = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]], dtype=torch.float64)
    problem = data.TokenData(X, X[:, 0], torch.ones(1, dtype=torch.float64), X[0, 0])
    head = heads.MLPHead(2, 2, init=torch.eye(2), activation="tanh", scale=4.0)
    model = models.PromptAttention(2, init=[3.0, -1.0], head=head)
    path = paths.regularization_path(model, problem, [1.0, 5.0])
    assert (path.residual < 1e-6).all()
    torch.testing.assert_close(path["p"], path.radii[:, None] / 2**0.5 * torch.ones(2, 2).double())
    s = model.attention(problem)[0].detach()
    torch.testing.assert_close(s[0], s[1])
    assert s[2] < 1e-4


@pytest.mark.parametrize("make", [models.CrossAttention, lambda d, **k: models.FactoredAttention(d, d, **k)])
def test_paths_follow_a_fixed_nonlinear_head(make):
    drawn = data.random_tokens(3, 4, 6, trials=6, seed=3)
    head = heads.MLPHead(6, 8, trials=6, activation="gelu", scale=4.0, seed=1)
    path = paths.regularization_path(make(6, trials=6, head=head), drawn, [1.0, 4.0])
    assert (path.residual <= 1e-6).all()
    model = models.CrossAttention(6, trials=6, init=path["W"][-1], head=head)
    torch.testing.assert_close(path.loss[-1], losses.logistic.value(drawn.y * model(drawn)).mean(-1).detach())


def test_a_draw_has_length_one_and_its_seed():
    V = heads.MLPHead(6, 7, trials=(2, 3), seed=5).V
    assert V.shape == (2, 3, 7, 6)
    torch.testing.assert_close(torch.linalg.matrix_norm(V), torch.ones(2, 3, dtype=torch.float64))
    assert torch.equal(V, heads.MLPHead(6, 7, trials=(2, 3), seed=5).V)
    assert not torch.equal(V, heads.MLPHead(6, 7, trials=(2, 3), seed=6).V)
    single = heads.MLPHead(6, 7, trials=(2, 3), seed=5, dtype=torch.float32).V
    torch.testing.assert_close(single, V.float())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: heads.MLPHead(0, 3), "d = 0; expected a whole number, at least 1"),
        (lambda: heads.MLPHead(3, 2.5), "hidden = 2.5"),
        (lambda: heads.MLPHead(3, 3, activation="sine"), r"activation = 'sine'; expected one of \['gelu'"),
        (lambda: heads.MLPHead(3, 3, scale=-1.0), "scale = -1.0; expected a positive finite factor"),
        (lambda: heads.MLPHead(3, 3, init=torch.ones(4, 3)), r"init has shape \(4, 3\)"),
        (lambda: heads.LinearHead(2.5), "d = 2.5"),
        (
            lambda: models.CrossAttention(4, head=heads.MLPHead(3, 3)),
            "the model has d = 4, its head has d = 3; give both the same",
        ),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(call, says):
    with pytest.raises(ValueError, match=says):
        call()
