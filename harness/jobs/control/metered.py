"""Mean power of a device over some samples of a run: read off where a meter tells, else counted by its load. Pure.

A meter of processor packages counts all their cores. What they draw anyway is shared out evenly, and what they draw
more by load, as a calibration shares it out (`worker.power.cores_w`), so that runs and their estimates compare:

    core_w = idle + (packages_w - idle * cores) * load of the core / load of the host
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.jobs.control.telemetry import number_of
from harness.pool.models import DeviceKind
from harness.pool.power import DevicePower
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.power_table import WATTS_MAX
from scheduler.estimation.values import Basis

CORES_MOST = 65_536


@dataclass(frozen=True, kw_only=True)
class Power:
    """Mean power of a device over an attempt."""

    watts: float
    basis: Basis


def power_of(
    kind: str,
    index: int,
    samples: Sequence[Mapping[str, Any]],
    held: int,
    known: PowerModel,
    *,
    rank: int | None = None,
) -> Power:
    """Mean power of one device: as its meter told; else what is known of such devices, at the load that was measured.

    `samples` are of its node; `held`: devices of the attempt there, which share the load of its ranks. `rank`: the
    device bears the load of this one alone.
    """
    told, loads = [], []
    for sample in samples:
        if kind == DeviceKind.CUDA:
            load, watts = _gpu(sample, index)
        else:
            load = _load(sample, held, rank)
            watts = None if load is None else _core_w(sample.get("host"), load, held if rank is None else 1, known)
        told += [] if watts is None else [watts]
        loads += [] if load is None else [load]
    if told:
        return Power(watts=sum(told) / len(told), basis=Basis.MEASURED)
    by_load = DevicePower(idle_w=known.idle_w, busy_w=known.busy_w)
    return Power(watts=by_load.at(sum(loads) / len(loads) if loads else 1.0), basis=_told(known.basis))


def idle_power_of(known: PowerModel) -> Power:
    """Of a device that is held while nothing runs on it."""
    return Power(watts=known.idle_w, basis=_told(known.idle_basis))


def _told(basis: Basis) -> Basis:
    """Of what is told by a model: nothing was measured of this device in this run."""
    return Basis.MODELLED if basis is Basis.MEASURED else basis


def _gpu(sample: Mapping[str, Any], index: int) -> tuple[float | None, float | None]:
    """(its load from 0 to 1, its watts)."""
    found: Mapping[str, Any] = next((item for item in sample.get("gpus") or () if item.get("index") == index), {})
    percent, watts = number_of(found.get("utilization_percent")), number_of(found.get("power_w"))
    is_told = watts is not None and 0 <= watts <= WATTS_MAX
    return None if percent is None else percent / 100, watts if is_told else None


def _load(sample: Mapping[str, Any], held: int, rank: int | None) -> float | None:
    """Of one of the cores."""
    ranks = [one for one in sample.get("ranks") or () if rank is None or one.get("rank") == rank]
    known = [percent for one in ranks if (percent := number_of(one.get("cpu_percent"))) is not None]
    return sum(known) / 100 / (max(1, held) if rank is None else 1) if known else None


def _core_w(host: Mapping[str, Any] | None, load: float, held: int, known: PowerModel) -> float | None:
    """Watts of one of `held` cores that are as busy as `load` says; None where no meter told."""
    told = [number_of((host or {}).get(name)) for name in ("packages_w", "cores", "cpu_percent")]
    packages_w, cores, percent = told
    if packages_w is None or cores is None or percent is None:
        return None
    if not 0 < packages_w <= WATTS_MAX or not 1 <= cores <= CORES_MOST:
        return None
    idle_w = min(known.idle_w, packages_w / cores)
    busy = max(percent / 100 * cores, load * max(1, held))
    return idle_w + (packages_w - idle_w * cores) * load / busy if busy > 0 else idle_w
