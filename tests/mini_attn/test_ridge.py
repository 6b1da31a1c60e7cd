import math

import pytest
import torch

from mini_attn import data, geometry, models, optim, paths, svm, tracing, train
from mini_attn.softmax import softmax as stable_softmax
from mini_attn.softmax import textbook_softmax

tokens = data.random_tokens(n=4, T=5, d=6, trials=3, seed=1)
EPS = 2.0**-52


def override(logits, batch_dims=None):
    """The same softmax, which fit does not recognise: autograd takes the steps."""
    return stable_softmax(logits, batch_dims)


def randn(*shape, seed=9):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_models(scale=1.0):
    head = models.LinearHead(6, 3, init=randn(3, 6, seed=8))
    return [
        models.LinearClassifier(6, 3, init=scale * randn(3, 6)),
        models.PromptAttention(6, 3, init=scale * randn(3, 6)),
        models.CrossAttention(6, 3, init=scale * randn(3, 6, 6)),
        models.FactoredAttention(6, 2, 3, scale=scale),
        models.PromptAttention(6, 3, init=scale * randn(3, 6), head=head),
    ]


def problem(model):
    return tokens if hasattr(model, "attention") else data.PointData(tokens.X[..., 0, :], tokens.y)


def penalised(model, ridge):
    """L + ridge sum ||w||^2 of each trial, as the formula has it."""
    loss = torch.nn.functional.softplus(-problem(model).y * model(problem(model))).mean(-1)
    return loss + ridge * sum(w.square().flatten(1).sum(1) for w in model.parameters())


@pytest.mark.parametrize("softmax", [stable_softmax, override, textbook_softmax])
@pytest.mark.parametrize("make", range(5))
def test_a_step_goes_down_the_penalised_loss(make, softmax):
    for kind in ("sgd", "polyak", "normalised", "normalised apart"):
        model, twin = make_models()[make], make_models()[make]
        head = [w for name, w in model.named_parameters() if name.startswith("head")]
        own = [w for name, w in model.named_parameters() if not name.startswith("head")]
        if kind == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        elif kind == "polyak":
            optimizer = optim.PolyakGD(model.parameters(), target=0.2, batch_dims=1)
        else:
            groups = [[w] for w in own] if kind == "normalised apart" else [own]
            optimizer = optim.NormalizedGD([{"params": g} for g in (*groups, head) if g], 0.1, 1)
        train.fit(model, problem(model), optimizer, 1, ridge=0.07, softmax=softmax, progress=False)
        loss = penalised(twin, 0.07)
        grads = torch.autograd.grad(loss.sum(), list(twin.parameters()))
        sizes = [g.square().flatten(1).sum(1) for g in grads]
        if kind == "normalised":
            sizes = [sum(sizes[: len(own)])] * len(own) + sizes[len(own) :]
        elif kind == "polyak":
            sizes = [sum(sizes)] * len(sizes)
        for w, before, g, size in zip(model.parameters(), twin.parameters(), grads, sizes, strict=True):
            length = {
                "sgd": torch.full((3,), 0.1, dtype=torch.float64),
                "polyak": (loss - 0.2).clamp(min=0) / size,
            }.get(kind, 0.1 / size.sqrt())
            expected = before - length.to(g).reshape(3, *(1,) * (g.ndim - 1)) * g
            torch.testing.assert_close(w, expected, rtol=1e-8, atol=1e-10)


def test_the_recorded_loss_is_that_of_the_data():
    model = models.PromptAttention(6, 3, init=randn(3, 6))
    optimizer = optim.NormalizedGD(model.parameters(), 0.1, 1)
    history = train.fit(model, tokens, optimizer, 3, ridge=10.0, progress=False)
    torch.testing.assert_close(history["loss"][-1], penalised(model, 0.0).detach())


def test_weights_that_do_not_train_are_not_penalised():
    model = models.FactoredAttention(6, 2, 3, scale=1.0)
    seen = []

    class Watched(optim.PolyakGD):
        def move(self, grads, loss=None):
            seen.append(loss)
            super().move(grads, loss)

    expected = penalised(model, 0.0) + 0.5 * model.K.square().flatten(1).sum(1)
    train.fit(model, tokens, Watched([model.K], batch_dims=1), 1, ridge=0.5, progress=False)
    torch.testing.assert_close(seen[0], expected.detach())


@pytest.mark.parametrize(("dtype", "ridge"), [(torch.float64, 1e-300), (torch.float32, 1e-30)])
@pytest.mark.parametrize("softmax", [stable_softmax, override])
def test_where_the_gradient_underflows_the_ridge_alone_decides(dtype, ridge, softmax):
    """Far out every gradient is 0 in this dtype: the step leads straight to the origin."""
    start = 1e5 * torch.tensor([-1.0, 2.0], dtype=dtype)
    model = models.PromptAttention(2, init=start, dtype=dtype)
    toy = data.toy_one_sequence().to(dtype)
    optimizer = optim.NormalizedGD(model.parameters(), lr=1e4)
    train.fit(model, toy, optimizer, 1, ridge=ridge, softmax=softmax, progress=False)
    torch.testing.assert_close(model.p.detach(), start * (1 - 1e4 / start.norm()))


