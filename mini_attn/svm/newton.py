"""The loop of the interior-point methods: steps, certificates, and a batch that shrinks as it settles."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from mini_attn.svm.norms import Norm, dual_norm
from mini_attn.svm.problem import HardMarginProblem
from mini_attn.svm.solution import certify, rank_one_size

STEPS = 60
PATIENCE = 4


def iterate(
    step: Callable,
    candidate: Callable,
    problem: HardMarginProblem,
    state: tuple[Tensor, ...],
    norm: Norm,
    tol: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """state <- state + step(problem, *state), problem by problem until the best certified gap is good enough.

    A problem leaves the batch when its gap is a hundredth of tol, or when its gap is below tol and has not
    halved for `PATIENCE` certificates: rounding then has the last word.

    Args:
        step: returns one change for each tensor of the state, already shortened.
        candidate: candidate(problem, *state) returns W (B, d1, d2), dual (B, m) and the method's own
            objective (B,).
        problem: a batch with one leading dimension and rows near unit length, float64.
        state: tensors with one leading dimension.
        norm: as `parse_norm` returns it.
        tol: relative gap.

    Returns:
        W (B, d1, d2), dual (B, m), gap (B,), inf where nothing was certified, and steps (B,).
    """
    best_dual = torch.zeros_like(problem.r)
    best_W = problem.adjoint(best_dual)
    best_gap = best_W.new_full((len(best_W),), torch.inf)
    mark, waited = best_gap.clone(), torch.zeros_like(best_gap)
    steps = torch.zeros(len(best_W), dtype=torch.int64, device=best_W.device)
    index, row_size = torch.arange(len(best_W), device=best_W.device), rank_one_size(problem, dual_norm(norm))
    for count in range(STEPS):
        W, dual, primal = candidate(problem, *state)
        # Certifying costs as much as a step, so it waits until the method's own objectives come near.
        near = (primal - (dual * problem.r).sum(-1)).abs() <= 100 * tol * primal.abs()
        near |= (best_gap[index] <= tol) | (count % 10 == 9)
        here = torch.nonzero(near)[:, 0]
        if len(here):
            seen = index[here]
            W, dual, gap, _ = certify(problem[here], W[here], dual[here], norm, row_size[seen])
            better = gap < best_gap[seen]
            found = seen[better]
            best_W[found], best_dual[found], best_gap[found] = W[better], dual[better], gap[better]
            halved = best_gap[seen] < 0.5 * mark[seen]
            mark[seen] = torch.where(halved, best_gap[seen], mark[seen])
            waited[seen] = torch.where(halved, 0, waited[seen] + 1)
            gap, patient = best_gap[index], waited[index] < PATIENCE
            stay = torch.nonzero((gap > 0.01 * tol) & (patient | (gap > tol)))[:, 0]
            if len(stay) < len(index):
                index, problem, state = index[stay], problem[stay], tuple(part[stay] for part in state)
            if not len(index):
                break
        moves = step(problem, *state)
        steps[index] += 1
        sound = torch.stack([dx.reshape(len(dx), -1).sum(-1).isfinite() for dx in moves]).all(0)
        state = tuple(
            x + torch.where(sound.view(-1, *[1] * (x.ndim - 1)), dx, 0.0)
            for x, dx in zip(state, moves, strict=True)
        )
    return best_W, best_dual, best_gap, steps


def room(r: Float[Tensor, "B m"]) -> Float[Tensor, "B 1"]:
    """The slack that rows start with where W has length 1: a tenth, or of the right-hand sides if small.

    They are where every W is long, and rows with much more slack than they ask for would hide it.
    """
    return 0.1 * r.abs().amax(-1, keepdim=True).clamp_max(1.0)
