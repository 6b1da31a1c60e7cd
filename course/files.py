"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Write a text or bytes in one step: killed at any moment, the file is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
