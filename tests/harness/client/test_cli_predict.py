"""`dlh predict`: rows go to a job's model, and their answer comes back."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from harness.client.client import Client
from harness.client.errors import ApiError, Unreachable
from harness.jobs import services
from harness.jobs.models import Prediction
from tests.harness.client.conftest import Dlh

ROWS = [["iris"], ["rose"]] * 600
"""More predictions than one answer of the API shows."""
pytestmark = pytest.mark.usefixtures("portal")


@pytest.fixture
def answered(ended_job: Any, node_make: Any, monkeypatch: Any) -> None:
    """The node's part: an answer appears as soon as a prediction is asked for."""
    from harness.client import calls
    from harness.client import client as client_module

    node_make()
    monkeypatch.setattr(calls, "_POLL_S", 0.01)
    wait = client_module.Client._wait

    def answer(self: Any, path: str, *rest: Any) -> Any:
        prediction = Prediction.objects.get(state="waiting")
        folder = django_settings.STORE.job(ended_job.pk).prediction(prediction.pk)
        body = {"columns": ["kind"], "rows": ROWS, "ranges": "Nine in ten."}
        (folder / "output.json").write_text(json.dumps(body))
        Prediction.objects.update(state="done", rows=len(ROWS))
        return wait(self, path, *rest)

    monkeypatch.setattr(client_module.Client, "_wait", answer)


@pytest.mark.usefixtures("answered")
def test_a_prediction_is_waited_for_and_written(dlh: Dlh, ended_job: Any, flowers_csv: Path, tmp_path: Path) -> None:
    lines = ["kind", *(kind for (kind,) in ROWS)]
    answer = dlh("predict", ended_job.pk, flowers_csv)
    assert answer.out.splitlines() == lines and answer.err == "Nine in ten.\n"
    out = tmp_path / "out.csv"
    assert dlh("predict", ended_job.pk, flowers_csv, "--out", out, "--json").json["rows"] == len(ROWS)
    assert out.read_text().splitlines() == lines


@pytest.mark.usefixtures("answered")
def test_an_answer_that_was_damaged_on_its_way_is_brought_again_and_not_made_again(
    dlh: Dlh, ended_job: Any, flowers_csv: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    from harness.client.cli import predictions
    from harness.client.download import AGAIN, Damaged

    def damaged(*_: Any) -> None:
        raise Damaged("out.csv was damaged in transit and thrown away.", hint=AGAIN)

    monkeypatch.setattr(predictions, "answer_download", damaged)
    ended = dlh("predict", ended_job.pk, flowers_csv, "--out", tmp_path / "out.csv")
    see = f"`dlh predictions {ended_job.pk} {Prediction.objects.get().pk}`"
    words = " ".join(ended.err.split())
    assert "thrown away. Hint: The prediction is kept:" in words and see in words
    assert ended.code != 0 and "same command again" not in words


@pytest.mark.usefixtures("answered")
def test_the_answer_of_an_earlier_prediction_is_brought_again(
    dlh: Dlh, ended_job: Any, flowers_csv: Path, tmp_path: Path
) -> None:
    lines = ["kind", *(kind for (kind,) in ROWS)]
    made = dlh("predict", ended_job.pk, flowers_csv, "--json").json["id"]
    again = dlh("predictions", ended_job.pk, made)
    assert again.out.splitlines() == lines and again.err == "Nine in ten.\n"
    out = tmp_path / "again.csv"
    assert dlh("predictions", ended_job.pk, made, "--out", out, "--json").json["out"] == str(out)
    assert out.read_text().splitlines() == lines
    for words, said in (
        (("--out", out), "Which prediction"),
        ((made, "--delete", made), "--delete brings no answer"),
        ((made, "--out", tmp_path / "again.jsonl"), "is not written"),
    ):
        refused = dlh("predictions", ended_job.pk, *words)
        assert refused.code == 2 and said in refused.err
    Prediction.objects.update(state="waiting")
    waits = dlh("predictions", ended_job.pk, made)
    assert waits.code == 2 and "is not ready" in waits.err
    assert dlh("predictions", ended_job.pk, "no-such-one").code == 3


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize(("suffix", "is_own"), [("csv", True), ("txt", False)])
def test_a_file_that_ends_as_the_input_is_the_input_with_the_answer(
    dlh: Dlh, ended_job: Any, flowers_csv: Path, tmp_path: Path, monkeypatch: Any, suffix: str, is_own: bool
) -> None:
    prediction_create = services.prediction_create

    def create(**asked: Any) -> Any:
        made = prediction_create(**asked)
        folder = django_settings.STORE.job(ended_job.pk).prediction(made.pk)
        (folder / "output-answered.csv").write_text("own;kind\n")
        return made

    monkeypatch.setattr(services, "prediction_create", create)
    out = tmp_path / f"out.{suffix}"
    assert dlh("predict", ended_job.pk, flowers_csv, "--out", out).code == 0
    assert (out.read_text() == "own;kind\n") == is_own


@pytest.mark.usefixtures("answered")
def test_no_csv_is_written_to_a_file_that_ends_as_an_input_of_another_kind(
    dlh: Dlh, ended_job: Any, flowers_csv: Path, tmp_path: Path, tasks_sent: list[Any]
) -> None:
    out = tmp_path / "out.jsonl"
    refused = dlh("predict", ended_job.pk, flowers_csv, "--out", out)
    assert refused.code == 2 and "node.predict" not in {name for name, *_ in tasks_sent}
    assert "out.jsonl is not written" in refused.err and "--out out.csv" in refused.err
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"a": 1}\n')
    refused = dlh("predict", ended_job.pk, lines, "--out", out)  # of a job of before, which has no file of its own
    assert refused.code == 2 and "of jobs of an earlier release" in refused.err
    assert not out.exists()
    assert dlh("predict", ended_job.pk, lines, "--out", out.with_suffix(".csv")).code == 0


