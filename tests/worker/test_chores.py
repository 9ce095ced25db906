"""What a node does beside its tasks goes on, whatever breaks it."""

from __future__ import annotations

from worker import chores


def test_a_chore_that_breaks_begins_again() -> None:
    begun = []

    def chore() -> None:
        begun.append(1)
        if len(begun) < 3:
            raise RuntimeError("can't start new thread")

    chores.kept_up(chore, again_s=0.0)
    assert len(begun) == 3
