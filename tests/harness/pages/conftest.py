"""A project with something in every state, made once per module; each test finds it as it was made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from harness.jobs.models import Job
from tests.factories import world_make
from tests.kept import Kept, kept


@pytest.fixture(scope="module")
def world_kept(request: pytest.FixtureRequest) -> Iterator[Kept[SimpleNamespace]]:
    """People, datasets, a job in every state, a pool."""
    from harness import broker

    def make() -> SimpleNamespace:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker, "publish", lambda *args, **more: None)
            return world_make()

    def folders(world: SimpleNamespace) -> list[Path]:
        jobs = [settings.STORE.job(job.pk).root for job in world.jobs.values()]
        return [*jobs, *(settings.STORE.dataset(one.sha256).root for one in (world.digits, world.wine))]

    with kept(request, make, folders) as found:
        yield found


@pytest.fixture
def world(
    world_kept: Kept[SimpleNamespace], db: None, tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimpleNamespace]:
    """The same for one test; nothing is sent to a broker."""
    from harness import broker

    monkeypatch.setattr(broker, "publish", lambda *args, **more: None)
    with world_kept.lent() as world:
        yield world


@pytest.fixture
def owner(world: SimpleNamespace) -> Client:
    client = Client()
    client.force_login(world.owner)
    return client


@pytest.fixture
def draft(world: SimpleNamespace) -> Job:
    job: Job = world.jobs["draft"]
    return job
