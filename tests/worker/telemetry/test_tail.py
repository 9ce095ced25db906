"""Event files written by ranks that lie."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worker.telemetry.tail import ERRORS_FREE, LINE_BYTES, EventTail


def line(kind: str = "progress", **data: object) -> bytes:
    body = {"kind": kind, "job_id": "x", "token": 9, "rank": 9, "seq": 9, "time_s": 1.0, "data": data}
    return json.dumps(body).encode() + b"\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    return tmp_path / "events" / "rank-0.jsonl"


@pytest.fixture
def tail(tmp_path: Path) -> EventTail:
    return EventTail(tmp_path, Path("events/rank-0.jsonl"), "job", 3, 0)


def test_a_line_is_taken_once_and_only_when_it_is_whole(tail: EventTail, file: Path) -> None:
    assert tail.poll() == []
    file.write_bytes(line(step=1) + line(step=2)[:-5])
    assert [event.data["step"] for event in tail.poll()] == [1]
    with file.open("ab") as more:
        more.write(line(step=2)[-5:])
    assert [event.data["step"] for event in tail.poll()] == [2]
    assert tail.poll() == []


def test_a_folder_that_has_vanished_holds_no_events(tail: EventTail, file: Path) -> None:
    file.write_bytes(line(step=1))
    file.parent.parent.rename(file.parent.parent.with_name("vanished"))
    assert tail.poll() == []
    file.parent.parent.with_name("vanished").rename(file.parent.parent)
    assert [event.data["step"] for event in tail.poll()] == [1]


def test_a_file_that_is_a_link_a_pipe_or_below_a_link_is_never_opened(tail: EventTail, file: Path) -> None:
    real = file.with_name("real")
    real.write_bytes(line())
    file.symlink_to(real)
    assert tail.poll() == []
    file.unlink()
    os.mkfifo(file)
    assert tail.poll() == []
    file.unlink()
    real.rename(file)
    file.parent.rename(file.parent.with_name("moved"))
    file.parent.symlink_to(file.parent.with_name("moved"))
    assert tail.poll() == []


@pytest.mark.parametrize(
    "bad",
    [b"{", b"[]", b"1", b'{"kind": "nonsense", "data": {}}', b'{"kind": "note"}', b'{"kind": "note", "data": 5}',
     b'{"kind": "note", "data": {}, "time_s": NaN}', b"\xff\xfe", b"[" * 5000, line("exited")[:-1], line("log")[:-1]],
)  # fmt: skip
def test_a_broken_or_forged_line_is_dropped_and_the_next_one_taken(tail: EventTail, file: Path, bad: bytes) -> None:
    file.write_bytes(bad + b"\n" + line(step=5))
    assert [event.data["step"] for event in tail.poll()] == [5]
    assert tail.dropped == 1


def test_a_line_without_end_is_dropped_without_being_kept_in_memory(tail: EventTail, file: Path) -> None:
    file.write_bytes(b"x" * (4 * LINE_BYTES) + b"\n" + line(step=5))
    events = [event for _ in range(8) for event in tail.poll()]
    assert [event.data["step"] for event in events] == [5]


def test_a_flood_is_thinned_but_an_error_always_passes(tail: EventTail, file: Path) -> None:
    tail.rate_per_s = 1.0
    file.write_bytes(line(step=1) * 6000 + line("error", code="nan_loss"))
    events = [event for _ in range(8) for event in tail.poll()]
    assert len(events) < 5100
    assert events[-1].kind == "error"
    assert [event.seq for event in events] == list(range(len(events)))


def test_a_flood_of_values_is_thinned_as_each_is_a_row(tail: EventTail, file: Path) -> None:
    tail.rate_per_s = 50.0
    many = {f"key-{number}": 0.5 for number in range(400)}
    file.write_bytes(line("metric", step=1, values=many) * 60)
    events = [event for _ in range(8) for event in tail.poll()]
    assert 5 <= len(events) < 30 and tail.dropped == 60 - len(events)


def test_the_values_of_a_run_of_ours_all_pass(tail: EventTail, file: Path) -> None:
    pace = line("metric", step=1, values={"train/loss": 0.5, "train/learning_rate": 0.1, "rank0/samples_per_s": 1.0})
    epoch = line("metric", step=1, values={f"val/recall/class-{number}": 0.5 for number in range(110)})
    file.write_bytes(pace * 2000 + epoch * 100 + line("metric", step=1, values=[1] * 30) + line("metric", step=1))
    events = [event for _ in range(8) for event in tail.poll()]
    assert (len(events), tail.dropped) == (2102, 0)


def test_a_clock_that_is_far_off_is_replaced(tail: EventTail, file: Path) -> None:
    file.write_bytes(line(step=1))
    assert tail.poll()[0].time_s > 1e9


@pytest.mark.parametrize(
    "bad",
    [
        b'{"kind": "note", "time_s": 1' + b"0" * 400 + b', "data": {}}',
        b'{"kind": "note", "time_s": 1, "data": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}",
    ],
)
def test_a_line_that_would_break_a_later_reader_is_dropped(tail: EventTail, file: Path, bad: bytes) -> None:
    file.write_bytes(bad + b"\n" + line(step=1))
    assert [event.kind for event in tail.poll()] == ["progress"]
    assert tail.dropped == 1


def test_a_flood_of_errors_or_of_large_lines_is_held_back(tail: EventTail, file: Path) -> None:
    tail.rate_per_s = 10.0
    tail._credit = 100.0
    file.write_bytes(line("error", message="x") * 1000 + line("note", message="y") * 1000)
    kinds = [str(event.kind) for event in tail.poll()]
    assert ERRORS_FREE + 90 < kinds.count("error") < ERRORS_FREE + 200 and kinds.count("note") == 0
    tail._credit = 100.0
    file.open("ab").write(line("note", message="y") * 1000)
    assert 0 < len(tail.poll()) < 20


def test_a_run_that_says_a_little_for_weeks_is_heard_to_its_end(
    tail: EventTail, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.telemetry.tail.FILE_BYTES", 300)
    tail.rate_per_s = 1.0
    file.write_bytes(line(step=1) * 5)
    assert len(tail.poll()) == 5
    with file.open("ab") as more:
        more.write(line(step=2))
    assert tail.poll() == []  # so much at once is a flood
    tail._began_s -= 60
    assert [event.data["step"] for event in tail.poll()] == [2]
