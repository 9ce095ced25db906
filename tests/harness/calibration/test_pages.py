"""Pages of calibration for admins, and of accuracy for everybody."""

from __future__ import annotations

import csv
import html
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from scheduler.estimation.calibration import to_json
from tests.factory_calibration import calibration_make
from tests.scheduler.made_workloads import points


@pytest.fixture
def admin(people: SimpleNamespace) -> Client:
    client = Client()
    client.force_login(people.admin)
    return client


def words(answer: Any) -> str:
    """What a page says, on one line."""
    return " ".join(html.unescape(answer.content.decode()).split())


def test_an_empty_installation_says_what_estimates_rest_on(admin: Client) -> None:
    assert b"Nothing has been measured yet" in admin.get("/pool/calibration/").content
    text = admin.get("/accuracy/").content.decode()
    assert "No estimated job has finished yet" in text and "table of devices" in text


def test_sweeps_fits_and_errors_are_shown_with_their_data(admin: Client, people: SimpleNamespace) -> None:
    calibration_make(people.admin)
    text = admin.get("/pool/calibration/").content.decode()
    for words in (
        "Measuring",
        "Refused points",
        "nan",
        "Predicted against measured",
        "Error by family",
        "boosted trees",
    ):
        assert words in text
    for measure in ("", "memory_"):
        for chart in ("fit", "residuals", "families", "methods"):
            assert csv_of(admin, f"{measure}{chart}").count("\n") > 3
    assert admin.get("/pool/calibration/charts/none.csv").status_code == 404


def csv_of(admin: Client, chart: str, **query: Any) -> str:
    answer = admin.get(f"/pool/calibration/charts/{chart}.csv", query)
    assert answer.status_code == 200, chart
    return b"".join(answer).decode()


def test_peak_memory_is_shown_in_mebibytes_with_its_errors_and_its_rivals(
    admin: Client, people: SimpleNamespace
) -> None:
    row = calibration_make(people.admin)
    text = words(admin.get("/pool/calibration/"))
    assert "Peak memory: predicted against measured" in text and "Peak memory: error by family" in text
    assert "off by 3.1 % on average" in text and "The range held 93.0 % of them" in text
    assert "The best of the usual methods: boosted trees, 9.0 %." in text
    head, first = csv_of(admin, "memory_fit").splitlines()[:2]
    assert head.startswith('family,"measured peak, MiB","predicted peak, MiB"')
    assert float(first.split(",")[1]) == pytest.approx(row.report["memory"]["points"][0][1] / 2**20)


def test_power_from_a_table_has_nothing_to_fit_and_no_empty_picture(admin: Client, people: SimpleNamespace) -> None:
    from harness.pool.services import pool_setting_update

    calibration_make(people.admin)
    text = words(admin.get("/pool/calibration/"))
    assert "there is nothing to fit: 1.5 W idle and 8 W busy are assumed. Source: a usual core" in text
    assert "Power of one device: predicted against measured" not in text
    assert admin.get("/pool/calibration/charts/power_fit.csv").status_code == 404
    pool_setting_update(user=people.admin, power_table={"cpu": {"idle_w": 2.0, "busy_w": 9.5}})
    assert "2 W idle and 9.5 W busy are assumed. Source: the pool" in words(admin.get("/pool/calibration/"))


def test_watts_that_were_read_idle_are_told_from_those_that_are_assumed(admin: Client, people: SimpleNamespace) -> None:
    from harness.pool.models import IdlePower, Node

    row = calibration_make(people.admin)
    node = Node.objects.create(name="node-1")
    IdlePower.objects.create(node=node, model_name=row.model_name, watts=1.25, read_at=timezone.now())
    text = words(admin.get("/pool/calibration/"))
    assert "8 W busy are assumed, 1.25 W idle were measured. Source: a usual core" in text
    assert "; idle power: read on idle devices here." in text


def test_measured_power_is_held_against_its_readings_even_where_a_rival_does_better(
    admin: Client, people: SimpleNamespace
) -> None:
    from harness.calibration.models import DeviceModelRow

    calibration_make(people.admin)
    gpu = DeviceModelRow.objects.get(kind="cuda").pk
    text = words(admin.get("/pool/calibration/", {"model": gpu}))
    assert "from what the counter told: 331 W busy, 30 W while it waits for its host" in text
    assert "The best of the usual methods does better here: boosted trees, 8.0 %." in text
    for chart in ("fit", "residuals", "families", "methods"):
        assert csv_of(admin, f"power_{chart}", model=gpu).count("\n") > 3


def test_a_fit_of_an_earlier_version_says_when_its_other_figures_come(admin: Client, people: SimpleNamespace) -> None:
    row = calibration_make(people.admin)
    row.report.pop("memory")
    row.save()
    text = words(admin.get("/pool/calibration/"))
    assert "fitted before these figures were kept" in text and "Predicted against measured" in text


def test_the_accuracy_is_open_to_all_and_names_no_job(people: SimpleNamespace, job: Any) -> None:
    from harness.calibration.models import FinishedJobRow

    calibration_make(people.admin)
    FinishedJobRow.objects.filter(pk=FinishedJobRow.objects.latest("pk").pk).update(job=job)
    stranger = Client()
    stranger.force_login(people.outsider)
    text = stranger.get("/accuracy/").content.decode()
    assert "60 finished jobs" in text and "In the interval (meant)" in text
    assert job.name not in text and job.pk not in text
    table = b"".join(stranger.get("/accuracy/charts/jobs.csv")).decode()
    assert table.count("\n") == 61 and job.pk not in table
    for chart in ("step_s", "run_s", "peak_bytes", "energy_j", "over_time", "by_family", "by_kind"):
        assert stranger.get(f"/accuracy/charts/{chart}.csv").status_code == 200


