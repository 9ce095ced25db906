"""A dataset of bytes that the project has already says so."""

from __future__ import annotations

from types import SimpleNamespace

from django.test import Client
from django.urls import reverse

from harness.datasets.models import Dataset
from harness.ids import new_id


def test_the_page_of_a_dataset_leads_to_earlier_ones_of_the_same_bytes(world: SimpleNamespace, owner: Client) -> None:
    again = Dataset.objects.get(pk=world.wine.pk)
    again.pk, again.name = new_id(), "again"
    again.save(force_insert=True)
    place = reverse("dataset_page", args=[world.wine.pk])
    told = " ".join(owner.get(reverse("dataset_page", args=[again.pk])).content.decode().split())
    assert f'The same bytes are here already as <a href="{place}">{world.wine.name}</a>.' in told
    assert "are here already" not in owner.get(place).content.decode()
