"""The list of jobs shows the columns and the view that its address names, and saves what it shows under a name."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from harness.accounts.models import Membership
from harness.jobs.models import Job
from harness.saved_views.models import SavedView
from tests.harness.pages.test_lists import PART
from tests.harness.pages.test_views import queries


def heads(page: str) -> list[str]:
    """Words of the table's heads."""
    head = re.search(r"<thead>.*?</thead>", page, re.DOTALL)
    assert head
    return [re.sub(r"<[^>]*>|\s+", " ", cell).strip(" ↑↓") for cell in re.findall(r"<th\b.*?</th>", head[0], re.DOTALL)]


def test_the_list_shows_the_columns_of_its_address_in_their_order(world: SimpleNamespace, owner: Client) -> None:
    wanted = "column=metric:val/loss&column=energy_j&column=spec:training.epochs&column=tags&column=state"
    page = owner.get(f"/jobs/?{wanted}&sort=-metric:val/loss").content.decode()
    assert heads(page)[1:] == ["Job", "val/loss", "Energy", "Epochs", "Tags", "State"]
    assert 'aria-sort="descending"' in page
    assert re.search(r'<td\s+class="num"\s+data-label="Epochs"', page), "numbers of a spec stand below each other"
    assert heads(owner.get("/jobs/").content.decode())[1:4] == ["Job", "State", "Dataset"]
    assert owner.get("/jobs/?column=password").status_code == 422


def test_a_change_of_the_form_is_written_the_short_way_into_the_address(world: SimpleNamespace, owner: Client) -> None:
    given = "/jobs/?sort=-created&view=&q=&state=failed&task=&column=owner"
    pushed = owner.get(given, HTTP_HX_TRIGGER="job-filters", **PART)
    assert pushed["HX-Push-Url"] == "/jobs/?view=&state=failed&column=owner"
    assert owner.get("/jobs/?q=", HTTP_HX_TRIGGER="job-filters", **PART)["HX-Push-Url"] == "/jobs/?view="
    assert 'id="job-filters"' in owner.get(given).content.decode()
    assert "HX-Push-Url" not in owner.get(given, **PART)


def test_every_column_there_is_can_be_shown(world: SimpleNamespace, owner: Client) -> None:
    from harness.jobs.columns import COMPUTED, FIELDS, spec_fields

    for keys in ((*FIELDS, *COMPUTED), [f"spec:{path}" for path in spec_fields()[:40]], ["metric:val/accuracy"]):
        answer = owner.get("/jobs/", {"column": keys})
        assert answer.status_code == 200 and len(heads(answer.content.decode())) == len(keys) + 2


def test_the_columns_to_choose_from_begin_with_the_chosen_ones(world: SimpleNamespace, owner: Client) -> None:
    page = owner.get("/jobs/?column=owner&column=state").content.decode()
    boxes = [" ".join(box.split()) for box in re.findall(r'<input[^>]*name="column"[^>]*>', page)]
    assert ['value="owner" checked' in boxes[0], 'value="state" checked' in boxes[1], "checked" in boxes[2]] == [
        True,
        True,
        False,
    ]
    assert sum('value="owner"' in box for box in boxes) == 1
    assert any('value="metric:val/accuracy"' in box for box in boxes) and any(
        "spec:training.seed" in box for box in boxes
    )


