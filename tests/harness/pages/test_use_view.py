"""Use and energy in units that people read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.jobs.timelines import KWH_J, Bucket, UseRow
from harness.pages.use_view import energy_unit, mass_words, use_charts, use_lines


def row(kwh: float) -> UseRow:
    return UseRow(name="a job", energy_j=kwh * KWH_J)


def test_the_energy_of_short_jobs_is_told_in_watt_hours_and_their_co2_in_grams() -> None:
    (line,) = use_lines([row(0.000204)], 400.0)
    assert (line["energy"], line["co2"]) == (pytest.approx(0.204), pytest.approx(0.0816))
    assert (energy_unit([row(0.000204)]).energy, energy_unit([row(0.000204)]).mass) == ("Wh", "g")
    energy = use_charts([], [row(0.000204)], [], "week", "job", co2_g_per_kwh=400.0)[-1]
    assert energy["columns"] == ["job", "Wh", "CO₂ (g)", "basis"]
    assert energy["rows"] == [["a job", pytest.approx(0.204), pytest.approx(0.0816), ""]]


def test_the_power_of_the_pool_is_told_with_its_co2_and_what_it_rests_on() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    buckets = [
        Bucket(
            starts_at=at,
            device_kind="cpu",
            devices=2,
            present=2.0,
            busy=1,
            busy_w=30.0,
            idle_w=20.0,
            bases={"assumed": 1.0},
        ),
        Bucket(
            starts_at=at,
            device_kind="cuda",
            devices=1,
            present=1.0,
            busy_w=400.0,
            busy=1,
            idle_w=50.0,
            bases={"measured": 45.0},
        ),
    ]
    _, power, *_ = use_charts(buckets, [], [], "day", "job", co2_g_per_kwh=400.0)
    assert power["columns"][1:] == ["working", "idle", "CO₂ (g/h)", "basis"] and power["data"]["lines"] == 2
    assert power["rows"] == [[at.isoformat(), 430.0, 70.0, pytest.approx(200.0), "measured"]]


def test_one_large_use_puts_all_into_kilowatt_hours() -> None:
    lines = use_lines([row(3.0), row(0.01)], 400.0)
    assert [line["energy"] for line in lines] == pytest.approx([3.0, 0.01])
    assert lines[0]["co2"] == pytest.approx(1.2) and energy_unit([row(3.0), row(0.01)]).mass == "kg"


def test_masses_are_read_without_a_power_of_ten() -> None:
    assert [mass_words(kg) for kg in (0.000342, 0.9996, 3.6)] == ["0.342 g", "1,000 g", "3.6 kg"]
