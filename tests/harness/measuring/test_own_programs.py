"""What is learnt from programs that people wrote or edited: as much as from others, but for what they alone say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.calibration.models import FinishedJobRow
from harness.estimates.models import Inspection, JobEstimate
from harness.jobs.models import Job
from harness.measuring.learning import job_learn
from harness.measuring.ran_out import _learn as ran_out_learn
from harness.measuring.taught import finished_of, ran_out_of
from tests.harness.measuring.jobs import KIND, NAME


def mark(job: Job, **marks: bool) -> None:
    Job.objects.filter(pk=job.pk).update(**marks)


@pytest.mark.parametrize("written", ["program_edited", "program_own"])
def test_a_program_that_a_person_wrote_teaches_and_is_held_against_its_estimate(
    ended: Callable[..., Job], written: str
) -> None:
    job = ended(0.02, before_end=lambda job: mark(job, **{written: True}))
    assert job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert row.predicted["step_s"]["mid"] > 0 and row.step_s == pytest.approx(0.02)
    (taught,) = finished_of(KIND, NAME)
    assert taught.step_s == pytest.approx(0.02) and taught.author == f"person {job.owner_id}"


def test_a_generated_program_has_no_author(ended: Callable[..., Job]) -> None:
    job_learn(ended(0.02).pk)
    assert FinishedJobRow.objects.get().author is None
    assert [job.author for job in finished_of(KIND, NAME)] == [""]


def test_an_edited_program_that_no_node_has_read_since_teaches_nothing_and_was_not_foretold(
    ended: Callable[..., Job],
) -> None:
    job = ended(0.02, before_end=lambda job: mark(job, program_edited=True))
    JobEstimate.objects.filter(job=job).update(inspection_key="of the program before")
    Inspection.objects.update(key="of the program before")
    assert job_learn(job.pk)
    assert FinishedJobRow.objects.get().predicted == {}
    assert not finished_of(KIND, NAME)


def test_a_person_who_is_gone_is_nobody_in_particular_and_no_generator_either(ended: Callable[..., Job]) -> None:
    job = ended(0.02, before_end=lambda job: mark(job, program_own=True))
    job_learn(job.pk)
    FinishedJobRow.objects.update(author=None)
    assert [job.author for job in finished_of(KIND, NAME)] == ["person None"]


def test_that_its_memory_ran_out_is_believed_of_generated_programs_alone(ended: Callable[..., Job]) -> None:
    for own in (False, True):
        job = ended(0.02)
        mark(job, program_edited=own)
        attempt = job.attempts.get()
        assert ran_out_learn(Job.objects.get(pk=job.pk), attempt)
        attempt.ran_out.limit_bytes = 1 << 30
        attempt.ran_out.save()
    assert len(ran_out_of(KIND, NAME)) == 1
