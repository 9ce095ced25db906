"""`dlh data profile FILE`: a file read on this machine, as an upload is read; nothing is sent, nothing is kept."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from harness.client.cli.common import DataFailed, file_check, share_bar
from harness.client.client import Json
from harness.client.errors import BadInput, ClientError

_STDERR_SHOWN = 300


def profile_here(path: Path, options: Json, *, quiet: bool) -> Json:
    """The profile of a file, shaped as the portal's. Raises `BadInput`, `DataFailed`.

    The packed form goes to a temporary folder, which takes about as much of the disk as the file.
    """
    file_check(path)
    with tempfile.TemporaryDirectory(prefix="dlh-profile-") as folder, tempfile.TemporaryFile() as errors:
        # In a process of its own: the client itself knows only the HTTP API. -P as in `child_run`.
        argv = [sys.executable, "-P", "-m", "codegen.profile", str(path.absolute()), folder]
        argv += ["--options", json.dumps(options)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8") as child:
            try:
                ended = _follow(child, path.name, quiet)
            except BaseException:
                child.terminate()
                raise
        if problem := ended.get("problem"):
            raise _refusal(problem)
        if child.returncode or not ended:
            raise DataFailed(_crash(child.returncode, errors))
        body: Json = json.loads((Path(folder) / "profile.json").read_text(encoding="utf-8"))
        return body


def _follow(child: subprocess.Popen[str], name: str, quiet: bool) -> dict[str, Any]:
    """The last word of the reading, `{"ok": true}` or `{"problem": {...}}`; nothing where it gave none."""
    ended: dict[str, Any] = {}
    with share_bar(quiet=quiet) as bar:
        task = bar.add_task(f"Reading {name}", total=1.0)
        for line in child.stdout or ():
            body = json.loads(line)
            if "progress" in body:
                bar.update(task, completed=body["progress"])
            else:
                ended = body
    return ended


def _refusal(problem: Json) -> ClientError:
    """The problem as of an upload, but for what is different here."""
    if problem["code"] == "bad_options":
        return BadInput(problem["message"], hint=problem["hint"])
    if problem["code"] == "disk_full":
        place = tempfile.gettempdir()
        hint = "Free space there, or set TMPDIR to a folder with room for about as much as the file has."
        return DataFailed({**problem, "message": f"The disk of {place} is full.", "hint": hint})
    return DataFailed(problem)


def _crash(code: int, errors: IO[bytes]) -> dict[str, str]:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    said = f": {lines[-1][:_STDERR_SHOWN]}" if lines else ""
    return {
        "code": "reading_failed",
        "message": f"Reading this file failed (exit code {code}){said}.",
        "hint": "A smaller file, or Parquet, takes less memory; otherwise tell the operator.",
    }
