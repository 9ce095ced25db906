"""What the form below the columns of a dataset changes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse


@pytest.mark.parametrize(("named", "kept"), [("", None), ("alcohol", "alcohol")], ids=["as guessed", "another"])
def test_only_a_target_that_a_person_chose_is_called_theirs(
    world: SimpleNamespace, owner: Client, named: str, kept: str | None
) -> None:
    profile = world.wine.profile
    column = next(one["name"] for one in profile["columns"] if one["name"] not in (profile["target"], "alcohol"))
    world.wine.options = {key: value for key, value in world.wine.options.items() if key != "target"}
    world.wine.save()
    posted = {f"type:{column}": "category", "target": named or profile["target"]}
    assert owner.post(reverse("dataset_edit", args=[world.wine.pk]), posted).status_code == 302
    world.wine.refresh_from_db()
    assert world.wine.options["column_types"] == {column: "category"}
    assert world.wine.options.get("target") == kept
