"""The command line against a real stack."""

import csv
import json
import subprocess
import sys
import zipfile
from datetime import date, timedelta

import openpyxl
import pytest

from harness.datasets.samples import sample_file
from tests.e2e.people import client_environment
from tests.e2e.people import dlh as run

pytestmark = pytest.mark.stack


@pytest.fixture
def dlh(stack):
    def call(*arguments):
        done = run(client_environment(stack), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


def test_a_table_is_submitted_and_waited_for_in_one_command(dlh, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: wine from a shell\ntraining:\n  epochs: 3\n")
    table = sample_file("wine", tmp_path)
    job = json.loads(dlh("submit", spec, "--data", table, "--wait", "--json"))
    assert job["state"] == "succeeded"
    results = json.loads(dlh("results", job["id"], "--json"))
    assert results["task"] == "tabular_classification"
    assert {"error_by_feature", "importance"} <= {chart["id"] for chart in results["charts"]}
    told = dlh("results", job["id"])
    assert "Accuracy by group" in told and "Importance of inputs" in told
    assert any(row["id"] == job["id"] for row in _rows(json.loads(dlh("jobs", "--json"))))
    _predicts_as_onnx(dlh, job["id"], table, tmp_path / "onnx")
    name = results["classes"][-1]
    for threshold, every in (("0", True), ("1", False)):
        dlh("predict", job["id"], table, "--threshold", f"{name}={threshold}", "--out", tmp_path / "called.csv")
        assert all(row["prediction"] == name for row in _csv(tmp_path / "called.csv")) is every


def test_a_number_is_predicted_with_its_range_by_the_portal_and_by_the_onnx_model(dlh, tmp_path):
    spec, table = tmp_path / "spec.yaml", tmp_path / "heights.csv"
    spec.write_text("task: tabular_regression\ndata:\n  target: height\ntraining:\n  epochs: 2\n")
    lines = [f"{row * 7 % 301 / 10},{row % 13},{row * 7 % 301 / 5 + row * row % 17 / 10}" for row in range(300)]
    table.write_text("\n".join(["age,house,height", *lines]) + "\n")
    job = json.loads(dlh("submit", spec, "--data", table, "--wait", "--json"))
    ranges = json.loads(dlh("results", job["id"], "--json"))["ranges"]
    assert ranges["test"]["rows"] and "90 % of rows" in dlh("results", job["id"])
    out = tmp_path / "out.csv"
    assert json.loads(dlh("predict", job["id"], table, "--out", out, "--json"))["output"]["ranges"] == ranges["said"]
    _predicts_for_a_spreadsheet_as_for_a_csv(dlh, job["id"], table, tmp_path)
    by_onnx = _predicts_as_onnx(dlh, job["id"], table, tmp_path / "onnx")
    for row, other in zip(_csv(out), _csv(by_onnx), strict=True):
        ends = [float(row[name]) for name in ("prediction_low", "prediction", "prediction_high")]
        assert ends == sorted(ends) and ends[2] - ends[0] == pytest.approx(2 * ranges["half_widths"][0])
        assert float(other["prediction_low"]) == pytest.approx(ends[0], abs=0.01)


def test_a_series_is_forecast_from_its_end_and_from_newer_rows(dlh, tmp_path):
    spec, table, newer = tmp_path / "spec.yaml", tmp_path / "sold.csv", tmp_path / "newer.csv"
    spec.write_text("training:\n  epochs: 2\n")
    days = [date(2024, 1, 1) + timedelta(days=day) for day in range(122)]
    lines = [f"{day},{at + 10 * (at % 7)}" for at, day in enumerate(days)]
    table.write_text("\n".join(["day,sold", *lines[:120]]) + "\n")
    newer.write_text("\n".join(["day,sold", *lines[120:]]) + "\n")
    job = json.loads(dlh("submit", spec, "--data", table, "--wait", "--json"))
    results = json.loads(dlh("results", job["id"], "--json"))
    assert results["task"] == "forecast"
    assert {"back_test", "simple_forecasts", "error_by_step"} <= {chart["id"] for chart in results["charts"]}
    out = tmp_path / "out.csv"
    asked = json.loads(dlh("predict", job["id"], "--out", out, "--json"))
    assert asked["input_name"] == "end of the data"
    assert asked["output"]["history"]["rows"][-1][0] == "2024-04-29 00:00:00"
    rows = _csv(out)
    assert [row["day"] for row in rows][:2] == ["2024-04-30", "2024-05-01"] and len(rows) == 12
    assert all(float(row["low"]) < float(row["forecast"]) < float(row["high"]) for row in rows)
    dlh("predict", job["id"], newer, "--out", out)
    assert _csv(out)[0]["day"] == "2024-05-02"
    (archive,) = json.loads(dlh("download", job["id"], "--onnx", "--out", tmp_path / "onnx", "--json"))["files"]
    with zipfile.ZipFile(archive) as members:
        names = [name.rpartition("/")[2] for name in members.namelist()]
    assert {"model.onnx", "predict_onnx.py", "predict_table.py", "windows.py", "moments.py"} <= set(names)


def _csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _predicts_for_a_spreadsheet_as_for_a_csv(dlh, job_id, table, folder):
    book, sheet = openpyxl.Workbook(), folder / "rows.xlsx"
    rows = _csv(table)
    names = list(rows[0])[:-1]
    for row in (names, *([float(row[name]) for name in names] for row in rows)):
        book.active.append(row)
    book.save(sheet)
    answers = []
    for given in (table, sheet):
        dlh("predict", job_id, given, "--out", folder / "answer.txt")
        answers.append(_csv(folder / "answer.txt"))
    assert len(answers[1]) == len(rows)
    for by_csv, by_sheet in zip(*answers, strict=True):
        assert float(by_csv["prediction"]) == pytest.approx(float(by_sheet["prediction"]), abs=1e-4)


def _predicts_as_onnx(dlh, job_id, table, folder):
    """The node exports the model in its sandbox, and the zip's own script predicts for the table it was trained on; the
    predictions."""
    (archive,) = json.loads(dlh("download", job_id, "--onnx", "--out", folder, "--json"))["files"]
    with zipfile.ZipFile(archive) as members:
        members.extractall(folder)
    script, out = folder / f"onnx-{job_id}" / "predict_onnx.py", folder / "out.csv"
    command = [sys.executable, str(script), "--input", str(table), "--output", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == len(table.read_text().splitlines())
    return out


def _rows(body):
    return body["items"] if isinstance(body, dict) else body
