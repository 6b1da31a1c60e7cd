"""Gradient flow of keys and queries: where it stops, what it costs, and the forces it reads."""

import pytest
import torch

from mini_attn import data, flow, geometry, losses, models, svm
from mini_attn.gradients import closed_form


def tokens_and_model(trials=3, scale=0.3, m=4, seed=0):
    tokens = data.random_tokens(3, 4, 5, trials=trials, seed=seed)
    return tokens, models.FactoredAttention(5, m, trials=trials, scale=scale, seed=seed)


def smallest_lead(W, tokens):
    h = tokens.compare(tokens.z @ W.mT)
    return geometry.margins(h, geometry.selected_tokens(h)).amin((-1, -2))


def test_levels_are_reached_and_not_passed_by_much():
    tokens, model = tokens_and_model()
    run = flow.follow(model, tokens, [5.0, 20.0, 40.0])
    assert run.reached.all()
    leads = torch.stack([smallest_lead(W, tokens) for W in run.W])
    levels = run.leads[:, None]
    assert ((leads >= levels) & (leads < levels + 0.5)).all()  # a step moves it by 0.4


def test_a_single_problem_without_trials():
    tokens, many = tokens_and_model(trials=2)
    one = models.FactoredAttention(5, 4, trials=None)
    with torch.no_grad():
        one.K.copy_(many.K[1])
        one.Q.copy_(many.Q[1])
    alone = data.TokenData(X=tokens.X[1], z=tokens.z[1], y=tokens.y[1], v=tokens.v[1])
    run, both = flow.follow(one, alone, [10.0]), flow.follow(many, tokens, [10.0])
    assert run.W.shape == (1, 5, 5)
    torch.testing.assert_close(run.W[0], both.W[0, 1])


def test_each_trial_may_turn_by_its_own_angle_on_data_they_share():
    tokens, one = tokens_and_model()
    both = models.FactoredAttention(5, 4, trials=(2, 3))
    with torch.no_grad():
        both.K.copy_(one.K)
        both.Q.copy_(one.Q)
    turns = [0.03, 0.01]
    run = flow.follow(both, tokens, [1e9], turn=torch.tensor(turns)[:, None], move=torch.inf, max_steps=50)
    for k, turn in enumerate(turns):
        _, model = tokens_and_model()
        flow.follow(model, tokens, [1e9], turn=turn, move=torch.inf, max_steps=50)
        torch.testing.assert_close(run.K[0, k], model.K.detach(), rtol=1e-6, atol=0.0)


def test_padding_changes_nothing():
    tokens, model = tokens_and_model()
    _, padded_model = tokens_and_model()
    X = torch.cat([tokens.X, torch.full_like(tokens.X[..., :2, :], torch.nan)], -2)
    mask = torch.ones(X.shape[:-1], dtype=torch.bool)
    mask[..., 4:] = False
    padded = data.TokenData(X=X, z=tokens.z, y=tokens.y, v=tokens.v, mask=mask)
    run, other = flow.follow(model, tokens, [15.0]), flow.follow(padded_model, padded, [15.0])
    assert run.steps == other.steps
    torch.testing.assert_close(run.W, other.W)


def test_small_steps_keep_what_the_flow_conserves():
    tokens, model = tokens_and_model()
    before = model.K.mT @ model.K - model.Q.mT @ model.Q
    drift = []
    for turn, move in ((0.02, 0.4), (0.005, 0.1)):
        _, model = tokens_and_model()
        run = flow.follow(model, tokens, [20.0], turn=turn, move=move)
        drift.append((run.K[0].mT @ run.K[0] - run.Q[0].mT @ run.Q[0] - before).norm())
    assert drift[1] < 0.35 * drift[0]  # of first order in the steps


def test_every_step_is_short():
    tokens, model = tokens_and_model()
    K, Q = model.K.detach().clone(), model.Q.detach().clone()
    flow.follow(model, tokens, [1e9], turn=0.03, move=torch.inf, max_steps=1)
    moved = ((model.K - K).square().sum((-1, -2)) + (model.Q - Q).square().sum((-1, -2))).sqrt()
    length = (K.square().sum((-1, -2)) + Q.square().sum((-1, -2))).sqrt()
    torch.testing.assert_close(moved, 0.03 * length)


def test_the_norm_grows_geometrically_without_a_limit_on_moves():
    tokens, model = tokens_and_model()
    flow.follow(model, tokens, [20.0])
    start = torch.linalg.matrix_norm(model.W)
    run = flow.follow(model, tokens, [1e12], turn=0.01, move=torch.inf, max_steps=400)
    assert not run.reached.any()
    assert run.steps == 400
    assert (run.W[0].norm(dim=(-1, -2)) > 30 * start).all()  # 1.01^(2 400) = 2,900, less the zigzag


def test_what_is_not_reached_is_the_end_of_the_run():
    tokens, model = tokens_and_model()
    run = flow.follow(model, tokens, [1.0, 1e6], max_steps=200)
    assert run.reached.tolist() == [[True] * 3, [False] * 3]
    torch.testing.assert_close(run.K[1], model.K.detach())


def test_forces_are_the_pull_in_units_of_the_weights():
    tokens, model = tokens_and_model()
    run = flow.follow(model, tokens, [12.0])
    S = flow.forces(run.W, tokens)[0]
    nuclear = torch.linalg.matrix_norm(run.W[0], "nuc")
    torch.testing.assert_close((S * run.W[0]).sum((-1, -2)), nuclear)
    joined = models.CrossAttention(5, trials=3, init=run.W[0])
    M = -closed_form(joined, tokens, losses.logistic)()[1]["W"]
    torch.testing.assert_close(geometry.cosine(S, M), torch.ones(3, dtype=torch.float64))
    assert flow.forces(1e6 * run.W[0], tokens).isfinite().all()


def test_the_forces_certify_the_margin():
    """The margin is at least 1 / ||S||_op of the largest one, and no ||S||_op is below 1."""
    tokens, model = tokens_and_model(m=5)
    run = flow.follow(model, tokens, [60.0, 300.0])
    W = run.W[1]
    selected = geometry.selected_tokens(tokens.compare(tokens.z @ W.mT))
    best = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm="nuc")
    c = torch.linalg.matrix_norm(flow.forces(run.W, tokens), 2)[1]
    share = smallest_lead(W, tokens) / torch.linalg.matrix_norm(W, "nuc") / best.margin
    assert (share > 0.97 / c).all()  # at least 1/c of the largest margin
    assert (c > 1 - 1e-3).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leads": [2.0, 1.0]}, "each larger"),
        ({"leads": []}, "at least one"),
        ({"turn": 0.0}, "positive"),
        ({"move": -1.0}, "positive"),
        ({"model": models.CrossAttention(5, trials=3)}, "FactoredAttention"),
        ({"model": models.FactoredAttention(5, 2, trials=2)}, "trials"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    tokens, model = tokens_and_model()
    arguments = {"model": model, "data": tokens, "leads": [1.0]} | change
    with pytest.raises(ValueError, match=message):
        flow.follow(**arguments)


def test_on_a_device(device):
    tokens, model = tokens_and_model()
    run = flow.follow(model.to(device), tokens.to(device), [2.0], max_steps=50)
    assert run.K.device.type == torch.device(device).type
    assert flow.forces(run.W[-1], tokens.to(device)).shape == (3, 5, 5)
