"""A large installation made of rows: a real PostgreSQL that syncs its writes, a real broker, jobs that nobody runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests import postgres
from tests.broker import broker

SAFE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "autovacuum": "on"}
"""As in production: what the tests leave out for speed is part of the cost here."""


@contextmanager
def installation(home: Path) -> Iterator[redis.Redis]:
    """Database and broker, with Django set up on them; gives a client of the broker."""
    postgres.OPTIONS.update(SAFE)
    with postgres.running() as server, broker(home) as url:
        os.environ |= {
            "DLH_HOME": str(home / "home"), "DLH_DATABASE_URL": server.url, "DLH_REDIS_URL": url,
            "DJANGO_SETTINGS_MODULE": "harness.settings",
        }  # fmt: skip
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        call_command("migrate", verbosity=0)
        try:
            yield redis.Redis.from_url(url)
        finally:
            connection.close()


def report_of(number: int, devices: int) -> dict[str, Any]:
    """The heartbeat of one node."""
    return {
        "name": f"node-{number}", "boot_id": f"boot-{number}", "address": f"10.0.{number // 256}.{number % 256}",
        "cpu_cores": devices, "memory_bytes": 256 << 30, "sandbox_level": 3, "sandbox_reason": "", "running": [],
        "description": {"processor": "made", "links": {}},
        "devices": [
            {"kind": "cuda", "index": index, "model_name": "GPU A", "memory_bytes": 80 << 30}
            for index in range(devices)
        ],
    }  # fmt: skip


def queue_fill(count: int, width: int) -> None:
    """So many queued jobs of `width` devices each: one made as a person makes it, the rest its copies as rows."""
    from django.utils import timezone

    from harness.accounts.models import Project, User
    from harness.datasets.models import Dataset
    from harness.datasets.reading import dataset_read
    from harness.datasets.samples import sample_create
    from harness.ids import new_id
    from harness.jobs.models import Job
    from harness.jobs.services import job_create

    user = User.objects.create_superuser("asker", password="not used here")
    project = Project.objects.first() or Project.objects.create(name="bench", slug="bench")
    dataset = sample_create(user=user, project=project, name="wine")
    dataset_read(dataset.pk)
    spec = {"resources": {"device": "cuda", "count": width}, "mode": "sync"}
    first = job_create(user=user, project=project, dataset=Dataset.objects.get(pk=dataset.pk), spec=spec)
    fields = {field.attname: getattr(first, field.attname) for field in Job._meta.concrete_fields}
    now = timezone.now()
    rows = (Job(**fields | {"id": new_id(), "state": "queued", "queued_at": now}) for _ in range(count))
    Job.objects.bulk_create(rows, batch_size=500)
    first.delete()
