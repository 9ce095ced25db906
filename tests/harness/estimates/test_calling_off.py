"""A probe ends with the last job that waited for it, and not before."""

from __future__ import annotations

from shutil import rmtree
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from harness.estimates.models import Inspection, ProbeRow
from harness.estimates.probe_answers import probe_call_off
from harness.estimates.probes import AGAIN, PREFIX
from harness.estimates.retention import probes_watch
from harness.estimates.services import inspection_answer, job_estimate, measure_answer, offer_probe
from harness.jobs.models import Job
from harness.jobs.project_trash import project_delete
from harness.jobs.services import job_cancel, job_delete, job_pause
from harness.pool.models import Reservation
from harness.rates.submitting import job_submit
from tests.harness.jobs.helpers import place_now

UNREAD = {"ok": False, "workload": None, "problem": {"code": "cannot_trace", "message": "The loop depends on values."}}

FIRST_LOOK = {"state": "done", "step_s": [0.1, 0.1, 0.1], "peak_bytes": None, "power_w": None}


def project_end(*, user: Any, job: Job) -> None:
    project_delete(user=user, project=job.project, name=job.project.name)


def start(*, user: Any, job: Job) -> None:
    place_now(job)


def stopped(tasks_sent: list[Any]) -> list[Any]:
    return [(arguments, node) for name, arguments, node in tasks_sent if name == "node.measure_stop"]


@pytest.mark.parametrize(
    "end", [job_cancel, job_delete, project_end, start], ids=["cancelled", "deleted", "project deleted", "started"]
)
def test_steps_that_no_job_waits_for_any_more_end_and_their_device_is_free(
    job: Job, people: SimpleNamespace, node_make: Any, offered: Any, commit: Any, tasks_sent: list[Any], end: Any
) -> None:
    node_make("node-1", cpus=2)
    probe = offer_probe(user=people.owner, offer=offered(job))
    assert commit(probes_watch) == 1 and not stopped(tasks_sent)
    end(user=people.owner, job=job)
    assert commit(probes_watch) == 0
    assert stopped(tasks_sent) == [([f"{PREFIX}{probe.pk}"], "node.node-1")]
    assert not Reservation.objects.filter(cancelled_at=None).exists()
    probe.refresh_from_db()
    assert (probe.state, probe.problem["code"]) == ("failed", "called_off")
    measure_answer({"request_id": f"{PREFIX}{probe.pk}", "ok": True, "step_s": [0.1]})
    probe.refresh_from_db()
    assert (probe.state, probe.step_s) == ("failed", [])


def test_steps_go_on_while_another_job_has_an_offer_for_the_same_program(
    job: Job, job_make: Any, people: SimpleNamespace, node_make: Any, offered: Any, commit: Any
) -> None:
    node_make("node-1", cpus=2)
    offer = offered(job)
    assert offered(job_make(name="twin")).inspection == offer.inspection
    offer_probe(user=people.owner, offer=offer)
    job_cancel(user=people.owner, job=job)
    assert commit(probes_watch) == 1


def test_a_job_without_an_offer_keeps_its_steps_while_it_is_held_back(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any
) -> None:
    node_make("node-1", cpus=2)
    job = job_make()
    _wait_unread(job, people.owner)
    assert commit(probes_watch) == 1
    job_pause(user=people.owner, job=job)
    assert commit(probes_watch) == 1


def test_a_job_whose_files_are_gone_keeps_no_other_probe_from_being_called_off(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any
) -> None:
    node_make("node-1", cpus=2)
    job, broken = job_make(), job_make(name="broken")
    _wait_unread(job, people.owner)
    job_submit(user=people.owner, job=broken)
    rmtree(settings.STORE.job(broken.pk).program)
    assert commit(probes_watch) == 1
    job_cancel(user=people.owner, job=job)
    assert commit(probes_watch) == 0


def test_a_draft_that_asked_for_nothing_is_not_read_and_keeps_no_device(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any
) -> None:
    node_make("node-1", cpus=2)
    job = job_make()
    job_make(name="a draft of the same program")
    _wait_unread(job, people.owner)
    job_cancel(user=people.owner, job=job)
    assert commit(probes_watch) == 0


def test_a_second_look_that_begins_meanwhile_is_the_one_that_the_node_drops(
    job: Job, people: SimpleNamespace, node_make: Any, offered: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1", cpus=2)
    read_before = offer_probe(user=people.owner, offer=offered(job))
    ProbeRow.objects.filter(pk=read_before.pk).update(first_look=FIRST_LOOK)
    commit(lambda: probe_call_off(read_before))
    assert stopped(tasks_sent) == [([f"{PREFIX}{read_before.pk}{AGAIN}"], "node.node-1")]
    assert ProbeRow.objects.get().step_s == FIRST_LOOK["step_s"]


def test_an_answer_that_comes_meanwhile_stays(
    job: Job, people: SimpleNamespace, node_make: Any, offered: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1", cpus=2)
    read_before = offer_probe(user=people.owner, offer=offered(job))
    ProbeRow.objects.filter(pk=read_before.pk).update(state="done", step_s=[0.1])
    commit(lambda: probe_call_off(read_before))
    assert not stopped(tasks_sent) and ProbeRow.objects.get().state == "done"


def test_what_was_called_off_is_not_held_against_a_job_that_comes_back(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any
) -> None:
    node_make("node-1", cpus=2)
    first = job_make(name="first")
    for round_ in range(4):
        job = first if round_ == 0 else job_make(name=f"again {round_}")
        _wait_unread(job, people.owner)
        assert ProbeRow.objects.filter(state="waiting").count() == 1
        job_cancel(user=people.owner, job=job)
        assert commit(probes_watch) == 0
    assert ProbeRow.objects.count() == 4


def _wait_unread(job: Job, owner: Any) -> None:
    job_submit(user=owner, job=job)
    Job.objects.filter(pk=job.pk).update(waiting_code="devices_busy")
    job_estimate(job.pk)
    if Inspection.objects.get().state == "waiting":
        inspection_answer({"request_id": Inspection.objects.get().pk, **UNREAD})
    job_estimate(job.pk)
