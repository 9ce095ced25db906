"""How much a run tells of itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worker.events import EventKind
from worker.memory_words import Phase
from worker.runtime import teller as module
from worker.runtime.position import Position
from worker.runtime.report import Reporter

SPAN_S = 30_000


class Kept(Reporter):
    """Keeps what is told in a list."""

    def __init__(self, folder: Path, clock: SimpleNamespace) -> None:
        super().__init__(folder / "events.jsonl", job_id="j", token=1, rank=0)
        self.clock, self.rates_s, self.notes = clock, list[float](), list[str]()
        self.progress_s, self.phases = list[float](), list[str]()

    def emit(self, kind: EventKind, **data: Any) -> None:
        """When a pace and progress were told, and what is noted."""
        if kind is EventKind.NOTE:
            self.notes.append(data["message"])
        if kind is EventKind.PROGRESS:
            self.progress_s.append(self.clock.now_s)
            self.phases.append(data["phase"])
        if "rank0/samples_per_s" in data.get("values", {}):
            self.rates_s.append(self.clock.now_s)


def test_the_pace_of_a_long_run_is_told_ever_more_seldom_but_never_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now_s, time=lambda: clock.now_s))
    position, reporter = Position(), Kept(tmp_path, clock)
    teller = module.Teller(reporter, position, 1, 0.0, 1)
    teller.plan(SPAN_S, 0.1)
    for _ in range(SPAN_S):
        clock.now_s += 1.0
        position.step += 1
        teller.step(0.5, None, 10)
        teller.sync()
    first = [told_s for told_s in reporter.rates_s if told_s <= 1000.0 + 600.0]
    assert len(first) == 600
    assert 4_000 < len(reporter.rates_s) < 6_500
    gaps_s = [after - before for before, after in zip(reporter.rates_s, reporter.rates_s[1:], strict=False)]
    assert max(gaps_s) <= module.RATE_MOST_S + 1.0
    assert SPAN_S / module.PROGRESS_MOST_S <= len(reporter.progress_s) < 0.6 * SPAN_S


def test_the_first_step_of_each_epoch_is_told_to_be_training_before_it_is_made(tmp_path: Path) -> None:
    reporter = Kept(tmp_path, SimpleNamespace(now_s=0.0))
    teller = module.Teller(reporter, Position(), 2, 0.0, 1)
    teller.training_begins()
    teller.progress(Phase.VALIDATION)
    teller.training_begins()
    teller.training_begins()
    assert reporter.phases == ["training", "validation", "training"]


@pytest.mark.parametrize(
    ("out_of_time", "why"), [(False, "3 epochs without a better accuracy"), (True, "the time of its budget is over")]
)
def test_a_run_that_stops_early_says_why(tmp_path: Path, out_of_time: bool, why: str) -> None:
    position, reporter = Position(), Kept(tmp_path, SimpleNamespace(now_s=0.0))
    teller = module.Teller(reporter, position, 20, 0.0, 1)
    teller.plan(1, 0.1)
    position.epoch, position.stale_epochs = 6, 3
    teller.epoch({"val/accuracy": 0.5}, "accuracy")
    assert reporter.notes == [], "it goes on"
    position.stopped = True
    teller.epoch({"val/accuracy": 0.5}, "accuracy", out_of_time=out_of_time)
    assert reporter.notes == [f"Stopped early, after epoch 7 of 20: {why}."]
    position.epoch = 19
    teller.epoch({"val/accuracy": 0.5}, "accuracy")
    assert len(reporter.notes) == 1, "the last epoch is no early stop"
