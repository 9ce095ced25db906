"""What nodes without the store's folder give back: every write names its attempt, and only the newest one may write.

Bytes are collected beside the run (`incoming/`), checked by their SHA-256 and put in place in one step, under the same
lock as a change of the job's attempt: one that was given up can change nothing any more.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from django.conf import settings
from django.db import transaction

from harness.datasets.content import disk_full_told, space_check
from harness.errors import Conflict, Invalid, NotFound, TooLarge
from harness.ids import new_id
from harness.jobs.control.parts import nodes_of, ranks_on, unheard_nodes
from harness.jobs.control.placing import checkpoint_place, checkpoints_claim, checkpoints_remove
from harness.jobs.control.reading import event_read
from harness.jobs.models import Checkpoint, Job, JobAttempt
from harness.pool.models import Node
from harness.store import UnsafePath, folder_beneath
from harness.transfer import lending
from harness.transfer.trees import MANIFEST, plain_open, tree_read
from worker.events import EventKind
from worker.plan import RunPaths
from worker.transfer.tree import CHECKPOINT_NAME, FILE_NAME, Tree, TreeFile
from worker.trees import tree_bytes, tree_remove
from worker.words import size_words

CHECKPOINT, RESULTS = "checkpoint", "results"
LOG_BYTES_MAX = 64 << 20
"""Of one rank in one attempt; nodes keep half of it."""
EXIT_BYTES_MAX = 1 << 20


class Sender:
    """An attempt's part on one node, that has been found to be the newest. Make it by `sender_get`."""

    def __init__(self, node: Node, attempt: JobAttempt) -> None:
        nodes = nodes_of(attempt)
        self.node, self.attempt, self.first = node, attempt, node.name == nodes[0]
        store: RunPaths = settings.STORE.job(attempt.job_id)
        self.paths = RunPaths(store.root, "" if self.first else node.name)
        self.checkpoints = str(self.paths.checkpoints.relative_to(store.root))
        """Where those lie that it returns; of others than the first they count when control has taken them."""

    @property
    def incoming(self) -> Path:
        """Where its bytes are collected."""
        return self.paths.root / "incoming" / f"{self.attempt.number}-{self.node.pk}"

    def staged(self, kind: str, name: str) -> Path:
        """Folder in which the files of one tree are collected. Raises `Invalid`, `Conflict`."""
        named = CHECKPOINT_NAME.fullmatch(name) if kind == CHECKPOINT else kind == name == RESULTS
        if not named:
            raise Invalid(f"{name!r} is not something a run returns.", field="name")
        saves = kind == CHECKPOINT and self.attempt.run_plan.least
        if not self.first and not saves:
            raise Conflict("Only the first node of a run returns checkpoints and results.", code="not_first")
        return self.incoming / f"{kind}-{name}"

    @property
    def ranks(self) -> frozenset[int]:
        """Its ranks on this node, and those that may come while it runs: a run that may grow has one node."""
        return ranks_on(self.attempt, self.node.name) | set(range(self.attempt.run_plan.most))


def sender_get(node: Node, job_id: str, token: int, *, lock: bool = False) -> Sender:
    """Who may write for this attempt. Raises `NotFound`, `Conflict` (`stale_attempt`).

    `lock`: call it in a transaction; until its end the attempt stays the newest.
    """
    rows = Job.objects.select_for_update() if lock else Job.objects
    job = rows.filter(pk=job_id).first()
    attempt = JobAttempt.objects.filter(job_id=job_id, number=token).first()
    if job is None or attempt is None or node.name not in nodes_of(attempt):
        raise NotFound("This node has no part in such an attempt.")
    if job.token != token or attempt.ended_at is not None:
        raise Conflict(f"Attempt {token} is no longer the newest one.", code="stale_attempt")
    if node.name in unheard_nodes(attempt):
        raise Conflict(f"Attempt {token} continues without this node.", code="stale_attempt")
    return Sender(node, attempt)


