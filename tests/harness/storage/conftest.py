"""A store of its own for each test, so that what is counted is what the test made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.datasets import services
from harness.store import StorePaths

KIB = 1024


@pytest.fixture(autouse=True)
def store(settings: Any, tmp_path: Path, tasks_sent: list[Any]) -> StorePaths:
    settings.STORE = StorePaths(tmp_path / "store")
    return settings.STORE


@pytest.fixture
def upload_make(people: Any) -> Callable[..., Any]:
    """Announce a file: `upload_make(size_bytes, user=..., project=...)`."""

    def make(size_bytes: int, user: Any = None, project: Any = None) -> Any:
        return services.upload_create(
            user=user or people.owner, project=project or people.project, filename="a.csv", size_bytes=size_bytes
        )

    return make


@pytest.fixture
def fill(store: StorePaths) -> Callable[..., Path]:
    """Write a file of a job: `fill(job, "work/results/x", 64)` in KiB."""

    def write(job: Any, path: str, kib: int = 64) -> Path:
        file = store.job(job.pk).root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * kib * KIB)
        return file

    return write
