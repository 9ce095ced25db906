"""Tells a person, on the page that answers a change of a draft, that edits of its spec.yaml gave way to it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest

from harness.jobs.models import Job
from harness.jobs.spec_edits import gave_way_words
from worker.states import JobState


def edits_told(request: HttpRequest, job: Job, lost: int) -> None:
    """A warning, unless none did; `job` as it is after the change: what is submitted is edited in a clone."""
    if not lost:
        return
    is_draft = job.state == JobState.DRAFT
    where = "on the tab Program" if is_draft else "in a clone"
    messages.warning(request, f"{gave_way_words(lost)}.", extra_tags=f"Write it again {where} if it is still wanted.")