@pytest.mark.parametrize(
    "ridge", [1e-3, EPS, *(pytest.param(ridge, marks=pytest.mark.slow) for ridge in (1e-100, 1e-300))]
)
def test_descent_comes_to_rest_where_the_two_gradients_cancel(ridge):
    """One sequence of two tokens in one dimension: sigma(w) sigma(-w) |l'| 2 = 2 ridge w."""
    X = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
    pair = data.TokenData(X, X[:, 0], torch.ones(1).double(), torch.ones(1).double())
    model = models.PromptAttention(1)
    lr = 1e-2 if ridge == 1e-3 else 0.5
    train.fit(model, pair, optim.NormalizedGD(model.parameters(), lr), 2000, ridge=ridge, progress=False)

    def force(w):  # its logarithm, less the ridge's
        s = torch.sigmoid(w)
        slope = torch.nn.functional.logsigmoid(-s) + torch.nn.functional.logsigmoid(-w) + s.log()
        return slope - math.log(2 * ridge) - w.log()

    low, high = torch.tensor(1e-3).double(), torch.tensor(2000.0).double()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if force(middle) > 0 else (low, middle)
    assert (model.p - low).abs() <= lr


@pytest.mark.slow
def test_a_ridge_of_one_epsilon_makes_the_factors_nuclear():
    """The second paper's own way of training; without the ridge, with its gradient, it leaves the limit."""
    drawn = data.random_tokens(6, 8, 10, trials=6, seed=3)
    cosines = {}
    for ridge in (EPS, 0.0):
        model = models.FactoredAttention(10, 10, trials=6)
        bound = 10**-0.5
        for k, factor in enumerate((model.K, model.Q)):
            uniform = torch.rand(factor.shape, generator=torch.Generator().manual_seed(k)).double()
            factor.data.copy_(bound * (2 * uniform - 1))
        optimizer = optim.NormalizedGD([{"params": [model.K]}, {"params": [model.Q]}], 0.1, 1)
        train.fit(
            model, drawn, optimizer, 1000, ridge=ridge, softmax=textbook_softmax, progress=False, every=1000
        )
        selected = geometry.selected_tokens(model.attention(drawn))
        solution = svm.solve(svm.attention_problem(drawn.X, drawn.z, selected), norm="nuc", throw=False)
        cosines[ridge] = geometry.cosine(model.W.detach(), solution.value).nanmean()
    assert cosines[EPS] > 0.99
    assert cosines[0.0] < 0.95


def test_a_resumed_run_keeps_its_ridge(tmp_path):
    def run(steps, ridge=0.01, **options):
        model = models.PromptAttention(6, 3, init=randn(3, 6))
        optimizer = optim.NormalizedGD(model.parameters(), 0.1, 1)
        return train.fit(model, tokens, optimizer, steps, ridge=ridge, progress=False, **options)

    run(10).save(tmp_path / "ridge.pt")
    half = train.History.load(tmp_path / "ridge.pt")
    assert torch.equal(run(20, resume=half).model["p"], run(20).model["p"])
    for ridge in (0.0, 0.02):
        with pytest.raises(ValueError, match=r"resume: the history's ridge is '0.01', this call's is"):
            run(20, ridge, resume=half)
    with pytest.raises(ValueError, match="resume: the history's ridge is None"):
        run(20, resume=run(10, 0.0))


@pytest.mark.parametrize("ridge", [-1.0, math.inf, math.nan, 1e-310, "a", torch.ones(3)])
def test_a_ridge_is_a_number_that_the_dtype_carries(ridge):
    model = models.PromptAttention(6, 3)
    with pytest.raises(ValueError, match="expected 0, or a number that the model's dtype carries"):
        train.fit(model, tokens, optim.NormalizedGD(model.parameters(), 0.1, 1), 1, ridge=ridge)


def full_rank(d, trials=None):
    return models.FactoredAttention(d, d, trials=trials)


small = data.random_tokens(3, 4, 6, trials=3, seed=3)
RIDGES = [1e-2, EPS, 1e-300]


