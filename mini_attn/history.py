"""What a training run recorded, and what it takes to go on from there."""

from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from pickle import UnpicklingError
from zipfile import is_zipfile

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def copied(state):
    """A deep copy of a state dict, without the graph."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(copied(value) for value in state)
    return state


@dataclass(frozen=True)
class History:
    """What a training run recorded, and the state it ended in.

    Args:
        steps: the steps at which it recorded, (records,).
        values: one tensor a quantity, (records, *trials, ...); ``history["loss"]`` reads ``values["loss"]``.
        model: state dict of the model after the last step.
        optimizer: state dict of the optimiser, likewise.
        settings: names of the loss and the optimiser.

    Introduced in lesson 01.
    """

    steps: Tensor
    values: dict[str, Tensor] = field(default_factory=dict)
    model: dict = field(default_factory=dict, repr=False)
    optimizer: dict = field(default_factory=dict, repr=False)
    settings: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise KeyError(f"{name!r} was not recorded; recorded: {sorted(self.values)}")
        return self.values[name]

    def save(self, path: str | PathLike) -> None:
        """Write everything to one file, which holds tensors and plain values only.

        A file of that name is replaced once the new one is complete: an interrupted save harms neither.

        Raises:
            OSError: the file cannot be written.
        """
        path = Path(path)
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                torch.save({f: getattr(self, f) for f in self.__dataclass_fields__}, file)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | PathLike, device=None) -> "History":
        """Read what :meth:`save` wrote; nothing in the file is executed.

        Args:
            path: the file.
            device: where the tensors go; None leaves them where they were, or puts them on the CPU if this
                machine has no GPU.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file holds something else, or is cut short.
        """
        if device is None and not torch.cuda.is_available():
            device = "cpu"
        content = None
        with Path(path).open("rb") as file:
            if is_zipfile(file):  # a file that is cut short has lost the mark of one
                file.seek(0)
                with suppress(UnpicklingError):
                    content = torch.load(file, map_location=device, weights_only=True)
        if not isinstance(content, dict) or set(content) != set(cls.__dataclass_fields__):
            raise ValueError(f"{path} holds no History; expected a file written by History.save")
        return cls(**content)


def restore(
    history: History, model: nn.Module, optimizer: Optimizer, steps: int, names: set[str], settings: dict
) -> None:
    """Set model and optimiser to the state a history ended in, after checking that the two runs are one.

    Raises:
        ValueError: what differs between the run that is asked for and the one that the history holds.
    """
    if not len(history.steps) or not history.model:
        raise ValueError("resume: this History holds no state to go on from; expected one returned by fit")
    if history.steps[-1] > steps:
        raise ValueError(
            f"resume: the history ends at step {history.steps[-1]}, beyond steps = {steps}; "
            "steps counts from the start of the first run"
        )
    if set(history.values) != names:
        raise ValueError(
            f"resume: the history recorded {sorted(history.values)}, this call asks for {sorted(names)}; "
            "give the same record"
        )
    for name in sorted({*settings, *history.settings}):
        then, now = history.settings.get(name), settings.get(name)
        if then != now:
            raise ValueError(f"resume: the history's {name} is {then!r}, this call's is {now!r}")
    own = model.state_dict()
    then, now = ({k: tuple(w.shape) for k, w in state.items()} for state in (history.model, own))
    if then != now:
        raise ValueError(f"resume: the history's model has parameters {then}, this one {now}")
    then, now = history.optimizer["param_groups"], optimizer.state_dict()["param_groups"]
    if len(then) != len(now):
        raise ValueError(
            f"resume: the history's optimiser has {len(then)} parameter groups, this one has {len(now)}"
        )
    for before, group in zip(then, now, strict=True):
        for key, value in group.items():
            if key not in before or not _same(before[key], value):
                raise ValueError(
                    f"resume: the history's optimiser has {key} = {before.get(key)}, this one {value}; "
                    "build it with the same settings"
                )
    model.load_state_dict(history.model)
    optimizer.load_state_dict(copied(history.optimizer))


def _same(a, b) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b.to(a.device))
    return a == b


def joined(history: History | None, more: History) -> History:
    """The records of both, one after the other and where the later are, and the state of the later."""
    if history is None:
        return more
    return History(
        torch.cat([history.steps.to(more.steps.device), more.steps]),
        {name: torch.cat([history[name].to(values.device), values]) for name, values in more.values.items()},
        more.model,
        more.optimizer,
        more.settings,
    )
