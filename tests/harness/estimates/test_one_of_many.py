"""Several jobs have one program: what is wrong with one of them keeps no other from its offer or its estimate."""

from __future__ import annotations

import pytest
from django.conf import settings

from harness.datasets.models import Dataset, DatasetState
from harness.estimates import probes
from harness.estimates.forecasts import forecast_of
from harness.estimates.models import JobEstimate, ProbeRow
from harness.estimates.services import inspection_answer, measure_answer
from harness.jobs.models import Job

UNREAD = {"ok": False, "workload": None, "problem": {"code": "cannot_trace", "message": "The loop depends on values."}}


@pytest.fixture
def alike(job, job_make, ask, node_make):
    """Offers of two jobs of one program, of which the first is asked for first."""
    node_make("node-1", cpus=2)
    return [ask(each) for each in (job, job_make(name="the same"))]


def _break_program(job: Job) -> None:
    next(settings.STORE.job(job.pk).program.glob("*.py")).write_bytes(b"\xff\xfe\x00")


def test_steps_are_tried_for_the_job_whose_program_is_whole(alike):
    _break_program(alike[0].job)
    inspection_answer({"request_id": alike[0].inspection_id, **UNREAD})
    assert ProbeRow.objects.get().inspection_id == alike[0].inspection_id
    assert {offer.state for offer in type(alike[0]).objects.all()} == {"failed"}


def test_steps_that_were_tried_price_the_job_whose_data_is_there(alike):
    inspection_answer({"request_id": alike[0].inspection_id, **UNREAD})
    broken = Dataset.objects.get(pk=alike[0].job.dataset_id)
    broken.pk, broken.state, broken.problem = "elsewhere", DatasetState.FAILED, {"message": "Its file is cut."}
    broken.save(force_insert=True)
    Job.objects.filter(pk=alike[0].job_id).update(dataset=broken)
    measure_answer({"request_id": f"{probes.PREFIX}{ProbeRow.objects.get().pk}", "ok": True, "step_s": [0.1] * 3})
    alike[1].refresh_from_db()
    assert alike[1].state == "ready"


def test_a_program_that_is_no_text_any_more_was_foretold_nothing(job, node_make):
    job.program_edited = True
    job.save()
    JobEstimate.objects.create(job=job, inspection_key="of what it was", estimate={"allocation": {"count": 1}})
    _break_program(job)
    assert forecast_of(job, kind="cpu", model_name="core", count=1, mode="") == {}
