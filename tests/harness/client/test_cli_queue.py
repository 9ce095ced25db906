"""`dlh queue` and what `dlh pool` says about reservations, quotas, use and drains."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.options import job_options_set
from harness.pool.models import Device, Node
from scheduler.types import Option
from tests.harness.client.conftest import Dlh
from tests.harness.jobs.helpers import event, queue, run_now
from tests.harness.jobs.test_queueing import use_make


@pytest.fixture
def admin(portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, node_make: Any) -> SimpleNamespace:
    node_make(cpus=2)
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    return portal


def test_the_queue_is_shown_ordered_and_prioritised(dlh: Dlh, admin: SimpleNamespace, job_make: Any) -> None:
    first, second = (queue(job_make(name=name)) for name in ("first", "second"))
    assert [row["job"]["name"] for row in dlh("queue", "--json").json["waiting"]] == ["first", "second"]
    assert dlh("queue", "move", second.pk, "up").code == 0
    assert [row["job"]["name"] for row in dlh("queue", "--json").json["waiting"]] == ["second", "first"]
    assert dlh("queue", "move", first.pk, second.pk).code == 0
    assert dlh("queue", "priority", second.pk, "9").code == 0
    assert [row["job"]["name"] for row in dlh("queue", "--json").json["waiting"]] == ["second", "first"]
    assert "has priority -5" in dlh("queue", "priority", second.pk, "-5").out
    assert [row["job"]["name"] for row in dlh("queue", "--json").json["waiting"]] == ["first", "second"]
    refused = dlh("queue", "priority", second.pk, "-101")
    assert refused.code == 2 and "must be -100 or more" in refused.err
    plain = dlh("queue").out
    assert "second" in plain and "not known" in plain
    assert dlh("queue", "move", first.pk, "nosuchjob123", "--json").code == 3


def test_only_admins_order_the_queue(dlh: Dlh, portal: SimpleNamespace, job_make: Any) -> None:
    job = queue(job_make())
    assert dlh("queue", "move", job.pk, "first", "--json").code == 3
    assert dlh("queue", "priority", job.pk, "9", "--json").code == 3
    assert dlh("queue").code == 0


def test_devices_are_reserved_and_released(dlh: Dlh, admin: SimpleNamespace) -> None:
    made = dlh("pool", "reserve", "node-1", "--device", "cpu:0", "--until", "2h", "--purpose", "course", "--json").json
    assert (made["node"], made["device"], made["purpose"]) == ("node-1", "cpu:0", "course")
    assert "course" in dlh("pool", "reservations").out
    whole = dlh("pool", "reserve", "node-1", "--from", "3h", "--until", "4h", "--purpose", "x")
    assert ": node-1 is reserved until" in whole.out
    (later,) = [one["id"] for one in dlh("pool", "reservations", "--json").json if not one["device"]]
    assert dlh("pool", "release", later).code == 0
    again = dlh("pool", "reserve", "node-1", "--until", "1h", "--purpose", "other", "--json")
    assert again.json["error"]["code"] == "conflict"
    assert dlh("pool", "reserve", "node-1", "--until", "soon", "--purpose", "x").code == 2
    assert dlh("pool", "release", made["id"]).code == 0
    assert dlh("pool", "reservations", "--json").json == []


def test_quotas_are_set_shown_and_removed(dlh: Dlh, admin: SimpleNamespace) -> None:
    set_to = ("pool", "quota", admin.project, "cpu")
    assert "may hold 3 CPU cores, and never more." in dlh(*set_to, "3", "--no-borrow").out
    (shown,) = dlh("pool", "quotas", "--json").json
    assert (shown["devices"], shown["may_borrow"], shown["held"]) == (3, False, 0)
    assert admin.project in dlh("pool", "quotas").out
    assert "may hold 4 CPU cores, and never more." in dlh(*set_to, "4").out
    assert dlh("pool", "quotas", "--json").json[0]["may_borrow"] is False, "a number alone has it lend nothing more"
    assert dlh(*set_to, "5", "--borrow", "--json").json["may_borrow"]
    assert "5 CPU cores, and more while no other project wants them." in " ".join(dlh(*set_to, "5").out.split())
    assert dlh("pool", "quota", admin.project, "tpu", "3").code == 2
    assert dlh("pool", "quota", admin.project, "cpu", "many").code == 2
    assert dlh("pool", "quota", admin.project, "cpu", "none").code == 0
    assert dlh("pool", "quotas", "--json").json == []


def test_the_help_of_a_priority_tells_its_range_its_default_and_what_it_does(dlh: Dlh) -> None:
    told = " ".join(dlh("queue", "priority", "--help").out.replace("│", " ").split())
    for words in (
        "Whole number from -100 to 100; 0 is normal",
        "Jobs start with 0",
        "may be paused",
    ):
        assert words in told, told


def test_who_waits_for_a_quota_or_a_move_is_told(dlh: Dlh, admin: SimpleNamespace, job_make: Any) -> None:
    first, second = (job_make(name=name) for name in ("wide", "other"))
    for job in (first, second):
        job_options_set(job, [Option(kind="cpu", count=2, mode="sync", rate_per_s=1 / 1800)], slowdown=1.0)
        queue(job)
    asked = ("pool", "quota", admin.project, "cpu", "1", "--no-borrow")
    assert {row["job_id"] for row in dlh(*asked, "--look", "--json").json} == {first.pk, second.pk}
    assert "may hold 1" in dlh(*asked, "--look").out and dlh("pool", "quotas", "--json").json == []
    assert dlh("pool", "quota", admin.project, "cpu", "none", "--look").code == 3, "there is none to take away"
    looked = dlh("queue", "move", second.pk, "up", "--look", "--json").json
    assert [row["job_id"] for row in looked if not row["gains"]] == [first.pk]
    assert "Waits longer" in dlh("queue", "priority", second.pk, "9", "--look").out
    assert not Job.objects.exclude(priority=0, rank=0).exists()
    (held_back,) = [row for row in dlh("queue", "move", second.pk, "up", "--json").json["delayed"] if not row["gains"]]
    assert held_back["job_id"] == first.pk
    assert "Waits longer" in dlh("queue", "priority", first.pk, "9").out
    said = dlh(*asked).out
    assert said.index("may hold 1 CPU core, and never more.") < said.index("Waits longer") and "wide" in said


def test_use_and_consequences_are_told(dlh: Dlh, admin: SimpleNamespace, tmp_path: Path) -> None:
    assert dlh("pool", "use", "--span", "day", "--json").json == []
    target = tmp_path / "use.csv"
    assert dlh("pool", "use", "--csv", str(target)).code == 0
    assert target.read_text().splitlines()[0] == "name,job,device hours,kWh,CO2 g,basis"
    points = dlh("pool", "use", "--over-time", "--by", "device", "--json").json
    assert points and all(point["kwh"] == 0 < point["idle"]["kwh"] for point in points)
    assert {point["idle"]["basis"] for point in points} == {"assumed"}
    Node.objects.update(created_at=timezone.now() - timedelta(hours=1))
    told = dlh("pool", "use", "--by", "device").out
    assert "Idle Wh" in told and "assumed" in told
    (idle_kwh, *_) = {row["idle"]["kwh"] for row in dlh("pool", "use", "--by", "device", "--json").json}
    assert float(told.splitlines()[1].split()[-2]) == pytest.approx(1000 * idle_kwh, rel=0.1)
    assert dlh("pool", "use", "--over-time", "--csv", str(target)).code == 0
    assert target.read_text().splitlines()[0] == "from,name,job,devices,device hours,kWh,CO2 g,basis"
    found = dlh("pool", "consequences", "node-1", "--json").json
    assert (found["node"], found["running"], found["delayed"]) == ("node-1", [], [])
    assert "Nothing is running there" in dlh("pool", "consequences", "node-1").out


def test_what_a_device_drew_at_work_and_idle_is_added_up(
    dlh: Dlh, admin: SimpleNamespace, people: SimpleNamespace, job_make: Any
) -> None:
    use_make(people, job_make(), Device.objects.all()[0], hours_ago=2, hours=1)
    Node.objects.update(created_at=timezone.now() - timedelta(hours=10))
    header, row, *_ = dlh("pool", "use", "--by", "device").out.splitlines()
    assert header.rstrip().endswith("Together kWh  Together CO2 kg")
    kwh, co2, _, _, idle_kwh, idle_co2, _, together_kwh, together_co2 = row.split()[-9:]
    assert float(together_kwh) == pytest.approx(float(kwh) + float(idle_kwh), rel=1e-3) and float(kwh) > 0 < float(
        idle_kwh
    )
    assert float(together_co2) == pytest.approx(float(co2) + float(idle_co2), rel=1e-3)


@pytest.mark.parametrize("more", [(), ("--over-time",)])
def test_a_table_of_use_has_the_rows_of_all_pages(
    dlh: Dlh,
    admin: SimpleNamespace,
    people: SimpleNamespace,
    job_make: Any,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
) -> None:
    from harness.client.cli import use as commands

    for name in ("first", "second"):
        use_make(people, job_make(name=name), Device.objects.all()[0], hours_ago=2, hours=1)
    monkeypatch.setattr(commands, "_ROWS_AT_ONCE", 1)
    found = dlh("pool", "use", "--span", "day", "--by", "job", *more)
    assert "first" in found.out and "second" in found.out and not found.err


def test_a_node_with_results_to_return_is_removed_by_force(dlh: Dlh, admin: SimpleNamespace, job_make: Any) -> None:
    attempt = run_now(job_make())
    events_apply(attempt.job_id, [event(attempt.job, "returning", 5, rank=-1, node="node-1")])
    Node.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    refused = dlh("pool", "rm", "node-1")
    assert refused.code == 2 and attempt.job.name in refused.err and "--force" in refused.err
    assert dlh("pool", "rm", "node-1", "--force").code == 0 and not Node.objects.exists()


def test_a_drain_tells_its_consequences_first(dlh: Dlh, admin: SimpleNamespace) -> None:
    said = dlh("pool", "drain", "node-1").out
    assert said.index("Nothing is running there") < said.index("node-1 accepts no new jobs")
    assert dlh("pool", "undrain", "node-1").code == 0


def test_who_would_wait_for_a_reservation_is_told_and_nothing_is_kept(dlh: Dlh, admin: SimpleNamespace) -> None:
    asked = ("pool", "reserve", "node-1", "--until", "2h", "--purpose", "course", "--look")
    assert dlh(*asked, "--json").json == {"items": [], "running": []}
    assert "Nobody waits longer" in dlh(*asked).out
    assert dlh("pool", "reservations", "--json").json == []


def test_who_waits_longer_for_what_was_reserved_is_told(dlh: Dlh, admin: SimpleNamespace, job_make: Any) -> None:
    for name in ("first", "second"):
        job = job_make(name=name)
        job_options_set(job, [Option(kind="cpu", count=2, mode="sync", rate_per_s=1 / 1800)], slowdown=1.0)
        queue(job)
    tick()
    said = dlh("pool", "reserve", "node-1", "--until", "5h", "--purpose", "course").out
    kept, _, longer = said.partition("Waits longer")
    assert "is reserved until" in kept and "second" not in kept and "second" in longer and "first" not in longer
    (kept,) = dlh("pool", "reservations", "--json").json
    assert "Finishes sooner" in dlh("pool", "release", kept["id"]).out


def test_a_run_that_outlasts_the_beginning_of_a_reservation_is_named_before_and_after_it_is_made(
    dlh: Dlh, admin: SimpleNamespace, job_make: Any
) -> None:
    job = job_make(name="first")
    job_options_set(job, [Option(kind="cpu", count=2, mode="sync", rate_per_s=1 / 1800)], slowdown=1.0)
    queue(job)
    tick()
    asked = ("pool", "reserve", "node-1", "--until", "5h", "--purpose", "course")
    later = dlh(*asked, "--from", "2h", "--look").out
    assert "be there still" not in later and "first" not in later
    for more in (("--look",), ()):
        told = " ".join(dlh(*asked, *more).out.split())
        assert "Expected to be there still when it begins; nothing stops them" in told and "first" in told
    (kept,) = dlh("pool", "reservations", "--json").json
    dlh("pool", "release", kept["id"])
    looked = dlh(*asked, "--look", "--json").json["running"]
    (found,) = dlh(*asked, "--json").json["running"]
    assert looked == [found]
    assert (found["job_id"], found["name"], found["devices"]) == (job.pk, "first", 2) and found["finish_at"]


def test_of_a_job_that_finishes_sooner_but_late_all_the_same_that_is_told(
    dlh: Dlh, admin: SimpleNamespace, job_make: Any
) -> None:
    jobs = [job_make(name=name) for name in ("first", "second")]
    for job in jobs:
        job_options_set(job, [Option(kind="cpu", count=2, mode="sync", rate_per_s=1 / 1800)], slowdown=1.0)
        queue(job)
    tick()
    dlh("pool", "reserve", "node-1", "--until", "5h", "--purpose", "course")
    at = timezone.now() + timedelta(minutes=40)  # without the reservation it would end in an hour
    Job.objects.filter(pk=jobs[1].pk).update(deadline_at=at, promised_at=at)
    (kept,) = dlh("pool", "reservations", "--json").json
    said = dlh("pool", "release", kept["id"]).out.partition("Finishes sooner")[2]
    assert "Promise" in said and "still late" in said


def test_the_rack_of_a_node_is_named_and_taken_back(dlh: Dlh, admin: SimpleNamespace) -> None:
    assert dlh("pool", "near", "node-1", " rack 2 ", "--json").json["near"] == "rack 2"
    assert "node-1 is in rack 3" in dlh("pool", "near", "node-1", "rack 3").out
    assert dlh("pool", "near", "node-1", "none", "--json").json["near"] == ""
    assert dlh("pool", "near", "node-1", "r" * 61).code == 2


def test_settings_of_the_pool_are_shown_and_changed(dlh: Dlh, admin: SimpleNamespace) -> None:
    before = dlh("pool", "settings", "--json").json
    changes = ("--set", "max_restarts=5", "-s", "network_encryption=preferred", "-s", "span_nodes=true")
    after = dlh("pool", "settings", *changes, "--json").json
    assert after == {**before, "max_restarts": 5, "network_encryption": "preferred", "span_nodes": True}
    table = '{"cpu": {"idle_w": 1, "busy_w": 5}}'
    shown = dlh("pool", "settings", "--set", f"power_table={table}", "--set", "network_encryption=off").out
    assert "network_encryption off" in " ".join(shown.replace("│", " ").split())
    assert dlh("pool", "settings", "--json").json["power_table"] == {"cpu": {"idle_w": 1, "busy_w": 5}}


def test_a_power_that_cannot_be_so_is_refused_with_its_entry_its_setting_and_an_example(
    dlh: Dlh, admin: SimpleNamespace
) -> None:
    refused = dlh("pool", "settings", "--set", 'power_table={"NVIDIA A100": {"watts": 300}}')
    told = " ".join(refused.err.split())
    assert refused.code == 2 and "The entry 'NVIDIA A100' of power_table needs a name, idle_w and busy_w" in told
    assert 'Write it like {"cpu": {"idle_w": 1.5, "busy_w": 8}}' in told


@pytest.mark.parametrize(
    "change", ["max_restarts", "=3", "max_restarts=-1", "backend=mpi", "span_nodes=7", "colour=red"]
)
def test_a_setting_that_cannot_be_so_is_refused_with_its_reason(dlh: Dlh, admin: SimpleNamespace, change: str) -> None:
    refused = dlh("pool", "settings", "--set", change)
    assert refused.code == 2
    assert change.partition("=")[0] in refused.err


def test_only_admins_change_settings_of_the_pool(dlh: Dlh, portal: SimpleNamespace) -> None:
    assert "max_restarts" in dlh("pool", "settings").out
    assert dlh("pool", "settings", "--set", "max_restarts=5").code == 3
