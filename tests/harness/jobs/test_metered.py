"""Power of devices over a run: as a meter told, else what is known of such devices, and labelled so."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.jobs.control.metered import power_of
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.values import Basis

TABLE = PowerModel(idle_w=2.0, busy_w=10.0, basis=Basis.ASSUMED)
CALIBRATED = replace(TABLE, busy_w=7.0, basis=Basis.MEASURED)


def sample(load: float = 1.0, ranks: int = 1, **host: Any) -> dict[str, Any]:
    """Of a host with 8 cores, of which `ranks` work for the run."""
    each = [{"rank": rank, "cpu_percent": 100.0 * load} for rank in range(ranks)]
    return {"ranks": each, "host": {"cores": 8, "cpu_percent": 100.0 * load * ranks / 8} | host, "gpus": []}


def test_a_gpu_that_tells_its_power_is_believed() -> None:
    samples = [{"gpus": [{"index": 1, "power_w": watts, "utilization_percent": 90}]} for watts in (100.0, 300.0)]
    power = power_of("cuda", 1, samples, 1, TABLE)
    assert (power.watts, power.basis) == (200.0, Basis.MEASURED)
    other = power_of("cuda", 0, samples, 1, replace(TABLE, idle_w=10.0, busy_w=90.0))
    assert (other.watts, other.basis) == (90.0, Basis.ASSUMED)


@pytest.mark.parametrize("watts", [-1e9, 250_000.0, 1e300])
def test_a_reading_that_no_gpu_gives_is_none(watts: float) -> None:
    power = power_of("cuda", 0, [{"gpus": [{"index": 0, "power_w": watts, "utilization_percent": 100}]}], 1, TABLE)
    assert (power.watts, power.basis) == (10.0, Basis.ASSUMED)


@pytest.mark.parametrize("known", [TABLE, CALIBRATED])
def test_without_a_meter_it_is_what_is_known_of_such_cores_at_their_load(known: PowerModel) -> None:
    power = power_of("cpu", 0, [sample(0.5), sample(0.7)], 1, known)
    assert power.watts == pytest.approx(2.0 + (known.busy_w - 2.0) * 0.6)
    assert power.basis is (Basis.ASSUMED if known is TABLE else Basis.MODELLED)


def test_a_core_takes_its_share_of_what_a_package_draws_anyway_and_what_its_load_adds() -> None:
    power = power_of("cpu", 0, [sample(packages_w=28.0)], 1, TABLE)
    assert (power.watts, power.basis) == (pytest.approx(2.0 + 12.0), Basis.MEASURED)


def test_cores_of_a_busy_host_are_charged_with_their_own_load_alone() -> None:
    """Half of the load is of others."""
    both = power_of("cpu", 0, [sample(ranks=2, packages_w=56.0, cpu_percent=50.0)], 2, TABLE)
    assert both.watts == pytest.approx(2.0 + 40.0 / 4)


def test_all_cores_of_a_host_together_draw_what_its_packages_draw() -> None:
    power = power_of("cpu", 0, [sample(0.9, ranks=8, packages_w=97.0)], 8, TABLE)
    assert 8 * power.watts == pytest.approx(97.0)


def test_packages_that_draw_less_than_the_idle_power_of_a_table_are_believed() -> None:
    assert power_of("cpu", 0, [sample(packages_w=8.0)], 1, TABLE).watts == pytest.approx(1.0)


def test_samples_without_a_reading_do_not_count_where_others_have_one() -> None:
    power = power_of("cpu", 0, [sample(packages_w=None), sample(packages_w=28.0)], 1, TABLE)
    assert (power.watts, power.basis) == (pytest.approx(14.0), Basis.MEASURED)


def test_a_rank_of_a_run_that_changed_its_width_bears_its_own_load() -> None:
    told = sample(ranks=2, packages_w=36.0)
    told["ranks"][1]["cpu_percent"] = 0.0
    told["host"]["cpu_percent"] = 100.0 / 8
    assert power_of("cpu", 0, [told], 2, TABLE, rank=0).watts == pytest.approx(2.0 + 20.0)
    assert power_of("cpu", 0, [told], 2, TABLE, rank=1).watts == pytest.approx(2.0)


def test_cores_bear_no_more_than_the_packages_draw_where_the_host_was_looked_at_in_another_moment() -> None:
    power = power_of("cpu", 0, [sample(packages_w=28.0, cpu_percent=0.0)], 1, TABLE)
    assert power.watts == pytest.approx(2.0 + 12.0)


def test_cores_of_an_idle_host_draw_what_they_draw_anyway() -> None:
    power = power_of("cpu", 0, [sample(0.0, packages_w=24.0)], 1, TABLE)
    assert (power.watts, power.basis) == (2.0, Basis.MEASURED)


@pytest.mark.parametrize("cores", [0, -8, 1e9, None])
def test_a_number_of_cores_that_no_host_has_lets_no_meter_count(cores: Any) -> None:
    assert power_of("cpu", 0, [sample(packages_w=28.0, cores=cores)], 1, TABLE).basis is Basis.ASSUMED


@pytest.mark.parametrize("packages_w", [0.0, -5.0, 1e9, math.nan, "much", None, True])
def test_a_reading_that_no_host_gives_is_none(packages_w: Any) -> None:
    power = power_of("cpu", 0, [sample(packages_w=packages_w)], 1, TABLE)
    assert (power.watts, power.basis) == (pytest.approx(10.0), Basis.ASSUMED)


def test_a_run_that_told_nothing_is_taken_to_have_been_busy() -> None:
    assert power_of("cpu", 0, [], 1, CALIBRATED).watts == 7.0
