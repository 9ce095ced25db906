"""The form of a new job: what it begins with, and that nothing is lost or left of what is refused."""

from __future__ import annotations

import html
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from codegen.spec_yaml import load
from harness.datasets.models import Dataset
from harness.jobs.models import Job
from harness.jobs.programs import file_write

OWN_MODEL = "from torch import nn\n\n\ndef build(spec):\n    return nn.Identity()\n"
BROKEN = {
    "program_syntax": ("def build(spec):\n    return (\n", "model.py, line 2: "),
    "model_no_build": ("a,b\n1,2\n", "model.py has no function build(spec)."),
    "model_build_call": ("def build():\n    ...\n", "model.py, line 1: build() cannot be called as build(spec)."),
}


def form(world: SimpleNamespace) -> str:
    return reverse("job_new_spec", args=[world.wine.pk])


def field(page: str, name: str) -> str:
    found = re.search(rf'<textarea[^>]*name="{name}".*?>(.*?)</textarea>', page, re.DOTALL)
    assert found
    return html.unescape(found[1])


def flat(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page)))


@pytest.mark.parametrize(("deadline", "is_passed"), [("2020-01-31T18:00:00Z", True), ("2035-01-31T18:00:00Z", False)])
def test_the_form_that_begins_as_a_job_names_a_deadline_that_has_passed_in_place_of_taking_it(
    world: SimpleNamespace, owner: Client, deadline: str, is_passed: bool
) -> None:
    job = world.jobs["succeeded"]
    spec = {
        **job.spec,
        "budget": {"deadline": deadline, "time_s": 600},
        "training": {**job.spec["training"], "seed": 7},
    }
    Job.objects.filter(pk=job.pk).update(spec=spec)
    page = owner.get(f"{form(world)}?from={job.pk}").content.decode()
    taken = load(field(page, "spec"))
    assert (taken.budget.deadline == "auto", taken.budget.time_s, taken.training.seed) == (is_passed, 600, 7)
    note = f"The deadline of {job.name}, 2020-01-31 18:00 UTC, has passed: choose another or none."
    assert (note in flat(page)) is is_passed and f"This form begins as the job {job.name}." in flat(page)
    asked = {"yaml": field(page, "spec"), "own_model": False}
    checked = owner.post(reverse("job_new_check", args=[world.wine.pk]), json.dumps(asked), "application/json").json()
    assert not checked["problems"]


def test_the_form_that_begins_as_a_job_has_its_own_model_and_names_files_that_stay_behind(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    folder = settings.STORE.job(job.pk).program
    file_write(folder, "model.py", OWN_MODEL)
    file_write(folder, "train.py", "print()\n")
    stays = "Files changed by hand there are not taken over ({}): to keep them, clone the job."
    page = owner.get(f"{form(world)}?from={job.pk}").content.decode()
    assert field(page, "own_model") == "" and stays.format("model.py, train.py") in flat(page)
    Job.objects.filter(pk=job.pk).update(program_own=True)
    page = owner.get(f"{form(world)}?from={job.pk}").content.decode()
    assert field(page, "own_model") == OWN_MODEL and stays.format("train.py") in flat(page)
    assert "This form begins as" not in owner.get(form(world)).content.decode()


@pytest.mark.parametrize("code", BROKEN)
def test_a_refused_own_model_stays_in_the_form_and_leaves_nothing_behind(
    world: SimpleNamespace, owner: Client, code: str
) -> None:
    text, words = BROKEN[code]
    before = Job.objects.count()
    typed = {"spec": "training: {epochs: 3}\n", "own_model": text, "parent": world.jobs["succeeded"].pk}
    answer = owner.post(form(world), typed)
    page = answer.content.decode()
    assert (answer.status_code, Job.objects.count()) == (422, before)
    assert (field(page, "spec"), field(page, "own_model")) == (typed["spec"], text)
    assert f'name="parent" value="{typed["parent"]}"' in page
    assert page.count(html.escape(words)) == 2 and 'aria-invalid="true"' in page, "above, and beside its field"
    answer = owner.post(form(world), {**typed, "own_model": OWN_MODEL})
    assert answer.status_code == 302 and Job.objects.count() == before + 1


def test_the_price_of_a_new_job_comes_before_its_program_unless_that_is_wanted(
    world: SimpleNamespace, owner: Client
) -> None:
    spec = {"spec": "training: {epochs: 3}\n"}
    for look, tab in (({}, "cost"), ({"look": "program"}, "program")):
        answer: Any = owner.post(form(world), {**spec, **look})
        newest = Job.objects.latest("created_at")
        assert answer.url == reverse("job_tab", args=[newest.pk, tab])
        saved: Any = owner.post(reverse("spec_save", args=[newest.pk]), {**spec, **look})
        assert saved.url == answer.url


def test_whatever_refuses_the_form_what_was_typed_stays(world: SimpleNamespace, owner: Client) -> None:
    typed = {"spec": "training: {epochs: 3}\n", "own_model": OWN_MODEL, "parent": ""}

    def refused(status: int, **more: Any) -> str:
        answer = owner.post(form(world), {**typed, **more})
        page = answer.content.decode()
        assert (answer.status_code, field(page, "own_model")) == (status, OWN_MODEL)
        return flat(page)

    assert "own needs your model.py" not in refused(404, parent="nosuchjob000")
    Dataset.objects.filter(pk=world.wine.pk).update(deleted_at=timezone.now())
    assert "in the trash" in refused(409)


def test_family_own_without_a_model_is_told_in_the_form(world: SimpleNamespace, owner: Client) -> None:
    spec = "model: {family: own}\n"
    answer = owner.post(form(world), {"spec": spec, "own_model": "", "parent": ""})
    assert answer.status_code == 422 and "own needs your model.py" in flat(answer.content.decode())
    url = reverse("job_new_check", args=[world.wine.pk])
    for is_own, problems in ((True, 0), (False, 1), ("no flag", 0)):
        asked = json.dumps({"yaml": spec, "own_model": is_own})
        assert len(owner.post(url, asked, "application/json").json()["problems"]) == problems


def test_the_spec_of_a_draft_with_an_own_model_is_checked_as_such(world: SimpleNamespace, owner: Client) -> None:
    tab = reverse("job_tab", args=[world.jobs["draft"].pk, "spec"])
    assert 'data-own=""' in owner.get(tab).content.decode()
    Job.objects.filter(pk=world.jobs["draft"].pk).update(program_own=True)
    assert 'data-own="1"' in owner.get(tab).content.decode()
