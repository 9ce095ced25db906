"""Read sweeps, device models, and how good the estimates of finished jobs were."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from django.db.models import QuerySet

from harness.calibration.models import OPEN, CalibrationPointRow, CalibrationRun, DeviceModelRow, FinishedJobRow
from harness.calibration.shipped import Shipped, shipped_for, shipped_list
from harness.errors import NotFound
from harness.pool.models import Device
from scheduler.estimation.calibration import LEAST_HELD_OUT
from scheduler.estimation.intervals import LEVEL
from scheduler.estimation.values import Basis

RUNS_SHOWN = 20
JOBS_MOST = 5000
"""Newest finished jobs that the figures are taken from."""
LAST_JOBS = 10
"""Jobs that the running mean goes over."""
MEASURES = ("step_s", "run_s", "peak_bytes", "energy_j")
"""What is estimated, in the order in which it is shown."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a sweep is."""

    share: float
    """0 to 1, of the budget or of the points, whichever is further."""
    eta_s: float | None
    """Seconds left if nothing comes between; None until the first point."""
    done: int
    """Points of its plan that are measured, those of other sweeps included."""
    left: int
    """Points of its plan that are neither measured nor refused."""


def run_progress(run: CalibrationRun) -> Progress:
    """How far a sweep is."""
    done = run.before + run.measured
    # The probe of the link has no family: it is no point.
    refused = sum(bool(item["family"]) for item in run.refused)
    left = max(0, run.planned - done - refused)
    tried = run.measured + refused
    if run.state not in OPEN:
        return Progress(share=1.0, eta_s=None, done=done, left=left)
    share = max(run.used_s / run.budget_s, (run.planned - left) / run.planned if run.planned else 0.0)
    eta_s = None
    if tried:
        eta_s = max(0.0, min(run.budget_s - run.used_s, left * run.used_s / tried))
    return Progress(share=min(1.0, share), eta_s=eta_s, done=done, left=left)


def run_list() -> list[CalibrationRun]:
    """The newest sweeps, open ones first."""
    rows = CalibrationRun.objects.select_related("started_by").order_by("-created_at")[:RUNS_SHOWN]
    return sorted(rows, key=lambda run: run.state not in OPEN)


def run_get(run_id: str) -> CalibrationRun:
    """One sweep. Raises `NotFound`."""
    run = CalibrationRun.objects.select_related("started_by").filter(pk=run_id).first()
    if run is None:
        raise NotFound("There is no such calibration.", hint="The page Calibration shows the newest ones.")
    return run


def model_list() -> QuerySet[DeviceModelRow]:
    """What is known of each kind of device."""
    return DeviceModelRow.objects.order_by("kind", "model_name")


def point_counts(kind: str, model_name: str) -> dict[str, int]:
    """`{measured, imported}` of one kind of device."""
    rows = CalibrationPointRow.objects.filter(kind=kind, model_name=model_name)
    imported = rows.filter(imported=True).count()
    return {"measured": rows.count() - imported, "imported": imported}


@dataclass(frozen=True, kw_only=True)
class ShippedUse:
    """A calibration that ships with the harness, and what it is good for here."""

    shipped: Shipped
    stands_for: list[str]
    """Model names of devices here that have too few points for a model of their own."""


