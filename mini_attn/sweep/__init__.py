"""Grids of experiments, trials by the hundred thousand: `sweep`, and `wilson` intervals for its shares."""

from mini_attn.sweep.run import sweep
from mini_attn.sweep.shares import wilson

__all__ = ["sweep", "wilson"]