def test_the_export_has_the_chosen_columns_and_without_any_the_usual_ones(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["succeeded"]
    Job.objects.filter(pk=job.pk).update(last_values={"val/loss": 0.125}, tags=["a", "b"], name="=1+1")
    query = "state=succeeded&column=metric:val/loss&column=tags&column=spec:training.epochs"
    body = b"".join(owner.get(f"/jobs/export.csv?{query}").streaming_content).decode()  # type: ignore[attr-defined]
    epochs = job.resolved["spec"]["training"]["epochs"]
    assert list(csv.reader(io.StringIO(body))) == [
        ["id", "name", "metric:val/loss", "tags", "spec:training.epochs"],
        [job.pk, "'=1+1", "0.125", "a b", str(epochs)],
    ]  # fmt: skip
    items = json.loads(b"".join(owner.get(f"/jobs/export.json?{query}")))["items"]
    assert items == [
        {"id": job.pk, "name": "=1+1", "metric:val/loss": 0.125, "tags": ["a", "b"], "spec:training.epochs": epochs}
    ]
    assert "run_s" in json.loads(b"".join(owner.get("/jobs/export.json")))["items"][0]


def test_a_view_is_saved_listed_shown_changed_and_deleted(world: SimpleNamespace, owner: Client) -> None:
    answer = owner.post("/jobs/views/new/", {"name": "Slow", "query": "state=failed&sort=-run&column=run_s"})
    view = SavedView.objects.get(name="Slow")
    assert answer["Location"] == f"/jobs/?view={view.pk}&state=failed&sort=-run&column=run_s"
    assert owner.get(f"/jobs/?view={view.pk}")["Location"] == answer["Location"]
    page = owner.get(answer["Location"]).content.decode()
    assert heads(page)[1:] == ["Job", "Run time"] and "changed since" not in page
    changed = owner.get(f"{answer['Location']}&tag=x", **PART).content.decode()
    assert "changed since" in changed and "Update Slow" in changed
    owner.post(f"/jobs/views/{view.pk}/update/", {"query": "state=failed"})
    owner.post(f"/jobs/views/{view.pk}/rename/", {"name": "Broken"})
    view.refresh_from_db()
    assert (view.name, view.query) == ("Broken", "state=failed")
    owner.post(f"/jobs/views/{view.pk}/share/", {"project": "orchard"})
    assert "Broken" in owner.get("/jobs/views/").content.decode()
    owner.post(f"/jobs/views/{view.pk}/delete/")
    owner.get("/jobs/")  # says that it is deleted
    assert "Broken" not in owner.get("/jobs/").content.decode()


def test_what_cannot_be_saved_is_said_on_the_list_as_it_was(world: SimpleNamespace, owner: Client) -> None:
    owner.post("/jobs/views/new/", {"name": "Mine", "query": "tag=x"})
    page = owner.post("/jobs/views/new/", {"name": "Mine", "query": "tag=y"}, follow=True)
    assert "There is a view Mine of yours already." in page.content.decode()
    assert page.redirect_chain[-1][0] == "/jobs/?tag=y&named=Mine&for="
    assert SavedView.objects.get(name="Mine").query == "tag=x"
    assert owner.post(f"/jobs/views/{world.view.pk}/burn/").status_code == 404


def test_a_refused_name_of_a_view_stands_in_its_field_again(world: SimpleNamespace, owner: Client) -> None:
    name = "The best of the week & <more> than a view can be named after in its few letters"
    sent = {"name": name, "query": "tag=y", "project": "orchard"}
    page = owner.post("/jobs/views/new/", sent, follow=True).content.decode()
    form = page[page.index("Save as a view") :]
    assert f'value="{html.escape(name)}"' in form[: form.index("</form>")]
    assert re.search(r'<option value="orchard" selected>\s*For all of', form)
    assert re.search(r"<details[^>]* open>\s*<summary[^>]*>Save as a view", page)
    assert not re.search(r"<details[^>]* open>\s*<summary[^>]*>Save as a view", owner.get("/jobs/").content.decode())


def test_what_was_typed_for_a_refused_view_goes_into_no_address_of_its_list(
    world: SimpleNamespace, owner: Client
) -> None:
    page = owner.get("/jobs/?tag=y&metric=accuracy&named=Mine&for=orchard").content.decode()
    assert 'value="Mine"' in page and "export.csv?tag=y&amp;metric=accuracy" in page
    addresses = re.findall(r'(?:href|action|hx-get)="([^"]*)"', page)
    assert not [address for address in addresses if "named=" in address or "for=orchard" in address]


def test_a_refused_new_name_of_a_view_stands_in_its_field_again(world: SimpleNamespace, owner: Client) -> None:
    for name in ("Mine", "Yours"):
        owner.post("/jobs/views/new/", {"name": name, "query": "tag=x"})
    mine = SavedView.objects.get(name="Mine")
    refused = owner.post(f"/jobs/views/{mine.pk}/rename/", {"name": "Yours"}, follow=True).content.decode()
    assert "There is a view Yours of yours already." in refused
    assert re.search(r'<details[^>]* open>\s*<summary[^>]* aria-label="Rename Mine"', refused)
    assert re.search(r'value="Yours"[^>]* aria-label="New name of Mine"', refused)
    assert not re.search(r'<details[^>]* open>\s*<summary[^>]* aria-label="Rename Yours"', refused)


def test_the_list_opens_with_a_persons_default_only_where_nothing_else_is_asked(
    world: SimpleNamespace, owner: Client
) -> None:
    owner.post(f"/jobs/views/{world.view.pk}/open-with/")
    assert owner.get("/jobs/")["Location"] == f"/jobs/?view={world.view.pk}&{world.view.query}"
    for address in ("/jobs/?view=", "/jobs/?state=running"):
        assert owner.get(address).status_code == 200
    assert owner.get("/jobs/", **PART).status_code == 200
    SavedView.objects.update(query="")
    assert owner.get("/jobs/", follow=True).redirect_chain == [(f"/jobs/?view={world.view.pk}&sort=-created", 302)]
    owner.post(f"/jobs/views/{world.view.pk}/open-plain/")
    assert owner.get("/jobs/").status_code == 200


def test_a_default_that_can_no_longer_be_shown_does_not_shut_the_list(world: SimpleNamespace, owner: Client) -> None:
    owner.post("/jobs/views/new/", {"name": "Of one", "query": "project=orchard"})
    view = SavedView.objects.get(name="Of one")
    owner.post(f"/jobs/views/{view.pk}/open-with/")
    Membership.objects.filter(user=world.owner).delete()
    page = owner.get("/jobs/")
    assert page.status_code == 200 and "Your view Of one cannot be shown" in page.content.decode()


def test_a_view_of_others_is_found_by_nobody_outside(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.outsider)
    assert client.get(f"/jobs/?view={world.view.pk}").status_code == 404
    page = client.get(f"/jobs/?view={world.view.pk}&tag=x").content.decode()
    assert world.view.name not in page and "changed since" not in page


def test_the_pages_need_as_many_queries_for_one_view_as_for_thirty(world: SimpleNamespace, owner: Client) -> None:
    few: dict[str, Any] = {address: queries(owner, address) for address in ("/jobs/", "/jobs/views/")}
    for number in range(30):
        SavedView.objects.create(owner=world.member, project=world.project, name=f"v{number}")
    assert {address: queries(owner, address) for address in few} == few


@pytest.mark.parametrize("name", ["<b>bold</b>", '"quoted" & co'])
def test_a_name_of_a_view_stays_text(world: SimpleNamespace, owner: Client, name: str) -> None:
    owner.post("/jobs/views/new/", {"name": name, "query": "tag=%22%3Cb%3E"})
    for address in ("/jobs/", "/jobs/views/"):
        page = owner.get(address).content.decode()
        assert name not in page and "<b>" not in page
