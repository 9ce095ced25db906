"""Streams that say soon that they live."""

import pytest


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch):
    monkeypatch.setattr("harness.live.PING_S", 0.05)
