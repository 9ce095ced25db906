"""Folders of the store as trees: files with size and SHA-256, for nodes that fetch them by content."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from django.conf import settings

from harness.bucket.wanted import wanted_check
from harness.errors import NotFound
from harness.hashes import Hashes
from harness.jobs.models import Checkpoint
from harness.jobs.services import minimum_sandbox_level
from harness.pool.models import Node, NodeState
from harness.store import UnsafePath, open_beneath
from worker.states import JobState
from worker.transfer.tree import CHECKPOINT_FOLDER, DATASET_FOLDER, FILE_NAME, FILES_MAX, JOB_FOLDER, Tree

PROGRAM, MANIFEST = "/program", "MANIFEST.json"
_MEMO = "packed.tree.json"
"""Beside a packed dataset: the hashes of its files, with the sizes and times of change that they hold for."""
_hashes = Hashes()


def folder_check(folder: str, node: Node) -> str:
    """A folder of the store that this joined node may read. Raises `NotFound`."""
    program = folder.endswith(PROGRAM) and JOB_FOLDER.fullmatch(folder.removesuffix(PROGRAM))
    if not program and not DATASET_FOLDER.fullmatch(folder) and not _is_awaited(folder, node):
        raise _missing()
    return folder


def _is_awaited(folder: str, node: Node) -> bool:
    """Whether it is a checkpoint that goes ahead of a run: of a job that waits, and only as long as it does, to a node
    that could run it."""
    if node.state != NodeState.UP or not CHECKPOINT_FOLDER.fullmatch(folder):
        return False
    _, job_id, _, _, name = folder.split("/")
    rows = Checkpoint.objects.filter(job_id=job_id, name=name, removed_at=None, job__state=JobState.QUEUED)
    row = rows.select_related("job").first()
    return row is not None and minimum_sandbox_level(row.job) <= node.sandbox_level


def _missing() -> NotFound:
    return NotFound(
        "There is no such file for nodes.", hint="Programs, packed datasets and checkpoints are named by control."
    )


def tree_get(folder: str, node: Node) -> Tree:
    """A program, a packed dataset or a checkpoint ahead of a run, for this node. Raises `NotFound`, `Unavailable`."""
    root: Path = settings.STORE.root
    folder_check(folder, node)
    is_dataset, is_checkpoint = DATASET_FOLDER.fullmatch(folder), CHECKPOINT_FOLDER.fullmatch(folder)
    unit, _, part = folder.rpartition("/")
    if not is_checkpoint:
        wanted_check(unit, part)  # a node must not take what is left of a folder for the whole
    tree = tree_read(root, folder, (root / folder).parent / _MEMO if is_dataset else None)
    if not tree.files or (is_checkpoint and MANIFEST not in {file.name for file in tree.files}):
        raise _missing()
    return tree


def tree_read(root: Path, folder: str, memo: Path | None = None) -> Tree:
    """The plain files of a folder below `root`; what is no plain file is left out. Raises `NotFound`.

    `memo`: where hashes are kept that hold as long as sizes and times of change do.
    """
    try:
        names = sorted(path.name for path in (root / folder).iterdir() if FILE_NAME.fullmatch(path.name))
    except OSError as error:
        raise _missing() from error
    known = _memo_read(memo)
    rows = [row for name in names[:FILES_MAX] if (row := _file_row(root, folder, name, known.get(name)))]
    if memo is not None and {row["name"]: row for row in rows} != known:
        _memo_write(memo, rows)
    return Tree.from_list(rows)


def _file_row(root: Path, folder: str, name: str, known: dict[str, Any] | None) -> dict[str, Any] | None:
    """Size, time of change and hash of one file; None for what is no plain file."""
    try:
        with open_beneath(root, f"{folder}/{name}") as stream:
            told = os.fstat(stream.fileno())
            same = known and (known.get("bytes"), known.get("mtime_ns")) == (told.st_size, told.st_mtime_ns)
            digest = known["sha256"] if known and same else _hashes.sha256(stream)
    except (OSError, UnsafePath):
        return None
    return {"name": name, "bytes": told.st_size, "mtime_ns": told.st_mtime_ns, "sha256": digest}


def _memo_read(memo: Path | None) -> dict[str, dict[str, Any]]:
    try:
        return {row["name"]: row for row in json.loads(memo.read_text())} if memo else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _memo_write(memo: Path, rows: list[dict[str, Any]]) -> None:
    """Best effort: without it the next node waits for the hashes again."""
    draft = memo.with_name(f".{memo.name}.{os.getpid()}")
    with suppress(OSError):
        draft.write_text(json.dumps(rows))
        draft.replace(memo)


def file_open(folder: str, name: str, node: Node) -> BufferedReader:
    """One file of what `tree_get` lists. Raises `NotFound`."""
    return plain_open(settings.STORE.root, folder_check(folder, node), name)


def plain_open(root: Path, folder: str, name: str) -> BufferedReader:
    """A plain file of a flat folder below `root`, no link followed. Raises `NotFound`."""
    if not FILE_NAME.fullmatch(name):
        raise _missing()
    try:
        return open_beneath(root, f"{folder}/{name}")
    except (OSError, UnsafePath) as error:
        raise _missing() from error
