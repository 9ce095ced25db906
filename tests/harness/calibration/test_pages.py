"""Pages of calibration for admins, and of accuracy for everybody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from scheduler.estimation.calibration import to_json
from tests.factory_calibration import calibration_make
from tests.scheduler.made_workloads import points


@pytest.fixture
def admin(people: SimpleNamespace) -> Client:
    client = Client()
    client.force_login(people.admin)
    return client


def test_an_empty_installation_says_what_estimates_rest_on(admin: Client) -> None:
    assert b"Nothing was measured yet" in admin.get("/pool/calibration/").content
    text = admin.get("/accuracy/").content.decode()
    assert "No estimated job has finished yet" in text and "table of devices" in text


def test_sweeps_fits_and_errors_are_shown_with_their_data(admin: Client, people: SimpleNamespace) -> None:
    calibration_make(people.admin)
    text = admin.get("/pool/calibration/").content.decode()
    for words in (
        "Measuring",
        "Refused points",
        "nan",
        "Measured against predicted",
        "Error by family",
        "boosted trees",
    ):
        assert words in text
    for chart in ("fit", "residuals", "families", "methods"):
        answer = admin.get(f"/pool/calibration/charts/{chart}.csv")
        assert answer.status_code == 200 and b"".join(answer).count(b"\n") > 4
    assert admin.get("/pool/calibration/charts/none.csv").status_code == 404


def test_the_accuracy_is_open_to_all_and_names_no_job(people: SimpleNamespace, job: Any) -> None:
    from harness.calibration.models import FinishedJobRow

    calibration_make(people.admin)
    FinishedJobRow.objects.filter(pk=FinishedJobRow.objects.latest("pk").pk).update(job=job)
    stranger = Client()
    stranger.force_login(people.outsider)
    text = stranger.get("/accuracy/").content.decode()
    assert "60 finished jobs" in text and "In the 80 % interval" in text
    assert job.name not in text and job.pk not in text
    table = b"".join(stranger.get("/accuracy/charts/jobs.csv")).decode()
    assert table.count("\n") == 61 and job.pk not in table
    for chart in ("step_s", "run_s", "peak_bytes", "energy_j", "over_time", "by_family", "by_kind"):
        assert stranger.get(f"/accuracy/charts/{chart}.csv").status_code == 200


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
    assert "no UTF-8 text" in send(b"\xff\xfe\x00")
    assert "No file was sent" in admin.post("/pool/calibration/import/", follow=True).content.decode()
