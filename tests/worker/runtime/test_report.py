"""What a rank tells is written line by line, also where the disk is full for a while."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from worker.events import EventKind
from worker.runtime.report import Reporter
from worker.telemetry.tail import EventTail


class Narrow(io.FileIO):
    """Takes a part of a line, then none of the next one, then all."""

    left: list[int | None] = []

    def write(self, body: Any) -> int:
        """As a disk on which there is room for so many bytes."""
        room = self.left.pop(0) if self.left else None
        if room == 0:
            raise OSError(28, "No space left on device")
        return super().write(body if room is None else body[:room])


def test_an_event_after_a_torn_one_is_not_lost_with_it(tmp_path: Path) -> None:
    file = tmp_path / "events" / "rank-0.jsonl"
    reporter = Reporter(file, job_id="j", token=1, rank=0)
    reporter._file = Narrow(file, "ab")
    Narrow.left = [None, 20, 0]
    reporter.emit(EventKind.NOTE, message="whole")
    reporter.emit(EventKind.NOTE, message="torn")
    with pytest.raises(OSError, match="No space"):
        reporter.emit(EventKind.NOTE, message="not written")
    reporter.emit(EventKind.CHECKPOINT, name="step-00000001", step=1)
    reporter.close()
    tail = EventTail(tmp_path, Path("events/rank-0.jsonl"), "j", 1, 0)
    assert [event.data.get("message") or event.data["name"] for event in tail.poll()] == ["whole", "step-00000001"]
