"""Gives what a run makes back to the store, while it runs: logs as they grow, checkpoints, and at the end the results.

Every request names the attempt, and the portal takes nothing of one that is not the job's newest any more. A checkpoint
is told to control only once the store has it whole: a restart elsewhere finds what control knows of.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from worker.events import Event, EventKind
from worker.machine_faults import may_be_one_file
from worker.plan import RunPaths, RunPlan
from worker.transfer.portal import Portal, PortalAway, PortalRefused, Stopped, TransferError, patiently
from worker.transfer.refusals import FOLDER_CLOSED, Refusals, closed_words, is_too_large
from worker.transfer.sending import Sending
from worker.transfer.tree import CHECKPOINT_NAME, FILE_NAME, FILES_MAX, Tree, file_mark, tree_read
from worker.transfer.waits import WAITS

LOG_BYTES = 1 << 20
LOOK_S, LOOK_MOST_S = 1.0, 60.0
"""Between rounds, and the most after some that failed: each may read and send a whole checkpoint again."""
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
        self.notes: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        """Data of NOTE events: what people should know."""
        self.too_large = Refusals()
        """What the store does not have for its size."""
        self._portal, self._paths, self._first = portal, paths, first
        self._sending = Sending(portal, plan, paths.work, lambda why: self.notes.put({"message": why, WAITS: True}))
        self._logs = {rank: paths.rank_log(plan.token, rank) for rank in ranks}
        self._sent = dict.fromkeys(ranks, 0)
        self._told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._waiting: deque[dict[str, Any]] = deque()
        """Checkpoints that were told and are not in the store yet."""
        self._put_off: list[dict[str, Any]] = []
        """Checkpoints that were too large when their turn came, or could not be read: once more at the end."""
        self._results: dict[str, tuple[int, int]] = {}
        """Files of the results that the store has: name -> (size, time of change in ns)."""
        self._closed: set[str] = set()
        """Those that could not be opened when they were looked at: a program may have closed them."""
        self._is_closed = False
        """Their folder could not be opened then."""
        self._unsent: dict[str, dict[str, Any]] = {}
        """Data of all that were told, by name, as long as the store does not have them."""
        self._removed: list[str] = []
        """Checkpoints that went here and not in the store yet."""
        self._ending = threading.Event()
        self._problem = ""
        self._complete = False
        """The last round, in which the run had ended, left nothing to do."""
        self._thread = threading.Thread(target=self._run, name="return", daemon=True)

    @property
    def away(self) -> str:
        """Why the portal takes nothing now; empty while it does."""
        return self._sending.away

    @property
    def is_told(self) -> bool:
        """People were told of that reason when it was found."""
        return bool(self.away) and self._sending.told == self.away

    @property
    def arrives(self) -> bool:
        """The portal takes it at this moment."""
        return self._sending.arrives

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hold(self, events: list[Event]) -> list[Event]:
        """Keep the CHECKPOINT events back until the store has their files; the rest passes."""
        for event in events:
            if event.kind is EventKind.CHECKPOINT:
                self._tell(dict(event.data))
        return [event for event in events if event.kind is not EventKind.CHECKPOINT]

    def offer(self, saved: Iterable[dict[str, Any]]) -> None:
        """Return checkpoints that no rank tells of, by data of CHECKPOINT events. Of a node that is not the first they
        count only once control has taken them."""
        for data in saved:
            self._tell(data)

    def _tell(self, data: dict[str, Any]) -> None:
        self._unsent[str(data.get("name", ""))] = data
        self._told.put(data)

    def unsent(self) -> list[dict[str, Any]]:
        """Data of CHECKPOINT events of those that the store does not have yet."""
        return list(self._unsent.values())

    def finish_begin(self, limit_s: float) -> None:
        """Return the rest, within `limit_s` from now; asked again, the newer limit counts."""
        self._sending.end_s = time.monotonic() + limit_s
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
            patiently(lambda: self._portal.send("PUT", f"{self._sending.base}/exit", text.encode()), limit_s=limit_s)
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
        for rank in list(self._logs):
            try:
                self._log_send(rank)
            except OSError as error:
                self._log_unreadable(rank, error, ending)
        if ending:
            self._waiting.extendleft(reversed(self._put_off))
            for name in self.too_large.names:
                self._results.pop(name, None)
            self._closed.clear()
        while not self._told.empty():
            self._waiting.append(self._told.get())
        while self._waiting:
            try:
                self._checkpoint(self._waiting[0])
            except OSError as error:
                self._unreadable(self._waiting[0], error)
            self._waiting.popleft()
        while self._first and (ending or not self._results) and self._results_send() and ending:
            pass
        if ending and (self._closed or self._is_closed):
            self.notes.put({"message": FOLDER_CLOSED if self._is_closed else closed_words(sorted(self._closed))})

    def _log_send(self, rank: int) -> None:
        """What the log has grown by."""
        try:
            file = self._logs[rank].open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._sent[rank])
            while body := file.read(LOG_BYTES):
                try:
                    self._sent[rank] = self._sending.piece(f"/logs/{rank}", body, self._sent[rank])
                except PortalRefused as refused:
                    if not is_too_large(refused):
                        raise
                    _log.warning("the rest of the log of rank %d stays here: %s", rank, refused)
                    del self._logs[rank]
                    return
                file.seek(self._sent[rank])

    def _log_unreadable(self, rank: int, error: OSError, ending: bool) -> None:
        """One on a bad block keeps no checkpoint back; it is tried again in each round. Any other error is raised."""
        if not may_be_one_file(error):
            raise error
        _log.warning("the log of rank %d cannot be read now: %s", rank, error)
        if ending:
            told = f"The node cannot read the rest of the log of rank {rank}: {error.strerror}. It stays there."
            self.notes.put({"message": told})

    def _checkpoint(self, data: dict[str, Any]) -> None:
        """Return one and have it told; what was removed meanwhile goes with it, or with the next one."""
        name, named = str(data.get("name", "")), data.get("removed")
        names = [str(item) for item in named] if isinstance(named, list) else []
        self._removed += [item for item in names if CHECKPOINT_NAME.fullmatch(item)]
        folder = Path("checkpoints") / name
        tree = tree_read(self._paths.work, folder) if CHECKPOINT_NAME.fullmatch(name) else None
        if tree is None or not tree.files:
            self.too_large.drop(name)
            self._unsent.pop(name, None)
            return  # purged before its turn came; a newer one follows
        gone = [item for item in self._removed[-REMOVED_MAX:] if not (self._paths.checkpoints / item).exists()]
        try:
            if self._first:
                self._results_send()  # what predictions with this checkpoint need lies there
        except (PortalAway, OSError) as error:  # what changes all the time is at rest when the run has ended
            _log.warning("results stay here for now: %s", error)
        try:
            sent = self._sending.tree("checkpoint", name, folder, tree, gone)
        except PortalRefused as refused:
            self._too_large(name, tree, refused)
            self._put_off.append(data)
            return
        self.too_large.drop(name)
        if sent:
            self._removed = []
            self._unsent.pop(name, None)
            if self._first:
                self.kept.put({**data, "removed": gone})

    def _unreadable(self, data: dict[str, Any], error: OSError) -> None:
        """One on a bad block keeps the others back no more than one that is too large; any other error is raised."""
        if not may_be_one_file(error):
            raise error
        if data not in self._put_off:
            told = f"The node cannot read its checkpoint {data.get('name')}: {error.strerror}. It stays there."
            self.notes.put({"message": told})
            self._put_off.append(data)

    def _results_send(self) -> bool:
        """Files of the results that the store does not have as they are now; plain files alone, `FILES_MAX` at once.

        Those that cannot be opened come last the next time. False where nothing more can be done now, or files changed
        meanwhile."""
        changed, closed_before = self._results_changed(), len(self._closed)
        tree = self._results_tree(sorted(changed))
        sent = {file.name for file in tree.files}
        self._closed = self._closed - sent | (changed.keys() - sent)
        if not sent:
            return len(self._closed) > closed_before  # these come last now, and it is the turn of others
        try:
            if not self._sending.tree("results", "results", Path("results"), tree, []):
                return False
        except PortalRefused as refused:
            if not is_too_large(refused):
                raise
            self._results_apart(tree)
        self._results |= {name: changed[name] for name in sent}
        return True

    def _results_tree(self, names: list[str]) -> Tree:
        """These files of the results, without those that cannot be opened."""
        work, folder = self._paths.work, Path("results")
        found = [one for name in names if (one := tree_read(work, folder, [name])) is not None]
        return Tree(tuple(file for one in found for file in one.files))

    def _results_apart(self, tree: Tree) -> None:
        """Together they are too large: the smallest first, and what is refused still is named."""
        for file in sorted(tree.files, key=lambda file: file.bytes):
            one = Tree((file,))
            try:
                self._sending.tree("results", "results", Path("results"), one, [])
            except PortalRefused as refused:
                self._too_large(file.name, one, refused)
            else:
                self.too_large.drop(file.name)

    def _too_large(self, name: str, tree: Tree, refused: PortalRefused) -> None:
        """Note that it was refused for its size; any other refusal is raised."""
        if not is_too_large(refused):
            raise refused
        if name not in self.too_large.names:
            self.too_large.add(name, tree.bytes, refused)
            self.notes.put({"message": self.too_large.words()})

    def _results_changed(self) -> dict[str, tuple[int, int]]:
        """Raises `OSError` where what lies there cannot be told now."""
        found, self._is_closed = {}, False
        try:
            with os.scandir(self._paths.results) as entries:
                for entry in entries:
                    if FILE_NAME.fullmatch(entry.name) and (mark := file_mark(entry)):
                        found[entry.name] = mark
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except PermissionError:
            self._is_closed = True
            return {}
        changed = [name for name, mark in found.items() if self._results.get(name) != mark]
        changed.sort(key=lambda name: (name in self._closed, name))
        return {name: found[name] for name in changed[:FILES_MAX]}
