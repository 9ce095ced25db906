"""What a node does beside its tasks goes on, whatever breaks it."""

from __future__ import annotations

import pytest

from worker import chores


def test_a_chore_that_breaks_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, slept = [], []

    def chore() -> None:
        begun.append(1)
        if len(begun) < 3:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(chores.time, "sleep", slept.append)
    chores.kept_up(chore)
    assert (len(begun), slept) == (3, [chores.AGAIN_S] * 2)
