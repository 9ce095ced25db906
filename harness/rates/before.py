"""What is done about the learning rate of a draft that is submitted: a test comes first, a rule holds, or the rate that
the spec names stays."""

from __future__ import annotations

from dataclasses import dataclass

from harness.accounts.models import User
from harness.estimates.rate_wishes import rate_is_asked, rate_is_automatic, rate_is_open, rate_of, rule_of, step_rows
from harness.jobs.models import Job
from harness.jobs.states import job_note
from harness.rates.automatic import Verdict, Way, changed_words, draft_key, rate_verdict
from harness.rates.models import RateTest
from harness.rates.services import rate_rule_note, rate_want
from worker.states import JobState

_CHANGED = Verdict(way=Way.READ, why="its spec or program was changed just now")
_LINE_MOST = 50
"""Clones of clones that are looked at."""


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """A verdict, and of which state of the draft (`draft_key`)."""

    verdict: Verdict
    draft: str


def rate_foreseen(job: Job) -> Foreseen | None:
    """What `rate_before` is to know of a draft; None where its spec says what to do."""
    is_open = job.state == JobState.DRAFT and not rate_is_asked(job) and rate_is_automatic(job)
    return Foreseen(draft=draft_key(job), verdict=rate_verdict(job)) if is_open else None


def rate_before(*, user: User, job: Job, foreseen: Foreseen | None) -> bool:
    """Tell how the rate of a draft is found that is being submitted. True: a test comes first, or may; it is noted.

    `foreseen`: by `rate_foreseen`; a draft that was changed since is judged later. Raises what `rate_want` does.
    """
    if rate_is_asked(job):
        told = "A range test finds the learning rate first; then it is submitted"
    elif rate_is_automatic(job):
        verdict = foreseen.verdict if foreseen and foreseen.draft == draft_key(job) else _CHANGED
        if verdict.way is Way.RULE:
            rate_rule_note(job, verdict.why)
            return False
        verb = "finds" if verdict.way is Way.TEST else "may find"
        told = f"A range test {verb} the learning rate first, since {changed_words(job)}; {verdict.why}"
    else:
        if told := _stands(job):
            job_note(job, "note", told)
        return False
    job_note(job, "person", told, actor=user)
    rate_want(user=user, job=job)
    return True


def _stands(job: Job) -> str:
    """That a rate stays though a step may have other rows than it is for; empty where there is nothing to say."""
    if rate_is_open(job):
        return "spec.yaml was edited by hand: the learning rate in it stands" if rule_of(job) != "none" else ""
    rows, rate = step_rows(job), rate_of(job)
    found = RateTest.objects.filter(job_id__in=_line(job), used_rate=rate).order_by("-created_at")
    tested = list(found.values_list("batch_size", flat=True))
    if not tested or rows in tested:
        return ""
    return (
        f"Learning rate {rate:g} stays, since the spec names it, but a range test found it for steps of {tested[0]:,} "
        f"rows, and now a step has {rows:,}; with auto it is found again"
    )


def _line(job: Job) -> list[str]:
    """Ids of the job, of the one that it is a clone of, and so on: a clone of a clone keeps the rate as well. They
    may lie in other projects."""
    found, parent = [job.pk], job.parent_id
    while parent and parent not in found and len(found) < _LINE_MOST:
        found.append(parent)
        parent = Job.objects.filter(pk=parent).values_list("parent_id", flat=True).first()
    return found
