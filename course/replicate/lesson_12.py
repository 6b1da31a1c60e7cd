"""Lesson 12: which runs end at the best tokens, over sizes and numbers of sequences.

python -m course replicate --fresh 12.shares 12.wide 12.narrow 12.rivals
12.dimensions_p 12.dimensions_W
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from course.replicate.stored import Measured
from mini_attn import data, geometry, losses, models, optim, svm, train

UNDECIDED, LOCAL, GLOBAL = 0, 1, 2


def attend(kind: str, d: int, trials: int, seed: int = 0, init=None):
    """A model that starts from zero or `init`; (K, Q) from N(0, 0.1^2) entries: zero is stationary."""
    if kind == "KQ":
        return models.FactoredAttention(d, d, trials, scale=0.1, seed=seed)
    return {"p": models.PromptAttention, "W": models.CrossAttention}[kind](d, trials, init=init)


def descend(model, tokens, steps: int, lr: float = 0.1, schedule=train.growing):
    """Normalised descent, each trial with a norm of its own; the attention at the end, (trials, n, T)."""
    optimizer = optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1)
    train.fit(model, tokens, optimizer, steps, progress=False, schedule=schedule)
    return model.attention(tokens).detach()


def words(attention, tokens):
    """UNDECIDED, LOCAL or GLOBAL for each trial."""
    found = geometry.outcome(attention, tokens)
    return torch.as_tensor((found == "local") * LOCAL + (found == "global") * GLOBAL)


def problem(kind: str, keys, z, selected):
    """The Att-SVM of a choice, for p or for W (which (K, Q) shares)."""
    if kind == "p":
        return svm.token_problem(keys, selected)
    return svm.attention_problem(keys, z, selected)


def possible(kind: str, tokens):
    """Whether the best tokens of all sequences can be selected together, (trials,)."""
    solution = svm.solve(problem(kind, tokens.keys, tokens.z, tokens.optimal), throw=False)
    return torch.as_tensor(solution.status == "optimal")


def first_leads(kind: str, tokens):
    """The smallest lead of each sequence's best token in the direction of -grad L(0), (trials, n)."""
    model = attend(kind, tokens.keys.shape[-1], len(tokens.keys))
    slope = losses.logistic(tokens.y * model(tokens)).sum() / tokens.y.shape[-1]
    slope.backward()
    for weight in model.parameters():
        weight.data = -weight.grad
    logits = model.logits(tokens).detach()
    return geometry.margins(logits, tokens.optimal).amin(dim=-1)


def compressed(tokens):
    """The same problem in at most n T coordinates: an orthonormal basis of the keys, and one of the queries.

    Logits of p and W and their gradients depend on the inner products of keys and of queries alone.
    """
    n, T, d = tokens.keys.shape[-3:]
    if d <= n * T:
        return tokens
    keys = torch.linalg.qr(tokens.keys.flatten(-3, -2).mT).R.mT.unflatten(-2, (n, T))
    z = torch.linalg.qr(tokens.z.mT).R.mT
    z = torch.nn.functional.pad(z, (0, n * T - z.shape[-1]))
    X, v = torch.zeros_like(keys), torch.zeros_like(z[..., 0, :])
    X[..., 0], v[..., 0] = tokens.scores, 1
    return data.TokenData(X=X, z=z, y=torch.ones_like(tokens.y), v=v, keys=keys)


def wrong_winners(kind: str, tokens):
    """How many choices are locally optimal and not global, and how many have only tight rows."""
    n, T = tokens.scores.shape[-2:]
    choice = torch.cartesian_prod(*[torch.arange(T)] * n)  # (T^n, n)
    alpha = choice.expand(len(tokens.keys), *choice.shape)
    keys = tokens.keys[:, None].expand(*alpha.shape, *tokens.keys.shape[-2:])
    z = tokens.z[:, None].expand(*alpha.shape, -1)
    solution = svm.solve(problem(kind, keys, z, alpha), throw=False)
    w = solution.value[..., None, :].expand_as(z) if kind == "p" else z @ solution.value.mT
    logits = (keys @ w[..., None])[..., 0]
    feasible = torch.as_tensor(solution.status == "optimal")
    local = geometry.locally_optimal(tokens.scores[:, None].expand_as(logits), logits, alpha) & feasible
    best = (alpha == tokens.optimal[:, None]).all(dim=-1)
    tight = geometry.support_tokens(logits, alpha).sum(dim=(-2, -1)) == n * (T - 1)
    return (local & ~best).sum(dim=1), (tight & feasible).sum(dim=1)


