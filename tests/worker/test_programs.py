"""A program tried beside training: its whole answer reaches who asked, and an end without a word is named."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.worker.conftest import JobFixture
from worker import inspection, programs, tasks
from worker.sandbox import Completed


def tried(job: JobFixture, monkeypatch: pytest.MonkeyPatch, **ended: Any) -> dict[str, Any]:
    """Answer of a check whose program ended so."""
    done = {"returncode": 0, "stdout": "", "stderr": "", "level": 0} | ended
    monkeypatch.setattr(programs, "program_run", lambda _: Completed(**done))
    return programs.check({"check_id": "c", "job_dir": str(job.paths.root), "dataset_dir": str(job.paths.root)})


def test_what_the_check_noticed_of_a_program_that_runs_is_answered(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"ok": True, "problem": None, "parameters": 6, "output_shape": [16, 2], "notes": ["Probabilities already."]}
    answer = tried(job, monkeypatch, stdout=f"a word of the program\n{json.dumps(told)}\n")
    assert answer == {**told, "check_id": "c"}


@pytest.mark.parametrize(("code", "words"), [(-signal.SIGSEGV, "was ended by SIGSEGV"), (3, "ended with exit code 3")])
def test_a_program_that_ends_without_a_word_is_told_how_it_ended(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    problem = tried(job, monkeypatch, returncode=code)["problem"]
    assert problem["message"] == f"The program {words} and printed nothing."


@pytest.mark.parametrize("how", ["ended by the kernel", "told by itself"])
def test_a_check_that_runs_out_of_memory_says_how_much_it_may_take_and_what_to_do(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    noticed = {"code": "out_of_memory", "message": "The run needs more memory than it has.", "hint": "", "line": 4}
    told = json.dumps({"ok": False, "problem": noticed})
    ended = (
        {"returncode": -9, "stdout": "", "out_of_memory": True} if how == "ended by the kernel" else {"stdout": told}
    )
    done = Completed(**{"returncode": 1, "stderr": "", "level": 0} | ended)
    monkeypatch.setattr(programs, "run_sandboxed", lambda *_, **__: done)
    request = {"check_id": "c", "job_dir": str(job.paths.root), "dataset_dir": str(job.paths.root)}
    problem = programs.check(request)["problem"]
    assert problem["message"] == "The program needs more than the 4 GiB of memory that it may take here."
    assert "choose a smaller model" in problem["hint"] and "resources.memory_gib" in problem["hint"]


def test_a_check_that_takes_too_long_says_where_to_look(job: JobFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    done = Completed(returncode=-9, stdout="", stderr="", level=0, timed_out=True)
    monkeypatch.setattr(programs, "run_sandboxed", lambda *_, **__: done)
    request = {"check_id": "c", "job_dir": str(job.paths.root), "dataset_dir": str(job.paths.root)}
    problem = programs.check(request)["problem"]
    assert problem["message"] == "The program took longer than the 3 min that it may take here."
    assert all(name in problem["hint"] for name in ("data.py loads the rows", "model.py", "train.py"))
    assert "Send less" not in problem["hint"]


def call_of(folder: Path, name: str) -> programs.ProgramCall:
    """A program that says that it is there and would go on for long."""
    text = "import time; print('here', flush=True); time.sleep(1000)"
    return programs.ProgramCall(
        name=name, argv=(sys.executable, "-c", text), workdir=folder, readonly=(folder,), timeout_s=300.0
    )


def test_a_run_that_nobody_waits_for_any_more_is_ended_and_nothing_of_it_is_left(home: Path, tmp_path: Path) -> None:
    there = threading.Event()
    off = threading.Thread(target=lambda: there.wait(120) and tasks.rate_stop("t1"), daemon=True)
    off.start()
    with pytest.raises(programs.ProgramProblem) as told:
        programs.program_run(call_of(tmp_path, "rates-t1"), lambda _line: there.set())
    off.join()
    assert told.value.code == "called_off"


def test_a_run_that_was_called_off_before_it_began_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    done = Completed(returncode=0, stdout="", stderr="", level=0)
    monkeypatch.setattr(programs, "run_sandboxed", lambda *_, name, **__: begun.append(name) or done)
    tasks.rate_stop("t2")
    with pytest.raises(programs.ProgramProblem):
        programs.program_run(call_of(tmp_path, "rates-t2"))
    assert not begun
    programs.program_run(call_of(tmp_path, "rates-t2"))  # asked for anew
    assert begun == ["rates-t2"]


def test_steps_of_a_program_are_called_off_by_the_id_of_their_request(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    done = Completed(returncode=0, stdout='{"ok": true}', stderr="", level=0)
    monkeypatch.setattr(programs, "run_sandboxed", lambda *_, name, **__: begun.append(name) or done)
    job.paths.program.mkdir(parents=True, exist_ok=True)
    (job.paths.program / "model.py").write_text("")
    request = {"request_id": "probe-p1", "job_dir": str(job.paths.root)}
    tasks.measure_stop("probe-p1")
    assert inspection.measure_one(request)["problem"]["code"] == "called_off"
    assert not begun
    assert inspection.measure_one(request)["ok"]
    assert begun == ["measure-probe-p1"]
