"""What the form below the columns of a dataset changes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse


@pytest.mark.parametrize("named", ["", "alcohol"], ids=["as guessed", "another"])
def test_only_a_target_that_a_person_chose_is_called_theirs(world: SimpleNamespace, client: Client, named: str) -> None:
    client.force_login(world.owner)
    wine = world.wine
    guess = wine.profile["target"]
    column = next(one["name"] for one in wine.profile["columns"] if one["name"] not in (guess, "alcohol"))
    wine.options = {key: value for key, value in wine.options.items() if key != "target"}
    wine.save()
    posted = {f"type:{column}": "category", "target": named or guess}
    assert client.post(reverse("dataset_edit", args=[wine.pk]), posted).status_code == 302
    wine.refresh_from_db()
    assert wine.options["column_types"] == {column: "category"}
    assert (wine.options.get("target"), wine.options.get("target_guess")) == ((named or None), None if named else guess)
