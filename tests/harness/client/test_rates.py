"""`dlh lr-find` for jobs of a running portal and for programs in a folder."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.factory_rates import report_make
from tests.harness.client.conftest import Ended
from tests.worker.runtime.samples import program, wine

Dlh = Callable[..., Ended]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a node answer as soon as the test is asked for."""
    from harness.api.routes import rates
    from harness.rates.tasks import rate_range_done

    def answer(**more: Any) -> None:
        start = rates.services.rate_test_start

        def at_once(**asked: Any) -> Any:
            test = start(**asked)
            rate_range_done(report_make(test.pk, **more))
            return test

        monkeypatch.setattr(rates.services, "rate_test_start", at_once)

    return answer


@pytest.mark.usefixtures("portal")
def test_a_job_is_tested_and_its_centre_used(dlh: Dlh, job: Any, node_make: Any, answered: Any, tmp_path: Path) -> None:
    node_make("node-1")
    answered()
    ended = dlh("lr-find", job.pk, "--use", "centre", "--csv", str(tmp_path / "curve.csv"))
    assert ended.code == 0, ended.err
    assert "Usable peak learning rates" in ended.out and "Valley" in ended.out
    job.refresh_from_db()
    assert job.spec["training"]["learning_rate"] == job.rate_tests.get().used_rate
    assert len((tmp_path / "curve.csv").read_text().splitlines()) > 50
    shown = dlh("lr-find", job.pk, "--json")
    assert shown.json["low"] < shown.json["centre"] < shown.json["high"]


@pytest.mark.usefixtures("portal")
def test_a_test_that_says_nothing_ends_with_its_reason(dlh: Dlh, job: Any, node_make: Any, answered: Any) -> None:
    node_make("node-1")
    answered(problem={"code": "program_error", "message": "model.py, line 3: no", "hint": "Correct it."})
    ended = dlh("lr-find", job.pk)
    assert ended.code == 1
    assert "model.py, line 3: no" in ended.err and "Correct it." in ended.err


@pytest.mark.parametrize(
    "arguments", [("nosuchjob",), ("{job}", "--low", "-1"), ("{job}", "--device", "tpu"), ("{folder}",)]
)
@pytest.mark.usefixtures("portal")
def test_bad_input_ends_with_a_code(dlh: Dlh, job: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    ended = dlh("lr-find", *(part.format(job=job.pk, folder=folder) for part in arguments))
    assert ended.code in (2, 3)
    assert ended.err


def test_a_folder_is_tested_here_without_a_portal(dlh: Dlh, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    program(folder, wine(folder / "data"), model={"family": "mlp"})
    table = tmp_path / "curve.csv"
    ended = dlh("lr-find", str(folder), "--csv", str(table), "--json")
    assert ended.code == 0, ended.err
    found = ended.json
    assert found["low"] < found["centre"] < found["high"]
    assert found["optimizer"] == "AdamW"
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == len(found["curve"]) > 30
    refused = dlh("lr-find", str(folder), "--data", str(tmp_path / "nowhere"))
    assert refused.code == 1 and "needs the program's data" in refused.err
