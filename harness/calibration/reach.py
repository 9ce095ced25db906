"""What the budget of a sweep is enough for, in points and in words."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from harness.calibration.models import OPEN, CalibrationPointRow, CalibrationRun
from harness.calibration.plans import Planned, points_known, run_extent, run_plan
from harness.calibration.shipped import Shipped, shipped_for
from harness.pool.models import DeviceKind
from scheduler.estimation.calibration import LEAST_HELD_OUT, LEAST_POINTS
from worker.words import counted

_MORE = "Calibrate with more time (dlh pool calibrate): it continues where it stopped."


def points_coming(run: CalibrationRun) -> list[Planned]:
    """What an open sweep will yet measure by its end: by its own pace, before its first point by the plan."""
    done = points_known(run) | {item["point_id"] for item in run.refused}
    left = [planned for planned in run_plan(run) if planned.point_id not in done]
    tried = run.measured + len(run.refused)
    left_s = max(0.0, run.budget_s - run.used_s)
    if tried and run.used_s:
        return left[: int(left_s * tried / run.used_s)]
    extent = run_extent(run)
    for count, planned in enumerate(left, start=1):
        left_s -= planned.point.cost_s(extent)
        if left_s <= 0:
            # The point that is out when the budget is used up is still waited for.
            return left[:count]
    return left


def reach_words(run: CalibrationRun) -> str:
    """What its points are enough for, and what to do where they are too few; empty where nothing is to be said."""
    is_open = run.state in OPEN
    coming = points_coming(run) if is_open else []
    new = run.measured + len(coming)
    rows = CalibrationPointRow.objects.filter(kind=run.kind, model_name=run.model_name)
    before = rows.exclude(run=run).count()
    several = _of_several(rows) + sum(planned.ranks > 1 or planned.threads > 1 for planned in coming)
    fitted = new + before - several
    if not is_open and fitted >= LEAST_HELD_OUT:
        return ""
    points = counted(new, "point")
    begin = f"The budget is enough for about {points}" if is_open else f"It measured {points}"
    whose = "from before" if is_open else "of other sweeps"  # some of these may have come later
    begin += f", beside {before} {whose}" if 0 < before < LEAST_HELD_OUT else ""
    if fitted < LEAST_POINTS <= fitted + several:
        begin += f", {several} of them on several devices at once"  # or the sum would seem to be enough
    if fitted >= LEAST_HELD_OUT:
        return f"{begin}: a model whose ranges come from programs that were held out."
    return f"{begin}: {_too_few(fitted, shipped_for(run.kind, run.model_name))} {_MORE}"


def _of_several(rows: QuerySet[CalibrationPointRow]) -> int:
    """Points that tell how devices hinder each other: step times are fitted to the others."""
    return rows.filter(Q(body__count__gt=1) | Q(kind=DeviceKind.CPU, body__threads__gt=1)).count()


def _too_few(points: int, source: Shipped | None) -> str:
    """What estimates rest on where a model of its own has so many points of those that it needs."""
    if source:
        ships = f"the calibration of {source.model.model_name} that ships with the harness"
        own = f"A model of its own needs {LEAST_HELD_OUT} points on one device."
        if points < LEAST_POINTS:
            needed = f"which needs {LEAST_POINTS} at least on one device; estimates use it as it is"
            return f"too few to correct {ships}, {needed}. {own}"
        return f"they correct {ships}. {own}"
    if points < LEAST_POINTS:
        rest = "Until then estimates use the manufacturer's figures."
        return f"too few for a model, which needs {LEAST_POINTS} at least on one device. {rest}"
    return (
        f"enough for a model with wide ranges. From {LEAST_HELD_OUT} points on they come from programs that were held "
        "out."
    )
