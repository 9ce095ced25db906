"""From finished jobs to names in plans and offers, and back: no job that waits loses a device by it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.calibration.exchange import points_export, points_import
from harness.calibration.fitting import model_correct, model_fit
from harness.calibration.known import device_model, finished_of
from harness.calibration.learning import job_learn
from harness.calibration.models import DeviceModelRow, FinishedJobRow
from harness.calibration.paces import paces_follow
from harness.calibration.paces_told import paces_told
from harness.errors import Conflict
from harness.estimates.groups import groups_read
from harness.estimates.models import JobEstimate
from harness.estimates.renaming import ways_rename
from harness.estimates.selectors import offer_priced
from harness.estimates.services import estimates_renew, inspection_answer, offer_accept
from harness.jobs.control.gangs import gang_of
from harness.jobs.control.tick import tick
from harness.jobs.control.views import facts_read
from harness.jobs.models import Allocation, Job, JobEvent
from harness.jobs.options import options_of
from harness.jobs.services import job_submit
from harness.pool.models import Device
from harness.pool.paces import PaceChange, paces_in_force
from harness.pool.services import device_slow, node_drain, node_undrain, pool_setting_update
from tests.harness.estimates.factories import answer
from tests.harness.estimates.node_jobs import KIND, NAME, finished_make
from tests.harness.jobs.helpers import event, queue
from tests.scheduler.made_workloads import workload

WORK = workload(layers=4, filters=48, batch=32)
SLOW = "core, measured 1.5 times as slow"
PLAIN = {"node-a": 1.0, "node-b": 1.0}
UNLIKE = {"node-a": 1.0, "node-b": 1.5}


@pytest.fixture
def nodes(node_make, people):
    """Two nodes with devices of one name, which a gang may span."""

    def make(cpus: int = 2) -> None:
        for number, name in enumerate(PLAIN):
            node_make(name, cpus=cpus, address=f"10.0.0.{number + 1}")

    return make


@pytest.fixture
def learnt(job_make):
    """Jobs ended on the nodes, at these paces, and the model has learnt from them."""
    like = job_make(name="like these")

    def make(paces: dict[str, float], **given: int) -> None:
        finished_make(like, paces, **given)
        model_correct(KIND, NAME)

    return make


@pytest.fixture
def offered(ask):
    """An offer of a program whose steps are long enough to be shared out; the node has read it."""

    def make(job, **wish):
        offer = ask(job, **wish)
        if offer.inspection.state == "waiting":
            inspection_answer(answer(offer.inspection, workload=WORK.to_dict()))
        offer.refresh_from_db()
        return offer

    return make


def named() -> dict[str, int]:
    """Devices of each name, as offers see them; plans see the same."""
    groups = {group.model_name: sum(group.sizes) for group in groups_read(None)}
    plans: dict[str, int] = {}
    for node in facts_read().pool.nodes:
        for device in node.devices:
            plans[device.model_name] = plans.get(device.model_name, 0) + 1
    assert plans == groups
    return groups


def names(job: Job) -> list[str]:
    return [option.model_name for option in options_of(Job.objects.get(pk=job.pk))]


def where(job: Job) -> set[str]:
    return set(Allocation.objects.filter(job=job).values_list("device__node__name", flat=True))


def test_a_node_whose_jobs_take_longer_is_a_kind_of_its_own_until_it_is_like_the_others_again(nodes, learnt):
    nodes()
    learnt(PLAIN)
    assert named() == {NAME: 4}
    alike = device_model(KIND, NAME)
    learnt(UNLIKE)
    assert named() == {NAME: 2, SLOW: 2}
    assert paces_in_force(KIND, NAME) == {"node-a": 1.0, "node-b": 1.5}
    fast, slow = device_model(KIND, NAME), device_model(KIND, SLOW)
    assert fast.correction.factor == pytest.approx(alike.correction.factor, rel=0.03), "the slow node's jobs left it"
    assert slow.times_as_long == pytest.approx(1.5 * fast.times_as_long) and slow.key == (KIND, SLOW)
    (told,) = paces_told()["node-b"]
    assert "took 1." in told.words and told.words.endswith("offers and plans count it as 1.5 times as slow.")
    assert "offers and plans make no difference" in paces_told()["node-a"][0].words
    learnt(PLAIN)
    assert named() == {NAME: 4}
    assert Device.objects.filter(paced_at=None).count() == 2, "only what changed is dated"


def test_a_new_fit_keeps_the_paces_and_so_do_points_that_are_imported(nodes, learnt, people):
    from tests.harness.calibration.test_fitting import measure

    nodes()
    learnt(UNLIKE)
    measure(12)
    assert "node-b" not in points_export(form="json")
    points_import(user=people.admin, text=points_export(form="json"))
    model_fit(KIND, NAME)
    assert named() == {NAME: 2, SLOW: 2}
    assert {job.node for job in finished_of(KIND, NAME)} == {"node-a", "node-b"}


def test_a_promised_job_is_placed_on_the_devices_that_got_another_name(job, nodes, learnt, people, offered):
    nodes()
    within = timedelta(seconds=4 * offer_priced(offered(job, count=1)).lines[0].estimate.run_s.high)
    offer = offered(job, deadline_at=timezone.now() + within, count=1)
    waits = job_submit(user=people.owner, job=offer_accept(user=people.owner, offer=offer))
    assert waits.promised_at is not None and names(waits) == [NAME]
    learnt(UNLIKE)
    assert names(waits) == [NAME, SLOW]
    fast, slow = options_of(Job.objects.get(pk=waits.pk))
    assert slow.run_s == pytest.approx(1.5 * fast.run_s), "scaled, until it is priced anew"
    assert estimates_renew() == 1
    after = Job.objects.get(pk=waits.pk)
    fast, slow = options_of(after)
    assert fast.run_s < slow.run_s < 1.5 * fast.run_s, "a start takes as long on both"
    assert (after.promised_at, after.promise["state"]) == (waits.promised_at, "promised")
    node_drain(user=people.admin, name="node-a")
    assert tick() == 1 and where(waits) == {"node-b"}
    assert Job.objects.get(pk=waits.pk).warning == ""


def test_a_promise_that_the_slow_devices_alone_would_break_is_said_to_be_in_danger(job, nodes, learnt, people, offered):
    nodes()
    within = timedelta(seconds=1.15 * offer_priced(offered(job, count=1)).lines[0].estimate.run_s.high)
    offer = offered(job, deadline_at=timezone.now() + within, count=1)
    waits = job_submit(user=people.owner, job=offer_accept(user=people.owner, offer=offer))
    learnt({"node-a": 1.0, "node-b": 3.0})
    assert estimates_renew() == 1
    node_drain(user=people.admin, name="node-a")
    assert tick() == 1 and where(waits) == {"node-b"}
    tick()
    after = Job.objects.get(pk=waits.pk)
    assert after.promised_at == waits.promised_at and after.warning
    assert JobEvent.objects.filter(job=waits, data__has_key="warning").exists()


def test_a_job_goes_on_waiting_for_devices_whose_old_name_is_gone(job, nodes, learnt, people, offered):
    """All of node-b was slow; then it is as fast as node-a, and nothing has the name that was taken."""
    nodes()
    learnt(UNLIKE)
    offer = offered(job, model_name=SLOW, count=1)
    waits = queue(offer_accept(user=people.owner, offer=offer))
    assert names(waits) == [SLOW]
    learnt(PLAIN)
    assert names(waits) == [NAME]
    assert estimates_renew() == 1 and names(waits) == [NAME]
    assert JobEstimate.objects.get(job=waits).estimate["allocation"]["model_name"] == NAME
    assert tick() == 1


def test_nobody_waits_for_a_fast_device_while_a_slow_one_is_free(job_make, nodes, learnt, people, offered):
    """As before the names were two: the policy chooses among what is free now."""
    nodes(cpus=1)
    ways = [offered(job_make(name=name), model_name=NAME, count=1) for name in ("first", "second")]
    first, second = (queue(offer_accept(user=people.owner, offer=offer)) for offer in ways)
    learnt(UNLIKE)
    assert estimates_renew() == 2
    assert tick() == 2
    assert where(first) == {"node-a"} and where(second) == {"node-b"}


def test_who_takes_the_fast_devices_afterwards_is_not_given_the_slow_ones(job, nodes, learnt, people, offered):
    nodes()
    learnt(UNLIKE)
    waits = queue(offer_accept(user=people.owner, offer=offered(job, model_name=NAME, count=1)))
    assert estimates_renew() == 1 and names(waits) == [NAME]
    node_drain(user=people.admin, name="node-a")
    assert tick() == 0
    node_undrain(user=people.admin, name="node-a")
    assert tick() == 1 and where(waits) == {"node-a"}


def test_a_gang_over_both_nodes_becomes_a_mixture(job_make, nodes, learnt, people, offered):
    nodes()
    pool_setting_update(user=people.admin, span_nodes=True)
    job = job_make(training={"batch_size": 32})
    offer = offered(job, count=4, mode="sync")
    waits = queue(offer_accept(user=people.owner, offer=offer))
    assert names(waits) == [NAME]
    learnt(UNLIKE)
    (option,) = options_of(Job.objects.get(pk=waits.pk))
    assert option.parts == ((NAME, 2), (SLOW, 2))
    assert estimates_renew() == 1
    (option,) = options_of(Job.objects.get(pk=waits.pk))
    assert option.parts == ((NAME, 2), (SLOW, 2))
    split = JobEstimate.objects.get(job=waits).estimate["allocation"]["batch_split"]
    assert split[0] > split[2], "rows by speed"
    assert tick() == 1 and where(waits) == {"node-a", "node-b"}
    plan = waits.attempts.get().run_plan
    assert {rank.slowdown for rank in plan.ranks} == {1.0}, "nothing sleeps"
    rows = {rank.node: rank.rows for rank in plan.ranks}
    assert rows["node-a"] > rows["node-b"] and sum(rank.rows for rank in plan.ranks) == 32


def test_a_job_that_runs_keeps_its_forecast_and_can_start_anew_on_either_name(job, nodes, learnt, people, offered):
    nodes()
    runs = queue(offer_accept(user=people.owner, offer=offered(job, model_name=NAME, count=1)))
    node_drain(user=people.admin, name="node-a")
    assert tick() == 1 and where(runs) == {"node-b"}
    node_undrain(user=people.admin, name="node-a")
    before = JobEstimate.objects.get(job=runs).estimate
    learnt(UNLIKE)
    assert names(runs) == [NAME, SLOW] and JobEstimate.objects.get(job=runs).estimate == before
    held = [device for node in facts_read().pool.nodes for device in node.devices if not device.free]
    assert [device.model_name for device in held] == [NAME], "as it was when the run began"


def test_a_job_of_the_slow_node_teaches_by_the_name_that_all_share(job, nodes, learnt, people, offered):
    from harness.jobs.control.effects import events_apply
    from tests.harness.calibration.jobs import tell

    nodes()
    learnt(UNLIKE)
    runs = queue(offer_accept(user=people.owner, offer=offered(job, model_name=SLOW, count=1)))
    assert tick() == 1
    runs.refresh_from_db()
    started = [event(runs, "started", 0, token=1, sandbox_level=3, node="node-b"), event(runs, "running", 0, rank=0)]
    events_apply(runs.pk, started)
    tell(runs, samples_per_s=100.0)
    events_apply(runs.pk, [event(runs, "exited", 9, time_s=time.time(), outcome="succeeded", failure=None)])
    assert job_learn(runs.pk)
    row = FinishedJobRow.objects.get(job=runs)
    assert (row.model_name, row.allocation["model_name"]) == (NAME, NAME)
    assert row.workload and row.predicted["allocation"]["model_name"] == SLOW
    assert finished_of(KIND, NAME)[-1].node == "node-b"


def test_an_offer_from_before_is_not_taken(job, nodes, learnt, people, offered):
    nodes()
    before = offered(job, count=1)
    learnt(UNLIKE)
    with pytest.raises(Conflict, match="measured since this offer") as refused:
        offer_accept(user=people.owner, offer=before)
    assert refused.value.code == "offer_stale"
    gone = offered(job, model_name=SLOW, count=1)
    learnt(PLAIN)
    with pytest.raises(Conflict, match="measured since this offer"):
        offer_accept(user=people.owner, offer=gone)


def test_an_offer_says_why_devices_of_one_name_are_priced_apart(job, nodes, learnt, offered):
    nodes()
    learnt(UNLIKE)
    offer = offered(job, count=1)
    lines = {line.allocation.model_name: line.estimate for line in offer_priced(offer).lines}
    assert lines[SLOW].step_s.mid == pytest.approx(1.5 * lines[NAME].step_s.mid)
    assert (
        "steps on node-b are 1.5 times as slow as on other nodes with such devices, as 16 finished jobs showed"
        in lines[SLOW].note
    )
    (note,) = (note for note in offer.notes if note.startswith("Devices of one name"))
    assert "node-b: core: the newest 16 finished jobs took" in note and "Emulated" not in " ".join(offer.notes)


def test_a_declared_slowdown_comes_on_top(job, nodes, learnt, people, offered):
    nodes(cpus=1)
    learnt(UNLIKE)
    device_slow(user=people.admin, node="node-b", kind="cpu", index=0, factor=3.0)
    lines = {line.allocation.model_name: line.estimate for line in offer_priced(offered(job, count=1)).lines}
    both = lines[f"{SLOW}, declared 3 times as slow"]
    assert both.step_s.mid == pytest.approx(4.5 * lines[NAME].step_s.mid)


def test_a_gang_on_unlike_nodes_shares_its_rows_by_their_paces_before_anything_is_estimated(job_make, nodes, learnt):
    nodes(cpus=1)
    learnt(UNLIKE)
    job = job_make(training={"batch_size": 50})
    devices = list(Device.objects.select_related("node").order_by("node__name"))
    found = gang_of(job, devices, threads=1, rank_bytes=4 << 30)
    assert found is not None and found.shares == (30, 20)


def test_a_core_that_its_node_has_just_got_is_soon_like_the_others_there(nodes, learnt):
    nodes(cpus=1)
    learnt(UNLIKE)
    nodes(cpus=2)
    assert named() == {NAME: 3, SLOW: 1}
    assert paces_follow(KIND, NAME) == 1 and named() == {NAME: 2, SLOW: 2}
    assert paces_follow(KIND, NAME) == 0


def test_another_device_in_its_place_is_not_what_was_measured(node_make):
    node_make("node-a", gpus={0: ""})
    Device.objects.filter(kind="cuda").update(pace=1.5, paced_at=timezone.now())
    node_make("node-a", gpus={0: ""})
    assert Device.objects.get(kind="cuda").pace == 1.5
    Device.objects.filter(kind="cuda").update(model_name="the one before")
    node_make("node-a", gpus={0: ""})
    assert (Device.objects.get(kind="cuda").pace, Device.objects.get(kind="cuda").paced_at) == (1.0, None)


def test_jobs_of_other_devices_are_left_alone(job, nodes, people, offered):
    nodes()
    taken = offer_accept(user=people.owner, offer=offered(job, count=1))
    assert ways_rename("cuda", NAME, {PaceChange(1.0, 1.5)}) == 0
    assert ways_rename(KIND, "other", {PaceChange(1.0, 1.5)}) == 0
    assert options_of(Job.objects.get(pk=taken.pk)) == options_of(taken)


def test_models_from_before_know_no_paces(nodes, learnt):
    nodes()
    learnt(PLAIN, each=2)
    row = DeviceModelRow.objects.get()
    del row.model["correction"]["paces"]
    row.save()
    assert paces_told() == {} and paces_follow(KIND, NAME) == 0
