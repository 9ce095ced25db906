"""Waiting for a condition, for tests that watch real processes."""

import time
from collections.abc import Callable

import pytest

WAIT_S = 30.0


def wait_until(condition: Callable[[], object]) -> None:
    """Poll until the condition is true; fail after a generous time."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, "the condition never came true"
        time.sleep(0.02)


@pytest.fixture(name="wait_until")
def wait_until_fixture():
    return wait_until
