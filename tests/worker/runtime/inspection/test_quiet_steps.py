"""What counts of a measurement on a host that is loud for a while."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.worker.runtime.apart import apart
from tests.worker.runtime.samples import program, wine
from worker import inspection, power
from worker.power import EnergyMeter
from worker.quiet import Gauge


class Heard(Gauge):
    """A host that is loud at these looks."""

    loud = (0, 1, 2, 4)
    looks = 0

    def is_quiet(self) -> bool:
        self.looks += 1
        return self.looks - 1 not in self.loud


def marks(folder: Path, data: Path, gauge: Gauge) -> tuple[list[str], dict[str, Any]]:
    """What a measurement tells a watcher, and its answer."""
    from worker.runtime.inspection import measure, timing

    told: list[str] = []
    timing.mark = told.append
    options = {"batch": None, "steps": 2, "repeats": 2, "budget": 20.0, "device": "cpu", "threads": 1}
    return told, measure.measure(folder, data, argparse.Namespace(**options), 0, gauge)


def test_no_power_is_counted_while_a_quiet_host_is_waited_for(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = program(tmp_path / "program", wine(data), model={"family": "mlp"})
    told, answer = apart(marks, folder, data, Heard())
    assert answer["ok"], answer["problem"]
    assert told == ["begin", "end"] * 2  # after the first steps one look is loud, and the next is not
    told, answer = apart(marks, folder, data, Gauge(patience_s=0.0))
    assert (told, answer["loud_s"]) == (["begin", "end"], 0.0)


def test_joules_are_counted_only_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    for name, text in {"name": "package-0\n", "max_energy_range_uj": "900000000\n", "energy_uj": "0"}.items():
        (zone / name).write_text(text)
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(power, "time", SimpleNamespace(monotonic=lambda: now.s))
    watcher = inspection._Watcher((0,))
    watcher._meter = EnergyMeter(folder=tmp_path)
    for mark, now_s, spent_j in (("begin", 10, 5), ("end", 12, 15), ("begin", 40, 500), ("end", 43, 540)):
        now.s = float(now_s)
        (zone / "energy_uj").write_text(str(spent_j * 1_000_000))
        watcher.line(f'{{"mark": "{mark}"}}')
    assert watcher.power_w == pytest.approx((10 + 40) / (2 + 3))
