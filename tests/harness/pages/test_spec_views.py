"""The tab of a draft's spec."""

from __future__ import annotations

import errno
import html
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from codegen.profile.types import ColumnType
from codegen.spec_yaml import load
from harness.datasets.models import Dataset
from harness.jobs import drafts, programs
from harness.jobs.models import Job
from harness.pages.spec_fields import SpecField, spec_groups
from harness.pages.templatetags.dlh import guess_value
from harness.pool.models import Device


@pytest.fixture
def owner(world: SimpleNamespace, client: Client) -> Client:
    client.force_login(world.owner)
    return client


def test_a_refused_spec_is_shown_again_as_it_was_typed(world: SimpleNamespace, owner: Client) -> None:
    url = reverse("spec_save", args=[world.jobs["draft"].pk])
    response = owner.post(url, {"spec": "training:\n  epochs: 0\n"})
    assert response.status_code == 422 and "epochs: 0" in response.content.decode()


def test_a_spec_for_which_the_disk_has_no_room_is_shown_again_as_it_was_typed(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(wanted: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(programs, "folders_replace", full)
    job = world.jobs["draft"]
    before = (job.spec, job.program_sha256)
    answer = owner.post(reverse("spec_save", args=[job.pk]), {"spec": "training:\n  epochs: 3  # mine\n"})
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 507 and "epochs: 3  # mine" in page
    assert "The disk of this installation is full; nothing was changed." in page
    job.refresh_from_db()
    assert (job.spec, job.program_sha256) == before


def opened(answer: Any) -> str:
    """The mark of the spec that a page was opened with."""
    found = re.search(r'name="seen" value="(\w+)"', answer.content.decode())
    assert found
    return found[1]


def test_a_spec_that_was_opened_before_another_was_saved_does_not_take_that_back_unasked(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    tab, url = reverse("job_tab", args=[job.pk, "spec"]), reverse("spec_save", args=[job.pk])

    first = owner.get(tab)
    assert first["Cache-Control"] == "no-store"
    theirs, mine = "training:\n  epochs: 3\n", "training:\n  learning_rate: 0.5\n"
    for _ in range(2):  # pressed twice
        saved = owner.post(url, {"spec": theirs, "seen": opened(first)})
        assert saved.status_code == 302
    refused = owner.post(url, {"spec": mine, "seen": opened(first)})
    assert refused.status_code == 409 and "changed in another tab" in refused.content.decode()
    assert "learning_rate: 0.5" in refused.content.decode()
    job.refresh_from_db()
    assert job.epochs == 3 and job.spec["training"]["learning_rate"] == "auto"
    assert owner.post(url, {"spec": mine, "seen": opened(refused)}).status_code == 302
    job.refresh_from_db()
    assert job.spec["training"]["learning_rate"] == 0.5


def test_a_spec_that_is_corrected_after_a_refusal_does_not_take_another_back_unasked(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    url = reverse("spec_save", args=[job.pk])
    first = opened(owner.get(reverse("job_tab", args=[job.pk, "spec"])))

    def saved(epochs: int, seen: str) -> Any:
        return owner.post(url, {"spec": f"training:\n  epochs: {epochs}\n", "seen": seen})

    assert saved(7, first).status_code == 302  # in another tab
    refused = saved(0, first)
    assert refused.status_code == 422
    asked = saved(5, opened(refused))
    assert asked.status_code == 409 and "changed in another tab" in asked.content.decode()
    job.refresh_from_db()
    assert job.epochs == 7
    assert saved(5, opened(asked)).status_code == 302
    job.refresh_from_db()
    assert job.epochs == 5


def test_a_spec_that_is_saved_while_another_is_made_a_program_of_is_not_undone(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, generate = world.jobs["draft"], drafts._generate

    def saved_meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(drafts, "_generate", generate)
        drafts.job_spec_update(user=world.owner, job=Job.objects.get(pk=job.pk), spec="training:\n  epochs: 3\n")
        return generate(*given)

    monkeypatch.setattr(drafts, "_generate", saved_meanwhile)
    mine = {"spec": "training:\n  learning_rate: 0.5\n"}
    refused = owner.post(reverse("spec_save", args=[job.pk]), mine)
    page = refused.content.decode()
    assert refused.status_code == 409 and "changed in another tab" in page and "learning_rate: 0.5" in page
    job.refresh_from_db()
    assert job.epochs == 3 and job.spec["training"]["learning_rate"] == "auto"
    seen = re.search(r'name="seen" value="(\w+)"', page)
    assert seen and owner.post(reverse("spec_save", args=[job.pk]), mine | {"seen": seen[1]}).status_code == 302


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"state": "queued"}, "and can no longer be edited."),
        ({"deleted_at": datetime(2026, 1, 1, tzinfo=UTC)}, "is in the trash."),
    ],
)
def test_a_spec_that_comes_too_late_is_shown_to_be_copied(
    world: SimpleNamespace, owner: Client, change: dict[str, Any], told: str
) -> None:
    job = world.jobs["draft"]
    Job.objects.filter(pk=job.pk).update(**change)
    refused = owner.post(reverse("spec_save", args=[job.pk]), {"spec": "training:\n  epochs: 3  # mine\n"})
    page = html.unescape(refused.content.decode())
    assert refused.status_code == 409 and told in page
    assert "epochs: 3  # mine" in page and 'data-copy="typed-text"' in page


def test_a_new_spec_warns_of_edited_files_and_undoes_them_on_request(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["draft"]
    owner.post(reverse("program_save", args=[job.pk]), {"name": "model.py", "text": "import os\n"})
    assert "You changed model.py by hand" in owner.get(reverse("job_tab", args=[job.pk, "spec"])).content.decode()
    url = reverse("spec_save", args=[job.pk])
    page = owner.post(url, {"spec": "training:\n  epochs: 3\n"}, follow=True).content.decode()
    assert "edited files were kept" in page
    job.refresh_from_db()
    assert job.program_edited and job.epochs == 3
    owner.post(url, {"spec": "training:\n  epochs: 4\n", "reset": "1"})
    job.refresh_from_db()
    assert not job.program_edited and job.epochs == 4


def test_a_spec_is_not_said_to_be_lost_where_the_edits_beside_it_could_not_be_undone(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    job = world.jobs["draft"]
    drafts.program_file_write(user=world.owner, job=job, name="train.py", text="# mine\n")
    monkeypatch.setattr(programs, "files_replace", full)
    given = {"spec": "training:\n  epochs: 4\n", "reset": "1"}
    page = html.unescape(owner.post(reverse("spec_save", args=[job.pk]), given, follow=True).content.decode())
    assert "The spec is saved, but your edits were not undone. The disk of this installation is full" in page
    job.refresh_from_db()
    assert job.spec["training"]["epochs"] == 4 and job.program_edited


def test_the_form_says_what_it_does_to_an_edited_spec_yaml(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["draft"]
    tab = reverse("job_tab", args=[job.pk, "spec"])
    assert "You changed spec.yaml by hand" not in owner.get(tab).content.decode()
    text = settings.STORE.job(job.pk).program.joinpath("spec.yaml").read_text()
    owner.post(reverse("program_save", args=[job.pk]), {"name": "spec.yaml", "text": f"# mine\n{text}"})
    told = owner.get(tab).content.decode()
    assert "You changed spec.yaml by hand" in told and "What you wrote stays when you save" in told


def test_an_edit_that_a_new_spec_leaves_no_place_for_is_told_where_the_spec_is_saved(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    text = settings.STORE.job(job.pk).program.joinpath("spec.yaml").read_text()
    edited = re.sub(r"  epochs: \d+", "  epochs: 44", text)
    owner.post(reverse("program_save", args=[job.pk]), {"name": "spec.yaml", "text": edited})
    saved = {"spec": "training:\n  epochs: 3\n"}
    page = owner.post(reverse("spec_save", args=[job.pk]), saved, follow=True).content.decode()
    assert "1 edit of spec.yaml gave way to its spec." in page
    page = owner.post(reverse("spec_save", args=[job.pk]), saved, follow=True).content.decode()
    assert "gave way to its spec." not in page, "told once"


def test_a_file_that_does_not_parse_is_saved_and_says_so_with_its_line(world: SimpleNamespace, owner: Client) -> None:
    url = reverse("program_save", args=[world.jobs["draft"].pk])
    told = owner.post(url, {"name": "model.py", "text": "import os\n\ndef build(:\n"}).json()
    assert told["fault"]["line"] == 3 and told["fault"]["message"].startswith("model.py, line 3: ")
    assert owner.post(url, {"name": "model.py", "text": "import os\n"}).json()["fault"] is None


def test_the_spec_of_a_job_that_ran_stands_there_as_it_can_be_used_again(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    page = owner.get(reverse("job_tab", args=[job.pk, "spec"])).content.decode()
    text = re.search(r'id="spec-text">(.*?)</pre>', page, re.DOTALL)
    assert text and load(html.unescape(text[1])).task == job.resolved["spec"]["task"]


def test_what_was_chosen_is_called_as_in_the_form() -> None:
    def told(field: str, value: object) -> str:
        return guess_value({"field": field, "value": value})

    assert (told("objective.metric", "r2"), told("task", "tabular_regression")) == ("R²", "Table: predict a number")
    assert (told("resources.split", "by_speed"), told("training.epochs", 1234)) == ("by speed", "1234")
    assert (told("data.split.stratify", True), told("mode", "sync")) == ("yes", "sync")


def test_the_form_knows_the_limits_of_the_schema(world: SimpleNamespace) -> None:
    from harness.datasets.selectors import dataset_profile

    fields = {field.path: field for group in spec_groups(dataset_profile(world.wine)) for field in group.fields}
    assert dict(fields["training.epochs"].bounds)["ge"] == 1
    assert dict(fields["training.learning_rate"].bounds)["gt"] == 0
    assert {"ge": 0, "lt": 1}.items() <= dict(fields["data.split.test"].bounds).items()


def test_metrics_stand_below_what_they_are_for(world: SimpleNamespace, owner: Client) -> None:
    from harness.datasets.selectors import dataset_profile

    def metrics(dataset: Dataset) -> SpecField:
        groups = spec_groups(dataset_profile(dataset))
        return next(field for group in groups for field in group.fields if field.path == "objective.metric")

    table, pictures = metrics(world.wine), metrics(world.digits)
    heads = {head: {value for value, _ in choices} for head, _, choices in table.headed}
    assert heads["for a number"] == {"r2", "rmse", "mae"} and "accuracy" in heads["for classes"]
    assert {value for value, _ in pictures.choices} == heads["for classes"] and not pictures.headed
    page = owner.get(reverse("job_new_spec", args=[world.wine.pk])).content.decode()
    assert re.search(
        r'<optgroup label="for a number" data-tasks="forecast tabular_regression">\s*<option value="r2">R²</option>',
        page,
    )


def test_the_finish_time_of_the_form_is_not_said_to_be_utc(world: SimpleNamespace) -> None:
    from harness.datasets.selectors import dataset_profile

    fields = {field.path: field for group in spec_groups(dataset_profile(world.wine)) for field in group.fields}
    field = fields["budget.deadline"]
    assert (field.label, field.hint) == ("Done by (your time)", "Left open, nothing is promised.")


def test_the_form_lists_every_column_to_leave_out_with_what_it_holds(world: SimpleNamespace, owner: Client) -> None:
    from harness.datasets.selectors import dataset_profile

    profile = dataset_profile(world.wine)
    first, *others = profile.columns
    useless = replace(first, name="a, b", type=ColumnType.CONSTANT)
    groups = spec_groups(replace(profile, columns=(useless, *others)))
    (field,) = (field for group in groups for field in group.fields if field.path == "data.exclude")
    assert field.columns[0] == ("a, b", "constant: left out already")
    assert field.columns[1:] == tuple((column.name, str(column.type)) for column in others)
    page = owner.get(reverse("job_new_spec", args=[world.wine.pk])).content.decode()
    found = re.search(r'data-column-choice.*?<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found and [name for name, _ in json.loads(found[1])] == [column.name for column in profile.columns]


def test_pictures_have_no_columns_to_leave_out(world: SimpleNamespace, owner: Client) -> None:
    page = owner.get(reverse("job_new_spec", args=[world.digits.pk])).content.decode()
    assert "data-column-choice" not in page and 'data-spec="training.epochs"' in page


def test_models_of_device_are_a_choice_where_the_pool_has_several(world: SimpleNamespace, owner: Client) -> None:
    url = reverse("job_tab", args=[world.jobs["draft"].pk, "spec"])
    assert 'id="spec-resources-device-model"' not in owner.get(url).content.decode()
    Device.objects.filter(node=world.node, index=0).update(model_name="EPYC <9754>")
    text = owner.get(url).content.decode()
    assert 'id="spec-resources-device-model"' in text and "EPYC &lt;9754&gt;" in text
