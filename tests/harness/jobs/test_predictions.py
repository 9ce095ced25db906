"""Predictions and checks of programs: asked of a node, and answered."""

from __future__ import annotations

import errno
import json
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from harness.errors import Conflict, Invalid, NoSpace, NotFound, TooMany
from harness.jobs import selectors, services
from harness.jobs.models import Checkpoint, Job, JobEvent, Prediction
from harness.jobs.predictions import ANSWER_LIMIT_S, FROM_END, prediction_done, predictions_expire

pytestmark = pytest.mark.django_db


def test_predictions_are_asked_of_a_node_and_answered(
    job, people, node_make, tasks_sent, django_capture_on_commit_callbacks
):
    node_make()
    with pytest.raises(Conflict, match="no final weights"):
        services.prediction_create(user=people.mate, job=job, input_name="a.csv", data=b"a\n1\n")
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    with django_capture_on_commit_callbacks(execute=True):
        asked = services.prediction_create(
            user=people.mate, job=job, input_name="rows.CSV", data=b"a\n1\n", checkpoint="step-00000010"
        )
    (request,) = [args[0] for name, args, _ in tasks_sent if name == "node.predict"]
    folder = settings.STORE.job(job.pk).prediction(asked.pk)
    assert request["prediction_id"] == asked.pk and (folder / "input.csv").read_bytes() == b"a\n1\n"
    (folder / "output.json").write_text(json.dumps({"columns": ["kind"], "rows": [["iris"]]}))
    prediction_done({"prediction_id": asked.pk})
    prediction_done({"prediction_id": asked.pk, "problem": {"message": "late"}})
    found = selectors.prediction_get(user=people.viewer, job=job, prediction_id=asked.pk)
    assert (found.state, found.rows) == ("done", 1)
    assert b"".join(selectors.prediction_csv(found)) == b"kind\niris\n"
    assert predictions_expire() == 0
    with pytest.raises(Invalid):
        services.prediction_create(user=people.mate, job=job, input_name="a.exe", data=b"x", checkpoint="step-00000010")


@pytest.fixture
def prediction(job, people):
    made = Prediction.objects.create(job=job, owner=people.mate, input_name="rows.csv")
    folder = settings.STORE.job(job.pk).prediction(made.pk)
    folder.mkdir(parents=True)
    (folder / "output.json").write_text(json.dumps({"columns": ["kind"], "rows": [["iris"]]}))
    return made


def test_an_answer_that_comes_late_counts_and_only_the_first_one(prediction):
    Prediction.objects.update(created_at=timezone.now() - timedelta(seconds=ANSWER_LIMIT_S + 1))
    assert predictions_expire() == 1
    prediction.refresh_from_db()
    assert prediction.state == "failed" and prediction.problem["message"] == "No node answered in time."
    prediction_done({"prediction_id": prediction.pk})
    prediction_done({"prediction_id": prediction.pk, "problem": {"message": "once more"}})
    prediction.refresh_from_db()
    assert (prediction.state, prediction.rows, prediction.problem) == ("done", 1, None)
    assert predictions_expire() == 0


