"""What one core draws of a processor package that counts all of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from worker import inspection, power
from worker.monitor import Monitor
from worker.power import EnergyMeter, _Counter, cores_w


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The counter of a package, at zero."""
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    for name, text in {"name": "package-0\n", "max_energy_range_uj": "900000000\n", "energy_uj": "0"}.items():
        (zone / name).write_text(text)
    return zone / "energy_uj"


def test_cores_share_what_a_package_draws_anyway_and_draw_the_rest_themselves() -> None:
    assert cores_w(40.0, 52.0, used=1, cores=8) == pytest.approx(5.0 + 12.0)
    assert cores_w(40.0, 64.0, used=2, cores=8) == pytest.approx(10.0 + 24.0)
    assert cores_w(40.0, 136.0, used=8, cores=8) == pytest.approx(136.0)
    assert cores_w(40.0, 39.0, used=1, cores=8) == pytest.approx(5.0), "a package draws a little less than before"


def test_what_a_package_draws_anyway_is_read_before(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=0.0)

    def sleep(span_s: float) -> None:
        now.s += span_s
        package.write_text(str(int(40e6 * now.s)))

    monkeypatch.setattr(power, "time", SimpleNamespace(monotonic=lambda: now.s, sleep=sleep))
    meter = EnergyMeter(folder=package.parents[1])
    assert meter.base_w() == pytest.approx(40.0)
    assert meter.stop() is None, "nothing is counted of what is to be measured"


def test_a_measurement_on_one_core_is_not_charged_with_the_whole_package(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(power, "time", SimpleNamespace(monotonic=lambda: now.s))
    monkeypatch.setattr(inspection.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(inspection, "EnergyMeter", lambda gpus: Metered(folder=package.parents[1]))
    watcher = inspection._Watcher((), cores=1)
    watcher.line('{"mark": "begin"}')
    now.s = 10.0
    package.write_text(str(520_000_000))
    watcher.line('{"mark": "end"}')
    assert watcher.power_w == pytest.approx(40.0 / 8 + 12.0)


def test_each_lap_tells_what_was_drawn_since_the_last(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(power, "time", SimpleNamespace(monotonic=lambda: now.s))
    monitor = Monitor(_packages=EnergyMeter(folder=package.parents[1]))
    told = []
    for joules in (0, 40, 100, 100):
        now.s += 2.0
        package.write_text(str(joules * 1_000_000))
        told.append(monitor.sample([])["host"]["packages_w"])
    assert told == [None, pytest.approx(20.0), pytest.approx(30.0), pytest.approx(0.0)]


def test_a_counter_that_was_full_goes_on_and_one_that_was_set_back_tells_nothing(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(power, "time", SimpleNamespace(monotonic=lambda: now.s))
    meter, told = EnergyMeter(folder=package.parents[1]), []
    for joules in (880, 20, 400, 1, 41):
        now.s += 0.1
        package.write_text(str(joules * 1_000_000))
        told.append(meter.lap())
    assert told == [None, pytest.approx(400.0), pytest.approx(3800.0), None, pytest.approx(400.0)]


def test_the_counter_of_a_gpu_whose_driver_was_loaded_anew_tells_no_less_than_nothing() -> None:
    driver = _Counter(lambda: 0.0)
    assert driver.spent_j(5000.0, 5300.0, 1.0) == pytest.approx(300.0)
    assert driver.spent_j(5000.0, 10.0, 1.0) is None


def test_where_no_counter_can_be_read_samples_tell_none(tmp_path: Path) -> None:
    monitor = Monitor(_packages=EnergyMeter(folder=tmp_path))
    assert [monitor.sample([])["host"]["packages_w"] for _ in range(2)] == [None, None]


class Metered(EnergyMeter):
    """A meter that has seen what the package draws anyway."""

    def base_w(self, span_s: float = 0.0) -> float:
        return 40.0


def test_without_counters_nothing_is_waited_for(tmp_path: Path) -> None:
    assert EnergyMeter(folder=tmp_path).base_w(3600.0) is None
