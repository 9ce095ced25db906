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
from worker.plan import RunPaths
from worker.telemetry.tail import open_below

RESCUE_FILE = "rescue"
"""Request of control that the processes leave the first node, which it calls lost, and save what they hold."""
MEET_LIMIT_S = 10.0
"""From then on those that stand still may save; before that all are waited for, as one may hold a newer copy."""
LIMIT_S = 60.0
"""Until then it is written, or never; control waits longer (`harness.jobs.control.rescue.WAIT`)."""
RESCUE_NAME = re.compile(r"step-[0-9]{8,18}")
OFFERED_MAX = 2
"""The newest copy, and the best epoch so far."""
_MANIFEST_BYTES_MAX = 1 << 20


class Rescue:
    """Lets the processes of a node stand still, and one of them save. `copies`: step of its copy by who stands still.

    Both mappings are the caller's, who keeps them as they are.
    """

    def __init__(
        self, processes: Mapping[int, LocalProcess], copies: Mapping[int, int | None], generation: int
    ) -> None:
        self._processes, self._copies = processes, copies
        self._began_s = time.monotonic()
        self._saver: int | None = None
        for process in processes.values():
            process.send(cut=generation)

    def goes_on(self) -> bool:
        """Whether there is something to wait for; to be called again and again."""
        waited_s = time.monotonic() - self._began_s
        held = {slot: step for slot in self._processes if (step := self._copies.get(slot)) is not None}
        if self._saver is None and (set(self._processes) <= set(self._copies) or (held and waited_s > MEET_LIMIT_S)):
            if not held:
                return False
            self._saver = max(held, key=lambda slot: (held[slot], -slot))
            for slot, process in self._processes.items():
                if slot == self._saver:
                    process.send(rescue=True)
                else:
                    process.shut()
        return (self._saver is None or self._saver in self._processes) and waited_s < LIMIT_S


def rescued(paths: RunPaths) -> list[str]:
    """Names of the whole checkpoints in the folder of a node that is not the first, the newest first."""
    if not paths.part:
        return []
    names = sorted((path.name for path in paths.checkpoints.glob("step-*")), reverse=True)
    return [name for name in names if RESCUE_NAME.fullmatch(name) and _is_whole(paths.work, name)][:OFFERED_MAX]


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
