"""Lists of jobs: filters that links set, exports that follow, changes that are taken back, many chosen at once."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.jobs.comparing import COMPARE_MAX
from harness.jobs.models import Job

PART = {"HTTP_HX_REQUEST": "true"}


def undo_button(page: str) -> tuple[str, dict[str, list[str]]]:
    """Where the button *Undo* of a page posts to, and what."""
    form = next(part for part in re.findall(r"<form.*?</form>", page, re.DOTALL) if ">Undo<" in part)
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'name="(\w+)"\s+value="([^"]*)"', form):
        if name != "csrfmiddlewaretoken":
            fields.setdefault(name, []).append(value)
    action = re.search(r'action="([^"]*)"', form)
    assert action
    return action[1], fields


def test_a_filter_that_a_link_set_is_named_kept_by_the_form_and_taken_away(
    world: SimpleNamespace, owner: Client
) -> None:
    page = owner.get(f"/jobs/?dataset={world.wine.pk}&family=mlp&state=failed&page=1").content.decode()
    flat = re.sub(r"\s+", " ", page)
    assert f"Dataset {world.wine.name}" in flat and "Model MLP" in flat
    assert f'<input type="hidden" name="dataset" value="{world.wine.pk}">' in flat
    assert 'href="?family=mlp&amp;state=failed" aria-label="Without the filter Dataset"' in flat


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("metric=balanced_accuracy", "Metric balanced accuracy"), ("metric=roc_auc", "Metric ROC AUC"),
        ("family=some_cnn", "Model some cnn"), ("target=balanced_accuracy", "Target balanced_accuracy"),
    ],
)  # fmt: skip
def test_a_filter_has_names_in_words_and_columns_as_they_are(owner: Client, given: str, shown: str) -> None:
    assert shown in re.sub(r"\s+", " ", owner.get(f"/jobs/?{given}").content.decode())


def test_a_dataset_of_others_is_not_named_by_a_filter(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.outsider)
    assert world.wine.name not in client.get(f"/jobs/?dataset={world.wine.pk}").content.decode()


def test_the_links_of_the_export_follow_a_filter_that_is_changed_in_place(
    world: SimpleNamespace, owner: Client
) -> None:
    part = owner.get("/jobs/?state=failed", **PART).content.decode()
    assert 'id="job-export" hx-swap-oob="true"' in part and "/jobs/export.csv?state=failed" in part
    whole = owner.get("/jobs/?state=failed").content.decode()
    assert "hx-swap-oob" not in whole and whole.count('id="job-export"') == 1


@pytest.mark.parametrize("what", ["job", "dataset"])
def test_what_was_deleted_comes_back_by_a_button_beside_the_message(
    world: SimpleNamespace, owner: Client, what: str
) -> None:
    row: Any = world.jobs["succeeded"] if what == "job" else world.failed_dataset
    address = reverse("job_act", args=[row.pk, "delete"]) if what == "job" else reverse("dataset_remove", args=[row.pk])
    action, fields = undo_button(owner.post(address, follow=True).content.decode())
    row.refresh_from_db()
    assert row.deleted_at is not None
    owner.post(action, fields)
    row.refresh_from_db()
    assert row.deleted_at is None


def test_jobs_that_were_deleted_together_come_back_together_where_one_was(
    world: SimpleNamespace, owner: Client
) -> None:
    chosen = [world.jobs[state].pk for state in ("succeeded", "failed", "running")]
    page = owner.post("/jobs/bulk/", {"do": "delete", "job": chosen}, follow=True).content.decode()
    action, fields = undo_button(page)
    assert sorted(fields["job"]) == sorted(chosen[:2])
    answer = owner.post(action, fields)
    assert answer["Location"] == reverse("job_list")
    assert not Job.objects.filter(pk__in=chosen).exclude(deleted_at=None).exists()


def test_of_more_jobs_than_can_be_compared_the_page_says_which_it_took(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    chosen = []
    for number in range(COMPARE_MAX + 2):
        job.pk = f"copy{number:08d}"
        Job.objects.bulk_create([job])
        chosen.append(job.pk)
    page = owner.post("/jobs/bulk/", {"do": "compare", "job": chosen}, follow=True).content.decode()
    assert f"the first {COMPARE_MAX} of the {COMPARE_MAX + 2} jobs" in page


def test_a_part_of_a_page_asked_for_after_the_session_ended_loads_the_page_anew(client: Client) -> None:
    answer = client.get("/", **PART)
    assert answer.status_code == 401 and answer["HX-Refresh"] == "true" and not answer.content
    assert client.get("/")["Location"] == "/login?next=/"


def test_datasets_are_sorted_by_what_a_head_says_and_by_age_without_one(world: SimpleNamespace, owner: Client) -> None:
    def names(query: str) -> list[str]:
        page = owner.get(f"/datasets/{query}").content.decode()
        return [name for name in re.findall(r"/datasets/\w{12}/\">([^<]*)</a>", page) if "&lt;" not in name]

    by_name = names("?sort=name")
    assert by_name == sorted(by_name) and names("?sort=-name") == by_name[::-1]
    assert names("?sort=owner__password") == names("") == names("?sort=-created")
    assert 'aria-sort="ascending"' in owner.get("/datasets/?sort=name").content.decode()


def test_the_trash_says_when_things_go_for_good(world: SimpleNamespace, owner: Client, settings: Any) -> None:
    settings.TRASH_DAYS = 3
    job = world.jobs["succeeded"]
    Job.objects.filter(pk=job.pk).update(deleted_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert 'datetime="2026-01-05T00:00:00+00:00"' in owner.get("/trash/").content.decode()


def test_jobs_are_filtered_by_owner_and_by_the_days_they_were_made(world: SimpleNamespace, owner: Client) -> None:
    def shown(query: str) -> str:
        return owner.get(f"/jobs/?{query}").content.decode()

    running, failed = world.jobs["running"], world.jobs["failed"]
    Job.objects.filter(pk=failed.pk).update(created_at=datetime(2026, 1, 2, 23, 30, tzinfo=UTC))
    for query, told in (("since=2026-01-02&until=2026-01-02", True), ("until=2026-01-01", False)):
        page = shown(query)
        assert (f"/jobs/{failed.pk}/" in page) is told and f"/jobs/{running.pk}/" not in page
        assert '<details class="aside" open>' in re.sub(r"\s+>", ">", page)
    assert "No job matches" in shown(f"owner={world.member.username}")
    assert f'<option value="{world.owner.username}" selected>' in re.sub(r"\s+", " ", shown("owner=owner"))
    assert owner.get("/jobs/?since=yesterday").status_code == 422


def test_owners_of_jobs_that_a_person_does_not_see_are_not_offered(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.outsider)
    choice = client.get("/jobs/").content.decode().split('name="owner"')[1].split("</select>")[0]
    assert "Anyone" in choice and f'<option value="{world.owner.username}"' not in choice


def test_chosen_jobs_are_tagged_together_and_freed_of_a_tag(world: SimpleNamespace, owner: Client) -> None:
    chosen = [world.jobs[state].pk for state in ("succeeded", "running")]

    def tags() -> list[list[str]]:
        return [Job.objects.get(pk=pk).tags for pk in chosen]

    Job.objects.filter(pk=chosen[0]).update(tags=["old"])
    Job.objects.filter(pk=chosen[1]).update(tags=[])
    page = owner.post("/jobs/bulk/", {"do": "tag", "tags": " lr:0.1, näher ,", "job": chosen}, follow=True)
    assert "2 jobs tagged lr:0.1, näher." in page.content.decode()
    assert tags() == [["old", "lr:0.1", "näher"], ["lr:0.1", "näher"]]
    assert all(pk in owner.get("/jobs/?tag=näher").content.decode() for pk in chosen)
    owner.post("/jobs/bulk/", {"do": "untag", "tags": "lr:0.1", "job": chosen})
    assert tags() == [["old", "näher"], ["näher"]]
    assert "No tag is given." in owner.post("/jobs/bulk/", {"do": "tag", "job": chosen}, follow=True).content.decode()


def test_tags_that_are_refused_come_back_with_the_jobs_that_do_not_have_them(
    world: SimpleNamespace, owner: Client
) -> None:
    full, free, other = (world.jobs[state] for state in ("failed", "succeeded", "running"))
    Job.objects.filter(pk=full.pk).update(tags=[f"tag-{number}" for number in range(20)])
    Job.objects.filter(pk=free.pk).update(tags=[])
    sent = {"do": "tag", "tags": "one more & <more>", "job": [full.pk, free.pk]}
    answer = owner.post("/jobs/bulk/?sort=name", sent)
    page = unescape(answer.content.decode())
    assert answer.status_code == 422 and "1 job tagged" in page and "at most 20 tags" in page
    assert re.search(r"<details[^>]*data-tagging open>", page) and 'value="one more & <more>"' in page
    assert "autofocus" not in page, "what is wrong is told at the top"
    ticked = {job.pk for job in (full, free, other) if re.search(rf'name="job"\s+value="{job.pk}"[^>]*\schecked', page)}
    assert ticked == {full.pk}
    free.refresh_from_db()
    assert free.tags == ["one more & <more>"]
    page = unescape(owner.post("/jobs/bulk/", {**sent, "tags": " , "}).content.decode())
    assert "No tag is given." in page and len(re.findall(r'name="job"[^>]*\schecked', page)) == 2
    shown = owner.get("/jobs/?sort=name").content.decode().partition("<table")[2].partition("</form>")[0]
    assert "data-tagging" in shown and not re.search(r"data-tagging open|\schecked", shown)


@pytest.mark.parametrize("do", ["tag", "untag"])
def test_tags_stay_where_no_job_is_selected(owner: Client, do: str) -> None:
    answer = owner.post("/jobs/bulk/?sort=name", {"do": do, "tags": "one & more"})
    page = unescape(answer.content.decode())
    assert answer.status_code == 422 and "No job is selected." in page
    assert re.search(r"<details[^>]*data-tagging open>", page) and 'value="one & more"' in page


def test_the_reason_that_is_told_for_refused_tags_is_one_that_can_be_corrected(
    world: SimpleNamespace, owner: Client
) -> None:
    full = world.jobs["failed"]
    Job.objects.filter(pk=full.pk).update(tags=[f"tag-{number}" for number in range(20)])
    answer = owner.post("/jobs/bulk/", {"do": "tag", "tags": "more", "job": ["gone", full.pk]})
    page = unescape(answer.content.decode())
    assert answer.status_code == 422 and re.search(r"2 could not be tagged more: [^<]*at most 20 tags", page)


def test_what_nobody_asked_for_is_done_to_no_job(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    assert owner.post("/jobs/bulk/", {"job": [job.pk]}).status_code == 404
    job.refresh_from_db()
    assert job.deleted_at is None


def test_a_page_beyond_the_last_one_shows_the_last_one(world: SimpleNamespace, owner: Client) -> None:
    flat = re.sub(r"\s+", " ", owner.get("/jobs/?page=99").content.decode())
    assert "No jobs yet" not in flat and f"{Job.objects.count()} in all · page 1 of 1" in flat
