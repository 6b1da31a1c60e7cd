"""What runs on another device gives what runs on the CPU, and stays there."""

import dataclasses
import math

import pytest
import torch

from mini_attn import data, geometry, losses, models, optim, paths, softmax, svm, train

tokens = data.random_tokens(5, 6, 8, trials=4, seed=2)
points = data.PointData(
    *(part[None].repeat(3, *(1,) * part.ndim) for part in vars(data.separable_points()).values())
)

MODELS = {
    "linear": lambda: models.LinearClassifier(2, trials=3),
    "prompt": lambda: models.PromptAttention(8, trials=4),
    "W": lambda: models.CrossAttention(8, trials=4),
    "(K, Q)": lambda: models.FactoredAttention(8, 8, trials=4),
    "with a head": lambda: models.PromptAttention(8, trials=4, head=models.LinearHead(8, trials=4)),
    "nonlinear": lambda: models.CrossAttention(8, trials=4, head=models.MLPHead(8, 6, trials=4)),
}
OPTIMIZERS = {
    "normalised": lambda w: optim.NormalizedGD(w, lr=0.1, batch_dims=1),
    "polyak": lambda w: optim.PolyakGD(w, target=torch.zeros(4), max_step=0.5, batch_dims=1),
    "sign": lambda w: optim.SignDescent(w, lr=0.1, batch_dims=1),
    "spectral": lambda w: optim.SpectralDescent(w, lr=0.1, batch_dims=1),
    "mirror": lambda w: optim.MirrorDescent(w, lr=0.1, p=3, batch_dims=1),
    "momentum": lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9),
    "adam": lambda w: torch.optim.Adam(w, lr=0.1),
}


def trained(device, make, make_optimizer=OPTIMIZERS["normalised"], steps=30, **options):
    model = make().to(device)
    examples = points if isinstance(model, models.LinearClassifier) else tokens
    weights = [w for name, w in model.named_parameters() if not name.startswith("head")]
    history = train.fit(
        model, examples.to(device), make_optimizer(weights), steps, every=10, progress=False, **options
    )
    assert all(w.device.type == device.type for w in model.parameters())
    return model, history


CPU = torch.device("cpu")


def assert_same(there, here, device, rtol=1e-6, atol=1e-9):
    assert there.device.type == device.type
    torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=rtol, atol=atol)


def test_what_is_elsewhere_refuses_to_meet_what_is_here(device):
    there = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="device"):
        there + torch.ones(3)
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(3)[there.long()]
    with pytest.raises(TypeError):
        there.numpy()
    assert (there + torch.tensor(1.0)).tolist() == [2.0, 2.0, 2.0]
    assert there[torch.tensor([0])].device.type == device.type


@pytest.mark.parametrize("name", MODELS)
def test_training(device, name):
    (here, h), (there, g) = (trained(place, MODELS[name]) for place in (CPU, device))
    for w, other in zip(there.parameters(), here.parameters(), strict=True):
        assert_same(w, other, device)
    assert_same(g["log_loss"], h["log_loss"], device)


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("normalised", "mirror", "adam") else pytest.param(name, marks=pytest.mark.slow)
        for name in OPTIMIZERS
    ],
)
def test_optimisers(device, name):
    here, there = (trained(place, MODELS["W"], OPTIMIZERS[name])[0] for place in (CPU, device))
    assert_same(there.W, here.W, device)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
def test_losses_and_autograd(device, loss):
    def run(place):
        return trained(
            place, MODELS["W"], loss=loss, softmax=lambda h, batch_dims: softmax.softmax(h, batch_dims)
        )

    (here, h), (there, g) = run(CPU), run(device)
    assert_same(there.W, here.W, device)
    assert_same(g["loss"], h["loss"], device)
    assert_same(
        losses.get(loss).log_mean(-g["loss"].abs()), losses.get(loss).log_mean(-h["loss"].abs()), device
    )


def test_a_run_goes_on_from_a_file(device, tmp_path):
    whole, expected = trained(device, MODELS["W"])
    _, first = trained(device, MODELS["W"], steps=20)
    first.save(tmp_path / "run.pt")
    again, history = trained(device, MODELS["W"], resume=train.History.load(tmp_path / "run.pt"))
    assert torch.equal(whole.W, again.W)
    assert torch.equal(history["loss"], expected["loss"])


@pytest.mark.parametrize("name", ["normalised", "momentum", "adam"])
def test_a_run_that_began_on_the_cpu_goes_on_elsewhere(device, name):
    make = OPTIMIZERS[name]
    whole, expected = trained(device, MODELS["W"], make)
    _, first = trained(CPU, MODELS["W"], make, steps=20)
    first = dataclasses.replace(first, steps=first.steps.to(device))  # as History.load(device=...) puts them
    again, history = trained(device, MODELS["W"], make, resume=first)
    torch.testing.assert_close(again.W, whole.W)
    torch.testing.assert_close(history["loss"], expected["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prompt", "W", "(K, Q)"])
@pytest.mark.parametrize(
    ("follow", "along"), [(paths.regularization_path, [1.0, 1.1]), (paths.ridge_path, [0.5, 0.45])]
)
def test_paths(device, name, follow, along):
    def end(place):
        return follow(MODELS[name]().to(place), tokens.to(place), along, tol=1e-5)

    here, there = end(CPU), end(device)
    for key in here.values:
        if key != "residual":
            assert_same(there[key], here[key], device, rtol=1e-4, atol=1e-5)


