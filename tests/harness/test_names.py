"""Names of one line: what is refused as one, and what an older one is shown as."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from harness.accounts.services import project_create, token_create
from harness.datasets.models import Dataset
from harness.datasets.services import dataset_update
from harness.datasets.uploads import upload_create
from harness.errors import Invalid
from harness.jobs.models import Job
from harness.jobs.naming import job_update
from harness.jobs.services import job_clone, job_create
from harness.names import name_line, name_mended, name_read

GIVEN: dict[str, Callable[[SimpleNamespace, Dataset, Job, str], object]] = {
    "A project": lambda people, _, __, name: project_create(user=people.owner, name=name),
    "A token": lambda people, _, __, name: token_create(user=people.owner, name=name),
    "A dataset": lambda people, dataset, _, name: dataset_update(user=people.owner, dataset=dataset, name=name),
    "A weights file": lambda people, _, __, name: upload_create(
        user=people.owner, project=people.project, filename="a.safetensors", size_bytes=9, name=name
    ),
    "A job": lambda people, _, job, name: job_update(user=people.owner, job=job, name=name),
}


@pytest.mark.parametrize("of", GIVEN)
@pytest.mark.parametrize("name", ["two\nlines", "a\ttab", "an\x1b[2Jescape", "a\u2028separator"])
def test_a_name_that_no_page_shows_as_it_is_written_is_refused(
    of: str, name: str, people: SimpleNamespace, dataset: Dataset, job: Job
) -> None:
    with pytest.raises(Invalid, match=f"{of} needs a name of one line") as caught:
        GIVEN[of](people, dataset, job, name)
    assert caught.value.field == "name"


def test_a_name_in_any_script_or_with_joined_emoji_is_one() -> None:
    for name in ("Vögel", "鳥", "मधुमक्\u200dखी", "team \U0001f469\u200d\U0001f4bb"):
        assert name_read(f" {name} ", of="A project", letters_max=120) == name


def test_an_older_name_is_shown_on_one_line() -> None:
    assert name_line(" Birds\r\nof \u2028 prey\t") == "Birds of prey"


def test_a_job_that_its_spec_names_over_two_lines_is_named_on_one(people: SimpleNamespace, dataset: Dataset) -> None:
    spec = {"name": "first\nsecond"}
    made = job_create(user=people.owner, project=people.project, dataset=dataset, spec=spec)
    assert made.name == "first second"


def test_a_name_that_a_page_can_show_is_mended_in_nothing() -> None:
    assert name_mended(" Birds  of prey ") == "Birds  of prey" and name_mended("Birds\n of  prey") == "Birds of prey"


def test_notes_of_a_job_with_an_older_name_are_saved(people: SimpleNamespace, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(name="first\tsecond")
    job.refresh_from_db()
    job_update(user=people.owner, job=job, name="first\tsecond", notes="Works.")
    assert (job.name, job.notes) == ("first\tsecond", "Works.")


def test_a_job_on_data_of_an_older_name_and_a_copy_of_an_older_job_are_named_on_one_line(
    people: SimpleNamespace, dataset: Dataset, job: Job
) -> None:
    Dataset.objects.filter(pk=dataset.pk).update(name="two\nlines")
    dataset.refresh_from_db()
    made = job_create(user=people.owner, project=people.project, dataset=dataset, spec={})
    assert made.name.startswith("two lines · ")
    Job.objects.filter(pk=job.pk).update(name="first\u2028second")
    job.refresh_from_db()
    assert job_clone(user=people.owner, job=job).name == "first second (copy)"
