"""Devices and mode in an edited spec.yaml: the job's spec places it, and nothing is ignored silently."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings

from harness.errors import Invalid
from harness.jobs.models import Job
from harness.jobs.places import places_check
from harness.jobs.services import program_file_write
from harness.rates.submitting import job_submit


@pytest.fixture
def spec_file(job: Job) -> Path:
    return settings.STORE.job(job.pk).program / "spec.yaml"


@pytest.mark.parametrize(
    ("own", "written"),
    [("mode: single", "mode: sync"), ("  count: 1", "  count: 2"), ("  device: cpu", "  device: cuda")],
)
def test_other_devices_in_spec_yaml_are_refused_by_field_and_line(
    job: Job, people: SimpleNamespace, spec_file: Path, own: str, written: str
) -> None:
    text = spec_file.read_text()
    assert text.count(own) == 1
    changed = text.replace(own, written)
    program_file_write(user=people.owner, job=job, name="spec.yaml", text=changed)
    with pytest.raises(Invalid) as refused:
        job_submit(user=people.owner, job=job)
    assert refused.value.code == "program_places"
    assert changed.splitlines()[refused.value.details["line"] - 1] == written
    assert written.split()[0].rstrip(":") in refused.value.message and "tab Spec" in refused.value.hint
    job.refresh_from_db()
    assert job.state == "draft"


def test_a_field_that_the_job_leaves_out_is_refused_too_unless_it_says_auto(
    job: Job, people: SimpleNamespace, spec_file: Path
) -> None:
    text = spec_file.read_text()
    for value, is_refused in (("2", True), ("auto", False)):
        changed = text.replace("  count: 1", f"  count: 1\n  least: {value}")
        program_file_write(user=people.owner, job=job, name="spec.yaml", text=changed)
        if is_refused:
            with pytest.raises(Invalid, match=r"resources\.least"):
                job_submit(user=people.owner, job=job)
    assert job_submit(user=people.owner, job=job).state == "queued"


def test_other_stages_are_refused_since_the_cut_that_was_priced_is_placed(
    job: Job, people: SimpleNamespace, spec_file: Path
) -> None:
    text = spec_file.read_text() + "\npipeline:\n  stages: 3\n"
    program_file_write(user=people.owner, job=job, name="spec.yaml", text=text)
    with pytest.raises(Invalid, match=r"pipeline\.stages is 3"):
        job_submit(user=people.owner, job=job)


def test_what_the_program_itself_reads_may_be_edited(job: Job, people: SimpleNamespace, spec_file: Path) -> None:
    text = spec_file.read_text() + "\nmine: [1, 2]\n"
    program_file_write(user=people.owner, job=job, name="spec.yaml", text=text.replace("count: 1", "count: '1'"))
    assert job_submit(user=people.owner, job=job).state == "queued"


def test_long_names_are_compared_to_their_end() -> None:
    name = "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, declared {} times as slow"
    written, generated = (f"resources:\n  device_model: {name.format(factor)}\n" for factor in (2, 3))
    places_check(generated, generated + "\n")
    with pytest.raises(Invalid, match=r"line 2: resources\.device_model is .*declared 2 .* but .*declared 3 "):
        places_check(written, generated)