def test_of_very_many_jobs_the_newest_are_drawn_and_the_figures_are_of_all(
    people: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.pages.calibration_view.DRAWN_MOST", 20)
    monkeypatch.setattr("harness.calibration.selectors.JOBS_MOST", 50)
    calibration_make(people.admin)
    stranger = Client()
    stranger.force_login(people.outsider)
    text = words(stranger.get("/accuracy/"))
    assert "The newest 50 finished jobs" in text
    assert "Drawn are the newest 20 of 50; the CSV has all." in text
    (drawn,) = re.findall(r'<script id="chart-run_s"[^>]*>(.*?)</script>', text)
    assert len(json.loads(drawn)["rows"]) == 20
    assert b"".join(stranger.get("/accuracy/charts/run_s.csv")).count(b"\n") == 51
    (drawn,) = re.findall(r'<script id="chart-over_time"[^>]*>(.*?)</script>', text)
    table = list(csv.reader(b"".join(stranger.get("/accuracy/charts/over_time.csv")).decode().splitlines()))
    means = [float(line[2]) for line in table[1:]]
    assert len(means) == 50 and [row[2] for row in json.loads(drawn)["rows"]] == means[-20:], "means go over all jobs"


def test_jobs_that_ran_out_of_memory_are_counted_although_nobody_knows_what_they_would_have_taken(
    people: SimpleNamespace, job: Any
) -> None:
    from harness.jobs.models import Job

    calibration_make(people.admin)
    stranger = Client()
    stranger.force_login(people.outsider)
    assert "None ran out of memory" in words(stranger.get("/accuracy/"))
    option = {"kind": "cpu", "count": 1}
    Job.objects.filter(pk=job.pk).update(state="failed", failure={"code": "out_of_memory"}, options=[option])
    assert "1 more ran out of memory" in words(stranger.get("/accuracy/"))


def test_a_sweep_is_started_and_stopped_by_hand(admin: Client, node_make: Any) -> None:
    from harness.calibration.models import CalibrationRun

    node_make("node-1")
    form = {"node": "node-1", "kind": "cpu", "minutes": "0.5"}
    text = admin.post("/pool/calibration/start/", form, follow=True).content.decode()
    run = CalibrationRun.objects.get()
    assert run.budget_s == 30.0 and "begins as soon as the devices are idle" in text
    text = admin.post("/pool/calibration/start/", form, follow=True).content.decode()
    assert "is under way" in text
    admin.post(f"/pool/calibration/{run.pk}/stop/")
    run.refresh_from_db()
    assert run.state == "stopped"


@pytest.mark.parametrize("minutes", ["", "soon", "-1", "nan", "1e9"])
def test_a_budget_that_is_none_is_told_in_words(admin: Client, node_make: Any, minutes: str) -> None:
    from harness.calibration.models import CalibrationRun

    node_make("node-1")
    form = {"node": "node-1", "kind": "cpu", "minutes": minutes}
    assert "The budget is" in admin.post("/pool/calibration/start/", form, follow=True).content.decode()
    assert not CalibrationRun.objects.exists()


def test_a_file_is_taken_in_or_refused_by_its_row(admin: Client) -> None:
    text = to_json(points(2))

    def send(body: bytes) -> str:
        file = SimpleUploadedFile("points.json", body)
        return admin.post("/pool/calibration/import/", {"file": file}, follow=True).content.decode()

    assert "2 points were added, 0 were known already" in send(text.encode())
    assert "row 1" in send(text.replace('"kind": "cpu"', '"kind": ""', 1).encode())
    assert "not UTF-8 text" in send(b"\xff\xfe\x00")
    assert "No file was sent" in admin.post("/pool/calibration/import/", follow=True).content.decode()


def test_who_is_no_admin_sees_it_all_without_what_starts_and_stops_sweeps(
    people: SimpleNamespace, node_make: Any
) -> None:
    node_make("node-1")
    calibration_make(people.admin)
    client, acts = Client(), ("Start the calibration", "Import a file", ">Stop<")
    for person, shown in ((people.admin, True), (people.viewer, False)):
        client.force_login(person)
        page, part = client.get("/pool/calibration/"), client.get("/pool/calibration/", headers={"HX-Request": "true"})
        assert [act in page.content.decode() for act in acts] == [shown] * 3
        assert (">Stop<" in part.content.decode()) is shown
        assert "Export CSV" in words(page) and "Models of devices" in words(page)
        assert 'href="/pool/calibration/"' in client.get("/pool/").content.decode()
    refused = words(client.post("/pool/calibration/start/", {"node": "node-1", "kind": "cpu", "minutes": "5"}))
    assert "This is for admins of the installation." in refused and "Ask one of them." in refused
    assert "token" not in refused.partition("Ask one of them")[0].rpartition("admins of the installation")[2]


def test_a_device_with_too_few_points_is_not_called_fitted(admin: Client, people: SimpleNamespace) -> None:
    from harness.calibration.models import DeviceModelRow

    row = calibration_make(people.admin)
    assert 'data-label="Fitted"> assumed' not in words(admin.get("/pool/calibration/"))
    DeviceModelRow.objects.filter(pk=row.pk).update(n_points=3, model={**row.model, "n_points": 0})
    for page in ("/pool/calibration/", "/accuracy/"):
        assert 'data-label="Fitted"> assumed' in words(admin.get(page))
