"""A queue with promises, a reservation, a quota and a week of used devices, for pages to show."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace


def queue_make(world: SimpleNamespace) -> None:
    """Change the world's queued and running job, add a waiting job of another project."""
    from django.utils import timezone

    from harness.jobs.models import Job
    from harness.moments import moment_words
    from harness.pool.models import Node, Quota, Reservation

    now, minute = timezone.now(), timedelta(minutes=1)
    Job.objects.filter(pk=world.jobs["queued"].pk).update(
        queue_position=1, waiting_code="devices_busy", expected_start_at=now + 12 * minute,
        waiting_text="It needs 2 CPU cores on one node; node-1 has 0 free. It starts when 2 more are given back.",
        expected_finish_at=now + 44 * minute, expected_low_at=now + 35 * minute, expected_high_at=now + 60 * minute,
        deadline_at=now + 90 * minute, promised_at=now + 90 * minute,
        options=[{"kind": "cpu", "count": count, "rate_per_s": count / 3000} for count in (1, 2)],
    )  # fmt: skip
    promised = moment_words(now + 30 * minute, exact=True)
    Job.objects.filter(pk=world.jobs["running"].pk).update(
        expected_start_at=now - 20 * minute, expected_finish_at=now + 25 * minute, expected_low_at=now + 22 * minute,
        expected_high_at=now + 33 * minute, deadline_at=now + 30 * minute, promised_at=now + 30 * minute,
        warning=f"Its slack is shrinking: it may miss its promised finish, {promised}, by up to 3 min.", priority=5,
    )  # fmt: skip
    world.node = node = Node.objects.get(name="node-1")
    hours = timedelta(hours=1)
    Node.objects.update(created_at=now - 24 * 20 * hours)
    Reservation.objects.create(
        node=node, starts_at=now + 20 * hours, ends_at=now + 26 * hours, purpose="course on deep learning",
        project=world.project, by=world.admin,
    )  # fmt: skip
    Quota.objects.create(project=world.project, device_kind="cpu", devices=1)
    uses_make(world)


def uses_make(world: SimpleNamespace) -> None:
    """Four days of work on the first devices, by two people."""
    from django.utils import timezone

    from harness.jobs.models import DeviceUse

    now = timezone.now()
    job = world.jobs["succeeded"]
    for number in range(16):
        device = world.node.devices.order_by("kind", "index")[number % 2]
        start, length = now - timedelta(hours=6 * number + 5), timedelta(hours=1 + number % 4)
        owner = world.owner if number % 3 else world.member
        DeviceUse.objects.create(
            device=device, node_name=world.node.name, device_kind=device.kind, device_index=device.index, job=job,
            job_name=job.name, project=world.project, project_name=world.project.name, owner=owner, token=1,
            owner_name=owner.username, started_at=start, ended_at=start + length,
            energy_j=8.0 * length.total_seconds(), energy_basis="assumed",
        )  # fmt: skip
