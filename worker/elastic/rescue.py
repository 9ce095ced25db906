"""When the first node of an elastic run is lost: another one saves its copy of the run, so that little is lost.

The gang of each other node (`worker.elastic.remote_gang`) has the one of its processes that holds the newest copy write
it as a checkpoint into the node's own folder, and ends them all. Its supervisor names what is whole there in the event
EXITED; control decides what becomes of it (`harness.jobs.control.rescue`).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from worker.elastic.member import LocalProcess
from worker.elastic.patience import SAVE_LIMIT_S, stand_limit_s
from worker.fence import STEP
from worker.plan import RunPaths
from worker.telemetry.tail import open_below

RESCUE_FILE = "rescue"
"""Request of control that the processes leave the first node, which it calls lost, and save what they hold."""
MEET_LIMIT_S = 10.0
"""From then on those that stand still may save; before that all are waited for, as one may hold a newer copy."""
RESCUE_NAME = re.compile(rf"{STEP}[0-9]{{8,18}}")
OFFERED_MAX = 2
"""The newest copy, and the best epoch so far."""
_MANIFEST_BYTES_MAX = 1 << 20


class Rescue:
    """Lets the processes of a node stand still, and one of them save.

    Control waits longer than it takes at most (`harness.jobs.control.rescue.WAIT`).
    """

    def __init__(
        self,
        processes: Mapping[int, LocalProcess],
        copies: Mapping[int, int | None],
        longest_s: Mapping[int, float],
        generation: int,
    ) -> None:
        """`copies`: step of its copy by who stands still. `longest_s`: length of the steps of who told of long ones.

        All mappings are the caller's, who keeps them as they are.
        """
        self._processes, self._copies, self._longest_s = processes, copies, longest_s
        self._began_s = time.monotonic()
        self._saver: int | None = None
        self._save_by_s = 0.0
        for process in processes.values():
            process.send(cut=generation)

    def goes_on(self) -> bool:
        """Whether there is something to wait for; to be called again and again."""
        now_s = time.monotonic()
        if self._saver is not None:
            return self._saver in self._processes and now_s < self._save_by_s
        waited_s = now_s - self._began_s
        held = {slot: step for slot in self._processes if (step := self._copies.get(slot)) is not None}
        all_stand = set(self._processes) <= set(self._copies)
        if held and (all_stand or waited_s > MEET_LIMIT_S):
            self._save(max(held, key=lambda slot: (held[slot], -slot)))
            return True
        return not all_stand and waited_s < stand_limit_s(self._longest_s.values())

    def _save(self, saver: int) -> None:
        self._saver, self._save_by_s = saver, time.monotonic() + SAVE_LIMIT_S
        for slot, process in self._processes.items():
            if slot == saver:
                process.send(rescue=True)
            else:
                process.shut()


def rescued(paths: RunPaths) -> list[str]:
    """Names of the whole checkpoints in the folder of a node that is not the first, the newest first."""
    if not paths.part:
        return []
    found = (path.name for path in paths.checkpoints.glob(f"{STEP}*") if RESCUE_NAME.fullmatch(path.name))
    names = sorted(found, key=lambda name: (int(name.removeprefix(STEP)), name), reverse=True)
    return [name for name in names if _is_whole(paths.work, name)][:OFFERED_MAX]


def _is_whole(work: Path, name: str) -> bool:
    """Whether its manifest is there, and every file that it names; the hashes are looked at by who reads them."""
    folder = Path("checkpoints") / name
    try:
        files = json.loads(_read(work, folder / "MANIFEST.json"))["files"]
        return all(_size_bytes(work, folder / str(file)) == entry["bytes"] for file, entry in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _opened(work: Path, relative: Path) -> int:
    fd = open_below(work, relative)
    if fd is None:
        raise FileNotFoundError(relative)
    return fd


def _read(work: Path, relative: Path) -> bytes:
    with os.fdopen(_opened(work, relative), "rb") as stream:
        return stream.read(_MANIFEST_BYTES_MAX)


def _size_bytes(work: Path, relative: Path) -> int:
    with os.fdopen(_opened(work, relative), "rb") as stream:
        return os.fstat(stream.fileno()).st_size
