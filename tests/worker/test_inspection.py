"""Inspecting and measuring programs in the sandbox, as a node is asked to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.estimation.link import fit_link
from scheduler.workload import Workload
from tests.worker.runtime.samples import program, wine
from worker import inspection, tasks

HOLDS_MEMORY = """
import torch
kept = []
while True:
    kept.append(torch.ones(1 << 24))
"""


@pytest.fixture
def request_of(home: Path, tmp_path: Path) -> dict[str, Any]:
    """A request for a small program on wine."""
    data = home / "store" / "datasets" / "d" / "packed"
    profile = wine(data)
    folder = program(home / "store" / "jobs" / "j" / "program", profile, model={"family": "mlp"})
    return {
        "request_id": "r1", "job_dir": str(folder.parent), "dataset_dir": str(data), "minimum_sandbox_level": 0,
    }  # fmt: skip


def model_of(request: dict[str, Any]) -> Path:
    return Path(request["job_dir"]) / "program" / "model.py"


def test_a_program_is_inspected_in_the_sandbox_and_control_is_told(
    request_of: dict[str, Any], told: list[tuple[str, Any]]
) -> None:
    tasks.inspect(request_of)
    ((name, answer),) = told
    assert name == "control.inspect_done"
    assert answer["request_id"] == "r1" and answer["ok"] and answer["problem"] is None
    load = Workload.from_dict(answer["workload"])
    assert load.parameters == answer["parameters"] > 0
    assert len(answer["program_sha256"]) == 64
    before = answer["program_sha256"]
    model_of(request_of).write_text(model_of(request_of).read_text() + "\n# changed\n")
    assert inspection.program_sha256(request_of) != before


def test_points_are_measured_and_told_one_by_one_until_the_time_is_used_up(
    request_of: dict[str, Any], told: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 0.0, 0.0, 175.0))
    monkeypatch.setattr(inspection, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    points: list[dict[str, Any]] = [
        {"request_id": "a", "batch_size": 16, "quiet": True}, {"request_id": "b", "batch_size": 8}, {"request_id": "c"},
    ]  # fmt: skip
    common = {**request_of, "steps": 1, "visits": 1, "points": points}
    common.pop("dataset_dir")
    monkeypatch.setattr(inspection, "measure_one", stub := Counted(inspection.measure_one))
    tasks.measure(common)
    assert [name for name, _ in told] == ["control.measure_done"] * 3
    first, second, third = (answer for _, answer in told)
    assert stub.asked == ["a", "b"]
    for answer, batch in ((first, 16), (second, 8)):
        assert answer["ok"], answer["problem"]
        assert answer["batch_size"] == batch and len(answer["step_s"]) == 1
        assert answer["peak_bytes"] > 0
        assert Workload.from_dict(answer["workload"]).batch_size == batch
    assert first["quickest_s"] > 0 and second["quickest_s"] is None
    assert (third["request_id"], third["ok"], third["problem"]["code"]) == ("c", False, "time_limit")


class Counted:
    """Passes calls on and notes the ids."""

    def __init__(self, call: Any) -> None:
        self.call, self.asked = call, []

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request["request_id"])
        return self.call(request)


def test_garbage_is_collected_while_a_program_is_read(request_of: dict[str, Any]) -> None:
    model = model_of(request_of)
    model.write_text(model.read_text() + "\nimport gc\nassert gc.isenabled() and gc.get_freeze_count() > 0\n")
    answer = inspection.inspect(request_of)
    assert answer["ok"], answer["problem"]


def test_a_program_that_never_ends_is_ended(request_of: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "INSPECT_S", 6.0)
    model_of(request_of).write_text("while True:\n    pass\n")
    answer = inspection.inspect(request_of)
    assert not answer["ok"] and answer["workload"] is None
    assert answer["problem"]["code"] == "time_limit"
    assert "device" in answer["problem"]["hint"]


def test_a_program_that_takes_all_memory_is_ended(request_of: dict[str, Any]) -> None:
    model_of(request_of).write_text(HOLDS_MEMORY)
    answer = inspection.inspect({**request_of, "memory_bytes": 1 << 30})
    assert not answer["ok"]
    assert answer["problem"]["code"] == "out_of_memory"
    assert answer["problem"]["message"] == "The program needs more than the 1 GiB of memory that it may take here."
    assert "smaller model" in answer["problem"]["hint"] and "a few real steps" in answer["problem"]["hint"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("import os\nos._exit(0)\n", "program_error"),
        ("print('{\"ok\": true}')\nimport os\nos._exit(0)\n", None),
        ("print('x' * 1000000)\nraise SystemExit(1)\n", "program_error"),
    ],
)
def test_a_program_that_answers_by_itself_gets_no_workload(
    request_of: dict[str, Any], source: str, code: str | None
) -> None:
    model_of(request_of).write_text(source)
    answer = inspection.inspect(request_of)
    assert answer["workload"] is None
    assert (answer["problem"] or {}).get("code") == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"minimum_sandbox_level": 9}, "sandbox_too_weak"),
        ({"job_dir": "/nowhere"}, "program_missing"),
        ({"batch_size": 0}, "bad_request"),
        ({"batch_size": "; ls"}, "bad_request"),
        ({"ranks": -1}, "bad_request"),
        ({"link": "two"}, "bad_request"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered(
    request_of: dict[str, Any], told: list[tuple[str, Any]], changes: dict[str, Any], code: str
) -> None:
    tasks.measure({**request_of, **changes})
    ((_, answer),) = told
    assert (answer["ok"], answer["problem"]["code"]) == (False, code)


def test_energy_is_read_outside_where_the_steps_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = inspection._Watcher((0,))
    monkeypatch.setattr(watcher._meter, "start", lambda: None)
    monkeypatch.setattr(watcher._meter, "stop", lambda: 42.0)
    watcher.line("noise")
    assert watcher.power_w is None
    watcher.line('{"mark": "begin"}')
    watcher.line('{"mark": "end"}')
    assert watcher.power_w == 42.0


@pytest.mark.ranks
def test_ranks_and_links_are_measured_in_the_sandbox(request_of: dict[str, Any], told: list[tuple[str, Any]]) -> None:
    tasks.measure({**request_of, "ranks": 2, "batch_size": 16, "steps": 1})
    tasks.measure({"request_id": "l1", "link": 2})
    (_, measured), (_, link) = told
    assert measured["ok"], measured["problem"]
    assert (measured["ranks"], Workload.from_dict(measured["workload"]).batch_size) == (2, 8)
    assert link["ok"], link["problem"]
    assert fit_link(link["sizes_bytes"], link["seconds"]).latency_s > 0


@pytest.mark.parametrize(
    ("device", "more", "indices"),
    [
        ("cpu", {"ranks": 2}, ()),
        ("cuda", {}, (0,)),
        ("cuda:3", {}, (3,)),
        ("cuda:1", {"ranks": 2}, (1, 2)),
        ("cuda:0,2", {"ranks": 2}, (0, 2)),
        ("cuda:0,2", {"link": 2}, (0, 2)),
        ("cuda:0,2", {}, (0,)),
    ],
)
def test_a_request_names_the_gpus_of_its_ranks(device: str, more: dict[str, Any], indices: tuple[int, ...]) -> None:
    assert inspection.gpus({"device": device, **more}) == indices
