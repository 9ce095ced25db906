"""A draft, a pool, and no broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def quiet_broker(tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here needs the broker; live words are dropped."""
    from harness import broker

    monkeypatch.setattr(
        broker, "client", lambda: SimpleNamespace(xadd=lambda *_, **__: None, expire=lambda *_: None, ping=lambda: True)
    )


@pytest.fixture
def commit(django_capture_on_commit_callbacks: Any) -> Callable[..., Any]:
    """Call a function and do what it left for the commit."""

    def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with django_capture_on_commit_callbacks(execute=True):
            return function(*arguments, **named)

    return call
