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


def between(text: str, begin: str, end: str, content: str) -> str:
    """A text with what stands between two of its lines replaced.

    Raises:
        ValueError: one of the lines is missing.
    """
    before, begins, rest = text.partition(begin)
    _, ends, after = rest.partition(end)
    if not begins or not ends:
        raise ValueError(f"the lines {begin.strip()!r} and {end.strip()!r} are not both there")
    return before + begin + content + end + after
