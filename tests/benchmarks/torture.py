"""The solvers under torture: how many answers are optimal, infeasible, stopped, wrong, crashed and so on."""

import math
import re
import time
import warnings
from collections import Counter, defaultdict

import numpy as np
import torch
from families import FAMILIES, P
from judge import default_tol, judge

from mini_attn import svm

# Problems in full of every 1,000: most in the norm that most use, few in those that take longest.
NORMS = {"fro": 500, "nuc": 100, "spectral": 60, 1: 100, 1.5: 60, 3: 60, math.inf: 80, 1.01: 20, 50.0: 20}
TOTAL, MANY_ROWS = 106_000, 24
COLUMNS = ("problems", "optimal", "infeasible", "unreachable", "unrepresentable", "stopped", "open", "wrong")
COLUMNS += ("crashed",)


def examine(problem, norm, strict=False):
    """Solve a batch and judge it.

    Returns:
        A status and a verdict for each problem: ("optimal", ""). A problem that crashes even alone has the
        status "crashed"; where only the batch does, all of it has.
    """
    try:
        solution = _solve(problem, norm)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a compiled solver is no Exception
        said = f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
        if len(problem.r) == 1:
            return [("crashed", said)]
        alone = [examine(problem[k : k + 1], norm, strict)[0] for k in range(len(problem.r))]
        if any(status == "crashed" for status, _ in alone):
            return alone
        return [("crashed", f"only in a batch: {said}")] * len(alone)
    return list(zip(solution.status.tolist(), judge(problem, solution, norm, strict), strict=True))


def _solve(problem, norm):
    with warnings.catch_warnings(action="ignore"):  # the answer counts
        return svm.solve(problem, norm, throw=False)


def compare(problem, norm):
    """Solve a batch, and each problem by itself: a status and a verdict for each."""
    try:
        together = _solve(problem, norm)
        ones = [_solve(problem[k : k + 1], norm) for k in range(len(problem.r))]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return [("crashed", f"in a batch or alone: {type(error).__name__}")] * len(problem.r)
    tol = default_tol(norm, problem.b is None)
    return [(together.status[k], unlike(together, k, one, 0, tol)) for k, one in enumerate(ones)]


def unlike(one, k, other, j, tol):
    """How answer j differs from answer k to the same problem; at the edge of tol the status may."""
    if one.status[k] != other.status[j]:
        sizes = [x for s, i in ((one, k), (other, j)) for x in (s.gap[i], s.violation[i])]
        # rows that contradict each other by less than tol may be found out, or met up to tol
        low = 1e-14 if {one.status[k], other.status[j]} == {"optimal", "infeasible"} else tol / 100
        at_edge = any(low < x < 100 * tol for x in sizes)
        return "" if at_edge else f"otherwise it is {other.status[j]}"
    apart = abs(float(one.objective[k] - other.objective[j]))
    allowed = float((one.gap[k] + other.gap[j] + 1e-12) * one.objective[k])
    return f"otherwise {apart:.1e} apart" if one.status[k] == "optimal" and apart > allowed else ""


def outcome(status, verdict):
    """The column of the table in which an answer counts."""
    if status == "crashed" or not verdict:
        return status
    return "open" if verdict.startswith("open") else "wrong"


def kind(status, verdict):
    """A verdict without its numbers."""
    return re.sub(r"[-+]?\d[\d.e+-]*", "#", f"{status}: {verdict}")


