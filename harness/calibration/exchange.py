"""Points as rows, and as files: one dataset that can be exported, imported elsewhere and shipped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from django.db import transaction
from django.db.models import QuerySet

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.broker import task_send_on_commit
from harness.calibration.models import CalibrationPointRow, CalibrationRun
from harness.errors import Invalid, TooLarge
from harness.plain import plain
from harness.pool.models import DeviceKind
from scheduler.estimation.calibration import CalibrationError, CalibrationPoint, from_csv, from_json, to_csv, to_json
from scheduler.estimation.power_table import WATTS_MAX
from worker.words import size_words

FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
IMPORT_BYTES_MAX = 64 << 20
POINTS_MOST = 2_000
"""Of one kind of device, several whole sweeps: memory that a fit takes grows with their square, and time faster.
Imports add none beyond them, and a fit looks at no more."""
_NAME_LENGTH = 120
_GET_FILE = "Give a file that an export wrote, as CSV or JSON; nothing of this one was taken."
_MEND_ROW = "Correct or remove the row; nothing of the file was taken."


def points_of(*, kind: str = "", model_name: str = "") -> QuerySet[CalibrationPointRow]:
    """Rows of one kind of device, or of all, in the order in which they were measured."""
    rows = CalibrationPointRow.objects.order_by("kind", "model_name", "pk")
    rows = rows.filter(kind=kind) if kind else rows
    return rows.filter(model_name=model_name) if model_name else rows


def points_read(rows: Iterable[CalibrationPointRow]) -> list[CalibrationPoint]:
    """The measured points of rows."""
    return [CalibrationPoint.from_dict(row.body) for row in rows]


def points_fitted(*, kind: str, model_name: str) -> list[CalibrationPoint]:
    """Those that a model is fitted to: all, or `POINTS_MOST` spread over each family as it was measured."""
    keys = [*points_of(kind=kind, model_name=model_name).order_by("family", "pk").values_list("pk", flat=True)]
    if len(keys) > POINTS_MOST:
        keys = [keys[number * len(keys) // POINTS_MOST] for number in range(POINTS_MOST)]
    rows = CalibrationPointRow.objects.in_bulk(keys)
    return points_read(rows[key] for key in sorted(rows))


def points_export(*, form: str, kind: str = "", model_name: str = "") -> str:
    """All points as CSV or JSON text. Raises `Invalid`."""
    if form not in FORMATS:
        raise Invalid(f"Points are exported as {' or '.join(FORMATS)}, not {form[:20]}.", field="format")
    if kind and kind not in DeviceKind.values:
        hint = f"Use {' or '.join(DeviceKind.values)}; without it all go."
        raise Invalid(f"There is no kind of device {kind[:40]!r}.", field="kind", hint=hint)
    points = points_read(points_of(kind=kind, model_name=model_name))
    return to_csv(points) if form == "csv" else to_json(points)


def points_import(*, user: User, text: str) -> dict[str, int]:
    """Take in a file that `points_export` wrote, all of it or nothing: `{added, known}`.

    A point that is there already stays as it is: what was measured here is never replaced by a file.
    Raises `Forbidden`, `TooLarge`, and `Invalid` naming the first bad row.
    """
    require_admin(user)
    if len(text) > IMPORT_BYTES_MAX:
        raise TooLarge(f"The file is larger than {size_words(IMPORT_BYTES_MAX)}.", hint="Import it in parts.")
    text = text.removeprefix("\ufeff")  # as spreadsheets begin a file
    if not text.strip():
        raise Invalid("The file is empty.", field="file", hint=_GET_FILE)
    try:
        points = from_json(text) if text.lstrip().startswith(("{", "[")) else from_csv(text)
    except CalibrationError as error:
        raise Invalid(
            f"The file cannot be imported: {error}.",
            field="file",
            code="calibration_row",
            hint=_GET_FILE if error.row is None else _MEND_ROW,
        ) from error
    if not points:
        raise Invalid("The file holds no points.", field="file", hint=_GET_FILE)
    _check_kept(points)
    with transaction.atomic():
        before = _counts(points)
        CalibrationPointRow.objects.bulk_create(
            [row_of(point, imported=True) for point in points], batch_size=200, ignore_conflicts=True
        )
        now = _counts(points)
        _check_room({key: count for key, count in now.items() if count > before[key]})
        added = sum(now.values()) - sum(before.values())
        audit_write(user, "calibration_import", "pool", added=added, known=len(points) - added)
        for kind, model_name in sorted(now) if added else ():
            task_send_on_commit("control.calibration_fit", [kind, model_name])
    return {"added": added, "known": len(points) - added}


def _counts(points: Sequence[CalibrationPoint]) -> dict[tuple[str, str], int]:
    """How many points are kept of each (kind, name) that occurs in these."""
    return {
        (kind, model_name): CalibrationPointRow.objects.filter(kind=kind, model_name=model_name).count()
        for kind, model_name in {(point.kind, point.model_name) for point in points}
    }


def _check_room(grown: Mapping[tuple[str, str], int]) -> None:
    """Raises `Invalid`, before the rows are kept for good, where there would be more than a fit looks at."""
    for (kind, model_name), count in sorted(grown.items()):
        if count > POINTS_MOST:
            raise Invalid(
                f"There would be {count:,} points of {kind} {model_name}, of which {POINTS_MOST:,} at most are taken.",
                field="file",
                code="too_many_points",
                hint="Import a part of them, of all families; nothing of the file was taken.",
            )


def _check_kept(points: Sequence[CalibrationPoint]) -> None:
    """Raises `Invalid` for the first row that no database would keep as it is."""
    for number, point in enumerate(points, start=1):
        problem = ""
        if point.kind not in DeviceKind.values:
            problem = f"there is no kind of device {point.kind[:40]!r}; use {' or '.join(DeviceKind.values)}"
        elif len(point.model_name) > _NAME_LENGTH or len(point.point_id) > _NAME_LENGTH or len(point.family) > 40:
            problem = "a name is longer than 120 characters"
        elif is_overpowered(point):
            problem = f"power_w is {point.power_w:g}, more than {WATTS_MAX:,.0f} W for each device"
        elif not _is_plain(point):
            problem = "it holds a text or a number that cannot be kept (NaN, NUL, half a letter), or is nested too deep"
        if problem:
            raise Invalid(
                f"The file cannot be imported: row {number:,}: {problem}.",
                field="file",
                code="calibration_row",
                hint=_MEND_ROW,
            )


def is_overpowered(point: CalibrationPoint) -> bool:
    """Whether it tells more watts than its devices can draw, such as milliwatts."""
    return point.power_w is not None and point.power_w > WATTS_MAX * point.count * point.threads


def _is_plain(point: CalibrationPoint) -> bool:
    body = point.to_dict()
    try:
        return json.dumps(plain(body)) == json.dumps(body)
    except (ValueError, RecursionError):
        return False


def row_of(
    point: CalibrationPoint, *, imported: bool = False, run: CalibrationRun | None = None
) -> CalibrationPointRow:
    """The row that keeps a point."""
    body = point.to_dict()
    known = json.dumps({**body, "step_s": [], "peak_bytes": 0, "power_w": 0, "noise": 0}, sort_keys=True)
    return CalibrationPointRow(
        kind=point.kind,
        model_name=point.model_name,
        point_id=point.point_id or f"import-{hashlib.sha256(known.encode()).hexdigest()[:24]}",
        family=point.family,
        batch_size=point.batch_size,
        step_s=median(point.step_s),
        peak_bytes=int(point.peak_bytes),
        power_w=point.power_w,
        noise=point.noise,
        body=body,
        imported=imported,
        run=run,
        node_name=run.node_name if run else "",
    )
