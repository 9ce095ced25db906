"""The first split over unlike devices: in the plan that a node gets, in words, and on the live tab."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse
from django.utils import timezone

from harness.errors import Forbidden, Invalid, NotFound
from harness.estimates.models import Inspection, JobEstimate
from harness.jobs.control import gangs
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Job, JobEvent
from harness.jobs.options import job_options_set
from harness.pages.ranks_view import ranks_of
from harness.pool import services
from harness.pool.models import Device
from scheduler.kinds import mixed_name
from scheduler.types import Option
from scheduler.workload import at_batch
from tests.factory_offers import workload_make
from tests.harness.jobs.helpers import event, queue, run_now
from worker.plan import RunPlan

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


def placed(job: Job, count: int, *, batch: int = 90, split: str = "by_speed", known: bool = False) -> RunPlan:
    """Start the job on so many cores; `known`: a node has read its program."""
    job.resolved["spec"]["training"]["batch_size"] = batch
    job.resolved["spec"]["resources"]["split"] = split
    Job.objects.filter(pk=job.pk).update(resolved=job.resolved)
    if known:
        per_row = {"flops": 2e6, "read_bytes": 4e3, "write_bytes": 4e3, "batch": 1.0}
        work = workload_make(batch=batch, flops=2e6 * batch)
        gemm = tuple(replace(operator, per_row=per_row) for operator in work.operators[:2])
        work = at_batch(replace(work, operators=gemm, per_row={"activation_bytes": 1e4}), batch)
        Inspection.objects.create(key="k", state="done", workload=work.to_dict(), sent_at=timezone.now())
        JobEstimate.objects.create(job=job, inspection_key="k", estimate={})
    job_options_set(job, [Option(kind="cpu", count=count, mode="sync", rate_per_s=0.01)], slowdown=1.2)
    queue(job)
    assert tick() == 1
    return RunPlan.from_dict(job.attempts.get().plan)


def slow(admin, index: int, factor: float) -> None:
    services.device_slow(user=admin, node="node-1", kind="cpu", index=index, factor=factor)


def test_like_devices_share_evenly_are_watched_and_nothing_is_said(job, node_make):
    node_make(cpus=2)
    plan = placed(job, 2, known=True)
    assert plan.split is not None and plan.split.alike and plan.note == ""
    assert plan.split.most == (90, 90) and plan.split.lines[0] == plan.split.lines[1]
    assert ranks_of(job).rows[0].rows is None


@pytest.mark.parametrize("told", [{"known": False}, {"known": True, "split": "even"}])
def test_like_devices_whose_program_nobody_knows_or_that_shall_share_evenly_are_not_watched(job, node_make, told):
    node_make(cpus=2)
    assert placed(job, 2, **told).split is None


@pytest.mark.parametrize(("most", "batch"), [(44, 90), (1, 2), (0, 90)])
def test_like_devices_are_not_watched_where_no_row_may_go_to_another(job, node_make, monkeypatch, most, batch):
    monkeypatch.setattr(gangs, "most_rows", lambda *_: most)
    node_make(cpus=2)
    assert placed(job, 2, batch=batch, known=True).split is None, "not all rows fit, as estimated, or not two a rank"


def test_a_slow_device_gets_fewer_rows_and_the_history_says_why(job, node_make, people):
    node_make(cpus=3)
    slow(people.admin, 1, 2.0)
    plan = placed(job, 3)
    assert plan.split is not None
    assert plan.split.rows == (36, 18, 36)
    assert [rank.slowdown for rank in plan.ranks] == [1.0, 2.0, 1.0]
    said = JobEvent.objects.get(job=job, kind="note").message
    assert "36 + 18 + 36 rows" in said and "Emulated" in said and "Core 1 of node-1 2 times" in said


def test_what_the_estimator_knows_of_the_program_decides_the_split(job, node_make, people):
    node_make(cpus=2)
    slow(people.admin, 0, 4.0)
    plan = placed(job, 2, known=True)
    assert plan.split is not None and len(plan.split.lines) == 2
    first, second = plan.split.rows
    assert first + second == 90
    # Fixed costs are four times as long there, too: it gets less than a fifth.
    assert 2 <= first <= 18
    early, late = sorted(line(rows) for line, rows in zip(plan.split.lines, plan.split.rows, strict=True))
    assert early >= 0.9 * late


def test_the_first_split_counts_the_ranks_on_each_devices_own_node(job, node_make, people):
    services.pool_setting_update(user=people.admin, span_nodes=True)
    for number, cpus in enumerate((3, 1), 1):
        node_make(f"node-{number}", cpus=cpus, address=f"10.0.0.{number}")
    slow(people.admin, 0, 2.0)
    plan = placed(job, 4, batch=180, known=True)
    assert plan.split is not None and [rank.node for rank in plan.ranks] == [*["node-1"] * 3, "node-2"]
    declared, beside, _, lone = plan.split.lines
    assert beside(30) == pytest.approx(1.2 * lone(30)) and declared(30) == pytest.approx(2.0 * beside(30))


def test_a_person_may_want_even_shares(job, node_make, people):
    node_make(cpus=2)
    slow(people.admin, 1, 2.0)
    plan = placed(job, 2, split="even")
    assert plan.split is None
    assert [rank.slowdown for rank in plan.ranks] == [1.0, 2.0]
    assert "Emulated" in plan.note


def test_a_device_that_would_only_delay_the_others_gets_no_rank(job, node_make, people):
    node_make(cpus=3)
    slow(people.admin, 1, 100.0)
    plan = placed(job, 3, batch=20)
    assert [rank.rank for rank in plan.ranks] == [0, 1] == [rank.local_rank for rank in plan.ranks]
    assert plan.split is not None and plan.split.rows == (10, 10)
    assert "Core 1 of node-1 is left out" in plan.note
    assert Allocation.objects.filter(job=job).count() == 3


def test_the_live_tab_shows_rows_speed_idle_share_and_each_correction(job, node_make, people, client):
    node_make(cpus=2)
    slow(people.admin, 1, 2.0)
    placed(job, 2)
    job.refresh_from_db()
    values = {"rank1/rows": 30.0, "rank1/samples_per_s": 1234.5, "rank1/idle_share": 0.125}
    told = {"message": "Rank 1 worked 9 ms.", "step": 77, "split": {"before": [60, 30], "after": [58, 32]}}
    events_apply(
        job.pk,
        [
            event(job, "metric", 0, rank=1, step=5, epoch=0.5, values=values),
            event(job, "note", 1, rank=0, **told),
            event(job, "note", 2, rank=0, message="Something else."),
        ],
    )
    client.force_login(people.owner)
    page = client.get(reverse("job_tab", args=[job.pk, "live"])).content.decode()
    assert 'data-value="rows">30<' in page and "12.5 %" in page
    assert "emulated: 2 times as slow" in page
    assert "From step 77." in page and "Rank 1 worked 9 ms." in page
    assert "Something else." not in page


def test_only_admins_slow_devices_down_and_only_within_reason(node_make, people):
    node_make(cpus=1)
    with pytest.raises(Forbidden):
        slow(people.owner, 0, 2.0)
    for factor in (0.5, float("nan"), 1e9, True):
        with pytest.raises(Invalid):
            slow(people.admin, 0, factor)
    with pytest.raises(NotFound):
        slow(people.admin, 7, 2.0)
    slow(people.admin, 0, 2.0)
    assert Device.objects.get().slowdown == 2.0
    node_make(cpus=1)
    assert Device.objects.get().slowdown == 2.0, "a heartbeat does not take it back"


def test_a_device_is_slowed_down_and_named_as_emulated_by_page_and_api(node_make, people, client):
    node_make(cpus=2)
    client.force_login(people.admin)
    assert "emulated" not in client.get(reverse("pool"), headers={"HX-Request": "true"}).content.decode()
    client.post(reverse("device_slow"), {"device": "node-1 cpu:1", "factor": "2.5"})
    assert "emulated: 2.5 times as slow" in client.get(reverse("pool")).content.decode()
    path = "/api/v1/pool/nodes/node-1/devices/cpu/1/slowdown"
    body = client.put(path, {"factor": 1}, content_type="application/json").json()
    assert [device["slowdown"] for device in body["devices"]] == [1.0, 1.0]
    client.post(reverse("device_slow"), {"device": "node-1 cpu:1", "factor": "much"})
    assert Device.objects.get(index=1).slowdown == 1.0


MIXED = (("core", 1), ("core, declared 3 times as slow", 1))


@pytest.mark.parametrize(
    ("before", "after", "option"),
    [
        ((3.0, 3.0), (1.0, 1.0), Option(kind="cpu", count=1, model_name="core, declared 3 times as slow")),
        ((1.0, 1.0), (3.0, 3.0), Option(kind="cpu", count=1, model_name="core")),
        ((1.0, 3.0), (1.0, 5.0), Option(kind="cpu", count=2, model_name=mixed_name(MIXED), mode="sync", parts=MIXED)),
    ],
)
def test_a_declaration_stops_no_run_under_way(job, node_make, people, before, after, option):
    node_make(cpus=2)
    for index, factor in enumerate(before):
        slow(people.admin, index, factor)
    job_options_set(job, [replace(option, rate_per_s=0.01)], slowdown=1.2)
    run_now(job)
    for index, factor in enumerate(after):
        slow(people.admin, index, factor)
    tick()
    job.refresh_from_db()
    assert (job.state, job.attempts.count()) == ("running", 1)
