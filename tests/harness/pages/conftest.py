"""A project with something in every state, made once per test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from harness.jobs.models import Job
from tests.factories import world_make


@pytest.fixture
def world(db: None, tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """People, datasets, a job in every state, a pool; nothing is sent to a broker."""
    from harness import broker

    monkeypatch.setattr(broker, "publish", lambda *args, **more: None)
    return world_make()


@pytest.fixture
def owner(world: SimpleNamespace) -> Client:
    client = Client()
    client.force_login(world.owner)
    return client


@pytest.fixture
def draft(world: SimpleNamespace) -> Job:
    job: Job = world.jobs["draft"]
    return job