def shares(kind, n, T, d, *, trials, seed):
    """The run, and whether the best tokens can be selected and the first gradient favours them."""
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    code = words(descend(attend(kind, d, trials, seed), tokens, steps=600), tokens)
    favoured = (first_leads("W" if kind == "KQ" else kind, tokens) > 0).all(dim=-1)
    return {
        "global_": code == GLOBAL,
        "local": code == LOCAL,
        "possible": possible(kind, tokens),
        "favoured": favoured,
    }


def wide(kind, d, *, trials, seed):
    """n = 3, T = 4: the run, the first gradient, and all 64 choices."""
    tokens = compressed(data.random_tokens(3, 4, d, trials=trials, seed=seed))
    code = words(descend(attend(kind, tokens.keys.shape[-1], trials), tokens, steps=600), tokens)
    wrong, tight = wrong_winners(kind, tokens)
    favoured = (first_leads(kind, tokens) > 0).all(dim=-1)
    return {
        "code": code,
        "wrong": wrong,
        "tight": tight,
        "favoured": favoured,
        "possible": possible(kind, tokens),
    }


RIVALS = ((4, 3), (2, 6), (3, 4))  # n, T: 81, 36 and 64 choices


def rivals(kind, size, d, *, trials, seed):
    """As `wide`, at other sizes too: the run, its rivals, and whether the best choice is possible."""
    tokens = compressed(data.random_tokens(*RIVALS[size], d, trials=trials, seed=seed))
    code = words(descend(attend(kind, tokens.keys.shape[-1], trials), tokens, steps=600), tokens)
    return {"code": code, "wrong": wrong_winners(kind, tokens)[0], "possible": possible(kind, tokens)}


def gaussian(n, T, d, trials, seed):
    """Gaussian tokens (trials, n, T, d) and queries (trials, n, d)."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(trials, n, T, d, generator=generator, dtype=torch.float64)
    return X, torch.randn(trials, n, d, generator=generator, dtype=torch.float64)


def every_choice(kind: str, X, z):
    """Whether all T^n choices of tokens (n, T, d) and queries (n, d) can be selected, (trials,)."""
    n, T = X.shape[1:3]
    choice = torch.cartesian_prod(*[torch.arange(T)] * n).reshape(-1, n)
    alpha = choice.expand(len(X), *choice.shape)
    keys, queries = (of[:, None].expand(*alpha.shape[:2], *of.shape[1:]) for of in (X, z))
    return (svm.solve(problem(kind, keys, queries, alpha), throw=False).status == "optimal").all(axis=1)


def feasible_share(kind: str, n, T, d, trials=600):
    """The share of random choices of Gaussian tokens that can be selected."""
    X, z = gaussian(n, T, d, trials, seed=d)
    first = torch.zeros(trials, n, dtype=torch.int64)  # the chosen tokens: all tokens are drawn alike
    return (svm.solve(problem(kind, X, z, first), throw=False).status == "optimal").mean()


def ends(kind: str, tokens, away=0.0, steps=600, **how):
    """How runs end that start `away` from zero, each in a direction of its own; (K, Q) from random entries,
    all of them together of a length near `away`, if it is not zero."""
    trials, d = len(tokens.keys), tokens.keys.shape[-1]
    if kind == "KQ" and away:
        model = models.FactoredAttention(d, d, trials, scale=away / (2**0.5 * d), seed=3)
        return words(descend(model, tokens, steps, **how), tokens)
    generator = torch.Generator().manual_seed(6)
    start = torch.randn(trials, *((d, d) if kind == "W" else (d,)), generator=generator).double()
    start = start / torch.linalg.vector_norm(start.flatten(1), dim=1).reshape(-1, *[1] * (start.ndim - 1))
    return words(descend(attend(kind, d, trials, init=away * start), tokens, steps, **how), tokens)


def equal_others(tokens):
    """The same tokens, but in each sequence all scores save the best are set to their mean."""
    scores, best = tokens.scores, tokens.optimal[..., None]
    top = scores.gather(-1, best)
    rest = (scores.sum(dim=-1, keepdim=True) - top) / (scores.shape[-1] - 1)
    X, v = torch.zeros_like(tokens.keys), torch.zeros_like(tokens.z[..., 0, :])
    X[..., 0], v[..., 0] = rest.expand_as(scores).scatter(-1, best, top), 1
    return data.TokenData(X=X, z=tokens.z, y=torch.ones_like(tokens.y), v=v, keys=tokens.keys)


def tried(kind: str, *sweeps):
    """How the runs of sweeps that tried all choices ended, and their rivals, -1 if the best is impossible."""
    of_kind = [one.sel(kind=kind) for one in sweeps]
    rivals = [np.where(one.possible == 1, one.wrong, -1).ravel() for one in of_kind]
    return np.concatenate([one.code.values.ravel() for one in of_kind]), np.concatenate(rivals)


def grown(direction, d=8, far=1e-4):
    """How many u_i of d sequences of six tokens grow from a random W to W + far V, V = direction(v, z, y)."""
    tokens = data.random_tokens(d, 6, d, trials=1, seed=0)
    V = torch.as_tensor(direction(tokens.v[0].numpy(), tokens.z[0].numpy(), tokens.y[0].numpy()))
    W = 3 * torch.randn(1, d, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    here, there = (tokens.y * attend("W", d, 1, init=one)(tokens) for one in (W, W + far * V))
    return (there > here).sum().item()


def drawn_choice(kind: str, tokens, seed: int, heads: int):
    """One choice of each data set, drawn without a look at the scores.

    Returns:
        Whether it is possible (trials,), its support tokens (trials, n), and the chance that it is locally
        optimal (trials,): over all labels and some new heads, which leave the Att-SVM as it is.
    """
    trials, n, T, d = tokens.keys.shape
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(T, (trials, n), generator=generator)
    v = torch.randn(trials, 1, d, heads, generator=generator, dtype=torch.float64)
    solution = svm.solve(problem(kind, tokens.keys, tokens.z, chosen), throw=False)
    can = torch.as_tensor(solution.status == "optimal")
    w = solution.value[:, None].expand_as(tokens.z) if kind == "p" else tokens.z @ solution.value.mT
    support = geometry.support_tokens((tokens.keys @ w[..., None])[..., 0], chosen) & can[:, None, None]
    scores = tokens.keys @ v  # (trials, n, T, heads), for the label 1
    over = scores.gather(2, chosen[..., None, None].expand(-1, -1, 1, heads)) - scores
    won = [((sign * over > 0) | ~support[..., None]).all(dim=2).double() for sign in (1, -1)]
    return can, support.sum(dim=-1), (won[0] + won[1]).div(2).prod(dim=1).mean(dim=-1) * can


def with_queries(tokens, common=None):
    """The same tokens, heads and labels with other unit queries: made orthonormal, or drawn together by
    `common` times a unit vector of each data set's own."""
    if common is None:
        return dataclasses.replace(tokens, z=torch.linalg.qr(tokens.z.mT).Q.mT)
    generator = torch.Generator().manual_seed(1)
    shared = torch.randn(tokens.z[:, :1].shape, generator=generator, dtype=torch.float64)
    z = tokens.z + common * torch.nn.functional.normalize(shared, dim=-1)
    return dataclasses.replace(tokens, z=torch.nn.functional.normalize(z, dim=-1))


