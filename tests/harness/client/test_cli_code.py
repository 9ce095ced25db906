"""`dlh code` that is interrupted while it unpacks: nothing of the program is left."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")
COPY, MKDIR = "harness.client.cli.programs.shutil.copyfileobj", "pathlib.Path.mkdir"


def interrupting(function: Callable[..., None], last: Path) -> Callable[..., None]:
    """The function; Ctrl-C comes as soon as it is through with this file or folder."""

    def call(*given: Any, **named: Any) -> None:
        function(*given, **named)
        if str(last) in {str(given[0]), getattr(given[-1], "name", "")}:
            raise KeyboardInterrupt

    return call


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "empty folder"])
@pytest.mark.parametrize(
    ("place", "function", "last"),
    [
        (COPY, shutil.copyfileobj, "worker/runtime/__init__.py"),
        (MKDIR, Path.mkdir, "worker/runtime"),
        (MKDIR, Path.mkdir, ""),
    ],
    ids=["in a file", "after a folder", "after the first folder"],
)
def test_a_program_whose_writing_is_interrupted_is_written_by_the_same_command_once_more(
    dlh: Dlh,
    job: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: bool,
    place: str,
    function: Any,
    last: str,
) -> None:
    out = tmp_path / "a"
    if there:
        out.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(place, interrupting(function, out / last))
        ended = dlh("code", job.pk, "--out", out)
    assert ended.code == 130 and ended.err.endswith("Interrupted. Nothing was written: run the same command again.\n")
    assert [path.name for path in tmp_path.rglob("*")] == (["a"] if there else [])
    assert dlh("code", job.pk, "--out", out).code == 0 and (out / "train.py").is_file()


def test_what_cannot_be_taken_away_of_an_interrupted_program_keeps_nothing_else(
    dlh: Dlh, job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, unlink = tmp_path / "a", Path.unlink
    stuck = out / "worker" / "runtime" / "elastic" / "__init__.py"

    def refused(file: Path, missing_ok: bool = False) -> None:
        if file == stuck:
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        unlink(file, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        patch.setattr(COPY, interrupting(shutil.copyfileobj, out / "worker" / "runtime" / "servers" / "__init__.py"))
        ended = dlh("code", job.pk, "--out", out)
    assert ended.code == 130 and "Interrupted." in ended.err
    assert set(out.rglob("*")) == {stuck, *(above for above in stuck.parents if out in above.parents)}
