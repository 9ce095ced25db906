"""How often ranks on GPUs read what they have told each other, and when a request of the platform is seen."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worker.runtime import control as module
from worker.runtime.control import READ_S, READ_STEPS_MAX, Control, Readings


def readings_s(step_s: float, steps: int) -> list[float]:
    """Moments at which two ranks read, whose second has another clock; they must do alike."""
    first, second, moments = Readings(0.0), Readings(50.0), []
    for step in range(1, steps + 1):
        due = first.is_due()
        assert due == second.is_due()
        if due:
            agreed = float(first.proposed)  # the sum: the others tell 0
            first.read(agreed, step * step_s)
            second.read(agreed, 50.0 + step * 3 * step_s)
            moments.append(step * step_s)
    return moments


@pytest.mark.parametrize("step_s", [0.001, 0.02, 0.1, 7.5, 400.0])
def test_what_ranks_tell_each_other_is_read_within_a_step_or_two_and_never_at_every_short_one(step_s: float) -> None:
    moments = readings_s(step_s, 1000)
    gaps_s = [after - before for before, after in itertools.pairwise(moments)]
    assert max(gaps_s) <= max(step_s, READ_S) + 1e-6
    shortest = min(READ_STEPS_MAX, int(READ_S / step_s) or 1)
    assert len(moments) <= 1000 / shortest + 3


def test_a_request_that_comes_during_a_long_step_is_told_with_the_gradients_of_that_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    run: Any = SimpleNamespace(
        rank=1, settings=SimpleNamespace(requests=tmp_path), pace=SimpleNamespace(tells=tuple), spec={}
    )
    control = Control(run)
    control.look()
    (tmp_path / "pause").touch()
    clock.now_s += 60.0
    assert control.tells()[0] == 1.0