def smallest(problem, norm, strict, wanted):
    """The problem without the rows and columns that the fault does not need, and with few digits."""
    parts = {name: getattr(problem, name) for name in ("a", "b", "r")}
    parts["equality"] = problem.is_equality
    parts = {name: part for name, part in parts.items() if part is not None}

    def shows(parts):
        return kind(*examine(P(**{"b": None, **parts}), norm, strict)[0]) == wanted

    def smaller(parts):
        for j in range(parts["r"].shape[1] - 1, -1, -1):
            yield {name: torch.cat([x[:, :j], x[:, j + 1 :]], 1) for name, x in parts.items()}
        for name in ("a", "b"):
            for i in range(parts[name].shape[2] if name in parts and parts[name].shape[2] > 1 else 0):
                yield {**parts, name: torch.cat([parts[name][..., :i], parts[name][..., i + 1 :]], 2)}
        for digits in (0, 2):
            for name in ("a", "b", "r"):
                if name in parts:
                    text = [float(f"{x:.{digits}e}") for x in parts[name].flatten().tolist()]
                    rounded = torch.tensor(text, dtype=parts[name].dtype).reshape(parts[name].shape)
                    if not torch.equal(rounded, parts[name]):
                        yield {**parts, name: rounded}

    until = time.perf_counter() + 5
    found = True
    while found and time.perf_counter() < until:
        found = next((some for some in smaller(parts) if shows(some)), None)
        parts = found or parts
    return parts


def reproduce(parts, norm):
    """Code that states the problem and solves it."""

    def tensor(x):
        dtype = ", dtype=torch.float32" if x.dtype == torch.float32 else ""
        return f"t({x[0].tolist()!r}{dtype})"

    b = tensor(parts["b"]) if "b" in parts else "None"
    equality = f", torch.tensor({parts['equality'][0].tolist()})" if parts["equality"].any() else ""
    name = "math.inf" if norm == math.inf else repr(norm)
    return f"solve(P({tensor(parts['a'])}, {b}, {tensor(parts['r'])}{equality}), {name}, throw=False)"


def torture(quick, seed=0, names=tuple(FAMILIES)):
    """A row for each family and norm; the smallest example of each fault is printed."""
    counts, times, examples = defaultdict(Counter), Counter(), {}
    for norm, batch in batches(quick, seed, names):
        start = time.perf_counter()
        answers = examine(batch.problem, norm, batch.strict)
        if batch.family == "mixed" and all(status != "crashed" for status, _ in answers):
            others = compare(batch.problem, norm)
            answers = [one if one[1] else other for one, other in zip(answers, others, strict=True)]
        times[batch.family, norm] += time.perf_counter() - start
        for k, answer in enumerate(answers):
            column = outcome(*answer)
            counts[batch.family, norm].update(("problems", column))
            if column in ("wrong", "crashed", "open"):
                extent = batch.problem[k].a.numel()
                shown = (extent, batch.problem[k : k + 1], norm, batch.strict, batch.family)
                seen, best = examples.get(kind(*answer), (0, shown))
                examples[kind(*answer)] = (seen + 1, min(best, shown, key=lambda example: example[0]))
    for what, (seen, (_, problem, norm, strict, family)) in sorted(examples.items()):
        parts = smallest(problem, norm, strict, what)
        print(f"{seen} times, for example in {family}: {what}\n    {reproduce(parts, norm)}")
    rows = [
        {
            "family": family,
            "norm": str(norm),
            **{c: count[c] for c in COLUMNS},
            "seconds": times[family, norm],
        }
        for (family, norm), count in counts.items()
    ]
    rows.append({"family": "all", "norm": "all", **{c: sum(row[c] for row in rows) for c in COLUMNS}})
    return "Solvers under torture: how many problems of each family ended how, by another arithmetic", rows


def batches(quick, seed=0, names=tuple(FAMILIES)):
    """Norms and batches, the same for the same seed."""
    for i, name in enumerate(names):
        together = 1 if name == "many rows" else 4 if quick else 20
        for j, (norm, share) in enumerate(NORMS.items()):
            many = share * TOTAL // 1000 // together // len(FAMILIES)
            if quick:
                many = int((i + j) % len(NORMS) == 0)
            if name == "many rows":
                many = MANY_ROWS if norm == "fro" and not quick else 0
            for number in range(max(1, many) if norm == "fro" else many):
                rng = np.random.default_rng([seed, list(FAMILIES).index(name), j, number])
                batch = FAMILIES[name](rng, together)
                batch.family = name
                yield norm, batch
