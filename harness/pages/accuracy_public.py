"""How good the estimates are, for whoever is not signed in: means over several jobs, and never a figure of one."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import Any

from django.core.cache import cache

from harness.calibration import selectors
from harness.calibration.models import DeviceModelRow
from harness.calibration.selectors import Accuracy
from harness.pages.calibration_view import accuracy_groups, accuracy_rows, jobs_count

LEAST_JOBS = 5
"""Of fewer a mean tells of single jobs."""
LEAST_FOR_MEDIAN, LEAST_FOR_P90 = 10, 20
"""A median of few jobs is the error of one of them, or of two; a 90th percentile that of the worst."""
KEPT_S = 300
_KEY = "accuracy/public"
_making = Lock()


def public_accuracy() -> dict[str, Any]:
    """What the page shows, made every few minutes at most: whoever asks again and again reads no row by it."""
    found: dict[str, Any] | None = cache.get(_KEY)
    if found is None:
        with _making:  # who comes meanwhile waits for the same figures
            found = cache.get(_KEY)
            if found is None:
                found = _made()
                cache.set(_KEY, found, KEPT_S)
    return found


def _made() -> dict[str, Any]:
    rows = selectors.finished_rows()
    return {
        "jobs": jobs_count(rows),
        "newest": selectors.has_older(),
        "least": {"mean": LEAST_JOBS, "median": LEAST_FOR_MEDIAN, "p90": LEAST_FOR_P90},
        "figures": accuracy_rows([shown for item in selectors.accuracy(rows) if (shown := _of_many(item))]),
        "charts": accuracy_groups(rows, shown=_of_many),
        "models": [_model(row) for row in selectors.model_list()],
        "shipped": bool(selectors.shipped_uses()),
    }


def _of_many(item: Accuracy) -> Accuracy | None:
    """What of it tells of many jobs; None where nothing does."""
    if item.jobs < LEAST_JOBS:
        return None
    median = item.median if item.jobs >= LEAST_FOR_MEDIAN else None
    return replace(item, median=median, p90=item.p90 if item.jobs >= LEAST_FOR_P90 else None)


def _model(row: DeviceModelRow) -> dict[str, Any]:
    """What the table of models shows of one: of its name, figures that were held out and counts."""
    shown = {name: getattr(row, name) for name in ("kind", "model_name", "n_points", "n_finished", "fitted_at")}
    report = {name: row.report[name] for name in ("total", "noise", "baselines") if name in row.report}
    model = {"n_points": row.model["n_points"], "transferred": bool(row.model.get("transferred"))}
    return {**shown, "report": report, "model": model}
