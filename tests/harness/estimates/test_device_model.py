"""A spec that names the model of device: what is offered, estimated and placed keeps to it."""

from __future__ import annotations

import pytest

from codegen import spec_yaml
from harness.estimates.accepting import estimates_fixed
from harness.estimates.models import Inspection
from harness.estimates.offers import Asked
from harness.estimates.selectors import offer_lines, offer_priced
from harness.estimates.services import inspection_answer, job_estimate, offer_accept
from harness.jobs.control.tick import tick
from harness.jobs.drafts import job_clone, job_spec_update
from harness.jobs.models import Allocation
from harness.jobs.options import options_of
from harness.jobs.programs import SpecInvalid
from harness.jobs.taken import spec_named
from harness.pool.services import device_slow
from tests.harness.estimates.factories import answer
from tests.harness.jobs.helpers import queue
from tests.scheduler.made_workloads import workload

WORK = workload(layers=4, filters=48, batch=32)
SLOW = "core, declared 3 times as slow"


@pytest.fixture
def unlike(node_make, people):
    """A node with a core and a slow one."""
    node_make("node-1", cpus=2)
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=3.0)


@pytest.fixture
def slow_job(unlike, job_make):
    """A draft that names the slow one."""
    return job_make(resources={"device_model": SLOW})


@pytest.fixture
def priced(read_as):
    """An offer as the page and the API ask for it first: what the spec fixes."""

    def make(job, **given):
        wish = Asked.wished(job.spec, **given).wish
        fixed = {"kind": wish.kind, "model_name": wish.model_name, "count": wish.count, "mode": wish.mode}
        return read_as(WORK, job, **fixed)

    return make


def test_a_program_names_it_as_the_job_does(slow_job):
    assert (
        slow_job.resolved["spec"]["resources"] | {"device": "cpu", "device_model": SLOW}
        == (slow_job.resolved["spec"]["resources"])
    )
    assert spec_yaml.load(spec_yaml.dump(spec_yaml.from_dict(slow_job.spec))).resources.device_model == SLOW


def test_one_that_the_pool_lacks_is_refused_by_field_with_those_that_it_has(unlike, job_make):
    with pytest.raises(SpecInvalid) as refused:
        job_make(resources={"device_model": "NVIDIA A100"})
    assert "resources.device_model" in refused.value.message
    assert f"it has 'core', '{SLOW}'" in refused.value.message


def test_an_offer_recommends_it_alone_and_says_why_others_are_not(slow_job, priced):
    offer = offer_priced(priced(slow_job))
    assert offer.chosen.allocation.model_name == SLOW
    others = [line for line in offer.lines if line.allocation.model_name != SLOW]
    assert others and all("(resources.device_model)" in line.why for line in others)


def test_what_is_asked_for_counts_more_than_the_spec(slow_job, priced):
    assert offer_priced(priced(slow_job, model_name=None)).chosen.allocation.model_name == "core"
    assert Asked.wished(slow_job.spec, kind="cuda").wish.model_name is None
    assert Asked.wished(slow_job.spec, kind="cpu").wish.model_name == SLOW


def test_who_takes_a_line_of_another_has_that_in_the_spec(slow_job, priced):
    offer = priced(slow_job)
    (line,) = (view for view in offer_lines(offer_priced(offer)) if view.line.allocation.model_name == "core")
    taken = offer_accept(user=offer.owner, offer=offer, line=line.place)
    assert taken.spec["resources"]["device_model"] == "core"
    assert {option.model_name for option in options_of(taken)} == {"core"}
    open_again = Asked.wished(spec_named(taken.spec, taken.taken)).wish
    assert (open_again.kind, open_again.model_name) == (None, None), "what came with a line binds no later offer"
    queue(taken)
    assert tick() == 1
    assert Allocation.objects.get(job=taken).device.index == 0


def test_who_takes_a_mixture_leaves_it_open(slow_job, priced):
    offer = priced(slow_job, model_name=None, count=2, mode="sync")
    (line,) = (view for view in offer_lines(offer_priced(offer)) if view.line.allocation.parts)
    taken = offer_accept(user=offer.owner, offer=offer, line=line.place)
    assert taken.spec["resources"]["device_model"] == "auto"


def test_a_job_that_nobody_estimated_gets_no_other_device(slow_job):
    queue(slow_job)
    assert tick() == 1
    assert Allocation.objects.get(job=slow_job).device.slowdown == 3.0


def test_its_estimate_at_submission_is_of_it_alone(slow_job):
    queue(slow_job)
    assert job_estimate(slow_job.pk) is None
    inspection_answer(answer(Inspection.objects.get(), workload=WORK.to_dict()))
    assert {estimate.allocation.model_name for estimate in estimates_fixed(slow_job, WORK)} == {SLOW}
    slow_job.refresh_from_db()
    assert {option.model_name for option in options_of(slow_job)} == {SLOW}


def test_a_copy_keeps_it_and_a_draft_can_open_it_again(slow_job, people):
    copy = job_clone(user=people.owner, job=slow_job)
    assert copy.spec["resources"]["device_model"] == SLOW
    opened = job_spec_update(user=people.owner, job=copy, spec={**copy.spec, "resources": {}})
    assert "device_model" not in opened.resolved["spec"]["resources"]


def test_a_kind_that_a_taken_line_brought_does_not_outlive_the_model(slow_job, priced, node_make):
    node_make("node-2", gpus=1)
    taken = offer_accept(user=slow_job.owner, offer=priced(slow_job))
    assert taken.spec["resources"]["device"] == "cpu"
    named = spec_named(taken.spec, taken.taken)["resources"]
    assert (named["device"], named["device_model"]) == ("auto", SLOW)
