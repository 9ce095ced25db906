"""Receivers, and people who want to be told."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from harness.env_smtp import Security, SmtpSettings
from harness.notify.models import Delivery, NotifyChoice
from harness.notify.sending import delivery_next
from harness.notify.services import choice_update
from tests.receivers import Hooks, Mails, hooks_running, mails_running

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with hooks_running() as found:
        yield found


@pytest.fixture
def mails(settings: Any) -> Iterator[Mails]:
    """A mail server that the settings name."""
    with mails_running() as found:
        settings.SMTP = SmtpSettings(
            host="127.0.0.1", port=found.port, security=Security.NONE, sender="Harness <harness@example.org>"
        )
        yield found


@pytest.fixture
def loopback_allowed(settings: Any) -> None:
    settings.WEBHOOK_NETWORKS, settings.WEBHOOK_HTTP = LOOPBACK, True


@pytest.fixture
def told(hooks: Hooks, loopback_allowed: None, tasks_sent: list[Any]) -> Callable[..., NotifyChoice]:
    """Have a person be told by webhook: `told(user, projects=["birds"], job_failed=False)`."""

    def make(user: Any, **changes: Any) -> NotifyChoice:
        return choice_update(user=user, changes={"webhook_url": hooks.url, **changes})[0]

    return make


@pytest.fixture
def send_all() -> Callable[[], None]:
    """Send everything that waits, however late its next try is."""

    def send() -> None:
        Delivery.objects.filter(state="waiting").update(due_at=timezone.now() - timedelta(seconds=1))
        while delivery_next():
            continue

    return send
