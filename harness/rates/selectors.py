"""Read range tests."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from harness.errors import Conflict, Invalid, NotFound
from harness.estimates.rate_wishes import rate_of, spec_file_is_edited
from harness.jobs import programs
from harness.jobs.models import Job
from harness.rates.keys import rate_key, run_setting
from harness.rates.models import RateTest
from scheduler.rates.interval import RateRange
from worker.states import JobState

CURVE_COLUMNS = ("learning rate", "loss", "loss fit", "score", "logarithmic fit")
ENDS = ("low", "high", "centre")
SUGGESTED = ("best", *ENDS)


def spec_rate(job: Job) -> float | None:
    """Peak learning rate of a job as resolved; None where a person's spec.yaml says it."""
    return None if job.program_edited and spec_file_is_edited(job) else rate_of(job)


def job_rate(job: Job) -> tuple[float | None, str]:
    """(peak learning rate, where it comes from) of a job as resolved; None where a person's spec.yaml says it."""
    rate = spec_rate(job)
    if rate is None:
        return None, "spec.yaml was edited by hand"
    told = job.events.filter(data__learning_rate=rate).order_by("-pk").values_list("data", flat=True).first()
    if told:
        return rate, str(told.get("why", ""))
    guesses = job.resolved.get("guesses", ())
    why = next((str(one["reason"]) for one in guesses if one.get("field") == "training.learning_rate"), "")
    return rate, why or "the spec names it"


def rate_test_first(job: Job) -> bool:
    """Whether a draft is submitted as soon as its range test is over."""
    return job.state == JobState.DRAFT and RateTest.objects.filter(job=job, submit=True).exists()


def rate_tests(job: Job) -> QuerySet[RateTest]:
    """Of a job, the newest first."""
    return RateTest.objects.select_related("job__project", "job__dataset", "by").filter(job=job).order_by("-created_at")


def rate_test_get(*, job: Job, test_id: str) -> RateTest:
    """A test of the job. Raises `NotFound`."""
    test = rate_tests(job).filter(pk=test_id).first()
    if test is None:
        raise NotFound("There is no such range test.", hint="Ask for a new one.")
    return test


def rate_found(test: RateTest) -> RateRange | None:
    """What the fits say; None where there is no answer, or an unclear one."""
    return RateRange.from_dict(test.found) if test.found else None


def rate_names(test: RateTest) -> dict[str, float]:
    """Every rate of the test by its name: interval, centre, trials, readings, rules; and the `best` of them."""
    found = rate_found(test)
    rules = {name: value for name, value in test.rules.items() if name in ("linear", "sqrt")}
    if found is None:
        return rules
    ends = {name: getattr(found, name) for name in ENDS}
    told = (test.trials or {}).get("rate")
    tried = {"trials": float(told)} if told else {}
    return {**ends, "best": tried.get("trials", found.centre), **tried, **found.marks, **rules}


def rate_by_name(test: RateTest, name: str) -> float:
    """Raises `Invalid` (field `rate`)."""
    known = rate_names(test)
    if name not in known:
        told = f"it reports {', '.join(known)}" if known else "it reports none"
        raise Invalid(
            f"The test reports no rate {name[:40]!r}; {told}.", field="rate", hint="Give one of them, or a number."
        )
    return known[name]


def rate_trials(test: RateTest) -> dict[str, Any] | None:
    """The trials as they are told; None before they are planned."""
    told = test.trials
    if told is None:
        return None
    figures = {name: told.get(name) for name in ("expected_s", "share", "rate", "complete", "took_s", "problem")}
    return {
        "state": told["state"], "why": told.get("why", ""), "most_share": told["most_share"], **figures,
        "notes": told.get("notes", []), "done": (told.get("record") or {}).get("done", []),
    }  # fmt: skip


def rate_test_is_current(test: RateTest, job: Job) -> bool:
    """Whether the program is still the one that was tested; another learning rate makes no other program.

    Trials stand for the length of the run and its schedule, too.
    """
    try:
        files = programs.program_of(settings.STORE.job(job.pk)).files
    except NotFound:
        return False
    setting = (test.trials or {}).get("setting") if (test.trials or {}).get("rate") else None
    if setting is not None and setting != run_setting(files):
        return False
    return rate_key(files, job.dataset_sha256 or job.dataset.sha256) == test.program_key


def rate_curve(test: RateTest) -> list[tuple[float | None, ...]]:
    """Rows of `CURVE_COLUMNS`. Of a test that says nothing, the bare losses of its first sweep."""
    found = rate_found(test)
    if found is not None:
        return list(found.curve())
    record = test.record or {}
    sweeps = record.get("sweeps") or [{"losses": [], "scores": []}]
    points = zip(record.get("rates", []), sweeps[0]["losses"], sweeps[0]["scores"], strict=False)
    return [(rate, loss, None, score, None) for rate, loss, score in points]


def rate_curve_need(test: RateTest) -> list[tuple[float | None, ...]]:
    """The curve. Raises `Conflict` where there is none."""
    rows = rate_curve(test)
    if not rows:
        raise Conflict("This test has no curve.", hint="Wait until it ends, or ask for a new one.")
    return rows
