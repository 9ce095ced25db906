"""Whether a draft gets a range test that nobody asked for by name: its steps have other rows than its usual rate is
for, and the test costs little beside the run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings

from harness.estimates.accepting import estimates_fixed
from harness.estimates.before import leaves_no_time
from harness.estimates.groups import groups_read
from harness.estimates.inspection import inspection_request, is_late
from harness.estimates.models import AskState, Inspection, JobEstimate
from harness.estimates.offers import job_key
from harness.estimates.pricing import estimates_of
from harness.estimates.rate_wishes import run_steps, step_rows
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import wanted_devices, wanted_memory_bytes, wanted_model
from harness.jobs.services import minimum_sandbox_level
from harness.rates.reference import rates_by_rules
from scheduler.estimation.values import Estimate
from scheduler.offers.recommend import candidates
from scheduler.offers.values import Wish, estimate_from
from scheduler.offers.words import energy_words
from scheduler.rates.worth import MOST_SHARE, RangeCost, is_worth, range_cost_of, too_few_steps
from scheduler.workload import Workload
from worker.words import counted, duration_words, percent_words

DECIDES = ("spec", "resolved", "deadline_at", "options", "program_sha256", "dataset_sha256")
"""Fields of a draft on which its verdict rests."""


class Way(StrEnum):
    """How a learning rate is found that the spec leaves open."""

    TEST = "test"
    RULE = "rule"
    READ = "read"
    """Not known yet: a node has to read the program first."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is done about the rate of one draft, and why."""

    way: Way
    why: str


def draft_key(job: Job) -> str:
    """Hash of `DECIDES`: a verdict holds while it stays."""
    told = {name: getattr(job, name) for name in DECIDES}
    told["deadline_at"] = job.deadline_at.timestamp() if job.deadline_at else None
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def rate_verdict(job: Job) -> Verdict:
    """Of a draft whose rate is left open (`rate_is_automatic`), by what is known of it now."""
    steps = run_steps(job)
    if too_few_steps(steps):
        return Verdict(way=Way.RULE, why=f"a run of {steps:,.0f} steps is too short for a range test")
    found = Inspection.objects.filter(key=job_key(job)).first()
    if found is None or (found.state == AskState.WAITING and not is_late(found)):
        return Verdict(way=Way.READ, why="a node reads the program first, to tell how long the run takes")
    figures = _figures(job, Workload.from_dict(found.workload)) if found.workload else None
    if figures is None:
        return Verdict(
            way=Way.RULE,
            why="there is no estimate of how long its run takes, so nobody can tell whether a range test pays off",
        )
    cost, run_s, longest_s = figures
    if leaves_no_time(job.deadline_at, longest_s, cost):
        return Verdict(way=Way.RULE, why="its requested finish leaves no time for a range test")
    takes = f"about {duration_words(cost.time_s, up=True)} and {energy_words(cost.energy_j)}"
    if is_worth(cost, run_s):
        return Verdict(way=Way.TEST, why=f"it takes {takes}, {percent_words(cost.time_s / run_s, 0)} of the run's time")
    most = f"without being asked for it may take {percent_words(MOST_SHARE, 0)}"
    return Verdict(
        way=Way.RULE, why=f"a range test takes {takes} beside a run of about {duration_words(run_s, up=True)}; {most}"
    )


def _figures(job: Job, workload: Workload) -> tuple[RangeCost, float, float] | None:
    """(cost of a test, seconds of the run: about, and at most); None where the pool has no device for them."""
    kind, model_name = wanted_devices(job)[0], wanted_model(job) or None
    groups = groups_read(job.project, memory_bytes=wanted_memory_bytes(job), with_reserved=True)
    wish = Wish(kind=kind, model_name=model_name, count=1)
    ways = tuple(way for way in candidates(workload, groups, wish=wish) if wish.allows(way.allocation))
    cost, run = range_cost_of(estimates_of(workload, ways).values(), kind), _run(job, workload)
    return (cost, run.run_s.mid, run.run_s.high) if cost is not None and run is not None else None


def _run(job: Job, workload: Workload) -> Estimate | None:
    """What the run was offered for, else what it costs on the devices that the spec fixes."""
    kept = JobEstimate.objects.filter(job=job, inspection_key=job_key(job)).exclude(offer=None).first()
    if kept is not None and job.options:
        return estimate_from(kept.estimate)
    return next(iter(estimates_fixed(job, workload)), None)


def program_read(job: Job) -> None:
    """Have a node read the program, unless one does or did. Raises `Unavailable` where there is none."""
    inspection_request(
        files=programs.program_of(settings.STORE.job(job.pk)).files,
        dataset_sha256=job.dataset_sha256 or job.dataset.sha256,
        minimum_sandbox_level=minimum_sandbox_level(job),
    )


def changed_words(job: Job) -> str:
    """That the steps of a draft are not those that the usual rate is for."""
    usual = rates_by_rules(job).get("reference_batch")
    told = f"a step has {counted(step_rows(job), 'row')}"
    return f"{told}, not the usual {usual:,.0f}" if usual else f"{told}, not as many as usual"
