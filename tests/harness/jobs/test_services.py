"""Submit, stop and resume a job; what it becomes, waits for and ends with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codegen.catalog import FAMILIES
from harness.errors import Conflict, NotFound
from harness.jobs import selectors, services
from harness.jobs.control import found
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Job, JobEvent, MetricPoint
from harness.jobs.stopping import stop_message
from harness.rates.submitting import job_submit
from tests.harness.jobs.helpers import event, place_now, queue, run_now, stops

pytestmark = pytest.mark.django_db
OWN_MODEL = "import torch\n\n\ndef build(spec):\n    return torch.nn.Linear(3, spec.shape.outputs)\n"


def test_a_job_in_the_trash_is_neither_submitted_nor_resumed(job, people):
    stale = Job.objects.get(pk=job.pk)
    services.job_delete(user=people.owner, job=job)
    with pytest.raises(Conflict, match="trash"):
        job_submit(user=people.owner, job=stale)
    with pytest.raises(Conflict, match="trash"):
        services.job_resume(user=people.owner, job=stale)


def test_jobs_that_nobody_named_are_told_apart_by_a_number(job_make, dataset):
    names = [job_make(model={"family": "mlp"}).name for _ in range(3)]
    made = f"{dataset.name} · {FAMILIES['mlp'].word}"
    assert names == [made, f"{made} (2)", f"{made} (3)"]
    assert [job_make(name="mine").name for _ in range(2)] == ["mine", "mine"], "what a person says, holds"
    dataset.name = "x" * 119
    dataset.save()
    cut = [job_make(model={"family": "mlp"}).name for _ in range(2)]
    assert len(set(cut)) == 2 and all(len(name) <= 120 for name in cut)


def test_own_code_is_refused_where_no_node_shuts_it_in_well_enough(job_make, people, node_make):
    node_make(level=0)
    own = job_make(own_model=OWN_MODEL)
    assert own.program_own and own.family == "own"
    with pytest.raises(Conflict, match="sandbox level 1") as caught:
        job_submit(user=people.owner, job=own)
    assert caught.value.code == "sandbox_too_weak"


def test_cancel_pause_and_resume_do_what_the_state_allows(job, people, node_make):
    for act in (services.job_pause, services.job_resume):
        with pytest.raises(Conflict, match="draft cannot be") as told:
            act(user=people.owner, job=job)
        assert told.value.hint.startswith("Submit it")
    queue(job)
    assert services.job_pause(user=people.owner, job=job).state == "paused"
    assert services.job_pause(user=people.owner, job=job).state == "paused"
    assert services.job_resume(user=people.owner, job=job).state == "queued"
    assert services.job_cancel(user=people.owner, job=job).state == "cancelled"
    assert services.job_cancel(user=people.owner, job=job).state == "cancelled"
    with pytest.raises(Conflict, match="was cancelled before it saved a checkpoint: there is nothing to resume from"):
        services.job_resume(user=people.owner, job=job)


@pytest.mark.parametrize(
    ("starts", "words"),
    [(run_now, "Left its devices"), (place_now, "Left its devices before its first step")],
)
def test_a_paused_run_is_said_to_have_saved_only_where_it_trained(job, people, node_make, starts, words):
    node_make()
    starts(job)
    services.job_pause(user=people.owner, job=job)
    events_apply(job.pk, [event(job, "exited", 1, outcome="paused")])
    assert JobEvent.objects.get(job=job, new_state="paused").message == words


def test_a_running_job_is_told_to_stop(job, people, node_make, tasks_sent, django_capture_on_commit_callbacks):
    node_make()
    run_now(job)
    with django_capture_on_commit_callbacks(execute=True):
        assert services.job_pause(user=people.owner, job=job).state == "pausing"
        assert services.job_cancel(user=people.mate, job=job).state == "cancelling"
    assert stops(tasks_sent) == [([job.pk, 1, "pause"], "node.node-1"), ([job.pk, 1, "cancel"], "node.node-1")]
    events_apply(job.pk, [event(job, "exited", 1, outcome="failed", failure=None)])
    job.refresh_from_db()
    assert job.state == "cancelled"
    actors = JobEvent.objects.filter(job=job, new_state__in=["pausing", "cancelling"]).values_list(
        "actor__username", flat=True
    )
    assert list(actors) == ["owner", "mate"]


@pytest.mark.parametrize(("stream", "more"), [(0, []), (3, [3])])
def test_a_stop_names_the_stream_in_which_its_end_is_told(job, node_make, stream, more):
    node_make()
    attempt = run_now(job)
    attempt.plan["event_stream"] = stream
    assert stop_message(attempt, "pause") == [job.pk, 1, "pause", *more]


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
    services.job_resume(user=people.owner, job=job, checkpoint="step-00000015")
    assert tick() == 1
    events_apply(job.pk, [event(job, "running", 0, rank=0, token=2)])
    job.refresh_from_db()
    assert (job.metric_best, job.last_values) == (best, {key: None})


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
    assert tick() == 1
    assert job.attempts.get(number=2).plan["resume_from"] == "step-00000010"
    told = [event(job, "metric", 2, rank=0, token=2, step=11, epoch=0, values={"a": 99})]
    events_apply(job.pk, [event(job, "running", 1, rank=0, token=2), *told])
    events_apply(job.pk, [event(job, "metric", 3, rank=0, token=2, step=12, epoch=0, values={"a": 98})])
    values = MetricPoint.objects.filter(job=job).order_by("step").values_list("value", flat=True)
    assert list(values) == [*range(1, 11), 99, 98]


def test_a_job_that_never_left_its_course_keeps_its_points(job, people, node_make):
    node_make()
    run_now(job)
    saved = [
        event(job, "checkpoint", 20 + step, rank=0, name=f"step-{step:08}", step=step, epoch=1, bytes=1, best=step == 5)
        for step in (5, 15)
    ]
    points = [event(job, "metric", seq, rank=0, step=seq, epoch=0, values={"a": seq}) for seq in range(1, 16)]
    events_apply(job.pk, [*points, *saved])
    events_apply(job.pk, [event(job, "exited", 1, outcome="paused")])
    services.job_resume(user=people.owner, job=job, checkpoint="step-00000005")
    services.job_pause(user=people.owner, job=job)
    services.job_resume(user=people.owner, job=job)
    assert tick() == 1
    events_apply(job.pk, [event(job, "running", 0, rank=0, token=2)])
    assert MetricPoint.objects.filter(job=job).count() == 15


def test_of_two_ends_in_one_batch_the_run_s_own_counts(job, people, node_make):
    node_make()
    run_now(job)
    services.job_pause(user=people.owner, job=job)
    ends = [event(job, "exited", 90, outcome="failed", failure={"code": "nan_loss"})]
    events_apply(job.pk, [*ends, event(job, "exited", 1 << 40, outcome="paused")])
    job.refresh_from_db()
    assert (job.state, job.failure["code"]) == ("failed", "nan_loss")


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


def test_a_run_that_stopped_early_has_made_the_steps_that_its_results_tell(job, node_make):
    node_make()
    run_now(job)
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True)
    (results / "results.json").write_text(json.dumps({"metric": {}, "timing": {"steps": 22}}))
    events_apply(
        job.pk,
        [
            event(job, "progress", 1, rank=0, step=20, steps_total=40, epoch=10.0, epochs=20),
            event(job, "exited", 2, outcome="succeeded"),
        ],
    )
    job.refresh_from_db()
    assert (job.state, job.step, job.steps_total) == ("succeeded", 22, 40)


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


@pytest.mark.parametrize("spread", [False, True], ids=["one node", "several nodes"])
def test_results_are_read_before_anything_is_locked(job, node_make, monkeypatch, spread):
    node_make()
    attempt = run_now(job)
    if spread:
        attempt.plan["ranks"].append({**attempt.plan["ranks"][0], "rank": 1, "node": "node-2"})
        attempt.save()
    asked: list[int] = []

    def read(job: Job) -> dict[str, Any]:
        asked.append(len(queries))
        return {"metric": {"value_val": 0.9, "value_test": 0.8}}

    monkeypatch.setattr(found, "job_results", read)
    with CaptureQueriesContext(connection) as queries:
        for number, node in enumerate(["node-1", "node-2"][: 1 + spread], start=1):
            before = len(queries)
            told = {"outcome": "succeeded", "node": node}
            events_apply(job.pk, [event(job, "exited", number, rank=-number, **told)])
            earlier = [query["sql"] for query in queries.captured_queries[before : asked.pop()]]
            assert not asked and not any(sql.startswith(("BEGIN", "SAVEPOINT")) for sql in earlier)
    job.refresh_from_db()
    assert (job.state, job.metric_best, job.metric_test) == ("succeeded", 0.9, 0.8)


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
