"""A run that reads or predicts many rows is heard meanwhile, and is not taken for one that stands still."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.events import Event, EventKind
from worker.plan import Limits
from worker.runtime.pulse import BEAT_S, Pulse
from worker.watchdog import Watchdog, made_a_step

pytestmark = pytest.mark.ranks


def test_a_pulse_tells_no_more_often_than_is_needed() -> None:
    heard: list[int] = []
    pulse = Pulse()
    pulse.listen(lambda: heard.append(1))
    for _ in range(1000):
        pulse.beat()
    assert heard == [1]
    assert Limits(memory_bytes=1, disk_bytes=1).stall_s > 2 * BEAT_S


def test_reading_pictures_and_predicting_rows_are_told_and_are_no_steps(tmp_path: Path) -> None:
    profile = samples.digits(tmp_path / "data", rows=600)
    program = samples.program(tmp_path, profile, training={"epochs": 1, "patience": 0})
    train = (program / "train.py").read_text()
    place = "run = Run.start("
    assert train.count(place) == 1
    hasty = "import worker.runtime.pulse\nworker.runtime.pulse.BEAT_S = 0.0\n"
    (program / "train.py").write_text(train.replace(place, hasty + place))
    ranks = Ranks(program, 1)
    assert ranks.wait() == [0], ranks.log()
    told = [Event.from_json(json.dumps(event)) for event in events(ranks.work)]
    beats = [place for place, event in enumerate(told) if event.kind is EventKind.METRIC and not event.data["values"]]
    running = next(place for place, event in enumerate(told) if event.kind is EventKind.RUNNING)
    phases = {event.data["phase"]: place for place, event in enumerate(told) if event.kind is EventKind.PROGRESS}
    assert any(beat < running for beat in beats), "nothing was heard while the pictures were read"
    assert any(running < beat < phases["analysis"] for beat in beats), "nothing while rows were evaluated"
    assert any(beat > phases["analysis"] for beat in beats), "nothing while rows were predicted"
    assert not any(made_a_step(told[beat]) for beat in beats)
    dog = Watchdog(Limits(memory_bytes=1, disk_bytes=1, stall_s=10.0), 0.0)
    dog.saw(told[beats[0]], 9.0)
    assert dog.check_time(18.0) is None
