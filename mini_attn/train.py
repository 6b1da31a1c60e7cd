"""One training loop for every model, all trials at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from tqdm.auto import tqdm

from mini_attn import losses
from mini_attn.data import PointData, TokenData
from mini_attn.softmax import softmax as stable_softmax


@dataclass(frozen=True)
class History:
    """What a training run recorded.

    Args:
        steps: the steps at which it recorded, (records,).
        values: one tensor a quantity, (records, *trials, ...); ``history["loss"]`` reads ``values["loss"]``.

    Introduced in lesson 01.
    """

    steps: Tensor
    values: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise KeyError(f"{name!r} was not recorded; recorded: {sorted(self.values)}")
        return self.values[name]


def _record_steps(steps: int, every: int | Sequence[int] | None) -> list[int]:
    """The steps to record at: always the first and the last."""
    if every is None:
        every = max(1, steps // 100)
    wanted = range(0, steps + 1, every) if isinstance(every, int) else (int(s) for s in every)
    return sorted({0, steps, *(s for s in wanted if 0 <= s <= steps)})


def _check(model: nn.Module, data: PointData | TokenData, optimizer: Optimizer, steps: int, every):
    if not isinstance(steps, int) or steps < 0:
        raise ValueError(f"steps = {steps!r}; expected a whole number, 0 or more")
    if isinstance(every, int) and every < 1:
        raise ValueError(f"every = {every}; expected a number of steps between records, at least 1")
    own = {id(w) for w in model.parameters()}
    if not any(id(w) in own for group in optimizer.param_groups for w in group["params"]):
        raise ValueError(
            "the optimiser holds none of this model's parameters: build it from model.parameters()"
        )
    if not getattr(optimizer, "scale_free", False):
        return
    trials = torch.broadcast_shapes(model.trials, data.trials)
    if model.trials != trials:
        raise ValueError(
            f"the data have trials {tuple(data.trials)} and the model {tuple(model.trials)}; "
            f"give the model trials={tuple(trials)}, one set of weights for each"
        )
    head = {id(w) for w in model.head.parameters()} if getattr(model, "head", None) is not None else set()
    for group in optimizer.param_groups:
        if group["batch_dims"] != len(trials):
            raise ValueError(
                f"the model has {len(trials)} trial dimension(s), the optimiser normalises with batch_dims = "
                f"{group['batch_dims']}; build it with batch_dims={len(trials)}"
            )
        if 0 < sum(id(w) in head for w in group["params"]) < len(group["params"]):
            raise ValueError(
                "the head and the attention weights share a parameter group; give each a group of its own"
            )


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
) -> History:
    """Minimise L = (1/n) sum_i l(y_i f(x_i)) in every trial at once.

    With a normalised optimiser the gradients are log-scaled (see ``softmax``), so that training goes on when
    every gradient underflows.

    Args:
        model: maps the data to outputs f, (*trials, n); its parameters are changed in place.
        data: PointData or TokenData, same dtype and device as the model; one problem a trial, or one for all.
        optimizer: over the model's parameters; any torch optimiser.
        steps: number of steps.
        loss: "logistic", "exponential", "linear", or a Loss.
        record: quantities to keep, name -> function of the model returning a tensor.
        every: steps between records, or the steps to record at; None for about a hundred records. The start
            and the end are always recorded.
        progress: show one progress bar.
        softmax: replaces the attention's softmax, for comparisons.

    Returns:
        History with "loss" (*trials,) and what ``record`` asked for.

    Raises:
        ValueError: arguments that do not fit together.
        FloatingPointError: the loss or the weights became NaN or infinite; says when and in which trials.

    Introduced in lesson 01.
    """
    loss = losses.get(loss)
    _check(model, data, optimizer, steps, every)
    batch_dims = len(model.trials) if getattr(optimizer, "scale_free", False) else None
    forward = (
        partial(model, softmax=partial(softmax, batch_dims=batch_dims))
        if hasattr(model, "attention")
        else model
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        per_trial = loss(data.y * forward(data), batch_dims).mean(-1)
        per_trial.sum().backward()
        return per_trial.detach()

    at = _record_steps(steps, every)
    kept: dict[str, list[Tensor]] = {name: [] for name in ("loss", *(record or {}))}
    done = 0
    with tqdm(total=steps, disable=not progress, unit="step") as bar:
        for stop in at:
            for _ in range(stop - done):
                optimizer.step(closure)
            bar.update(stop - done)
            done = stop
            with torch.no_grad():
                kept["loss"].append(loss.value(data.y * model(data)).mean(-1))
                for name, quantity in (record or {}).items():
                    kept[name].append(torch.as_tensor(quantity(model)).detach().clone())
            _check_finite(model, kept["loss"][-1], done)
    return History(torch.tensor(at), {name: torch.stack(values) for name, values in kept.items()})


def _check_finite(model: nn.Module, loss: Tensor, step: int):
    bad = ~loss.isfinite()
    for w in model.parameters():
        if w.shape[: loss.ndim] == loss.shape:
            bad = bad | ~w.detach().isfinite().flatten(loss.ndim).all(-1)
    if bad.any():
        where = f" in trials {bad.nonzero().flatten().tolist()[:10]}" if loss.ndim else ""
        raise FloatingPointError(
            f"training diverged{where}: the loss or the weights were NaN or infinite by step {step}; "
            "lower the step length, or look at the data's scale"
        )
