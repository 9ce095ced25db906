"""Which release of the harness this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGE = "deep-learning-harness"


@cache
def release() -> str:
    """As installed; `0` where it runs from sources that were never installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "0"
