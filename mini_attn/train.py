"""One training loop for every model, all trials at once."""

from collections.abc import Callable, Sequence
from inspect import signature
from numbers import Integral, Real
from threading import Event, get_ident

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from tqdm.auto import tqdm

from mini_attn import losses
from mini_attn.data import PointData, TokenData
from mini_attn.history import History, copied, joined, restore
from mini_attn.models import joint_trials
from mini_attn.optim import TrialOptimizer
from mini_attn.softmax import softmax as stable_softmax
from mini_attn.steps import in_blocks, taker
from mini_attn.threads import SMALL, each, free_threads, one_thread, threads_for


def _record_steps(steps: int, every: int | Sequence[int] | None) -> list[int]:
    """The steps to record at: always the first and the last."""
    if every is None:
        every = max(1, steps // 100)
    wanted = range(0, steps + 1, every) if isinstance(every, Integral) else (int(s) for s in every)
    return sorted({0, steps, *(s for s in wanted if 0 <= s <= steps)})


def _check(
    model: nn.Module, data: PointData | TokenData, optimizer: Optimizer, steps: int, every, ridge, resume
):
    if not hasattr(data, "y"):
        raise ValueError(f"data is {type(data).__name__}; expected PointData or TokenData")
    if not (resume is None or isinstance(resume, History)):
        raise ValueError(f"resume is {type(resume).__name__}; expected a History: History.load(path)")
    least = max((torch.finfo(w.dtype).tiny for w in model.parameters()), default=0.0)
    if not isinstance(ridge, Real) or not (ridge == 0 or least <= ridge < float("inf")):
        raise ValueError(
            f"ridge = {ridge!r}; expected 0, or a number that the model's dtype carries, from {least:.3g} on"
        )
    if not isinstance(steps, Integral) or steps < 0:
        raise ValueError(f"steps = {steps!r}; expected a whole number, 0 or more")
    if isinstance(every, float) or (isinstance(every, Integral) and every < 1):
        raise ValueError(
            f"every = {every}; expected a number of steps between records, at least 1, or the steps to record"
        )
    own = {id(w) for w in model.parameters()}
    if not any(id(w) in own for group in optimizer.param_groups for w in group["params"]):
        raise ValueError(
            "the optimiser holds none of this model's parameters: build it from model.parameters()"
        )
    own_trials = getattr(model, "trials", torch.Size())
    if _needs_closure(optimizer) and own_trials.numel() != 1:
        raise ValueError(
            f"{type(optimizer).__name__} takes its steps by one loss, and the model has {own_trials.numel()} "
            "trials, which would share each step; train them one by one"
        )
    if not isinstance(optimizer, TrialOptimizer):
        return
    trials = joint_trials(model, data)
    if model.trials != trials:
        raise ValueError(
            f"the data have trials {tuple(data.trials)} and the model {tuple(model.trials)}; "
            f"give the model trials={tuple(trials)}, one set of weights for each"
        )
    # the head's gradients and the attention's are log-scaled by factors of their own, and do not compare
    head = {id(w) for w in model.head.parameters()} if getattr(model, "head", None) is not None else set()
    for group in optimizer.param_groups:
        if group["batch_dims"] != len(trials):
            raise ValueError(
                f"the model has {len(trials)} trial dimension(s), the optimiser normalises with batch_dims = "
                f"{group['batch_dims']}; build it with batch_dims={len(trials)}"
            )
        if optimizer.scale_free and 0 < sum(id(w) in head for w in group["params"]) < len(group["params"]):
            raise ValueError(
                "the head and the attention weights share a parameter group; give each a group of its own"
            )


def _needs_closure(optimizer: Optimizer) -> bool:
    """Whether ``step`` cannot do without the loss, as in LBFGS."""
    closure = signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def fit(
    model: nn.Module,
    data: PointData | TokenData,
    optimizer: Optimizer,
    steps: int,
    loss: str | losses.Loss = "logistic",
    record: dict[str, Callable[[nn.Module], Tensor]] | None = None,
    every: int | Sequence[int] | None = None,
    progress: bool = True,
    softmax: Callable = stable_softmax,
    schedule: Callable[[int], float] | None = None,
    stop: Callable[[nn.Module], Tensor | bool] | None = None,
    resume: History | None = None,
    ridge: float = 0.0,
) -> History:
    """Minimise L = (1/n) sum_i l(y_i f(x_i)) in every trial at once, or L + ridge sum ||w||^2.

    With a normalised optimiser the gradients are log-scaled (see ``softmax``), so that training goes on when
    every gradient underflows. With a ridge it does not go on: once the loss's gradient is as short as
    2 ridge w, weights that grow further are pulled back, however small the ridge.

    Normalised steps of attention with a fixed head are compiled, in float64 on a CPU: several times faster
    than torch's, and to the same digits on every processor. Torch takes all others.

    Threads and blocks choose themselves. Small tensors are computed on one thread, whatever torch is set to,
    and many trials in blocks, as many at once as torch may use threads; a single block takes those that other
    work leaves. The number of threads changes no digit, unless one sequence has more than 2^14 numbers:
    there torch's own splits its sums, and takes all threads it is given. Between two records a block does
    not wait for the others.

    Args:
        model: maps the data to outputs f, (*trials, n); its parameters are changed in place.
        data: PointData or TokenData, same dtype and device as the model; one problem a trial, or one for all.
        optimizer: over the model's parameters; any torch optimiser, which is shown the sum of the trials'
            losses. One whose step needs that sum (LBFGS) trains a single model only.
        steps: number of steps, counted from the start of the first run where runs are resumed.
        loss: "logistic", "exponential", "linear", or a Loss.
        record: quantities to keep, name -> function of the model returning a tensor, always of one shape.
        every: steps between records, or the steps to record at; None for about a hundred records. The start
            and the end are always recorded.
        progress: show one progress bar.
        softmax: replaces the attention's softmax, for comparisons.
        schedule: step t = 1, 2, ... uses the optimiser's lr times ``schedule(t)``; None keeps it constant.
            After training the optimiser has its own lr again.
        stop: asked at every record, a function of the model returning a bool for each trial, or one bool;
            training ends early once all are true.
        resume: a History to go on from. Model and optimiser are set to the state it holds, built as they
            were then; the result is the one that an uninterrupted run would give, to the last digit, and its
            records follow those of ``resume``. Pass the same data and schedule as before: a file does not
            hold them.
        ridge: lambda >= 0. To each trial's L it adds lambda times the sum of the squares of all entries of
            the weights that the optimiser trains: lambda (||K||_F^2 + ||Q||_F^2) for FactoredAttention. The
            loss that is recorded is L alone.

    Returns:
        History with "loss" and "log_loss" (its logarithm, accurate where the loss underflows; NaN where the
        loss is negative), each (*trials,), and what ``record`` asked for.

    Raises:
        ValueError: arguments that do not fit together.
        FloatingPointError: the loss or the weights became NaN or infinite; says when and in which trials.

    Whatever ends training early, Ctrl-C or an error, has the run up to its last record as ``.history``, with
    the state of that moment, so that nothing recorded is lost and ``resume`` goes on from there:

        try:
            history = fit(...)
        except KeyboardInterrupt as stopped:  # or afterwards: sys.last_value.history
            history = stopped.history

    It is None before the first record. The model itself may have been stopped in the middle of a step.

    Introduced in lesson 01; ``ridge`` in lesson 11.
    """
    loss = losses.get(loss)
    _check(model, data, optimizer, steps, every, ridge, resume)
    if taken := {"loss", "log_loss"} & set(record or {}):
        raise ValueError(f"record names {sorted(taken)}, which fit records itself; choose another name")
    own = {
        "loss": lambda margins: losses.mean(loss.value(margins), data.present),
        "log_loss": lambda margins: loss.log_mean(margins, data.present),
    }
    names = [*own, *(record or {})]
    settings = {"loss": loss.name, "optimizer": type(optimizer).__name__}
    if ridge:
        settings["ridge"] = repr(float(ridge))
    done, at = 0, _record_steps(steps, every)
    if resume is not None:
        restore(resume, model, optimizer, steps, set(names), settings)
        done = int(resume.steps[-1])
        at = [s for s in at if s > done]
        if not at:
            return resume
    base = [group["lr"] for group in optimizer.param_groups] if schedule is not None else []
    cut = in_blocks(model, data, optimizer, loss, softmax, ridge)
    parts = [(*taker(*part, loss, softmax, ridge, base), part[1].entries) for part in cut]
    kept: list[tuple[int, dict[str, Tensor]]] = []
    state = (
        None  # of the last record: its number, model, optimiser; set at once, so that Ctrl-C finds it whole
    )

    def so_far() -> History | None:
        if state is None:
            return resume
        counted, *states = state
        at, rows = zip(*kept[:counted], strict=True)
        values = {name: torch.stack([row[name] for row in rows]) for name in names}
        return joined(resume, History(torch.tensor(at), values, *states, settings))

    try:
        with tqdm(total=steps, initial=done, disable=not progress, unit="step") as bar:
            for target in at:
                factors = [None] * (target - done)
                if schedule is not None:
                    factors = [step_factor(schedule, step) for step in range(done + 1, target + 1)]
                for *_, block in cut:
                    _follow(block, optimizer)
                _advance(parts, factors, bar, data.X.shape[-2:].numel())
                done = target
                with torch.no_grad():
                    with threads_for(data):
                        margins = data.y * model(data)
                        row = {name: of(margins) for name, of in own.items()}
                    for name, of in (record or {}).items():
                        row[name] = torch.as_tensor(of(model)).detach().clone()
                    _give_back(optimizer, base)
                    with threads_for(data):
                        _check_record(model, row, kept[0][1] if kept else row, done)
                        kept.append((done, row))
                        state = len(kept), copied(model.state_dict()), copied(optimizer.state_dict())
                    if stop is not None and torch.as_tensor(stop(model)).all():
                        break
        return so_far()
    except BaseException as error:
        error.history = so_far()
        raise
    finally:
        _give_back(optimizer, base)


def _give_back(optimizer: Optimizer, base: list[float]):
    """Undo the schedule: the step lengths are the optimiser's own again."""
    for group, lr in zip(optimizer.param_groups, base, strict=False):
        group["lr"] = lr


def _follow(block: Optimizer, optimizer: Optimizer):
    """Take over step lengths that ``record`` or ``stop`` may have changed."""
    for own, group in zip(block.param_groups, optimizer.param_groups, strict=True):
        if not isinstance(group["lr"], Tensor):
            own["lr"] = group["lr"]


def step_factor(schedule: Callable[[int], float], step: int) -> float:
    """``schedule(step)``, if it is a positive finite number."""
    factor = schedule(step)
    if not 0 < factor < float("inf"):
        raise ValueError(f"schedule({step}) = {factor}; expected a positive finite factor of lr")
    return factor


def _advance(parts: list[tuple], factors: list[float | None], bar: tqdm, matrix: int):
    """Take one step with each factor of the step lengths, in every block of trials."""
    before, taken, halt, caller = bar.n, [0] * len(parts), Event(), get_ident()

    def show():
        bar.update(before + sum(taken) // len(parts) - bar.n)

    def advance(k: int):
        take, at_once, _ = parts[k]
        while taken[k] < len(factors):
            if halt.is_set():
                return
            some = factors[taken[k] : taken[k] + at_once]
            take(some)
            taken[k] += len(some)
            if get_ident() == caller:
                show()

    largest = max(entries for *_, entries in parts)
    with one_thread() as threads:
        if 1 < threads <= len(parts) or largest <= SMALL:
            each(advance, range(len(parts)), threads, show, halt)
        else:  # of large tensors torch's own threads make more
            torch.set_num_threads(free_threads(largest, threads, matrix))
            for k in range(len(parts)):
                advance(k)
    show()


def _check_record(model: nn.Module, row: dict[str, Tensor], first: dict[str, Tensor], step: int):
    for name, value in row.items():
        if value.shape != first[name].shape:
            raise ValueError(
                f"record[{name!r}] returned shape {tuple(value.shape)} at step {step} and "
                f"{tuple(first[name].shape)} before; expected one shape throughout"
            )
    loss = row["loss"]
    bad = ~loss.isfinite()
    for w in model.parameters():
        if w.shape[: loss.ndim] == loss.shape:
            bad = bad | ~w.detach().isfinite().flatten(loss.ndim).all(-1)
    if bad.any():
        trials = bad.nonzero()[:10]
        where = f" in trials {(trials.flatten() if loss.ndim == 1 else trials).tolist()}" if loss.ndim else ""
        if step == 0:
            raise FloatingPointError(
                f"the loss or the weights are NaN or infinite{where} before the first step; "
                "look at the weights' start and the data's scale"
            )
        raise FloatingPointError(
            f"training diverged{where}: the loss or the weights were NaN or infinite by step {step}; "
            "lower the step length, or look at the data's scale"
        )


def growing(step: int) -> float:
    """Step lengths that grow as sqrt(t): ``fit(..., schedule=growing)``.

    A normalised step t has length lr sqrt(t), so that after t steps ||W|| is up to (2/3) lr t^(3/2) instead
    of lr t. Two errors keep the direction from its limit. One is of order 1/||W||^2 in 1 - cosine, because
    the softmax is not hard yet; growing steps make it fall as t^-3 instead of t^-2. The other is the zigzag
    of steps of length 1/t relative to ||W||, for both up to a factor 3/2. Growing faster helps the first
    and hurts the second.

    Measured, median of 1 - cosine to the Att-SVM solution (60 trials, n=6, T=8, d=10, lr=0.1):

        steps          500      1,000    2,000    4,000
        W, constant    1.7e-2   4.6e-3   1.3e-3   3.4e-4
        W, growing     1.0e-4   1.4e-5   2.2e-6   3.7e-7
        p, constant    7.2e-3   2.2e-3   6.8e-4   1.9e-4
        p, growing     2.4e-4   4.6e-5   7.7e-6   1.7e-6

    The number of steps is no longer a path length: a growing run passes early norms in larger strides, so
    compare trajectories at equal ||W||, not at equal step. Selection hardly notices: after 2,000 steps the
    two kinds had selected the same tokens in 398 of 400 trials of W.

    Args:
        step: t = 1, 2, ...

    Introduced in lesson 06; measured in lesson 17.
    """
    return step**0.5
