"""What a node is asked to measure, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings

from harness.calibration.exchange import is_overpowered
from harness.calibration.holding import run_devices
from harness.calibration.models import CalibrationRun
from harness.calibration.plans import Planned
from harness.jobs.programs import files_replace
from harness.measuring.points import point_program
from harness.pool.models import DeviceKind
from harness.pool.services import pool_setting_get
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.workload import Workload
from worker.trees import tree_remove

PREFIX = "calibration-"
"""Of the ids of our requests; other answers to `node.measure` are probes of people's programs."""

NODE_BUDGET_S = 120.0
"""A node gives a point up after this and says so."""
LINK = "link"
"""Stands for a point in the request that times the link between devices."""
LINK_RANKS = 2


def _folder(run_id: str) -> Path:
    return Path(settings.STORE.root) / "calibration" / run_id


def request_make(run_id: str, planned: Planned) -> None:
    """Write the program of a point where its node finds it. Raises `HarnessError`, `OSError`."""
    program, _ = point_program(planned.point)
    files_replace(_folder(run_id) / planned.point_id / "program", program.files)


def request_of(run: CalibrationRun, planned: Planned) -> dict[str, Any]:
    """The message for `node.measure`; without a dataset the node makes rows up from the program's spec."""
    return {
        "request_id": f"{PREFIX}{run.pk}-{planned.point_id}",
        "job_dir": str(_folder(run.pk) / planned.point_id),
        "steps": planned.point.steps,
        "visits": planned.point.visits,
        "ranks": planned.ranks,
        "device": _device(run, planned.ranks),
        "threads": planned.threads,
        "quiet": run.kind == DeviceKind.CPU and planned.ranks == planned.threads == 1,
        "budget_s": NODE_BUDGET_S,
        "minimum_sandbox_level": pool_setting_get().minimum_sandbox_level(own_code=False),
    }


def link_request_of(run: CalibrationRun) -> dict[str, Any]:
    """The message that has sums over two devices of the node timed."""
    return {
        "request_id": f"{PREFIX}{run.pk}-{LINK}",
        "link": LINK_RANKS,
        "device": _device(run, LINK_RANKS),
        "minimum_sandbox_level": pool_setting_get().minimum_sandbox_level(own_code=False),
    }


def _device(run: CalibrationRun, ranks: int) -> str:
    """The first devices of its kind and model, one per rank: beside them may lie others of another model."""
    if run.kind != DeviceKind.CUDA:
        return "cpu"
    return f"cuda:{','.join(str(device.index) for device in run_devices(run)[:ranks])}"


def requests_remove(run_id: str) -> None:
    """Forget the programs of a sweep."""
    tree_remove(_folder(run_id))


def answer_read(report: dict[str, Any], run: CalibrationRun, planned: Planned) -> CalibrationPoint:
    """The measured point. Raises `ValueError` for an answer that holds no measurement."""
    check_ok(report)
    point = planned.point
    visits = report.get("step_s")
    if not isinstance(visits, list) or not visits:
        raise ValueError("The answer holds no step times.")
    power_w, noise = report.get("power_w"), report.get("noise")
    try:
        found = CalibrationPoint(
            workload=Workload.from_dict(report["workload"]),
            kind=run.kind,
            model_name=run.model_name or run.kind,
            step_s=tuple(float(value) for value in visits),
            count=planned.ranks,
            threads=planned.threads if run.kind == DeviceKind.CPU else 1,
            peak_bytes=float(report.get("peak_bytes") or 0.0),
            power_w=None if power_w is None else float(power_w),
            family=point.family,
            params=dict(point.params),
            batch_size=point.batch_size,
            noise=float(noise or 0.0),
            point_id=planned.point_id,
            precision=str(report.get("precision") or ""),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"The answer is not a measurement: {error}") from error
    if is_overpowered(found):
        raise ValueError(f"The answer is not a measurement: {found.power_w:g} W.")
    return found


def check_ok(report: dict[str, Any]) -> None:
    """Pass for an answer without a problem. Raises `ValueError` with the problem."""
    problem = report.get("problem")
    if problem or report.get("ok") is not True:
        message = problem.get("message") if isinstance(problem, dict) else problem
        raise ValueError(str(message or "The node gave no reason."))
