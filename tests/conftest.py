"""What all tests share: no windows; `gpu` and `browser` skip where there are none; theory is `slow`."""

import os
import shutil
import sys
from pathlib import Path

import pytest

THEORY = Path(__file__).with_name("theory")

os.environ.setdefault("MPLBACKEND", "agg")  # before anything imports matplotlib; kernels inherit it
# jsonschema, which nbformat brings, does without this grammar of addresses; it takes seconds to load.
sys.modules.setdefault("rfc3987_syntax", None)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(THEORY):
            item.add_marker(pytest.mark.slow)
    missing = {}
    if not shutil.which("chromium") and not os.environ.get("MINI_ATTN_REQUIRE_BROWSER"):
        missing["browser"] = "no chromium on the PATH"
    if any(item.get_closest_marker("gpu") for item in items):
        import torch

        if not torch.cuda.is_available():
            missing["gpu"] = "no CUDA device"
    for item in items:
        for marker, reason in missing.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
