"""Steps of one program at any number of rows on any kind of device: each is predicted once.

Ways to run a job share most of what they are priced by: the same rows of a rank come again in other numbers of devices,
other modes and mixtures, and what the operators do at so many rows is the same on every kind of device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.features import Vector, operator_terms, terms
from scheduler.estimation.in_precision import moved_half
from scheduler.estimation.intervals import are_near
from scheduler.estimation.predict import Table, predicted, summaries, tabulate
from scheduler.workload import Workload, totals_at_batch

_LOOKED_AT = ("members", "corrector", "fingerprints", "spread", "precision", "moved", "correction")
"""Parts of a `DeviceModel` that steps on one device alone are foretold by."""


@dataclass(frozen=True)
class Step:
    """A step on one device alone, at the device's own speed, finished jobs not counted."""

    alone_s: float
    disagreement: float
    """Of the ensemble: standard deviation of the logarithm."""
    forward_share: float
    """What a forward pass alone takes of it."""
    work_share: float
    """Of it, in which the device computes."""
    near: bool
    """Whether a calibration point is like it."""
    half: float
    """Half width of the log range of what the precision of its products leaves open."""


@dataclass(frozen=True)
class _Rows:
    """The program on several numbers of rows, as no kind of device changes it."""

    workload: Workload
    rows: tuple[int, ...]

    @cached_property
    def table(self) -> Table:
        return Table(len(self.rows), terms(self.workload, self.rows))

    @cached_property
    def summaries(self) -> Vector:
        return summaries(self.workload, self.rows)


class Steps:
    """What is asked again is known. One model counts for each kind of device, at whatever declared slowdown."""

    def __init__(self, workload: Workload, foreseen: Iterable[int] = ()) -> None:
        """Nothing is looked at before it is asked for; `foreseen`: rows that are looked at together then."""
        self.workload = workload
        self._foreseen = frozenset(foreseen)
        self.totals = cache(partial(totals_at_batch, workload))
        """By rows, without operators."""
        self._looked_at: dict[tuple[int, ...], _Rows] = {}
        self._models: dict[tuple[str, str], DeviceModel] = {}
        self._known: dict[tuple[str, str], dict[int, Step]] = {}
        self._parts: dict[int, tuple[float, ...]] = {}

    @cached_property
    def apart(self) -> Table:
        """Each different operator as a step of its own, at the rows of the trace."""
        found = operator_terms(self.workload)
        return Table(len(set(map(id, self.workload.operators))), found)

    @cached_property
    def idle(self) -> Table:
        """A step without its operators."""
        return tabulate([replace(self.workload, operators=())])

    def on(self, model: DeviceModel, rows: Iterable[int]) -> Mapping[int, Step]:
        """Steps on (at least) each of `rows`, by their number. Raises `ValueError` for a second model of a kind.

        `model`: as it is in the precision of the program.
        """
        if self._models.setdefault(model.measured_key, model).members != model.members:
            raise ValueError(f"two models of {model.measured_key}")
        if model.measured_key not in self._known:
            self._known[model.measured_key] = self._known_of_like(model)
        known = self._known[model.measured_key]
        missing = tuple(sorted(self._foreseen.union(rows) - known.keys()))
        if missing:
            looked_at = self._looked_at.setdefault(missing, _Rows(self.workload, missing))
            known.update(zip(missing, _foretold(model, looked_at), strict=True))
        return known

    def kept_with(self, found: Mapping[int, Step], parts: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
        """`parts` of a step on the kinds of device whose steps are `found`, as `on` gave them: asked for once."""
        if id(found) not in self._parts:
            self._parts[id(found)] = parts()
        return self._parts[id(found)]

    def _known_of_like(self, model: DeviceModel) -> dict[int, Step]:
        """What is known of another kind of device on which steps take as long: nothing was measured on either."""
        like = (key for key, other in self._models.items() if key in self._known and _is_like(model, other))
        return self._known.get(next(like, model.measured_key), {})


def _is_like(model: DeviceModel, other: DeviceModel) -> bool:
    """Whether all that `_foretold` looks at is the same."""
    return all(getattr(model, name) == getattr(other, name) for name in _LOOKED_AT)


def _foretold(model: DeviceModel, at: _Rows) -> list[Step]:
    found = predicted(model, at.table, lambda: at.summaries)
    near = are_near(model, at.summaries) if model.fingerprints else np.zeros(len(at.rows), dtype=bool)
    moved = np.zeros(len(at.rows))
    if model.moved is not None:
        as_measured = replace(model, members=model.moved.members)
        moved = found.log_step_s - predicted(as_measured, at.table, lambda: at.summaries).log_step_s
    halves = np.array([moved_half(model, *each) for each in zip(moved, found.work_share, strict=True)])
    columns = (np.exp(found.log_step_s), found.disagreement, found.forward_share, found.work_share, near, halves)
    return [Step(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