def mean_number(kind: str, tokens, draws: int, seed: int = 0, heads: int = 64):
    """The share of drawn choices that are possible, the mean number of locally optimal choices over the data
    sets, and its standard error; `draws` choices of each data set."""
    n, T = tokens.scores.shape[-2:]
    drawn = [drawn_choice(kind, tokens, seed + draw, heads) for draw in range(draws)]
    can, chance = (torch.stack([each[of] for each in drawn]).double() for of in (0, 2))
    number = T**n * chance.mean(dim=0)
    return can.mean().item(), number.mean().item(), number.std().item() / len(number) ** 0.5


def number_if_split(n: int, T: int, d: int, trials=4000, seed=38):
    """N_1^n: n sequences with orthonormal queries, from one sequence, for which p and W have one problem."""
    one = compressed(data.random_tokens(1, T, d, trials=trials, seed=seed))
    return mean_number("p", one, draws=1, seed=seed + 100)[1] ** n


def support_angles(kind: str, tokens, seed: int, heads: int):
    """The choices of `drawn_choice`, and how the support tokens of each sequence lie round the chosen one.

    Returns:
        Of each sequence (trials, n): its support tokens; the mean angle at the chosen token between two of
        them, in degrees (nan if it has fewer); and the chance to score higher than all of them, over both
        labels and some new heads.
    """
    trials, n, T, d = tokens.keys.shape
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(T, (trials, n), generator=generator)
    v = torch.randn(trials, 1, d, heads, generator=generator, dtype=torch.float64)
    solution = svm.solve(problem(kind, tokens.keys, tokens.z, chosen), throw=False)
    can = torch.as_tensor(solution.status == "optimal")
    w = solution.value[:, None].expand_as(tokens.z) if kind == "p" else tokens.z @ solution.value.mT
    support = geometry.support_tokens((tokens.keys @ w[..., None])[..., 0], chosen) & can[:, None, None]
    rows = tokens.keys.take_along_dim(chosen[..., None, None], dim=2) - tokens.keys
    over = rows @ v  # (trials, n, T, heads), for the label 1
    won = [(side | ~support[..., None]).all(dim=2).double() for side in (over > 0, over < 0)]
    unit = torch.nn.functional.normalize(rows, dim=-1)
    pairs = (support[..., None] & support[..., None, :]).triu(1)  # (trials, n, T, T)
    angles = (unit @ unit.mT).clamp(-1, 1).arccos().rad2deg() * pairs
    mean_angle = angles.sum(dim=(-2, -1)) / pairs.sum(dim=(-2, -1))
    return support.sum(dim=-1), mean_angle, (won[0] + won[1]).div(2).mean(dim=-1)


