"""A disk that is really full while a run lies on it: the cause is told, and the end is heard though nothing is written.

`disk` is a tmpfs; see `tests/small_disk.py`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.small_disk import fill
from tests.worker.conftest import JOB_ID, JobFixture, wait_for
from worker import heartbeat, registry, tasks
from worker.events import EventKind
from worker.full_disk import is_own
from worker.plan import RunPaths
from worker.registry import write_json
from worker.runtime.report import Reporter
from worker.telemetry.logs import RankLog
from worker.telemetry.tail import EventTail

FILL = """
tell("progress", step=1, phase="train")
with open(os.environ["DLH_WORK"] + "/filler", "wb", buffering=0) as file:
    while file.write(b"x" * 4096) == 4096: pass
"""


@pytest.fixture
def job_there(job: JobFixture, disk: Path) -> JobFixture:
    """The job's folder lies on the small disk; what the node keeps about it does not."""
    return JobFixture(RunPaths(disk / "jobs" / JOB_ID), job.dataset, job.url)


def ended(job: JobFixture) -> dict:
    """Data of the EXITED event, as control hears it."""
    wait_for(lambda: "exited" in job.kinds())
    return next(event.data for event in job.events() if event.kind is EventKind.EXITED)


def test_a_run_that_fills_the_disk_is_told_as_such_though_its_end_cannot_be_recorded(job_there: JobFixture) -> None:
    job_there.program(FILL)
    assert job_there.start(job_there.plan())
    data = ended(job_there)
    assert (data["outcome"], data["failure"]["code"]) == ("failed", "disk_full")
    wait_for(lambda: heartbeat.report()["running"] == [])
    assert job_there.kinds().count("exited") == 1
    assert not job_there.processes()


def test_a_full_disk_takes_lines_from_a_log_and_nothing_else_from_a_run(job_there: JobFixture) -> None:
    body = """
print("before", flush=True)
while not os.path.exists(os.environ["DLH_WORK"] + "/seen"):
    time.sleep(0.02)
try:
    pass
{fill}
except OSError:
    print("lost", flush=True)
    time.sleep(1.0)
    os.remove(os.environ["DLH_WORK"] + "/filler")
print("after", flush=True)
"""
    job_there.program(body.format(fill="\n".join("    " + line for line in FILL.strip().splitlines())))
    assert job_there.start(job_there.plan())
    wait_for(lambda: "before" in job_there.log())
    (job_there.paths.work / "seen").touch()
    data = ended(job_there)
    assert data["outcome"] == "succeeded", data
    lines = wait_for(lambda: job_there.log().splitlines())
    assert lines[0] == "before" and "after" in lines


def test_a_start_on_a_full_disk_is_answered_at_once(job_there: JobFixture) -> None:
    job_there.program("pass")
    fill(job_there.paths.root)
    assert not job_there.start(job_there.plan())
    data = ended(job_there)
    assert (data["outcome"], data["failure"]["code"]) == ("failed", "disk_full"), "no other node could write there"
    assert data["failure"]["message"] == "The store is full: testnode cannot write there."
    assert not job_there.processes()


