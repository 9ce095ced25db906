"""What a run left, by `dlh`: logs, results, program and weights."""

from __future__ import annotations

import json
import time
import zipfile
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings

from harness.jobs import logs
from harness.jobs.models import JobAttempt, JobEvent
from tests.harness.api.conftest import RESULTS
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


def test_logs_are_printed_searched_and_followed(dlh: Dlh, ended_job: Any) -> None:
    assert dlh("logs", ended_job.pk).out.splitlines()[0] == "line 1"
    assert dlh("logs", ended_job.pk, "--grep", "LINE 3").out == "line 3\n"
    assert dlh("logs", ended_job.pk, "--level", "error").out == "Error: no\n"
    for more in ((), ("--follow",)):
        refused = dlh("logs", ended_job.pk, "--level", "loud", *more)
        assert refused.code == 2 and "info, warning or error" in refused.err.replace("\n", " ")
    assert dlh("logs", ended_job.pk, "-n", 2).out == "line 7\nError: no\n"
    assert len(dlh("logs", ended_job.pk, "-f").out.splitlines()) == 8
    lines = [json.loads(line) for line in dlh("logs", ended_job.pk, "--json").out.splitlines()]
    assert lines[0] == {"token": 1, "rank": 0, "line": 1, "text": "line 1", "level": "info"}


