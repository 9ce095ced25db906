"""Read what devices did in a window as columns: tens of thousands of uses are added up in a fraction of a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Case, F, FloatField, Func, Q, QuerySet, Value, When
from numpy.typing import NDArray

from harness.calibration.known import Key, powers_known
from harness.errors import Invalid
from harness.jobs.control.usage import NO_JOB, attempt_samples, device_key, use_of
from harness.jobs.models import Allocation, DeviceUse
from harness.jobs.windows import Window
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.values import Basis

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

BASES = tuple(map(str, Basis))
_ROWS_AT_ONCE = 10_000
_AT: Mapping[str, int] = {basis: number for number, basis in enumerate(BASES)}


class UnixSeconds(Func):
    """Unix time of a moment; to the millisecond, and without making a `datetime` of each."""

    output_field = FloatField()

    def get_db_converters(self, connection: Any) -> list[Any]:
        """Both databases give a float."""
        return []

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """By the day of the Julian calendar."""
        template = "((JULIANDAY(%(expressions)s) - 2440587.5) * 86400.0)"
        return super().as_sql(compiler, connection, template=template, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """By its epoch."""
        template = "CAST(EXTRACT(EPOCH FROM %(expressions)s) AS double precision)"
        return super().as_sql(compiler, connection, template=template, **extra)


_WHOSE = ("project_id", "is_pools")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "device": ("node_name", "device_kind", "device_index"),
    "job": ("job_id", "job_name", *_WHOSE),
    "person": ("owner_name", *_WHOSE),
    "project": ("project_name", *_WHOSE),
}
"""What is read of a use to tell what it belongs to."""
_EACH = ("device_id", "device_kind", "energy_basis", "energy_j")
_POOLS = Q(token=NO_JOB, project=None, project_name=F("job_name"))
"""A measurement for the whole pool, and so no secret of a project."""


def uses_read(window: Window, by: str = "device") -> Uses:
    """Ended uses that reach into the window, and those that go on, as far as they are. Raises `Invalid`."""
    if by not in GROUPS:
        raise Invalid(f"Use cannot be grouped by {by!r}.", field="by", hint=f"Use one of: {', '.join(GROUPS)}.")
    fields = (*_EACH, *GROUPS[by])
    ended = DeviceUse.objects.filter(ended_at__gt=window.since, started_at__lt=window.until).order_by()
    known = ended.annotate(is_pools=Case(When(_POOLS, then=Value("yes")), default=Value("")))
    rows = known.values_list(UnixSeconds("started_at"), UnixSeconds("ended_at"), *fields)
    held = allocations_held(Allocation.objects.all())
    going = uses_going(held, window.until, powers_of(held))
    return Uses(window, by, [*rows.iterator(chunk_size=_ROWS_AT_ONCE), *(_row(use, fields) for use in going)])


def _row(use: DeviceUse, fields: Sequence[str]) -> tuple[Any, ...]:
    """As the database tells it; what goes on is of a job."""
    told = (getattr(use, name, "") for name in fields)
    return (use.started_at.timestamp(), use.ended_at.timestamp(), *told)


def allocations_held(allocations: QuerySet[Allocation]) -> list[Allocation]:
    """With all that `uses_going` asks of them."""
    return list(allocations.select_related("device__node", "job__project", "job__owner", "attempt").order_by("pk"))


def uses_going(going: Sequence[Allocation], until: datetime, powers: Mapping[Key, PowerModel]) -> list[DeviceUse]:
    """Uses that have not ended, as far as they are; not saved."""
    held = Counter((allocation.attempt_id, allocation.device.node_id) for allocation in going)
    attempts = {allocation.attempt_id: allocation.attempt for allocation in going}
    samples = {pk: attempt_samples(attempt) for pk, attempt in attempts.items()}
    return [
        use_of(item, until, samples[item.attempt_id], held[item.attempt_id, item.device.node_id], powers)
        for item in going
    ]


def powers_of(going: Sequence[Allocation]) -> dict[Key, PowerModel]:
    """What their devices draw."""
    return powers_known({device_key(allocation.device) for allocation in going})


class Numbered(NamedTuple):
    """What pieces have in a column."""

    values: list[Any]
    """Each once."""
    of_piece: Places
    """Its place among them."""


@dataclass(frozen=True)
class Sums:
    """Seconds and joules of some groups; what they rest on in the order of `BASES`."""

    seconds: Floats
    joules: Floats
    """(groups, bases)."""

    @cached_property
    def energy_j(self) -> list[float]:
        """Of each group."""
        return [float(joules) for joules in self.joules.sum(axis=1)]

    @cached_property
    def basis(self) -> list[str]:
        """Of each group the basis with most joules; empty where there are none."""
        most = zip(self.joules.argmax(axis=1).tolist(), self.joules.max(axis=1).tolist(), strict=True)
        return [BASES[at] if joules > 0 else "" for at, joules in most]

    def bases(self, group: int) -> dict[str, float]:
        """Joules by basis."""
        return dict(zip(BASES, self.joules[group].tolist(), strict=True))


class Uses:
    """Uses cut into pieces, one for each bucket of the window that a use reaches into."""

    def __init__(self, window: Window, by: str, rows: Sequence[tuple[Any, ...]]) -> None:
        columns = [[row[at] for row in rows] for at in range(2 + len(_EACH) + len(GROUPS[by]))]
        since_s = window.since.timestamp()
        began_s, ended_s = (np.array(column, dtype=float) - since_s for column in columns[:2])
        device, kind, basis, energy_j = columns[2 : 2 + len(_EACH)]
        # Of one that lasted less than the clock of the database tells apart there is nothing to spread.
        length_s = np.maximum(ended_s - began_s, 1e-9)
        self.window, self.by = window, by
        self._use, self.bucket, self.seconds = _pieces(window, began_s, ended_s)
        self._joules = (np.array(energy_j, dtype=float) / length_s)[self._use] * self.seconds
        self._basis = np.array([_AT.get(name, _AT[Basis.ASSUMED]) for name in basis], dtype=int)[self._use]
        self.devices, self.kinds = self._numbered(device), self._numbered(kind)
        self.keys: Numbered = self._numbered([*zip(*columns[2 + len(_EACH) :], strict=True)])
        """Of the fields of `GROUPS`."""

    def _numbered(self, column: Sequence[Any]) -> Numbered:
        numbers: dict[Any, int] = {}
        of_row = np.array([numbers.setdefault(value, len(numbers)) for value in column], dtype=int)
        return Numbered([*numbers], of_row[self._use])

    def sums(self, groups: Places, count: int) -> Sums:
        """Of all pieces, by the group that each belongs to."""
        joules = np.bincount(groups * len(BASES) + self._basis, self._joules, count * len(BASES))
        seconds = np.bincount(groups, self.seconds, count)
        return Sums(seconds.astype(float), joules.astype(float).reshape(count, len(BASES)))


def _pieces(window: Window, began_s: Floats, ended_s: Floats) -> tuple[Places, Places, Floats]:
    """(use, bucket, seconds) of each."""
    bucket_s, last = window.bucket_s, window.buckets - 1
    first = np.clip(began_s // bucket_s, 0, last).astype(int)
    count = np.clip(ended_s // bucket_s, 0, last).astype(int) - first + 1
    use = np.repeat(np.arange(len(count)), count)
    bucket = np.arange(len(use)) - np.repeat(np.cumsum(count) - count, count) + first[use]
    starts_s = np.maximum(began_s[use], bucket * bucket_s)
    seconds = np.minimum(ended_s[use], (bucket + 1) * bucket_s) - starts_s
    inside = seconds > 0
    return use[inside], bucket[inside], seconds[inside]
