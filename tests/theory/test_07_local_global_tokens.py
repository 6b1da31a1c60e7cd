"""Lesson 07. Locally optimal choices are the attractors of descent on p; far enough out no other choice is.

Tarzanagh et al. 2023, informally: from inside a cone around p_mm(alpha), far enough out, gradient descent
converges to it if every alpha_i scores higher than its support tokens; it converges to the globally optimal
choice from everywhere if all other tokens of a sequence have equal scores.
"""

import itertools
import math

import pytest
import torch

from mini_attn import data, geometry, models, optim, svm, train

SEEDS = (41, 42)  # the lesson uses others


def enumerated(tokens):
    """Every choice of every trial: alpha, p_mm, feasible, locally optimal; leading axes (trials, choices)."""
    trials, n, T, d = tokens.keys.shape
    alpha = torch.tensor(list(itertools.product(range(T), repeat=n))).expand(trials, -1, -1)
    keys = tokens.keys[:, None].expand(*alpha.shape, T, d)
    solution = svm.solve(svm.token_problem(keys, alpha), throw=False)
    feasible = torch.as_tensor(solution.status == "optimal")
    logits = (keys @ solution.value[..., None, :, None])[..., 0]
    local = geometry.locally_optimal(tokens.scores[:, None].expand_as(logits), logits, alpha) & feasible
    return alpha, solution.value, feasible, local


def descend(tokens, start, steps, lr, schedule=None):
    model = models.PromptAttention(start.shape[-1], trials=len(start), init=start)
    optimizer = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, progress=False, schedule=schedule)
    return model


@pytest.mark.parametrize("seed", SEEDS)
def test_far_out_the_locally_optimal_choices_hold_and_no_others(seed):
    """Each choice alone: start on its ray with margin 1000, descend to several times that distance.

    A choice holds if the tokens stay selected and p has become longer. Tolerance: two of the locally optimal
    ones may have a better rival so nearly tight that 1000 is not far; choices of ||p_mm|| > 50 have cones
    narrower than a few steps and are left out.
    """
    tokens = data.random_tokens(n=2, T=4, d=3, trials=30, seed=seed)
    alpha, p_mm, feasible, local = enumerated(tokens)
    trial, choice = (feasible & (p_mm.norm(dim=-1) < 50)).nonzero(as_tuple=True)
    alpha, p_mm, local = alpha[trial, choice], p_mm[trial, choice], local[trial, choice]
    length = p_mm.norm(dim=-1)
    problems = data.TokenData(
        tokens.X[trial],
        tokens.z[trial],
        tokens.y[trial],
        tokens.v[trial],
        tokens.keys[trial] * 1000 * length[:, None, None, None],  # unit start: lengths are relative to it
    )
    model = descend(problems, p_mm / length[:, None], steps=1000, lr=0.005)
    same = (geometry.selected_tokens(model.attention(problems)) == alpha).all(dim=-1)
    holds = same & (model.p.detach().norm(dim=-1) > 1)
    assert local.sum() > 40
    assert (~local).sum() > 200
    assert (local & ~holds).sum() <= 2
    assert (~local & holds).sum() == 0
    assert geometry.cosine(model.p.detach(), p_mm)[holds].min() > 0.999