def test_a_search_for_which_the_portal_takes_too_long_at_once_goes_on_to_the_last_line(
    dlh: Dlh, ended_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = "".join(f"line {number}\n" for number in range(1, 5500))
    django_settings.STORE.job(ended_job.pk).rank_log(1, 0).write_text(many)
    monkeypatch.setattr(logs, "_SEARCH_LIMIT_S", -1.0)
    assert dlh("logs", ended_job.pk, "--grep", "line 5432").out == "line 5432\n"
    assert dlh("logs", ended_job.pk, "--grep", "99", "-n", 2).out == "line 5399\nline 5499\n"
    assert dlh("logs", ended_job.pk, "--grep", "nowhere").out == ""


def test_results_are_a_table_or_all_of_it(dlh: Dlh, ended_job: Any) -> None:
    assert dlh("results", ended_job.pk, "--json").json == RESULTS
    assert "accuracy" in dlh("results", ended_job.pk).out


def test_results_are_rounded_and_have_units(dlh: Dlh, ended_job: Any) -> None:
    timing = {"train_s": 83.24567, "samples_per_s": 27104.8371, "parameters": 184394, "peak_bytes": 3 << 20}
    body = {**RESULTS, "metrics": {"test": {"macro_f1": 0.951234567, "rmse": 123456.789}}, "timing": timing}
    (django_settings.STORE.job(ended_job.pk).results / "results.json").write_text(json.dumps(body))
    out = dlh("results", ended_job.pk).out
    words = [" ".join(line.split()) for line in out.splitlines()]
    assert "macro f1 0.9512" in words and "rmse 123,457" in words
    assert "Training time 1 min 23 s" in words and "Throughput 27,105 samples/s" in words
    assert "Parameters 184,394" in words and "Memory per rank 3 MiB" in words
    assert dlh("results", ended_job.pk, "--json").json["timing"]["train_s"] == 83.24567


def test_what_a_program_of_a_persons_own_writes_in_place_of_figures_is_printed_as_it_is(
    dlh: Dlh, ended_job: Any
) -> None:
    metrics = {"final": 0.9, "test": {"accuracy": 0.951234567, "verdict": "good enough", "classes": ["a", "b"]}}
    odd: dict[str, Any] = {"timing": {"train_s": "a minute", "peak_bytes": None}, "charts": [3, {"kind": "intervals"}]}
    path = django_settings.STORE.job(ended_job.pk).results / "results.json"
    path.write_text(json.dumps({**RESULTS, "metrics": metrics, **odd}))
    told = dlh("results", ended_job.pk)
    words = [" ".join(line.split()) for line in told.out.splitlines()]
    assert told.code == 0 and "accuracy 0.9512" in words and "verdict good enough" in words
    assert "Train s a minute" in words and not any(line.startswith("final") for line in words)
    path.write_text(json.dumps({"metrics": 3, "timing": [1], "charts": [], "notes": "none"}))
    assert dlh("results", ended_job.pk).code == 0


def test_results_of_emulated_devices_are_named_so(dlh: Dlh, ended_job: Any) -> None:
    assert "Emulated" not in dlh("results", ended_job.pk).out
    plan = {"ranks": [{"node": "n1", "device": "cpu:0", "slowdown": 3.0}]}
    JobAttempt.objects.create(job=ended_job, number=1, plan=plan)
    for command in ("results", "show"):
        assert "Emulated devices n1 cpu:0 3 times" in " ".join(dlh(command, ended_job.pk).out.split())


def test_the_mode_of_the_run_is_told_where_the_scheduler_gave_it_another(dlh: Dlh, ended_job: Any) -> None:
    plan = {"mode": "sync", "ranks": [{"rank": 0}, {"rank": 1}]}
    JobAttempt.objects.create(job=ended_job, number=1, plan=plan, world_size=2)
    assert "Mode sync (the scheduler gave it 2 ranks)" in " ".join(dlh("show", ended_job.pk).out.split())


def test_results_tell_how_rows_were_split(dlh: Dlh, ended_job: Any) -> None:
    assert "Split" not in dlh("results", ended_job.pk).out
    path = django_settings.STORE.job(ended_job.pk).results / "results.json"
    path.write_text(json.dumps({**RESULTS, "split": "In the order of 'day'."}))
    assert "Split In the order of 'day'." in " ".join(dlh("results", ended_job.pk).out.split())


@pytest.mark.parametrize(("notes", "shown"), [(["It is sure.", "Too sure."], True), ([], False), ("odd", False)])
def test_results_tell_what_the_run_noted_of_its_model(dlh: Dlh, ended_job: Any, notes: Any, shown: bool) -> None:
    path = django_settings.STORE.job(ended_job.pk).results / "results.json"
    path.write_text(json.dumps({**RESULTS, "notes": notes}))
    assert ("Notes It is sure. Too sure." in " ".join(dlh("results", ended_job.pk).out.split())) is shown


def test_a_job_is_shown_with_what_its_newest_attempt_noted(dlh: Dlh, ended_job: Any) -> None:
    ended_job.refresh_from_db()
    token = ended_job.token
    for number, message, data in ((token, "New.", {"rank": 0}), (token, "Ours.", {}), (token + 1, "Old.", {"rank": 0})):
        JobEvent.objects.create(job=ended_job, kind="note", token=number, message=message, data=data)
    text = " ".join(dlh("show", ended_job.pk).out.split())
    assert "Told by the run New. Page" in text


@pytest.mark.parametrize(("ranges", "shown"), [({"said": "90 % of rows."}, True), ({}, False), ("odd", False)])
def test_results_tell_of_the_ranges_of_predictions(dlh: Dlh, ended_job: Any, ranges: Any, shown: bool) -> None:
    path = django_settings.STORE.job(ended_job.pk).results / "results.json"
    path.write_text(json.dumps({**RESULTS, "ranges": ranges}))
    assert ("Ranges 90 % of rows." in " ".join(dlh("results", ended_job.pk).out.split())) is shown


def test_results_tell_where_the_model_is_weak_and_what_it_goes_by(dlh: Dlh, ended_job: Any) -> None:
    groups = [["city", f"c{at}", 0.7 + at / 100, 0.65, 0.75, 1200] for at in range(7)]
    names = ["feature", "values", "accuracy", "low", "high", "rows"]
    charts = [
        {"id": "error_by_feature", "title": "Accuracy by group", "kind": "intervals", "columns": names, "rows": groups},
        {"title": "Importance [/] of inputs", "kind": "intervals", "columns": ["input", "importance", "low", "high"],
         "rows": [["age", 0.123456, 0.1, None], ["short"], 5]},
        {"title": "Odd", "kind": "intervals", "columns": "low", "rows": 5},
        "odd",
    ]  # fmt: skip
    path = django_settings.STORE.job(ended_job.pk).results / "results.json"
    path.write_text(json.dumps({**RESULTS, "charts": charts}))
    words = [" ".join(line.split()) for line in dlh("results", ended_job.pk).out.splitlines()]
    assert "Accuracy by group, 5 of 7" in words and "city c0 0.7 0.65 0.75 1,200" in words
    assert "city c4 0.74 0.65 0.75 1,200" in words and not any("c5" in line for line in words)
    assert "Importance [/] of inputs" in words and "age 0.123 0.1" in words


def test_program_and_weights_are_downloaded(dlh: Dlh, ended_job: Any, tmp_path: Path) -> None:
    files = dlh("download", ended_job.pk, "--program", "--weights", "--out", tmp_path / "d", "--json").json["files"]
    assert {Path(file).suffix for file in files} == {".zip", ".safetensors"}
    assert (tmp_path / "d" / f"{ended_job.pk}.safetensors").read_bytes() == b"weights"
    assert len(dlh("download", ended_job.pk, "--weights", "--out", tmp_path / "e").out.splitlines()) == 1


def test_the_model_with_its_program_is_downloaded_where_no_form_is_named(
    dlh: Dlh, ended_job: Any, tmp_path: Path
) -> None:
    for named in ((), ("--model",)):
        (file,) = dlh("download", ended_job.pk, *named, "--out", tmp_path, "--json").json["files"]
        assert Path(file).name == f"model-{ended_job.pk}.zip"
    with zipfile.ZipFile(file) as archive:
        (weights,) = [name for name in archive.namelist() if name.endswith("/model.safetensors")]
        assert weights.split("/") == [f"model-{ended_job.pk}", "work", "results", "model.safetensors"]
        assert archive.read(weights) == b"weights"
    files = dlh("download", ended_job.pk, "--with-data", "--out", tmp_path, "--json").json["files"]
    assert {Path(file).name for file in files} == {f"program-{ended_job.pk}.zip", f"{ended_job.pk}.safetensors"}
    refused = dlh("download", ended_job.pk, "--model", "--checkpoint", "step-00000010", "--out", tmp_path)
    assert refused.code and "--model has the final weights" in refused.err


@pytest.fixture
def node_exports(ended_job: Any, node_make: Any, tasks_sent: list[Any], monkeypatch: Any) -> list[Any]:
    """A node that answers a request for the ONNX model with what the list holds."""
    from harness.client import calls
    from harness.jobs.exports import export_done

    node_make()
    django_settings.STORE.dataset(ended_job.dataset_sha256).packed.mkdir(parents=True, exist_ok=True)
    answers: list[Any] = []

    def answer(_: float) -> None:
        request = next(args[0] for name, args, _ in reversed(tasks_sent) if name == "node.export")
        folder = django_settings.STORE.job(ended_job.pk).export(request["export_id"])
        (folder / "model.onnx").write_bytes(b"model")
        export_done({"export_id": request["export_id"], **answers[0]})

    monkeypatch.setattr(calls, "time", SimpleNamespace(sleep=answer, monotonic=time.monotonic))
    return answers


def test_the_onnx_model_is_made_once_and_downloaded(
    dlh: Dlh, ended_job: Any, node_exports: list[Any], tasks_sent: list[Any], tmp_path: Path
) -> None:
    node_exports.append({"report": {"opset": 20}, "weights_sha256": sha256(b"weights").hexdigest()})
    for _ in range(2):
        (file,) = dlh("download", ended_job.pk, "--onnx", "--out", tmp_path, "--json").json["files"]
    with zipfile.ZipFile(file) as archive:
        assert archive.read(f"onnx-{ended_job.pk}/model.onnx") == b"model"
    assert [name for name, _, _ in tasks_sent].count("node.export") == 1


def test_a_checkpoint_is_downloaded_as_it_is_and_as_onnx(
    dlh: Dlh, ended_job: Any, node_exports: list[Any], tmp_path: Path
) -> None:
    name = "step-00000010"
    node_exports.append({"report": {"opset": 20}, "weights_sha256": sha256(b"state").hexdigest()})
    state = django_settings.STORE.job(ended_job.pk).checkpoint_state(name)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_bytes(b"state")
    asked = ("download", ended_job.pk, "--checkpoint", name, "--out", tmp_path, "--json")
    files = [Path(file) for file in dlh(*asked, "--weights", "--onnx").json["files"]]
    assert [file.name for file in files] == [f"{ended_job.pk}-{name}.pt", f"onnx-{ended_job.pk}-{name}.zip"]
    assert files[0].read_bytes() == b"state"
    with zipfile.ZipFile(files[1]) as archive:
        assert archive.read(f"onnx-{ended_job.pk}-{name}/model.onnx") == b"model"
    refused = dlh("download", ended_job.pk, "--checkpoint", "step-1", "--onnx")
    assert refused.code and "no checkpoint step-1" in refused.err.replace("\n", " ")


def test_why_a_model_has_no_onnx_form_is_told_and_the_weights_come_all_the_same(
    dlh: Dlh, ended_job: Any, node_exports: list[Any], tmp_path: Path
) -> None:
    node_exports.append({"problem": {"message": "model.py, line 7: it decides.", "hint": "Take it out."}})
    ended = dlh("download", ended_job.pk, "--onnx", "--out", tmp_path)
    assert ended.code == 2 and "model.py, line 7: it decides." in ended.err and "Take it out." in ended.err
    assert dlh("download", ended_job.pk, "--weights", "--out", tmp_path).code == 0
