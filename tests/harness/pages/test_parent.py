"""What a clone has otherwise than its parent, on its tab Spec."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from harness.jobs.models import Job
from harness.jobs.programs import file_write
from harness.jobs.services import job_clone


@pytest.fixture
def clone(world: SimpleNamespace) -> Job:
    return job_clone(user=world.owner, job=world.jobs["succeeded"])


def spec_tab(owner: Client, job: Job) -> str:
    return re.sub(r"\s+", " ", owner.get(reverse("job_tab", args=[job.pk, "spec"])).content.decode())


def test_a_fresh_clone_says_that_nothing_differs_yet(clone: Job, owner: Client) -> None:
    page = spec_tab(owner, clone)
    assert "Changes from" in page and "Nothing yet: spec and program are the same." in page
    assert "Compare the runs" not in page


def test_each_changed_field_stands_beside_what_it_was(world: SimpleNamespace, clone: Job, owner: Client) -> None:
    seed = clone.resolved["spec"]["training"]["seed"]
    clone.resolved["spec"]["training"]["seed"] = seed + 41
    Job.objects.filter(pk=clone.pk).update(resolved=clone.resolved, state="succeeded")
    page = spec_tab(owner, clone)
    row = re.search(r"<code>training.seed</code>.*?</tr>", page)
    assert row and re.findall(r"<td[^>]*>(\d+)</td>", row[0]) == [str(seed), str(seed + 41)]
    assert f"?job={world.jobs['succeeded'].pk}&amp;job={clone.pk}" in page


def test_a_file_that_was_changed_by_hand_is_named(clone: Job, owner: Client) -> None:
    folder = settings.STORE.job(clone.pk).program
    file_write(folder, "train.py", (folder / "train.py").read_text() + "\n")
    assert "This file differs otherwise than by the spec: train.py." in spec_tab(owner, clone)


def test_a_parent_in_another_project_is_not_told(world: SimpleNamespace, clone: Job, owner: Client) -> None:
    told = reverse("job_page", args=[clone.parent_id])
    assert told in spec_tab(owner, clone)
    Job.objects.filter(pk=clone.parent_id).update(project=world.elsewhere)
    page = spec_tab(owner, clone)
    assert "Changes from" not in page and told not in page


def test_the_form_of_a_clone_has_the_name_of_the_clone(clone: Job, owner: Client) -> None:
    assert clone.spec["name"] != clone.name
    assert f"name: {clone.name}" in spec_tab(owner, clone)


def test_a_clone_leaves_out_a_deadline_that_has_passed_and_says_so(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    for deadline, is_kept in (("2020-01-31T18:00:00Z", False), ("2035-01-31T18:00:00Z", True)):
        spec = {**job.spec, "budget": {**job.spec["budget"], "deadline": deadline}}
        Job.objects.filter(pk=job.pk).update(spec=spec, deadline_at=deadline)
        page = owner.post(reverse("job_act", args=[job.pk, "clone"]), follow=True).content.decode()
        assert (f"The deadline of {escape(job.name)}, " in page and "has passed: choose" in page) is not is_kept
        assert (Job.objects.filter(parent=job).latest("created_at").deadline_at is not None) is is_kept
