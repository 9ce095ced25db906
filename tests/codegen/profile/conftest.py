"""Fixture: a folder to profile uploads in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codegen.profile.uploads import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)
