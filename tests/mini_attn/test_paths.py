import math

import pytest
import torch

from mini_attn import data, geometry, models, svm
from mini_attn.paths import regularization_path


def benign_tokens(n, T, d, trials, seed):
    """Random keys and queries; the best token of a sequence scores 1, all others 0: one global direction."""
    drawn = data.random_tokens(n, T, d, trials=trials, seed=seed)
    best = torch.randint(0, T, (trials, n), generator=torch.Generator().manual_seed(seed))
    e1 = torch.eye(d, dtype=torch.float64)[0]
    score = torch.nn.functional.one_hot(best, T).to(torch.float64)
    X = (drawn.y[..., None] * score)[..., None] * e1
    return data.TokenData(X, drawn.z, drawn.y, e1.expand(trials, d).clone(), keys=drawn.X)


def angles(path, name, solution):
    return torch.stack([1 - geometry.cosine(w, solution.value) for w in path[name]])


def test_the_prompt_path_tends_to_the_global_svm_solution():
    tokens = benign_tokens(3, 4, 16, trials=10, seed=1)
    path = regularization_path(models.PromptAttention(16, trials=10), tokens, [1.0, 10.0, 100.0, 1000.0])
    error = angles(path, "p", svm.solve(svm.token_problem(tokens.keys, tokens.optimal), norm="fro"))
    assert (path.residual <= 1e-6).all()
    assert (error.diff(dim=0) < 0).all()
    assert error[-1].max() < 1e-3


def test_the_path_of_W_tends_to_the_global_svm_solution():
    tokens = benign_tokens(3, 4, 5, trials=10, seed=2)
    path = regularization_path(models.CrossAttention(5, trials=10), tokens, [1.0, 10.0, 100.0, 1000.0])
    solution = svm.solve(svm.attention_problem(tokens.keys, tokens.z, tokens.optimal), norm="fro")
    error = angles(path, "W", solution)
    assert (path.residual <= 1e-6).all()
    assert error[-1].max() < 1e-3
    torch.testing.assert_close(path["W"][2].flatten(1).norm(dim=1), torch.full((10,), 100.0).double())


@pytest.mark.slow
def test_the_path_of_factors_tends_to_the_nuclear_svm_solution():
    tokens = benign_tokens(3, 3, 4, trials=32, seed=3)
    model = models.FactoredAttention(4, 4, trials=32)
    path = regularization_path(model, tokens, [1.0, 10.0, 100.0, 1000.0])
    problem = svm.attention_problem(tokens.keys, tokens.z, tokens.optimal)
    error = angles(path, "W", svm.solve(problem, norm="nuc"))
    assert (path.residual[:-1] <= 1e-6).all()
    assert (path.loss.diff(dim=0) <= 1e-12).all()
    assert error[-1].max() < 1e-3
    assert error[-1].median() < 0.1 * angles(path, "W", svm.solve(problem, norm="fro"))[-1].median()
    nuclear = torch.linalg.svdvals(path["W"]).sum(-1)
    assert (nuclear <= path.radii[:, None] * (1 + 1e-9)).all()
    torch.testing.assert_close(path["W"], path["K"] @ path["Q"].mT)
    torch.testing.assert_close(path["K"].square().sum((-2, -1)), path["Q"].square().sum((-2, -1)))


@pytest.mark.parametrize("m", [1, 2, 7])
def test_factors_bound_the_rank(m):
    tokens = benign_tokens(3, 3, 4, trials=4, seed=3)
    path = regularization_path(models.FactoredAttention(4, m, trials=4), tokens, [1.0, 10.0])
    assert path["K"].shape == path["Q"].shape == (2, 4, 4, m)
    assert torch.linalg.matrix_rank(path["W"]).max() <= m
    assert (path.residual <= 1e-6).all()
    torch.testing.assert_close(path["W"], path["K"] @ path["Q"].mT)


@pytest.mark.slow
def test_a_larger_ball_never_has_a_larger_loss():
    """Near saturation one long step can cross into the basin of a worse minimiser."""
    tokens = benign_tokens(3, 3, 4, trials=32, seed=3)
    path = regularization_path(models.CrossAttention(4, trials=32), tokens, [1.0, 10.0, 100.0, 1000.0])
    assert (path.loss.diff(dim=0) <= 1e-12).all()


