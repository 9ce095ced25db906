"""Watts of a replay: whose table counts, and what the energy is said to rest on."""

from __future__ import annotations

import json

import pytest

from scheduler.simulate.metrics import measure
from scheduler.simulate.pool import Gang, SimPool
from scheduler.simulate.power import PowerTable
from scheduler.simulate.report import ROWS, report_html
from scheduler.simulate.run import power_words, sim_jobs, simulate
from scheduler.simulate.trace_rows import TraceError
from scheduler.simulate.traces import TraceJob, Way
from scheduler.types import Option

OWN = {"A100": {"idle_w": 60, "busy_w": 350, "basis": "measured"}}
HOUR = [TraceJob(job_id="a", submitted_s=0, count=1, run_s=3600.0)]


def table(body):
    return PowerTable.of(body, "power.json")


def pool(text, body):
    return SimPool.parse(text).bound(quotas={}, table=table(body))


def energy(trace, place, **rules):
    replay = simulate(trace, place, "fifo", overheads=False, **rules)
    return measure(replay), replay


def test_without_a_table_energy_is_assumed_by_data_sheets():
    found, _ = energy(HOUR, SimPool.parse("1x2:A100"))
    assert found.energy_kwh == pytest.approx((400 + 55) / 1000)
    assert found.energy_basis == "assumed"
    assert found.energy_by_basis_kwh == pytest.approx({"assumed": found.energy_kwh})


def test_a_table_counts_before_data_sheets_and_watts_of_other_programs_are_a_model_of_this_one():
    found, replay = energy(HOUR, pool("1x2:A100", OWN))
    assert found.energy_kwh == pytest.approx((350 + 60) / 1000)
    assert found.energy_basis == "modelled"
    assert found.energy_by_basis_kwh == pytest.approx({"measured": 2 * 60 / 1000, "modelled": (350 - 60) / 1000})
    (shown,) = (show(found) for label, show in ROWS if label.startswith("Energy"))
    assert shown == "0.41 kWh (measured 0.12, modelled 0.29)"
    assert "Power of the pool, idle devices included (modelled)" in report_html("t", [replay], [found])


def test_idle_watts_that_were_not_measured_with_the_others_are_told_apart():
    place = pool("1x2:A100", {"A100": OWN["A100"] | {"idle_basis": "assumed"}})
    found, _ = energy(HOUR, place)
    assert found.energy_by_basis_kwh == pytest.approx({"assumed": 2 * 60 / 1000, "modelled": (350 - 60) / 1000})
    assert found.energy_basis == "assumed"
    assert "60 W idle (measured, idle assumed: power.json, A100)" in power_words(HOUR, place)[0]


def test_watts_that_the_trace_tells_have_the_basis_that_it_tells():
    trace = [TraceJob(job_id="a", submitted_s=0, count=1, run_s=3600.0, power_w=200.0, power_basis="measured")]
    found, _ = energy(trace, SimPool.parse("1x1:A100"))
    assert found.energy_by_basis_kwh == pytest.approx({"measured": (200 - 55) / 1000, "assumed": 55 / 1000})
    assert "1 of 1 jobs draw what the trace says they drew (1 measured)" in power_words(trace, SimPool.parse("1x1"))


def test_what_the_estimator_told_of_the_watts_goes_with_its_basis():
    ways = (Way(kind="cuda", count=1, run_s=3600.0, power_w=155.0, model="A100", power_basis="modelled"),)
    trace = [TraceJob(job_id="a", submitted_s=0, count=1, run_s=3600.0, device_model="T4", ways=ways)]
    found, _ = energy(trace, SimPool.parse("1x1:A100"), estimator=True)
    assert found.energy_by_basis_kwh == pytest.approx({"modelled": 0.1, "assumed": 0.055})


def test_of_two_ways_that_draw_the_same_each_keeps_what_that_rests_on():
    ways = tuple(
        Way(kind="cuda", count=count, run_s=3600.0, power_w=155.0, model="A100", power_basis=basis)
        for count, basis in ((1, "measured"), (2, "modelled"))
    )
    trace = [TraceJob(job_id="a", submitted_s=0, count=1, run_s=3600.0, power_w=155.0, ways=ways)]
    (job,) = sim_jobs(trace, None, SimPool.parse("1x2:A100"), estimator=True)
    assert [(option.count, basis) for option, basis in job.told.items()] == [(1, "assumed"), (2, "modelled")]


def test_energy_of_devices_that_draw_nothing_has_a_basis_too():
    found, _ = energy(HOUR, pool("1x1:A100", {"A100": {"idle_w": 0, "busy_w": 0}}))
    assert (found.energy_kwh, found.energy_basis) == (0.0, "assumed")