def checkpoints_get(sender: Sender) -> dict[str, Tree]:
    """Whole checkpoints of the job that control knows of, by name: those that the attempt begins with.

    Raises `Conflict`.
    """
    names = Checkpoint.objects.filter(job_id=sender.attempt.job_id, removed_at=None).values_list("name", flat=True)
    found = {}
    if sender.first:  # of others one may ask while the first saves
        with _as_it_should_be():
            checkpoints_claim(sender.paths.root, sender.checkpoints, sender.attempt.number)
    for name in sorted(name for name in names if CHECKPOINT_NAME.fullmatch(name)):
        with suppress(NotFound):
            tree = tree_read(sender.paths.root, f"work/checkpoints/{name}")
            if MANIFEST in {file.name for file in tree.files}:
                found[name] = tree
    return found


def checkpoint_open(sender: Sender, name: str, file: str) -> BufferedReader:
    """One file of a checkpoint. Raises `NotFound`."""
    if not CHECKPOINT_NAME.fullmatch(name):
        raise NotFound("There is no such checkpoint.")
    return plain_open(sender.paths.root, f"work/checkpoints/{name}", file)


def piece_write(sender: Sender, *, kind: str, name: str, file: str, offset: int, body: bytes) -> int:
    """Keep bytes of a file that is to be returned; where to go on.

    Raises `Invalid`, `Conflict` (`wrong_offset`, with the right one in `details`), `TooLarge`, `NoSpace`.
    """
    folder = sender.staged(kind, name)
    if not FILE_NAME.fullmatch(file):
        raise Invalid(f"{file!r} is not a file name.", field="file")
    limit_bytes = sender.attempt.run_plan.limits.disk_bytes
    if tree_bytes(sender.incoming) + len(body) > limit_bytes:
        for other in _children(sender.incoming):
            if other != folder:  # of what was given up: one tree is sent at a time
                tree_remove(other)
        if tree_bytes(folder) + len(body) > limit_bytes:
            tree_remove(folder)
            raise TooLarge(f"A run may return at most {size_words(limit_bytes)} at once.")
    space_check(len(body))
    folder.mkdir(parents=True, exist_ok=True)
    return _append(folder / file, offset, body)


def uploads_get(sender: Sender, *, kind: str, name: str, tree: Tree) -> dict[str, str]:
    """Where in the object store the node may put files of what it returns, by name; the others go by `piece_write`.

    Raises `Invalid`, `Conflict`, `TooLarge`, `NoSpace`.
    """
    sender.staged(kind, name)
    _room_check(sender, tree)
    space_check(tree.bytes)
    return lending.uploads_get(sender, tree)


def _append(path: Path, offset: int, body: bytes) -> int:
    """Write bytes at the end of a file; its size. Raises `Conflict` where the end is elsewhere."""
    with disk_full_told(), path.open("ab") as stream:
        size = stream.tell()
        if size != offset:
            raise Conflict(f"The file has {size} bytes here.", code="wrong_offset", details={"offset": size})
        stream.write(body)
    return offset + len(body)


def tree_commit(node: Node, job_id: str, token: int, *, kind: str, name: str, tree: Tree, removed: list[str]) -> None:
    """Put a whole checkpoint, or files of the results, in place; remove checkpoints that the run has removed.

    Asked again after its answer was lost, it changes nothing. Raises `Invalid` (`checksum_mismatch`: what was sent is
    forgotten), `Conflict`, `NotFound`, `TooLarge`.
    """
    sender = sender_get(node, job_id, token)
    folder = sender.staged(kind, name)
    if not all(CHECKPOINT_NAME.fullmatch(item) for item in removed):
        raise Invalid("A removed checkpoint has a name that none has.", field="removed")
    again = not folder.is_dir() and _is_placed(sender, kind, name, tree)
    taken = {} if again else lending.uploads_take(sender, folder, tree)
    if again or _is_placed(sender, kind, name, tree):  # what is removed may not have gone yet
        tree_remove(folder)
    else:
        _staged_check(folder, tree)
        try:
            _room_check(sender, tree)
        except TooLarge:
            tree_remove(folder)
            raise
    gone = settings.STORE.gone / f"{job_id}-{new_id()}"
    gone.mkdir(parents=True)
    try:
        with _as_it_should_be(), transaction.atomic():
            sender = sender_get(node, job_id, token, lock=True)
            root, checkpoints = sender.paths.root, sender.checkpoints
            if not folder.is_dir():  # the same commit, sent twice, was faster
                if not _is_placed(sender, kind, name, tree):
                    raise _mismatch()
            elif kind == CHECKPOINT:
                checkpoint_place(root, checkpoints, name, staged=folder, gone=gone)
            else:
                _results_place(sender, folder, tree)
            if kind == CHECKPOINT:
                checkpoints_remove(root, checkpoints, [item for item in removed if item != name], gone=gone)
    finally:
        tree_remove(gone)
    for path in sender.incoming.parent.iterdir():
        if int(path.name.partition("-")[0]) < token:
            tree_remove(path)
    lending.uploads_keep(sender, taken)


