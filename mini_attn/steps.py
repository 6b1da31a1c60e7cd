"""Training steps: of all trials, or block by block, by the shortest way that the arguments allow."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from mini_attn import losses
from mini_attn.compiled import descent, multiplications
from mini_attn.gradients import closed_form
from mini_attn.models import trial_blocks
from mini_attn.optim import TrialOptimizer
from mini_attn.softmax import softmax as stable_softmax
from mini_attn.threads import LARGE

AT_ONCE = 2**25  # multiplications of compiled steps, some hundredths of a second, between two looks


def taker(
    model, data, optimizer, loss: losses.Loss, softmax: Callable, ridge: float, base: list[float]
) -> tuple[Callable[[list[float | None]], None], int]:
    """A function that takes a step for each factor of the step lengths ``base``, None for those of now; and
    how many factors it should be given at once, so that others see what it does, and can stop it."""
    groups = optimizer.param_groups
    descend = descent(model, data, optimizer, loss, softmax, ridge)
    if descend is not None:
        at_once = max(1, AT_ONCE // (model.trials.numel() * multiplications(model, data)))

        def several(factors: list[float | None]):
            now = groups[0]["lr"]
            descend([now if factor is None else base[0] * factor for factor in factors])

        return several, at_once
    step = _stepper(model, data, optimizer, loss, softmax, ridge)

    def take(factors: list[float | None]):
        for factor in factors:
            if factor is not None:
                for group, lr in zip(groups, base, strict=True):
                    group["lr"] = lr * factor
            step()

    return take, 1


def _stepper(model, data, optimizer, loss: losses.Loss, softmax: Callable, ridge: float) -> Callable:
    """A function that takes one step, by the shortest way these arguments allow."""
    by_trial = isinstance(optimizer, TrialOptimizer)
    scale_free = by_trial and optimizer.scale_free
    # Log-scaled gradients have lost the length that a ridge compares with. Beside a ridge none is needed: an
    # exact gradient that underflows is nothing to it.
    batch_dims = len(model.trials) if scale_free and not ridge else None
    held = {id(w) for group in optimizer.param_groups for w in group["params"]}
    trained = {name: w for name, w in model.named_parameters() if w.requires_grad}
    penalty = _penalty([w for w in trained.values() if id(w) in held], ridge, model, by_trial)
    evaluate = closed_form(model, data, loss, batch_dims) if softmax is stable_softmax else None
    if evaluate is None:
        return partial(optimizer.step, _autograd(model, data, optimizer, loss, softmax, batch_dims, penalty))

    def per_trial(margins: Tensor) -> Tensor:
        return losses.mean(loss.value(margins), data.present)

    def gradients() -> tuple[Tensor, dict[Tensor, Tensor]]:
        margins, grads = evaluate()
        grads = {w: grads[name] for name, w in trained.items()}
        return margins, {w: g + 2 * ridge * w for w, g in grads.items()} if ridge else grads

    def step():
        with torch.inference_mode():
            margins, grads = gradients()
            optimizer.move(grads, None if scale_free else per_trial(margins) + penalty())

    @torch.no_grad()
    def closure() -> Tensor:
        margins, grads = gradients()
        for w, g in grads.items():
            w.grad = g
        return per_trial(margins).sum() + penalty()  # what these are the gradients of

    # Around a step torch runs its hooks and its profiler: an eighth of the time of a small one.
    return step if by_trial else partial(optimizer.step, closure)


def _penalty(weights: list[Tensor], ridge: float, model, by_trial: bool) -> Callable[[], Tensor | float]:
    """ridge sum ||w||^2 at the present weights: for each trial, or in all."""
    if not ridge:
        return lambda: 0.0
    batch_dims = len(model.trials) if by_trial else 0
    return lambda: ridge * sum(w.square().flatten(batch_dims).sum(-1) for w in weights)


def _autograd(model, data, optimizer, loss: losses.Loss, softmax, batch_dims: int | None, penalty: Callable):
    """The closure for optimizer.step: sets every gradient, returns the loss, of each trial for ours."""
    forward = model
    if hasattr(model, "attention"):
        forward = partial(model, softmax=partial(softmax, batch_dims=batch_dims))

    def closure() -> Tensor:
        optimizer.zero_grad()
        seen = losses.mean(loss(data.y * forward(data), batch_dims, data.present), data.present)
        if not isinstance(optimizer, TrialOptimizer):
            seen = seen.sum()
        seen = seen + penalty()
        seen.sum().backward()
        return seen.detach()

    return closure


def in_blocks(model, data, optimizer, loss: losses.Loss, softmax: Callable, ridge: float) -> list[tuple]:
    """The same training in blocks of trials, if none of them touches another: as few as bound the memory,
    or, for compiled steps, so many that each fits a core's cache."""
    held = {id(w) for group in optimizer.param_groups for w in group["params"]}
    cut = trial_blocks(model, data)
    if (
        len(cut) == 1
        or softmax is not stable_softmax
        or type(optimizer).__module__ != TrialOptimizer.__module__  # another may remember earlier steps
        or not held <= {id(w) for w in model.parameters()}
    ):
        return [(model, data, optimizer)]

    def block(piece: slice) -> tuple:
        part, own_data = model.block(piece), data.block(piece) if data.trials else data
        own = dict(zip(model.parameters(), part.parameters(), strict=True))
        return part, own_data, optimizer.block(own, piece)

    first = block(cut[0])
    if descent(*first, loss, softmax, ridge) is None:
        cut = trial_blocks(model, data, LARGE)
        if len(cut) == 1 or closed_form(*first[:2], loss) is None:
            return [(model, data, optimizer)]
    return [block(piece) for piece in cut]
