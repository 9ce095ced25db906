"""Calibration of devices, and how good the estimates are."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict


class CalibrationsIn(Strict):
    """Sweeps to start, one of each model of a kind in the pool."""

    kind: Literal["cpu", "cuda"] = "cpu"
    budget_s: float = Field(600.0, allow_inf_nan=False, description="Seconds that each is to spend measuring.")


class CalibrationIn(Strict):
    """A sweep to start."""

    node: str = Field("", max_length=60, description="Name; empty: the only node that is up and has such devices.")
    kind: Literal["cpu", "cuda"] = "cpu"
    model_name: str = Field(
        "", max_length=120, description="Device as its maker names it; empty: the only one of its kind on the node."
    )
    budget_s: float = Field(600.0, allow_inf_nan=False, description="Seconds to spend measuring.")


class RefusedOut(Schema):
    """A point that gave nothing usable."""

    point_id: str
    family: str
    problem: str


class CalibrationOut(Schema):
    """One sweep."""

    id: str
    node: str
    kind: str
    model_name: str = Field(description="Kind of device as its maker names it.")
    state: str = Field(description="`waiting`, `running`, `finished`, `stopped` or `failed`.")
    message: str
    budget_s: float
    used_s: float = Field(description="Seconds spent measuring.")
    planned: int = Field(description="Points of the whole plan.")
    before: int = Field(description="Of them measured by other sweeps.")
    measured: int
    refused: list[RefusedOut]
    progress: float = Field(description="0 to 1, of the budget or of the plan.")
    eta_s: float | None
    reach: str = Field(description="What its points are enough for, in words; empty where nothing is to be said.")
    fitting: bool = Field(description="The model is being fitted; nothing is measured in the meantime.")
    started_by: str | None
    created_at: datetime
    running_at: datetime | None
    ended_at: datetime | None


class ErrorFigures(Schema):
    """Absolute errors relative to what was measured."""

    n: int
    mape: float
    median: float
    p90: float


class FitOut(Schema):
    """How well a figure beside the step time is fitted."""

    basis: str = Field(description="`measured`, `modelled` or `assumed`: an assumed one has no errors.")
    total: ErrorFigures | None = Field(None, description="On held-out architectures; null below ten points.")
    families: dict[str, ErrorFigures] = {}
    baselines: dict[str, ErrorFigures] = {}
    coverage: float | None = Field(None, description="Share inside the range; null where no range is given.")


class DeviceModelOut(Schema):
    """What is known of one kind of device."""

    kind: str
    model_name: str
    n_points: int
    n_finished: int = Field(description="Finished jobs that correct it.")
    fitted_at: datetime
    total: ErrorFigures | None = Field(description="On held-out architectures; null below ten points.")
    families: dict[str, ErrorFigures]
    baselines: dict[str, ErrorFigures] = Field(description="The usual methods on the same held-out points.")
    coverage: float | None = Field(
        description="Share of held-out points inside the interval: that of steps is one of 80 %, that of peaks of 88 %."
    )
    noise: float | None = Field(description="Relative noise of the measurements: no estimate can be better.")
    memory: FitOut = Field(description="Peak memory of a rank.")
    power: FitOut = Field(description="Power of one device.")


class ShippedOut(Schema):
    """A calibration that ships with the harness: the prior of cores without one of their own."""

    kind: str
    model_name: str = Field(description="Of the device that was measured.")
    measured_on: str = Field(description="Day.")
    n_points: int
    noise: float = Field(description="Relative; 0: not known.")
    mape: float | None = Field(description="On held-out architectures of that very device.")
    software: str
    conditions: str
    stands_for: list[str] = Field(description="Devices here that are estimated by it.")


class CalibrationsOut(Schema):
    """Sweeps, open ones first, the models fitted to what they measured, and calibrations that ship."""

    runs: list[CalibrationOut]
    models: list[DeviceModelOut]
    shipped: list[ShippedOut] = Field(description="Empty where the setting `DLH_SHIPPED_CALIBRATIONS` is off.")


class ImportIn(Strict):
    """Points of another installation."""

    text: str = Field(description="The whole file, CSV or JSON, as an export wrote it.")


class ImportOut(Schema):
    """What an import did."""

    added: int
    known: int = Field(description="Points that were there already; they stay as they are.")


class AccuracyOut(Schema):
    """Forecasts of one figure against what finished jobs took. Shares, null without jobs."""

    measure: str = Field(examples=["run_s"])
    jobs: int
    mape: float | None
    median: float | None
    p90: float | None
    bias: float | None = Field(description="Mean signed error: above 0 the forecast was too high.")
    coverage: float | None = Field(description="Share of facts inside their intervals.")
    level: float | None = Field(
        description="Share that the intervals are meant to hold: 0.8, but for peaks, whose upper end is careful."
    )
    measured: int = Field(
        description="Jobs whose fact was read off. Of energy those on devices with a meter; that of the others is a "
        "table's power times the time of the run, so that their error is one of time alone."
    )
