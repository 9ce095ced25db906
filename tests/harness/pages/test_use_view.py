"""Use and energy in units that people read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from harness.jobs.models import DeviceUse
from harness.jobs.timelines import Bucket
from harness.jobs.use_rows import UseRow
from harness.jobs.windows import KWH_J
from harness.pages.use_view import bases_words, energy_unit, mass_words, use_charts, use_lines
from harness.pool.models import IdlePower, Node
from scheduler.estimation.device_table import figures_for
from tests.harness.jobs.test_queueing import use_make


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
            busy_bases={"modelled": 1.0},
            idle_bases={"assumed": 2.0},
        ),
        Bucket(
            starts_at=at,
            device_kind="cuda",
            devices=1,
            present=1.0,
            busy_w=400.0,
            busy=1,
            idle_w=50.0,
            busy_bases={"measured": 45.0},
            idle_bases={"assumed": 2.0},
        ),
    ]
    _, power, *_ = use_charts(buckets, [], [], "day", "job", co2_g_per_kwh=400.0)
    assert power["columns"][1:] == ["working", "idle", "CO₂ (g/h)", "basis"] and power["data"]["lines"] == 2
    assert power["data"]["rows"][0][0] == at.isoformat()
    assert [head for head, _ in power["heads"]] == ["from", "working (W)", "idle (W)", "CO₂ (g/h)", "basis"]
    assert power["rows"] == [[at, 430.0, 70.0, pytest.approx(200.0), "measured"]]


def test_one_large_use_puts_all_into_kilowatt_hours() -> None:
    lines = use_lines([row(3.0), row(0.01)], 400.0)
    assert [line["energy"] for line in lines] == pytest.approx([3.0, 0.01])
    assert lines[0]["co2"] == pytest.approx(1.2) and energy_unit([row(3.0), row(0.01)]).mass == "kg"


def test_masses_are_read_without_a_power_of_ten() -> None:
    assert [mass_words(kg) for kg in (0.000342, 0.9996, 3.6)] == ["0.342 g", "1,000 g", "3.6 kg"]


@pytest.mark.django_db
def test_the_page_reads_what_devices_did_once(people, job, node_make, client, django_assert_max_num_queries) -> None:
    use_make(people, job, node_make(cpus=1).devices.get(), hours_ago=3, hours=1)
    client.force_login(people.owner)
    with django_assert_max_num_queries(60) as seen:
        assert "Birds" in client.get(reverse("pool_use"), secure=True).content.decode()
    assert sum('FROM "jobs_deviceuse"' in query["sql"] for query in seen.captured_queries) == 1


@pytest.mark.django_db
def test_the_table_behind_a_chart_tells_moments_in_the_readers_zone_and_units(people, job, node_make, client) -> None:
    use_make(people, job, node_make(cpus=1).devices.get(), hours_ago=3, hours=1)
    client.force_login(people.owner)
    page = client.get(reverse("pool_use")).content.decode()
    (table,) = re.findall(r'aria-label="Data of Utilisation".*?</table>', page, re.DOTALL)
    heads = [" ".join(head.split()) for head in re.findall(r"<th(?!ead)[^>]*>(.*?)</th>", table, re.DOTALL)]
    assert heads == ["from", "CPU cores (%)"]
    first = re.search(r"<td[^>]*>(.*?)</td>", table, re.DOTALL).group(1)
    assert re.fullmatch(r'\s*<time datetime="[\dT:-]+\+00:00"[^>]*>\d{4}-\d\d-\d\d \d\d:\d\d UTC</time>\s*', first)
    assert not re.search(r"\d\.\d{5,}", table), "no microseconds, no digits beyond those that count"


@pytest.mark.django_db
def test_an_admin_is_told_how_long_use_is_known(people, client, settings) -> None:
    settings.HISTORY_DAYS = 500
    client.force_login(people.admin)
    page = " ".join(client.get(reverse("pool_use")).content.decode().split())
    assert "is known for 500 days (<code>DLH_HISTORY_DAYS</code>)" in page


def test_the_basis_of_a_total_is_told_with_the_share_of_each() -> None:
    assert bases_words({"measured": 5.0, "assumed": 0.0}) == "measured" and bases_words({}) == ""
    assert bases_words({"assumed": 17.0, "measured": 83.0}) == "measured 83 %, assumed 17 %"
    assert bases_words({"assumed": 1.0, "modelled": 999.0}) == "modelled over 99 %, assumed under 1 %"


def facts(page: str) -> dict[str, str]:
    """Each figure at the head of the page."""
    found = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", page, re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]+>", "", text).split()) for name, text in found}


@pytest.mark.django_db
@pytest.mark.parametrize("by", ["project", "device"])
def test_every_figure_of_energy_on_the_page_says_what_it_rests_on(people, job, node_make, client, by) -> None:
    node = node_make(cpus=2)
    Node.objects.update(created_at=timezone.now() - timedelta(days=3))
    use_make(people, job, node.devices.order_by("index")[0], hours_ago=6, hours=5)
    client.force_login(people.owner)
    page = client.get(reverse("pool_use"), {"span": "day", "by": by}).content.decode()
    told = facts(page)
    assert told["Energy at work"] == "1 kWh measured" and told["Energy idle"].endswith(" kWh assumed")
    assert "measured 9" in told["Together"] and "energy measured 9" in told["CO₂"]
    assert ("Idle energy by device over time" in page) == (by == "device")
    assert ('data-label="Together, kWh"' in page) == (by == "device")
    assert ("stands in <em>Energy idle</em>" in page) == (by == "project")


@pytest.mark.django_db
@pytest.mark.parametrize("by", ["device", "job", "person", "project"])
def test_no_object_is_made_of_each_use_that_the_page_adds_up(people, job, node_make, client, monkeypatch, by) -> None:
    device = node_make(cpus=1).devices.get()
    for hours_ago in (3, 6):
        use_make(people, job, device, hours_ago=hours_ago, hours=1)
    made: list[object] = []
    monkeypatch.setattr(DeviceUse, "from_db", lambda *given: made.append(given))
    client.force_login(people.owner)
    page = client.get(reverse("pool_use"), {"span": "day", "by": by}).content.decode()
    assert facts(page)["Energy at work"] == "2 kWh measured" and not made


@pytest.mark.django_db
def test_idle_energy_says_how_much_of_it_was_measured(people, node_make, client) -> None:
    nodes = [node_make("node-1", cpus=1), node_make("node-2", cpus=0, gpus=1)]
    Node.objects.update(created_at=timezone.now() - timedelta(days=3))
    watts = figures_for("cuda", "gpu").idle_w
    IdlePower.objects.create(node=nodes[0], model_name="core", watts=3 * watts, read_at=timezone.now())
    client.force_login(people.owner)
    page = client.get(reverse("pool_use"), {"span": "day", "by": "device"}).content.decode()
    assert facts(page)["Energy idle"].endswith("measured 75 %, assumed 25 %")
    assert re.findall(r'data-label="Basis of idle">(\w+)<', page) == ["measured", "assumed"]
    answer = client.get("/api/v1/pool/use", {"span": "day", "by": "device"}).json()
    assert [row["idle"]["basis"] for row in answer["items"]] == ["measured", "assumed"]
    nodes_told = client.get("/api/v1/pool").json()["nodes"]
    assert [(one["idle_w"], one["idle_basis"]) for node in nodes_told for one in node["devices"]] == [
        (3 * watts, "measured"),
        (watts, "assumed"),
    ]