@pytest.mark.usefixtures("answered")
def test_a_prediction_is_asked_for_with_a_threshold(
    dlh: Dlh, ended_job: Any, flowers_csv: Path, tasks_sent: list[Any]
) -> None:
    assert dlh("predict", ended_job.pk, flowers_csv, "--threshold", "iris=0.3").code == 0
    (request,) = (args[0] for name, args, _ in tasks_sent if name == "node.predict")
    assert request["threshold"] == "iris=0.3"


@pytest.mark.usefixtures("answered")
def test_a_forecast_needs_no_file(dlh: Dlh, ended_job: Any, tasks_sent: list[Any], tmp_path: Path) -> None:
    refused = dlh("predict", ended_job.pk)
    assert refused.code == 2 and "no forecast" in refused.err
    type(ended_job).objects.filter(pk=ended_job.pk).update(task="forecast")
    assert dlh("predict", ended_job.pk, "--out", tmp_path / "out.csv").code == 0
    (request,) = (args[0] for name, args, _ in tasks_sent if name == "node.predict")
    assert request["from_end"] is True
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "kind"


@pytest.mark.parametrize(("cause", "code"), [("bad_input", 2), ("program_error", 1)])
def test_a_prediction_ends_with_the_code_for_input_only_where_that_is_at_fault(
    dlh: Dlh, monkeypatch: Any, ended_job: Any, flowers_csv: Path, cause: str, code: int
) -> None:
    problem = {"code": cause, "message": "column missing from the input: petal_width", "hint": "Add it."}
    monkeypatch.setattr(Client, "prediction_ask", lambda *_, **__: {"id": "p", "state": "waiting"})
    failed = {"id": "p", "state": "failed", "problem": problem}
    monkeypatch.setattr(Client, "prediction_wait", lambda *_, **__: failed)
    ended = dlh("predict", ended_job.pk, flowers_csv)
    assert ended.code == code and "petal_width" in ended.err
    assert dlh("predict", ended_job.pk, flowers_csv, "--json").json["error"]["code"] == "prediction_failed"


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize("moment", ["Client._wait", "cli.predictions.answer_download"])
def test_whoever_interrupts_a_prediction_is_told_how_to_see_it(
    dlh: Dlh, ended_job: Any, flowers_csv: Path, tmp_path: Path, monkeypatch: Any, moment: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        where = "harness.client.client." if moment.startswith("Client") else "harness.client."
        patch.setattr(where + moment, interrupted)
        ended = dlh("predict", ended_job.pk, flowers_csv, "--out", tmp_path / "out.csv")
    made = Prediction.objects.get()
    see = f"`dlh predictions {ended_job.pk} {made.pk}`"
    assert ended.code == 130 and f"The prediction is kept: {see} has its answer once it is made." in ended.err
    assert ended.err.count("Interrupted.") == 1 and not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("error", "code", "is_there"),
    [
        (Unreachable("The portal does not answer."), 4, True),
        (ApiError(503, {"message": "The database does not answer.", "hint": "Try again."}), 4, True),
        (ApiError(404, {"message": "There is no such prediction."}), 3, False),
    ],
    ids=["away", "failing", "gone"],
)
def test_a_prediction_is_named_where_the_portal_goes_away_meanwhile(
    dlh: Dlh, ended_job: Any, node_make: Any, flowers_csv: Path, monkeypatch: Any, error: Any, code: int, is_there: bool
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise error

    node_make()
    monkeypatch.setattr(Client, "_wait", away)
    ended = dlh("predict", ended_job.pk, flowers_csv)
    made = Prediction.objects.get()
    named = f"`dlh predictions {ended_job.pk} {made.pk}` has its answer once it is made."
    assert ended.code == code and (named in ended.err) == is_there


@pytest.mark.usefixtures("answered")
def test_a_prediction_is_named_where_the_disk_has_no_room_for_its_answer(
    dlh: Dlh, ended_job: Any, flowers_csv: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("harness.client.download.Path.replace", full)
    ended = dlh("predict", ended_job.pk, flowers_csv, "--out", tmp_path / "out.csv")
    see = f"`dlh predictions {ended_job.pk} {Prediction.objects.get().pk}` has its answer"
    assert ended.code == 2 and "No space left on device" in ended.err and see in ended.err


@pytest.mark.usefixtures("answered")
def test_rows_are_predicted_from_python_without_a_file(client: Client, ended_job: Any) -> None:
    rows = [{"petal_length": 1.5, "note": None}]
    found = client.predict(ended_job.pk, rows)
    assert found["state"] == "done" and found["output"]["rows"][0] == ROWS[0]
    asked = next(django_settings.STORE.job(ended_job.pk).prediction(found["id"]).glob("input*"))
    assert json.loads(asked.read_text()) == rows
