"""What is asked of the width of a run, from the agent's file to the event that says it is so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.worker.conftest import JobFixture, wait_for
from worker import registry
from worker.elastic.resize import attempt_resize
from worker.elastic.width import WIDTH_FILE, Width, WidthFile, WidthWatch, width_read

SPEAK = """
import json, os, socket, sys
line = socket.socket(fileno=int(os.environ["DLH_SEAT_FD"]))
lines = line.makefile("rb")
generation = 0
def sit():
    global generation
    line.sendall(json.dumps({"ready": generation, "step": 7}).encode() + b"\\n")
    while text := lines.readline():
        body = json.loads(text)
        if "leave" in body:
            sys.exit(0)
        if "seat" in body:
            generation = body["seat"]["generation"]
            line.sendall(json.dumps({"met": generation}).encode() + b"\\n")
            return
    sys.exit(69)
sit()
tell("running")
for text in lines:
    if "call" in json.loads(text):
        sit()
"""


@pytest.fixture
def supervised(job: JobFixture) -> Iterator[JobFixture]:
    """This process as the supervisor of attempt 1."""
    job.paths.attempt(1).mkdir(parents=True, exist_ok=True)
    me = psutil.Process().pid
    created_s = registry.process_created_s(me)
    registry.add(registry.Entry(job_id=job.job_id, token=1, job_dir=str(job.paths.root), pid=me, created_s=created_s))
    yield job
    registry.remove(job.job_id, 1)


def asked(folder: Path, number: int, *slots: int) -> Width:
    """As the agent writes it."""
    width = Width(number=number, slots=slots)
    folder.mkdir(exist_ok=True)
    (folder / ".making").write_text(width.to_json())
    (folder / ".making").replace(folder / WIDTH_FILE)
    return width


def said(number: int, *ranks: int, step: int = 5) -> bytes:
    """As the gang says it."""
    return json.dumps({"width": number, "ranks": ranks, "step": step}).encode()


def test_the_newest_wish_is_kept_and_once_more_where_it_is_asked_again(supervised: JobFixture) -> None:
    folder = supervised.paths.requests(1)
    look = WidthFile(folder)
    assert attempt_resize(supervised.job_id, 1, 2, [1, 0])
    assert look.news() == Width(number=2, slots=(0, 1))
    assert look.news() is None
    assert not attempt_resize(supervised.job_id, 1, 1, [0])
    assert look.news() is None
    assert attempt_resize(supervised.job_id, 1, 2, [0, 1])
    assert look.news() == width_read(folder) == Width(number=2, slots=(0, 1))


def test_an_attempt_that_does_not_run_here_is_asked_nothing(job: JobFixture) -> None:
    assert not attempt_resize(job.job_id, 1, 1, [0])
    assert width_read(job.paths.requests(1)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"number": 1}', '{"number": "x", "slots": []}', "7"])
def test_what_is_no_wish_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / WIDTH_FILE).write_text(text)
    assert width_read(tmp_path) is None
    assert WidthFile(tmp_path).news() is None


def test_control_is_told_once_and_again_when_it_asks_again(tmp_path: Path) -> None:
    watch = WidthWatch(tmp_path)
    assert watch.due({0, 1}) is None
    asked(tmp_path, 1, 0)
    assert watch.due({0, 1}) is None
    watch.heard(said(1, 0))
    assert watch.due({0}) == {"number": 1, "ranks": [0], "step": 5}
    assert watch.due({0}) is None
    asked(tmp_path, 1, 0)
    assert watch.due({0}) == {"number": 1, "ranks": [0], "step": 5}


def test_nothing_is_told_while_a_process_of_another_rank_is_there(tmp_path: Path) -> None:
    watch = WidthWatch(tmp_path)
    asked(tmp_path, 1, 0)
    watch.heard(said(1, 0))
    assert watch.due({0, 1}) is None
    assert watch.due({0}) is not None


def test_what_was_said_of_an_older_wish_or_of_other_ranks_is_not_told(tmp_path: Path) -> None:
    watch = WidthWatch(tmp_path)
    watch.heard(said(1, 0))
    asked(tmp_path, 2, 1)
    assert watch.due({1}) is None
    watch.heard(said(2, 0))
    assert watch.due({1}) is None


@pytest.mark.parametrize("line", [b"", b"{", b"7", b'{"width": 1}', b'{"width": 1, "step": -1, "ranks": [0]}'])
def test_what_is_no_word_about_the_width_is_passed_over(tmp_path: Path, line: bytes) -> None:
    watch = WidthWatch(tmp_path)
    asked(tmp_path, 1, 0)
    watch.heard(line)
    assert watch.due({0}) is None


def widths(job: JobFixture) -> list[dict[str, Any]]:
    """Data of the events that tell a width."""
    return [event.data for event in job.events() if event.kind == "width"]


def test_a_supervised_run_becomes_narrower_and_wider_and_says_when_it_is(job: JobFixture) -> None:
    job.program(SPEAK)
    assert job.start(job.plan(ranks=2, least=1, most=3))
    wait_for(lambda: "running" in job.kinds())
    assert attempt_resize(job.job_id, 1, 1, [1])
    wait_for(lambda: widths(job))
    assert widths(job) == [{"number": 1, "ranks": [1], "step": 7}]
    assert {process.environ()["DLH_RANK"] for process in job.processes()} == {"1"}
    assert attempt_resize(job.job_id, 1, 2, [0, 1, 2])
    wait_for(lambda: len(widths(job)) == 2)
    assert widths(job)[-1]["ranks"] == [0, 1, 2]
    assert {process.environ()["DLH_RANK"] for process in job.processes()} == {"0", "1", "2"}
    assert attempt_resize(job.job_id, 1, 2, [0, 1, 2])
    wait_for(lambda: len(widths(job)) == 3)
    assert widths(job)[2] == widths(job)[1]
