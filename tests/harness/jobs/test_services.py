from __future__ import annotations

import contextlib
import io
import json
import threading
import zipfile

import pytest
from django.conf import settings
from django.db import OperationalError, connection

from harness.accounts.models import Scope
from harness.accounts.selectors import token_find
from harness.accounts.services import token_create
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs import programs, selectors, services
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Checkpoint, Job, JobEvent, MetricPoint, Prediction
from tests.harness.jobs.helpers import event, place_now, queue, run_now

pytestmark = pytest.mark.django_db
OWN_MODEL = "import torch\n\n\ndef build(spec):\n    return torch.nn.Linear(3, spec.shape.outputs)\n"

WRITES = {
    "spec_update": lambda user, job: services.job_spec_update(user=user, job=job, spec={}),
    "file_write": lambda user, job: services.program_file_write(user=user, job=job, name="model.py", text="x = 1\n"),
    "reset": lambda user, job: services.program_reset(user=user, job=job),
    "submit": lambda user, job: services.job_submit(user=user, job=job),
    "cancel": lambda user, job: services.job_cancel(user=user, job=job),
    "clone": lambda user, job: services.job_clone(user=user, job=job),
    "update": lambda user, job: services.job_update(user=user, job=job, notes="x"),
    "restore": lambda user, job: services.job_restore(user=user, job=job),
}


@pytest.mark.parametrize("name", WRITES)
def test_outsiders_get_not_found_viewers_forbidden_and_mates_may(name, job, people):
    write = WRITES[name]
    with pytest.raises(NotFound):
        write(people.outsider, job)
    with pytest.raises(Forbidden):
        write(people.viewer, job)
    write(people.mate, job)


@pytest.mark.parametrize("name", ["pause", "resume", "delete", "predict", "check"])
def test_outsiders_and_viewers_are_kept_from_the_rest(name, job, people):
    write = {
        "pause": lambda user: services.job_pause(user=user, job=job),
        "resume": lambda user: services.job_resume(user=user, job=job),
        "delete": lambda user: services.job_delete(user=user, job=job),
        "predict": lambda user: services.prediction_create(user=user, job=job, input_name="a.csv", data=b"a\n1\n"),
        "check": lambda user: services.program_check(user=user, job=job),
    }[name]
    with pytest.raises(NotFound):
        write(people.outsider)
    with pytest.raises(Forbidden):
        write(people.viewer)


def test_only_the_owner_or_an_admin_deletes(job, people):
    with pytest.raises(Forbidden):
        services.job_delete(user=people.mate, job=job)
    services.job_delete(user=people.owner, job=job)
    assert job.deleted_at
    services.job_restore(user=people.mate, job=job)
    assert job.deleted_at is None


def test_reading_is_for_members_only(job, people):
    assert selectors.job_get(user=people.viewer, job_id=job.pk) == job
    for stranger in (people.outsider,):
        with pytest.raises(NotFound):
            selectors.job_get(user=stranger, job_id=job.pk)
        assert selectors.job_list(user=stranger).total == 0


def test_a_read_token_reads_only(job, people):
    _, text = token_create(user=people.owner, name="t", scope=Scope.READ)
    user = token_find(text).user
    assert selectors.job_get(user=user, job_id=job.pk) == job
    with pytest.raises(Forbidden):
        services.job_submit(user=user, job=job)


def test_a_draft_has_a_program_on_disk_and_a_resolved_spec(job):
    names = [file["name"] for file in selectors.program_files(job)]
    assert names == ["model.py", "data.py", "train.py", "predict.py", "spec.yaml", "README.md"]
    assert "auto" not in json.dumps(job.resolved["spec"]["training"])
    assert job.task == "tabular_classification"
    assert job.family and job.metric_name and job.program_sha256 and not job.program_edited
    assert job.suggestions[0]["rank"] == 1


def test_a_wrong_spec_names_the_field_and_leaves_nothing(people, dataset):
    before = set(settings.STORE.jobs.iterdir()) if settings.STORE.jobs.is_dir() else set()
    with pytest.raises(Invalid) as caught:
        services.job_create(
            user=people.owner, project=people.project, dataset=dataset, spec={"training": {"epochs": -1}}
        )
    assert caught.value.field == "training.epochs"
    assert not Job.objects.exists()
    assert (set(settings.STORE.jobs.iterdir()) if settings.STORE.jobs.is_dir() else set()) == before


