"""Lesson 15 at length: mirror descent on attention, the published setting, selection, and real data."""

import dataclasses
import functools

import numpy as np
import torch
from torch import Tensor

from course.replicate import classifier
from course.replicate.stored import Measured, measured
from mini_attn import data, geometry, models, optim, svm, train
from mini_attn.sweep.design import batch_seed

RHOS = (1.75, 2.0, 3.0)
PUBLISHED = {1.75: 1500, 2.0: 2000, 3.0: 20_000}  # steps
NORMS = (1.1, 2.0, 3.0)
LENGTH = {1.1: 1500, 1.5: 5000, 2.0: 2000, 2.5: 20_000, 3.0: 20_000}  # published for 2 and 3
STAGES = (0.1, 0.3, 1, 3, 10)  # of these numbers of steps


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


def published(starts, *, trials, seed):
    """The setting of the paper's figure, each query the first token: three runs against three SVMs.

    Args:
        starts: "one" W_0 for the three runs of a data set, or "three" different ones.

    Returns:
        own: divergence of run j from the SVM k of the tokens that run j selected; theirs: of those that run
        k selected; alike: whether both runs selected the same. Each (trials, 3, 3).
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
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
    """A run like the published ones, up to ten times as long: divergence from the SVM of each exponent.

    Steps of 0.1 for NORMS, of 1 for the others.

    Returns:
        divergence (trials, 5, 5), at each of STAGES from each of LENGTH's SVMs of the tokens selected at the
        end; moved (trials, 5): whether other tokens were selected then.
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    stages = [int(stage * LENGTH[rho]) for stage in STAGES]
    record = {"W": lambda model: model.W}
    how = {"eta": 0.1 if rho in NORMS else 1.0, "record": record, "every": stages}
    model, history = descended(tokens, rho, stages[-1], start(trials, 10, seed + 1), **how)
    selected, Ws = kept(tokens, model), history["W"][1:]
    limits = [solution(tokens, selected, one) for one in LENGTH]
    apart = [[geometry.bregman(W, limit, rho) for limit in limits] for W in Ws]
    then = [tokens.compare(tokens.z @ W.mT).argmax(-1) for W in Ws]
    return {
        "divergence": torch.stack([torch.stack(row, -1) for row in apart], -2).float(),
        "moved": torch.stack([(one != selected).any(-1) for one in then], -1),
    }


RUNS = [(1.5, 0, 10), (2.0, 0.5, 100), (2.0, 0.5, 0.1), (3.0, 0.5, 10), (1.5, 0, 1)]  # rho, c, eta


