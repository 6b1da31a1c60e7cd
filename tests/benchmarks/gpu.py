"""The same work on the CPU and on a CUDA device, and how much of the device the training loop uses."""

import torch
from measure import seconds
from training import _fit

from mini_attn import data, svm


def _bandwidth():
    """Bytes a second of a large copy: what the card gives, measured."""
    a = torch.empty(2**27, dtype=torch.float64, device="cuda")
    b = torch.empty_like(a)
    b.copy_(a)
    took, _ = seconds(lambda: [b.copy_(a) for _ in range(10)])
    return 10 * 2 * a.numel() * a.element_size() / took


def gpu(quick):
    n, T, d = 6, 8, 10
    peak = _bandwidth()
    rows = []
    for trials in (100,) if quick else (100, 10_000, 100_000):
        tokens = data.random_tokens(n, T, d, trials=trials, seed=0)
        row = {"trials": trials, "copy_GB_s": peak / 1e9}
        steps = 5 if quick else 200
        for device in ("cpu", "cuda"):
            here = tokens.to(device=device)
            few = max(2, steps // 20) if device == "cpu" else steps
            _fit("W", here, 2)
            took, _ = seconds(_fit, "W", here, few)
            row[f"{device}_trial_steps_per_s"] = trials * few / took
            if trials <= 10_000:
                problem = svm.attention_problem(here.X, here.z, here.optimal)
                svm.solve(problem[:2], norm="fro", throw=False)
                took, _ = seconds(lambda p=problem: svm.solve(p, norm="fro", throw=False))
                row[f"{device}_problems_per_s"] = trials / took
        # the least a step must move: the tokens once to compare and once to pull back, and W read and written
        least = trials * (2 * n * T * d + 2 * d * d) * 8
        row["share_of_copy_bandwidth"] = least * row["cuda_trial_steps_per_s"] / trials / peak
        rows.append(row)
    return "CPU and GPU, n=6, T=8, d=10, float64", rows