@pytest.mark.parametrize("make", [models.PromptAttention, models.CrossAttention, full_rank])
@pytest.mark.parametrize("ridge", [pytest.param(1e-2, marks=pytest.mark.slow), EPS])
def test_a_path_is_stationary_by_autograd(make, ridge):
    model = make(6, trials=3)
    path = paths.ridge_path(model, small, [ridge])
    assert (path.residual <= 1e-6).all()
    margins = small.y * model(small)
    torch.nn.functional.softplus(-margins).mean(-1).sum().backward()
    for name, w in model.named_parameters():
        assert torch.equal(path[name][-1], w)
        apart = (w.grad + 2 * ridge * w).flatten(1).norm(dim=1)
        assert (apart <= 1e-5 * 2 * ridge * w.flatten(1).norm(dim=1)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("make", "norm"), [(models.CrossAttention, "fro"), (full_rank, "nuc")])
def test_a_vanishing_ridge_leads_to_the_svm(make, norm):
    path = paths.ridge_path(make(6, trials=3), small, RIDGES)
    assert (path.residual <= 1e-6).all()
    chosen = geometry.selected_tokens(models.CrossAttention(6, 3, init=path["W"][-1]).attention(small))
    solution = svm.solve(svm.attention_problem(small.X, small.z, chosen), norm=norm)
    error = torch.stack([1 - geometry.cosine(W, solution.value) for W in path["W"]])
    assert (error.diff(dim=0) < 0).all()
    assert error[-1].max() < 1e-4
    torch.testing.assert_close(path.radii, torch.linalg.matrix_norm(path["W"], norm))
    # ||g|| falls like exp(-R margin): R margin grows by log of the ratio of two ridges
    grown = (path.radii[2] - path.radii[1]) * solution.margin
    assert ((grown / math.log(EPS / 1e-300) - 1).abs() < 0.03).all()


def test_descent_and_a_path_end_at_one_point():
    one = data.TokenData(*(getattr(small, part)[0] for part in ("X", "z", "y", "v")))
    exact = {"max_iter": 200, "tolerance_grad": 1e-12, "tolerance_change": 0.0}
    for make in (models.PromptAttention, models.CrossAttention):
        model, twin = make(6), make(6)
        lbfgs = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe", **exact)
        train.fit(model, one, lbfgs, 3, ridge=0.02, progress=False)
        paths.ridge_path(twin, one, [0.02])
        for w, other in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(w, other, rtol=1e-4, atol=1e-6)


def test_a_heavy_ridge_holds_factors_at_zero():
    path = paths.ridge_path(full_rank(6, 3), small, [1.0, 1e-2])
    assert (path["W"][0] == 0).all()
    assert (path.residual[0] == 0).all()
    assert (path.radii[1] > 0.1).all()
    assert (path.residual[1] <= 1e-6).all()


def test_linear_models_and_nonlinear_heads_have_ridge_paths():
    points = data.PointData(small.X[..., 0, :], small.y)
    model = models.LinearClassifier(6, 3)
    path = paths.ridge_path(model, points, [1e-2, 1e-200], loss="exponential")
    assert (path.residual <= 1e-6).all()
    solution = svm.solve(svm.label_problem(points.X, points.y))
    assert (1 - geometry.cosine(path["w"][-1], solution.value)).max() < 1e-4
    head = models.MLPHead(6, 8, trials=3, activation="gelu", scale=4.0, seed=1)
    path = paths.ridge_path(models.CrossAttention(6, 3, head=head), small, [1e-2, 1e-3])
    assert (path.residual <= 1e-6).all()


def test_float32_carries_small_ridges():
    single = small.to(torch.float32)
    path = paths.ridge_path(
        models.CrossAttention(6, 3, dtype=torch.float32), single, [1e-2, 1e-7, 1e-30], tol=1e-3
    )
    double = paths.ridge_path(models.CrossAttention(6, 3), small, [1e-2, 1e-7, 1e-30])
    assert (path.residual <= 1e-3).all()
    torch.testing.assert_close(path["W"].double(), double["W"], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("ridges", [[], [0.0], [1e-3, 1e-2], [1e-2, 1e-2], [1e-310], [math.nan], [math.inf]])
def test_ridges_must_decrease_and_fit_the_dtype(ridges):
    with pytest.raises(ValueError, match=r"expected numbers from 2.23e-308 to 1.8e\+308, each smaller"):
        paths.ridge_path(models.PromptAttention(6, 3), small, ridges)


@pytest.mark.slow
@pytest.mark.parametrize("make", [models.CrossAttention, full_rank])
def test_blocks_of_trials_on_threads_give_the_same_path(make, monkeypatch):
    whole = paths.ridge_path(make(6, trials=3), small, [1e-2, 1e-3])
    monkeypatch.setattr(tracing, "trial_blocks", lambda model, data: [slice(0, 2), slice(2, 3)])
    model = make(6, trials=3)
    parts = paths.ridge_path(model, small, [1e-2, 1e-3])
    for name in ("radii", "loss"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(parts["W"][-1], model.W.detach(), rtol=1e-12, atol=1e-12)
    assert torch.equal(parts.ridges, whole.ridges)
