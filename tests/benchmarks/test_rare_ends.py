"""Benchmarks in states that are rare and real: their last line has figures all the same."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import RunParts
from scheduler.estimation.sweep import SweepPoint
from scheduler.estimation.values import Allocation
from tests.benchmarks import (
    bench_preload,
    bench_quality,
    bench_schedule,
    estimate_gangs,
    estimate_jobs,
    estimate_measure,
    estimate_staged,
    fault_lab,
    gpu_points,
    modes_pipeline,
    modes_ranks,
)
from tests.benchmarks.bench_estimate import allocation_met, met
from tests.benchmarks.bench_faults import tried
from tests.benchmarks.bench_gpu import held_out_power
from tests.benchmarks.estimate_held_out import held_out_families
from tests.benchmarks.estimate_jobs import JOBS, allocations, chosen_against_all
from tests.benchmarks.estimate_runs import Seen
from tests.benchmarks.fault_lab import Lab, Row
from tests.benchmarks.gather import gathered
from tests.factory_offers import workload_make
from worker.quiet import Gauge

FINE = {"mape": 0.01, "p90": 0.02}
PARTS = RunParts(start_s=1.0, steps_s=5.0, passes_s=1.0, saves_s=0.0, end_s=1.0)


def test_throughput_by_ranks_is_that_of_the_typical_step_of_the_slowest_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = modes_pipeline.WARM_UP_STEPS + 3

    def launch(folder: Path, size: int, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return [{"step_s": [1.0 / size] * (steps - 1) + [9.0], "looks": [True] * (steps + 1)}] * size

    monkeypatch.setattr(modes_ranks, "launch", launch)
    monkeypatch.setattr(modes_ranks, "pictures", lambda *_: None)
    monkeypatch.setattr(modes_ranks.samples, "program", lambda *_, **__: None)
    found = modes_ranks.throughput(tmp_path, argparse.Namespace(batch=64, rounds=2, steps=3))
    assert {body["ranks"]: body["speedup"] for body in found} == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    assert found[1]["rows_per_s"] == 128.0


@pytest.mark.parametrize(
    ("ending", "words"), [(0, r"of 1 rank \(cores\), 0 ended"), (1, r"of 2 ranks \(cores\), 1 ended")]
)
def test_no_throughput_is_told_of_ranks_of_which_one_gave_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: int, words: str
) -> None:
    steps = modes_pipeline.WARM_UP_STEPS + 3
    told = {"step_s": [1.0] * steps, "looks": [True] * (steps + 1)}
    monkeypatch.setattr(modes_ranks, "launch", lambda *_: [told] * ending)
    monkeypatch.setattr(modes_ranks, "pictures", lambda *_: None)
    monkeypatch.setattr(modes_ranks.samples, "program", lambda *_, **__: None)
    with pytest.raises(RuntimeError, match=words):
        modes_ranks.throughput(tmp_path, argparse.Namespace(batch=64, rounds=1, steps=3))


@pytest.mark.parametrize(("program", "how"), [("import signal; signal.pause()", "hung"), ("", "ended")])
def test_a_side_of_the_preload_that_is_never_ready_is_not_waited_for_without_end(program: str, how: str) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as side:
        try:
            with pytest.raises(RuntimeError, match=f"{how} before it was ready"):
                bench_preload.wait_ready(side, 0.5 if how == "hung" else 60.0)
        finally:
            side.kill()


def test_offers_that_refuse_every_deadline_have_no_energy_and_meet_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    workload, seen = workload_make(), []
    for way, run_s in zip(allocations(32), (9.0, 8.0, 7.0), strict=True):
        seen.append(Seen(JOBS[0], workload, Probe(allocation=way, step_s=(0.1,)), run_s, 1.0, PARTS))
    monkeypatch.setattr(estimate_jobs, "offered", lambda *_: None)
    model: Any = SimpleNamespace(power=SimpleNamespace(busy_w=10.0))
    choice = chosen_against_all(model, seen)
    assert choice["refused"] == len(estimate_jobs.SLACK) and choice["ours_energy_above_best"] is None
    assert not allocation_met(choice)
    json.dumps(choice, allow_nan=False)


def test_bars_of_what_could_not_be_measured_are_left_out() -> None:
    result = {
        "cnn": {"errors": {"ours": FINE}, "memory": {}}, "families": {}, "ranks": {"2 threads": FINE}, "jobs": {},
    }  # fmt: skip
    assert met(result) == {"cnn": True}


def test_two_families_leave_none_to_be_foretold() -> None:
    points: Any = [SimpleNamespace(family=family) for family in ("cnn", "mlp", "resnet")]
    assert held_out_families(points) == {}


def test_without_a_meter_nothing_is_said_of_watts() -> None:
    points: Any = [SimpleNamespace(power_w=None), SimpleNamespace(power_w=0.0)]
    assert held_out_power(points) == {}


def test_a_folder_without_step_times_leaves_the_tables_out(tmp_path: Path) -> None:
    found = gathered("modes_uneven", ["--traces", str(tmp_path), "--rounds", "0"])
    assert found["benchmark"] == "modes_uneven" and "tables" not in found
    assert not found["met"], "nothing was measured"


def test_a_job_that_does_not_run_is_left_out_of_the_whole_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def see(job: SweepPoint, way: Allocation, *_: Any) -> Seen:
        if job.family == "resnet":
            raise RuntimeError("train.py failed")
        return Seen(job, workload_make(), Probe(allocation=way, step_s=(0.1,)), 8.0, 1.0, PARTS)

    monkeypatch.setattr(estimate_jobs, "see", see)
    monkeypatch.setattr(estimate_jobs, "foretold", lambda *_: (8.0, 4.0))
    seen, figures = estimate_jobs.whole_jobs(None, tmp_path)  # type: ignore[arg-type]
    assert {one.job.family for one in seen} == {job.family for job in JOBS} - {"resnet"}
    assert figures["median"] == 0.0 and figures["runs"] == 3 * (len(JOBS) - 1)
    assert "left out: resnet: train.py failed" in capsys.readouterr().out


def test_stages_and_gangs_that_do_not_run_leave_no_figures_and_break_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise subprocess.TimeoutExpired("worker.launch", 600.0)

    for module in (estimate_staged, estimate_gangs):
        monkeypatch.setattr(module, "write_program", broken)
    assert estimate_staged.staged_runs(None, tmp_path) == {}  # type: ignore[arg-type]
    assert estimate_gangs.gangs(None, tmp_path) == {}  # type: ignore[arg-type]


def test_a_set_that_breaks_does_not_keep_the_others_from_their_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(name: str, *_: Any) -> bench_quality.Outcome:
        if name == "wine":
            raise RuntimeError("train.py failed")
        return bench_quality.Outcome(name, metric="accuracy", ours=[0.9], rival=[0.8], rival_val=[0.8], train_s=[1.0])

    monkeypatch.setattr(bench_quality, "measure", measure)
    monkeypatch.setattr("sys.argv", ["bench_quality", "--sets", "wine", "breast_cancer"])
    assert bench_quality.main() == 1
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(told["sets"]) == ["breast_cancer"] and told["broken"] == ["wine"]


def test_a_picture_set_passes_by_its_own_bar_and_beside_the_rival() -> None:
    digits = bench_quality.Outcome("digits", metric="accuracy", ours=[0.985], rival=[0.97], train_s=[1.0])
    assert digits.passed
    assert not replace(digits, rival=[0.999]).passed and not replace(digits, ours=[0.97]).passed


def test_a_metric_that_the_rival_is_not_scored_by_is_refused() -> None:
    with pytest.raises(RuntimeError, match="the rival is scored by accuracy, not by balanced_accuracy"):
        bench_quality.check_metric("tabular_classification", "balanced_accuracy")
    bench_quality.check_metric("tabular_regression", "r2")


def test_a_section_that_the_scheduler_s_bench_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench_schedule", "--only", "replay"])
    with pytest.raises(SystemExit):
        bench_schedule.main()
    assert "no section replay; there are replays, decisions, long" in capsys.readouterr().err


def test_a_measurement_that_stands_still_is_ended_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_measure, "LIMIT_S", 0.1)
    monkeypatch.setattr(estimate_measure, "_child", lambda *_: signal.pause())
    answer = estimate_measure.in_fork(tmp_path, estimate_measure.options(), Gauge())
    assert not answer["ok"] and "no answer within" in answer["problem"]["message"]


def test_a_line_that_a_killed_process_left_unfinished_costs_that_visit_alone(tmp_path: Path) -> None:
    visits = tmp_path / "visits.jsonl"
    gpu_points.keep(visits, {"point_id": "a"})
    with visits.open("a") as killed:
        killed.write('{"point_id": "b", "st')
    for point_id in ("c", "d"):
        gpu_points.keep(visits, {"point_id": point_id})
    assert [row["point_id"] for row in gpu_points.lines(visits)] == ["a", "c", "d"]
    assert visits.read_text().count("\n") == 4


def test_without_a_gpu_it_is_said_that_nothing_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.devices.devices", list)
    with pytest.raises(SystemExit, match="nothing can be measured on cuda:0: this machine has 0 GPUs"):
        gpu_points.gpu_of("cuda:0")


def test_visits_of_which_none_gave_figures_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    visits = tmp_path / "visits.jsonl"
    visits.write_text(json.dumps({"point_id": "a", "ok": False, "problem": {"message": "out of memory"}}) + "\n")
    gpu_points.told(visits)
    assert capsys.readouterr().out == "0 of 1 visits gave figures\n  left out: a: out of memory\n"


class Stack:
    """Notes how it was ended; one that is told to end does not."""

    def __init__(self, home: Path, **_: str) -> None:
        self.home, self.killed = home, False

    def wait_running(self) -> Stack:
        return self

    def stop(self) -> None:
        raise subprocess.TimeoutExpired("stack", 1.0)

    def kill(self) -> None:
        self.killed = True


def test_a_fault_that_breaks_the_bench_leaves_its_stack_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fault_lab, "RunningStack", Stack)
    lab, seen, closed = Lab(tmp_path), [], []
    lab.at_close.append(lambda: closed.append("machine"))

    def broken(lab: Lab) -> Row:
        seen.append(lab.stack)
        raise AssertionError("the rank did not die")

    fault: Callable[[Lab], Row] = broken
    row = tried(fault, lab)
    assert row.outcome == "AssertionError: the rank did not die" and not row.good
    assert seen[0].killed and closed == ["machine"]
    assert lab.stack is not seen[0] and lab.stack.home != seen[0].home


def test_what_cannot_be_ended_after_a_fault_keeps_nothing_else_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stuck(Stack):
        def kill(self) -> None:
            super().kill()
            raise PermissionError("not ours")

    monkeypatch.setattr(fault_lab, "RunningStack", Stuck)
    lab, stacks, closed = Lab(tmp_path), [], []
    lab.at_close += [lambda: 1 / 0, lambda: closed.append("machine")]

    def broken(lab: Lab) -> Row:
        stacks.extend((lab.stack, lab.own_stack()))
        raise AssertionError("the rank did not die")

    assert tried(broken, lab).outcome == "AssertionError: the rank did not die"
    assert closed == ["machine"] and all(stack.killed for stack in stacks)
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told and told.count("PermissionError: not ours") == 2
    lab.renew()
    assert closed == ["machine"] and capsys.readouterr().err == ""
