"""Pipelines that nobody asked for: offered where they are surely better, taken as they were priced, and said why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import Conflict
from harness.estimates.accepting import offer_accept
from harness.estimates.offer_notes import CUT
from harness.estimates.pricing import offer_compute
from harness.estimates.selectors import offer_priced
from harness.estimates.services import inspection_answer
from harness.jobs.control.disk import disk_read
from harness.jobs.control.plans import plan_make
from harness.jobs.control.tick import tick
from harness.jobs.drafts import job_clone, job_spec_update
from harness.jobs.mode import job_mode, named_mode
from harness.jobs.models import Job, JobEvent
from harness.jobs.options import options_of
from harness.pages.offer_view import shown_lines
from harness.pool.models import Device, Node, NodeState
from harness.pool.services import device_slow
from scheduler.offers.values import Mark
from scheduler.workload import Piece, Workload
from tests.harness.estimates.factories import answer, workload_make
from tests.harness.estimates.test_over_nodes import link_make
from tests.harness.jobs.helpers import queue
from worker.plan import RunPlan

PIECES = tuple(Piece(parameter_bytes=20e6, output_bytes=4096.0) for _ in range(5))
HEAVY = replace(
    workload_make(), parameters=25_000_000, parameter_bytes=100_000_000, gradient_bytes=100_000_000,
    optimizer_bytes=200_000_000, pieces=PIECES,
)  # fmt: skip
"""Adding up its gradients over the network takes far longer than its step."""


@pytest.fixture
def offered(ask):
    """An offer of a job whose program does these steps."""

    def make(job, workload: Workload = HEAVY, **wish):
        offer = ask(job, **wish)
        inspection_answer(answer(offer.inspection, workload=workload.to_dict()))
        offer.refresh_from_db()
        return offer

    return make


@pytest.fixture
def slow_nodes(node_make, people):
    from harness.pool.services import pool_setting_update

    for number, name in enumerate(("node-a", "node-b")):
        node_make(name, cpus=2, address=f"10.0.0.{number + 1}")
    pool_setting_update(user=people.admin, span_nodes=True)
    link_make("node-a", "node-b", round_trip_s=1e-3, bytes_per_s=5e6)


@pytest.fixture
def both_kinds(slow_nodes, monkeypatch):
    """One pipeline and several are worth a line, whatever their ranges."""
    monkeypatch.setattr("harness.estimates.pricing.without_vain", lambda ways, estimates, wish: tuple(ways))


def modes(offer):
    return {line.allocation.mode for line in offer_priced(offer).lines}


def test_over_a_slow_link_a_model_of_many_weights_is_offered_in_stages_and_taken_so(job, slow_nodes, offered):
    offer = offered(job, count=4)
    priced = offer_priced(offer)
    way = priced.chosen.allocation
    assert (way.mode, way.stages) in {("pipeline", 4), ("pipeline+sync", 2)}
    assert priced.marked(Mark.FASTEST) is priced.chosen
    assert any(f"The model is cut into {way.stages} stages: so the run takes about" in note for note in offer.notes)
    taken = offer_accept(user=offer.owner, offer=offer)
    assert taken.resolved["spec"]["mode"] == way.mode
    assert taken.resolved["spec"]["pipeline"]["stages"] == way.stages
    ((option),) = options_of(taken)
    assert (option.mode, option.count, option.stages) == (way.mode, 4, way.stages)
    plan = plan_make(
        queue(taken), token=1, devices=list(Device.objects.order_by("node", "index")), backend="horovod",
        disk=disk_read(taken), option=option,
    )  # fmt: skip
    assert (plan.mode, len(plan.ranks), plan.backend) == (way.mode, 4, "torch")
    assert plan.environment == {"DLH_STAGES": str(way.stages)}
    mode, why = job_mode(Job.objects.get(pk=taken.pk))
    assert mode == way.mode and "The model is cut into" in why


@pytest.mark.parametrize(
    "workload",
    [
        replace(HEAVY, pieces=None),
        replace(HEAVY, pieces=()),
        replace(HEAVY, batch_norms=2),
        replace(HEAVY, micro_batches=2),
    ],
    ids=["nobody looked", "it cannot be cut", "it would learn something else", "it has parts of a step"],
)
def test_a_program_that_stages_do_not_suit_is_offered_none_unasked(job, slow_nodes, offered, workload):
    assert modes(offered(job, workload, count=4)) == {"sync", "single"}


def test_settings_that_stages_would_drop_keep_them_out(job_make, slow_nodes, offered):
    for fields in ({"training": {"compression": "fp16"}}, {"resources": {"device": "cpu", "count": 4, "least": 2}}):
        assert "pipeline" not in modes(offered(job_make(**fields), count=4)), fields


def test_what_is_nearly_as_good_stays_whole(job, node_make, offered):
    node_make("node-1", cpus=4)
    assert modes(offered(job, replace(workload_make(), pieces=PIECES))) == {"single", "sync"}


def test_a_job_that_waits_goes_into_the_stages_that_were_priced(job, slow_nodes, offered):
    waiting = queue(job)
    offer = offered(waiting, mode="pipeline+sync", count=4)
    offer_accept(user=offer.owner, offer=offer)
    ((option),) = options_of(Job.objects.get(pk=job.pk))
    assert (option.mode, option.stages) == ("pipeline+sync", 2)
    assert JobEvent.objects.filter(job=job, message__contains="Offer accepted").exists()


def test_a_model_that_cannot_be_cut_is_no_pipeline_even_where_it_is_wished(job, slow_nodes, offered):
    offer = offered(job, replace(HEAVY, pieces=()), mode="pipeline")
    assert offer_priced(offer).chosen is None
    assert offer_priced(offer).text.startswith("This program cannot be cut into stages")


def test_a_mode_that_came_with_an_offer_is_open_in_the_next_one(job, slow_nodes, offered):
    offer = offered(job, count=4)
    taken = offer_accept(user=offer.owner, offer=offer)
    assert taken.spec["mode"].startswith("pipeline") and named_mode(taken) == "auto"
    again = offered(taken)
    assert again.wish["mode"] is None
    assert {"single", "sync"} <= modes(again)


def test_a_spec_that_is_to_bear_the_loss_of_ranks_is_offered_what_can_be_taken(job_make, node_make, offered):
    node_make("node-1", cpus=4)
    job = job_make(resources={"device": "cpu", "count": 4, "least": 2})
    offer = offered(job, workload_make())
    assert offer_priced(offer).chosen.allocation.mode == "sync"
    taken = offer_accept(user=offer.owner, offer=offer)
    assert taken.resolved["spec"]["resources"]["least"] == 2


def line_in(offer, mode: str) -> int:
    """Place of a line that can be taken in this mode."""
    lines = enumerate(offer_priced(offer).lines)
    return next(place for place, line in lines if line.allocation.mode == mode and line.feasible)


def test_after_several_pipelines_one_alone_can_be_taken_of_the_same_offer(job, both_kinds, offered):
    offer = offered(job, count=4)
    taken = offer_accept(user=offer.owner, offer=offer, line=line_in(offer, "pipeline+sync"))
    assert taken.spec["pipeline"]["stages"] == 2
    again = offered(taken, count=4)
    assert (again.wish["mode"], again.wish["stages"]) == (None, None)
    taken = offer_accept(user=offer.owner, offer=offer, line=line_in(offer, "pipeline"))
    assert (taken.spec["mode"], taken.spec["pipeline"]["stages"]) == ("pipeline", "auto")


def test_stages_that_a_person_named_stay_named_after_a_line_is_taken(job_make, both_kinds, offered):
    job = job_make(pipeline={"stages": 2})
    offer = offered(job, count=4)
    taken = offer_accept(user=offer.owner, offer=offer, line=line_in(offer, "pipeline+sync"))
    again = offered(taken, count=4)
    assert (again.wish["mode"], again.wish["stages"]) == (None, 2)


def test_a_clone_and_a_changed_spec_remember_which_mode_came_with_an_offer(job, both_kinds, offered, people):
    offer = offered(job, count=4)
    taken = offer_accept(user=offer.owner, offer=offer, line=line_in(offer, "pipeline+sync"))
    clone = job_clone(user=people.owner, job=taken)
    changed = job_spec_update(user=people.owner, job=taken, spec={**taken.spec, "name": "another word"})
    for one in (clone, changed):
        one = Job.objects.get(pk=one.pk)
        assert one.spec["mode"] == "pipeline+sync" and named_mode(one) == "auto"
        assert "The model is cut into" in job_mode(one)[1]
        assert {"single", "sync"} <= modes(offered(one, count=4))


def test_a_mode_that_a_person_changes_later_is_named(job, both_kinds, offered, people):
    offer = offered(job, count=4)
    taken = offer_accept(user=offer.owner, offer=offer, line=line_in(offer, "pipeline+sync"))
    changed = job_spec_update(user=people.owner, job=taken, spec={**taken.spec, "mode": "sync"})
    assert named_mode(changed) == "sync" and "mode" not in changed.taken


def test_a_line_that_would_drop_what_the_spec_demands_cannot_be_taken(job_make, node_make, offered):
    node_make("node-1", cpus=4)
    job = queue(job_make(resources={"device": "cpu", "count": 4, "least": 2}))
    offer = offered(job, workload_make())
    priced = offer_priced(offer)
    place = next(at for at, line in enumerate(priced.lines) if line.allocation.mode == "single")
    with pytest.raises(Conflict, match="could not go on with 2 of its ranks"):
        offer_accept(user=offer.owner, offer=offer, line=place)
    assert not shown_lines(priced)[place].takeable
    assert any(shown.takeable for shown in shown_lines(priced) if shown.view.line.allocation.count == 3)


@pytest.mark.parametrize("asked", [{"mode": "single", "count": 1}, {"mode": "pipeline"}, {"count": 2}])
def test_a_job_that_has_begun_gets_another_mode_when_asked_for_it_though_it_could_not_lose_ranks_there(
    job_make, slow_nodes, offered, asked
):
    job = queue(job_make(resources={"device": "cpu", "count": 4, "least": 2}))
    offer = offered(job, **asked)
    assert offer.wish["least"] is None
    assert any(note.startswith("resources.least is 2, but what you asked for") for note in offer.notes)
    offer_accept(user=offer.owner, offer=offer)
    ways = options_of(Job.objects.get(pk=job.pk))
    assert {way.mode for way in ways} <= {asked.get("mode", "sync"), "sync", "single"}
    assert asked.get("mode") in {None, ways[0].mode}
    assert offered(job).wish["least"] == 2, "asked for nothing, it goes on as its spec says"


def test_a_draft_changes_its_spec_to_get_another_mode(job_make, slow_nodes, offered):
    job = job_make(resources={"device": "cpu", "count": 4, "least": 2})
    assert offered(job, mode="single", count=1).wish["least"] == 2


def test_what_is_known_of_one_device_alone_is_not_told_as_a_program_that_cannot_be_cut(job, node_make, offered):
    node_make("node-1", cpus=4)
    offer = offered(job, replace(workload_make(), pieces=()), mode="pipeline")
    only = offer_priced(offer).lines[0].allocation
    told, _ = offer_compute(offer, replace(workload_make(), pieces=()), only=only)
    assert "cannot be cut" not in told.text


@pytest.fixture
def read_long_ago(job, slow_nodes, offered):
    """An inspection by a node that told nothing of pieces."""
    found = offered(job, replace(HEAVY, pieces=None), count=4).inspection
    found.workload = {name: value for name, value in found.workload.items() if name != "pieces"}
    found.save()
    return found


def test_a_program_that_was_read_before_nodes_told_pieces_is_read_once_more(job, read_long_ago, ask):
    meanwhile = ask(job, count=4)
    assert meanwhile.state == "ready" and modes(meanwhile) == {"single", "sync"}
    read_long_ago.refresh_from_db()
    assert read_long_ago.state == "waiting"
    inspection_answer(answer(read_long_ago, workload=HEAVY.to_dict()))
    after = ask(job, count=4)
    assert "pipeline" in modes(after) and after.inspection.state == "done"


def test_where_it_cannot_be_read_again_its_old_figures_stay_and_nobody_asks_a_third_time(job, read_long_ago, ask):
    ask(job, count=4)
    inspection_answer(answer(read_long_ago, ok=False, workload=None, problem={"code": "cannot_trace"}))
    after = ask(job, count=4)
    assert (after.state, after.inspection.state) == ("ready", "done")


def test_without_a_node_that_could_read_it_again_the_old_figures_do(job, read_long_ago, ask):
    Node.objects.update(state=NodeState.DOWN)
    assert ask(job, count=4).state == "ready"
    read_long_ago.refresh_from_db()
    assert read_long_ago.state == "done"


def test_pipelines_without_which_nothing_fits_tell_what_they_drop_and_learn_otherwise(
    job_make, slow_nodes, offered, monkeypatch
):
    monkeypatch.setattr("harness.estimates.pricing._too_large", lambda *_: True)
    job = job_make(training={"compression": "fp16"}, resources={"device": "cpu", "count": 4})
    offer = offered(job, replace(HEAVY, batch_norms=2), count=4)
    assert any("learn from the rows of a micro-batch" in note for note in offer.notes)
    assert any("Stages know nothing of training.compression" in note for note in offer.notes)
    with pytest.raises(Conflict, match="makes different steps"):
        offer_accept(user=offer.owner, offer=offer, line=line_in(offer, "pipeline"))
    taken = Job.objects.get(pk=job.pk)
    assert taken.spec["training"]["compression"] == "auto"
    assert "It leaves training.compression open." in job_mode(taken)[1]


GIANT = replace(
    HEAVY, parameter_bytes=3_000_000_000, gradient_bytes=3_000_000_000, optimizer_bytes=6_000_000_000, batch_norms=2
)
"""No GPU of 16 GiB holds it, nor half of it; a run of it learns otherwise in stages."""


def test_a_model_that_no_device_holds_is_offered_in_stages_on_unlike_devices_and_placed_there(
    job, node_make, people, offered
):
    node_make("node-1", gpus=3)
    device_slow(user=people.admin, node="node-1", kind="cuda", index=2, factor=2.0)
    offer = offered(job, GIANT, kind="cuda")
    way = offer_priced(offer).chosen.allocation
    assert (way.mode, way.stages, way.count, len(way.parts)) == ("pipeline", 3, 3, 2)
    assert CUT in offer.notes
    taken = offer_accept(user=offer.owner, offer=offer)
    (option,) = options_of(taken)
    assert (option.mode, option.stages, sum(dict(option.parts).values())) == ("pipeline", 3, 3)
    queue(taken)
    assert tick() == 1
    plan = RunPlan.from_dict(taken.attempts.get().plan)
    assert (plan.mode, plan.environment) == ("pipeline", {"DLH_STAGES": "3"})
    assert sorted(rank.slowdown for rank in plan.ranks) == [1.0, 1.0, 2.0]


def test_a_model_that_two_devices_do_not_hold_is_offered_in_several_pipelines_of_four(job, node_make, offered):
    node_make("node-1", gpus=8)
    offer = offered(job, GIANT, kind="cuda", count=8)
    several = [line for line in offer_priced(offer).lines if line.allocation.mode == "pipeline+sync"]
    assert {line.allocation.stages: line.estimate.fits for line in several} == {2: False, 4: True}
