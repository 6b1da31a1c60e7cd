import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).with_name("bench.py")


@pytest.mark.slow
def test_the_benchmark_runs_and_saves_what_it_measured(tmp_path):
    done = subprocess.run(
        [sys.executable, BENCH, "--quick", "--threads", "1", "--date", "2026-01-31", "--out", tmp_path],
        capture_output=True,
        text=True,
        timeout=1800,  # a hang; on a busy machine it takes its time
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert done.returncode == 0, done.stderr
    (saved,) = tmp_path.glob("*.json")
    results = json.loads(saved.read_text())
    assert results["machine"]["threads"] == 1
    assert results["machine"]["date"] == "2026-01-31"
    sections = {"frobenius", "nuclear", "entrywise", "large", "experiment", "schedules", "growth", "torture"}
    sections |= {"published", "threads"}
    assert sections | {"sweeps"} <= set(results["sections"])
    for row in results["sections"]["frobenius"]["rows"]:
        assert row["our_largest_gap"] <= 1e-9
        assert row["baseline_largest_gap"] <= 1e-7
        assert row["times_faster"] > 0
    for row in results["sections"]["large"]["rows"]:
        assert row["gap"] <= 1e-8
        assert row.get("first_order_gap", 0) <= 1e-8
    assert "Saved to" in done.stdout