def test_spec_check_tells_all_problems_and_raises_none(people, dataset):
    answer = services.spec_check(user=people.owner, spec="tasc: x\ntraining: {epochs: many}\n", dataset=dataset)
    assert {problem["field"] for problem in answer["problems"]} == {"tasc", "training.epochs"}
    good = services.spec_check(user=people.owner, spec={}, dataset=dataset)
    assert good["problems"] == [] and good["resolved"]["spec"]["task"] == "tabular_classification"


def test_an_edited_program_is_marked_shown_as_diff_and_can_be_put_back(job, people):
    text = selectors.program_files(job)[0]["text"]
    services.program_file_write(user=people.owner, job=job, name="model.py", text=text + "# mine\n")
    services.program_file_write(user=people.owner, job=job, name="extra.py", text="x = 1")
    assert job.program_edited
    diff = selectors.program_diff(job)
    assert "+# mine" in diff and "program/extra.py" in diff
    services.program_reset(user=people.owner, job=job, name="extra.py")
    services.program_reset(user=people.owner, job=job)
    assert not job.program_edited and selectors.program_diff(job) == ""


@pytest.mark.parametrize(
    "name", ["../x.py", "/etc/x.py", "a/b.py", ".hidden.py", "x.sh", "worker.py", "x.py\0", "", "..", "x.PY"]
)
def test_a_program_takes_no_odd_file_names(name, job, people):
    with pytest.raises(Invalid):
        services.program_file_write(user=people.owner, job=job, name=name, text="x = 1")


@pytest.mark.parametrize("text", ["x" * (2 << 20), "a\0b", "\ud800"])
def test_a_program_takes_no_odd_texts(text, job, people):
    with pytest.raises(Invalid):
        services.program_file_write(user=people.owner, job=job, name="model.py", text=text)


def test_a_program_that_does_not_parse_is_not_submitted(job, people):
    services.program_file_write(user=people.owner, job=job, name="model.py", text="def build(spec:\n    pass\n")
    with pytest.raises(Invalid) as caught:
        services.job_submit(user=people.owner, job=job)
    assert caught.value.details["file"] == "model.py" and caught.value.details["line"] == 1
    job.refresh_from_db()
    assert job.state == "draft"


def test_a_submitted_job_cannot_be_edited(job, people):
    queue(job)
    with pytest.raises(Conflict, match="queued"):
        services.program_file_write(user=people.owner, job=job, name="model.py", text="x = 1")
    with pytest.raises(Conflict):
        services.job_spec_update(user=people.owner, job=job, spec={})


@pytest.mark.django_db(transaction=True)
def test_no_edit_slips_into_a_job_that_is_submitted_at_the_same_moment(job, people, tasks_sent, monkeypatch):
    """What is edited runs at the level of edited programs: a file must not come after the mark was looked at."""
    writes, submitted = programs.file_write, threading.Event()
    threads = []

    def submit():
        try:
            services.job_submit(user=people.mate, job=Job.objects.get(pk=job.pk))
        finally:
            submitted.set()
            connection.close()

    def write_late(*args):
        threads.append(threading.Thread(target=submit))
        threads[0].start()
        submitted.wait(0.5)  # it must not get through
        writes(*args)

    monkeypatch.setattr(programs, "file_write", write_late)
    with contextlib.suppress(Conflict):
        services.program_file_write(user=people.owner, job=job, name="extra.py", text="x = 1\n")
    threads[0].join()
    job.refresh_from_db()
    assert job.state == "queued"
    assert job.program_edited == programs.program_is_edited(settings.STORE.job(job.pk)) is True


def test_a_job_in_the_trash_is_neither_submitted_nor_resumed(job, people):
    stale = Job.objects.get(pk=job.pk)
    services.job_delete(user=people.owner, job=job)
    with pytest.raises(Conflict, match="trash"):
        services.job_submit(user=people.owner, job=stale)
    with pytest.raises(Conflict, match="trash"):
        services.job_resume(user=people.owner, job=stale)


def test_own_code_is_refused_where_no_node_shuts_it_in_well_enough(job_make, people, node_make):
    node_make(level=0)
    own = job_make(own_model=OWN_MODEL)
    assert own.program_own and own.family == "own"
    with pytest.raises(Conflict, match="sandbox level 1") as caught:
        services.job_submit(user=people.owner, job=own)
    assert caught.value.code == "sandbox_too_weak"


def test_a_clone_keeps_spec_edits_and_own_model(job_make, people):
    first = job_make(own_model=OWN_MODEL, training={"epochs": 3})
    services.program_file_write(user=people.owner, job=first, name="extra.py", text="x = 1\n")
    clone = services.job_clone(user=people.mate, job=first)
    assert (clone.owner, clone.parent, clone.state) == (people.mate, first, "draft")
    files = {file["name"]: file["text"] for file in selectors.program_files(clone)}
    assert files["model.py"] == OWN_MODEL and files["extra.py"] == "x = 1\n"
    assert clone.program_edited and clone.resolved["spec"]["training"]["epochs"] == 3


