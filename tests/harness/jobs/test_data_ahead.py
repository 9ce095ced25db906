"""While a job waits, the nodes where it is going to start are asked to have its data; placing prefers those that do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from django.utils import timezone

from harness.jobs.control import ahead
from harness.jobs.control.tick import tick
from harness.jobs.control.views import facts_read
from harness.jobs.models import Checkpoint, Job
from harness.pool.caches import caches_get
from harness.pool.models import Node, PoolSetting
from harness.pool.selectors import pool_overview
from tests.harness.caches import cached_node
from tests.harness.jobs.helpers import estimated, queue, run_now
from worker.plan import RunPaths
from worker.transfer.tree import ahead_folder

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """Nobody was told anything yet."""
    made = {}
    monkeypatch.setattr(ahead, "_told", made)
    return made


@pytest.fixture
def cached_make(node_make):
    """`cached_node`; `copying` names the dataset of which a part is there."""

    def make(name, *, copying="", **more):
        return cached_node(node_make, name, copying={"dataset": copying, "share": 0.4} if copying else None, **more)

    return make


def preloads(tasks_sent):
    """(node, folders of the store) of each wish that was sent."""
    return [
        (queue_name.removeprefix("node."), [ahead_folder(folder) for folder in args[0]])
        for name, args, queue_name in tasks_sent
        if name == "node.preload"
    ]


def waiting(job_make, **more):
    """A job that wants all of a node's devices."""
    return queue(estimated(job_make(name="waiting"), counts=(2,), run_s=more.pop("run_s", 600.0), **more))


def needed(dataset, *jobs, saved=()):
    """What the jobs need, in this order."""
    found = [f"datasets/{dataset.sha256}/packed"]
    for job in jobs:
        paths = RunPaths(Path("jobs", job.pk))
        found += map(str, (paths.program, *(paths.checkpoints / name for name in saved)))
    return found


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_the_node_that_comes_free_first_is_asked_for_the_data_of_who_waits_once(
    job_make, cached_make, dataset, tasks_sent, policy
):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    for number in range(1, 5):
        cached_make(f"node-{number}")
    for number in range(1, 5):
        run_now(estimated(job_make(name=f"run {number}"), counts=(2,), run_s=300.0 if number == 3 else 3000.0))
    sooner = Job.objects.get(name="run 3").allocations.first().device.node.name
    assert not preloads(tasks_sent), "who starts at once fetches its own"
    job = waiting(job_make)
    tick()
    job.refresh_from_db()
    assert job.state == "queued" and preloads(tasks_sent) == [(sooner, needed(dataset, job))]
    tick()
    assert len(preloads(tasks_sent)) == 1


def test_a_message_is_repeated_as_long_as_the_job_waits(job_make, cached_make, dataset, tasks_sent, told):
    cached_make("node-1")
    run_now(estimated(job_make(), counts=(2,)))
    job = waiting(job_make)
    tick()
    (sent,) = preloads(tasks_sent)
    folders, told_s = told["node-1"]
    told["node-1"] = (folders, told_s - ahead.AGAIN_S)
    tick()
    assert preloads(tasks_sent) == [sent, sent] == [("node-1", needed(dataset, job))] * 2
    Job.objects.filter(name="waiting").update(state="cancelled")
    told.clear()
    tick()
    assert len(preloads(tasks_sent)) == 2


def test_a_change_is_told_soon_but_not_with_each_tick_and_a_dataset_of_several_jobs_once(
    job_make, cached_make, dataset, tasks_sent, told
):
    cached_make("node-1")
    run_now(estimated(job_make(), counts=(2,)))
    jobs = [waiting(job_make) for _ in range(2)]
    tick()
    assert preloads(tasks_sent) == [("node-1", needed(dataset, *jobs))]
    now_s = told["node-1"][1]
    told["node-1"] = (("f" * 64,), now_s)
    tick()
    assert len(preloads(tasks_sent)) == 1
    told["node-1"] = (("f" * 64,), now_s - ahead.CHANGED_S)
    tick()
    assert len(preloads(tasks_sent)) == 2


def test_where_the_store_is_seen_nothing_is_sent_and_nothing_is_looked_for(job_make, node_make, tasks_sent):
    node_make("node-1")
    run_now(estimated(job_make(), counts=(2,)))
    waiting(job_make)
    tick()
    assert not preloads(tasks_sent) and not caches_get()


