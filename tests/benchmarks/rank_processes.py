"""Ranks that a benchmark times, each a process of its own: what they told, and none left where one broke."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def launched(
    argv: Sequence[str], program: Path, environments: Sequence[Mapping[str, str]], limit_s: float
) -> list[str]:
    """What each rank printed. One that stands still ends with the others: they would take cores from what comes next.

    Raises `subprocess.TimeoutExpired` where not all have ended within `limit_s`.
    """
    until_s = time.monotonic() + limit_s
    started = [
        subprocess.Popen(argv, cwd=program, env=dict(own), stdout=subprocess.PIPE, text=True) for own in environments
    ]
    try:
        return [process.communicate(timeout=until_s - time.monotonic())[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def figures_of(texts: Sequence[str]) -> list[Any]:
    """The JSON that each rank printed last. Raises `RuntimeError` where one ended without."""
    found = []
    for rank, text in enumerate(texts):
        last = (text.splitlines() or [""])[-1]
        try:
            found.append(json.loads(last))
        except ValueError:
            raise RuntimeError(f"rank {rank} ended without its figures; its last line: {last[:200]!r}") from None
    return found
