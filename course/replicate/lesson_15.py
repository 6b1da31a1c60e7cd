"""Lesson 15 at length: mirror descent on attention, the published setting, selection, and real data."""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from course.replicate import classifier
from course.replicate.stored import Measured
from mini_attn import data, geometry, models, optim, svm, train

RHOS = (1.75, 2.0, 3.0)
PUBLISHED = {1.75: 1500, 2.0: 2000, 3.0: 20_000}  # steps
STAGES = (0.1, 0.3, 1, 3, 10)  # of the published number of steps


def start(trials, d, seed):
    """W_0 with standard normal entries, (trials, d, d)."""
    return torch.randn(trials, d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def descended(tokens, rho, steps, W_0=None, eta=0.1, schedule=None, record=None, every=None):
    """The model after normalised mirror descent in l_rho, and its history."""
    d = tokens.X.shape[-1]
    model = models.CrossAttention(d, trials=tokens.trials[0], init=W_0)
    optimizer = optim.MirrorDescent(model.parameters(), lr=eta, p=rho, batch_dims=1)
    how = {"schedule": schedule, "record": record, "every": every or steps, "progress": False}
    history = train.fit(model, tokens, optimizer, steps, **how)
    return model.requires_grad_(False), history


def solution(tokens, selected, rho) -> Tensor:
    """The l_rho Att-SVM of the selected tokens, certified; NaN in a trial that has none."""
    return svm.solve(svm.attention_problem(tokens.X, tokens.z, selected), norm=rho, throw=False).value


def kept(tokens, model) -> Tensor:
    return geometry.selected_tokens(model.attention(tokens))


def published(query, starts, *, trials, seed):
    """The setting of the paper's figure: three runs against three SVMs.

    Args:
        query: "apart", z_i drawn like a token, or "first", z_i = x_i1 (self-attention).
        starts: "one" W_0 for the three runs of a data set, or "three" different ones.

    Returns:
        own: divergence of run j from the SVM k of the tokens that run j selected; theirs: of those that run
        k selected; alike: whether both runs selected the same. Each (trials, 3, 3).
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    if query == "first":
        tokens = dataclasses.replace(tokens, z=tokens.X[..., 0, :].contiguous())
    runs = []
    for k, rho in enumerate(RHOS):
        W_0 = start(trials, 10, seed + 1 + (k if starts == "three" else 0))
        runs.append(descended(tokens, rho, PUBLISHED[rho], W_0)[0])
    selected = [kept(tokens, model) for model in runs]
    found = {name: np.empty((trials, 3, 3), np.float32) for name in ("own", "theirs", "alike")}
    for k, rho in enumerate(RHOS):
        theirs = solution(tokens, selected[k], rho)
        for j, model in enumerate(runs):
            own = solution(tokens, selected[j], rho)
            found["own"][:, j, k] = geometry.bregman(model.W, own, RHOS[j])
            found["theirs"][:, j, k] = geometry.bregman(model.W, theirs, RHOS[j])
            found["alike"][:, j, k] = (selected[j] == selected[k]).all(-1)
    return found


def longer(rho, *, trials, seed):
    """The published run, ten times as long: divergence from its own SVM and the others' at five stages.

    Returns:
        divergence (trials, 5, 3), from the SVM of the tokens selected at the end; moved (trials, 5): whether
        other tokens were selected then.
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    stages = [int(stage * PUBLISHED[rho]) for stage in STAGES]
    record = {"W": lambda model: model.W}
    model, history = descended(
        tokens, rho, stages[-1], start(trials, 10, seed + 1), record=record, every=stages
    )
    selected, Ws = kept(tokens, model), history["W"][1:]
    limits = [solution(tokens, selected, one) for one in RHOS]
    apart = [[geometry.bregman(W, limit, rho) for limit in limits] for W in Ws]
    then = [tokens.compare(tokens.z @ W.mT).argmax(-1) for W in Ws]
    return {
        "divergence": torch.stack([torch.stack(row, -1) for row in apart], -2).float(),
        "moved": torch.stack([(one != selected).any(-1) for one in then], -1),
    }


def farther(rho, *, trials, seed):
    """Runs of growing steps, on a longer path: how the divergence from their own SVM falls.

    Returns:
        divergence (trials, 2) after 4,000 and 8,000 steps, from the SVM of the tokens selected at the end;
        moved (trials,): whether other tokens were selected after 4,000.
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    how = {"schedule": train.growing, "record": {"W": lambda model: model.W}, "every": [4000, 8000]}
    model, history = descended(tokens, rho, 8000, start(trials, 10, seed + 1), **how)
    selected, Ws = kept(tokens, model), history["W"][1:]
    own = solution(tokens, selected, rho)
    return {
        "divergence": torch.stack([geometry.bregman(W, own, rho) for W in Ws], -1).float(),
        "moved": (tokens.compare(tokens.z @ Ws[0].mT).argmax(-1) != selected).any(-1),
    }


def digest(selected: Tensor) -> np.ndarray:
    return selected.to(torch.int8).numpy()


def selection(begin, n, T, d, *, trials, seed):
    """Which tokens four exponents select from one start, and which they hold from another's end.

    Args:
        begin: "zero", W_0 = 0, or "normal".

    Returns:
        selected (trials, 4, n) of rho = 1.1, 1.75, 2, 3; finer (trials, 2, n) of rho = 1.1 and 3 with steps
        of a third; held, could (trials, 4): whether a run in l_rho, started at rho = 2's direction with least
        lead 10, ends on the same tokens, and whether these are locally optimal in l_rho.
    """
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    W_0 = start(trials, d, seed + 1) if begin == "normal" else None
    exponents, how = (1.1, 1.75, 2.0, 3.0), {"schedule": train.growing}
    runs = [descended(tokens, rho, 1500, W_0, **how)[0] for rho in exponents]
    selected = [kept(tokens, model) for model in runs]
    finer = [kept(tokens, descended(tokens, rho, 3000, W_0, eta=0.1 / 3, **how)[0]) for rho in (1.1, 3.0)]
    chosen = selected[2]
    least = geometry.margins(runs[2].logits(tokens), chosen).amin((-2, -1))
    far = 10 * runs[2].W / least[:, None, None]
    held, could = [], []
    for rho in exponents:
        held.append((kept(tokens, descended(tokens, rho, 1500, far, **how)[0]) == chosen).all(-1))
        logits = tokens.compare(tokens.z @ solution(tokens, chosen, rho).mT)
        could.append(geometry.locally_optimal(tokens.scores, logits, chosen, tol=1e-3))
    return {
        "selected": np.stack([digest(one) for one in selected], 1),
        "finer": np.stack([digest(one) for one in finer], 1),
        "held": torch.stack(held, -1),
        "could": torch.stack(could, -1),
    }


def sizes(W: Tensor) -> Tensor:
    """Share of entries above a hundredth of the largest, (trials,)."""
    flat = W.detach().flatten(1).abs()
    return (flat > 0.01 * flat.amax(1, keepdim=True)).double().mean(1)


def shape(rho, *, trials, seed):
    """How many entries of W are visible, in the run and in its SVM, and how many rows are tight there."""
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    model, _ = descended(tokens, rho, 3000, schedule=train.growing)
    selected = kept(tokens, model)
    problem = svm.attention_problem(tokens.X, tokens.z, selected)
    answer = svm.solve(problem, norm=rho)
    leads = geometry.margins(tokens.compare(tokens.z @ answer.value.mT), selected).flatten(1)
    return {
        "run": (100 * sizes(model.W)).round().to(torch.int16),
        "svm": (100 * sizes(answer.value)).round().to(torch.int16),
        "tight": (leads < 1 + 1e-3).sum(-1).to(torch.int16),
        "divergence": geometry.bregman(model.W, answer.value, rho).numpy().astype(np.float32),
        "gap": answer.gap.numpy().astype(np.float32),
    }


STEP = {  # step size in the middle of the grid, found in trial runs on other splits
    "digits": {1.1: 0.08, 2.0: 0.4, 3.0: 0.25},
    "reviews": {1.1: 1.2, 2.0: 6.0, 3.0: 3.0},
}
HOW = {
    "digits": {"classes": 10, "d": 24, "scale": 8.0, "epochs": 30, "batch": 64},
    "reviews": {"classes": 2, "d": 16, "scale": 1.0, "epochs": 8, "batch": 128},
}


def real(name, rho, doubling, trials, seed):
    how = dict(HOW[name])
    parts = classifier.real_data(name, trials, seed)
    model = classifier.Classifier(
        parts["training"][0], how.pop("classes"), how.pop("d"), how.pop("scale"), seed
    )
    exponents = dict.fromkeys(model.weights, rho)
    right = classifier.train(model, parts, exponents, STEP[name][rho] * 2.0**doubling, seed=seed, **how)
    attention = model(parts["test"][0])[1].detach()
    return {
        "validation": right[..., 0],
        "test": right[..., 1],
        "fitted": classifier.correct(model, *parts["training"]).to(torch.int16),
        "examples": torch.tensor([[len(parts[part][1][0]) for part in classifier.PARTS]] * trials).to(
            torch.int16
        ),
        "visible_W": sizes(model.weights["W"]).float(),
        "visible_E": sizes(model.weights["E"]).float(),
        "largest": attention.amax(-1).mean(-1).float(),
    }


def digits(rho, doubling, *, trials, seed):
    """Digits as 16 patches: right answers after each epoch, for one exponent and one step size."""
    return real("digits", rho, doubling, trials, seed)


def reviews(rho, doubling, *, trials, seed):
    """Sentences of film reviews: the same."""
    return real("reviews", rho, doubling, trials, seed)


MEASURED = [
    Measured(
        "15.published",
        "The paper's figure: three runs against three SVMs.",
        published,
        {"query": ["apart", "first"], "starts": ["one", "three"]},
        trials=100,
        batch=50,
        paired=("query", "starts"),
        minutes=4,
    ),
    Measured(
        "15.longer",
        "The same runs, ten times as long.",
        longer,
        {"rho": list(RHOS)},
        trials=20,
        batch=10,
        paired=("rho",),
        minutes=2,
    ),
    Measured(
        "15.farther",
        "Two more exponents on a longer path: the power of the divergence.",
        farther,
        {"rho": [2.5, 4.0]},
        trials=20,
        batch=20,
        paired=("rho",),
        minutes=0.5,
    ),
    Measured(
        "15.selection",
        "Which tokens each exponent selects, and which it can hold.",
        selection,
        {"begin": ["zero", "normal"], "n": [6], "T": [8], "d": [10]},
        trials=100,
        batch=50,
        paired=("begin",),
        minutes=2,
    ),
    Measured(
        "15.shape",
        "How many entries of W are visible.",
        shape,
        {"rho": [1.1, 1.25, 1.5, 1.75, 2.0, 3.0]},
        trials=100,
        batch=50,
        paired=("rho",),
        minutes=1,
    ),
    Measured(
        "15.digits",
        "Digits, all weights by mirror descent: right answers after each epoch.",
        digits,
        {"rho": [1.1, 2.0, 3.0], "doubling": [-2, -1, 0, 1, 2]},
        trials=20,
        batch=4,
        paired=("rho", "doubling"),
        minutes=3,
    ),
    Measured(
        "15.reviews",
        "Film reviews, the same.",
        reviews,
        {"rho": [1.1, 2.0, 3.0], "doubling": [-1, 0, 1]},
        trials=20,
        batch=4,
        paired=("rho", "doubling"),
        minutes=6,
    ),
]
