"""Gives what a run makes back to the store, while it runs: logs as they grow, checkpoints, and at the end the results.

Every request names the attempt, and the portal takes nothing of one that is not the job's newest any more. A checkpoint
is told to control only once the store has it whole: a restart elsewhere finds what control knows of.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from worker.events import Event, EventKind
from worker.plan import RunPaths, RunPlan
from worker.telemetry.tail import open_below
from worker.transfer.portal import Portal, PortalAway, PortalRefused, Stopped, TransferError, patiently
from worker.transfer.signed import SIGNED_BYTES_MIN, BucketAway, Signed
from worker.transfer.tree import CHECKPOINT_NAME, FILE_NAME, FILES_MAX, Tree, TreeFile, tree_read

PIECE_BYTES = 8 << 20
LOG_BYTES = 1 << 20
LOOK_S, LOOK_MOST_S = 1.0, 60.0
"""Between rounds, and the most after some that failed: each may read and send a whole checkpoint again."""
RESENDS_MAX = 3
REMOVED_MAX = 1000
_NOT_OURS = frozenset({401, 403, 404})
"""Answers that say that this node has no part in the attempt."""
_log = logging.getLogger(__name__)


class Returner:
    """A thread beside the supervisor's. `first`: results are written by this node, and what it saves is told."""

    def __init__(self, portal: Portal, plan: RunPlan, paths: RunPaths, ranks: Sequence[int], *, first: bool) -> None:
        self.refused = threading.Event()
        """The portal takes nothing of this attempt any more: another one has taken over."""
        self.kept: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        """Data of CHECKPOINT events whose files the store has."""
        self.away = ""
        """Why the portal takes nothing now; empty while it does."""
        self._portal, self._paths, self._first = portal, paths, first
        self._base = f"/runs/{plan.job_id}/{plan.token}"
        self._logs = {rank: paths.rank_log(plan.token, rank) for rank in ranks}
        self._sent = dict.fromkeys(ranks, 0)
        self._told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._waiting: deque[dict[str, Any]] = deque()
        """Checkpoints that were told and are not in the store yet."""
        self._results: dict[str, tuple[int, int]] = {}
        """Files of the results that the store has: name -> (size, time of change in ns)."""
        self._removed: list[str] = []
        """Checkpoints that went here and not in the store yet."""
        self._ending = threading.Event()
        self._end_s = float("inf")
        self._problem = ""
        self._complete = False
        """The last round, in which the run had ended, left nothing to do."""
        self._thread = threading.Thread(target=self._run, name="return", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hold(self, events: list[Event]) -> list[Event]:
        """Keep the CHECKPOINT events back until the store has their files; the rest passes."""
        for event in events:
            if event.kind is EventKind.CHECKPOINT:
                self._told.put(dict(event.data))
        return [event for event in events if event.kind is not EventKind.CHECKPOINT]

    def offer(self, saved: Iterable[dict[str, Any]]) -> None:
        """Return checkpoints that no rank tells of, by data of CHECKPOINT events. Of a node that is not the first they
        count only once control has taken them."""
        for data in saved:
            self._told.put(data)

    def finish_begin(self, limit_s: float) -> None:
        """Return the rest, within `limit_s` from now; asked again, the newer limit counts."""
        self._end_s = time.monotonic() + limit_s
        self._ending.set()

    def finished(self, wait_s: float) -> bool:
        """Whether all that can be done is done; waits for it so long at most."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def problem(self) -> str:
        """Why not everything could be returned; empty where the store has it all."""
        return "" if self._complete else self._problem or self._no_answer()

    def _no_answer(self) -> str:
        return f"the portal did not take it in time{f' ({self.away})' if self.away else ''}"

    def exit_record(self, text: str, limit_s: float) -> None:
        """Leave the record of the end in the store: a broker that loses its memory loses it not."""
        try:
            patiently(lambda: self._portal.send("PUT", f"{self._base}/exit", text.encode()), limit_s=limit_s)
        except TransferError as error:
            _log.warning("the record of the end is not in the store: %s", error)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        look_s = LOOK_S
        while True:
            ending = self._ending.wait(look_s)
            look_s = min(LOOK_MOST_S, 2 * look_s)
            try:
                self._round(ending)
                self._problem, self._complete, look_s = "", ending, LOOK_S
            except Stopped:
                self._problem = self._no_answer()
            except Exception as error:  # whatever it is: what was not returned must not count as returned
                self._problem = str(error) or type(error).__name__
                _log.warning("cannot return to the store: %s", self._problem)
                if isinstance(error, PortalRefused) and (error.code == "stale_attempt" or error.status in _NOT_OURS):
                    self.refused.set()
                    return
            if ending:
                return

    def _round(self, ending: bool) -> None:
        for rank in self._logs:
            self._log_send(rank)
        while not self._told.empty():
            self._waiting.append(self._told.get())
        while self._waiting:
            self._checkpoint(self._waiting[0])
            self._waiting.popleft()
        while self._first and (ending or not self._results) and self._results_send() and ending:
            pass

    def _patiently(self, work: Callable[[], Any]) -> Any:
        """As `patiently`: while the run goes on nothing is given up, and then until `_end_s`."""

        def once() -> Any:
            try:
                answer = work()
            except PortalAway as away:
                self.away = str(away)
                raise
            self.away = ""
            return answer

        return patiently(once, limit_s=math.inf, stopped=lambda: time.monotonic() > self._end_s)

    def _log_send(self, rank: int) -> None:
        """What the log has grown by."""
        try:
            file = self._logs[rank].open("rb")
        except FileNotFoundError:
            return
        with file:
            while True:
                file.seek(self._sent[rank])
                body = file.read(LOG_BYTES)
                if not body:
                    return
                self._sent[rank] = self._piece(f"/logs/{rank}", body, self._sent[rank])

    def _piece(self, path: str, body: bytes, offset: int, **query: object) -> int:
        """Send bytes that belong at `offset`; where to go on, which the portal knows best."""

        def once() -> int:
            try:
                answer = self._portal.send("PUT", f"{self._base}{path}", body, offset=offset, **query)
            except PortalRefused as refused:
                if refused.code == "wrong_offset" and isinstance(refused.details, dict):
                    return int(refused.details["offset"])
                raise
            return int(answer["offset"])

        return int(self._patiently(once))

    def _checkpoint(self, data: dict[str, Any]) -> None:
        """Return one and have it told; what was removed meanwhile goes with it, or with the next one."""
        name, named = str(data.get("name", "")), data.get("removed")
        names = [str(item) for item in named] if isinstance(named, list) else []
        self._removed += [item for item in names if CHECKPOINT_NAME.fullmatch(item)]
        folder = Path("checkpoints") / name
        tree = tree_read(self._paths.work, folder) if CHECKPOINT_NAME.fullmatch(name) else None
        if tree is None or not tree.files:
            return  # purged before its turn came; a newer one follows
        gone = [item for item in self._removed[-REMOVED_MAX:] if not (self._paths.checkpoints / item).exists()]
        try:
            if self._first:
                self._results_send()  # what predictions with this checkpoint need lies there
        except PortalAway as error:  # a file that changes all the time is at rest when the run has ended
            _log.warning("results stay here for now: %s", error)
        if self._tree_send("checkpoint", name, folder, tree, gone):
            self._removed = []
            if self._first:
                self.kept.put({**data, "removed": gone})

    def _results_send(self) -> bool:
        """Files of the results that the store does not have as they are now; plain files alone, `FILES_MAX` at once.

        False where there were none, or they changed meanwhile."""
        changed = self._results_changed()
        tree = tree_read(self._paths.work, Path("results"), sorted(changed)) if changed else None
        if tree is None or not self._tree_send("results", "results", Path("results"), tree, []):
            return False
        self._results |= changed
        return True

    def _results_changed(self) -> dict[str, tuple[int, int]]:
        found = {}
        try:
            with os.scandir(self._paths.results) as entries:
                for entry in entries:
                    if FILE_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        told = entry.stat(follow_symlinks=False)
                        found[entry.name] = (told.st_size, told.st_mtime_ns)
        except OSError:
            return {}
        changed = [name for name, mark in sorted(found.items()) if self._results.get(name) != mark]
        return {name: found[name] for name in changed[:FILES_MAX]}

    def _tree_send(self, kind: str, name: str, folder: Path, tree: Tree, removed: list[str]) -> bool:
        """Send all files, then have them put in place in one step; False where they changed meanwhile."""
        body = {"kind": kind, "name": name, "files": tree.to_list(), "removed": removed}
        there = self._signed_send(kind, name, folder, tree)
        for _ in range(RESENDS_MAX):
            if not all(self._file_send(kind, name, folder, file) for file in tree.files if file.name not in there):
                return False
            try:
                self._patiently(lambda: self._portal.json("POST", f"{self._base}/commit", body))
            except PortalRefused as refused:
                if refused.code != "checksum_mismatch":
                    raise
                there = frozenset()  # whatever it was, the portal takes them all
                continue
            return True
        raise PortalAway(f"{name} was damaged in transit {RESENDS_MAX} times")

    def _signed_send(self, kind: str, name: str, folder: Path, tree: Tree) -> frozenset[str]:
        """Put large files into the object store, where there is one; names of those that are there now."""
        large = {file.name: file for file in tree.files if file.bytes >= SIGNED_BYTES_MIN}
        if not large:
            return frozenset()
        body = {"kind": kind, "name": name, "files": tree.to_list()}
        answer = self._patiently(lambda: self._portal.json("POST", f"{self._base}/uploads", body))
        there = set()
        with closing(Signed()) as signed:
            try:
                for row in answer["uploads"]:
                    self._signed_put(signed, str(row["url"]), folder, large[str(row["name"])])
                    there.add(str(row["name"]))
            except BucketAway as error:
                _log.warning("%s goes by the portal: %s", name, error)
        return frozenset(there)

    def _signed_put(self, signed: Signed, address: str, folder: Path, file: TreeFile) -> None:
        fd = open_below(self._paths.work, folder / file.name)
        if fd is None:
            raise BucketAway(f"{file.name} is gone")
        with os.fdopen(fd, "rb") as stream:
            signed.put(address, stream, file.bytes)

    def _file_send(self, kind: str, name: str, folder: Path, file: TreeFile) -> bool:
        fd = open_below(self._paths.work, folder / file.name)
        if fd is None:
            return False
        with os.fdopen(fd, "rb") as stream:
            first = stream.read(min(PIECE_BYTES, file.bytes))
            offset = self._piece("/pieces", first, 0, kind=kind, name=name, file=file.name)
            while offset < file.bytes:
                stream.seek(offset)
                body = stream.read(min(PIECE_BYTES, file.bytes - offset))
                if not body:
                    return False
                offset = self._piece("/pieces", body, offset, kind=kind, name=name, file=file.name)
        return True
