"""Checkpoint folders: written so that a crash at any moment leaves the older ones good and no half one.

`step-00000123/` holds `state.pt` (loadable with `weights_only=True`) and MANIFEST.json (sizes and sha256; written
last). All is made on the attempt's own desk (`worker.fence`), flushed to disk, renamed, and the parent flushed.
torch.load accepts a flipped bit silently, so every load checks the hash first.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from worker.fence import GONE, LEFT, OLD, STEP, desk_name, fence_raise, newest_writer, step_name
from worker.machine_faults import is_disk_fault, may_be_one_file
from worker.merit import larger_is_better
from worker.runtime.aside import purge_aside, put_aside
from worker.runtime.durable import folder_flush, folder_opened, state_write, text_write
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.manifest import FORMAT, MANIFEST_FILE, STATE_FILE, manifest_read
from worker.runtime.nested import scalars_own
from worker.runtime.whole import CorruptCheckpoint as CorruptCheckpoint
from worker.runtime.whole import files_check, is_whole


class Superseded(Exception):
    """A newer attempt of the job works in this folder."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """One checkpoint on disk, as its manifest tells."""

    name: str
    step: int
    epoch: float
    metric: float | None
    """Validation metric of the epoch that this checkpoint closes; None in the middle of an epoch."""
    by_loss: bool
    """Whether that is a loss told below zero: it compares with its like alone."""
    judged_by: str
    """Metric of the spec that it was judged by, which may be another one by now; empty: not known."""
    bytes: int


class CheckpointStore:
    """The checkpoints of one run. `larger_is_better` says how metrics compare; of equals the later is best.

    `token` numbers the attempt; 0: there is no platform, and no other attempt.
    """

    def __init__(self, folder: Path, keep: int, larger_is_better: bool, token: int = 0) -> None:
        self.folder = folder
        self.token = token
        self.keep = max(1, keep)
        self.larger_is_better = larger_is_better
        self._damaged: set[str] = set()
        """Names that were passed over: they must not push good ones out."""
        self._works = False
        """Whether this attempt has its desk here. Once it is taken away it gets no other."""

    @property
    def desk(self) -> Path:
        """Where this attempt makes what it writes, and clears away what it removes."""
        return self.folder / desk_name(self.token)

    def claim(self) -> None:
        """From now on no older attempt writes here; what one left half done is seen to.

        Raises `Superseded` where a newer one does.
        """
        self._works = False
        self._enter()
        self._sweep()

    def check(self) -> None:
        """Raise `Superseded` where a newer attempt works here."""
        with suppress(OSError), folder_opened(self.folder) as folder:  # what counts is that the desk is there
            self._check(newest_writer(folder))

    def _check(self, newest: int) -> None:
        if 0 < self.token < newest:
            raise Superseded(f"attempt {newest} of the job works here by now, this is attempt {self.token}")

    def _enter(self) -> None:
        """Have a desk here. Raises `Superseded`."""
        if self._works:
            return
        self.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.token:
            with folder_opened(self.folder) as folder:
                self._check(fence_raise(folder, self.token))
        else:
            self.desk.mkdir(exist_ok=True)
        self._works = True

    def saved(self, unread: list[str] | None = None) -> list[Saved]:
        """All complete checkpoints, oldest first (their files are not read).

        Raises `OSError` where the disk fails. `unread` takes the names of those on a bad block instead, as long as
        another one can be read: that one cannot must not be the end of all.
        """
        found, failed = list[Saved](), None
        for name in self._names():
            try:
                manifest = manifest_read(self.folder / name)
            except OSError as error:
                if unread is None or not may_be_one_file(error):
                    raise
                unread.append(name)
                manifest, failed = None, error
            if manifest is not None and name not in self._damaged:
                size = sum(int(entry["bytes"]) for entry in manifest["files"].values())
                known = {key: manifest[key] for key in ("step", "epoch", "metric")}
                by_loss, by = bool(manifest.get("by_loss", False)), str(manifest.get("judged_by", ""))
                found.append(Saved(name=name, bytes=size, by_loss=by_loss, judged_by=by, **known))
        if failed is not None and not found:
            raise failed
        return sorted(found, key=lambda saved: saved.step)

    def later(self, step: int) -> list[str]:
        """Names of what was saved after that step, oldest first, be it readable now or not. Raises `OSError`."""
        return [name for name in self._names() if _order(name) > _order(step_name(step)) and self._may_be_one(name)]

    def _may_be_one(self, name: str) -> bool:
        try:
            return manifest_read(self.folder / name) is not None and name not in self._damaged
        except OSError:
            return True

    def _names(self) -> list[str]:
        """Of what lies here, oldest first. Raises `OSError` where the disk fails; a glob would tell of an empty one."""
        try:
            names = fnmatch.filter((path.name for path in self.folder.iterdir()), f"{STEP}[0-9]*")
        except FileNotFoundError:
            return []
        return sorted(names, key=_order)

    def best(self, unread: list[str] | None = None) -> Saved | None:
        """The best by metric, among those judged as the newest that has one. `unread`, and raises, as in `saved`."""
        return self._best_of(self.saved(unread))

    def _best_of(self, saved: list[Saved]) -> Saved | None:
        rated = [one for one in saved if one.metric is not None]
        known = next((one.judged_by for one in reversed(rated)), "")
        rated = [one for one in rated if one.by_loss == rated[-1].by_loss and one.judged_by in ("", known)]
        sign = 1.0 if (larger_is_better(known) if known else self.larger_is_better) else -1.0
        return max(rated, key=lambda one: (sign * (one.metric or 0.0), one.step), default=None)

    def save(
        self, state: dict[str, Any], *, step: int, epoch: float, metric: float | None, by_loss: bool = False,
        judged_by: str = "",
    ) -> Saved:  # fmt: skip
        """Write one checkpoint. Raises `OSError` (disk full, ...), `Superseded`; older ones stay as they were."""
        self._enter()
        self.check()
        name = step_name(step)
        self._sweep()
        making = self.desk / name
        try:
            making.mkdir()
            size, digest = state_write(making / STATE_FILE, state)
            files = {STATE_FILE: {"bytes": size, "sha256": digest}}
            told: dict[str, Any] = {"step": step, "epoch": epoch, "metric": metric, "by_loss": by_loss}
            told["judged_by"] = judged_by
            made = {"created_s": time.time(), "attempt": self.token}
            text_write(making / MANIFEST_FILE, json.dumps({"format": FORMAT, **told, "files": files, **made}, indent=1))
            folder_flush(making)
            self.check()  # it may have taken long
            self._put(making, self.folder / name)
            self._damaged.discard(name)
        except BaseException:
            _clear(self.desk, self.folder)
            self.check()  # a newer attempt takes the desk away: then that is the cause
            raise
        return Saved(name=name, bytes=size, **told)

    def purge(self) -> list[str]:
        """Remove all but the best, the newest `keep` and what cannot be read now; returns the names. Never raises.

        Of those that were put aside, which are nobody's best any more, the newest `keep` stay, too.
        """
        with suppress(Superseded, OSError):  # a disk that fails is told by who must read or write
            self.check()
            purge_aside(self.folder, self.keep)
            return self._purge()
        return []

    def leave_behind(self, names: list[str]) -> Path:
        """Put checkpoints aside; the folder they are in now. Raises `OSError`, which a newer attempt causes as well."""
        self._enter()
        return put_aside(self.folder, names, self.token, desk=self.desk)

    def _purge(self) -> list[str]:
        saved = self.saved([])
        best = self._best_of(saved)
        kept = {item.name for item in saved[-self.keep :]} | ({best.name} if best else set())
        removed = []
        for item in saved:
            if item.name not in kept:
                # out of sight first: a crash half-way must not leave a folder that looks complete
                gone = self.desk / f"{GONE}{item.name}"
                try:
                    (self.folder / item.name).rename(gone)
                except OSError:
                    continue
                shutil.rmtree(gone, ignore_errors=True)
                removed.append(item.name)
        return removed

    def load(self, name: str, *, mapped: bool = False) -> dict[str, Any]:
        """Read one checkpoint after checking every hash. Raises `CorruptCheckpoint` naming it and what is wrong,
        `OSError` where its disk fails, and whatever says that memory has run out.

        `mapped`: its tensors stay in the file until they are looked at, for who copies them elsewhere.
        """
        try:
            files_check(self.folder / name)
        except OSError as error:
            others = (self.folder / other for other in self._names() if other != name)
            if not (may_be_one_file(error) and any(map(is_whole, others))):
                raise
            raise CorruptCheckpoint(f"{name}: {error.strerror}, and another one can be read") from error
        try:
            state: dict[str, Any] = torch.load(
                self.folder / name / STATE_FILE, map_location="cpu", weights_only=True, mmap=mapped or None
            )
        except Exception as error:
            if is_out_of_memory(error) or is_disk_fault(error):
                raise  # it may be whole, and older ones are no smaller and lie there, too: nobody may begin anew
            raise CorruptCheckpoint(f"{name}/{STATE_FILE}: {error}") from error
        if mapped:
            scalars_own(state)
        return state

    def newest_good(self, note: Callable[[str], None], *, mapped: bool = False) -> tuple[str, dict[str, Any]] | None:
        """The newest checkpoint that loads; each corrupt one on the way is passed over with a `note`.

        `mapped`: as in `load`. Raises as that where nothing is wrong with a checkpoint itself.
        """
        self._sweep()
        for name in reversed(self._names()):
            try:
                return name, self.load(name, mapped=mapped)
            except CorruptCheckpoint as error:
                note(f"Damaged checkpoint skipped: {error}")
                self._damaged.add(name)
        return None

    def _put(self, making: Path, place: Path) -> None:
        """Rename into place. One of the same step gives way for a moment; a kill in it is made good by `_sweep`."""
        replaced = self.desk / "replaced"
        if place.exists():
            replaced.mkdir(exist_ok=True)  # one that could not return may lie there
            place.rename(replaced / place.name)
        making.rename(place)
        folder_flush(self.folder)
        shutil.rmtree(replaced / place.name, ignore_errors=True)
        with suppress(OSError):
            replaced.rmdir()

    def _sweep(self) -> None:
        """Take back what a crash left: half-written folders go, a replaced one without successor returns."""
        for path in self.folder.glob(f"{OLD}*"):  # control's: `harness.jobs.control.placing`
            place = self.folder / path.name.removeprefix(OLD)
            if not place.exists():
                path.rename(place)
            shutil.rmtree(path, ignore_errors=True)
        for left in self.folder.glob(f"{LEFT}*"):
            if _clear(left, self.folder):
                shutil.rmtree(left, ignore_errors=True)
        _clear(self.desk, self.folder)


def _order(name: str) -> tuple[int, str]:
    """By step."""
    return len(name), name


def _clear(desk: Path, folder: Path) -> bool:
    """Empty a desk; checkpoints that were taken from their places, and are missed there, return.

    False where a disk lets one of them not return now: it stays, and the next time may do.
    """
    kept = set[Path]()
    for path in desk.glob(f"*/{STEP}*"):
        if not (folder / path.name).exists():
            try:
                path.rename(folder / path.name)
            except OSError:
                kept.add(path.parent)
    for path in desk.glob("*"):
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)
    return not kept
