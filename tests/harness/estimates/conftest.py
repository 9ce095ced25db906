"""A draft, a pool, and no broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.workload import Workload
from tests.harness.estimates.factories import answer
from tests.silent_broker import SilentBroker


@pytest.fixture(autouse=True)
def quiet_broker(tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here needs the broker; live words are dropped."""
    from harness import broker

    monkeypatch.setattr(broker, "client", SilentBroker)


@pytest.fixture
def ask(people: SimpleNamespace) -> Callable[..., Any]:
    """Ask for an offer of a job as its owner: `ask(job, deadline_at=..., count=...)`."""
    from harness.estimates.services import Asked, offer_make

    def make(job: Any, *, again: bool = False, **wish: Any) -> Any:
        return offer_make(user=people.owner, job=job, asked=Asked.of(**wish), again=again)

    return make


@pytest.fixture
def offered(ask: Callable[..., Any]) -> Callable[..., Any]:
    """The same, and the node has answered."""
    from harness.estimates.services import inspection_answer

    def make(job: Any, **wish: Any) -> Any:
        offer = ask(job, **wish)
        inspection_answer(answer(offer.inspection))
        offer.refresh_from_db()
        return offer

    return make


@pytest.fixture
def read_as(ask: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a program that the node reads as this workload, once: `read_as(workload, job, count=...)`."""
    from harness.estimates.services import inspection_answer

    def make(workload: Workload, job: Any, **wish: Any) -> Any:
        offer = ask(job, **wish)
        if offer.inspection.state == "waiting":
            inspection_answer(answer(offer.inspection, workload=workload.to_dict()))
        offer.refresh_from_db()
        return offer

    return make
