"""A dataset whose target has one value says so on its page and where a job of it is made, with what to do."""

from __future__ import annotations

from types import SimpleNamespace

from django.test import Client
from django.urls import reverse

from harness.datasets.models import Dataset

NOT_YET = "No model can be trained on this yet"


def _of_one_value(dataset: Dataset) -> str:
    """Let its target have one value in all rows; returns the target."""
    body = dict(dataset.profile or {})
    target = body["target"]
    changed = {"unique": 1, "type": "constant", "top_values": [["yes", body["rows"]]]}
    body["columns"] = [{**one, **changed} if one["name"] == target else one for one in body["columns"]]
    dataset.profile = {**body, "classes": [["yes", body["rows"]]]}
    dataset.save()
    return str(target)


def test_the_page_of_a_target_with_one_value_says_what_to_do_and_offers_no_training(
    world: SimpleNamespace, owner: Client
) -> None:
    place = reverse("dataset_page", args=[world.wine.pk])
    train = reverse("job_new_spec", args=[world.wine.pk])
    before = owner.get(place).content.decode()
    assert NOT_YET not in before and train in before
    target = _of_one_value(world.wine)
    after = " ".join(owner.get(place).content.decode().split())
    assert f"{NOT_YET}: &#x27;{target}&#x27; has only one value (&#x27;yes&#x27;)" in after
    assert "choose another target, such as" in after and train not in after


def test_pictures_of_one_class_are_told_to_be_put_into_folders(world: SimpleNamespace, owner: Client) -> None:
    body = dict(world.digits.profile)
    world.digits.profile = {**body, "classes": [["7", body["rows"]]]}
    world.digits.save()
    page = owner.get(reverse("dataset_page", args=[world.digits.pk])).content.decode()
    assert NOT_YET in page and "each class in its own folder" in page
    assert reverse("job_new_spec", args=[world.digits.pk]) not in page


def test_a_job_of_it_is_refused_by_the_api_with_the_field_and_other_targets(
    world: SimpleNamespace, owner: Client
) -> None:
    target = _of_one_value(world.wine)
    body = {"dataset": world.wine.pk, "spec": {}}
    answer = owner.post("/api/v1/jobs", body, content_type="application/json")
    assert answer.status_code == 422 and "such as" in answer.content.decode()
    assert f"'{target}' has only one value" in answer.content.decode() and "data.target" in answer.content.decode()
    assert answer.json()["error"]["hint"] == "Set the field.", "it was left to `auto`, which is no way out"
