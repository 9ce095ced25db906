"""A pool of waiting readers in this process, which `inspection.inspect` asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for
from tests.worker.runtime.samples import program, wine
from worker import inspection
from worker.programs import ProgramCall
from worker.readers.pool import Readers
from worker.readers.reader import Reading
from worker.sandbox import Completed


class Seen(Readers):
    """Notes of each request whether a reader that waited took it."""

    def __init__(self, count: int = 1, **more: Any) -> None:
        super().__init__(count, **more)
        self.took: list[bool] = []

    def read(self, call: ProgramCall, reading: Reading, called_off: Callable[[], bool]) -> Completed | None:
        done = super().read(call, reading, called_off)
        self.took.append(done is not None)
        return done

    def come_ready(self) -> None:
        """Wait until one waits."""
        wait_for(self.waiting, what="a reader waits")


@pytest.fixture
def pool(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """One reader, kept as an agent keeps it."""
    found = Seen()
    monkeypatch.setattr(inspection, "readers", lambda: found)
    keeper = threading.Thread(target=found.keep, daemon=True)
    keeper.start()
    yield found
    found.close()
    keeper.join(60)
    assert not keeper.is_alive()


@pytest.fixture
def request_of(home: Path) -> dict[str, Any]:
    """A request for a small program on wine."""
    data = home / "store" / "datasets" / "d" / "packed"
    folder = program(home / "store" / "jobs" / "j" / "program", wine(data), model={"family": "mlp"})
    return {
        "request_id": "r1", "job_dir": str(folder.parent), "dataset_dir": str(data), "minimum_sandbox_level": 0,
    }  # fmt: skip


def model_of(request: dict[str, Any]) -> Path:
    """File of its program."""
    return Path(request["job_dir"]) / "program" / "model.py"
