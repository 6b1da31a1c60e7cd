"""How many trials fit into memory at once."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mini_attn.sweep.design import Batch, Design

PROBE = 8  # trials of a probe
BUDGET = 2**30  # bytes for a batch on the CPU


class Peak(TorchDispatchMode):
    """Counts the bytes of the tensors that were made and still live; ``most``: the most at once."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self._seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self._count(x.untyped_storage())
        return result

    def _count(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key not in self._seen:
            self._seen.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key, size):
        self._seen.discard(key)
        self.now -= size


def fitting(call, design: Design, budget: int | None, device: torch.device) -> list[int]:
    """For each cell, the most trials whose tensors stay within the budget: a power of two, or all.

    A probe of a few trials is run in each cell and its tensors counted; their bytes grow with the trials.
    """
    if budget is None:
        budget = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else BUDGET
    sizes = []
    for batch in design.batches([design.trials] * len(design.cells)):
        trials = min(PROBE, design.trials)
        with Peak() as peak:
            call(Batch(0, batch.cell, batch.place, 0, trials, batch.seed))
        most = max(1, int(budget * trials // max(peak.most, 1)))
        sizes.append(min(design.trials, 2 ** (most.bit_length() - 1)))
    return sizes
