"""Which training can be done in compiled loops, several times faster: see `kernels`.

Between small tensors torch spends its time on calls, and it reads every trial from memory in every step. The
loops keep a few trials in a core's cache for all steps up to the next record. Each is computed by itself: no
digit of it depends on its neighbours.
"""

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch

from mini_attn import losses
from mini_attn.data import TokenData
from mini_attn.models import CrossAttention, FactoredAttention, PromptAttention
from mini_attn.optim import NormalizedGD
from mini_attn.softmax import softmax as stable_softmax

LANES = 48  # trials side by side: enough for vector instructions, few enough for the cache
LARGE = 2**15  # multiplications in a trial's products above which torch's are faster

_KINDS = {PromptAttention: 0, CrossAttention: 1, FactoredAttention: 2}
_LOSSES = {losses.linear: 0, losses.logistic: 1, losses.exponential: 2}


def descent(model, data, optimizer, loss: losses.Loss, softmax: Callable, ridge: float) -> Callable | None:
    """A function that takes steps of given lengths in every trial, or None where only torch can.

    It can where attention with a fixed head takes normalised steps, in float64 on a CPU.
    """
    if not (type(model) in _KINDS and model.head is None and isinstance(data, TokenData)):
        return None
    weights, trials = list(model.parameters()), model.trials
    groups = optimizer.param_groups
    if (
        type(optimizer) is not NormalizedGD
        or loss not in _LOSSES
        or softmax is not stable_softmax
        or ridge
        or not all(w.requires_grad and w.is_contiguous() for w in weights)
        or not all(x.dtype == torch.float64 and x.device.type == "cpu" for x in (*weights, data.X))
        or len(groups) != 1
        or [*map(id, groups[0]["params"])] != [*map(id, weights)]
        or not isinstance(groups[0]["lr"], float | int)
        or data.trials not in ((), trials)
        or data.mask is not None
        or data.positions > 1
        or multiplications(model, data) > LARGE
        or not trials.numel()
    ):
        return None
    loops = _loops()
    if loops is None:
        return None
    model._check(data)
    count, lead = trials.numel(), len(data.trials)
    lanes = count
    if count >= 8:  # whole vectors, as few of them as possible
        few = min(-(-count // 8) * 8, LANES // 2)
        lanes = min(range(few, LANES + 1, 8), key=lambda side: (-(-count // side) * side, -side))
    tokens = [
        x.detach().reshape(-1, *x.shape[lead:]).contiguous().numpy()
        for x in (data.keys, data.z, data.y[..., None] * data.values)
    ]
    kinds = _KINDS[type(model)], _LOSSES[loss]

    def descend(lengths: list[float]):
        flat = [w.detach().view(count, data.X.shape[-1], -1).numpy() for w in weights]
        loops(*kinds, *tokens, flat[0], flat[-1], np.asarray(lengths, float), lanes)

    return descend


def multiplications(model, data: TokenData) -> int:
    """Of a trial's queries p, W z_i or K Q^T z_i and its logits; their gradients take as many again."""
    n, T, d = data.X.shape[-3:]
    columns = 0 if type(model) is PromptAttention else sum(w.shape[-1] for w in model.parameters())
    return n * d * (columns + T)


@cache
def _loops() -> Callable | None:
    """The compiled loops, which bring numba; None where they cannot be had."""
    try:
        from mini_attn.kernels import descend
    except Exception as error:  # whatever an installation, or a file of compiled code cut short, may raise
        if getattr(error, "name", None) != "mini_attn.kernels":  # which a library sealed for grading lacks
            kept = Path(__file__).parent / "__pycache__"
            warnings.warn(
                "normalised training goes through torch, several times slower: its compiled loops cannot be "
                f"loaded ({type(error).__name__}: {error}). They need numba, and {kept} whole and writable; "
                "if you delete it, it is written anew",
                RuntimeWarning,
                stacklevel=2,
            )
        return None
    return descend
