"""A draft, a pool, and no broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.estimates.models import Inspection
from harness.estimates.services import inspection_answer
from harness.jobs.models import Job
from tests.factory_offers import workload_make
from tests.harness.estimates.factories import answer
from tests.harness.rates.drafts import LONG
from tests.silent_broker import SilentBroker


@pytest.fixture(autouse=True)
def quiet_broker(tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here needs the broker; live words are dropped."""
    from harness import broker

    monkeypatch.setattr(broker, "client", SilentBroker)


@pytest.fixture
def changed(job_make: Any, node_make: Any) -> Job:
    """A long job with another batch than the usual one, and two idle cores."""
    node_make("node-1", cpus=2)
    return job_make(training=LONG)


@pytest.fixture
def read() -> Callable[..., None]:
    """A node reads the job's program: so many epochs of 20,000 rows."""

    def read(epochs: int = 20) -> None:
        inspection_answer(answer(Inspection.objects.get(), workload=workload_make(epochs=epochs).to_dict()))

    return read