def test_one_of_many_nodes_that_nobody_can_foresee_is_not_asked(job_make, cached_make, tasks_sent):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": "fifo"})
    for number in range(1, 5):
        cached_make(f"node-{number}")
        run_now(job_make(name=f"run {number}", resources={"device": "cpu", "count": 2}))  # nobody knows how long
    queue(job_make(name="waiting", resources={"device": "cpu", "count": 2}))
    tick()
    assert Job.objects.get(name="waiting").state == "queued" and not preloads(tasks_sent)


def test_a_start_that_is_far_off_is_not_prepared_yet(job_make, cached_make, tasks_sent):
    cached_make("node-1")
    run_now(estimated(job_make(), counts=(2,), run_s=10 * ahead.SOON_S))
    waiting(job_make)
    tick()
    assert not preloads(tasks_sent)


def test_few_nodes_fetch_at_once_and_few_datasets_are_kept_on_each(
    job_make, cached_make, dataset, tasks_sent, monkeypatch
):
    monkeypatch.setattr(ahead, "NODES_MOST", 1)
    monkeypatch.setattr(ahead, "PER_NODE", 2)
    for name in ("node-1", "node-2"):
        cached_make(name)
        run_now(estimated(job_make(name=f"on {name}"), counts=(2,)))
    jobs = [waiting(job_make) for _ in range(6)]
    for number, job in enumerate(jobs):
        Job.objects.filter(pk=job.pk).update(dataset_sha256=f"{number:064x}", queued_at=timezone.now())
    tick()
    ((_, folders),) = preloads(tasks_sent)
    assert 1 <= len([it for it in folders if it.startswith("datasets/")]) <= 2
    assert 1 <= len([it for it in folders if it.endswith("/program")]) <= 2
    ahead._told.clear()
    for name in ("node-1", "node-2"):
        cached_make(name, datasets=[f"{number:064x}" for number in range(6)])
    tick()
    later = preloads(tasks_sent)[1:]
    assert {name for name, _ in later} == {"node-1", "node-2"}, "what is there already is kept there"


def test_a_job_for_which_a_node_has_no_room_takes_no_turn_from_other_nodes(job_make, monkeypatch):
    monkeypatch.setattr(ahead, "NODES_MOST", 1)
    monkeypatch.setattr(ahead, "PER_NODE", 2)
    jobs = {job.pk: job for job in (job_make() for _ in range(4))}
    *two, refused, other = jobs
    for number, job in enumerate(jobs.values()):
        job.dataset_sha256 = f"{number:064x}"
    caches = {
        "node-1": SimpleNamespace(datasets={jobs[pk].dataset_sha256 for pk in two}),
        "node-2": SimpleNamespace(datasets=set()),
    }
    monkeypatch.setattr(jobs[two[1]], "dataset_sha256", jobs[two[0]].dataset_sha256)
    places = {**dict.fromkeys((*two, refused), ("node-1",)), other: ("node-2",)}
    made = ahead._Wishes(SimpleNamespace(jobs=jobs, caches=caches), {}).made(places)
    assert any(other in folder for folder in made["node-2"])
    assert not any(refused in folder for folders in made.values() for folder in folders)


def saved_make(job, *steps):
    """The names of checkpoints that it has made, the newest one first."""
    for step in steps:
        Checkpoint.objects.create(job=job, name=f"step-{step:08d}", step=step, epoch=1.0, token=1)
    return [f"step-{step:08d}" for step in sorted(steps, reverse=True)]


def test_checkpoints_go_ahead_of_a_job_that_continues_the_one_it_continues_from_first(
    job_make, cached_make, dataset, tasks_sent, monkeypatch
):
    cached_make("node-1")
    run_now(estimated(job_make(), counts=(2,)))
    job = waiting(job_make)
    names = saved_make(job, 10, 30, 20)
    Checkpoint.objects.create(job=job, name="step-00000005", step=5, epoch=1.0, removed_at=timezone.now())
    tick()
    assert preloads(tasks_sent) == [("node-1", needed(dataset, job, saved=names))]
    Job.objects.filter(pk=job.pk).update(resume_from="step-00000010")
    ahead._told.clear()
    tick()
    assert preloads(tasks_sent)[1:] == [("node-1", needed(dataset, job, saved=[names[2], *names[:2]]))]
    monkeypatch.setattr(ahead, "NODES_MOST", 0)
    cached_make("node-1", datasets=[dataset.sha256])
    ahead._told.clear()
    tick()
    assert preloads(tasks_sent)[2:] == [("node-1", needed(dataset, job))], "those that fetch are few"


