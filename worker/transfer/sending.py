"""Sends files of a run to the store, with patience: in pieces, or past the portal, and then in place in one step."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from worker.plan import RunPlan
from worker.telemetry.tail import open_below
from worker.transfer.breaks import Breaks
from worker.transfer.portal import Portal, PortalAway, PortalRefused, patiently
from worker.transfer.signed import SIGNED_BYTES_MIN, BucketAway, Signed
from worker.transfer.tree import Tree, TreeFile

PIECE_BYTES = 8 << 20
RESENDS_MAX = 3
_log = logging.getLogger(__name__)


class Sending:
    """Of one attempt. Until `end_s`, by the monotonic clock, nothing is given up; then `Stopped` is raised."""

    def __init__(self, portal: Portal, plan: RunPlan, work: Path, tell: Callable[[str], object]) -> None:
        """`tell`: what people should know before anybody asks why nothing arrives."""
        self.base = f"/runs/{plan.job_id}/{plan.token}"
        self.end_s = math.inf
        self.away = ""
        """Why the portal takes nothing now; empty while it does."""
        self.told = ""
        """The reason of which people were told last."""
        self.arrives = False
        """The newest request got an answer."""
        self._portal, self._work, self._tell = portal, work, tell
        self._breaks = Breaks(portal)

    def piece(self, path: str, body: bytes, offset: int, **query: object) -> int:
        """Send bytes that belong at `offset`; where to go on, which the portal knows best."""

        def once() -> int:
            try:
                answer = self._portal.send("PUT", f"{self.base}{path}", body, offset=offset, **query)
            except PortalRefused as refused:
                if refused.code == "wrong_offset" and isinstance(refused.details, dict):
                    return int(refused.details["offset"])
                raise
            return int(answer["offset"])

        return int(self._patiently(once, len(body)))

    def _patiently(self, work: Callable[[], Any], size_bytes: int = 0) -> Any:
        """As `patiently`: while the run goes on nothing is given up, and then until `end_s`."""

        def once() -> Any:
            try:
                answer = work()
            except PortalAway as away:
                broken = self._breaks.words(away, size_bytes)
                self.away, self.arrives = broken or str(away), False
                if broken not in {"", self.told}:
                    self._tell(f"What the run makes stays on its node: {broken}")
                    self.told = broken
                raise
            self._breaks.none()
            self.away, self.arrives = "", True
            return answer

        return patiently(once, limit_s=math.inf, stopped=lambda: time.monotonic() > self.end_s)

    def tree(self, kind: str, name: str, folder: Path, tree: Tree, removed: list[str]) -> bool:
        """Send all files, then have them put in place in one step; False where they changed meanwhile.

        Raises `PortalAway` (what arrives is damaged, again and again), `PortalRefused`, `Stopped`, and `OSError`.
        """
        body = {"kind": kind, "name": name, "files": tree.to_list(), "removed": removed}
        there = self._signed_send(kind, name, folder, tree)
        for _ in range(RESENDS_MAX):
            if not all(self._file_send(kind, name, folder, file) for file in tree.files if file.name not in there):
                return False
            try:
                self._patiently(lambda: self._portal.json("POST", f"{self.base}/commit", body))
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
        answer = self._patiently(lambda: self._portal.json("POST", f"{self.base}/uploads", body))
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
        fd = open_below(self._work, folder / file.name)
        if fd is None:
            raise BucketAway(f"{file.name} is gone")
        with os.fdopen(fd, "rb") as stream:
            signed.put(address, stream, file.bytes)

    def _file_send(self, kind: str, name: str, folder: Path, file: TreeFile) -> bool:
        fd = open_below(self._work, folder / file.name)
        if fd is None:
            return False
        with os.fdopen(fd, "rb") as stream:
            first = stream.read(min(PIECE_BYTES, file.bytes))
            offset = self.piece("/pieces", first, 0, kind=kind, name=name, file=file.name)
            while offset < file.bytes:
                stream.seek(offset)
                body = stream.read(min(PIECE_BYTES, file.bytes - offset))
                if not body:
                    return False
                offset = self.piece("/pieces", body, offset, kind=kind, name=name, file=file.name)
        return True
