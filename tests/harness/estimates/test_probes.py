"""Probes take their own program and device alone, name nothing to strangers, and survive any answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.errors import Conflict, Invalid, Unavailable
from harness.estimates import probe_answers, probes
from harness.estimates.models import OfferRow, ProbeRow
from harness.estimates.services import inspection_answer, measure_answer, offer_probe
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.services import program_file_write
from harness.jobs.use_rows import HIDDEN, use_rows
from harness.jobs.windows import window_of
from harness.pool.models import Device, Node, Reservation, SchedulerTurn
from harness.pool.quotas import quota_set
from harness.pool.reservations import reservation_hold
from scheduler.offers.values import Offer
from tests.harness.jobs.helpers import estimated, place_now, queue

DEEP: list = []
for _ in range(100):
    DEEP = [DEEP]


def test_a_program_that_was_edited_since_the_offer_is_not_tried_in_its_name(job, people, node_make, offered):
    node_make("node-1")
    offer = offered(job)
    program_file_write(user=people.owner, job=job, name="model.py", text="def build(spec):\n    return 1\n")
    with pytest.raises(Conflict) as refused:
        offer_probe(user=people.owner, offer=offer)
    assert refused.value.code == "offer_stale"
    assert not ProbeRow.objects.exists()
    assert not Reservation.objects.exists()


def test_the_name_of_a_job_is_not_told_to_everybody(job, people, node_make, offered):
    node_make("node-1")
    offer_probe(user=people.owner, offer=offered(job))
    assert job.name not in Reservation.objects.get().purpose


def test_the_device_of_the_wish_is_tried_and_not_the_first_core(job, people, node_make, offered):
    node_make("node-1", cpus=2, gpus=1)
    assert offer_probe(user=people.owner, offer=offered(job, kind="cuda")).kind == "cuda"


def test_without_a_wish_the_recommended_kind_is_tried_or_what_is_idle(job, job_make, people, node_make, offered):
    node_make("node-1", cpus=2, gpus=1)
    offer = offered(job)
    recommended = Offer.from_dict(offer.body).chosen.allocation
    assert offer_probe(user=people.owner, offer=offer).kind == recommended.kind
    ProbeRow.objects.all().delete()
    Reservation.objects.all().delete()
    Device.objects.filter(kind=recommended.kind).update(away_since=timezone.now())
    other = {"cpu": "cuda", "cuda": "cpu"}[recommended.kind]
    assert offer_probe(user=people.owner, offer=offer).kind == other


def test_what_was_being_decided_meanwhile_is_decided_again(job, people, node_make, offered):
    node_make("node-1")
    offer = offered(job)
    SchedulerTurn.objects.get_or_create(pk=1)
    before = SchedulerTurn.objects.get().number
    offer_probe(user=people.owner, offer=offer)
    assert SchedulerTurn.objects.get().number > before


def test_no_device_that_runs_a_job_is_taken(job, job_make, people, node_make, offered):
    node_make("node-1", cpus=1)
    offer = offered(job)
    place_now(job_make(name="runs"))
    with pytest.raises(Unavailable, match="No device is idle"):
        offer_probe(user=people.owner, offer=offer)


@pytest.mark.parametrize(
    ("wish", "words"), [({"kind": "cuda"}, "of the kind cuda"), ({"model_name": "Tesla T4"}, r"\(Tesla T4\)")]
)
def test_a_device_that_the_pool_has_not_is_not_waited_for(job, people, node_make, offered, wish, words):
    node_make("node-1", cpus=1)
    with pytest.raises(Invalid, match=f"The pool has no device {words}") as refused:
        offer_probe(user=people.owner, offer=offered(job), **wish)
    assert refused.value.field == "device"


def test_a_program_that_no_node_may_run_is_not_told_to_wait_for_an_idle_device(job, people, node_make, offered):
    node_make("node-1", cpus=1)
    offer = offered(job)
    Job.objects.filter(pk=job.pk).update(program_edited=True)
    Node.objects.update(sandbox_level=0)
    with pytest.raises(Unavailable, match=r"device of the kind cpu and sandbox level L\d, which this program needs"):
        offer_probe(user=people.owner, offer=OfferRow.objects.get(pk=offer.pk), kind="cpu")


def test_a_device_that_is_reserved_in_a_moment_is_left_alone(job, people, node_make, offered):
    node_make("node-1", cpus=2)
    offer, soon = offered(job), timezone.now() + timedelta(seconds=30)
    first = Device.objects.get(index=0)
    reservation_hold(target=first, starts_at=soon, ends_at=soon + timedelta(hours=1), purpose="Course")
    offer_probe(user=people.owner, offer=offer)
    assert Reservation.objects.filter(device__index=1).exists()


def test_what_is_kept_for_the_project_is_tried_and_what_is_kept_for_another_is_not(job, people, node_make, offered):
    node_make("node-1", cpus=1)
    offer, device = offered(job), Device.objects.get()
    keep = {"target": device, "ends_at": timezone.now() + timedelta(hours=1), "purpose": "Course"}
    other = reservation_hold(**keep, project=people.elsewhere)
    with pytest.raises(Unavailable, match="No device is idle"):
        offer_probe(user=people.owner, offer=offer)
    other.delete()
    reservation_hold(**keep, project=people.project)
    assert offer_probe(user=people.owner, offer=offer).state == "waiting"
    queued = queue(estimated(job, run_s=60))
    assert tick() == 0, "nothing starts beside the steps"
    queued.refresh_from_db()
    assert queued.waiting_code == "reserved"


def test_what_a_probe_used_is_a_row_of_its_own_and_its_projects(job, people, node_make, offered):
    node_make("node-1", cpus=1)
    probe = offer_probe(user=people.owner, offer=offered(job))
    ProbeRow.objects.update(sent_at=timezone.now() - timedelta(seconds=100))
    told = {"request_id": f"{probes.PREFIX}{probe.pk}", "ok": True, "step_s": [0.1, 0.1, 0.1]}
    for _ in range(2):
        measure_answer(told)
    window = window_of("day")
    (row,) = use_rows(user=people.owner, window=window, by="job")
    assert (row.name, row.job_id, row.basis) == (probe_answers.USE_NAME, "", "assumed")
    assert row.device_s == pytest.approx(100, abs=5) and row.energy_j > 0
    (row,) = use_rows(user=people.owner, window=window, by="project")
    assert row.name == people.project.name
    (row,) = use_rows(user=people.outsider, window=window, by="project")
    assert row.name == HIDDEN


def test_a_probe_that_nobody_answered_used_nothing_that_is_known(job, people, node_make, offered):
    node_make("node-1", cpus=1)
    probe = offer_probe(user=people.owner, offer=offered(job))
    ProbeRow.objects.update(sent_at=timezone.now() - timedelta(hours=1))
    probe.refresh_from_db()
    probe_answers.probe_expire(probe)
    assert not use_rows(user=people.owner, window=window_of("day"), by="job")


def test_every_job_with_the_program_is_priced_anew(job, job_make, people, node_make, offered):
    node_make("node-1", cpus=2)
    mine, theirs = offered(job), offered(job_make(name="the same"))
    probe = offer_probe(user=people.owner, offer=mine)
    measure_answer({"request_id": f"{probes.PREFIX}{probe.pk}", "ok": True, "step_s": [0.1, 0.1, 0.1]})
    for offer in (mine, theirs):
        offer.refresh_from_db()
        assert "measured" in {line["estimate"]["time_basis"] for line in offer.body["lines"]}


UNREAD = {"ok": False, "workload": None, "problem": {"code": "cannot_trace", "message": "The loop depends on values."}}


def test_a_program_that_cannot_be_read_is_tried_on_a_device_instead(job, node_make, ask):
    node_make("node-1", cpus=2)
    offer = ask(job)
    inspection_answer({"request_id": offer.inspection_id, **UNREAD})
    probe = ProbeRow.objects.get()
    offer.refresh_from_db()
    assert offer.state == "failed" and probe.inspection_id == offer.inspection_id
    measure_answer({"request_id": f"{probes.PREFIX}{probe.pk}", "ok": True, "step_s": [0.1, 0.1, 0.1]})
    offer.refresh_from_db()
    assert offer.state == "ready"
    assert [line["estimate"]["time_basis"] for line in offer.body["lines"]] == ["measured"]
    assert "cannot be read without running it" in offer.notes[0]
    other = ask(job, count=2)
    assert "known only for 1 CPU core (core)" in other.body["text"]


def test_where_no_device_is_idle_a_program_that_cannot_be_read_fails_its_offer(job, job_make, node_make, ask):
    node_make("node-1", cpus=1)
    offer = ask(job)
    place_now(job_make(name="runs"))
    inspection_answer({"request_id": offer.inspection_id, **UNREAD})
    offer.refresh_from_db()
    assert offer.state == "failed" and not ProbeRow.objects.exists()


def test_a_program_that_does_not_run_is_not_tried(job, node_make, ask):
    node_make("node-1", cpus=1)
    problem = {"code": "program_error", "message": "NameError"}
    inspection_answer({"request_id": ask(job).inspection_id, **UNREAD, "problem": problem})
    assert not ProbeRow.objects.exists()


def test_a_probe_counts_against_a_quota_that_is_hard(job, job_make, people, node_make, offered):
    node_make("node-1", cpus=3)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1, may_borrow=False)
    first, second = offered(job), offered(job_make(training={"epochs": 3}))
    offer_probe(user=people.owner, offer=first)
    with pytest.raises(Unavailable) as refused:
        offer_probe(user=people.owner, offer=second)
    assert refused.value.code == "quota_used"
    measure_answer({"request_id": f"{probes.PREFIX}{ProbeRow.objects.get().pk}", "ok": True, "step_s": [0.1]})
    offer_probe(user=people.owner, offer=second)
    assert ProbeRow.objects.count() == 2


def test_a_probe_borrows_an_idle_device_where_that_is_allowed(job, job_make, people, node_make, offered):
    node_make("node-1", cpus=2)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1, may_borrow=True)
    offer = offered(job)
    place_now(job_make(name="runs", resources={"count": 1}))
    offer_probe(user=people.owner, offer=offer)
    assert ProbeRow.objects.count() == 1


@pytest.mark.parametrize(
    "report",
    [
        {"step_s": [0.1], "rest": DEEP},
        {"step_s": [10**400]},
        {"step_s": [float("nan")]},
        {"step_s": [1e300]},
        {"step_s": [None]},
        {"step_s": "often"},
        {"problem": DEEP},
        {"problem": {"message": "no\0"}},
    ],
)
def test_an_answer_that_is_none_ends_the_probe_and_frees_its_device(job, people, node_make, offered, report):
    node_make("node-1")
    probe = offer_probe(user=people.owner, offer=offered(job))
    measure_answer({"request_id": f"{probes.PREFIX}{probe.pk}", "ok": True, **report})
    probe.refresh_from_db()
    assert probe.state == "failed"
    assert not Reservation.objects.filter(cancelled_at=None).exists()


def test_a_memory_that_no_host_has_is_not_kept(job, people, node_make, offered):
    node_make("node-1")
    probe = offer_probe(user=people.owner, offer=offered(job))
    measure_answer({"request_id": f"{probes.PREFIX}{probe.pk}", "ok": True, "step_s": [0.1], "peak_bytes": 1e300})
    probe.refresh_from_db()
    assert (probe.state, probe.peak_bytes) == ("done", None)


def test_an_inspection_whose_answer_is_too_deep_fails(job, node_make, ask):
    node_make("node-1")
    offer = ask(job)
    inspection_answer({"request_id": offer.inspection_id, "ok": True, "workload": DEEP})
    offer.refresh_from_db()
    assert offer.state == "failed"
    assert offer.inspection.problem["code"] == "bad_answer"