def test_of_the_nodes_of_a_gang_the_first_alone_is_sent_the_checkpoints(
    job_make, cached_make, dataset, tasks_sent, monkeypatch
):
    """As it is planned; the others read none."""
    for name in ("node-1", "node-2"):
        cached_make(name)
        run_now(estimated(job_make(), counts=(2,)))
    job = waiting(job_make)
    names = saved_make(job, 10)
    monkeypatch.setattr(ahead, "foreseen", lambda *_, **__: {job.pk: ("node-2", "node-1")})
    start = SimpleNamespace(job_id=job.pk, node="node-2")
    wished = ahead.data_foreseen(facts_read(), SimpleNamespace(placements=[start], expected={}), ())
    found = {node: [ahead_folder(folder) for folder in folders] for node, folders in wished.items()}
    assert found == {"node-2": needed(dataset, job, saved=names), "node-1": needed(dataset, job)}


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_a_job_starts_on_the_node_that_has_its_data(job_make, cached_make, node_make, dataset, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    for number in range(1, 4):
        cached_make(f"node-{number}", datasets=[dataset.sha256] if number == 2 else ["f" * 64])
    job = queue(estimated(job_make(), counts=(2,)))
    assert tick() == 1
    assert job.allocations.first().device.node.name == "node-2"
    node_make("node-9")  # it sees the store: nothing has to go there
    Node.objects.filter(name="node-2").delete()
    other = queue(estimated(job_make(), counts=(2,)))
    assert tick() == 1
    assert other.allocations.first().device.node.name == "node-9"


def test_who_waits_is_told_that_its_data_are_on_their_way(job_make, cached_make, dataset):
    cached_make("node-1")
    run_now(estimated(job_make(), counts=(2,)))
    job = waiting(job_make)
    for copying, told in ((dataset.sha256, True), ("f" * 64, False), ("", False)):
        cached_make("node-1", copying=copying)
        tick()
        job.refresh_from_db()
        assert ("Its data are being copied to node-1 ahead of the start." in job.waiting_text) is told


def test_who_starts_elsewhere_is_not_told_of_the_same_data_that_travel_for_another_job(job_make, cached_make, dataset):
    for number in (1, 2):
        cached_make(f"node-{number}")
        run_now(estimated(job_make(name=f"run {number}"), counts=(2,), run_s=300.0 if number == 2 else 3000.0))
    sooner, later = (Job.objects.get(name=f"run {number}").allocations.first().device.node.name for number in (2, 1))
    job = waiting(job_make)
    for node, told in ((sooner, True), (later, False)):
        for name in (sooner, later):
            cached_make(name, copying=dataset.sha256 if name == node else "")
        tick()
        job.refresh_from_db()
        assert (f"Its data are being copied to {node} ahead" in job.waiting_text) is told


def test_the_pool_page_tells_how_far_a_copy_is_and_names_no_dataset(cached_make, dataset, people, client):
    cached_make("node-1", datasets=["f" * 64], copying=dataset.sha256)
    (row,) = pool_overview().nodes
    assert row.description["cache"] == {"used_bytes": 1, "limit_bytes": 9, "copying_share": 0.4}
    client.force_login(people.outsider)
    page = client.get("/pool/").content.decode()
    assert "data are being copied here ahead of a start (40.0 %)" in page
    assert dataset.sha256 not in page and "f" * 64 not in page


@pytest.mark.parametrize("said", [7, [], {"datasets": 7, "copying": 7}, {"datasets": [7, None], "copying": {}}])
def test_a_report_that_makes_no_sense_stops_nobody(job_make, node_make, said):
    node_make("node-1", description={"cache": said})
    assert not caches_get()["node-1"].datasets
    pool_overview()
    queue(estimated(job_make(), counts=(2,)))
    assert tick() == 1