def test_the_linear_path_tends_to_the_hard_margin():
    points = data.separable_points(12, seed=0)
    path = regularization_path(models.LinearClassifier(2), points, [1.0, 10.0, 100.0], loss="exponential")
    solution = svm.solve(svm.label_problem(points.X, points.y), norm="fro")
    assert path["w"].shape == (3, 2)
    assert (path.residual <= 1e-6).all()
    assert 1 - geometry.cosine(path["w"][-1], solution.value) < 1e-4


@pytest.mark.parametrize("scores", [(1.0, 0.9, 0.9), (1.0, 0.9, 0.0)])
def test_no_point_of_the_circle_is_better(scores):
    toy = data.toy_one_sequence(scores)
    path = regularization_path(models.PromptAttention(2), toy, [0.5, 3.0, 20.0])
    angle = torch.linspace(0, 2 * math.pi, 2001, dtype=torch.float64)[:-1]
    circle = torch.stack([angle.cos(), angle.sin()], -1)
    for R, loss in zip(path.radii, path.loss, strict=True):
        margins = models.PromptAttention(2, trials=2000, init=R * circle)(toy).detach()
        others = torch.nn.functional.softplus(-margins).mean(-1)
        assert loss <= others.min() + 1e-15
        assert loss >= others.min() - 1e-5


def test_the_residual_is_the_angle_that_autograd_sees():
    tokens = data.random_tokens(3, 4, 5, trials=4, seed=5)
    model = models.CrossAttention(5, trials=4)
    path = regularization_path(model, tokens, [1.0, 5.0], tol=1e-3, max_steps=8)
    torch.nn.functional.softplus(-tokens.y * model(tokens)).mean(-1).sum().backward()
    g, w = model.W.grad.flatten(1), model.W.detach().flatten(1)
    assert torch.equal(path["W"][-1], model.W.detach())
    g = 5.0 * g / g.norm(dim=1, keepdim=True)
    moved = w - g
    moved = moved * (5.0 / moved.norm(dim=1, keepdim=True)).clamp(max=1)
    torch.testing.assert_close(path.residual[-1], (moved - w).norm(dim=1) / 5.0, rtol=1e-6, atol=1e-9)
    assert path.residual.max() > 1e-7


@pytest.mark.parametrize("radii", [[], [0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, float("inf")]])
def test_radii_must_increase(radii):
    with pytest.raises(ValueError, match="expected positive numbers, each larger"):
        regularization_path(models.PromptAttention(2), data.toy_one_sequence(), radii)


def test_models_that_do_not_fit_are_refused():
    tokens = data.random_tokens(3, 4, 5, trials=4, seed=5)
    with pytest.raises(ValueError, match=r"give the model trials=\(4,\)"):
        regularization_path(models.PromptAttention(5), tokens, [1.0])
    headed = models.PromptAttention(5, trials=4, head=models.LinearHead(5, trials=4))
    with pytest.raises(ValueError, match="expected head=None, or an MLPHead"):
        regularization_path(headed, tokens, [1.0])
    path = regularization_path(models.PromptAttention(5, trials=4), tokens, [1.0], max_steps=1)
    with pytest.raises(KeyError, match=r"'W' is not on this path; it has \['p'\]"):
        path["W"]


def full_rank(d, trials):
    return models.FactoredAttention(d, d, trials=trials)


@pytest.mark.slow
@pytest.mark.parametrize("make", [models.PromptAttention, models.CrossAttention, full_rank])
@pytest.mark.parametrize("radius", [1e-290, 1e-160, 1e160, 1e300])
def test_no_radius_over_or_underflows(make, radius):
    tokens = benign_tokens(3, 3, 4, trials=4, seed=3)
    near = [1e-9] if radius < 1 else [1e-9, radius]
    path = regularization_path(make(4, trials=4), tokens, near, max_steps=1000)
    name = "p" if make is models.PromptAttention else "W"
    if radius < 1:  # on so small a ball the loss is linear: all of them have one direction
        tiny = regularization_path(make(4, trials=4), tokens, [radius])
        torch.testing.assert_close(tiny[name] / radius, path[name] / 1e-9, rtol=0, atol=1e-4)
        assert (tiny.residual <= 1e-6).all()
        return
    unit = path[name][-1] / radius
    length = torch.linalg.svdvals(unit).sum(-1) if make is full_rank else unit.flatten(1).norm(dim=1)
    torch.testing.assert_close(length, torch.ones_like(length))
    assert (path.residual[-1] > 0.01).all()  # rounding decides which token pulls, and the residual says so


