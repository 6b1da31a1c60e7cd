"""Lesson 15. Mirror descent: where W goes in another norm, which tokens it can hold, and how sparse it is.

Julistiono, Tarzanagh and Azizan 2024, informally: mirror descent in l_rho goes to the l_rho Att-SVM of a
locally optimal choice. Measured here, on other seeds and sizes than the lesson's: each run is near its own
SVM and not the others'; the divergence is the support comparisons' missing margin; a choice that is not
locally optimal is lost and one that is stays, in the own norm too; the tokens of a joint toy depend on
rho and on the steps, and the joint head goes to the label SVM of its own norm.
"""

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch

from course.replicate import lesson_15 as replicate
from course.replicate.lesson_15 import (
    ETA,
    PUBLISHED,
    STEPS,
    descended,
    kept,
    selection,
    solution,
    start,
)
from mini_attn import data, geometry, heads, models, optim, svm, train


@pytest.fixture(scope="module")
def runs():
    """20 data sets of 4 sequences of 5 tokens in 7 dimensions; three exponents."""
    tokens = data.random_tokens(4, 5, 7, trials=20, seed=151)
    return tokens, {rho: descended(tokens, rho, 1500, schedule=train.growing)[0] for rho in (1.3, 2.0, 3.0)}


def test_each_run_goes_to_the_svm_of_its_own_norm(runs):
    tokens, models_of = runs
    for rho, model in models_of.items():
        selected = kept(tokens, model)
        apart = {one: geometry.bregman(model.W, solution(tokens, selected, one), rho) for one in models_of}
        assert apart[rho].median() < (3e-3 if rho == 3 else 1e-3)
        for other in set(models_of) - {rho}:
            assert apart[other].median() > 8 * apart[rho].median()
            assert apart[other].median() > 0.02


@pytest.mark.parametrize("rho", [1.3, 3.0])
def test_the_divergence_is_the_margin_that_support_comparisons_lack(runs, rho):
    tokens, models_of = runs
    W = models_of[2.0].W  # far from the SVM in l_rho
    problem = svm.attention_problem(tokens.X, tokens.z, kept(tokens, models_of[2.0]))
    limit = svm.solve(problem, norm=rho)
    q = limit.dual / limit.dual.sum(-1, keepdim=True)
    leads = problem.forward(W) * limit.objective[:, None]
    leads = leads / torch.linalg.vector_norm(W.flatten(1), ord=rho, dim=1, keepdim=True)
    D = geometry.bregman(W, limit.value, rho)
    torch.testing.assert_close(D, 1 - (q * leads).sum(-1), atol=1e-4, rtol=0)
    assert (1 - leads.amin(-1) > D - 1e-4).all()
    assert (
        (geometry.bregman(limit.value, W, rho) - D).abs() > 2e-4
    ).double().mean() > 0.8  # the rival, reversed


def test_what_is_not_locally_optimal_is_lost_and_what_is_stays(runs):
    tokens = data.random_tokens(6, 8, 6, trials=60, seed=152)  # low dimension: more support tokens matter
    model, _ = descended(tokens, 1.5, 1000, schedule=train.growing)
    chosen = kept(tokens, model)
    least = geometry.margins(model.logits(tokens), chosen).amin((-2, -1))
    settled = (model.attention(tokens).amax(-1) > 0.99).all(-1) & (least > 0)
    far = 8 * model.W / least.clamp(min=1e-9)[:, None, None]
    far = torch.where(settled[:, None, None], far, 0.0)
    after, _ = descended(tokens, 3.0, 3000, far, schedule=train.growing)
    held = (kept(tokens, after) == chosen).all(-1)
    logits = tokens.compare(tokens.z @ solution(tokens, chosen, 3.0).mT)
    could = geometry.locally_optimal(tokens.scores, logits, chosen, tol=1e-3)
    assert (settled & ~could).sum() >= 3
    assert (held & settled & ~could).sum() <= 0.34 * (settled & ~could).sum()
    assert (held & settled & could).sum() >= 0.9 * (settled & could).sum()


