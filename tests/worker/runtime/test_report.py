"""What a rank tells is written line by line, also where the disk is full for a while."""

from __future__ import annotations

import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
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


class Slow(io.FileIO):
    """Takes its time over each line."""

    def write(self, body: Any) -> int:
        """As a disk that others use."""
        time.sleep(0.002)
        return super().write(body)


def test_what_threads_tell_at_once_is_whole_lines_in_order(tmp_path: Path) -> None:
    file = tmp_path / "rank-0.jsonl"
    reporter = Reporter(file, job_id="j", token=1, rank=0)
    reporter._file = Slow(file, "ab")

    def tell(number: int) -> None:
        for _ in range(20):
            reporter.emit(EventKind.NOTE, message=f"of thread {number}")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(tell, range(3)))
    lines = file.read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(60))