def test_an_output_that_a_disk_does_not_give_is_told_at_once(prediction, monkeypatch):
    def broken(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("harness.store.read_beneath", broken)
    prediction_done({"prediction_id": prediction.pk})
    prediction.refresh_from_db()
    assert prediction.state == "failed"
    assert prediction.problem["message"] == "The output could not be read: Input/output error."


@pytest.mark.parametrize(
    ("task", "name", "hint"),
    [
        ("tabular_regression", "rows.xls", "Save it as .xlsx, or the sheet as CSV. Rows are taken as .csv"),
        ("tabular_regression", "rows.csv.gz", "Unpack it first. Rows are taken as .csv"),
        ("tabular_regression", "rows.doc", "Rows are taken as .csv, .tsv, .json, .jsonl, .parquet, .xlsx or .ods."),
        ("image_classification", "cat.tiff", "Give a picture (.png, .jpg, .webp, .bmp, .gif), or a .zip of pictures."),
    ],
)
def test_a_file_that_is_refused_is_told_what_this_job_takes(job, people, task, name, hint):
    job.task = task
    with pytest.raises(Invalid) as refused:
        services.prediction_create(user=people.mate, job=job, input_name=name, data=b"x")
    assert refused.value.hint.startswith(hint)


def test_a_forecast_goes_on_from_the_end_of_the_data_without_an_input(
    job, people, node_make, tasks_sent, django_capture_on_commit_callbacks
):
    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    wish = {"user": people.mate, "job": job, "input_name": FROM_END, "data": b"", "checkpoint": "step-00000010"}
    with pytest.raises(Invalid, match="no forecast"):
        services.prediction_create(**wish)
    job.task = "forecast"
    with pytest.raises(Invalid, match="cannot be used as input"):
        services.prediction_create(**wish | {"data": b"a file of that name"})
    with django_capture_on_commit_callbacks(execute=True):
        asked = services.prediction_create(**wish)
    (request,) = [args[0] for name, args, _ in tasks_sent if name == "node.predict"]
    assert request["from_end"] is True
    assert not list(settings.STORE.job(job.pk).prediction(asked.pk).iterdir())


def test_output_that_is_too_large_to_be_shown_is_told_and_its_table_stays_to_be_downloaded(job, people, monkeypatch):
    from harness.jobs.predictions import prediction_done

    asked, shown = (
        Prediction.objects.create(id=f"p{n}", job=job, owner=people.mate, input_name="a.csv") for n in (1, 2)
    )
    for one in (asked, shown):
        folder = settings.STORE.job(job.pk).prediction(one.pk)
        folder.mkdir(parents=True)
        (folder / "output.json").write_text(json.dumps({"columns": ["kind"], "rows": [["iris"]] * 40}))
        (folder / "output.csv").write_text("kind\niris\n")
    prediction_done({"prediction_id": shown.pk})
    monkeypatch.setattr("harness.jobs.predictions._OUTPUT_VALUES_MAX", 50)
    prediction_done({"prediction_id": asked.pk})
    asked.refresh_from_db()
    shown.refresh_from_db()
    assert asked.state == "failed" and "output.json has more than 50 values" in asked.problem["message"]
    assert "fewer rows" in asked.problem["hint"]
    with pytest.raises(Conflict, match="too large to be shown"):
        selectors.prediction_output_get(shown)
    assert b"".join(selectors.prediction_csv(shown)) == b"kind\niris\n"


def test_a_table_of_one_line_without_end_is_read_in_parts(job, people, monkeypatch):
    monkeypatch.setattr("harness.jobs.results._CSV_LINE_LETTERS_MAX", 4)
    made = Prediction.objects.create(id="p1", job=job, owner=people.mate, input_name="a.csv", state="done")
    folder = settings.STORE.job(job.pk).prediction(made.pk)
    folder.mkdir(parents=True)
    (folder / "output.csv").write_text("a\n1,2,3,4,5\n")
    assert b"".join(selectors.prediction_csv(made)).split() == [b"a", b"1,2,", b"3,4,", b"5"]


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_nobody_is_asked_to_wait_for_the_weights_of_a_job_that_has_ended(job, people, state):
    def told() -> str:
        with pytest.raises(Conflict) as caught:
            services.prediction_create(user=people.mate, job=job, input_name="a.csv", data=b"a\n1\n")
        with pytest.raises(NotFound) as missed:
            selectors.weights_open(job)
        assert str(missed.value) == str(caught.value)
        return f"{caught.value.message} {caught.value.hint}"

    assert "Wait until it ends" in told()
    Job.objects.filter(pk=job.pk).update(state=state)
    job.refresh_from_db()
    assert told() == f"This job ended ({state}) without final weights. It has no checkpoint: submit a clone of it."
    for step in (10, 20):
        Checkpoint.objects.create(job=job, name=f"step-{step}", step=step, epoch=1)
    assert told().endswith("Name one of its checkpoints: step-20, step-10.")


def test_a_prediction_is_downloaded_with_its_input_and_without_formulas(job, people):
    found = Prediction.objects.create(id="p", job=job, owner=people.mate, input_name="rows.csv", state="done", rows=2)
    folder = settings.STORE.job(job.pk).prediction("p")
    folder.mkdir(parents=True)
    (folder / "output.json").write_text(json.dumps({"columns": ["row", "prediction"], "rows": [[1, -2.5], [2, 3.0]]}))
    assert b"".join(selectors.prediction_csv(found)) == b"row,prediction\n1,-2.5\n2,3.0\n"
    long_text = "x" * 200_000
    (folder / "output.csv").write_text(f"row,prediction,size,note\r\n1,-2.5,-7,=1+1\r\n2,3.0,+8e2,{long_text}\r\n")
    told = b"".join(selectors.prediction_csv(found)).decode()
    assert told == f"row,prediction,size,note\n1,-2.5,-7,'=1+1\n2,3.0,+8e2,{long_text}\n"
    (folder / "output.csv").unlink()
    (folder / "output.csv").symlink_to("/etc/passwd")
    assert b"".join(selectors.prediction_csv(found)).startswith(b"row,prediction\n1,")


def test_a_persons_own_file_comes_back_byte_for_byte_under_its_name(job, people):
    found = Prediction.objects.create(id="p", job=job, owner=people.mate, input_name="Own rows.CSV", state="done")
    folder = settings.STORE.job(job.pk).prediction("p")
    folder.mkdir(parents=True)
    assert not selectors.prediction_has_own(found)
    with pytest.raises(NotFound):
        selectors.prediction_own_open(found)
    (folder / "output-answered.csv").write_bytes(b"x;prediction\r\n=1+1;a")
    assert selectors.prediction_has_own(found)
    name, stream = selectors.prediction_own_open(found)
    with stream:
        assert (name, stream.read()) == ("Own rows-predicted.CSV", b"x;prediction\r\n=1+1;a")
    (folder / "output-answered.csv").unlink()
    (folder / "output-answered.csv").symlink_to("/etc/passwd")
    assert not selectors.prediction_has_own(found)


def test_inputs_of_predictions_leave_the_disks_reserve_alone(job, people, node_make, settings):
    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    settings.DISK_RESERVE_BYTES = 1 << 60
    with pytest.raises(NoSpace, match="reserve"):
        services.prediction_create(
            user=people.mate, job=job, input_name="a.csv", data=b"a\n1\n", checkpoint="step-00000010"
        )
    assert not Prediction.objects.exists()


def test_a_prediction_that_cannot_be_kept_leaves_no_folder(job, people, node_make, monkeypatch):
    def refuse(*_, **__):
        raise OperationalError("database or disk is full")

    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    monkeypatch.setattr(Prediction, "save", refuse)
    with pytest.raises(OperationalError):
        services.prediction_create(
            user=people.mate, job=job, input_name="a.csv", data=b"a\n1\n", checkpoint="step-00000010"
        )
    assert list(settings.STORE.job(job.pk).prediction("x").parent.iterdir()) == []


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("input.csv cannot be read: row 3.", "Birds of May.CSV cannot be read: row 3."),
        ("Row 2 of input.csv, not of my-input.csv or input.csvx", "Row 2 of {}, not of my-input.csv or input.csvx"),
        ("Column input is missing.", "Column input is missing."),
    ],
)
def test_a_failed_prediction_names_the_persons_own_file(job, people, node_make, told, shown):
    from harness.jobs.predictions import prediction_done

    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    asked = services.prediction_create(
        user=people.mate, job=job, input_name="Birds of May.CSV", data=b"a\n1\n", checkpoint="step-00000010"
    )
    prediction_done({"prediction_id": asked.pk, "problem": {"code": "bad_input", "message": told, "hint": None}})
    found = selectors.prediction_get(user=people.viewer, job=job, prediction_id=asked.pk)
    assert found.problem == {"code": "bad_input", "message": shown.format("Birds of May.CSV"), "hint": None}