@contextmanager
def _as_it_should_be() -> Iterator[None]:
    try:
        yield
    except UnsafePath as error:
        raise Conflict(f"The run's folder in the store is not as it should be: {error}.") from error


def _staged_check(folder: Path, tree: Tree) -> None:
    """Pass where exactly the files of the tree are there, as they were sent; on the disk for good."""
    here = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    named = {file.name for file in tree.files}
    if not named or here != named or not all(_is(folder, file) for file in tree.files):
        tree_remove(folder)
        raise _mismatch()


def _mismatch() -> Invalid:
    return Invalid("Not all files arrived as they were sent.", code="checksum_mismatch", hint="Send them again.")


def _is_placed(sender: Sender, kind: str, name: str, tree: Tree) -> bool:
    """Whether the store has exactly this checkpoint."""
    try:
        return kind == CHECKPOINT and tree_read(sender.paths.root, f"{sender.checkpoints}/{name}") == tree
    except NotFound:
        return False


def _room_check(sender: Sender, tree: Tree) -> None:
    """Pass where a run keeps to its limit of disk; old and new lie there together for a moment. Raises `TooLarge`."""
    limit_bytes = sender.attempt.run_plan.limits.disk_bytes
    if tree.bytes > limit_bytes or tree_bytes(sender.paths.work) + tree.bytes > 2 * limit_bytes:
        raise TooLarge(f"The files of a run may take {size_words(limit_bytes)}.")


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _is(folder: Path, file: TreeFile) -> bool:
    with (folder / file.name).open("rb") as stream:
        if os.fstat(stream.fileno()).st_size != file.bytes:
            return False
        os.fsync(stream.fileno())
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def _results_place(sender: Sender, folder: Path, tree: Tree) -> None:
    with folder_beneath(sender.paths.root, "work/results") as place:
        for file in tree.files:
            os.rename(folder / file.name, file.name, dst_dir_fd=place)
        os.fsync(place)


def log_append(node: Node, job_id: str, token: int, *, rank: int, offset: int, body: bytes) -> int:
    """Append to the log of a rank; its size. Raises as `piece_write`, and `NotFound`."""
    with transaction.atomic():
        sender = sender_get(node, job_id, token, lock=True)
        if rank not in sender.ranks:
            raise NotFound("This node has no such rank.")
        if offset + len(body) > LOG_BYTES_MAX:
            raise TooLarge(f"A log has at most {size_words(LOG_BYTES_MAX)}.")
        path = sender.paths.rank_log(token, rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        return _append(path, offset, body)


def exit_write(node: Node, job_id: str, token: int, body: bytes) -> None:
    """Keep the record of the end of this node's part. Raises `Invalid`, `Conflict`, `NotFound`."""
    try:
        event = event_read(body.decode())
    except ValueError as error:
        raise Invalid("This is not the record of the end of an attempt.") from error
    if (event.kind, event.job_id, event.token) != (EventKind.EXITED, job_id, token) or len(body) > EXIT_BYTES_MAX:
        raise Invalid("This is not the record of the end of this attempt.")
    with transaction.atomic():
        file = sender_get(node, job_id, token, lock=True).paths.exit_file(token)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.new")
        with draft.open("wb") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
