"""Reading a dataset: `python -m codegen.profile` in the sandbox, progress on the way.

Parsers see hostile bytes, so they never run in the portal or in control itself.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from codegen.profile.types import PROFILE_FILE, DataProblem, DatasetProfile
from harness.store import read_beneath, tree_sync
from worker import host_limits
from worker.sandbox import Completed, SandboxLimits, run_sandboxed
from worker.trees import tree_remove

_log = logging.getLogger(__name__)
MEMORY_SHARE = 0.4
"""Of the machine's memory that one reading may take."""
WALL_LIMIT_S = 2 * 3600.0
DRAFT_PREFIX = "packing-"
_FILE_BYTES_MIN = 64 << 20
_POLL_S = 0.2
_STDERR_SHOWN = 2000


class ProfileFailed(Exception):
    """The data cannot be used; `problem` is what the person is shown."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("message", ""))
        self.problem = problem


def profile_run(
    source: Path,
    packed: Path,
    options: dict[str, Any],
    progress: Callable[[float, str], None],
    *,
    name: str,
    alive: Callable[[], None],
) -> DatasetProfile:
    """Read `source` and put its packed form at `packed`, whole or not at all.

    `progress` is called in this thread; so is `alive`, several times a second, though the reading says nothing for
    minutes, or the disk takes them to have all of it.

    `name`: of the file in problems; that of `source` is whoever's who first brought these bytes.

    Raises `ProfileFailed`.
    """
    draft = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=packed.parent))
    try:
        said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with ThreadPoolExecutor(1, thread_name_prefix="profile") as pool:
            future = pool.submit(_run, source, name, draft, options, said)
            ended = _follow(future, said, progress, alive)
            _judge(future.result(), ended)
            profile = _profile(draft)
            _plain_only(draft)
            draft.chmod(0o755)
            _await(pool.submit(tree_sync, draft), alive)  # a slow disk may take minutes for one large file
        _place(draft, packed)
        return profile
    finally:
        tree_remove(draft)


def _place(draft: Path, packed: Path) -> None:
    """Another process may have done so meanwhile. What has no profile, as after a power cut, makes way: with it there
    nothing of this content could be used, whoever uploaded it again."""
    if packed.is_dir() and not _has_profile(packed):
        _log.warning("what was packed of %s has no profile, and is replaced", packed.parent.name)
        gone = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=packed.parent))
        with suppress(FileNotFoundError):  # another process has just done so
            packed.rename(gone)
        tree_remove(gone)
    try:
        draft.rename(packed)
    except OSError:
        _log.info("%s was packed by another process meanwhile", packed.parent.name)


def _has_profile(folder: Path) -> bool:
    try:
        DatasetProfile.from_dict(json.loads(read_beneath(folder, PROFILE_FILE)))
    except (FileNotFoundError, ValueError):
        return False
    return True


def _run(
    source: Path, name: str, out: Path, options: dict[str, Any], said: queue.SimpleQueue[dict[str, Any]]
) -> Completed:
    def line(text: str) -> None:
        try:
            body = json.loads(text)
        except ValueError:
            return
        if isinstance(body, dict):
            said.put(body)

    argv = [sys.executable, "-m", "codegen.profile", str(source), str(out), f"--name={name}"]
    return run_sandboxed(
        [*argv, "--options", json.dumps(options)],
        name=out.name,
        workdir=out,
        readonly=(source,),
        writable=(out,),
        packages=("codegen", "worker"),
        limits=SandboxLimits(
            memory_bytes=int(host_limits.memory_total_bytes() * MEMORY_SHARE),
            file_bytes=max(_FILE_BYTES_MIN, settings.STORE.free_bytes() - settings.DISK_RESERVE_BYTES),
        ),
        timeout_s=WALL_LIMIT_S,
        on_line=line,
    )


def _follow(
    future: Future[Completed],
    said: queue.SimpleQueue[dict[str, Any]],
    progress: Callable[[float, str], None],
    alive: Callable[[], None],
) -> dict[str, Any]:
    """Pass progress on until the end; return the last word: `{"ok": True}`, `{"problem": {...}}` or nothing."""
    ended: dict[str, Any] = {}
    while not (future.done() and said.empty()):
        alive()
        try:
            body = said.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if isinstance(body.get("progress"), (int, float)):
            progress(float(body["progress"]), str(body.get("note", "")))
        elif "ok" in body or isinstance(body.get("problem"), dict):
            ended = body
    return ended


def _await(future: Future[None], alive: Callable[[], None]) -> None:
    while not future.done():
        alive()
        wait([future], timeout=_POLL_S)
    future.result()


def _judge(completed: Completed, ended: dict[str, Any]) -> None:
    """Pass if the reading said that all is well. Raises `ProfileFailed`."""
    if completed.returncode == 0 and ended.get("ok"):
        return
    if "problem" in ended:
        raise ProfileFailed(dict(ended["problem"]))
    _log.error("reading ended with exit code %s: %s", completed.returncode, completed.stderr[-_STDERR_SHOWN:])
    if completed.timed_out:
        raise ProfileFailed(_problem("too_slow", f"Reading took longer than {WALL_LIMIT_S / 3600:.0f} hours."))
    if completed.out_of_memory or any(words in completed.stderr for words in _NO_MEMORY):
        raise ProfileFailed(_problem("out_of_memory", "Reading this file took more memory than allowed."))
    if "No space left on device" in completed.stderr:
        raise ProfileFailed(_problem("disk_full", "The disk filled up before the file was read."))
    raise ProfileFailed(_problem("reading_failed", f"Reading this file failed (exit code {completed.returncode})."))


_NO_MEMORY = ("MemoryError", "memory allocation of")
"""As Python says it, and libraries written in Rust."""
_HINTS = {
    "out_of_memory": "Use a smaller file, or Parquet.",
    "disk_full": "Free space on the store's disk, then have it read again.",
    "too_slow": "Use a smaller file, or Parquet.",
    "reading_failed": "An admin finds the reason in control's log.",
}


def _problem(code: str, message: str) -> dict[str, Any]:
    problem = DataProblem(code=code, message=message, hint=_HINTS[code])
    return {"code": problem.code, "message": problem.message, "hint": problem.hint}


def _plain_only(folder: Path) -> None:
    """Pass if there are only plain files and folders: the portal reads them later by their names."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            _log.error("the reading left %s, which is not a regular file", path.name)
            raise ProfileFailed(
                _problem("reading_failed", "Reading this file left something that is not a regular file.")
            )


def _profile(folder: Path) -> DatasetProfile:
    try:
        return DatasetProfile.from_dict(json.loads(read_beneath(folder, PROFILE_FILE)))
    except (OSError, ValueError) as error:
        _log.exception("the reading left no profile")
        raise ProfileFailed(_problem("reading_failed", "Reading this file left no profile.")) from error
