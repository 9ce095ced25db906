"""As where devices are measured."""

from __future__ import annotations

from tests.harness.measuring.conftest import commit, ended, measures, quiet, start

__all__ = ["commit", "ended", "measures", "quiet", "start"]
