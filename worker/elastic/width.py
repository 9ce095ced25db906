"""Which ranks an elastic run is to have while it runs: what control asks, and when it is told that it is so.

Control numbers what it asks; a node keeps the newest in a file of the attempt, which the gang reads
(`worker.elastic.gang`). When the ranks that are not asked for have ended, and those that were missing are there, the
gang says so once; the supervisor looks for itself that none is left, tells control, and tells it again whenever control
asks again.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTH_FILE = "width"
NUMBERS = 1 << 53
"""Numbers of ranks and steps are below; a program can write to the gang's pipe too."""


@dataclass(frozen=True, kw_only=True)
class Width:
    """What is asked."""

    number: int
    """Counts up within an attempt: the highest is what counts."""
    slots: tuple[int, ...]
    """Ranks that are to be there, by the numbers that their processes begin with."""

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps({"number": self.number, "slots": self.slots})

    @staticmethod
    def from_json(text: str) -> Width:
        """Inverse of `to_json`. Raises `ValueError`."""
        body = json.loads(text)
        try:
            return Width(number=int(body["number"]), slots=tuple(sorted({int(slot) for slot in body["slots"]})))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a width: {error}") from error


def width_read(folder: Path) -> Width | None:
    """What was asked last; None where nothing was, or where it cannot be read."""
    with suppress(OSError, ValueError):
        return Width.from_json((folder / WIDTH_FILE).read_text())
    return None


class WidthFile:
    """Looks at what is asked without reading it again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamp: tuple[int, int] | None = None

    def news(self) -> Width | None:
        """What is asked, where it was written since the last look."""
        try:
            status = (self._folder / WIDTH_FILE).stat()
        except OSError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns)
        if stamp == self._stamp or (found := width_read(self._folder)) is None:
            return None
        self._stamp = stamp
        return found


class WidthWatch:
    """The supervisor's part: finds out when a run is as wide as was asked, and that control is to be told."""

    def __init__(self, folder: Path) -> None:
        self._file = WidthFile(folder)
        self._asked: Width | None = None
        self._said: dict[str, Any] = {}
        self._told = False

    def heard(self, line: bytes) -> None:
        """A line of the gang's status pipe; what is no word about the width is passed over."""
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            body = json.loads(line)
            numbers = [int(body["width"]), int(body["step"]), *map(int, body["ranks"])]
            if all(0 <= number < NUMBERS for number in numbers):
                self._said = {"number": numbers[0], "step": numbers[1], "ranks": sorted(set(numbers[2:]))}

    def due(self, alive: Collection[int]) -> dict[str, Any] | None:
        """Data of the event that is to be sent now. `alive`: ranks of which a process is there."""
        news = self._file.news()
        if news is not None:
            self._asked, self._told = news, False
        asked = self._asked
        if asked is None or self._told or self._said.get("number") != asked.number:
            return None
        if not set(asked.slots).issuperset((*alive, *self._said["ranks"])):
            return None
        self._told = True
        return dict(self._said)