@pytest.mark.parametrize(
    ("body", "text", "busy_w"),
    [
        ({"NVIDIA A100-SXM4-80GB": {"idle_w": 1, "busy_w": 2}}, "1x1:A100", 2.0),
        ({"NVIDIA A100-SXM4-80GB": {"idle_w": 1, "busy_w": 2}}, "1x1:nvidia a100-sxm4-80gb", 2.0),
        ({"NVIDIA L40S": {"idle_w": 1, "busy_w": 2}}, "1x1:L4", 72.0),
        ({"cuda": {"idle_w": 1, "busy_w": 3}, "T4": {"idle_w": 1, "busy_w": 4}}, "1x1:V100", 3.0),
        ({"power_table": {"cuda": {"idle_w": 1, "busy_w": 3}}, "policy": "fifo"}, "1x1:V100", 3.0),
        ([{"kind": "cpu", "model": "EPYC", "idle_w": 1, "busy_w": 5, "basis": "measured"}], "1x1:cpu", 5.0),
        ({"items": [{"kind": "cuda", "model": "EPYC", "idle_w": 1, "busy_w": 5}]}, "1x1:cpu", 8.0),
        ([{"kind": "cuda", "model": "T4", "idle_w": 1, "busy_w": 5}], "1x1", 5.0),
        ({"NVIDIA A100": {"idle_w": 1, "busy_w": 6}, "T4": {"idle_w": 1, "busy_w": 5}}, "1x1", 6.0),
        ({"A100-SXM": {"idle_w": 1, "busy_w": 6}, "A100-PCIE": {"idle_w": 1, "busy_w": 5}}, "1x1", 400.0),
        ([{"kind": "cuda", "model": name, "idle_w": 1, "busy_w": 5} for name in ("T4", "V100")], "1x1", 400.0),
    ],
)
def test_an_entry_is_found_by_its_name_or_part_of_it_by_its_kind_or_as_the_only_one(body, text, busy_w):
    (part,) = pool(text, body).parts
    assert part.power.busy_w == busy_w


def test_a_name_that_may_be_two_entries_is_refused():
    body = {f"NVIDIA A100-{form}": {"idle_w": 1, "busy_w": 2} for form in ("SXM", "PCIE")}
    with pytest.raises(ValueError, match="A100 may mean NVIDIA A100-SXM or NVIDIA A100-PCIE of the table of watts"):
        pool("1x1:A100", body)
    assert pool("1x1:NVIDIA A100-SXM", body).parts[0].power.busy_w == 2.0


def test_what_is_used_is_said_with_its_basis_and_where_it_comes_from():
    place = pool("1x1:A100,1x1:T4,1x2:cpu", OWN)
    a100, t4, _ = power_words(HOUR, place)
    assert a100 == "A100 draws 350 W held and 60 W idle (measured: power.json, A100)"
    assert t4.startswith("T4 draws 70 W held and 10 W idle (assumed: NVIDIA T4 data sheet")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("watts", "power.json: expected what `dlh pool power --json`"),
        ([1], "power.json: expected what `dlh pool power --json`"),
        ({"A100": 300}, "power.json: The entry 'A100' of power_table needs a name, idle_w and busy_w"),
        ({"A100": {"idle_w": float("nan"), "busy_w": 4}}, "needs numbers of watts, 0 <= idle_w <= busy_w"),
        ({"A100": {"idle_w": 1, "busy_w": 10**400}}, "needs numbers of watts, 0 <= idle_w <= busy_w"),
        ({"A100": {"idle_w": 9, "busy_w": 4}}, "needs numbers of watts, 0 <= idle_w <= busy_w"),
        ({"A100": {"idle_w": 1, "busy_w": 4, "idle_basis": None}}, "The basis of 'A100' is none of measured, modelled"),
        ({"A100": {"idle_w": 1, "busy_w": 4, "basis": "guessed"}}, "The basis of 'A100' is none of measured, modelled"),
        ([{"kind": "cuda", "model": "T4", "idle_w": 1, "busy_w": 5}] * 2, "power.json: t4 is there twice"),
    ],
)
def test_a_table_that_is_none_is_refused_with_the_entry(body, words):
    with pytest.raises(TraceError) as refused:
        table(body)
    assert words in str(refused.value)


def test_a_file_that_is_no_json_is_refused_with_the_line(tmp_path):
    path = tmp_path / "power.json"
    path.write_text('{"A100":\n oops}', "utf-8")
    with pytest.raises(TraceError, match=r"power\.json, line 2: not JSON"):
        PowerTable.read(path)
    path.write_text(f'{{"A100": {"9" * 5000}}}', "utf-8")
    with pytest.raises(TraceError, match=r"power\.json: not JSON that can be read: a number in it is too long"):
        PowerTable.read(path)
    path.write_text(json.dumps(OWN), "utf-8")
    assert PowerTable.read(path).power("cuda", "A100", named=True).idle_w == 60.0


def test_a_gang_over_unlike_devices_rests_on_the_weakest_of_their_watts():
    place = pool("1x1:A100,1x1:T4", OWN)
    option = Option(kind="cuda", count=2)
    both, one = ("p0n00000d0", "p1n00000d0"), ("p0n00000d0",)
    assert place.held_basis(Gang(option, ("p0n00000", "p1n00000"), both), None) == "assumed"
    assert place.held_basis(Gang(option, ("p0n00000",), one), None) == "modelled"
