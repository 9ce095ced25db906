"""The parts of the pages' scripts that need no browser: their own tests, run by Node.js, and what the server shares."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.csv import csv_chunks
from harness.pages import figures
from tests.untested import untested
from worker.words import share_words

HERE = Path(__file__).parent
TESTS = sorted(HERE.glob("*.test.js"))
NODE = shutil.which("node", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
"""As `make lint` looks for it: set-up puts one beside Python where the system has none that is new enough."""
NO_NODE = untested("scripts of the pages", "install Node.js 18 or newer")
WRITERS: dict[str, Callable[[Any], str]] = {
    "number": figures.figure,
    "short": figures.short,
    "percent": figures.percent,
    "share": share_words,
    "csv": lambda value: csv_line(value, "").removesuffix(",\n"),
}


def csv_line(*values: Any) -> str:
    """The line that the server writes for the values."""
    return b"".join(csv_chunks((), [values])).decode().removeprefix("\n")


@pytest.mark.skipif(NODE is None or not (HERE.parent.parent / "node_modules").is_dir(), reason=NO_NODE)
def test_the_scripts_pass_their_own_tests() -> None:
    done = subprocess.run(
        [str(NODE), "--test", "--test-reporter=spec", *map(str, TESTS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert TESTS and done.returncode == 0, f"\n{done.stdout}"


@pytest.mark.parametrize("kind", WRITERS)
def test_the_server_writes_figures_as_the_scripts_do(kind: str) -> None:
    cases = json.loads((HERE / "written.json").read_text())[kind]
    assert [[value, WRITERS[kind](value)] for value, _ in cases] == cases
