"""What jobs tell of a person whose account is deleted."""

from __future__ import annotations

from dataclasses import replace

from django.db.models import F, Value
from django.db.models.functions import Replace

from harness.accounts.models import User
from harness.jobs.failures import failure_read
from harness.jobs.models import DeviceUse, Job, JobAttempt, JobEvent


def person_forget(user: User, name: str) -> None:
    """Their use stays under the other name; jobs and datasets name the row."""
    DeviceUse.objects.filter(owner=user).update(owner_name=name)
    said = f"{user.username} does not wait for "
    events = JobEvent.objects.filter(message__startswith=said)
    events.update(message=Replace(F("message"), Value(said), Value(f"{name} does not wait for ")))
    for rows in (Job.objects, JobAttempt.objects):
        for row in rows.filter(failure__message__startswith=said):
            if failure := failure_read(row.failure):
                message = failure.message.replace(said, f"{name} does not wait for ", 1)
                rows.filter(pk=row.pk).update(failure=replace(failure, message=message).to_dict())
