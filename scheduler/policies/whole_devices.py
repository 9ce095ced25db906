"""`WholeDevices`: which devices of a site are kept for others when."""

from __future__ import annotations

import math

import numpy as np

from scheduler.policies.timeline import EPSILON_S

_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
_Counts = np.ndarray[tuple[int], np.dtype[np.int64]]


class WholeDevices:
    """A run may not go from one device to the next as they are kept, though at each moment enough of them are free."""

    def __init__(self, total: int) -> None:
        """None of so many is kept."""
        self._total = total
        self._kept: dict[str, list[tuple[float, float]]] = {}
        self._spans: tuple[_Floats, _Floats, _Counts] | None = None
        """Starts, ends and numbers of devices, device after device in the order of time."""
        self._closed: tuple[float, _Floats, _Counts] = (math.nan, np.empty(0), np.empty(0, int))
        """(seconds of a run, moments, on how many devices it could not begin from each of them on)."""

    def keep(self, device_id: str, start_s: float, end_s: float) -> None:
        """One of them is, for that time; of one device the times do not overlap."""
        self._kept.setdefault(device_id, []).append((start_s, end_s))
        self._spans = None

    def is_sure(self, width: float) -> bool:
        """Whether so many are never kept."""
        return self._total - len(self._kept) >= width

    def earliest(self, width: float, run_s: float, latest_s: float, from_s: float) -> float:
        """First start from `from_s` on such that for all of `run_s` none of `width` devices is kept; see `Timeline`."""
        if self.is_sure(width):
            return from_s if from_s <= latest_s else math.inf
        moments, closed = self._steps(run_s)
        step = int(moments.searchsorted(from_s, "right"))
        if (closed[step - 1] if step else 0) <= self._total - width:
            return from_s if from_s <= latest_s else math.inf
        open_again = closed[step:] <= self._total - width
        first = int(open_again.argmax()) if len(open_again) else 0
        start_s = float(moments[step + first]) if len(open_again) and open_again[first] else math.inf
        return start_s if start_s <= latest_s else math.inf

    def _steps(self, run_s: float) -> tuple[_Floats, _Counts]:
        """On how many devices a run of so many seconds cannot begin: of each from that long before it is kept on."""
        known = self._spans is not None and self._closed[0] == run_s
        if not known:
            starts, ends, devices = self._sorted()
            first = starts - max(run_s - EPSILON_S, 0.0)
            # It does not fit between these two times of one device.
            joined = (devices[1:] == devices[:-1]) & (first[1:] <= ends[:-1])
            begin, end = first[np.append(True, ~joined)], ends[np.append(~joined, True)]
            moments = np.concatenate([begin, end])
            order = moments.argsort(kind="stable")
            counts = np.concatenate([np.ones(len(begin), int), np.full(len(end), -1)])[order].cumsum()
            self._closed = (run_s, moments[order], counts)
        return self._closed[1:]

    def _sorted(self) -> tuple[_Floats, _Floats, _Counts]:
        if self._spans is None:
            rows = [(number, *time) for number, times in enumerate(self._kept.values()) for time in sorted(times)]
            numbers, starts, ends = zip(*rows, strict=True)
            self._spans = (np.array(starts), np.array(ends), np.array(numbers))
        return self._spans