@pytest.mark.parametrize("d", [6, 10])
@pytest.mark.parametrize("seed", SEEDS)
def test_runs_that_diverge_end_at_a_locally_optimal_choice(seed, d):
    """From random starts, every run with ||p|| > 1000 (of at most 3876) selects a locally optimal choice."""
    tokens = data.random_tokens(n=3, T=4, d=d, trials=100, seed=seed)
    alpha, p_mm, _, local = enumerated(tokens)
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(100, d, generator=generator, dtype=torch.float64)
    model = descend(tokens, start, steps=1500, lr=0.1, schedule=train.growing)
    selected = geometry.selected_tokens(model.attention(tokens))
    at = torch.arange(100), (alpha == selected[:, None]).all(dim=-1).int().argmax(dim=1)
    away = model.p.detach().norm(dim=-1) > 1000
    assert away.sum() > 85
    assert local[at][away].all()
    assert geometry.cosine(model.p.detach(), p_mm[at])[away].min() > 0.998


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_losers_lead_to_the_global_choice_from_every_start(seed):
    """Several sequences in which all tokens but the best score alike: one destination, from anywhere."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(2, 4, 5, generator=generator, dtype=torch.float64)
    X = torch.zeros_like(keys)
    X[:, :, 0] = 0.2
    X[:, 1, 0] = 1.0  # token 1 is the best of both sequences
    e1 = torch.eye(5, dtype=torch.float64)[0]
    tokens = data.TokenData(X, torch.ones(2, 5).double(), torch.ones(2).double(), e1, keys)
    start = 3 * torch.randn(50, 5, generator=generator, dtype=torch.float64)
    model = descend(tokens, start, steps=2000, lr=0.1, schedule=train.growing)
    assert (geometry.outcome(model.attention(tokens), tokens) == "global").all()
    target = svm.solve(svm.token_problem(keys, torch.tensor([1, 1]))).value
    assert geometry.cosine(model.p.detach(), target.expand(50, 5)).min() > 0.999


@pytest.mark.parametrize(("score", "winner"), [(0.2, 2), (0.9, 3), (1.2, 3)])
def test_one_better_support_token_undoes_a_choice(score, winner):
    """Token 2 of a hexagon, score .8, beats its neighbour 1; the score of its neighbour 3 decides its fate.

    From its ray, margin 10: it keeps winning if it beats both, and loses to token 3 if it beats only one.
    """
    corners = [[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5]]
    keys = torch.tensor(corners, dtype=torch.float64)[None]
    X = torch.zeros_like(keys)
    X[0, :, 0] = torch.tensor([1, 0.3, 0.8, score, 0.7, 0.1])
    e1 = torch.tensor([1.0, 0.0], dtype=torch.float64)
    tokens = data.TokenData(X, e1[None], e1[:1], e1, keys)
    start = 10 * svm.solve(svm.token_problem(keys, torch.tensor([2]))).value
    model = descend(tokens, start[None], steps=300, lr=0.1)
    assert geometry.selected_tokens(model.attention(tokens)).item() == winner


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_leads_over_two_support_tokens_settle_where_the_forces_have_the_svms_proportion(d, seed):
    """Comparisons a, b; scores 1, g, h: lead b - lead a -> log (1 - h) b.(b - a) / (1 - g) a.(a - b)."""
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, 200, d, generator=generator, dtype=torch.float64)
    a, b = a / a.norm(dim=-1, keepdim=True), 1.2 * b / b.norm(dim=-1, keepdim=True)
    both = (a * b).sum(-1).abs() < 0.7  # then both weights are positive
    a, b = a[both], b[both]
    scores = torch.cat([torch.ones(len(a), 1), torch.rand(len(a), 2, generator=generator) * 0.95], dim=1)
    p_mm = torch.linalg.pinv(torch.stack([a, b], dim=1)).sum(-1)
    X = torch.zeros(len(a), 1, 3, d, dtype=torch.float64)
    X[:, 0, :, 0] = scores
    e1 = torch.eye(d, dtype=torch.float64)[0].expand(len(a), d)
    keys = torch.stack([0 * a, -a, -b], dim=1)[:, None]
    tokens = data.TokenData(X, e1[:, None], torch.ones(len(a), 1).double(), e1, keys)
    p = descend(tokens, 15 * p_mm, steps=3000, lr=0.02).p.detach()
    weights = (b * (b - a)).sum(-1) / (a * (a - b)).sum(-1)
    settled = ((1 - scores[:, 2]) / (1 - scores[:, 1]) * weights).log()
    assert len(a) > 60
    torch.testing.assert_close((p * (b - a)).sum(-1), settled.double(), atol=0.01, rtol=0)


@pytest.mark.parametrize("d", [4, 8])
def test_scores_that_know_nothing_of_the_keys_have_as_many_local_winners_as_expected(d):
    """The mean over scores of the number of local winners is sum over choices of prod_i 1 / (|S_i| + 1)."""
    tokens = data.random_tokens(n=2, T=4, d=d, trials=30, seed=51)
    alpha, p_mm, feasible, _ = enumerated(tokens)
    keys = tokens.keys[:, None].expand(*alpha.shape, 4, d)
    logits = (keys @ p_mm[..., None, :, None])[..., 0]
    tight = geometry.support_tokens(logits, alpha).sum(-1)
    expected = (feasible / (tight + 1).prod(-1)).sum(-1).mean()
    scores = torch.rand(60, 30, 1, 2, 4, generator=torch.Generator().manual_seed(51), dtype=torch.float64)
    counted = [
        (geometry.locally_optimal(gamma.expand_as(logits), logits, alpha) & feasible).sum(-1).double().mean()
        for gamma in scores
    ]
    assert torch.stack(counted).mean().item() == pytest.approx(expected.item(), rel=0.03)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize(("factor", "holds"), [(0.97, False), (1.03, True)])
def test_a_better_token_that_nearly_tight_is_harmless_from_its_critical_lead_on(d, factor, holds):
    """Three tokens, comparisons a (tight) and b (better, lead 1 + slack), on the ray from lead D.

    Token 1 holds iff ratio exp(-D slack) < (b - a).a / (b - a).b, for the ratio of score differences.
    """
    generator = torch.Generator().manual_seed(70 + d)
    a, b = torch.randn(2, 2000, d, generator=generator, dtype=torch.float64)
    ratio = torch.randn(2000, generator=generator, dtype=torch.float64).exp()
    slack = (b * a).sum(-1) / (a * a).sum(-1) - 1
    lead = (ratio * ((b - a) * b).sum(-1) / ((b - a) * a).sum(-1)).log() / slack
    within = (slack > 0) & (lead > 10) & (lead < 100)
    a, b, ratio, lead = (part[within] for part in (a, b, ratio, lead))
    assert len(a) > 20
    p_mm = a / (a * a).sum(-1, keepdim=True)
    keys = torch.stack([0 * a, -a, -b], dim=-2) * (factor * lead * p_mm.norm(dim=-1))[:, None, None]
    X = torch.zeros_like(keys)
    X[..., 0] = torch.stack([0 * ratio, 0 * ratio - 0.4, 0.4 * ratio], dim=-1)
    e1 = torch.eye(d, dtype=torch.float64)[0].expand(len(a), d)
    tokens = data.TokenData(X[:, None], e1[:, None], torch.ones(len(a), 1).double(), e1, keys[:, None])
    model = descend(tokens, p_mm / p_mm.norm(dim=-1, keepdim=True), steps=1500, lr=0.01)
    assert ((geometry.selected_tokens(model.attention(tokens))[:, 0] == 0) == holds).all()


@pytest.mark.parametrize(
    ("scores", "valley", "winners"),
    [((1, 0.3, 0.8, 0.2, 0.7, 0.1), 3, (2, 4)), ((1, 0.9, 0.8, 0.2, 0.7, 0.1), 3, (0, 4))],
)
def test_basins_meet_where_the_neighbours_of_a_worse_corner_tie(scores, valley, winners):
    """A hexagon, far out, 0.1 degrees on either side of the line on which corners 3 and 5 tie, 4 ahead.

    Who wins on the far side may be another corner: of scores 1, .9, .8, .2 it is the first.
    """
    corners = [[0.2, 1.1], [1, 0.6], [0.9, -0.5], [0.1, -1.1], [-0.9, -0.6], [-1, 0.5]]
    keys = 4000 * torch.tensor(corners, dtype=torch.float64)[None]
    X = torch.zeros_like(keys)
    X[0, :, 0] = torch.tensor(scores)
    e1 = torch.tensor([1.0, 0.0], dtype=torch.float64)
    tokens = data.TokenData(X, e1[None], e1[:1], e1, keys)
    before, after = keys[0, valley - 1] / 4000, keys[0, valley + 1] / 4000
    tie = torch.stack([after[1] - before[1], before[0] - after[0]])
    tie = tie / tie.norm() * (tie @ (keys[0, valley] - keys[0, valley - 1])).sign()
    towards = (before - after) / (before - after).norm()
    start = torch.stack([tie + math.radians(angle) * towards for angle in (0.1, -0.1)])
    model = descend(tokens, start, steps=2000, lr=0.01)
    assert geometry.selected_tokens(model.attention(tokens))[:, 0].tolist() == list(winners)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_linear_in_the_keys_leave_an_obtuse_hexagon_one_local_winner(seed):
    """The support tokens of its corners are their neighbours, and a corner better than both is the best."""
    generator = torch.Generator().manual_seed(seed)
    jitter, radius = torch.rand(2, 60, 6, generator=generator, dtype=torch.float64)
    angle = math.pi / 3 * (torch.arange(6) + 0.5 * (jitter - 0.5))
    keys = (0.9 + 0.2 * radius)[..., None] * torch.stack([angle.cos(), angle.sin()], dim=-1)
    after, before = keys.roll(-1, dims=1) - keys, keys.roll(1, dims=1) - keys
    obtuse = ((after * before).sum(-1) < 0).all(-1)
    keys = keys[obtuse][:, None]  # (hexagons, 1, 6, 2)
    v = torch.randn(len(keys), 2, generator=generator, dtype=torch.float64)
    ones = torch.ones(len(keys), 1, dtype=torch.float64)
    _, _, feasible, local = enumerated(data.TokenData(keys, keys[:, :, 0], ones, v, keys))
    assert len(keys) > 40
    assert feasible.all()
    assert (local.sum(dim=1) == 1).all()
