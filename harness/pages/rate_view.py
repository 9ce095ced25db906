"""A range test as the program tab shows it: words, picture, table of every rate it tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from harness.jobs.models import Job
from harness.pages.charts import chart_card
from harness.rates.models import RateTest
from harness.rates.selectors import (
    CURVE_COLUMNS,
    rate_curve,
    rate_found,
    rate_names,
    rate_test_is_current,
    rate_tests,
    rate_trials,
    spec_rate,
)
from scheduler.rates.interval import RateRange
from worker.rate_search import most_share
from worker.states import JobState

_WORDS = {
    "trials": ("Trials", "what we suggest: the smallest validation loss of trainings, by a parabola"),
    "centre": ("Centre of the interval", "what we suggest where there are no trials"),
    "low": ("Lower end", "the loss begins to fall"),
    "high": ("Upper end", "the fitted loss is smallest; beyond it training gets rough"),
    "valley": ("Valley", "middle of the longest fall of the averaged loss, as fastai reads it"),
    "steepest": ("Steepest", "where the averaged loss falls fastest, as fastai reads it"),
    "minimum_tenth": ("Minimum / 10", "a tenth of the rate with the smallest loss"),
    "linear": ("Linear rule", "the family's rate times batch over its usual batch, by eightfold at most, up or down"),
    "sqrt": (
        "Square-root rule",
        "the family's rate times the root of batch over its usual batch, by eightfold at most, up or down",
    ),
}
_DRAWN = ("trials", "centre", "valley", "steepest", "minimum_tenth", "linear", "sqrt")
_SCORES = {"accuracy": "training accuracy", "r2": "training R²"}


@dataclass(frozen=True, kw_only=True)
class ShownRate:
    """One rate of the table."""

    name: str
    title: str
    what: str
    rate: float
    inside: bool
    """Of the interval."""
    used: bool


def rates_context(job: Job, test: RateTest | None = None) -> dict[str, Any]:
    """The part of the tab that is asked for again while a node works; the newest test unless one is given."""
    test = test or rate_tests(job).first()
    if test is None:
        return {"test": None, "most_share": most_share()}
    found, rows = rate_found(test), rate_curve(test)
    return {
        "test": test,
        "percent": round(100 * test.progress),
        "found": found,
        "rates": _rates(test, found, spec_rate(job)) if found else [],
        "best": rate_names(test).get("best"),
        "trials": rate_trials(test),
        "trial_rows": _trial_rows(test),
        "rate_chart": _chart(job, test, found) if any(row[1] is not None for row in rows) else None,
        "is_current": test.state == "waiting" or rate_test_is_current(test, job),
        "usable": job.state == JobState.DRAFT and not job.deleted_at,
        "rules": test.rules,
    }


def _rates(test: RateTest, found: RateRange, in_spec: float | None) -> list[ShownRate]:
    """`in_spec`: the rate that the job's spec has now; a person may have changed it since one was taken from here."""
    names = rate_names(test)
    return [
        ShownRate(
            name=name, title=title, what=what, rate=float(f"{names[name]:.3g}"),
            inside=found.low <= names[name] <= found.high,
            used=test.used_rate == in_spec == float(f"{names[name]:.3g}"),
        )
        for name, (title, what) in _WORDS.items()
        if name in names
    ]  # fmt: skip


def _trial_rows(test: RateTest) -> list[dict[str, Any]]:
    done = (rate_trials(test) or {}).get("done", [])
    return sorted(done, key=lambda row: (row["round"], row["rate"]))


def _chart(job: Job, test: RateTest, found: RateRange | None) -> dict[str, Any]:
    names = rate_names(test)
    score = _SCORES.get((test.record or {}).get("score", ""), "")
    marks = [[_WORDS[name][0], names[name]] for name in _DRAWN if name in names] if found else []
    card = chart_card(
        f"rates-{test.pk}", _title(score), "rates", list(CURVE_COLUMNS),
        [list(row) for row in rate_curve(test)], csv=reverse("job_rates_csv", args=[job.pk, test.pk]), wide=True,
        note="Every step of the test has its own rate. The shaded band is the interval of usable peak rates.",
        low=found.low if found else None, high=found.high if found else None, marks=marks, score=score,
        law_of=found.log_fit_of if found else "",
        trials=[[row["round"], row["rate"], row["loss"], row["share"]] for row in _trial_rows(test)],
    )  # fmt: skip
    return card


def _title(score: str) -> str:
    what = f"Loss and {score.removeprefix('training ')}" if score else "Loss"
    return f"{what} against the learning rate"