def test_a_new_spec_makes_a_new_program_and_keeps_edits(job, people):
    services.program_file_write(user=people.owner, job=job, name="README.md", text="mine\n")
    services.job_spec_update(user=people.owner, job=job, spec={"training": {"epochs": 7}, "name": "Seven"})
    files = {file["name"]: file["text"] for file in selectors.program_files(job)}
    assert files["README.md"] == "mine\n" and "epochs: 7" in files["spec.yaml"]
    assert (job.name, job.epochs) == ("Seven", 7)


def test_the_zip_holds_program_and_runtime_and_is_the_same_each_time(job):
    body = b"".join(selectors.program_zip(job))
    assert body == b"".join(selectors.program_zip(job))
    names = zipfile.ZipFile(io.BytesIO(body)).namelist()
    assert f"program-{job.pk}/train.py" in names
    assert f"program-{job.pk}/worker/runtime/run.py" in names
    assert not any("/data/" in name for name in names)


def test_the_zip_with_data_holds_what_the_program_trains_on(job):
    packed = selectors.data_file(job)
    body = b"".join(selectors.program_zip(job, with_data=True))
    assert zipfile.ZipFile(io.BytesIO(body)).read(f"program-{job.pk}/data/{packed.name}") == packed.read_bytes()
    packed.unlink()
    with pytest.raises(NotFound, match="not there any more"):
        b"".join(selectors.program_zip(job, with_data=True))


def test_cancel_pause_and_resume_do_what_the_state_allows(job, people, node_make):
    with pytest.raises(Conflict, match="draft cannot be paused"):
        services.job_pause(user=people.owner, job=job)
    queue(job)
    assert services.job_pause(user=people.owner, job=job).state == "paused"
    assert services.job_pause(user=people.owner, job=job).state == "paused"
    assert services.job_resume(user=people.owner, job=job).state == "queued"
    assert services.job_cancel(user=people.owner, job=job).state == "cancelled"
    assert services.job_cancel(user=people.owner, job=job).state == "cancelled"
    with pytest.raises(Conflict, match="no checkpoint"):
        services.job_resume(user=people.owner, job=job)


def test_a_running_job_is_told_to_stop(job, people, node_make, tasks_sent, django_capture_on_commit_callbacks):
    node_make()
    run_now(job)
    with django_capture_on_commit_callbacks(execute=True):
        assert services.job_pause(user=people.owner, job=job).state == "pausing"
        assert services.job_cancel(user=people.mate, job=job).state == "cancelling"
    sent = [(args, queue_name) for name, args, queue_name in tasks_sent if name == "node.stop"]
    assert sent == [([job.pk, 1, "pause"], "node.node-1"), ([job.pk, 1, "cancel"], "node.node-1")]
    events_apply(job.pk, [event(job, "exited", 1, outcome="failed", failure=None)])
    job.refresh_from_db()
    assert job.state == "cancelled"
    actors = JobEvent.objects.filter(job=job, new_state__in=["pausing", "cancelling"]).values_list(
        "actor__username", flat=True
    )
    assert list(actors) == ["owner", "mate"]


@pytest.mark.parametrize(("metric", "best"), [("accuracy", 0.8), ("rmse", 0.6)])
def test_last_and_best_values_are_those_of_the_history_that_a_job_goes_on_from(job, people, node_make, metric, best):
    node_make()
    run_now(job)
    Job.objects.filter(pk=job.pk).update(metric_name=metric)
    job.refresh_from_db()
    values = {5: 0.6, 10: 0.8, 15: None, 20: 0.95, 25: 0.1}
    key, later = f"val/{metric}", {25: {"rank1/idle_share": 0.5}}
    points = [
        event(job, "metric", seq, rank=0, step=step, epoch=0, values={key: value, **later.get(step, {})})
        for seq, (step, value) in enumerate(values.items(), 1)
    ]
    saved = {"name": "step-00000015", "step": 15, "epoch": 1, "metric": None, "bytes": 1, "best": False, "removed": []}
    events_apply(job.pk, [*points, event(job, "checkpoint", 20, rank=0, **saved)])
    events_apply(job.pk, [event(job, "exited", 1, outcome="failed", failure={"code": "nan_loss"})])
    resumed = services.job_resume(user=people.owner, job=job, checkpoint="step-00000015")
    assert (resumed.metric_best, resumed.last_values) == (best, {key: None})


