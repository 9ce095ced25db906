"""Calibrations that ship with the harness: read, told of, ignored, and no longer used once there is a better one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from harness.calibration import shipped
from harness.calibration.exchange import points_import, row_of
from harness.calibration.known import device_model
from harness.calibration.models import CalibrationPointRow, DeviceModelRow, FinishedJobRow
from harness.measuring import fitting
from harness.measuring.fitting import model_correct, model_fit, priors_refresh
from harness.measuring.tried import Tried
from scheduler.estimation.calibration import to_json
from scheduler.estimation.estimate import estimate
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Basis
from tests.harness.calibration.lending import HERE, SOURCE, folder, points_of
from tests.scheduler.made_workloads import KIND, allocation, workload

pytestmark = pytest.mark.django_db
__all__ = ["folder"]


def measure(count: int, name: str = HERE) -> None:
    CalibrationPointRow.objects.bulk_create(row_of(made) for made in points_of(name, count))


def finish(times: float, count: int) -> None:
    """Jobs on a core here that took so many times what is foretold."""
    from django.utils import timezone

    way, work = replace(allocation(), model_name=HERE), workload()
    step_s = times * estimate(work, way, device_model(KIND, HERE)).step_s.mid
    for _ in range(count):
        FinishedJobRow.objects.create(
            kind=KIND, model_name=HERE, workload=work.to_dict(), allocation=vars(way), step_s=step_s,
            finished_at=timezone.now(),
        )  # fmt: skip


def test_it_stands_in_for_cores_that_nobody_has_calibrated_and_not_for_gpus(folder: Path) -> None:
    model = device_model(KIND, HERE)
    assert model.transferred is not None and model.transferred.model_name == SOURCE
    assert model.basis is Basis.MODELLED and model.n_points == 0 and model.power.basis is Basis.ASSUMED
    assert device_model("cuda", HERE) == prior_for("cuda", HERE)


def test_the_middle_of_several_machines_that_were_timed_is_what_ships(folder: Path) -> None:
    way, work = replace(allocation(), model_name=HERE), workload()
    alone_s = estimate(work, way, device_model(KIND, HERE)).step_s.mid
    body = json.loads((folder / "lending.json").read_text())
    body["provenance"] |= {"machines": 2, "middle": 1.4}
    (folder / "lending.json").write_text(json.dumps(body))
    shipped._read.cache_clear()
    assert estimate(work, way, device_model(KIND, HERE)).step_s.mid == pytest.approx(1.4 * alone_s)


def test_it_is_ignored_where_the_setting_says_so(folder: Path, settings: Any) -> None:
    settings.SHIPPED_CALIBRATIONS = False
    assert device_model(KIND, HERE) == prior_for(KIND, HERE)


def test_a_calibration_of_one_s_own_wins_and_rests_on_nothing_that_ships(folder: Path, settings: Any) -> None:
    measure(30)
    assert model_fit(KIND, HERE) is not None
    own = device_model(KIND, HERE)
    assert own.transferred is None and own.n_points == 30
    settings.SHIPPED_CALIBRATIONS = False
    model_fit(KIND, HERE)
    assert device_model(KIND, HERE) == own


def test_an_imported_calibration_wins(folder: Path, people: SimpleNamespace) -> None:
    points_import(user=people.admin, text=to_json(points_of(HERE, 30)))
    model_fit(KIND, HERE)
    model = device_model(KIND, HERE)
    assert model.transferred is None and model.n_points == 30


def test_few_points_correct_it_and_every_place_says_so(folder: Path, people: SimpleNamespace) -> None:
    measure(12)
    model_fit(KIND, HERE)
    model = device_model(KIND, HERE)
    assert model.transferred is not None and model.n_points == 12
    told = estimate(workload(), replace(allocation(), model_name=HERE), model).note
    assert f"12 calibration points of {HERE}; a calibration of {SOURCE} that ships with the harness, corrected" in told
    assert "the range is wide" not in told
    client = Client()
    client.force_login(people.admin)
    text = " ".join(client.get("/pool/calibration/").content.decode().split())
    assert "12 of the 30 on one device that a model of its own needs" in text
    assert f"until then they correct a calibration of {SOURCE} that ships" in text


def test_a_short_calibration_that_rested_on_itself_alone_rests_on_what_ships_at_the_next_look(
    folder: Path, settings: Any
) -> None:
    settings.SHIPPED_CALIBRATIONS = False
    measure(12)
    model_fit(KIND, HERE)
    assert device_model(KIND, HERE).transferred is None
    settings.SHIPPED_CALIBRATIONS = True
    assert priors_refresh() == 1 and priors_refresh() == 0
    assert device_model(KIND, HERE).transferred is not None


def test_too_few_points_of_one_s_own_leave_it_in_place(folder: Path) -> None:
    measure(3)
    model_fit(KIND, HERE)
    model = device_model(KIND, HERE)
    assert model.transferred is not None and model.n_points == 0


def test_finished_jobs_correct_it(folder: Path) -> None:
    finish(2.0, 9)
    model_correct(KIND, HERE)
    model = device_model(KIND, HERE)
    assert model.transferred is not None
    assert model.correction.factor == pytest.approx(2.0 ** (9 / 12))


def test_what_jobs_taught_moves_to_the_prior_that_ships_now(folder: Path, settings: Any) -> None:
    settings.SHIPPED_CALIBRATIONS = False
    finish(1.0, 9)
    model_correct(KIND, HERE)
    settings.SHIPPED_CALIBRATIONS = True
    assert device_model(KIND, HERE).transferred is None
    assert priors_refresh() == 1
    model = device_model(KIND, HERE)
    assert model.transferred is not None and model.correction.n_jobs == 9 and model.correction.factor != 1.0
    assert priors_refresh() == 0
    settings.SHIPPED_CALIBRATIONS = False
    assert priors_refresh() == 1 and device_model(KIND, HERE).transferred is None


def test_a_refresh_leaves_own_calibrations_alone_and_few_points_where_they_were(folder: Path, settings: Any) -> None:
    measure(30)
    measure(3, "Another core")
    for name in (HERE, "Another core"):
        model_fit(KIND, name)
    before = DeviceModelRow.objects.get(model_name=HERE).fitted_at
    settings.SHIPPED_CALIBRATIONS = False
    assert priors_refresh() == 1
    assert DeviceModelRow.objects.get(model_name=HERE).fitted_at == before
    assert DeviceModelRow.objects.get(model_name="Another core").n_points == 3
    assert device_model(KIND, "Another core").transferred is None


def test_a_model_that_a_new_prior_cannot_be_given_to_keeps_no_other_waiting(
    folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (HERE, "Another core"):
        measure(3, name)
        model_fit(KIND, name)
    settings.SHIPPED_CALIBRATIONS = False
    real, tried = fitting._fit, []

    def fit(kind: str, model_name: str) -> DeviceModelRow | None:
        tried.append(model_name)
        if len(tried) == 1:
            raise ZeroDivisionError("no such fit")
        return real(kind, model_name)

    monkeypatch.setattr(fitting, "_fit", fit)
    monkeypatch.setattr(fitting, "_tried", Tried())
    assert priors_refresh() == 2 and set(tried) == {HERE, "Another core"}
    assert device_model(KIND, tried[1]).transferred is None
    assert priors_refresh() == 0 and len(tried) == 2, "it rests"
    assert f"the model of {KIND} {tried[0]} stays as it is" in caplog.text


@pytest.mark.parametrize("broken", ["{", "[]", '{"version": 2}', '{"version": 1, "provenance": {}, "model": {}}'])
def test_a_file_that_cannot_be_read_is_left_out(folder: Path, broken: str, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "another.json").write_text(broken)
    assert [one.model.model_name for one in shipped.shipped_list()] == [SOURCE]
    assert "another.json is left out" in caplog.text


def test_the_page_the_api_and_the_words_of_an_offer_tell_of_it(
    folder: Path, people: SimpleNamespace, node_make: Callable[..., Any], settings: Any
) -> None:
    node_make("node-1")
    client = Client()
    client.force_login(people.admin)

    def page(place: str) -> str:
        return " ".join(client.get(place).content.decode().split())

    text = page("/pool/calibration/")
    assert "Calibrations that ship with the harness" in text and "An idle machine." in text
    assert (
        f'<td data-label="Stands in for">{HERE}</td>' in text
        and "a model that was calibrated, rest on a calibration that ships" in text
    )
    assert "rest on a calibration that ships" in page("/accuracy/")
    told = client.get("/api/v1/pool/calibration").json()["shipped"]
    assert [(one["model_name"], one["stands_for"]) for one in told] == [(SOURCE, [HERE])]
    settings.SHIPPED_CALIBRATIONS = False
    assert "Calibrations that ship" not in page("/pool/calibration/")
    assert client.get("/api/v1/pool/calibration").json()["shipped"] == []


def test_the_page_of_a_kind_of_device_says_that_nothing_is_fitted_to_it(folder: Path, people: SimpleNamespace) -> None:
    finish(1.0, 2)
    model_correct(KIND, HERE)
    client = Client()
    client.force_login(people.admin)
    text = " ".join(client.get("/pool/calibration/").content.decode().split())
    assert f"Steps come from a calibration of {SOURCE} (40 points) that ships with the harness" in text
    assert f"Peaks are added up as in a calibration of {SOURCE}" in text and "shipped" in text