def test_a_start_that_the_node_cannot_write_down_is_answered_at_once(
    job: JobFixture, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLH_HOME", str(disk))
    job.program("pass")
    fill(disk)
    job.start(job.plan())
    data = ended(job)
    assert (data["outcome"], data["failure"]["code"]) == ("lost", "node_disk_full"), "another node may have room"
    assert not job.processes()


def test_a_start_for_whose_folder_the_node_has_no_room_is_answered_at_once(
    job: JobFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(paths: RunPaths) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(paths.root))

    monkeypatch.setenv("DLH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registry, "locked", full)
    assert not tasks.start(job.plan().to_dict())
    data = ended(job)
    assert (data["outcome"], data["failure"]["code"]) == ("lost", "node_disk_full"), "another node may have room"


def test_a_start_on_a_node_whose_cache_cannot_be_written_is_answered_at_once(
    job: JobFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLH_CACHE", str(tmp_path / "file" / "cache"))
    assert not tasks.start(job.plan().to_dict())
    data = ended(job)
    assert (data["outcome"], data["failure"]["code"]) == ("lost", "start_failed")
    assert "Not a directory" in data["failure"]["message"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ENOSPC])
def test_a_run_that_goes_on_is_not_told_as_lost_where_it_is_asked_for_again_and_its_disk_fails(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(paths: RunPaths) -> None:
        raise OSError(number, os.strerror(number), str(paths.root))

    job.program("while not os.path.exists(os.environ['DLH_WORK'] + '/seen'): time.sleep(0.02)")
    assert tasks.start(job.plan().to_dict())
    with monkeypatch.context() as now:
        now.setattr(registry, "locked", fails)
        assert not tasks.start(job.plan().to_dict())
        assert not tasks.start(job.plan(token=2).to_dict())
    wait_for(job.paths.work.exists)
    (job.paths.work / "seen").touch()
    wait_for(lambda: job.paths.exit_file(1).exists())
    ends = [event for event in job.events() if event.kind is EventKind.EXITED]
    (other,) = [event for event in ends if event.token == 2]
    assert number == errno.ENOSPC or "could not prepare the run: " in other.data["failure"]["message"]
    assert [event.data["outcome"] for event in ends if event.token == 1] == ["succeeded"]


def test_where_home_and_store_share_a_disk_it_is_the_store_that_is_full(
    job_there: JobFixture, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLH_HOME", str(disk / "home"))
    job_there.program("pass")
    (disk / "home").mkdir()
    fill(disk)
    job_there.start(job_there.plan())
    assert ended(job_there)["failure"]["code"] == "disk_full"


def test_on_a_node_that_does_not_see_the_store_every_full_disk_is_its_own(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(disk)
    full = OSError(errno.ENOSPC, "No space left on device")
    assert not is_own(disk / "jobs" / JOB_ID, full) and is_own(disk.parent, full)
    monkeypatch.setenv("DLH_CACHE", str(disk))
    assert is_own(disk / "jobs" / JOB_ID, full)


def test_a_quota_is_that_of_the_disk_on_which_the_file_lies(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def met(path: Path | None) -> OSError:
        return OSError(errno.EDQUOT, "Disk quota exceeded", *([] if path is None else [str(path)]))

    monkeypatch.setenv("DLH_HOME", str(disk))
    job = tmp_path / "store" / "jobs" / JOB_ID
    assert is_own(job, met(disk / "run" / "attempts" / "x.json")), "another node may have room"
    assert not is_own(job, met(job / "attempts" / "1" / "launch.json"))
    assert not is_own(job, met(None)), "nobody can tell"


def test_who_writes_a_record_on_a_full_disk_is_told_which_file_it_was(disk: Path) -> None:
    fill(disk)
    with pytest.raises(OSError, match="No space left") as caught:
        write_json(disk / "x.json", "x" * 100_000)
    assert str(caught.value.filename).startswith(str(disk))


def test_an_error_is_told_after_a_line_that_a_full_disk_tore(disk: Path) -> None:
    reporter = Reporter(disk / "rank-0.jsonl", job_id=JOB_ID, token=1, rank=0)
    reporter.emit(EventKind.NOTE, message="before")
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        for _ in range(100):  # what is left of its last block
            reporter.emit(EventKind.NOTE, message="x" * 500)
    reporter.emit(EventKind.ERROR, code="disk_full", message="full", hint="", step=None, traceback=None)
    tail = EventTail(disk, Path("rank-0.jsonl"), JOB_ID, 1, 0)
    assert [event.kind for event in tail.poll()][-1] is EventKind.ERROR


def test_a_log_on_a_full_disk_goes_on_with_whole_lines_when_there_is_room(disk: Path) -> None:
    log = RankLog(0, disk / "logs" / "rank-0.log")
    assert log.add(["one"]) == ["one"]
    filler = fill(disk)
    long = "x" * 5000
    assert log.add([long, "two"]) == []
    filler.unlink()
    assert log.add(["three"]) == ["three"]
    log.close()
    assert log.path.read_text().splitlines() == ["one", "three", "[the disk was full: 2 lines left out]"]
