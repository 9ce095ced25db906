"""A server of files, and fetches from it that control does at once."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.fetches.models import Fetch
from harness.fetches.running import fetch_next
from harness.fetches.services import fetch_create
from tests.file_servers import Files, files_running

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def files() -> Iterator[Files]:
    with files_running() as found:
        yield found


@pytest.fixture
def loopback_allowed(settings: Any) -> None:
    settings.FETCH_NETWORKS = LOOPBACK


@pytest.fixture
def run_all() -> Callable[[], None]:
    """Fetch all that waits, however late its next try is."""

    def run() -> None:
        while True:
            Fetch.objects.filter(state="waiting").update(due_at=timezone.now() - timedelta(seconds=1))
            if not fetch_next():
                return

    return run


@pytest.fixture
def fetched(
    files: Files,
    people: SimpleNamespace,
    loopback_allowed: None,
    tasks_sent: list[Any],
    run_all: Callable[[], None],
) -> Callable[..., Fetch]:
    """Have a path of the server fetched to its end, good or bad: `fetched("/t.csv", name="Table")`."""

    def make(path: str, **given: Any) -> Fetch:
        fetch = fetch_create(user=people.owner, project=people.project, url=files.url(path), **given)
        run_all()
        return Fetch.objects.select_related("upload__dataset").get(pk=fetch.pk)

    return make
