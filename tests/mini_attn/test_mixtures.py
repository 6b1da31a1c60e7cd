"""Best mixtures, what a path keeps, and paths whose two parts are solved apart."""

import pytest
import torch

from mini_attn import data, heads, mixtures, models, newton, svm


def problem(d=6, trials=8, activation="gelu", scale=4.0, seed=0):
    return data.random_tokens(3, 4, d, trials=trials, seed=seed), heads.MLPHead(
        d, d, trials, activation, scale, seed=seed
    )


def output(head, drawn, s):
    return drawn.y * head(drawn.mix(s)[..., None, :]).squeeze(-1)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["gelu", "tanh"])
def test_no_random_mixture_is_better(activation):
    drawn, head = problem(activation=activation)
    s = mixtures.best_mixture(head, drawn)
    torch.testing.assert_close(s.sum(-1), torch.ones(8, 3, dtype=torch.float64))
    assert (s >= 0).all()
    generator = torch.Generator().manual_seed(1)
    random = torch.rand(3000, 8, 3, 4, generator=generator, dtype=torch.float64).log().neg() ** 2
    random = random / random.sum(-1, keepdim=True)
    assert (output(head, drawn, random) <= output(head, drawn, s) + 1e-9).all()
    assert (s == 0).any()


def test_a_convex_head_wants_tokens_or_a_certified_mixture():
    drawn, head = problem(scale=2.0)  # |2 V x| < sqrt(2): gelu is convex there
    s = mixtures.best_mixture(head, drawn)
    plus = drawn.y > 0
    assert ((s > 0).sum(-1)[plus] == 1).all()
    assert ((s > 0).sum(-1)[~plus] > 1).any()
    cost = mixtures.costs(head, drawn, s)
    assert cost[(s > 0)].abs().max() < 1e-9
    assert cost[~plus].min() > -1e-9  # by concavity no mixture is better
    torch.testing.assert_close(mixtures.on_face(head, drawn, s), s)


def test_costs_are_the_loss_lost_to_a_little_weight():
    drawn, head = problem(activation="tanh")
    s = torch.full((8, 3, 4), 0.25, dtype=torch.float64)
    eps, expected = 1e-6, []
    for t in range(4):
        more = (1 - eps) * s + eps * torch.eye(4).double()[t]
        loss = [torch.nn.functional.softplus(-output(head, drawn, one)) for one in (more, s)]
        expected.append((loss[0] - loss[1]) / eps)
    torch.testing.assert_close(
        mixtures.costs(head, drawn, s), torch.stack(expected, -1), atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize("seed", range(3))
def test_rates_of_the_limit_are_read_whatever_is_kept(seed):
    drawn, _ = problem(trials=20, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(20, 3, 4, generator=generator) < 0.4
    kept[..., 0] |= ~kept.any(-1)
    kept[:, 0, 1:] = False  # something is dropped
    kept[:, 0, 0] = True
    W = svm.solve(svm.mixture_problem(drawn.X, drawn.z, kept))
    h = torch.einsum("bntd,bde,bne->bnt", drawn.X, W.value, drawn.z) / W.objective[:, None, None]
    rates = h.amax(-1, keepdim=True) - h
    noise = 0.02 * torch.rand(rates.shape, generator=generator, dtype=torch.float64)
    rates = (rates + noise / W.objective[:, None, None]) * (rates > 0)
    found, solution = mixtures.kept_tokens(drawn.X, drawn.z, rates)
    assert torch.equal(found, kept)
    torch.testing.assert_close(solution.value, W.value, atol=1e-6, rtol=1e-6)


def test_both_paths_agree_where_both_carry_and_the_far_one_goes_on():
    drawn, head = problem(trials=12, seed=3)
    radii = [0.5, 1, 2, *(4 * 2 ** (k / 4) for k in range(13))]
    path = newton.newton_path(models.CrossAttention(6, trials=12, head=head), drawn, radii)
    here = path.residual[-1] <= 1e-6
    h = torch.einsum("brd,bde,bre->br", drawn.X.flatten(1, 2), path["W"][-1], drawn.z.repeat_interleave(4, 1))
    h, old = h.unflatten(-1, (3, 4)), path["W"][-2]
    before = torch.einsum("bntd,bde,bne->bnt", drawn.X, old, drawn.z)
    winner = h.argmax(-1, keepdim=True)
    rates = (h.gather(-1, winner) - h - before.gather(-1, winner) + before) / (radii[-1] - radii[-2])
    kept, solution = mixtures.kept_tokens(drawn.X, drawn.z, rates)
    s = torch.softmax(h, -1) * kept
    s = mixtures.on_face(head, drawn, s / s.sum(-1, keepdim=True))
    far = mixtures.mixture_path(head, drawn, s, [32.0, 200.0, 2000.0])
    assert here.sum() > 6
    assert (far.residual < 1e-6).all()
    apart = (far["W"][0] - path["W"][-1]).norm(dim=(-1, -2))[here]
    assert apart.median() < 1e-2
    limit = solution.value / solution.objective[:, None, None]
    off = [(W / W.norm(dim=(-1, -2), keepdim=True) - limit).norm(dim=(-1, -2)).median() for W in far["W"]]
    assert off[0] > 5 * off[1] > 25 * off[2]


def test_what_is_no_mixture_is_refused():
    drawn, head = problem()
    with pytest.raises(ValueError, match="no weight below 0, and sum 1"):
        mixtures.mixture_path(head, drawn, torch.ones(8, 3, 4).double(), [1.0])