def test_with_short_steps_each_locally_optimal_choice_is_held():
    tokens = data.random_tokens(6, 8, 10, trials=30, seed=9)
    model, _ = descended(tokens, 2.0, 1000, schedule=train.growing)
    chosen = kept(tokens, model)
    lead = geometry.margins(model.logits(tokens), chosen).amin((-2, -1))
    logits = tokens.compare(tokens.z @ solution(tokens, chosen, 1.1).mT)
    could = geometry.locally_optimal(tokens.scores, logits, chosen, tol=1e-3)
    far, held = 10 * model.W / lead[:, None, None], {}
    for eta in (0.1, 0.001):
        after, _ = descended(tokens, 1.1, 1000, far, eta=eta, schedule=train.growing)
        held[eta] = (kept(tokens, after) == chosen).all(-1)
    assert torch.equal(held[0.001] & could, could)
    assert (held[0.1] & could).sum() < could.sum()


def test_long_steps_change_many_choices_at_1_1_and_few_at_2():
    changed = {}
    for rho in (1.1, 2.0):
        tokens = data.random_tokens(6, 8, 10, trials=40, seed=782)
        ends = [
            kept(tokens, descended(tokens, rho, 3000, eta=eta, schedule=train.growing)[0])
            for eta in (0.1, 0.001)
        ]
        changed[rho] = int((ends[0] != ends[1]).any(-1).sum())
    assert 6 <= changed[1.1] <= 20  # 54 of the lesson's 200
    assert changed[2.0] <= 4  # 6 of 200


@functools.cache
def _small():
    return data.random_tokens(4, 6, 6, trials=40, seed=786)


@functools.cache
def _end(rho, eta):
    return kept(_small(), descended(_small(), rho, 3000, eta=eta, schedule=train.growing)[0])


@functools.cache
def _fine(rho, eta, norm):
    logits = _small().compare(_small().z @ solution(_small(), _end(rho, eta), norm).mT)
    return geometry.locally_optimal(_small().scores, logits, _end(rho, eta), tol=1e-3)


@pytest.mark.parametrize("etas", [(0.001, 0.1), (0.001, 0.001), (0.1, 0.1)])
def test_where_two_norms_differ_one_could_hold_both_choices(etas):
    one, two = (1.1, etas[0]), (2.0, etas[1])
    differ = (_end(*one) != _end(*two)).any(-1) & _fine(*one, 1.1) & _fine(*two, 2.0)
    way_too = _fine(*one, 2.0) | _fine(*two, 1.1)
    assert differ.sum() >= 6
    assert (differ & ~way_too).sum() <= 1