def shipped_uses() -> list[ShippedUse]:
    """Those that ship, unless the setting has them ignored."""
    known = shipped_list()
    if not known:
        return []
    rows = DeviceModelRow.objects.filter(model__n_points__gte=LEAST_HELD_OUT)
    fitted = set(rows.values_list("kind", "model_name"))
    devices = Device.objects.filter(away_since=None).exclude(model_name="").order_by("kind", "model_name")
    own = [key for key in devices.values_list("kind", "model_name").distinct() if key not in fitted]
    found = {key: shipped_for(*key) for key in own}
    return [
        ShippedUse(shipped=one, stands_for=[name for (_, name), used in found.items() if used is one]) for one in known
    ]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One figure of one finished job, forecast and fact."""

    measure: str
    actual: float
    low: float
    mid: float
    high: float
    job: str
    """Tells those of one job from those of others (`job_told`)."""
    level: float = LEVEL
    """Share of facts that the interval is meant to hold: that of a peak, whose upper end is careful, holds more."""
    is_measured: bool = True
    """Whether the fact was read off; energy without a meter is a table's power times the time of the run."""

    @property
    def error(self) -> float:
        """(forecast - fact) / fact."""
        return (self.mid - self.actual) / self.actual

    @property
    def held(self) -> bool:
        """Whether the interval held the fact."""
        return self.low <= self.actual <= self.high


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How far forecasts of one figure were off."""

    measure: str
    jobs: int
    """Each once, on however many devices it made steps in turn."""
    mape: float | None
    """Mean absolute error, relative to the fact."""
    median: float | None
    p90: float | None
    bias: float | None
    """Mean signed error: above 0 the forecast was too high."""
    coverage: float | None
    """Share of facts inside their intervals ..."""
    level: float | None
    """... and the share that these are meant to hold."""
    measured: int
    """Jobs whose fact was read off: of energy those on devices with a meter."""


def compared(row: FinishedJobRow, measure: str) -> Compared | None:
    """Forecast and fact of one figure; None where either is missing or they are not about the same thing."""
    if measure in {"run_s", "energy_j"} and not row.run_comparable:
        return None
    actual, interval = getattr(row, measure), (row.predicted or {}).get(measure)
    if not actual or not isinstance(interval, dict) or not interval.get("mid"):
        return None
    is_measured = measure != "energy_j" or row.energy_basis == Basis.MEASURED
    ends = {end: interval[end] for end in ("low", "mid", "high")}
    level = float(interval.get("level") or LEVEL)
    return Compared(
        measure=measure, actual=actual, job=job_told(row), level=level, is_measured=is_measured, **ends
    )  # fmt: skip


def job_told(row: FinishedJobRow) -> str:
    """Of which job the row tells, in whatever tells jobs apart: its rows have one end in common when it is gone."""
    return row.job_id or row.finished_at.isoformat()


def finished_rows() -> list[FinishedJobRow]:
    """Finished jobs that had been estimated, oldest first: at most the newest `JOBS_MOST`, without their workloads."""
    rows = FinishedJobRow.objects.exclude(predicted={}).defer("workload").order_by("-finished_at", "-pk")
    return list(rows[:JOBS_MOST])[::-1]


def has_older() -> bool:
    """Whether there are older ones than `finished_rows` returns."""
    return FinishedJobRow.objects.exclude(predicted={}).order_by("-finished_at", "-pk")[JOBS_MOST:].exists()


def accuracy_of(measure: str, found: list[Compared]) -> Accuracy:
    """The figures of one measure."""
    errors = sorted(abs(item.error) for item in found)
    if not errors:
        nothing = dict.fromkeys(("mape", "median", "p90", "bias", "coverage", "level"))
        return Accuracy(measure=measure, jobs=0, measured=0, **nothing)
    return Accuracy(
        measure=measure,
        jobs=len({item.job for item in found}),
        mape=fmean(errors),
        median=median(errors),
        p90=errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        bias=fmean(item.error for item in found),
        coverage=fmean(float(item.held) for item in found),
        level=fmean(item.level for item in found),
        measured=sum(item.is_measured for item in found),
    )


def accuracy(rows: list[FinishedJobRow]) -> list[Accuracy]:
    """How good the estimates of all measures were."""
    return [accuracy_of(measure, [item for row in rows if (item := compared(row, measure))]) for measure in MEASURES]


def accuracy_by(rows: list[FinishedJobRow], field: str, measure: str = "run_s") -> dict[str, Accuracy]:
    """The same of one measure for each value of a column (`family`, `kind`, `model_name`)."""
    groups: dict[str, list[Compared]] = {}
    for row in rows:
        if item := compared(row, measure):
            groups.setdefault(getattr(row, field) or "unknown", []).append(item)
    return {name: accuracy_of(measure, found) for name, found in sorted(groups.items())}


def finished_table(rows: list[FinishedJobRow]) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of everything, for CSV: no job and no project is named."""
    columns = ["finished", "family", "kind", "device", "devices", "mode"]
    columns += [f"{measure} {part}" for measure in MEASURES for part in ("low", "predicted", "high", "actual")]
    columns += ["energy_basis"]
    table = []
    for row in rows:
        line: list[Any] = [row.finished_at.isoformat(), row.family, row.kind, row.model_name, row.count, row.mode]
        for measure in MEASURES:
            item = compared(row, measure)
            line += [item.low, item.mid, item.high, item.actual] if item else [None, None, None, None]
        table.append([*line, row.energy_basis])
    return columns, table