def test_a_program_check_is_asked_and_answered_once(job, people, node_make):
    from harness.jobs.predictions import check_done

    node_make()
    check_id = services.program_check(user=people.owner, job=job)
    assert selectors.program_check_get(job, check_id) is None
    for _ in range(2):
        answer = {"ok": True, "problem": None, "parameters": 10, "output_shape": [4, 2], "notes": ["Sums to 1."]}
        check_done({"check_id": check_id, **answer})
    found = selectors.program_check_get(job, check_id)
    assert (found["parameters"], found["notes"]) == (10, ["Sums to 1."])
    assert JobEvent.objects.filter(job=job, kind="program").count() == 1


@pytest.mark.usefixtures("broker")
def test_a_program_check_tells_of_which_state_of_the_program_it_is_and_how_long_it_took(job, people, node_make):
    from harness.jobs.check_queue import check_begun, check_waiting, checks_took_s
    from harness.jobs.predictions import check_done

    node_make()
    assert check_waiting(job) is None and checks_took_s() is None and selectors.program_check_last(job) is None
    first, second = (services.program_check(user=people.owner, job=job) for _ in range(2))
    waiting = check_waiting(job)
    assert waiting is not None and (waiting[0], waiting[1].program_sha256) == (second, job.program_sha256)
    for check_id in (second, first):
        check_begun(check_id)
        check_done({"check_id": check_id, "ok": True})
    assert check_waiting(job) is None
    last = selectors.program_check_last(job)
    assert last is not None and (last[0]["check_id"], last[0]["program_sha256"]) == (first, job.program_sha256)
    took_s = checks_took_s()
    assert took_s is not None and 0 <= took_s[0] <= took_s[1]


