"""Fixtures of the tests of nodes that join; imported by the modules that use them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from tests.harness.client.conftest import Dlh


@pytest.fixture(autouse=True)
def acl_taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the broker is told of users."""
    from harness.pool import broker_users

    told: list[Any] = []
    monkeypatch.setattr(
        broker_users, "client", lambda: SimpleNamespace(execute_command=lambda *words: told.append(words))
    )
    return told


@pytest.fixture
def token(dlh: Dlh, portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> str:
    """An admin has added node-2."""
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    made = dlh("pool", "add", "node-2", "--json").json
    assert made["command"] == f"dlh node join {settings.PORTAL_URL} {made['token']}"
    return str(made["token"])
