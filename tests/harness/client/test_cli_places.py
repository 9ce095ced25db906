"""Files and programs of this machine that `dlh` is pointed to: what it must not harm, and what it must not lose."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client.cli import app
from harness.client.cli.node_place import home_check
from harness.client.cli.paths import path_meant
from harness.client.cli.storage import size_read
from harness.client.download import Download
from harness.client.errors import BadInput
from harness.client.transport import Transport
from harness.jobs.models import Job
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


def test_what_is_no_plain_file_is_not_replaced_by_a_download(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="is not a regular file"):
        Download(Transport("http://127.0.0.1:1"), "/me", pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and [*tmp_path.iterdir()] == [pipe]


@pytest.mark.parametrize(
    ("ending", "kept"), [("exit 3", True), ("printf '\\377' >>\"$1\"", True), ("true", False), ("rm \"$1\"", False)]
)  # fmt: skip
def test_what_was_typed_in_an_editor_is_lost_by_nothing_that_goes_wrong_after_it(
    dlh: Dlh, job: Job, tmp_path: Path, monkeypatch: Any, ending: str, kept: bool
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\n[ -n "{"1" if kept else ""}" ] && echo "# an hour of work" >>"$1"\n{ending}\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    ended = dlh("jobs", "edit", job.pk, "model.py")
    left = [path for path in scratch.rglob("*") if path.is_file()]
    assert bool(left) == kept
    if kept:
        assert ended.code == 2 and f"What you wrote is kept in {left[0]}" in ended.err
        assert b"an hour of work" in left[0].read_bytes()


@pytest.mark.parametrize(("editor", "said"), [("vim '", "cannot be started: No closing quotation"), (" ", "")])
def test_an_editor_that_is_no_command_is_told(
    dlh: Dlh, job: Job, tmp_path: Path, monkeypatch: Any, editor: str, said: str
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = dlh("jobs", "edit", job.pk, "model.py")
    assert ended.code == 2 and (said or "vi cannot be started: No such file") in ended.err


def test_no_join_token_is_spent_where_its_answer_cannot_be_kept(tmp_path: Path) -> None:
    home_check(tmp_path / "new" / "home")
    assert [*(tmp_path / "new" / "home").iterdir()] == []
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot be written: Not a directory; nothing was joined"):
        home_check(tmp_path / "file" / "home")


def test_the_home_of_nobody_is_left_as_it_is_written() -> None:
    assert path_meant("~nobody-of-this-name/x") == Path("~nobody-of-this-name/x")
    assert path_meant("~/x") == Path.home() / "x"


@pytest.mark.parametrize(
    "words",
    [
        ("pool", "quota", "p", "cpu", "9" * 5000),
        ("jobs", "offer", "x", "--take", "9" * 5000),
        ("pool", "storage-quota", "p", "9" * 5000),
    ],
)
def test_a_number_of_thousands_of_digits_is_told_as_none(dlh: Dlh, words: tuple[str, ...]) -> None:
    ended = dlh(*words)
    assert ended.code == 2 and "is not a" in ended.err
    assert size_read("1.5 GiB") == 3 << 29


def test_a_closed_input_is_an_empty_one(portal: SimpleNamespace, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.delenv("DLH_TOKEN")
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "argv", ["dlh", "login", portal.url])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 2 and "There is no token." in capsys.readouterr().err
