"""What the devices of this node draw while no run holds them: read once a minute, and told with a heartbeat.

Of the processor packages (RAPL) it is the mean of the minute, unless a run was there in it; of a GPU (NVML) what it
draws as the minute ends, unless a process computes there. How busy host and GPU were is told with it: control knows who
held what besides, and judges which readings count (`harness.pool.idle_power`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil

from worker import devices
from worker.power import EnergyMeter

EVERY_S = 60.0
LONGEST_S = 600.0
"""Of a longer time nothing is told: a counter of a package may have started again more than once."""


@dataclass
class IdleMeter:
    """Tells what idle devices draw, a minute after it did last."""

    packages: EnergyMeter = field(default_factory=EnergyMeter)
    clock: Callable[[], float] = time.monotonic
    _began_s: float | None = None
    _is_held: bool = False
    """A run was there since then."""
    _host_s: tuple[float, float] = (0.0, 0.0)
    """Of all cores together, so far: at work, and in all."""

    def read(self, *, is_held: bool) -> dict[str, Any] | None:
        """The reading that is due, else None. `is_held`: runs are on this node now. Call it often: who was here and has
        gone between two calls is not seen.

        `cores` share `packages_w` evenly (null: cannot be read, or a run was there); `load` is that of the host, and of
        each GPU its own, both from 0 to 1.
        """
        self._is_held |= is_held
        now_s = self.clock()
        span_s = None if self._began_s is None else now_s - self._began_s
        if span_s is not None and span_s < EVERY_S:
            return None
        was_held, self._is_held, self._began_s = self._is_held, is_held, now_s
        packages_w, load = self.packages.lap(), self._load()
        is_told = span_s is not None and span_s <= LONGEST_S and not was_held
        return {
            "cores": os.cpu_count() or 1,
            "load": load,
            "packages_w": packages_w if is_told else None,
            "gpus": [_gpu(sample) for sample in devices.gpu_samples(devices.gpus_unused())],
        }

    def _load(self) -> float:
        """Of the host since the last look."""
        times = psutil.cpu_times()
        # Linux counts the time of guests as that of their users, too.
        all_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        work_s = all_s - times.idle - getattr(times, "iowait", 0.0)
        (work_before_s, all_before_s), self._host_s = self._host_s, (work_s, all_s)
        return max(0.0, work_s - work_before_s) / max(all_s - all_before_s, 1e-3)


def _gpu(sample: dict[str, Any]) -> dict[str, Any]:
    percent = sample["utilization_percent"]
    return {
        "index": sample["index"],
        "power_w": sample["power_w"],
        "load": None if percent is None else percent / 100.0,
    }