@pytest.mark.parametrize(
    ("rho", "steps"), [(1.1, 6000), (1.75, 12_000), (2.0, 3000), (2.5, 6000), (3.0, 6000)]
)
def test_the_divergence_falls_with_the_foreseen_power(rho, steps):
    tokens = data.random_tokens(4, 5, 7, trials=20, seed=157)
    how = {"record": {"W": lambda model: model.W}, "every": [steps // 4, steps]}
    eta = 0.1 if rho < 2 else 1.0
    model, history = descended(tokens, rho, steps, eta=eta, **how)
    own = solution(tokens, kept(tokens, model), rho)
    falls = torch.stack([geometry.bregman(W, own, rho) for W in history["W"][1:]]).log().diff(dim=0)[0]
    assert abs(falls.median() / math.log(4) + 2 / max(1, rho - 1)) < 0.1


def _one_run(monkeypatch, from_0_only=False):
    """Have `selection` leave out its runs with other steps, or all but the first: nobody asks for them."""
    first = []

    def descended_once(tokens, rho, steps, W_0=None, **how):
        if first and (W_0 is None or from_0_only):
            return first[0]
        first.append(descended(tokens, rho, steps, W_0, **how))
        return first[-1]

    monkeypatch.setattr(replicate, "descended", descended_once)


def test_what_decides_which_choice_is_held_decides_in_its_own_norm_too(monkeypatch):
    _one_run(monkeypatch)
    found = selection(3.0, trials=30, seed=158)
    better, held = found["better"].numpy(), found["held"].numpy()
    could = better > 1.001  # locally optimal: (trials, norm)
    finished = could[:, 2:]
    assert (held & could & finished).sum() >= 0.97 * (could & finished).sum()
    assert (held & (better > 1.1) & finished).sum() == ((better > 1.1) & finished).sum() > 60
    assert (held & ~could & finished).sum() == 0


def test_the_least_lead_over_a_better_token_says_what_is_locally_optimal(monkeypatch):
    _one_run(monkeypatch, from_0_only=True)
    found = selection(2.0, trials=20, seed=159)
    tokens, chosen = data.random_tokens(6, 8, 10, trials=20, seed=159), found["chosen"].long()
    for k, rho in enumerate(ETA):
        logits = tokens.compare(tokens.z @ solution(tokens, chosen, rho).mT)
        could = geometry.locally_optimal(tokens.scores, logits, chosen, tol=1e-3)
        np.testing.assert_array_equal(could, found["better"][:, k] > 1.001)


@pytest.mark.parametrize("rho", [2.0, 3.0])
def test_a_small_error_counts_its_square_in_the_divergence(runs, rho):
    tokens, models_of = runs
    problem = svm.attention_problem(tokens.X, tokens.z, kept(tokens, models_of[rho]))
    W = svm.solve(problem, norm=rho).value
    W = W / torch.linalg.vector_norm(W.flatten(1), ord=rho, dim=1)[:, None, None]
    E = torch.randn(W.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    E = E / torch.linalg.vector_norm(E.flatten(1), ord=rho, dim=1)[:, None, None]
    distances = [geometry.bregman(W + size * E, W, rho) for size in (1e-2, 1e-3)]
    assert abs((distances[0] / distances[1]).median() / 100 - 1) < 0.1


def test_the_svms_S_is_flatter_at_small_rho(runs):
    tokens, models_of = runs
    problem = svm.attention_problem(tokens.X, tokens.z, kept(tokens, models_of[2.0]))
    flat, least = {}, {}
    for rho in (1.1, 2.0):
        limit = svm.solve(problem, norm=rho)
        S = limit.value.flatten(1).abs() ** (rho - 1)  # <S, W> = sum of the weights, up to S's factor
        S = S * (limit.dual.sum(-1) / (S * limit.value.flatten(1).abs()).sum(1))[:, None]
        flat[rho] = S.median(1).values / S.amax(1)
        least[rho] = torch.linalg.vector_norm(S, ord=11, dim=1) / limit.dual.sum(-1)
    assert (flat[1.1] > flat[2.0]).double().mean() > 0.9
    assert (least[1.1] < least[2.0]).all()


JOINT = [
    *(
        ((eta, steps, (1.0, 1.0, 0.0)))
        for eta, steps in (
            (0.001, 3000),
            (0.003, 1071),
            (0.01, 480),
            (0.03, 480),
            (0.03, 231),
            (0.01, 8000),
        )
    ),
    (0.01, 240, (0.0, 0.0, 0.0)),  # all three, early
    *((0.05 * c, 480, (0.0, 1.0, 0.0)) for c in (0.99, 1.01)),
    *((0.1 * c, 480, (0.0, 0.0, 1.0)) for c in (0.99, 1.01)),
    (0.1, 8000, (0.0, 0.0, 1.0)),  # ten times as long as the lesson's: the other token in each
    *((0.2 * c, 480, (0.0, 0.0, 0.0)) for c in (0.99, 1.01)),
]  # steps eta sqrt(j), how many, where 1.75, 2 and 3 end


def _mirrored(w, slope, eta, rho):
    """A normalised step of mirror descent up this slope; w and slope (runs, D), the others (runs, 1)."""
    slope = slope / np.abs(slope).max(-1, keepdims=True).clip(1e-300)
    size = (np.abs(slope) ** (rho / (rho - 1))).sum(-1, keepdims=True) ** (1 - 1 / rho)
    dual = np.sign(w) * np.abs(w) ** (rho - 1) + eta * slope / size.clip(1e-300)
    return np.sign(dual) * np.abs(dual) ** (1 / (rho - 1))


@functools.cache
def _joint_toy():
    """The attention on the first token of the first of two pairs, by (eta, steps), for 1.75, 2 and 3.

    Of W only W z counts: the query of both is the first unit vector. In logs, so that nothing underflows.
    """
    asked = [(eta, steps) for eta, steps, _ in JOINT]
    etas = sorted({eta for eta, _ in asked})
    eta, rho = (one.reshape(-1, 1) for one in np.meshgrid(etas, (1.75, 2.0, 3.0), indexing="ij"))
    X, y, found = np.array([[[1, 0], [0, 0]], [[2, -1], [1.5, 1]]]), np.array([1, -1]), {}
    apart, w, v = X[:, 0] - X[:, 1], np.zeros((len(rho), 2)), np.zeros((len(rho), 2))
    for j in range(1, max(steps for _, steps in asked) + 1):
        d = w @ apart.T  # (runs, pairs)
        s = np.exp(-np.logaddexp(0, -d))
        x = X[:, 1] + s[..., None] * apart  # what the head sees
        log_l = -np.logaddexp(0, y * (x @ v[..., None])[..., 0])
        log_s = log_l - np.logaddexp(0, d) - np.logaddexp(0, -d)
        of_l, of_s = (np.exp(one - one.max(-1, keepdims=True)) * y for one in (log_l, log_s))
        up_w, up_v = (of_s * (v @ apart.T)) @ apart, (of_l[..., None] * x).sum(1)
        w, v = (_mirrored(one, up, eta * j**0.5, rho) for one, up in ((w, up_w), (v, up_v)))
        for k, one in enumerate(etas):
            if (one, j) in asked:
                found[one, j] = np.exp(-np.logaddexp(0, -(w @ apart[0]).reshape(-1, 3)[k]))
    return found


@pytest.mark.parametrize(("eta", "steps", "first"), JOINT)
def test_the_tokens_of_a_joint_toy_depend_on_rho_and_on_the_steps(eta, steps, first):
    """W and the head together from 0, with short steps: (1, 0) for 1.75 and 2, (0, 0) for 3."""
    np.testing.assert_allclose(_joint_toy()[eta, steps], first, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "seed", "steps"), [((6, 8, 10), 0, 4800), ((4, 5, 7), 1, 960)])
def test_the_joint_head_goes_to_the_label_svm_of_its_own_norm(shape, seed, steps):
    """W and v from 0: v, in the median, to the l_rho label SVM; W to its Att-SVM at 2 and 3, not at 1.1."""
    tokens = data.random_tokens(*shape, trials=10, seed=seed)
    norms = (1.1, 2.0, 3.0)
    for k, rho in enumerate(norms):
        model = models.CrossAttention(shape[2], trials=10, head=heads.LinearHead(shape[2], trials=10))
        groups = [{"params": [one]} for one in (model.W, model.head.v)]
        optimizer = optim.MirrorDescent(groups, lr=0.001 if rho < 2 else 0.1, p=rho, batch_dims=1)
        train.fit(model, tokens, optimizer, steps, every=steps, schedule=train.growing, progress=False)
        model.requires_grad_(False)
        selected = geometry.selected_tokens(model.attention(tokens))
        points = svm.label_problem(
            torch.take_along_dim(tokens.X, selected[..., None, None], -2)[:, :, 0], tokens.y
        )
        limits = [svm.solve(points, norm=one).value for one in norms]
        near = torch.stack([geometry.cosine(model.head.v, limit, batch_dims=1) for limit in limits])
        assert near[k].median() > 0.97 if rho < 2 else near[k].min() > 0.99
        assert (near.argmax(0) == k).sum() >= 8
        limit = svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=rho).value
        own = geometry.cosine(model.W, limit, batch_dims=1).median()
        assert own < 0.85 if rho < 2 else own > 0.97


@functools.cache
def _joint(shape, seeds, rho, slow, steps):
    """Cosines to their own SVMs, of v (median) and W (lower quartile), and |v| over |W| (median), by seed."""
    each = [data.random_tokens(*shape, trials=20, seed=seed) for seed in seeds]
    tokens = data.TokenData(
        *(torch.cat([getattr(one, name) for one in each]) for name in ("X", "z", "y", "v"))
    )
    trials, d = tokens.X.shape[0], tokens.X.shape[-1]
    model = models.CrossAttention(d, trials=trials, head=heads.LinearHead(d, trials=trials))
    eta = 0.001 if rho < 2 else 0.1
    groups = [{"params": [model.W]}, {"params": [model.head.v], "lr": eta / slow}]
    optimizer = optim.MirrorDescent(groups, lr=eta, p=rho, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, every=steps, schedule=train.growing, progress=False)
    model.requires_grad_(False)
    taken = geometry.selected_tokens(model.attention(tokens))
    x = torch.take_along_dim(tokens.X, taken[..., None, None], -2)[:, :, 0]
    labels = svm.solve(svm.label_problem(x, tokens.y), norm=rho).value
    own = svm.solve(svm.attention_problem(tokens.X, tokens.z, taken), norm=rho).value
    of_v, of_W = geometry.cosine(model.head.v, labels, 1), geometry.cosine(model.W, own, 1)
    long = [torch.linalg.vector_norm(one.flatten(1), ord=rho, dim=1) for one in (model.head.v, model.W)]
    parts = zip(seeds, *(one.split(20) for one in (of_v, of_W, long[0] / long[1])), strict=True)
    return {
        seed: ((float(of_v.median()), float(of_W.sort().values[4])), float(ratio.median()))
        for seed, of_v, of_W, ratio in parts
    }


JOINTLY = {(6, 8, 10): (7, 12), (4, 5, 7): (8,)}  # seeds in one batch


@pytest.mark.parametrize(("shape", "seed"), [((6, 8, 10), 7), ((6, 8, 10), 12), ((4, 5, 7), 8)])
def test_how_long_the_head_is_beside_W_says_whether_W_reaches_its_svm(shape, seed):
    """With v's steps a tenth as long at 1.1 W is near its Att-SVM; with ten times as long at 2 it is less."""
    (of_v, of_W), ratio = _joint(shape, JOINTLY[shape], 1.1, 1, 960)[seed]
    assert of_v > 0.95
    assert of_W < 0.85
    assert ratio > 100
    (of_v, of_W), ratio = _joint(shape, JOINTLY[shape], 1.1, 10, 2880)[seed]
    assert of_v > 0.98
    assert of_W > 0.97
    assert ratio < 0.001
    (_, of_W), ratio = _joint(shape, JOINTLY[shape], 2.0, 1, 960)[seed]
    assert of_W > 0.97
    assert 0.9 < ratio < 1.5
    (_, less), ratio = _joint(shape, JOINTLY[shape], 2.0, 0.1, 960)[seed]
    assert less < 0.93
    assert ratio > 10


@pytest.mark.parametrize(("rho", "steps"), [(1.1, 10_000), (2.5, 5000), (3.0, 5000)])
def test_with_growing_steps_the_divergence_falls_with_the_foreseen_power(rho, steps):
    tokens = data.random_tokens(4, 5, 7, trials=20, seed=157)
    how = {
        "record": {"W": lambda model: model.W},
        "every": [3 * steps // 10, steps],
        "schedule": train.growing,
    }
    model, history = descended(tokens, rho, steps, eta=0.1 if rho < 2 else 1.0, **how)
    own = solution(tokens, kept(tokens, model), rho)
    falls = torch.stack([geometry.bregman(W, own, rho) for W in history["W"][1:]]).log().diff(dim=0)[0]
    assert abs(falls.median() / math.log(10 / 3) + 2 * min(1, 1.5 / (rho - 1))) < 0.1


def _power(shape, seed, rho, c, eta, steps):
    """The median power of D between 30% and all of the steps of eta j^c, from 0."""
    tokens = data.random_tokens(*shape, trials=20, seed=seed)
    how = {"record": {"W": lambda model: model.W}, "every": [3 * steps // 10, steps]}
    model, history = descended(tokens, rho, steps, eta=eta, schedule=lambda j: float(j + 1) ** c, **how)
    own = solution(tokens, kept(tokens, model), rho)
    falls = torch.stack([geometry.bregman(W, own, rho) for W in history["W"][1:]]).log().diff(dim=0)[0]
    return float(falls.nanmedian()) / math.log(10 / 3)


@pytest.mark.parametrize(("shape", "seed"), [((6, 8, 10), 32), ((6, 8, 10), 33), ((4, 6, 14), 34)])
def test_how_far_a_step_moves_a_lead_says_which_error_is_left(shape, seed):
    """At 1.5 runs with equal eta^2 j are at one stage; at 2 and 3, with growing steps, as the lesson says."""
    alike = [_power(shape, seed, 1.5, 0, eta, steps) for eta, steps in ((1, 500), (2, 125))]
    assert abs(alike[0] - alike[1]) < 0.05
    assert -1.75 < alike[0] < -1.45
    assert abs(_power(shape, seed, 1.5, 0, 10, 500) + 2) < 0.15
    assert abs(_power(shape, seed, 2.0, 0.5, 0.1, 500) + 2.95) < 0.15
    assert abs(_power(shape, seed, 2.0, 0.5, 100, 500) + 2) < 0.2
    assert abs(_power(shape, seed, 3.0, 0.5, 10, 500) + 1.5) < 0.15


def test_the_seven_that_are_lost_mostly_start_too_near():
    """Of the lesson's 345 pairs: trial, choice of, in norm; held from lead 100, or with steps of 0.001."""
    pairs = [(39, 1.1, 3.0), (61, 1.1, 2.0), (61, 1.1, 3.0), (69, 1.1, 3.0), (71, 1.1, 2.0)]
    pairs += [(111, 3.0, 2.0), (121, 1.1, 2.0)]
    seeds = (4710942582121664895, 3120551981784381432)
    many = [data.random_tokens(6, 8, 10, trials=100, seed=seed) for seed in seeds]
    held, far_off = {(10, 0.1): 0, (10, 0.001): 0, (100, 0.1): 0}, {}

    def pick(trials):
        parts = ([getattr(many[k // 100], name)[k % 100] for k in trials] for name in ("X", "z", "y", "v"))
        return data.TokenData(*map(torch.stack, parts))

    for of in (1.1, 3.0):
        trials = sorted({trial for trial, one, _ in pairs if one == of})
        model, _ = descended(pick(trials), of, STEPS, eta=ETA[of], schedule=train.growing)
        choice = kept(pick(trials), model)
        lead = geometry.margins(model.logits(pick(trials)), choice).amin((-2, -1))[:, None, None]
        far_off |= {(k, of): end for k, *end in zip(trials, model.W / lead, choice, strict=True)}
    for rho in (2.0, 3.0):
        some = [(trial, of) for trial, of, by in pairs if by == rho]
        tokens = pick([trial for trial, _ in some])
        W, choice = map(torch.stack, zip(*(far_off[one] for one in some), strict=True))
        for far, eta in held:
            after, _ = descended(tokens, rho, STEPS, far * W, eta=eta, schedule=train.growing)
            held[far, eta] += int((kept(tokens, after) == choice).all(-1).sum())
    assert held == {(10, 0.1): 0, (10, 0.001): 2, (100, 0.1): 6}


def _toy(keys, scores, p, rhos, eta, steps, growth=lambda j: 1.0):
    """The attention (runs, T) of one sequence after mirror descent on p (runs, d), an exponent for each.

    The slope is taken up to a factor, as if nothing underflowed.
    """
    rho = np.array(rhos)[:, None]
    for j in range(1, steps + 1):
        h = p @ keys.T
        ahead = scores[h.argmax(-1)][:, None] - scores
        others = h - np.where(ahead == 0, -np.inf, h).max(-1, keepdims=True)
        part = np.where(ahead == 0, 0, np.exp(np.minimum(others, 0)) * ahead)
        s = np.exp(h - h.max(-1, keepdims=True))
        slope = s / s.sum(-1, keepdims=True) * part.sum(-1, keepdims=True) - part
        p = _mirrored(p, slope @ keys, eta * growth(j), rho)
    s = np.exp(p @ keys.T - (p @ keys.T).max(-1, keepdims=True))
    return s / s.sum(-1, keepdims=True)


@pytest.mark.parametrize("finer", [0.1, 1, 10])
def test_two_norms_part_on_the_way_in_a_toy(finer):
    """Both k_1 and k_2 are locally optimal in each norm; the first mirror image decides, but for 1.45."""
    keys = torch.tensor([[[0.5, 2], [1, -1], [0, 0]]], dtype=torch.float64)
    toy = dataclasses.replace(data.toy_one_sequence((0.95, 1.0, 0.0)), keys=keys)
    rhos, steps = (1.1, 1.3, 1.45, 1.5, 1.6, 2.0, 3.0), round(600 * max(finer, 1))
    for rho in rhos:
        for token in (0, 1):
            limit = svm.solve(svm.token_problem(keys, torch.tensor([token])), norm=rho).value
            logits = (keys @ limit[:, None])[..., 0]
            assert geometry.locally_optimal(toy.scores, logits, torch.tensor([token]))
    on = _toy(keys[0].numpy(), toy.scores[0].numpy(), np.zeros((7, 2)), rhos, 0.01 / finer, steps)
    ends = dict(zip(rhos, on.argmax(-1) + 1, strict=True))
    assert ends == {1.1: 2, 1.3: 2, 1.45: 2, 1.5: 1, 1.6: 1, 2.0: 1, 3.0: 1}


def test_in_small_moves_of_the_toy_the_norms_still_part():
    toy = data.toy_one_sequence((0.95, 1.0, 0.0))
    keys = torch.tensor([[0.5, 2], [1, -1], [0, 0]], dtype=torch.float64)
    noise = torch.randn(100, 1, 3, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    many = data.TokenData(
        *(one.expand(100, *one.shape) for one in (toy.X, toy.z, toy.y, toy.v)), keys=keys + 0.02 * noise
    )
    ends = []
    for rho in (1.1, 2.0, 3.0):
        model = models.PromptAttention(2, trials=100)
        optimizer = optim.MirrorDescent(model.parameters(), 0.01, rho, batch_dims=1)
        train.fit(model, many, optimizer, 600, every=600, progress=False)
        ends.append(geometry.selected_tokens(model.attention(many))[:, 0])
    assert (ends[0] == 1).sum() >= 95
    assert (ends[1] == 0).sum() >= 95
    assert (ends[2] == 0).sum() >= 95


@pytest.mark.parametrize("size", [(4, 6, 6, 150), (6, 16, 10, 60)])
def test_most_differences_could_have_been_held_by_both_norms_at_other_sizes(size):
    *shape, trials = size
    tokens = data.random_tokens(*shape, trials=trials, seed=41)
    ends = {
        rho: kept(tokens, descended(tokens, rho, STEPS, eta=eta, schedule=train.growing)[0])
        for rho, eta in ETA.items()
    }

    def fine(choice, rho):
        logits = tokens.compare(tokens.z @ solution(tokens, choice, rho).mT)
        return geometry.locally_optimal(tokens.scores, logits, choice, tol=1e-3)

    for rho in (1.1, 3.0):
        differ = (ends[rho] != ends[2.0]).any(-1)
        each = [fine(ends[choice], norm) for choice in (rho, 2.0) for norm in (rho, 2.0)]
        assert differ.sum() >= 5
        assert (differ & torch.stack(each).all(0)).sum() > 0.45 * differ.sum()


def test_at_1_5_the_power_is_not_reached_in_15_000_steps():
    tokens = data.random_tokens(6, 8, 10, trials=6, seed=77)
    how = {"record": {"W": lambda model: model.W}, "every": [4500, 15_000]}
    model, history = descended(tokens, 1.5, 15_000, start(6, 10, 78), **how)
    own = solution(tokens, kept(tokens, model), 1.5)
    falls = torch.stack([geometry.bregman(W, own, 1.5) for W in history["W"][1:]]).log().diff(dim=0)[0]
    assert abs(falls.median() / math.log(15 / 4.5) + 1.4) < 0.1


def test_a_locally_optimal_choice_is_lost_from_a_start_outside_the_cone():
    keys = torch.tensor([[[0, 0], [-1, -2.7], [-2, -1]]]).double()
    scores, rhos = np.array([0.9, 1.0, 0.0]), np.repeat((2.25, 2.4, 4.0), 6)
    starts = np.array([[30, 30], [30, 60], [30, 12], [29, 13], [33, 11], [30, 18]])
    for eta, steps in ((1.0, 2000), (0.3, 4000)):
        on = _toy(keys[0].numpy(), scores, np.tile(starts, (3, 1)), rhos, eta, steps, train.growing)[:, 0]
        for rho, ends in zip((2.25, 2.4, 4.0), on.reshape(3, 6), strict=True):
            np.testing.assert_allclose(ends, [rho > 2.31] * 2 + [0] * 3 + [rho > 3], atol=0.01)


def _published(trials, seed):
    """The paper's figure, from one W_0 for the three runs and from three, in one batch: the W of the run with
    3; the SVMs of 1.75 and 2 of its own tokens, and of theirs; and whether these are the same. With 3 half of
    the published steps say the same."""
    tokens, ends = data.random_tokens(6, 8, 10, trials=trials, seed=seed), []
    parts = (tokens.X, tokens.X[..., 0, :], tokens.y, tokens.v)
    tokens = data.TokenData(*(torch.cat([one, one]) for one in parts))
    for k, (rho, steps) in enumerate(PUBLISHED.items()):
        W_0 = torch.cat([start(trials, 10, seed + 1), start(trials, 10, seed + 1 + k)])
        ends.append(descended(tokens, rho, min(steps, 10_000), W_0)[0])
    *theirs, own = (kept(tokens, model) for model in ends)
    found = {"alike": [(one == own).all(-1).double() for one in theirs]}
    found["own"] = [solution(tokens, own, rho) for rho in (1.75, 2.0)]
    found["theirs"] = [solution(tokens, *one) for one in zip(theirs, (1.75, 2.0), strict=True)]
    return ends[2].W, found


@pytest.mark.parametrize("seed", [101, 202])
def test_mixed_tokens_and_other_starts_each_add_to_the_published_divergences(seed):
    W, found = _published(20, seed)
    for name in ("own", "theirs"):
        found[name] = [geometry.bregman(W, limit, 3.0) for limit in found[name]]
    halves = {name: torch.stack(one).unflatten(1, (2, 20)).mean(2).mT.numpy() for name, one in found.items()}
    mean = {starts: {name: halves[name][k] for name in halves} for k, starts in enumerate(("one", "three"))}
    for one in mean.values():
        np.testing.assert_allclose(one["own"], (0.09, 0.05), atol=0.012)
    assert (mean["one"]["own"] + 0.01 < mean["one"]["theirs"]).all()
    assert (mean["one"]["theirs"] < mean["three"]["theirs"]).all()
    assert mean["one"]["alike"][1] > mean["three"]["alike"][1]


@pytest.mark.slow
@pytest.mark.parametrize(("eta", "counts"), [(0.001, (93, 54, 18, 14, 3)), (0.1, (100, 39, 20, 28, 13))])
def test_with_equal_steps_two_norms_differ_about_as_often(eta, counts):
    """The lesson's 200 data sets: how many differ; each holds; only 2, only 1.1, both lose it."""
    found = np.zeros(5, int)
    for seed in (4710942582121664895, 3120551981784381432):  # of the two batches of 15.selection
        tokens = data.random_tokens(6, 8, 10, trials=100, seed=seed)

        def run(rho, W_0=None, tokens=tokens):
            return descended(tokens, rho, STEPS, W_0, eta=eta, schedule=train.growing)[0]

        ends = {rho: run(rho) for rho in (1.1, 2.0)}
        chosen = {rho: kept(tokens, model) for rho, model in ends.items()}
        held, finished = {}, []
        for of, by in ((1.1, 2.0), (2.0, 1.1)):
            lead = geometry.margins(ends[of].logits(tokens), chosen[of]).amin((-2, -1))[:, None, None]
            held[by] = (kept(tokens, run(by, 10 * ends[of].W / lead)) == chosen[of]).all(-1).numpy()
            logits = tokens.compare(tokens.z @ solution(tokens, chosen[of], of).mT)
            finished.append(geometry.locally_optimal(tokens.scores, logits, chosen[of], tol=1e-3).numpy())
        differ = (chosen[1.1] != chosen[2.0]).any(-1).numpy()
        kinds = (~held[2.0] + 2 * ~held[1.1])[differ & finished[0] & finished[1]]
        found += [differ.sum(), *np.bincount(kinds, minlength=4)]
    np.testing.assert_allclose(found, counts, atol=2)  # rounding moves a few runs


@pytest.mark.slow
def test_in_the_other_order_the_same_reading_is_consistent_with_the_paper():
    """D(SVM, W) of the run with 3, on 50 data sets, from the SVMs of 1.75 and 2."""
    (W, found), mean = _published(50, 303), {}
    for whose in ("own", "theirs"):
        apart = torch.stack([geometry.bregman(limit, W, 3.0) for limit in found[whose]])
        for k, starts in enumerate(("one", "three")):
            mean[starts, whose] = apart.unflatten(1, (2, 50))[:, k].mean(1).tolist()
    np.testing.assert_allclose(mean["three", "theirs"], (0.21, 0.18), atol=0.05)
    for reading in (("one", "own"), ("one", "theirs"), ("three", "own")):
        assert mean[reading][0] < 0.18
        assert mean[reading][1] < 0.13
