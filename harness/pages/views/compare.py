"""The comparison of jobs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from harness.errors import NotFound
from harness.jobs.comparing import COMPARE_MAX, jobs_compared
from harness.jobs.seeds import seed_groups
from harness.pages.compare_fields import compare_specs
from harness.pages.compare_view import compare_rows, compare_source
from harness.pages.judging import judging_note
from harness.pages.spec_diff import spec_rows
from harness.pages.web import page, person, show


@page("GET", "HEAD")
def job_compare(request: HttpRequest) -> HttpResponseBase:
    """Jobs in the same charts, and where their specs differ."""
    ids = list(dict.fromkeys(request.GET.getlist("job")))
    jobs = jobs_compared(user=person(request), ids=ids)
    if ids and not jobs:
        raise NotFound("There is no such job.", hint="The page Jobs shows those that you can see.")
    specs = spec_rows(compare_specs(jobs))
    seeds, is_mean = seed_groups(jobs), request.GET.get("seeds") == "mean"
    context = {
        "jobs": jobs,
        "missing": min(len(ids), COMPARE_MAX) - len(jobs),
        "untaken": max(0, len(ids) - COMPARE_MAX),
        "compared": compare_rows(jobs),
        "judging": judging_note(jobs),
        "spec_rows": specs,
        "differs": any(row["differs"] for row in specs),
        "all_fields": request.GET.get("fields") == "all",
        "seeds": sum(map(len, seeds)),
        "is_mean": is_mean,
        "source": compare_source(jobs, seeds if is_mean else ()),
    }
    return show(request, "jobs/compare.html", context, nav="jobs")
