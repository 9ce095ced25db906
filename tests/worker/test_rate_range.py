"""Range tests on a node: in the sandbox, with progress, and with words for what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler.rates.interval import RangeRecord, rate_range
from scheduler.rates.trials import TrialsRecord, trial_choice
from tests.worker.runtime.samples import program, wine
from worker import rate_range as ranging
from worker import tasks


@pytest.fixture
def request_of(home: Path) -> dict[str, Any]:
    """A request for a small program on wine."""
    data = home / "store" / "datasets" / "d" / "packed"
    folder = program(home / "store" / "jobs" / "j" / "program", wine(data), model={"family": "mlp"})
    return {
        "request_id": "t1", "job_dir": str(folder.parent), "dataset_dir": str(data), "minimum_sandbox_level": 0,
        "sweeps": 2, "steps": 60, "low": None,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def tells_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is told as soon as there is any."""
    monkeypatch.setattr(ranging, "TELL_S", 0.0)


def test_a_program_is_tested_in_the_sandbox_and_control_is_told(
    request_of: dict[str, Any], told: list[tuple[str, Any]]
) -> None:
    work = Path(request_of["job_dir"])
    before = sorted(work.rglob("*"))
    tasks.rate_test(request_of)
    assert {name for name, _ in told} == {"control.rate_range_done"}
    *progress, answer = (body for _, body in told)
    assert progress and all(body["request_id"] == "t1" and 0 < body["progress"] <= 1 for body in progress)
    assert answer["ok"], answer["problem"]
    assert (answer["request_id"], len(answer["program_sha256"])) == ("t1", 64)
    found = rate_range(RangeRecord.from_dict(answer["record"]))
    assert found.low < found.centre < found.high
    assert sorted(work.rglob("*")) == before


def test_trials_are_made_in_the_sandbox_where_a_centre_is_named(
    request_of: dict[str, Any], told: list[tuple[str, Any]]
) -> None:
    tasks.rate_test({**request_of, "centre": 1e-3, "scale": 0.5, "budget_s": 300.0})
    *progress, answer = (body for _, body in told)
    assert progress and all(0 <= body["progress"] <= 1 for body in progress)
    assert answer["ok"], answer["problem"]
    record = TrialsRecord.from_dict(answer["trials"])
    assert record.centre == 1e-3 and answer["complete"] and trial_choice(record).rate > 0
    tasks.rate_test({**request_of, "centre": 0.0})
    assert told[-1][1]["problem"]["message"] and told[-1][1]["trials"] is None


def test_what_is_wrong_with_the_request_or_the_program_is_told(
    request_of: dict[str, Any], told: list[tuple[str, Any]]
) -> None:
    for wrong, code in (
        ({"batch_size": 0}, "bad_request"),
        ({"job_dir": request_of["dataset_dir"]}, "program_missing"),
        ({"dataset_dir": None}, "data_error"),
    ):
        tasks.rate_test({**request_of, **wrong})
        _, answer = told[-1]
        assert not answer["ok"]
        assert answer["problem"]["code"] == code
