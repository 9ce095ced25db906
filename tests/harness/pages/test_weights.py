"""Weights files on the pages: listed, offered by the form of a job, shown by the job that starts from one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from django.test import Client
from django.urls import reverse

from harness.accounts.models import Membership, Role, User
from harness.datasets.models import WeightsFile
from harness.jobs.models import Job
from tests.factory_weights import safetensors, weights_make


def shown(client: Client, name: str, *arguments: str) -> str:
    answer: Any = client.get(reverse(name, args=arguments))
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_list_tells_what_a_file_holds_and_deletes_it(world: SimpleNamespace, owner: Client) -> None:
    page = shown(owner, "weights_files")
    assert "resnet-trained" in page and world.weights.pk in page and "F32" in page
    owner.post(reverse("weights_remove", args=[world.weights.pk]))
    assert not WeightsFile.objects.exists()
    assert "No weights files yet" in shown(owner, "weights_files")


def test_an_outsider_sees_none_of_them(world: SimpleNamespace) -> None:
    client = Client()
    client.force_login(world.outsider)
    assert "resnet-trained" not in shown(client, "weights_files")


def test_who_may_not_delete_one_has_no_button(world: SimpleNamespace, owner: Client) -> None:
    address = reverse("weights_remove", args=[world.weights.pk])
    assert address in shown(owner, "weights_files")
    mate = User.objects.create_user("mate-of-orchard", password="a-long-password-1")
    Membership.objects.create(project=world.project, user=mate, role=Role.MEMBER)
    for user in (mate, world.viewer):
        client = Client()
        client.force_login(user)
        page = shown(client, "weights_files")
        assert "resnet-trained" in page and address not in page


def test_what_jobs_start_from_has_no_button_and_is_refused(world: SimpleNamespace, owner: Client) -> None:
    Job.objects.filter(pk=world.jobs["running"].pk).update(weights=world.weights)
    assert reverse("weights_remove", args=[world.weights.pk]) not in shown(owner, "weights_files")
    owner.post(reverse("weights_remove", args=[world.weights.pk]))
    assert WeightsFile.objects.exists()
    assert "starts from" in shown(owner, "job_page", world.jobs["running"].pk)


def test_the_form_offers_those_of_the_project_by_name_or_where_it_is_not_alone_by_id(
    world: SimpleNamespace, owner: Client
) -> None:
    page = shown(owner, "job_new_spec", world.wine.pk)
    assert '<option value="resnet-trained">resnet-trained, 9 numbers' in page
    other = weights_make(world.owner, world.project, "resnet-trained.safetensors", safetensors(fill=1))
    weights_make(world.outsider, world.elsewhere, "theirs.safetensors")
    page = shown(owner, "job_new_spec", world.wine.pk)
    assert f'<option value="{other.pk}">' in page and f'<option value="{world.weights.pk}">' in page
    assert "theirs" not in page


def test_the_form_tells_of_weights_that_the_project_does_not_have(world: SimpleNamespace, owner: Client) -> None:
    weights_make(world.outsider, world.elsewhere, "theirs.safetensors")
    address = reverse("job_new_check", args=[world.wine.pk])

    def problems(name: str) -> list[dict[str, str]]:
        spec = {"model": {"family": "mlp", "weights": name}}
        answer: Any = owner.post(address, {"spec": spec}, content_type="application/json")
        found: list[dict[str, str]] = answer.json()["problems"]
        return found

    assert problems("resnet-trained") == []
    assert [(one["field"], "There is no weights file" in one["message"]) for one in problems("theirs")] == [
        ("model.weights", True)
    ]


def test_a_draft_made_in_the_form_starts_from_them_and_its_form_begins_with_them(
    world: SimpleNamespace, owner: Client
) -> None:
    spec = "model: {family: mlp, weights: resnet-trained}"
    owner.post(reverse("job_new_spec", args=[world.wine.pk]), {"spec": spec, "own_model": "", "parent": ""})
    job = Job.objects.get(weights=world.weights)
    assert "weights: resnet-trained" in shown(owner, "job_tab", job.pk, "spec")
    assert (
        "weights: resnet-trained"
        in owner.get(reverse("job_new_spec", args=[world.wine.pk]) + f"?from={job.pk}").content.decode()
    )


def test_on_the_page_of_the_disk_they_are_deleted_for_good_at_once(world: SimpleNamespace, owner: Client) -> None:
    address = reverse("storage_act", args=["orchard", "weights", world.weights.pk, "forever"])
    assert address in shown(owner, "project_storage", "orchard")
    owner.post(address)
    assert not WeightsFile.objects.exists()
