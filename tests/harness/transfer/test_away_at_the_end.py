"""A portal that is away, or whose store is full, when a run has ended: what the run made waits on its node."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from django.utils import timezone

from harness.jobs.models import JobAttempt
from harness.store import StorePaths
from tests.small_disk import fill
from tests.waiting import wait_for
from worker.attempt import Attempt
from worker.cause import failure
from worker.events import Event, FailureCode, Outcome
from worker.plan import RunPaths
from worker.telemetry.forward import Forwarder
from worker.transfer import carrier as carriers
from worker.transfer import waits
from worker.transfer.carrier import Carrier
from worker.transfer.portal import PortalAway
from worker.transfer.supervisor import CarryingSupervisor

LOST = failure(FailureCode.RANK_KILLED, "Rank 0 was killed by something outside the run (SIGKILL).")


class Ending(threading.Thread):
    """A run that has ended, whose supervisor returns what it made."""

    def __init__(self, carrier: Carrier, outcome: Outcome, cause=None) -> None:
        super().__init__(daemon=True)
        self.carrier, self.outcome, self.cause = carrier, outcome, cause
        self.hurry = threading.Event()
        self.notes: list[str] = []
        self.waits: list[bool | None] = []
        """What each note says of that."""
        self.end = None
        self.start()

    def run(self) -> None:
        asked = self.outcome is Outcome.CANCELLED
        self.end = self.carrier.ended(self.outcome, self.cause, self.hurry.is_set, self._note, cancelled=asked)

    def _note(self, told) -> None:
        self.waits.append(told.get("waits"))
        self.notes.append(told["message"])

    def ended(self):
        wait_for(lambda: self.end is not None)
        return self.end


class Switch:
    """Makes the portal go away and come back."""

    def __init__(self, portal, monkeypatch) -> None:
        self.away = True
        self.held = threading.Event()
        """While it is clear, what comes after the first answer waits for it."""
        self.held.set()
        self._has_answered = False
        for name in ("json", "send"):
            monkeypatch.setattr(portal, name, self._asked(getattr(portal, name)))

    def _asked(self, ask):
        def asked(*arguments, **query):
            if self.away:
                raise PortalAway("127.0.0.1: [Errno 111] Connection refused")
            if self._has_answered:
                self.held.wait()
            self._has_answered = True
            return ask(*arguments, **query)

        return asked


@pytest.fixture
def carrier(depot, plan, here, monkeypatch):
    monkeypatch.setattr(waits, "TELL_S", 0.0)
    made = Carrier(Attempt(plan, here, "node-1"), depot)
    made.bring(lambda: False)
    (here.results / "results.json").write_text("{}")
    yield made
    made.close()


@pytest.fixture
def switch(depot, carrier, monkeypatch) -> Switch:
    return Switch(depot.portal, monkeypatch)


@pytest.mark.parametrize(("outcome", "cause"), [(Outcome.SUCCEEDED, None), (Outcome.LOST, LOST)])
def test_what_a_run_made_is_returned_once_the_portal_is_back_however_long_that_takes(
    carrier, switch, store, monkeypatch, outcome, cause
):
    hours_s = 60 * 3600.0
    clock = waits.time.monotonic
    ending = Ending(carrier, outcome, cause)
    wait_for(lambda: ending.notes)
    monkeypatch.setattr("worker.transfer.waits.time.monotonic", lambda: clock() + hours_s)
    assert f"The run has ended: {outcome}" in ending.notes[0] and "Connection refused" in ending.notes[0]
    assert ending.is_alive()
    switch.away = False
    assert ending.ended() == (outcome, cause)
    assert (store.results / "results.json").read_text() == "{}"
    assert ending.waits.count(True) == 1, "the same reason is told once"


def test_that_it_comes_again_is_told_while_it_takes_long(carrier, switch):
    ending = Ending(carrier, Outcome.SUCCEEDED)
    wait_for(lambda: ending.notes)
    switch.held.clear()
    switch.away = False
    wait_for(lambda: len(ending.notes) == 2)
    assert ending.waits == [True, False] and "is being returned to the store again" in ending.notes[1]
    switch.held.set()
    assert ending.ended() == (Outcome.SUCCEEDED, None)


def test_who_is_told_to_leave_meanwhile_leaves_and_says_why_it_is_no_success(carrier, switch):
    ending = Ending(carrier, Outcome.SUCCEEDED)
    wait_for(lambda: ending.notes)
    ending.hurry.set()
    outcome, cause = ending.ended()
    assert outcome is Outcome.LOST and "Connection refused" in cause["message"]


def test_a_cancelled_run_is_not_waited_for(carrier, switch, monkeypatch):
    monkeypatch.setattr(carriers, "CANCELLED_S", 0.5)
    assert Ending(carrier, Outcome.CANCELLED).ended() == (Outcome.CANCELLED, None)


def test_nothing_is_returned_once_the_attempt_was_given_up(carrier, switch, plan, store):
    ending = Ending(carrier, Outcome.SUCCEEDED)
    wait_for(lambda: ending.notes)
    JobAttempt.objects.filter(job_id=plan.job_id).update(ended_at=timezone.now(), outcome=Outcome.LOST)
    switch.away = False
    outcome, cause = ending.ended()
    assert outcome is Outcome.LOST and "no longer the newest" in cause["message"]
    assert not store.results.exists()


class Recording(threading.Thread):
    """The supervisor of a part whose ranks have ended: it returns what they made, and records that."""

    def __init__(self, carrier: Carrier, attempt: Attempt, outcome: Outcome, monkeypatch) -> None:
        super().__init__(daemon=True)
        monkeypatch.setattr("worker.transfer.supervisor.depot_here", lambda: carrier._depot)
        self.told: list[Event] = []
        self.requests = attempt.paths.requests(attempt.plan.token)
        self.requests.mkdir(parents=True, exist_ok=True)
        forwarder = SimpleNamespace(send=self.told.extend, close=lambda _: None, fenced=threading.Event())
        self.supervisor = CarryingSupervisor(attempt, cast(Forwarder, forwarder))
        self.supervisor.carrier, self.outcome = carrier, outcome

    def run(self) -> None:
        self.supervisor._record(self.outcome, None)

    def waits(self) -> bool:
        return any("waits on node-1" in event.data.get("message", "") for event in self.told)


@pytest.fixture
def recording(carrier, switch, plan, here, monkeypatch):
    monkeypatch.setattr(carriers, "CANCELLED_S", 0.5)
    monkeypatch.setattr(carriers, "HURRY_S", 0.2)
    monkeypatch.setenv("DLH_STOP_SAVE_S", "0.5")

    def begin(outcome: Outcome, *asked: str, node_stops: bool = False) -> Recording:
        made = Recording(carrier, Attempt(plan, here, "node-1"), outcome, monkeypatch)
        for name in asked:
            (made.requests / name).touch()
        made.supervisor._notice()
        if node_stops:
            made.supervisor.leaving.shut_down()
        made.start()
        return made

    return begin


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.LOST, Outcome.SUCCEEDED])
def test_a_part_whose_siblings_ended_badly_returns_what_it_made_however_long_that_takes(
    recording, switch, store, outcome
):
    part = recording(outcome, *(["end"] if outcome is Outcome.CANCELLED else []))
    wait_for(part.waits)
    (part.requests / "end").touch()
    part.join(1.0)
    assert part.is_alive()
    switch.away = False
    part.join()
    assert (store.results / "results.json").read_text() == "{}"
    assert part.told[-1].data["outcome"] == outcome


def test_what_a_run_saved_when_its_node_was_shut_down_is_returned_while_the_node_waits(
    recording, switch, store, monkeypatch
):
    monkeypatch.setenv("DLH_STOP_SAVE_S", "60")
    part = recording(Outcome.LOST, node_stops=True)
    wait_for(part.waits)
    switch.away = False
    part.join()
    assert (store.results / "results.json").read_text() == "{}"
    assert part.told[-1].data["outcome"] == "lost"


@pytest.mark.parametrize("release_s", [0.0, 60.0], ids=["after a while", "at once"])
@pytest.mark.parametrize(("outcome", "told"), [(Outcome.LOST, "exited"), (Outcome.SUCCEEDED, "returning")])
def test_of_runs_that_a_stopped_node_ends_only_those_that_had_ended_well_wait_for_it(
    recording, plan, here, monkeypatch, outcome, told, release_s
):
    monkeypatch.setattr(waits, "RELEASE_S", release_s)
    part = recording(outcome, node_stops=True)
    part.join()
    assert {str(event.kind) for event in part.told} & {"exited", "returning"} == {told}
    assert here.returning_file(plan.token).exists() is (told == "returning"), "another process goes on with it"


def test_the_end_tells_which_checkpoint_that_lay_here_alone_the_run_went_on_from(recording, carrier, switch):
    switch.away, carrier.leftover = False, "step-00000300"
    part = recording(Outcome.LOST)
    part.join()
    assert part.told[-1].data["leftover"] == "step-00000300"


def kinds(part: Recording) -> list[str]:
    return [str(event.kind) for event in part.told]


def test_what_the_ranks_held_is_free_while_it_waits_and_that_is_told(recording, switch):
    part = recording(Outcome.SUCCEEDED)
    wait_for(lambda: "returning" in kinds(part))
    assert part.is_alive()
    switch.away = False
    part.join()
    assert kinds(part)[-1] == "exited" and kinds(part).count("returning") == 1


def test_what_returns_at_once_needs_no_word(recording, switch, monkeypatch):
    monkeypatch.setattr(waits, "RELEASE_S", 60.0)
    switch.away = False
    part = recording(Outcome.SUCCEEDED)
    part.join()
    assert kinds(part) == ["exited"]


def test_who_cancels_meanwhile_has_the_devices_back(recording):
    part = recording(Outcome.CANCELLED, "end")
    wait_for(part.waits)
    (part.requests / "cancel").touch()
    wait_for(lambda: not part.is_alive())


def test_a_cancelled_part_is_not_waited_for(recording):
    part = recording(Outcome.CANCELLED, "cancel")
    wait_for(lambda: not part.is_alive())


@pytest.mark.parametrize("foreseen", [True, False], ids=["asked before", "found in the middle of a file"])
def test_a_full_store_is_said_and_takes_everything_once_there_is_room(
    carrier, plan, disk: Path, settings, here, monkeypatch, foreseen
):
    settings.STORE, settings.DISK_RESERVE_BYTES = StorePaths(disk), 0
    if not foreseen:
        monkeypatch.setattr(StorePaths, "free_bytes", lambda _: 1 << 40)
    there: RunPaths = settings.STORE.job(plan.job_id)
    there.root.mkdir(parents=True)
    made = os.urandom(200_000)
    (here.results / "predictions.parquet").write_bytes(made)
    filler = fill(disk)
    os.truncate(filler, filler.stat().st_size - 100_000)
    ending = Ending(carrier, Outcome.SUCCEEDED)
    wait_for(lambda: ending.notes)
    assert "The disk is full" in ending.notes[0] and ending.is_alive()
    filler.unlink()
    assert ending.ended() == (Outcome.SUCCEEDED, None)
    assert (there.results / "predictions.parquet").read_bytes() == made
    assert not [path for path in (there.root / "incoming").rglob("*") if path.is_file()]