@pytest.mark.slow
def test_a_large_ball_entered_from_its_centre_is_not_called_solved():
    tokens = benign_tokens(3, 4, 16, trials=5, seed=1)
    for dtype, radius in ((torch.float64, 1e300), (torch.float32, 1e20)):
        path = regularization_path(
            models.PromptAttention(16, trials=5, dtype=dtype), tokens.to(dtype), [radius]
        )
        length = path["p"][0].div(radius).norm(dim=-1)
        assert ((path.residual[0] > 0.1) | ((length - 1).abs() < 1e-5)).all()


@pytest.mark.slow
def test_float32_carries_small_and_large_radii():
    tokens = benign_tokens(3, 4, 16, trials=5, seed=1).to(torch.float32)
    model = models.PromptAttention(16, trials=5, dtype=torch.float32)
    path = regularization_path(model, tokens, [1e-30, 1e-3, 1.0, 10.0, 1e20])
    assert (path.residual[:4] <= 1e-6).all()
    lengths = torch.stack([(p / R).norm(dim=-1) for p, R in zip(path["p"], path.radii.tolist(), strict=True)])
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    assert (path.residual[4] > 0.01).all()


@pytest.mark.parametrize(
    ("dtype", "radii", "says"),
    [
        (torch.float32, [1.0, 1e39], r"radii go from 1 to 1e\+39; weights of dtype float32 carry"),
        (torch.float32, [1e-33, 1.0], "from 9.86e-32 to 3.4e"),
        (torch.float64, [1e-300], "weights of dtype float64 carry radii from 1e-292 to 1.8e"),
    ],
)
def test_radii_that_the_dtype_cannot_carry_are_refused(dtype, radii, says):
    toy = data.toy_one_sequence().to(dtype)
    with pytest.raises(ValueError, match=says):
        regularization_path(models.PromptAttention(2, dtype=dtype), toy, radii)


def test_a_start_outside_of_the_ball_is_projected():
    for scale in (1.0, 1e200, 1e307):
        model = models.PromptAttention(2, init=scale * torch.tensor([3.0, 4.0]).double())
        path = regularization_path(model, data.toy_one_sequence(), [2.0], max_steps=0)
        torch.testing.assert_close(path["p"], torch.tensor([[1.2, 1.6]], dtype=torch.float64))


@pytest.mark.parametrize("make", [models.CrossAttention, full_rank])
def test_a_trial_whose_logits_overflow_leaves_the_others_alone(make):
    tokens = benign_tokens(3, 3, 4, trials=4, seed=3)
    keys = tokens.keys.clone()
    keys[1] *= 1e305
    spoilt = data.TokenData(tokens.X, tokens.z, tokens.y, tokens.v, keys=keys)
    expected, path = (
        regularization_path(make(4, trials=4), t, [1.0, 1e8], max_steps=50, tol=0.0) for t in (tokens, spoilt)
    )
    others = [0, 2, 3]
    torch.testing.assert_close(path["W"][:, others], expected["W"][:, others])
    torch.testing.assert_close(path.residual[:, others], expected.residual[:, others])
    assert path.residual[1, 1] == math.inf
    assert path["W"].isfinite().all()


def test_trials_that_do_not_fit_are_refused_with_a_reason():
    tokens = data.random_tokens(3, 4, 5, trials=4, seed=5)
    with pytest.raises(ValueError, match=r"the model has trials \(2,\), the data \(4,\)"):
        regularization_path(models.PromptAttention(5, trials=2), tokens, [1.0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [models.PromptAttention, models.CrossAttention, models.FactoredAttention])
def test_a_trial_that_has_arrived_waits_for_nobody(kind):
    """Each goes as far as the tolerance asks, as if it were alone; with more steps residuals would fall."""
    shape = (5, 5) if kind is models.FactoredAttention else (5,)
    tokens = data.random_tokens(n=3, T=4, d=5, trials=24, seed=1)
    together = regularization_path(kind(*shape, trials=24), tokens, [1.0, 10.0, 100.0])
    assert (together.residual <= 1e-6).all()
    for trial in (0, 7, 23):
        own = slice(trial, trial + 1)
        alone = regularization_path(kind(*shape, trials=1), tokens.block(own), [1.0, 10.0, 100.0])
        ratio = alone.residual / together.residual[:, own]
        assert (ratio > 0.2).all()
        assert (ratio < 5).all()
        torch.testing.assert_close(alone.loss, together.loss[:, own], rtol=1e-9, atol=0)
