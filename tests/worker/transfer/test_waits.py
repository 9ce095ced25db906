"""What people are told of a return that takes long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from worker.transfer import waits
from worker.transfer.waits import RELEASE_AGAIN_S, TELL_AGAIN_S, TELL_BACK_S, TELL_S, WAITS, Waits


class Told:
    """A return, looked at whenever the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, goes_on: bool = False) -> None:
        self.now_s, self.notes, self.stills = 0.0, list[dict[str, Any]](), 0
        monkeypatch.setattr(waits, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        self._waits = Waits("It waits: ", self.notes.append, self._still, goes_on=goes_on)

    def _still(self) -> None:
        self.stills += 1

    def look(self, why: str, *, after_s: float, is_told: bool = False, arrives: bool | None = None) -> list[Any]:
        """(whether it waits, words) of what is told then."""
        self.now_s += after_s
        before = len(self.notes)
        self._waits.look(why, is_told=is_told, arrives=not why if arrives is None else arrives)
        return [(note[WAITS], note["message"].removeprefix("It waits: ")) for note in self.notes[before:]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


COMES = [(False, "What the run made is being returned to the store again.")]


def test_a_wait_is_told_after_a_while_and_another_reason_long_after_it(told: Told) -> None:
    assert told.look("away", after_s=TELL_S / 2) == []
    assert told.look("away", after_s=TELL_S / 2) == [(True, "away")]
    assert told.look("full", after_s=TELL_S) == []
    assert told.look("away", after_s=TELL_AGAIN_S) == []
    assert told.look("full", after_s=0.0) == [(True, "full")]


def test_that_it_comes_again_is_told_once_and_a_new_wait_after_a_while(told: Told) -> None:
    told.look("away", after_s=TELL_S)
    assert told.look("", after_s=1.0) == COMES
    assert told.look("", after_s=1.0) == []
    assert told.look("away", after_s=1.0) == []
    assert told.look("away", after_s=TELL_BACK_S) == [(True, "away")]


def test_of_a_wait_that_was_told_to_nobody_nobody_is_told_that_it_is_over(told: Told) -> None:
    told.look("away", after_s=1.0)
    assert told.look("", after_s=TELL_AGAIN_S) == []


def test_that_it_comes_again_is_told_of_a_wait_that_somebody_else_has_told(told: Told) -> None:
    told.look("cut off", after_s=1.0, is_told=True)
    assert told.look("", after_s=1.0) == COMES


def test_who_goes_on_for_another_process_says_so_once_something_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, goes_on=True)
    assert told.look("", after_s=1.0, arrives=False) == []
    assert told.look("", after_s=1.0) == COMES


def test_that_nothing_is_held_is_said_now_and_then(told: Told) -> None:
    for _ in range(4):
        told.look("", after_s=RELEASE_AGAIN_S / 2)
    assert told.stills == 2
