"""`dlh offer` and `dlh jobs offer` against a running portal."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client
from harness.client.cli.moments import budget_read, moment_read
from harness.client.cli.offers import _basis
from harness.client.cli.taking import energy_words
from harness.client.errors import BadInput
from harness.storage.models import ContentSize
from tests.factory_offers import offer_make, workload_make
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


def test_a_workload_of_a_program_outside_the_portal_is_priced(dlh: Dlh, node_make: Any, tmp_path: Path) -> None:
    node_make("node-1", cpus=2)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"ok": True, "workload": workload_make().to_dict()}))
    ended = dlh("offer", "--workload", str(file), "--json")
    assert ended.code == 0
    assert ended.json["lines"][ended.json["recommended"]]["offered"]
    shown = dlh("offer", "--workload", str(file), "--device", "cpu", "--count", "2", "--csv", str(tmp_path / "all.csv"))
    assert "2 CPU cores (core)" in shown.out
    assert "recommended" in shown.out
    assert "Not calibrated here: core" in shown.err
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 4


def test_a_mode_that_is_asked_for_is_the_one_that_is_priced(dlh: Dlh, node_make: Any, tmp_path: Path) -> None:
    node_make("node-1", cpus=2)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    ended = dlh("offer", "--workload", str(file), "--count", "2", "--mode", "async", "--json")
    assert ended.json["lines"][ended.json["recommended"]]["mode"] == "async"
    assert dlh("offer", "--workload", str(file), "--mode", "fast").code != 0


def test_a_model_of_device_is_fixed_by_its_name(dlh: Dlh, node_make: Any, tmp_path: Path) -> None:
    node_make("node-1", cpus=2)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    ended = dlh("offer", "--workload", str(file), "--device-model", "core", "--json")
    assert (ended.code, ended.json["wish"]["model_name"]) == (0, "core")
    refused = dlh("offer", "--workload", str(file), "--device-model", "Tesla T4")
    assert refused.code == 2 and "The pool has no device (Tesla T4) that takes work. It has core." in refused.out
    assert dlh("offer", "--workload", str(file), "--device-model", "any").code == 0


def test_the_table_of_an_offer_tells_energy_in_the_unit_of_the_sentence_above_it(
    dlh: Dlh, node_make: Any, tmp_path: Path
) -> None:
    node_make("node-1")
    file = tmp_path / "workload.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    sentence, _, *table = dlh("offer", "--workload", str(file)).out.splitlines()
    told = re.search(r"about [\d.,]+ (\w+) \(assumed\)\.$", sentence)
    assert told
    assert f" {told[1]} (" in table[1]


def test_energies_of_one_table_have_one_unit_and_no_powers_of_ten() -> None:
    small, large = {"low": 238.0, "mid": 466.0, "high": 1003.0}, {"low": 605.0, "mid": 1195.0, "high": 2599.0}
    assert energy_words(small, 2599.0) == "0.129 Wh (0.0661 to 0.279)"
    assert energy_words(large, 2599.0) == "0.332 Wh (0.168 to 0.722)"
    assert energy_words({"low": 100.0, "mid": 9e5, "high": 4e6}, 4e6) == "0.25 kWh (100 J to 1.11)"
    assert energy_words({"low": 5e12, "mid": 6e12, "high": 9e12}, 9e12).startswith("1,666,667 kWh")


def test_a_way_that_is_cheapest_and_too_late_is_told_to_be_both(dlh: Dlh, node_make: Any, tmp_path: Path) -> None:
    node_make("node-1")
    file = tmp_path / "workload.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    ended = dlh("offer", "--workload", str(file), "--deadline", "2020-01-01T00:00")
    assert re.search(r"cheapest, It finishes up to [\d,]+ d( \d+ h)? after the deadline\.", ended.out)


def test_an_offer_without_a_way_shows_no_empty_table(dlh: Dlh, tmp_path: Path) -> None:
    file = tmp_path / "workload.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    ended = dlh("offer", "--workload", str(file))
    assert "No node that takes work has a device for this job." in ended.out
    assert "Nothing here yet" not in ended.out


@pytest.mark.parametrize(
    ("bases", "words"),
    [
        (("modelled", "modelled", "modelled"), "modelled"),
        (("measured", "modelled", "assumed"), "time measured, memory modelled, energy assumed"),
    ],
)
def test_an_assumed_energy_does_not_pass_for_a_measured_one(bases: tuple[str, ...], words: str) -> None:
    assert _basis(dict(zip(("time_basis", "memory_basis", "energy_basis"), bases, strict=True))) == words


def test_a_deadline_nobody_can_keep_ends_with_a_code_and_the_earliest_finish(
    dlh: Dlh, node_make: Any, tmp_path: Path
) -> None:
    node_make("node-1")
    file = tmp_path / "workload.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    ended = dlh("offer", "--workload", str(file), "--deadline", "2020-01-01T00:00")
    assert ended.code == 2
    assert "The deadline has already passed." in ended.out
    assert "Earliest finish that can be promised" in ended.out


@pytest.mark.parametrize(
    ("arguments", "told", "hint"),
    [
        (("--device", "gpu"), "There is no kind of device 'gpu' for --device.", "cpu, cuda (NVIDIA GPUs), or any"),
        (("kx3f9a",), "There is no file kx3f9a", "`dlh jobs offer kx3f9a`"),
        (("--take", "1"), "--take", "`dlh jobs offer JOB --take N`"),
    ],
)
def test_what_an_offer_of_a_spec_cannot_take_is_told_with_what_can(
    dlh: Dlh, arguments: tuple[str, ...], told: str, hint: str
) -> None:
    refused = dlh("offer", *arguments)
    assert refused.code == 2 and told in refused.err and hint in refused.err


def test_where_nothing_can_be_kept_the_table_is_shown_all_the_same(
    dlh: Dlh, job: Any, node_make: Any, home: Path
) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    (home / "dlh" / "offers.json").mkdir(parents=True)
    shown = dlh("jobs", "offer", job.pk)
    assert shown.code == 0 and "CPU cores" in shown.out and "Lines cannot be taken by number" in shown.err


def test_an_offer_without_a_line_names_no_command_that_takes_one(dlh: Dlh, job: Any, node_make: Any) -> None:
    node = node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    assert "takes the line # N of it." in dlh("jobs", "offer", job.pk).out
    refused = dlh("jobs", "offer", job.pk, "--deadline", "2020-01-01T00:00").out
    assert "would help" in refused and "  or: " not in refused
    type(node).objects.update(state="down")
    without = dlh("jobs", "offer", job.pk).out
    assert "This would help: Start a node's agent" in without and "--take" not in without


def test_the_table_names_the_way_of_the_data_to_a_node_that_does_not_have_them(
    dlh: Dlh, job: Any, node_make: Any
) -> None:
    sizes = {"source_bytes": 1, "packed_bytes": 600 << 20, "measured_at": datetime.now(UTC)}
    ContentSize.objects.update_or_create(sha256=job.dataset.sha256, defaults=sizes)
    node_make("far", cpus=1, description={"cache": {"datasets": []}})
    offer_make(job.owner, job)
    ended = dlh("jobs", "offer", job.pk)
    assert "likely 1 min, to bring 600 MiB to node far (assumed)" in " ".join(ended.out.split())
    assert "Data come to node far at 10 MiB/s" in " ".join(ended.err.split())


BY = f"{datetime.now(UTC).year + 1}-01-31T18:00:00"
FIXED = {
    "budget": {"deadline": f"{BY}Z"}, "resources": {"device": "cpu", "count": 2}, "mode": "sync"
}  # fmt: skip


def test_what_the_spec_fixes_is_asked_for_and_kept(dlh: Dlh, job_make: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    job = job_make(**FIXED)
    offer_make(job.owner, job)
    ended = dlh("jobs", "offer", job.pk, "--take", "recommended", "--json")
    taken = ended.json["lines"][ended.json["recommended"]]
    assert (taken["count"], taken["mode"], ended.json["deadline"]) == (2, "sync", f"{BY}Z")
    job.refresh_from_db()
    assert (job.spec["resources"]["count"], job.spec["mode"]) == (2, "sync")
    assert job.deadline_at is not None and job.deadline_at.isoformat() == f"{BY}+00:00"


def test_what_came_with_a_line_binds_no_later_offer(dlh: Dlh, job_make: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    job = job_make(**FIXED | {"resources": {}, "mode": "auto"})
    offer_make(job.owner, job)
    assert dlh("jobs", "offer", job.pk, "--take", "recommended").code == 0
    again = dlh("jobs", "offer", job.pk, "--json").json
    assert [again["wish"][name] for name in ("kind", "count", "mode")] == [None, None, None]
    bound = dlh("jobs", "offer", job.pk, "--count", "1")
    assert "Bound to what you fixed: 1 device (resources.count)" in " ".join(bound.err.split())


def test_what_the_spec_fixes_may_be_left_open_by_name(dlh: Dlh, job_make: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    job = job_make(**FIXED)
    offer_make(job.owner, job)
    shown = dlh("jobs", "offer", job.pk, "--deadline", "none", "--device", "any", "--count", "0", "--json").json
    assert shown["deadline"] is None
    assert {line["count"] for line in shown["lines"] if line["offered"]} == {1, 2}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--deadline", "tomorrow"),
        ("--take", "best"),
        ("--device", "tpu"),
    ],
)
def test_nonsense_is_bad_input(dlh: Dlh, job: Any, arguments: tuple[str, str]) -> None:
    assert dlh("jobs", "offer", job.pk, *arguments).code == 2


def test_a_deadline_is_a_moment_or_a_time_from_now(dlh: Dlh, node_make: Any, tmp_path: Path) -> None:
    node_make("node-1")
    file = tmp_path / "workload.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    before = datetime.now(UTC)
    told = dlh("offer", "--workload", str(file), "--deadline", "4h", "--json").json["deadline"]
    found = datetime.fromisoformat(told)
    assert before - timedelta(seconds=1) <= found - timedelta(hours=4) <= datetime.now(UTC)
    told = dlh("offer", "--workload", str(file), "--deadline", f"{BY}+00:00", "--json").json["deadline"]
    assert datetime.fromisoformat(told) == datetime.fromisoformat(f"{BY}+00:00")


@pytest.mark.parametrize("day", ["2030-01-31", "20300131"])
def test_a_day_alone_lasts_to_its_end_in_the_readers_zone_unless_something_begins_with_it(day: str) -> None:
    until = datetime.fromisoformat(moment_read(day, "--until", field="ends_at"))
    begins = datetime.fromisoformat(moment_read(day, "--from", field="starts_at", begins=True))
    assert until == datetime(2030, 1, 31, 23, 59, 59).astimezone()
    assert begins == datetime(2030, 1, 31).astimezone()


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400), ("2d4h", 187_200), ("1.5h 30s", 5430), ("90 min", 5400), ("45", 45)]
)
def test_a_time_may_be_a_sum_of_units(text: str, seconds: float) -> None:
    assert budget_read(text) == seconds


@pytest.mark.parametrize("text", ["1h30", "h", "1y", "", "1.h", "-5m"])
def test_what_is_no_sum_of_units_is_no_time(text: str) -> None:
    with pytest.raises(BadInput, match="is not a valid time"):
        budget_read(text)


def test_the_deadline_that_was_understood_is_told_with_the_offer(dlh: Dlh, node_make: Any, tmp_path: Path) -> None:
    node_make("node-1")
    file = tmp_path / "workload.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    told = dlh("offer", "--workload", str(file), "--deadline", "2030-01-31").out
    assert "Deadline: 2030-01-31 23:59:59 (this machine's time)" in told
    assert "Deadline:" not in dlh("offer", "--workload", str(file)).out


def test_a_body_with_a_day_alone_means_its_end(dlh: Dlh, portal: Any) -> None:
    client = Client(portal.url, portal.token)
    made = client.send("POST", "/offers", {"workload": workload_make().to_dict(), "deadline": "2030-01-31"})
    assert made["deadline"] == "2030-01-31T23:59:59Z"


def test_a_file_that_holds_no_workload_is_bad_input(dlh: Dlh, tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    for text in ("", "not json", "[1]", '{"workload": {"version": 1}}'):
        file.write_text(text)
        assert dlh("offer", "--workload", str(file)).code == 2
    problem = {"message": "model.py, line 3: no such layer", "hint": "Correct that line."}
    file.write_text(json.dumps({"ok": False, "workload": None, "problem": problem}))
    refused = dlh("offer", "--workload", str(file), "--json").json["error"]
    assert "model.py, line 3: no such layer" in refused["message"] and refused["hint"] == "Correct that line."
