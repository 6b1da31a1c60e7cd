"""Lesson 17 at length: every optimiser on p, W and (K, Q), against the SVM of its own norm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from course.replicate.stored import Measured
from mini_attn import data, geometry, losses, models, optim, rates, svm, train
from mini_attn.gradients import closed_form
from mini_attn.svm.norms import matrix_norm

SIZES = {"p": (4, 5, 10), "W": (6, 8, 10), "KQ": (6, 8, 10)}  # n, T, d
POINTS = 9  # records of a run: four a decade, over its last two decades


@dataclass(frozen=True)
class Runner:
    """How a run is made: the optimiser, the factor of its step length at step t, and how many steps.

    `own` is the norm of the SVM it is compared with: of p and W, and of (K, Q), "" where none is known.
    """

    make: Callable
    own: tuple
    steps: int = 10_000
    schedule: Callable[[int], float] = lambda t: 1.0
    exact: bool = False  # needs gradients with their lengths
    kind: str = ""


def _ours(kind, lr, **options):
    return lambda weights: kind(weights, lr=lr, batch_dims=1, **options)


def _adam(lr, beta_2, eps):
    return lambda weights: torch.optim.Adam(weights, lr=lr, betas=(0.9, beta_2), eps=eps)


def _decaying(t):
    return t**-0.5


INF = math.inf
RUNNERS = {
    "GD": Runner(lambda weights: torch.optim.SGD(weights, lr=1.0), ("fro", "nuc"), exact=True),
    "NGD": Runner(_ours(optim.NormalizedGD, 0.1), ("fro", "nuc")),
    "growing": Runner(_ours(optim.NormalizedGD, 0.1), ("fro", "nuc"), schedule=lambda t: t**0.5),
    "linear": Runner(_ours(optim.NormalizedGD, 0.1), ("fro", "nuc"), schedule=lambda t: t),
    "Polyak": Runner(
        _ours(optim.PolyakGD, 1.0, max_step=20.0), ("fro", "nuc"), 600, exact=True, kind="excess"
    ),
    "mirror 3": Runner(_ours(optim.MirrorDescent, 0.1, p=3.0), (3.0, "")),
    "mirror 1.5": Runner(_ours(optim.MirrorDescent, 0.1, p=1.5), (1.5, "")),
    "sign": Runner(_ours(optim.SignDescent, 0.01), (INF, "")),
    "sign, long": Runner(_ours(optim.SignDescent, 0.3), (INF, "")),
    "sign, decaying": Runner(_ours(optim.SignDescent, 1.0), (INF, ""), schedule=_decaying),
    "Adam": Runner(_adam(0.01, 0.999, 1e-8), (INF, ""), exact=True),
    "Adam, .95": Runner(_adam(0.01, 0.95, 0.0), (INF, ""), exact=True),
    "spectral": Runner(_ours(optim.SpectralDescent, 0.02), ("spectral", "spectral")),
    "spectral, decaying": Runner(
        _ours(optim.SpectralDescent, 1.0), ("spectral", "spectral"), schedule=_decaying
    ),
    "Muon": Runner(None, ("spectral", "spectral"), 5000, exact=True, kind="muon"),
    "Muon, scaled": Runner(None, ("spectral", "spectral"), 5000, kind="muon"),
}
VECTORS = [name for name in RUNNERS if not name.startswith(("spectral", "Muon"))]
FACTORS = ["GD", "NGD", "growing", "Polyak", "mirror 3", "sign", "Adam, .95", "spectral", "Muon, scaled"]


def problem_and_model(parameter: str, trials: int, seed: int):
    """The random tokens of a size, and a model from W = 0, or K and Q from U(-1, 1) / sqrt(d)."""
    n, T, d = SIZES[parameter]
    tokens = data.random_tokens(n, T, d, trials=trials, seed=seed)
    if parameter == "p":
        return tokens, models.PromptAttention(d, trials=trials)
    if parameter == "W":
        return tokens, models.CrossAttention(d, trials=trials)
    model = models.FactoredAttention(d, d, trials=trials)
    generator = torch.Generator().manual_seed(seed)
    for factor in (model.K, model.Q):
        draw = torch.rand(factor.shape, generator=generator, dtype=torch.float64)
        factor.data.copy_((2 * draw - 1) / d**0.5)
    return tokens, model


def weights_of(model) -> Tensor:
    """p or W = K Q^T, detached."""
    return (model.p if hasattr(model, "p") else model.W).detach().clone()


def _muon(model) -> list:
    """torch's Muon for each trial by itself: it takes matrices only. Views of the model's weights."""
    matrices = [torch.nn.Parameter(w) for weight in model.parameters() for w in weight.detach()]
    return [torch.optim.Muon(matrices, lr=0.02, weight_decay=0.0)], matrices


def run(
    tokens: data.TokenData, model, runner: Runner, at: list[int], selected: Tensor | None = None
) -> tuple[list[Tensor], list[Tensor]]:
    """Train, and return the weights at the steps `at`, and for scale-free optimisers with `exact` gradients
    log t: how many steps of plain descent with eta = 1 come this far.

    Args:
        selected: for Polyak's steps, the tokens whose loss is L*.
    """
    weights = list(model.parameters())
    names = [name for name, _ in model.named_parameters()]
    if runner.kind == "muon":
        (optimizer,), matrices = _muon(model)
    else:
        optimizer, matrices = runner.make(weights), None
    scaled = None if runner.exact else 1
    evaluate = closed_form(model, tokens, losses.logistic, scaled)
    kept, clock = [], torch.full((len(tokens.y),), -torch.inf, dtype=torch.float64)
    clocks, base = [], [group["lr"] for group in optimizer.param_groups]
    for t in range(1, max(at) + 1):
        _, grads = evaluate()
        for group, lr in zip(optimizer.param_groups, base, strict=True):
            group["lr"] = lr * runner.schedule(t)
        if matrices is not None:
            for matrix, g in zip(matrices, (g for name in names for g in grads[name]), strict=True):
                matrix.grad = g
            optimizer.step()
        elif isinstance(optimizer, optim.TrialOptimizer):
            if runner.kind == "clock":
                clock = torch.logaddexp(clock, math.log(base[0]) - _log_norm(grads))
            with torch.no_grad():
                loss = None
                if runner.kind == "excess":  # of a loss L* = 0, so that nothing cancels
                    loss = rates.log_excess(model.logits(tokens), tokens, selected).exp().nan_to_num(0.1)
                optimizer.move({w: grads[name] for name, w in zip(names, weights, strict=True)}, loss)
        else:
            for name, w in zip(names, weights, strict=True):
                w.grad = grads[name]
            optimizer.step()
        if t in at:
            kept.append(weights_of(model))
            clocks.append(clock.clone())
    return kept, clocks


def _log_norm(grads: dict[str, Tensor]) -> Tensor:
    """log of each trial's gradient norm, whose square may underflow."""
    g = torch.cat([g.flatten(1) for g in grads.values()], 1)
    scale = g.abs().amax(1, keepdim=True)
    return (g / scale).norm(dim=1).log() + scale[:, 0].log()