def slopes(run, *, trials, seed):
    """One of RUNS: 500 steps of length eta j^c from 0.

    Returns:
        slope (trials,): of log D from the run's own SVM against log j, from 30% of the steps on; moved
        (trials,): how far the last step moves a lead, the median over the leads.
    """
    rho, c, eta = RUNS[run]
    tokens, steps = data.random_tokens(6, 8, 10, trials=trials, seed=seed), 500
    how = {"record": {"W": lambda model: model.W}, "every": [3 * steps // 10, steps - 1, steps]}
    model, history = descended(tokens, rho, steps, eta=eta, schedule=lambda j: float(j + 1) ** c, **how)
    selected, Ws = kept(tokens, model), history["W"][1:]
    limit, problem = solution(tokens, selected, rho), svm.attention_problem(tokens.X, tokens.z, selected)
    first, last = (geometry.bregman(Ws[k], limit, rho) for k in (0, 2))
    leads = [problem.forward(W) for W in Ws[1:]]
    return {"slope": (last / first).log() / np.log(10 / 3), "moved": (leads[1] - leads[0]).abs().median(1)[0]}


ETA = {1.1: 0.001, 2.0: 0.1, 3.0: 0.1}  # growing steps of ETA sqrt(j)
STEPS = 3000


def judged(tokens, model, ending):
    """The choice of a run, and in which norms it is held.

    Args:
        ending: from each exponent to the model that a run in its norm ends at, given its W_0.

    Returns:
        chosen, (trials, n); better and held, (trials, exponents), as in `selection`.
    """
    choice = kept(tokens, model)
    lead = geometry.margins(model.logits(tokens), choice).amin((-2, -1))
    logits = torch.stack([tokens.compare(tokens.z @ solution(tokens, choice, one).mT) for one in ending], 1)
    if logits.isnan().any() or (lead <= 0).any():
        raise RuntimeError("a run that has not decided, or a choice without SVM")
    choices = choice[:, None].expand(-1, len(ending), -1)
    least = geometry.margins(logits, choices).amin((-2, -1))
    leads = (logits.gather(-1, choices[..., None]) - logits) / least[..., None, None]
    higher = tokens.scores > tokens.scores.gather(-1, choice[..., None])
    ends = [kept(tokens, run(10 * model.W / lead[:, None, None])) for run in ending.values()]
    return {
        "chosen": choice.to(torch.int8),
        "better": leads.masked_fill(~higher[:, None], torch.inf).amin((-2, -1)).float(),
        "held": torch.stack([(end == choice).all(-1) for end in ends], 1),
    }


def selection(rho, *, trials, seed):
    """Which tokens a run of one exponent selects from W_0 = 0, and in which norms its choice is held.

    Returns:
        chosen (trials, 6); better (trials, 3): at the SVMs of the choice in the norms 1.1, 2 and 3, scaled to
        a least lead of 1, the least lead over a token of a higher score, infinite if there is none; held
        (trials, 3): whether a run in each norm, from the direction of this run's end with least lead 10, ends
        on its choice; finer and longer (trials,): whether the run selects the same with steps half as long on
        the same path, or after four times as many.
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)

    def run(rho, W_0=None, steps=STEPS, finer=1):
        eta = ETA[rho] / finer
        steps = round(steps * finer ** (2 / 3))  # the path is (2/3) eta steps^(3/2)
        return descended(tokens, rho, steps, W_0, eta=eta, schedule=train.growing)[0]

    found = judged(tokens, run(rho), {one: functools.partial(run, one) for one in ETA})
    for name, other in (("finer", {"finer": 2}), ("longer", {"steps": 4 * STEPS})):
        found[name] = (kept(tokens, run(rho, **other)) == found["chosen"]).all(-1)
    return found


def equal(eta, *, trials, seed):
    """The norms 1.1 and 2 with one step size: which tokens each selects from 0, and which choice it holds.

    Returns:
        As `selection`, with these two norms: chosen (trials, 2, 6); better and held (trials, 2, 2), the
        choice of the first, in the norm of the second.
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)

    def run(rho, W_0=None):
        return descended(tokens, rho, STEPS, W_0, eta=eta, schedule=train.growing)[0]

    ending = {rho: functools.partial(run, rho) for rho in (1.1, 2.0)}
    found = [judged(tokens, from_0(), ending) for from_0 in ending.values()]
    return {name: torch.stack([each[name] for each in found], 1) for name in found[0]}


def sizes(W: Tensor) -> Tensor:
    """Share of entries above a hundredth of the largest, (trials,)."""
    flat = W.detach().flatten(1).abs()
    return (flat > 0.01 * flat.amax(1, keepdim=True)).double().mean(1)


def shape(rho, *, trials, seed):
    """How many of 100 entries of W are visible, in the run and in its SVM.

    Returns:
        run, svm (trials,): in percent; power (trials,): the same of the mirror image in l_rho of the
        Euclidean SVM, whose S is as flat as for rho = 2.
    """
    tokens = data.random_tokens(6, 8, 10, trials=trials, seed=seed)
    model, _ = descended(tokens, rho, 3000, schedule=train.growing)
    selected = kept(tokens, model)
    W_2 = solution(tokens, selected, 2.0)
    image = (W_2.abs() / W_2.abs().amax((-2, -1), keepdim=True)) ** (1 / (rho - 1))
    seen = {"run": model.W, "svm": solution(tokens, selected, rho), "power": image}
    return {name: (100 * sizes(W)).round().to(torch.int16) for name, W in seen.items()}


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


def choose(name, rho):
    """What validation chooses of the sweep 15.digits or 15.reviews, on each split, for one exponent.

    Returns:
        test accuracy in %, (splits,), of the step size and the epoch chosen on validation; of those chosen on
        test; of the last epoch, of the size that validation chooses there; and whether the step size chosen
        on validation is the smallest or the largest tried.
    """
    cell = measured(f"15.{name}").load().sel(rho=rho).transpose("trial", "doubling", ...)
    n = cell.examples.values[:, :1, :, None]  # (splits, 1, parts, 1)
    validation, test = cell.validation.values / n[:, :, 1], 100 * cell.test.values / n[:, :, 2]
    each = np.arange(len(test))
    best = validation.reshape(len(test), -1).argmax(axis=1)
    size = best // validation.shape[2]  # its number in the grid
    at_end = test[each, validation[:, :, -1].argmax(axis=1), -1]
    extreme = (size == 0) | (size == validation.shape[1] - 1)
    return test.reshape(len(test), -1)[each, best], test.max(axis=(1, 2)), at_end, extreme


def redrawn(id) -> data.TokenData:
    """The data sets of a stored sweep over random tokens, drawn again: all its trials, in their order."""
    sweep = measured(id)
    seeds = [batch_seed(sweep.seed, {}, first) for first in range(0, sweep.trials, sweep.batch)]
    parts = [data.random_tokens(6, 8, 10, trials=sweep.batch, seed=seed) for seed in seeds]
    return data.TokenData(*(torch.cat([getattr(part, name) for part in parts]) for name in "Xzyv"))


MEASURED = [
    Measured(
        "15.published",
        "The paper's figure: three runs against three SVMs.",
        published,
        {"starts": ["one", "three"]},
        trials=100,
        batch=50,
        paired=("starts",),
        minutes=2,
    ),
    Measured(
        "15.longer",
        "Such runs with five exponents, ten times as long.",
        longer,
        {"rho": list(LENGTH)},
        trials=20,
        batch=10,
        paired=("rho",),
        minutes=4,
    ),
    Measured(
        "15.slopes",
        "The slope of the divergence while steps move the leads little, and much.",
        slopes,
        {"run": list(range(5))},
        trials=100,
        batch=50,
        paired=("run",),
        minutes=0.5,
    ),
    Measured(
        "15.selection",
        "Which tokens each exponent selects, and which it can hold.",
        selection,
        {"rho": list(ETA)},
        trials=200,
        batch=100,
        paired=("rho",),
        minutes=2,
    ),
    Measured(
        "15.equal",
        "The same for 1.1 and 2 with equal steps.",
        equal,
        {"eta": [0.001, 0.1]},
        trials=200,
        batch=100,
        paired=("eta",),
        minutes=1,
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
        minutes=4,
    ),
]
