"""As where devices are measured."""

from __future__ import annotations

from tests.harness.measuring.conftest import ended, measures, quiet, start

__all__ = ["ended", "measures", "quiet", "start"]
