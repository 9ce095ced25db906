"""Energy counters of this host: RAPL of the processor packages, NVML of the GPUs. Unreadable ones are left out.

A package counts all its cores and what they share. Of it a program on some cores gets its share of what the package
draws anyway, and all that it draws more while the program runs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from worker.devices import _nvml

POWERCAP = Path("/sys/class/powercap")
MOST_W = 2000.0
"""No package draws more: a counter that has fallen by what this cannot fill was not full, it was set back."""
BASE_S = 0.5
"""For what a package draws anyway: its counter is renewed every millisecond."""


@dataclass(frozen=True)
class _Counter:
    """Counts joules; starts again at zero after `wraps_j`."""

    read_j: Callable[[], float]
    wraps_j: float = 0.0
    """0: never."""

    def spent_j(self, before_j: float, after_j: float, span_s: float) -> float | None:
        """Between two readings; None where it was set back between them: a host that slept, a driver loaded anew."""
        if after_j >= before_j:
            return after_j - before_j
        spent_j = after_j - before_j + self.wraps_j
        return spent_j if 0 <= spent_j <= MOST_W * span_s else None


@dataclass
class EnergyMeter:
    """Mean power from each `start` to its `stop`: of these GPUs, or of all processor packages where there are none."""

    gpus: tuple[int, ...] = ()
    folder: Path = POWERCAP
    _counters: list[_Counter] = field(default_factory=list)
    _begun: list[float] | None = None
    _began_s: float = 0.0
    _spent_j: float = 0.0
    _counted_s: float = 0.0

    def __post_init__(self) -> None:
        """Find the counters that can be read."""
        found = _gpu_counters(self.gpus) if self.gpus else _package_counters(self.folder)
        for counter in found:
            with contextlib.suppress(Exception):
                counter.read_j()
                self._counters.append(counter)

    def base_w(self, span_s: float = BASE_S) -> float | None:
        """Watts over a while in which what is to be measured does not run yet; None if nothing can be read."""
        if not self._counters:
            return None
        apart = EnergyMeter(self.gpus, self.folder)
        apart.start()
        time.sleep(span_s)
        return apart.stop()

    def start(self) -> None:
        """Begin to count, or go on."""
        self._begun, self._began_s = self._read(), time.monotonic()

    def stop(self) -> float | None:
        """Watts over all that was counted; None if nothing can be read, or a counter was set back meanwhile."""
        now, span_s = self._read(), time.monotonic() - self._began_s
        if not now or not self._begun or len(now) != len(self._begun) or span_s <= 0:
            return None
        spent_j = 0.0
        for counter, before, after in zip(self._counters, self._begun, now, strict=True):
            if (one_j := counter.spent_j(before, after, span_s)) is None:
                return None
            spent_j += one_j
        self._spent_j += spent_j
        self._counted_s += span_s
        return self._spent_j / self._counted_s

    def lap(self) -> float | None:
        """Watts since the last lap; None at the first, and where nothing can be read."""
        self._spent_j = self._counted_s = 0.0
        watts = self.stop()
        self.start()
        return watts

    def _read(self) -> list[float]:
        try:
            return [counter.read_j() for counter in self._counters]
        except Exception:
            return []


def cores_w(base_w: float, busy_w: float, used: int, cores: int) -> float:
    """Watts of `used` of `cores` cores, of packages that draw `base_w` without them and `busy_w` with them."""
    return base_w * used / max(used, cores) + max(0.0, busy_w - base_w)


def _package_counters(folder: Path) -> list[_Counter]:
    found = []
    for zone in sorted(folder.glob("intel-rapl:*")):
        with contextlib.suppress(OSError, ValueError):
            if (zone / "name").read_text().startswith("package"):
                wraps_j = int((zone / "max_energy_range_uj").read_text()) / 1e6
                found.append(_Counter(lambda file=zone / "energy_uj": int(file.read_text()) / 1e6, wraps_j))  # type: ignore[misc]
    return found


def _gpu_counters(gpus: tuple[int, ...]) -> list[_Counter]:
    nvml = _nvml()
    if nvml is None:
        return []
    found = []
    for index in gpus:
        with contextlib.suppress(nvml.NVMLError):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            found.append(_Counter(lambda handle=handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3))  # type: ignore[misc]
    return found
