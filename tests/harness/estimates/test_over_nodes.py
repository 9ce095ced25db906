"""Offers that span nodes: priced with the slowest measured link between them, or with an assumption that says so."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from django.utils import timezone

from harness.calibration.known import device_model, prior_of
from harness.calibration.models import DeviceModelRow, FinishedJobRow
from harness.estimates.models import Inspection
from harness.estimates.over_nodes import link_notes, links_read, over_nodes
from harness.estimates.selectors import offer_priced
from harness.estimates.services import estimates_renew, inspection_answer, job_estimate
from harness.jobs.models import DeviceUse, JobAttempt
from harness.jobs.options import options_of
from harness.measuring.taught import finished_of
from harness.pool.links import path_of
from harness.pool.models import Node, NodeLink, PoolSetting
from harness.pool.services import device_slow, pool_setting_get, pool_setting_update
from scheduler.estimation.learning import corrected
from scheduler.estimation.link import allreduce_s, pair_link
from scheduler.estimation.ranks import step_time
from scheduler.estimation.values import Allocation, Basis
from scheduler.offers.candidates import Candidate
from tests.harness.estimates.factories import answer, workload_make
from tests.harness.jobs.helpers import queue
from tests.scheduler.made_workloads import workload

SLOW_S, SLOW_BYTES_PER_S = 2e-3, 5e6
WORK = workload_make()


@pytest.fixture
def nodes(node_make, people):
    """Nodes of two cores each, over which a job may span."""

    def make(*names, cpus=2):
        for number, name in enumerate(names):
            node_make(name, cpus=cpus, address=f"10.0.0.{number + 1}")
        pool_setting_update(user=people.admin, span_nodes=True)
        return names

    return make


def link_make(first, second, *, round_trip_s=2e-4, bytes_per_s=1e8):
    pair = (Node.objects.get(name=first), Node.objects.get(name=second))
    path = path_of(pair, pool_setting_get())
    return NodeLink.objects.create(
        first=pair[0], second=pair[1], round_trip_s=round_trip_s, bytes_per_s=bytes_per_s, path=path,
        measured_at=timezone.now(),
    )  # fmt: skip


def by_count(offer):
    return {
        line.allocation.count: line.estimate
        for line in offer_priced(offer).lines
        if line.allocation.mode == "sync" and not line.allocation.parts
    }


def between(offer):
    (note,) = (note for note in offer.notes if "need several nodes" in note)
    return note


def test_only_ways_that_no_node_holds_pay_for_the_link_between_nodes(job, nodes, offered):
    nodes("node-a", "node-b")
    before = by_count(offered(job))
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    offer = offered(job)
    after = by_count(offer)
    assert after[2].step_s == before[2].step_s and "between the nodes" not in after[2].note
    for count in (3, 4):
        inside, link = device_model("cpu", "core").link, pair_link(SLOW_S, SLOW_BYTES_PER_S)
        more_s = allreduce_s(link, WORK.gradient_bytes, count) - allreduce_s(inside, WORK.gradient_bytes, count)
        assert after[count].step_s.mid - before[count].step_s.mid == pytest.approx(more_s)
        assert "the network between the nodes is measured" in after[count].note
    assert between(offer) == (
        "Ways that need several nodes are priced with the slowest measured link between their nodes, node-a and "
        "node-b: 2 ms there and back, 4.8 MiB/s each way, or the link within a node where that is slower."
    )


def test_without_a_measured_link_the_assumption_is_called_one(job, nodes, offered):
    nodes("node-a", "node-b")
    offer = offered(job)
    assert "no link between these nodes is measured" in between(offer) and "assumed" in between(offer)
    found = by_count(offer)
    assert found[4].time_basis is Basis.ASSUMED
    assert "the network between the nodes is assumed, not measured" in found[4].note


def test_of_three_nodes_the_slowest_pair_counts_and_a_pair_that_is_missing_is_named(job, nodes, offered):
    names = nodes("node-a", "node-b", "node-c", cpus=1)
    link_make("node-a", "node-b")
    link_make("node-b", "node-c", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    offer = offered(job)
    assert "node-b and node-c: 2 ms" in between(offer)
    assert "what is between node-a and node-c is not measured but assumed" in between(offer)
    assert "assumed" in by_count(offer)[3].note
    link_make("node-a", "node-c")
    assert len(list(combinations(names, 2))) == NodeLink.objects.count()
    offer = offered(job)
    assert "node-b and node-c: 2 ms" in between(offer) and "assumed" not in between(offer)
    assert "the network between the nodes is measured" in by_count(offer)[3].note


@pytest.mark.parametrize(("cpus", "together"), [(1, 1), (2, 2)])
def test_ranks_on_other_nodes_are_no_neighbours_of_a_rank_in_an_offer(job, nodes, offered, cpus, together):
    names = nodes(*(f"node-{letter}" for letter in "abcdefgh"[: 8 // cpus]), cpus=cpus)
    for pair in combinations(names, 2):
        link_make(*pair)
    found = by_count(offered(job))[8]
    model = replace(device_model("cpu", "core"), nodes_link=pair_link(2e-4, 1e8), link=pair_link(2e-4, 1e8))
    quiet = step_time(WORK, found.allocation, replace(model, contention=0.0))
    assert found.step_s.mid == pytest.approx(
        quiet.local_s * (1.0 + model.contention * (together - 1)) + quiet.communication_s
    )
    assert found.allocation.ranks_together == together, "it is kept with the offer"


def test_a_link_that_was_timed_at_another_address_does_not_count(job, nodes, offered):
    nodes("node-a", "node-b")
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    Node.objects.filter(name="node-b").update(address="10.0.0.99")
    assert "no link between these nodes is measured" in between(offered(job))


def way_over(over, name="core"):
    return Candidate(
        allocation=Allocation(kind="cpu", model_name=name, count=4, mode="sync", batch_split=(8,) * 4),
        memory_limit_bytes=1 << 30,
        over_nodes=tuple(over),
    )


def test_ways_on_unlike_nodes_are_told_the_links_of_their_own_nodes(job, nodes):
    ids = [Node.objects.get(name=name).pk for name in nodes("node-a", "node-b", "node-c", "node-d")]
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    link_make("node-c", "node-d")
    ways = [way_over(ids[:2], "old"), way_over(ids[2:], "new")]
    old, new = link_notes(ways, links_read(ways), WORK)
    assert old.startswith("Ways of old that") and "node-a and node-b: 2 ms" in old
    assert new.startswith("Ways of new that") and "node-c and node-d" in new and "not measured" not in new


def test_the_link_that_counts_is_the_slowest_for_all_sums_of_a_step(job, nodes):
    names = nodes("node-a", "node-b", "node-c", cpus=1)
    link_make("node-a", "node-b", round_trip_s=2e-4, bytes_per_s=1e7)
    link_make("node-b", "node-c", round_trip_s=5e-3, bytes_per_s=1e8)
    link_make("node-a", "node-c")
    way = way_over(Node.objects.values_list("pk", flat=True))
    work = replace(WORK, gradient_bytes=1_000_000, step_messages=40)
    (note,) = link_notes([way], links_read([way]), work)
    assert "node-b and node-c: 5 ms" in note
    priced = over_nodes(device_model("cpu", "core"), way.over_nodes, links_read([way]), work)
    assert priced.nodes_link.latency_s == 5e-3
    finished_over(job, *names)
    FinishedJobRow.objects.update(workload=work.to_dict())
    assert [found.nodes_link for found in finished_of("cpu", "core")] == [pair_link(5e-3, 1e8)]


@pytest.fixture
def encrypting(nodes):
    """The same where a process can encrypt."""

    def make(*names, **more):
        made = nodes(*names, **more)
        able = {"network_problem": "", "encryption_problem": "", "kernel_encryption_problem": "it has none"}
        Node.objects.update(description=able)
        return made

    return make


def test_a_link_counts_only_while_ranks_would_talk_as_it_was_timed(job, encrypting, offered):
    encrypting("node-a", "node-b")
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    assert "node-a and node-b: 2 ms" in between(offered(job))
    PoolSetting.objects.update(network_encryption="preferred")
    assert "no link between these nodes is measured" in between(offered(job))
    NodeLink.objects.all().delete()
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    assert "4.8 MiB/s each way (encrypted by a process)" in between(offered(job))
    Node.objects.update(description={"network_problem": ""})
    assert "no link between these nodes is measured" in between(offered(job))


def test_until_it_is_timed_a_process_that_encrypts_is_assumed_to_be_as_slow_as_it_was_measured(
    job, encrypting, offered
):
    encrypting("node-a", "node-b", "node-c", cpus=1)
    link_make("node-a", "node-b")
    before = by_count(offered(job))
    PoolSetting.objects.update(network_encryption="preferred")
    after = by_count(offered(job))
    assert "at most 29 MiB/s are assumed" in between(offered(job))
    assert after[3].step_s.mid > before[3].step_s.mid and after[3].time_basis is Basis.ASSUMED
    for pair in combinations(["node-a", "node-b", "node-c"], 2):
        NodeLink.objects.filter(first__name=pair[0], second__name=pair[1]).delete()
        link_make(*pair)
    measured = offered(job)
    assert "assumed" not in between(measured) and by_count(measured)[3].step_s.mid < after[3].step_s.mid


def test_a_calibrated_device_is_not_called_uncalibrated_for_the_sake_of_a_link(job, nodes, offered):
    model = prior_of("cpu", "core")
    model = replace(
        model, basis=Basis.MODELLED, contention_basis=Basis.MODELLED, n_points=40,
        memory=replace(model.memory, basis=Basis.MODELLED), link=replace(model.link, basis=Basis.MEASURED),
    )  # fmt: skip
    DeviceModelRow.objects.create(
        kind="cpu", model_name="core", fitted=model.to_dict(), model=model.to_dict(), fitted_at=timezone.now()
    )
    nodes("node-a", "node-b")
    offer = offered(job)
    bases = {count: estimate.time_basis for count, estimate in by_count(offer).items()}
    assert bases == {2: Basis.MODELLED, 3: Basis.ASSUMED, 4: Basis.ASSUMED}
    assert not any("No calibration" in note for note in offer.notes)
    link_make("node-a", "node-b")
    assert {estimate.time_basis for estimate in by_count(offered(job)).values()} == {Basis.MODELLED}


def test_a_pool_in_which_nothing_spans_says_nothing_of_links(job, nodes, offered, people):
    nodes("node-a", "node-b")
    link_make("node-a", "node-b")
    pool_setting_update(user=people.admin, span_nodes=False)
    assert not any("several nodes" in note for note in offered(job).notes)


def test_a_mixture_over_nodes_is_priced_with_their_link(job, nodes, ask, people):
    nodes("node-a", "node-b", cpus=1)
    device_slow(user=people.admin, node="node-b", kind="cpu", index=0, factor=3.0)
    work = workload(layers=4, filters=48, batch=32)

    def mixed():
        offer = ask(job)
        if offer.inspection.state == "waiting":
            inspection_answer(answer(offer.inspection, workload=work.to_dict()))
            offer.refresh_from_db()
        (line,) = (line for line in offer_priced(offer).lines if line.allocation.parts)
        return line.estimate

    before = mixed()
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=1e6)
    after = mixed()
    assert after.step_s.mid > before.step_s.mid
    assert "the network between the nodes is measured" in after.note


def test_a_waiting_job_is_estimated_anew_with_a_link_that_was_measured_since(job_make, nodes):
    nodes("node-a", "node-b")
    job = job_make(resources={"device": "cpu", "count": 4}, mode="sync")
    queue(job)
    assert job_estimate(job.pk) is None
    inspection_answer(answer(Inspection.objects.get()))
    job.refresh_from_db()
    before = options_of(job)[0].rate_per_s
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    assert estimates_renew() == 1
    job.refresh_from_db()
    assert options_of(job)[0].rate_per_s < before


def finished_over(job, *names):
    """A finished job that ran on these nodes, named once for each of its devices."""
    way = {"kind": "cpu", "model_name": "core", "count": 4, "mode": "sync", "batch_split": [8] * 4}
    FinishedJobRow.objects.get_or_create(
        job=job,
        defaults={
            "kind": "cpu", "model_name": "core", "count": 4, "mode": "sync", "workload": WORK.to_dict(),
            "allocation": way, "step_s": 1.0, "finished_at": timezone.now(),
        },
    )  # fmt: skip
    DeviceUse.objects.all().delete()
    for index, name in enumerate(names):
        DeviceUse.objects.create(
            job=job, token=1, node_name=name, device_kind="cpu", device_index=index, started_at=timezone.now(),
            ended_at=timezone.now(), energy_j=1.0,
        )  # fmt: skip


def test_a_finished_job_is_compared_with_the_link_of_the_nodes_it_ran_on(job, nodes):
    nodes("node-a", "node-b")
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)

    def ran_on(*names):
        finished_over(job, *names)
        (found,) = finished_of("cpu", "core")
        return found

    spread = ran_on("node-a", "node-b")
    assert spread.node == "" and spread.nodes_link == pair_link(SLOW_S, SLOW_BYTES_PER_S)
    alone = ran_on("node-a")
    assert alone.node == "node-a" and alone.nodes_link is None


@pytest.mark.parametrize(("start_s", "names", "run_s"), [(3.0, "ab", 90.0), (None, "ab", None), (None, "a", 90.0)])
def test_a_run_over_nodes_that_tells_no_start_teaches_no_end_for_some_may_have_waited(
    job, nodes, start_s, names, run_s
):
    nodes("node-a", "node-b")
    link_make("node-a", "node-b")
    finished_over(job, *[f"node-{name}" for name in names])
    FinishedJobRow.objects.update(start_s=start_s, run_s=90.0)
    assert [(found.start_s, found.run_s) for found in finished_of("cpu", "core")] == [(start_s, run_s)]


def test_a_finished_job_is_compared_with_what_so_many_ranks_on_a_node_take(job, nodes):
    names = nodes("node-a", "node-b", "node-c", "node-d")
    for pair in combinations(names, 2):
        link_make(*pair)
    model = device_model("cpu", "core")

    def found_on(*names):
        finished_over(job, *names)
        (found,) = finished_of("cpu", "core")
        return found

    near, apart = found_on(*["node-a"] * 3, "node-b"), found_on(*names)
    assert (near.allocation.ranks_together, apart.allocation.ranks_together) == (3, 1)
    quiet = replace(model, contention=0.0, nodes_link=apart.nodes_link)
    FinishedJobRow.objects.update(step_s=step_time(apart.workload, apart.allocation, quiet).step_s)
    assert corrected(model, [found_on(*names)] * 9).correction.factor == pytest.approx(1.0, abs=0.02)
    told_near = corrected(model, [found_on(*["node-a"] * 3, "node-b")] * 9)
    assert told_near.correction.factor < 0.95, "beside two others a rank would have been slower"


@pytest.mark.parametrize(
    ("wish", "plan", "compared"),
    [
        ("off", {"network": 7}, True),
        ("off", {"network": 7, "network_port": 21820}, False),
        ("off", {}, False),
        ("preferred", {"network": 7, "network_port": 21820}, True),
        ("preferred", {"network": 7}, False),
    ],
)
def test_a_job_whose_ranks_talked_another_way_than_the_link_was_timed_teaches_nothing(
    job, encrypting, wish, plan, compared
):
    PoolSetting.objects.update_or_create(pk=1, defaults={"network_encryption": wish})
    encrypting("node-a", "node-b")
    link_make("node-a", "node-b", round_trip_s=SLOW_S, bytes_per_s=SLOW_BYTES_PER_S)
    finished_over(job, "node-a", "node-b")
    JobAttempt.objects.create(job=job, number=1, plan=plan)
    assert [found.nodes_link for found in finished_of("cpu", "core")] == (
        [pair_link(SLOW_S, SLOW_BYTES_PER_S)] if compared else []
    )
