"""A store of the test's own, so that a pass copies what the test made and nothing else."""

import pytest

from harness.store import StorePaths


@pytest.fixture(autouse=True)
def store(settings, tmp_path):
    settings.STORE = StorePaths(tmp_path / "store")
    settings.STORE.root.mkdir()
    return settings.STORE
