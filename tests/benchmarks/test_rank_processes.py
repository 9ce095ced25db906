"""Ranks that a benchmark times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.rank_processes import figures_of, launched

ONE_STANDS_STILL = "import os, signal; signal.pause() if os.environ['RANK'] == '1' else print('{}')"


def test_a_rank_that_stands_still_ends_with_the_launch(tmp_path: Path) -> None:
    ranks = [{**os.environ, "RANK": str(rank)} for rank in range(2)]
    with pytest.raises(subprocess.TimeoutExpired):
        launched([sys.executable, "-c", ONE_STANDS_STILL], tmp_path, ranks, limit_s=0.5)
    left = [child for child in psutil.Process().children() if ONE_STANDS_STILL in child.cmdline()]
    assert left == []


def test_ranks_share_one_limit(tmp_path: Path) -> None:
    sleeps = "import os, time; time.sleep(1.5 * float(os.environ['RANK']))"
    ranks = [{**os.environ, "RANK": str(rank)} for rank in (1, 2)]
    with pytest.raises(subprocess.TimeoutExpired):
        launched([sys.executable, "-c", sleeps], tmp_path, ranks, limit_s=2.5)


def test_a_rank_that_ends_without_its_figures_is_named_with_what_it_said_last() -> None:
    assert figures_of(["warm\n{}", "[1]"]) == [{}, [1]]
    with pytest.raises(RuntimeError, match="rank 1 ended without its figures; its last line: 'Killed'"):
        figures_of(["{}", "started\nKilled"])
    with pytest.raises(RuntimeError, match="rank 0 ended without"):
        figures_of([""])
