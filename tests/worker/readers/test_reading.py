"""Programs read by a sandbox that waited for one: as if it had been started for them."""

from __future__ import annotations

import logging
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for
from tests.worker.readers.conftest import Seen, model_of
from tests.worker.runtime.samples import digits, program, wine
from worker import inspection
from worker.home import run_dir
from worker.programs import ProgramCall, program_call_off
from worker.readers import reader as reader_module
from worker.readers.reader import Reader

MARKS = """
import builtins, os
assert not hasattr(builtins, "was_here") and not os.path.exists("/tmp/was_here")
builtins.was_here = True
open("/tmp/was_here", "w").close()
"""
HOLDS_MEMORY = """
import torch
kept = []
while True:
    kept.append(torch.ones(1 << 24))
"""
NEVER_ENDS = "while True:\n    pass\n"


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """Of an answer, all but how long it took."""
    return {name: value for name, value in answer.items() if name != "trace_s"}


@pytest.mark.parametrize("family", ["mlp", "ft_transformer", "cnn"])
def test_the_answer_is_that_of_a_process_of_its_own(pool: Seen, home: Path, family: str) -> None:
    data = home / "store" / "datasets" / family
    profile = digits(data, 200) if family == "cnn" else wine(data)
    folder = program(home / "store" / "jobs" / family / "program", profile, model={"family": family})
    request = {"request_id": family, "program_dir": str(folder), "dataset_dir": str(data), "batch_size": 24}
    pool.come_ready()
    waited = inspection.inspect(request)
    pool.close()
    own = inspection.inspect(request)
    assert pool.took == [True, False]
    assert waited["ok"] and waited["workload"]["batch_size"] == 24
    assert told(waited) == told(own)
    assert not list(run_dir("readers", "testnode").iterdir()) and not list(run_dir("sandbox").iterdir())


def test_each_reads_one_program_alone(pool: Seen, request_of: dict[str, Any]) -> None:
    model = model_of(request_of)
    model.write_text(model.read_text() + MARKS)
    used: list[Reader] = []
    for _ in range(2):
        pool.come_ready()
        used += pool.waiting()
        answer = inspection.inspect(request_of)
        assert answer["ok"], answer["problem"]
        assert not used[-1].is_alive() and not used[-1].slot.folder.exists()
    assert pool.took == [True, True]
    assert used[0].process.popen.pid != used[1].process.popen.pid and used[0].slot != used[1].slot


def test_a_fault_of_the_program_is_told_in_the_same_words(pool: Seen, request_of: dict[str, Any]) -> None:
    model = model_of(request_of)
    model.write_text(model.read_text().replace("def build(", "def make("))
    pool.come_ready()
    waited = inspection.inspect(request_of)
    pool.close()
    assert pool.took == [True]
    assert waited["problem"]["code"] == "model_no_build"
    assert told(waited) == told(inspection.inspect(request_of))


def test_a_program_that_never_ends_is_ended(
    pool: Seen, request_of: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "INSPECT_S", 2.0)
    model_of(request_of).write_text(NEVER_ENDS)
    pool.come_ready()
    answer = inspection.inspect(request_of)
    assert pool.took == [True]
    assert answer["problem"]["code"] == "time_limit"
    assert answer["problem"]["message"] == "The program took longer than the 2 s that it may take here."


def test_a_reading_that_is_called_off_is_ended(pool: Seen, request_of: dict[str, Any]) -> None:
    model_of(request_of).write_text(NEVER_ENDS)
    pool.come_ready()
    (reader,) = pool.waiting()
    answers: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(inspection.inspect(request_of)))
    thread.start()
    wait_for(lambda: reader not in pool.waiting())
    program_call_off("inspect-r1")
    thread.join(60)
    assert answers[0]["problem"]["code"] == "called_off"
    assert not reader.is_alive()


def test_a_program_that_takes_all_memory_is_ended(
    home: Path, request_of: dict[str, Any], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(reader_module, "ProgramCall", partial(ProgramCall, memory_bytes=1 << 30))
    pool = request.getfixturevalue("pool")
    model_of(request_of).write_text(HOLDS_MEMORY)
    pool.come_ready()
    answer = inspection.inspect({**request_of, "memory_bytes": 1 << 30})
    assert pool.took == [True]
    assert answer["problem"]["code"] == "out_of_memory"
    assert answer["problem"]["message"] == "The program needs more than the 1 GiB of memory that it may take here."
    assert "choose a smaller model" in answer["problem"]["hint"]


def test_what_no_waiting_reader_is_for_is_read_in_a_process_of_its_own_and_it_waits_on(
    pool: Seen, request_of: dict[str, Any], home: Path
) -> None:
    pool.come_ready()
    (reader,) = pool.waiting()
    more_memory = {**request_of, "memory_bytes": 3 << 30}
    assert inspection.inspect(more_memory)["ok"]
    data = Path(request_of["dataset_dir"])
    (data / "elsewhere").symlink_to(home)
    assert inspection.inspect(request_of)["ok"]
    assert pool.took == [False, False]
    assert pool.waiting() == (reader,) and reader.is_alive()
    assert not list(reader.slot.program.iterdir()) and not list(reader.slot.data.iterdir())
    (data / "elsewhere").unlink()
    assert inspection.inspect(request_of)["ok"]
    assert pool.took == [False, False, True]


def test_where_data_cannot_be_linked_none_waits_any_more(
    pool: Seen, request_of: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    pool.come_ready()
    (reader,) = pool.waiting()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere, caplog.at_level(logging.WARNING):
        wine(Path(elsewhere))
        answer = inspection.inspect({**request_of, "dataset_dir": elsewhere})
    assert answer["ok"], answer["problem"]
    assert pool.took == [False] and pool.waiting() == () and not reader.is_alive()
    assert [record.message for record in caplog.records if "data cannot be linked" in record.message]


def test_one_that_died_while_it_waited_is_not_asked(pool: Seen, request_of: dict[str, Any]) -> None:
    pool.come_ready()
    (reader,) = pool.waiting()
    reader.process.kill()
    assert inspection.inspect(request_of)["ok"]
    assert pool.took == [False]
