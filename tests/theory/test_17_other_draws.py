"""Lesson 17. The numbers that it marks by a dagger (other seeds, an integral for all), and another size.

Counts may differ by one on other processors: a run may be off by just about one per cent.
"""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from course import exercises
from course.replicate import lesson_17 as replicate
from mini_attn import data, geometry, losses, rates

weights_to_come, _, _, drift = (spec.reference for spec in exercises.exercises("17"))


def kappas(rows, lam):
    """As in 17.4: the eigenvalues of M that are not 0, in rising order."""
    mu = 1 / np.linalg.norm(lam @ rows)
    half = np.sqrt(lam)[:, None] * (rows - mu**2 * (lam @ rows))  # M is mu half^T half
    return np.linalg.eigvalsh(mu * half @ half.T)[1:]


def runs_away(P, tau, R_1):
    """As in 17.8: where q' = P e^(q - tau (R - R_1)) is infinite."""
    if tau >= P:
        return math.inf
    return R_1 - math.log1p(-tau / P) / tau if tau else R_1 + 1 / P


def test_arrivals_and_changes_of_tokens_on_2300_other_problems():
    """17.4: 2 of 408 arrived runs are off at 600, by 2%, and 1 of 1,460 at 2,000, whose tokens had changed.
    17.8: 22 of 23 changes are forecast, with one false alarm; the largest R is .82 to 1.25 of R*, and the
    clock at the change 1.17 to 1.48 of that."""
    found = replicate.settled(range(8, 31), weights_to_come, kappas)
    for i, arrived, off in ((1, 408, 2), (2, 1460, 1)):
        come = found.kappa_min * (found.reach[i] - found.reach[0]) - found.a_0 > 3
        there = come & (found.delta * found.reach[i] > 4)
        assert abs(there.sum() - arrived) <= 2
        late = there & (found.off[i] > 0.01)
        assert abs(late.sum() - off) <= 1
        assert found.off[i][late & (found.left_at == math.inf)].max(initial=0) < 0.025
    pairs = zip(found.tokens, found.weights, strict=True)
    told = [replicate.forecast(tokens, at_200, runs_away) for tokens, (at_200, *_) in pairs]
    R_star, W_hat = (np.concatenate(part) for part in zip(*told, strict=True))
    flagged, changes = R_star < 2000, found.left_at < math.inf
    assert (changes.sum(), (changes & flagged).sum(), (flagged & ~changes).sum()) == (23, 22, 1)
    both = np.flatnonzero(changes & flagged)
    most = np.array([(found.ways[int(k)].flatten(1).numpy() @ W_hat[k]).max() for k in both])
    stand, gone = most / R_star[both], found.left_at[both] / most
    assert [stand.min(), stand.max()] == pytest.approx([0.82, 1.25], abs=0.01)
    assert [gone.min(), gone.max()] == pytest.approx([1.17, 1.48], abs=0.01)


def test_the_integral_for_all_six_hundred_runs():
    """17.4: from the u measured at 200, 58 runs at 600 and 9 at 2,000 end over 1% of what is across from the
    integral; 250 and 75 so far from r."""
    found = replicate.settled(range(2, 8), weights_to_come, kappas)
    assert np.abs((found.off[1:] > 0.01).sum(1) - [250, 75]).max() <= 2
    missed = np.zeros(2, dtype=int)
    for tokens, weights in zip(found.tokens, found.weights, strict=True):
        chosen = geometry.selected_tokens(tokens.compare(tokens.z @ weights[2].mT))
        problem, solution = replicate.limit(tokens, "W", chosen, "fro")
        strengths = rates.strengths(tokens, chosen)
        for k in range(100):
            rows, lam, c = replicate.tight(problem, solution, strengths, k)
            unit, span = lam @ rows / np.linalg.norm(lam @ rows), np.linalg.svd(rows, full_matrices=False)[2]
            w = np.array([W[k].flatten().numpy() for W in weights])
            R, across = w @ unit, w - np.outer(w @ unit, unit)
            u = (across - weights_to_come(rows, lam, c, 0 * unit, 0.0)) @ span.T  # (3, k), in the span
            short = rows @ span.T
            path = solve_ivp(
                lambda _, v, rows=short, lam=lam: drift(rows, lam, v),
                (R[0], R[2]),
                u[0],
                method="LSODA",  # it is stiff
                t_eval=R[1:],
                rtol=1e-6,
                atol=1e-6,
            )
            miss = np.linalg.norm(path.y.T - u[1:], axis=1) / np.linalg.norm(across[1:], axis=1)
            missed += miss > 0.01
    assert np.abs(missed - [58, 9]).max() <= 1


def long_steps(seed, factors):
    """NGD's run on twenty problems, and for each factor the weights after 1 to 700 steps of it times eta*."""
    first = replicate.descent("W", 20, seed, 0.1, [3000])
    longest = rates.remainder(first.problem, first.solution, first.strengths).longest[:, None, None]
    eta, path = torch.cat([factor * longest for factor in factors]), []
    each = (getattr(first.tokens, name) for name in ("X", "z", "y", "v"))
    tokens = data.TokenData(*(torch.cat(len(factors) * [one]) for one in each))
    W = torch.zeros(len(eta), *first.path[0].shape[1:], dtype=eta.dtype)
    for _ in range(700):
        W = W + eta * replicate.pull(W, tokens)[0]
        path.append(W)
    return first, torch.stack(path).split(20, 1)


def test_the_best_factor_at_another_size(monkeypatch):
    """17.5: at (4, 5, 10), 2 or 3 eta* comes to one degree first in 36 of 40 problems."""
    monkeypatch.setitem(replicate.SIZES, "W", (4, 5, 10))
    factors, best = np.array([0.5, 0.9, 1.1, 1.5, 2, 3, 4, 8]), []
    for seed in (17, 101):
        first, paths = long_steps(seed, factors)
        goal = first.solution.value, math.radians(1)
        steps = np.array([replicate.arrival(path, range(1, 701), *goal) for path in paths])
        best.extend(factors[np.nan_to_num(steps, nan=math.inf).argmin(0)])
    assert abs(np.isin(best, (2, 3)).sum() - 36) <= 1


def test_long_steps_may_end_on_other_tokens():
    """17.5: against .5 eta*, 15 of 120 problems at 4 eta*, 7 of these with a lower loss, and 3 at .9 eta*."""
    changed, lower = np.zeros(2, dtype=int), 0
    for seed in range(101, 107):
        first, paths = long_steps(seed, (0.5, 0.9, 4))
        tokens, W = first.tokens, torch.stack([path[-1] for path in paths])
        ends = [geometry.selected_tokens(tokens.compare(tokens.z @ one.mT)) for one in W]
        other = torch.stack([(end != ends[0]).any(-1) for end in ends[1:]])
        changed += other.sum(1).numpy()
        scores = [tokens.scores.gather(-1, end[..., None])[..., 0] for end in (ends[0], ends[2])]
        before, after = (losses.logistic.value(one).mean(-1) for one in scores)
        lower += int((after < before)[other[1]].sum())
    assert (*changed, lower) == (3, 15, 7)