def angle(W: Tensor, V: Tensor) -> Tensor:
    """Angle between two weights in each trial, in radians, accurate where it is small."""
    W, V = W.flatten(1), V.flatten(1)
    V = V / V.norm(dim=1, keepdim=True)
    along = (W * V).sum(1)
    return torch.atan2((W - along[:, None] * V).norm(dim=1), along)


def at_length(length: Tensor, values: Tensor, wanted: float) -> Tensor:
    """Each trial's value where its run has this length, interpolated in logs; both (trials, records)."""
    x, y = length.log().numpy(), values.log().numpy()
    return torch.tensor(np.exp([np.interp(math.log(wanted), a, b) for a, b in zip(x, y, strict=True)]))


def limit(tokens, parameter: str, selected: Tensor, norm):
    """The Att-SVM of these tokens, and its solution."""
    if parameter == "p":
        problem = svm.token_problem(tokens.X, selected)
    else:
        problem = svm.attention_problem(tokens.X, tokens.z, selected)
    return problem, svm.solve(problem, norm=norm, throw=False)


@dataclass(frozen=True)
class Descent:
    """Normalised descent on problems of its own, and the Euclidean SVM of the tokens that it selects last.

    `path` holds the weights at the steps asked for; `strengths` are those of `mini_attn.rates.strengths`.
    """

    parameter: str
    tokens: data.TokenData
    path: list[Tensor]
    selected: Tensor
    problem: svm.HardMarginProblem
    solution: svm.Solution
    strengths: Tensor

    def split(self, W: Tensor) -> tuple[Tensor, Tensor]:
        """The length of W along the SVM's direction, (trials,), and what is across, (trials, D)."""
        unit = self.solution.value.flatten(1)
        unit = unit / unit.norm(dim=1, keepdim=True)
        along = (W.flatten(1) * unit).sum(1)
        return along, W.flatten(1) - along[:, None] * unit

    def tight(self, trial: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows (k, D), weights (k,) and strengths (k,) of one problem's tight comparisons."""
        return tight(self.problem, self.solution, self.strengths, trial)


def tight(problem, solution, strengths: Tensor, trial: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (k, D), weights lam (k,) and strengths (k,) of one problem's tight comparisons.

    lam @ rows is the SVM's solution.

    Raises:
        ValueError: where the law does not hold: dependent rows, a strength <= 0, or another lead as short.
    """
    carries = solution.dual[trial] > 1e-7 * solution.dual[trial].max()
    rows = problem.a[trial][carries]
    if problem.b is not None:
        rows = (rows[:, :, None] * problem.b[trial][carries][:, None]).flatten(1)
    lam = solution.dual[trial][carries] / solution.margin[trial]  # the library's add up to a unit vector
    shortest = (problem.forward(solution.value)[trial] < 1 + 1e-5).sum()
    if (
        torch.linalg.matrix_rank(rows) < len(rows)
        or shortest > len(rows)
        or strengths[trial][carries].min() <= 0
    ):
        raise ValueError(f"problem {trial} does not meet the law's conditions on its rows")
    return rows.numpy(), lam.numpy(), strengths[trial][carries].numpy()


def pull(W: Tensor, tokens: data.TokenData) -> tuple[Tensor, Tensor]:
    """The direction downhill, (trials, d, d), of length 1, and log ||G||, (trials,), below 1e-300, too."""
    log_s = torch.log_softmax((tokens.X @ (tokens.z @ W.mT)[..., None])[..., 0], -1)
    top = log_s.argmax(-1, keepdim=True)
    best = tokens.scores.gather(-1, top)
    ahead = best - tokens.scores  # by how much the top token scores more than each
    output = best[..., 0] - (log_s.exp() * ahead).sum(-1)
    strength = log_s - torch.nn.functional.softplus(output)[..., None]  # log of s_t |l'|
    strength = strength.scatter(-1, top, -torch.inf)
    scale = strength.amax((-1, -2))
    part = (strength - scale[:, None, None]).exp() * ahead
    logits = log_s.exp() * part.sum(-1, keepdim=True) - part  # lesson 05, without cancellation
    down = (logits[..., None, :] @ tokens.X)[..., 0, :].mT @ tokens.z
    length = down.flatten(1).norm(dim=1)
    return down / length[:, None, None], scale + torch.log(length / tokens.y.shape[-1])


def constant(problem, solution, strengths: Tensor, W: Tensor, trial: int) -> float:
    """sqrt(||r||^2 + ||r_0||^2) with the memory of the weights W, of one problem."""
    rows, lam, c = tight(problem, solution, strengths, trial)
    unit, w = lam @ rows / np.linalg.norm(lam @ rows), W[trial].flatten().numpy()
    inside = np.linalg.pinv(rows)
    r = inside @ np.log(c / lam)
    r = r - (r @ unit) * unit
    return float(np.linalg.norm(r + w - inside @ (rows @ w)))


@dataclass(frozen=True)
class Followed:
    """Normalised descent on forty problems of W, at k steps: how long the way was, (k,); angle and log ||G||,
    (k, 40); the weights, (k, 40, d, d)."""

    at: list
    way: np.ndarray
    angle: np.ndarray
    log_g: np.ndarray
    W: Tensor
    tokens: list  # twenty problems each
    last_change: list  # the last of the steps at which other tokens were selected than at the end, or 0


def followed(seeds: list[int], lr: float, at: list[int]) -> Followed:
    """Steps of length lr on twenty problems for each of two seeds."""
    kept = []
    for seed in seeds:
        run = descent("W", 20, seed, lr, at)
        changes = [0] * 20
        for j, W in zip(at, run.path, strict=True):
            chosen = geometry.selected_tokens(_logits(run.tokens, "W", W))
            for k in (chosen != run.selected).any(-1).nonzero()[:, 0].tolist():
                changes[k] = j
        kept.append(
            (
                torch.stack([angle(W, run.solution.value) for W in run.path]),
                torch.stack([pull(W, run.tokens)[1] for W in run.path]),
                torch.stack(run.path),
                changes,
                run.tokens,
            )
        )
    theta, log_g, W = (torch.cat([part[i] for part in kept], 1) for i in range(3))
    way = lr * np.array(at)
    tokens, changes = [part[4] for part in kept], [*kept[0][3], *kept[1][3]]
    return Followed(list(at), way, theta.numpy(), log_g.numpy(), W, tokens, changes)


def reached(angles: np.ndarray, log_steps: np.ndarray, goal: float) -> float:
    """The log of the steps at which the angle first is `goal`, NaN if it never is; both (k,). In between the
    log is taken to be linear in 1 / angle, as for plain descent."""
    if angles.min() > goal:
        return math.nan
    k = int(np.argmax(angles < goal))
    part = (1 / goal - 1 / angles[k - 1]) / (1 / angles[k] - 1 / angles[k - 1])
    return float(log_steps[k - 1] + part * (log_steps[k] - log_steps[k - 1]))


def lasting(angles: np.ndarray, times: np.ndarray, goal: float) -> float:
    """From when a run stays below the angle `goal`, interpolated as by `reached`; NaN if it never does."""
    last = np.flatnonzero(angles > goal)[-1]
    return reached(angles[last:], times[last:], goal)


def arrival(path: Tensor, at, W_mm: Tensor, goal: float) -> np.ndarray:
    """From which step on each run stays below the angle, (trials,), of weights at the steps `at`."""
    theta = torch.stack([angle(W, W_mm) for W in path], 1).numpy()
    return np.exp([lasting(one, np.log(at), goal) for one in theta])


def across(laws: list, W: Tensor, weights_to_come: Callable) -> np.ndarray:
    """||r||, ||r_0|| and the norm of both together, (3, trials), with the memory of these weights."""
    found = []
    for law, w in zip(laws, W.flatten(1).numpy(), strict=True):
        r, both = (weights_to_come(*law, kept, 0.0) for kept in (0 * w, w))
        found.append([np.linalg.norm(part) for part in (r, both - r, both)])
    return np.array(found).T


def drifting(drift: Callable, law, R: float, u: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """The reach and the error u by du/dR = drift(rows, lam, u), further and further out: the midpoint rule,
    with steps of 1 in R."""
    rows, lam, _ = law
    while True:
        yield R, u
        R, u = R + 1, u + drift(rows, lam, u + drift(rows, lam, u) / 2)


def integrated(drift: Callable, law, R: float, u: np.ndarray, places: np.ndarray) -> np.ndarray:
    """||u|| at the reaches `places`, (m,), by the integral from u at R."""
    way = itertools.takewhile(lambda one: one[0] < max(places) + 1, drifting(drift, law, R, u))
    reaches, lengths = zip(*((there, np.linalg.norm(error)) for there, error in way), strict=True)
    return np.interp(places, reaches, lengths)


def other_pull(laws: list, tokens, W: Tensor) -> np.ndarray:
    """What of the pull at these weights is not that of the tight rows: its length over ||G||, (trials,)."""
    direction, log_g = pull(W, tokens)
    found = []
    for (rows, _, c), w, down, g in zip(
        laws, W.flatten(1).numpy(), direction.flatten(1).numpy(), log_g.numpy(), strict=True
    ):
        found.append(np.linalg.norm(down - (c * np.exp(-rows @ w - g)) @ rows))
    return np.array(found)


def states(tokens, W: Tensor) -> list[tuple]:
    """Of each problem at these weights: all rows A (m, D), their strengths (m,), the tight rows (k, D), the
    direction (D,) and margin of the SVM of the rows that pull, the weights (D,) and log ||G||."""
    chosen = geometry.selected_tokens(_logits(tokens, "W", W))
    every, c = svm.attention_problem(tokens.X, tokens.z, chosen), rates.strengths(tokens, chosen)
    solution = svm.solve(svm.HardMarginProblem(every.a, every.b, every.r, mask=c > 0), throw=False)
    carries = (solution.dual > 1e-7 * solution.dual.amax(-1, keepdim=True)).numpy()
    rows = (every.a[..., :, None] * every.b[..., None, :]).flatten(-2).numpy()
    unit = (solution.value * solution.margin[:, None, None]).flatten(1).numpy()
    margin, w, log_g = solution.margin.numpy(), W.flatten(1).numpy(), pull(W, tokens)[1].numpy()
    return [
        (rows[k], c[k].numpy(), rows[k][carries[k]], unit[k], margin[k], w[k], log_g[k])
        for k in range(len(W))
    ]


@dataclass(frozen=True)
class Settled:
    """Runs with steps of 0.5 on a hundred problems for each seed, read where their clock .5 j shows 200, 600
    and 2,000, and measured by the SVM of their tokens at 2,000.

    Attributes:
        laws: rows (k, D), lam (k,) and c (k,) of each problem's tight rows.
        weights: at the three, (problems, 3, D).
        changed: whether the tokens at 2,000 are others than at 200, (problems,).
        begun: for each seed its problems, and their weights at 200, (100, d, d).
    """

    laws: list
    weights: np.ndarray
    changed: np.ndarray
    begun: list


def settled(seeds) -> Settled:
    """The runs of `Settled`."""
    laws, weights, changed, begun = [], [], [], []
    for seed in seeds:
        run = descent("W", 100, seed, 0.5, [400, 1200, 4000])
        laws += [run.tight(k) for k in range(100)]  # raises an error where the law's conditions on rows fail
        first = geometry.selected_tokens(_logits(run.tokens, "W", run.path[0]))
        changed.append((first != run.selected).any(-1).numpy())
        weights.append(torch.stack(run.path, 1).flatten(2).numpy())
        begun.append((run.tokens, run.path[0]))
    return Settled(laws, np.concatenate(weights), np.concatenate(changed), begun)


def stored_values(sweeps: dict, parameter: str, optimiser: str, what: str) -> Tensor:
    """What the stored sweeps hold of a run: (40,) or (40, records)."""
    found = sweeps[parameter].sel(parameter=parameter, optimiser=optimiser)[what]
    return torch.as_tensor(found.values.astype(float))


def last_decade(sweeps: dict, parameter: str, optimiser: str, what: str = "angle") -> tuple | None:
    """The steps of a run's last decade, (5,), and a value there, (trials, 5); None where nothing is stored.

    Polyak's steps on (K, Q): of the runs that select the tokens that NGD does.
    """
    if optimiser not in sweeps[parameter].optimiser:
        return None
    x = torch.tensor(steps_of(parameter, optimiser)[4:], dtype=torch.float64)
    y = stored_values(sweeps, parameter, optimiser, what)[_counted(sweeps, parameter, optimiser), 4:]
    return None if y.isnan().all() else (x, y)


def equal(sweeps: dict, parameter: str, optimiser: str, what: str, kind: str, wanted: float) -> float:
    """Median of a value where a run has taken `wanted` "steps", or has this "length" in its own norm; NaN if
    not all runs' records hold that, or nothing is stored. Of the same runs as `last_decade`."""
    if optimiser not in sweeps[parameter].optimiser:
        return math.nan
    counted = _counted(sweeps, parameter, optimiser)
    y = stored_values(sweeps, parameter, optimiser, what)[counted]
    x = torch.tensor(steps_of(parameter, optimiser)).double().expand_as(y)
    if kind == "length":
        x = stored_values(sweeps, parameter, optimiser, "length")[counted]
    if x[:, 0].max() > wanted or x[:, -1].min() < wanted:
        return math.nan
    return float(at_length(x, y, wanted).median())


def _counted(sweeps: dict, parameter: str, optimiser: str) -> Tensor:
    """All runs, (40,); but for Polyak's steps on (K, Q), those that select the tokens that NGD does."""
    name = "Polyak" if (parameter, optimiser) == ("KQ", "Polyak") else "NGD"
    ends = (stored_values(sweeps, parameter, one, "selected") for one in (name, "NGD"))
    return torch.eq(*ends).all(-1)


def descent(
    parameter: str, trials: int, seed: int, lr: float, at: list[int], schedule: Callable | None = None
) -> Descent:
    """Normalised steps of length lr, times the schedule's factor, on fresh problems of p or W, by the
    library's compiled steps."""
    tokens, model = problem_and_model(parameter, trials, seed)
    history = train.fit(
        model,
        tokens,
        optim.NormalizedGD(model.parameters(), lr=lr, batch_dims=1),
        at[-1],
        record={"weights": weights_of},
        every=at,
        schedule=schedule,
        progress=False,
    )
    selected = geometry.selected_tokens(model.attention(tokens).detach())
    problem, solution = limit(tokens, parameter, selected, "fro")
    path = [torch.as_tensor(weights) for weights in history["weights"][-len(at) :]]
    c = rates.strengths(tokens, selected)
    return Descent(parameter, tokens, path, selected, problem, solution, c)


def race(parameter: str, optimiser: str, *, trials: int, seed: int) -> dict:
    """One optimiser on one parameter; (trials, POINTS) at the steps of `steps_of`."""
    runner = RUNNERS[optimiser]
    tokens, model = problem_and_model(parameter, trials, seed)
    chosen = None
    if runner.kind == "excess":  # L* is the loss of the tokens that constant steps select
        _, first = problem_and_model(parameter, trials, seed)
        run(tokens, first, RUNNERS["NGD"], [3000])
        chosen = geometry.selected_tokens(first.attention(tokens).detach())
    if optimiser == "NGD" and parameter != "KQ":
        runner = Runner(runner.make, runner.own, runner.steps, exact=True, kind="clock")
    at = steps_of(parameter, optimiser)
    path, clocks = run(tokens, model, runner, at, chosen)
    path, logits = torch.stack(path), model.logits(tokens).detach()
    selected = geometry.selected_tokens(logits)
    own = runner.own[parameter == "KQ"]
    found = {"clock": torch.stack(clocks, -1)}
    norms = [own] if own else []
    norms += [norm for norm in ("nuc", "fro", "spectral", INF) if norm != own and parameter == "KQ"]
    for norm in norms:
        problem, solution = limit(tokens, parameter, selected, norm)
        angles = torch.stack([angle(W, solution.value) for W in path], -1)
        if norm == norms[0]:
            lengths = torch.stack([size(W, norm) for W in path], -1)
            lead = torch.stack([problem.forward(W).amin(-1) for W in path], -1)
            found["gap"] = 1 - lead / lengths / solution.margin[:, None]
            found |= {"angle": angles, "nearest": angles, "length": lengths, "margin": solution.margin}
        found["nearest"] = torch.minimum(found["nearest"], angles)
    if not own:
        found["angle"] = torch.full_like(angles, torch.nan)
    euclidean = limit(tokens, parameter, selected, "fro")[1].value
    found["euclidean"] = torch.stack([angle(W, euclidean) for W in path], -1)
    found["to_end"] = torch.stack([angle(W, path[-1]) for W in path], -1)
    logits = (_logits(tokens, parameter, W) for W in path)
    found["log_excess"] = torch.stack([rates.log_excess(h, tokens, selected) for h in logits], -1)
    found = {name: values.float() for name, values in found.items()}
    found["best"] = (selected == tokens.optimal).all(-1)
    found["selected"] = selected.to(torch.int8)
    return found


def size(W: Tensor, norm) -> Tensor:
    """The norm of p (trials, d) or W (trials, d, d)."""
    if W.ndim == 3:
        return matrix_norm(W, norm)
    return torch.linalg.vector_norm(W, 2.0 if isinstance(norm, str) else norm, dim=-1)


def _logits(tokens, parameter: str, W: Tensor) -> Tensor:
    return tokens.compare(W[:, None] if parameter == "p" else tokens.z @ W.mT)


def steps_of(parameter: str, optimiser: str) -> list[int]:
    """The steps at which a run is recorded: four a decade, over its last two decades. Runs of K and Q are
    shorter: steps of one length in K and Q are growing ones in W."""
    last = RUNNERS[optimiser].steps
    if parameter == "KQ" and optimiser != "GD":
        last = min(last, 3000)
    return [round(last * 10 ** (k / 4 - (POINTS - 1) / 4)) for k in range(POINTS)]


def _measured(parameter: str, optimisers: list[str], minutes: float) -> Measured:
    return Measured(
        f"17.{parameter}",
        f"angle, length, excess of the loss, {parameter}: {len(optimisers)} optimisers",
        race,
        {"parameter": [parameter], "optimiser": optimisers},
        trials=40,
        batch=20,
        paired=("optimiser",),
        minutes=minutes,
    )


MEASURED = [
    _measured("p", VECTORS, 2),
    _measured("W", list(RUNNERS), 4),
    _measured("KQ", FACTORS, 3),
]
