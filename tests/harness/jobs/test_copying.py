"""What a new job takes over of an old one."""

from __future__ import annotations

from typing import Any

import pytest

from harness.jobs.copying import job_copy, left_out

OWN_MODEL = "def build(spec): ...\n"
PAST, AHEAD = "2020-01-31T18:00:00Z", "2035-01-31T18:00:00Z"


@pytest.mark.parametrize(("deadline", "is_kept"), [(PAST, False), (AHEAD, True), ("auto", True)])
def test_all_of_the_spec_is_taken_over_but_a_deadline_that_has_passed(
    job_make: Any, deadline: str, is_kept: bool
) -> None:
    job = job_make(name="first", budget={"deadline": deadline, "time_s": 600}, training={"epochs": 3})
    taken = job_copy(job).spec
    assert taken["budget"] == {"deadline": job.spec["budget"]["deadline"] if is_kept else "auto", "time_s": 600.0}
    assert {**taken, "budget": None} == {**job.spec, "budget": None}
    told = [] if is_kept else ["The deadline of first, 2020-01-31 18:00 UTC, has passed: choose another or none."]
    assert left_out(job) == told


def test_own_model_and_edited_files_are_taken_over(job_make: Any, people: Any) -> None:
    from harness.jobs.services import program_file_write

    own, generated = job_make(own_model=OWN_MODEL), job_make()
    assert (job_copy(own).own_model, job_copy(own).files) == (OWN_MODEL, {})
    assert (job_copy(generated).own_model, job_copy(generated).files) == (None, {})
    program_file_write(user=people.owner, job=own, name="model.py", text=OWN_MODEL + "X = 1\n")
    program_file_write(user=people.owner, job=own, name="extra.py", text="Y = 2\n")
    assert job_copy(own).own_model == OWN_MODEL + "X = 1\n"
    assert set(job_copy(own).files) == {"model.py", "extra.py"}
