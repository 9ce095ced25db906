"""Unit files: systemd reads them back as they were meant, whatever stands in a path."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.systemd import install_words, quoted, unit_text
from tests.untested import untested

ANALYZE = shutil.which("systemd-analyze")
KNOWN = pytest.mark.skipif(ANALYZE is None, reason=untested("unit files read by systemd", "needs systemd-analyze"))


def verified(text: str, folder: Path) -> str:
    """What systemd finds wrong with a unit."""
    file = folder / "part.service"
    file.write_text(text)
    done = subprocess.run([str(ANALYZE), "verify", "--man=no", file], capture_output=True, text=True, timeout=60)
    return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if "part.service" in line)


@KNOWN
def test_systemd_finds_nothing_wrong_with_a_unit(tmp_path: Path) -> None:
    text = unit_text("A part", [f'{tmp_path}/a "100%" \\n/run', "$HOME"], service={"Restart": "always"})
    assert verified(text, tmp_path) == ""


@KNOWN
def test_systemd_would_say_so_if_it_could_not_read_one(tmp_path: Path) -> None:
    assert verified(unit_text("A part", ["/bin/true"], service={"Restart": "sometimes"}), tmp_path)


def test_it_runs_as_who_asks_from_boot_on() -> None:
    lines = unit_text("A part", ["/bin/true"], service={}, environment={"B": "2 3", "A": "1"}).splitlines()
    assert "WantedBy=multi-user.target" in lines
    assert [line for line in lines if line.startswith("Environment=")] == ['Environment="A=1"', 'Environment="B=2 3"']
    assert any(line.startswith("User=") for line in lines) == (os.getuid() != 0)


def test_what_means_something_to_systemd_is_taken_for_itself() -> None:
    assert quoted('50% of "a\\b"') == '"50%% of \\"a\\\\b\\""'
    with pytest.raises(ValueError, match="line breaks"):
        quoted("a\nUser=root")


def test_a_unit_that_could_not_be_printed_is_not_installed(tmp_path: Path) -> None:
    words = install_words("false", "part").replace("sudo ", "echo ")
    done = subprocess.run(["/bin/sh", "-c", words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == ""
