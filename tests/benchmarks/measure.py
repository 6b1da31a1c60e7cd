"""Time, memory, the machine, and a table."""

import ctypes
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch


def seconds(function, *args):
    """Wall time of one call, and what it returned."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = function(*args)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def pairs(ours, baseline, repeats):
    """Alternate the two, so that a busy machine slows both; medians, and the median of the paired ratios.

    Args:
        ours, baseline: functions of no arguments, each returning how many units (trials, problems) it did.
    """
    ours()  # first call: allocator, thread pools
    times = []
    for _ in range(repeats):
        t_ours, units = seconds(ours)
        t_baseline, baseline_units = seconds(baseline)
        times.append((t_ours / units, t_baseline / baseline_units))
    return {
        "seconds_per_unit": median(a for a, _ in times),
        "baseline_seconds_per_unit": median(b for _, b in times),
        "times_faster": median(b / a for a, b in times),
        "repeats": repeats,
    }


def peak_memory(function):
    """MiB by which the process' resident memory rose at its highest during the call; None if unknown."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")

    def read(field):
        return next(int(s.split()[1]) for s in status.read_text().splitlines() if s.startswith(field)) / 1024

    try:
        ctypes.CDLL(None).malloc_trim(0)  # what earlier calls left in the allocator must not hide a new peak
        clear.write_text("5")  # Linux: forget the old peak
        before = read("VmRSS")
        function()
        return max(0.0, read("VmHWM") - before)
    except (OSError, StopIteration, AttributeError):
        function()
        return None


def machine(threads):
    """What the numbers depend on."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = (s for s in info.read_text().splitlines() if s.startswith("model name"))
        name = next(lines, f":{name}").split(":", 1)[1].strip()
    packages = ("torch", "numpy", "scipy", "cvxpy", "numba", "clarabel", "scs")
    return {
        "cpu": name,
        "cores": os.cpu_count(),
        "threads": threads,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }


def short(value):
    """Three significant digits, and units where they help."""
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def table(title, rows):
    """Print rows of one kind, a column for each key."""
    print(f"\n{title}")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns] + [[short(row.get(key, "")) for key in columns] for row in rows]
    widths = [max(len(line[k]) for line in cells) for k in range(len(columns))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