def problems(device, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(20, 3, 5, 6, generator=generator, dtype=dtype)
    z = torch.randn(20, 3, 6, generator=generator, dtype=dtype)
    selected = torch.randint(5, (20, 3), generator=generator)
    return svm.attention_problem(X.to(device), z.to(device), selected)  # a selection may stay on the CPU


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "method"),
    [(norm, "auto") for norm in ("fro", "nuc", "spectral", 1, 1.5, 3, math.inf)]
    + [("fro", "large"), ("fro", "nnls"), ("nuc", "cvxpy")],
)
def test_solvers(device, norm, method):
    def solve(place):
        return svm.solve(problems(place)[:6], norm=norm, method=method, throw=False)

    here, there = solve(CPU), solve(device)
    assert there.status.tolist() == here.status.tolist()
    assert_same(there.objective, here.objective, device, rtol=3e-6)
    for part in (there.value, there.dual, there.margin, there.gap):
        assert part.device.type == device.type
    if norm == "nuc":
        assert_same(*(svm.certified_rank(problems(s.value.device)[:6], s) for s in (there, here)), device)


@pytest.mark.slow
def test_other_problems(device):
    def solve(place):
        X, y = points.X[0].to(place), points.y[0].to(place)
        equal = torch.zeros(len(y), dtype=torch.bool, device=place)
        equal[0] = True
        mask = torch.arange(len(y), device=place) > 2
        labels = svm.label_problem(X, y)
        keys, lead = tokens.keys.to(place), torch.ones(4, 5, dtype=torch.float64)
        return [
            svm.solve(labels),
            svm.solve(dataclasses.replace(labels, equality=equal, mask=mask), throw=False),
            svm.solve(svm.token_problem(keys, tokens.optimal, lead), throw=False),
            svm.solve(svm.label_problem(X, torch.ones_like(y)), throw=False),  # not separable
            svm.solve(problems(place, torch.float32), throw=False),
        ]

    for here, there in zip(solve(CPU), solve(device), strict=True):
        assert there.status.tolist() == here.status.tolist()
        assert_same(there.objective, here.objective, device)


def test_soft_margins(device):
    first = torch.zeros(tokens.X.shape[:-1], dtype=torch.long)
    real = torch.arange(tokens.X.shape[-2]).expand_as(first) < tokens.X.shape[-2] - 1
    for mask in (None, real):
        here, there = (
            svm.solve_soft(
                tokens.X.to(place), first.to(place), 10.0, None if mask is None else mask.to(place)
            )
            for place in (CPU, device)
        )
        assert there.value.device.type == there.gap.device.type == device.type
        assert_same(there.objective, here.objective, device)


@pytest.mark.parametrize("name", ["equality", "mask"])
def test_a_problem_in_two_places_is_refused(device, name):
    problem = problems(device)
    flags = torch.ones(problem.r.shape, dtype=torch.bool)
    with pytest.raises(ValueError, match=rf"{name} is on cpu, the rest on .*; move it: {name}\.to"):
        dataclasses.replace(problem, **{name: flags})


def test_geometry(device):
    def measure(place):
        t, W = (
            tokens.to(place),
            svm.solve(svm.attention_problem(tokens.X, tokens.z, tokens.optimal)).value.to(place),
        )
        model = models.CrossAttention(8, trials=4, init=W.cpu()).to(place)
        logits, chosen = model.logits(t), geometry.selected_tokens(model.attention(t))
        words = geometry.outcome(
            model.attention(t), t, feasible=torch.ones(4, dtype=torch.bool, device=place)
        )
        return words, [
            geometry.cosine(W, W.roll(1, -1)),
            geometry.bregman(W, W.roll(1, -1), p=3.0),
            geometry.margins(logits, chosen),
            geometry.support_tokens(logits, chosen),
            geometry.support_tokens(logits, chosen.cpu(), lead=torch.ones(4, 5)),  # both may stay on the CPU
            geometry.locally_optimal(t.scores, logits, chosen),
            geometry.locally_optimal(t.scores, logits, chosen, lead=torch.ones(4, 5)),
        ]

    (words, here), (same, there) = measure(CPU), measure(device)
    assert same.tolist() == words.tolist()
    for a, b in zip(there, here, strict=True):
        assert_same(a, b, device)


@pytest.mark.parametrize("batch_dims", [None, 1, 2])
def test_gradients_of_softmax_and_losses_beside_masks(device, batch_dims):
    def gradients(place):
        h = torch.tensor([[[0.0, 1.0, -math.inf], [2.0, 0.0, 1.0]]], dtype=torch.float64)
        h = h.to(place).requires_grad_()
        G = torch.tensor([1.0, 2.0, math.nan], dtype=torch.float64).to(place).expand(1, 2, 3)[:, :1]
        G = torch.cat([G, torch.ones_like(G)], -2)
        (first,) = torch.autograd.grad(softmax.softmax(h, batch_dims), h, G)
        u = torch.ones(1, 2, dtype=torch.float64, device=place, requires_grad=True)
        (slope,) = torch.autograd.grad(losses.logistic(u, batch_dims).sum(), u)
        if batch_dims is not None:
            return [first, slope]
        (again,) = torch.autograd.grad(softmax.softmax(h)[..., 1].sum(), h, create_graph=True)
        return [first, slope, *torch.autograd.grad(again[0, 1, 0], h)]

    for there, here in zip(gradients(device), gradients(CPU), strict=True):
        assert_same(there, here, device)


def test_an_interrupted_run_keeps_its_history(device):
    calls = iter(range(100))

    def stop(model):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt) as stopped:
        trained(device, MODELS["W"], stop=stop)
    whole, _ = trained(device, MODELS["W"])
    again, history = trained(device, MODELS["W"], resume=stopped.value.history)
    assert torch.equal(again.W, whole.W)
    assert history.steps.tolist() == [0, 10, 20, 30]