def test_a_failed_job_goes_on_from_a_checkpoint_and_forgets_later_points(job, people, node_make):
    node_make()
    run_now(job)
    saved = {"name": "step-00000010", "step": 10, "epoch": 1, "bytes": 1, "best": True}
    points = [event(job, "metric", seq, rank=0, step=seq, epoch=0, values={"a": seq}) for seq in range(1, 16)]
    events_apply(job.pk, [*points, event(job, "checkpoint", 20, rank=0, **saved)])
    events_apply(job.pk, [event(job, "exited", 1, outcome="failed", failure={"code": "nan_loss"})])
    with pytest.raises(NotFound):
        services.job_resume(user=people.owner, job=job, checkpoint="step-00000099")
    resumed = services.job_resume(user=people.owner, job=job, checkpoint="step-00000010")
    assert (resumed.state, resumed.failure, resumed.finished_at) == ("queued", None, None)
    assert MetricPoint.objects.filter(job=job).count() == 10
    assert tick() == 1
    assert job.attempts.get(number=2).plan["resume_from"] == "step-00000010"


def test_a_succeeded_job_is_cloned_not_resumed(job, people, node_make):
    node_make()
    run_now(job)
    events_apply(job.pk, [event(job, "exited", 1, outcome="succeeded")])
    with pytest.raises(Conflict) as caught:
        services.job_resume(user=people.owner, job=job)
    assert "Clone" in caught.value.hint


@pytest.mark.parametrize(
    ("spec", "ranks"),
    [
        ({"resources": {"device": "cpu", "count": 2}, "mode": "single"}, [("cpu", 2)]),
        ({"resources": {"device": "cpu", "count": 2}, "mode": "sync"}, [("cpu", 1), ("cpu", 1)]),
        ({"resources": {"device": "cpu", "count": 1}}, [("cpu", 1)]),
        ({"resources": {"device": "cpu", "count": 2}}, [("cpu", 1), ("cpu", 1)]),
    ],
)
def test_devices_become_ranks_by_mode(spec, ranks, job_make, node_make):
    node_make()
    attempt = place_now(job_make(**spec))
    assert [(rank["device"], rank["threads"]) for rank in attempt.plan["ranks"]] == ranks
    assert attempt.allocations.count() == spec["resources"]["count"]


def test_a_job_that_waits_tells_why_and_its_place(job_make, node_make):
    node_make(cpus=1)
    first = queue(job_make(resources={"device": "cpu", "count": 1}))
    second = queue(job_make(resources={"device": "cpu", "count": 1}))
    assert tick() == 1
    second.refresh_from_db()
    assert second.waiting_code == "devices_busy" and "1 CPU core" in second.waiting_text
    assert selectors.queue_position(second) == 1
    first.refresh_from_db()
    assert selectors.queue_position(first) is None


def test_final_figures_come_from_the_results(job, node_make):
    node_make()
    run_now(job)
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True)
    charts = [{"id": "c", "columns": ["name", "n"], "rows": [["=1+1", -2.5], ["ok", None]]}]
    (results / "results.json").write_text(
        json.dumps({"metric": {"value_val": 0.9, "value_test": 0.8}, "charts": charts})
    )
    events_apply(job.pk, [event(job, "exited", 1, outcome="succeeded")])
    job.refresh_from_db()
    assert (job.metric_best, job.metric_test) == (0.9, 0.8)
    assert b"".join(selectors.job_chart_csv(job, "c")) == b"name,n\n'=1+1,-2.5\nok,\n"
    with pytest.raises(NotFound):
        selectors.job_chart_csv(job, "d")


def test_results_that_are_links_or_nonsense_are_refused_not_followed(job, node_make, tmp_path):
    node_make()
    run_now(job)
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (results / "results.json").symlink_to(secret)
    (results / "model.safetensors").symlink_to(secret)
    for read in (selectors.job_results, selectors.weights_path):
        with pytest.raises(Conflict):
            read(job)
    events_apply(job.pk, [event(job, "exited", 1, outcome="succeeded")])
    job.refresh_from_db()
    assert job.state == "succeeded" and job.metric_test is None


def test_predictions_are_asked_of_a_node_and_answered(
    job, people, node_make, tasks_sent, django_capture_on_commit_callbacks
):
    from harness.jobs.predictions import prediction_done, predictions_expire

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
        check_done({"check_id": check_id, "ok": True, "problem": None, "parameters": 10, "output_shape": [4, 2]})
    assert selectors.program_check_get(job, check_id)["parameters"] == 10
    assert JobEvent.objects.filter(job=job, kind="program").count() == 1