def dimensions(kind, n, T, d, *, trials, seed):
    """The run, whether the best choice is possible, and some drawn choices of each data set."""
    number = max(4, 128 // (d if kind == "p" else d * d))  # with few dimensions few are possible
    tokens = compressed(data.random_tokens(n, T, d, trials=trials, seed=seed))
    code = words(descend(attend(kind, tokens.keys.shape[-1], trials), tokens, steps=600), tokens)
    draws = [drawn_choice(kind, tokens, seed + draw, heads=2048 // number) for draw in range(number)]
    can, support, chance = (torch.stack(each).double() for each in zip(*draws, strict=True))
    return {
        "code": code.to(torch.int8),
        "possible": possible(kind, tokens),
        "random_possible": can.mean(dim=0).float(),
        "support": (support.sum(dim=-1) * can).mean(dim=0).float(),  # of impossible ones none
        "locally_optimal": chance.mean(dim=0).float(),
    }


def by_dimension(stored):
    """Of a stored `dimensions`, for each d: d, the mean number of locally optimal choices over all data sets
    and its standard error, how many runs have a possible best choice, and how many of these are global."""
    rows, choices = [], stored["T"].item() ** stored.n.item()
    for d in stored.d.values:
        here = stored.sel(d=d)
        number, error = float(here.locally_optimal.mean()), float(here.locally_optimal.std())
        error /= len(here.trial) ** 0.5
        can = here.possible == 1
        won = int((can & (here.code == GLOBAL)).sum())
        rows.append((int(d), choices * number, choices * error, int(can.sum()), won))
    return rows


MEASURED = [
    Measured(
        id="12.shares",
        what="Which runs end at the best tokens: p, W and (K, Q) on the same data, over n, T and d.",
        trial=shares,
        grid={"kind": ["p", "W", "KQ"], "n": [2, 4, 8], "T": [3, 6], "d": [2, 3, 4, 6, 8, 12, 16, 24]},
        trials=500,
        batch=100,
        paired=("kind",),
        minutes=8,
    ),
    Measured(
        id="12.wide",
        what="All 64 choices of n = 3, T = 4 as d grows to 512, beside the run.",
        trial=wide,
        grid={"kind": ["p", "W"], "d": [4, 8, 16, 32, 64, 128, 256, 512]},
        trials=500,
        batch=100,
        paired=("kind",),
        minutes=2,
    ),
    Measured(
        id="12.narrow",
        what="The same in two and three dimensions.",
        trial=wide,
        grid={"kind": ["p", "W"], "d": [2, 3]},
        trials=500,
        batch=100,
        paired=("kind",),
        minutes=0.5,
    ),
    Measured(
        id="12.rivals",
        what="The same runs and their rivals at n, T = 4, 3 and 2, 6.",
        trial=rivals,
        grid={"kind": ["p", "W"], "size": [0, 1], "d": [4, 8, 16, 32, 64]},
        trials=500,
        batch=100,
        paired=("kind",),
        minutes=2,
    ),
    Measured(
        id="12.dimensions_p",
        what="p, eight sequences of six tokens: runs, and choices possible and locally optimal, as d grows.",
        trial=dimensions,
        grid={"kind": ["p"], "n": [8], "T": [6], "d": [4, 6, 8, 10, 12, 16, 24, 64, 256, 1024]},
        trials=2000,
        batch=500,
        minutes=3.5,
    ),
    Measured(
        id="12.dimensions_W",
        what="W, eight sequences of six tokens: runs, and choices possible and locally optimal, as d grows.",
        trial=dimensions,
        grid={"kind": ["W"], "n": [8], "T": [6], "d": [2, 3, 4, 8, 24, 64, 256]},
        trials=2000,
        batch=500,
        minutes=2.5,
    ),
]
