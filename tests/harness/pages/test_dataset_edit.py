"""What the form below the columns of a dataset changes."""

from __future__ import annotations

import errno
import re
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.datasets import services
from harness.datasets.models import Dataset
from harness.errors import Conflict


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


def _chosen(page: str) -> dict[str, str]:
    """What the selects of the columns show."""
    form = page.partition('aria-labelledby="colt"')[2].partition("</form>")[0]
    selects = re.findall(r'<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.S)
    found = {name: re.findall(r'<option value="([^"]*)" selected>', options) for name, options in selects}
    assert found and all(len(values) == 1 for values in found.values())
    return {unescape(name): unescape(values[0]) for name, values in found.items()}


def _changed_meanwhile(*given: Any) -> None:
    raise Conflict("The dataset was changed meanwhile.", hint="Look at it again.")


def _full(*given: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("refuse", "status", "said"),
    [(_changed_meanwhile, 409, "was changed meanwhile"), (_full, 507, "installation is full; nothing was changed")],
)
def test_types_that_are_refused_stay_chosen_until_they_can_be_saved(
    world: SimpleNamespace, client: Client, monkeypatch: pytest.MonkeyPatch, refuse: Any, status: int, said: str
) -> None:
    client.force_login(world.owner)
    wine = world.wine
    shown = _chosen(client.get(reverse("dataset_page", args=[wine.pk])).content.decode())
    names = [one["name"] for one in wine.profile["columns"] if one["name"] != wine.profile["target"]]
    posted = {**shown, f"type:{names[0]}": "category", f"type:{names[1]}": "identifier", "target": names[2]}
    assert posted.keys() == shown.keys()
    monkeypatch.setattr(services, "_read_anew", refuse)
    answer = client.post(reverse("dataset_edit", args=[wine.pk]), posted)
    page = answer.content.decode()
    assert answer.status_code == status and said in page and " data-refused" in page
    assert _chosen(page) == posted != shown
    assert not re.search(r'id="rename-dialog"[^>]*\bopen\b', page)


def test_a_name_that_a_dataset_cannot_have_is_corrected_where_it_was_typed(
    world: SimpleNamespace, client: Client
) -> None:
    client.force_login(world.owner)
    name = "Long & wide " * 11
    answer = client.post(reverse("dataset_edit", args=[world.wine.pk]), {"name": name})
    page = unescape(answer.content.decode())
    dialog = page.partition('id="rename-dialog"')[2].partition("</dialog>")[0]
    assert answer.status_code == 422 and re.match(r"[^>]*\bopen\b", dialog)
    assert f'value="{name}"' in dialog and 'role="alert"' in dialog and " data-refused" not in page


def test_how_a_file_was_to_be_read_stays_chosen_where_that_is_refused(
    world: SimpleNamespace, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(world.owner)
    monkeypatch.setattr(services, "_read_anew", _changed_meanwhile)
    dataset = world.failed_dataset
    Dataset.objects.filter(pk=dataset.pk).update(problem={"code": "one_column", "message": "One column.", "hint": ""})

    def chosen(page: str) -> list[str]:
        assert '<option value="utf-8"' in page
        return re.findall(r'<option value="([^"]+)" selected>', page)

    assert chosen(client.get(reverse("dataset_page", args=[dataset.pk])).content.decode()) == [], "it is found out"
    answer = client.post(reverse("dataset_edit", args=[dataset.pk]), {"delimiter": "\t", "encoding": "latin-1"})
    assert answer.status_code == 409
    assert chosen(answer.content.decode()) == ["&#9;", "latin-1"]