def test_a_check_whose_answer_cannot_be_read_is_answered_with_that(job, people, node_make):
    from harness.jobs.predictions import check_done

    node_make()
    check_id, deep = services.program_check(user=people.owner, job=job), []
    for _ in range(100):
        deep = [deep]
    check_done({"check_id": check_id, "ok": True, "output_shape": deep})
    found = selectors.program_check_get(job, check_id)
    assert not found["ok"] and found["problem"]["message"].startswith("The answer cannot be read: nested deeper")


@pytest.mark.usefixtures("broker")
def test_a_program_check_says_which_other_it_waits_for(job, job_make, people, node_make):
    from harness.jobs.check_queue import check_begun, check_waits_for
    from harness.jobs.predictions import check_done

    node_make()
    other = job_make(name="endless")
    first, second = (services.program_check(user=people.owner, job=one) for one in (other, job))
    assert check_waits_for(job, second) == "", "nobody knows yet what the node is at"
    check_begun(first)
    assert check_waits_for(job, second) == "another check of endless"
    assert check_waits_for(other, first) == ""
    check_done({"check_id": first, "ok": True})
    assert check_waits_for(job, second) == ""
    check_begun(first)  # a word that comes late
    assert check_waits_for(job, second) == ""
    check_begun(second)
    assert check_waits_for(job, second) == ""


def test_one_person_has_a_limited_number_of_predictions_waiting(job, people, node_make, tasks_sent, settings):
    node_make()
    settings.PREDICTIONS_WAITING_MAX = 2
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)

    def ask(user):
        return services.prediction_create(
            user=user, job=job, input_name="a.csv", data=b"a\n1\n", checkpoint="step-00000010"
        )

    first, _ = ask(people.mate), ask(people.mate)
    with pytest.raises(TooMany, match="wait for an answer"):
        ask(people.mate)
    ask(people.owner)
    Prediction.objects.filter(pk=first.pk).update(state="done")
    ask(people.mate)


def test_one_person_asks_for_a_limited_number_of_trial_runs_in_a_minute(
    job, people, node_make, tasks_sent, monkeypatch
):
    from django.core.cache import cache

    cache.clear()
    node_make()
    monkeypatch.setattr("harness.jobs.pace.TRIALS_PER_MINUTE_MAX", 2)
    for _ in range(2):
        services.program_check(user=people.mate, job=job)
    with pytest.raises(TooMany):
        services.program_check(user=people.mate, job=job)
    services.program_check(user=people.owner, job=job)
    cache.clear()
    services.program_check(user=people.mate, job=job)


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_nobody_is_asked_to_wait_for_the_results_of_a_job_that_has_ended(job, state):
    def told() -> str:
        with pytest.raises(NotFound) as caught:
            selectors.job_results(job)
        return f"{caught.value.message} {caught.value.hint}"

    job.state = "running"
    assert told() == "There are no results yet. They are written at the end of the run."
    job.state = state
    assert told() == f"This job ended ({state}) without results. It has no checkpoint: submit a clone of it."
    Checkpoint.objects.create(job=job, name="step-10", step=10, epoch=1)
    assert told().endswith("Resume it from a checkpoint, or predict with one.")


def test_a_draft_is_to_be_submitted_before_there_are_results_and_weights(job):
    job.state = "draft"
    for read in (selectors.job_results, selectors.weights_open):
        with pytest.raises(NotFound) as caught:
            read(job)
        assert "draft" in caught.value.hint and "submit it" in caught.value.hint, read
