"""What the views say and do, beyond who may see them."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import escape

from tests.factories import NASTY_NAME


@pytest.fixture
def owner(world: SimpleNamespace, client: Client) -> Client:
    client.force_login(world.owner)
    return client


def test_a_form_that_is_sent_after_the_session_has_ended_leads_back_to_its_page(
    world: SimpleNamespace, client: Client
) -> None:
    job = world.jobs["draft"]
    page, url = reverse("job_tab", args=[job.pk, "cost"]), reverse("job_act", args=[job.pk, "delete"])
    sent = client.post(url, headers={"referer": f"http://testserver{page}?x=1"})
    assert sent.status_code == 302 and sent["Location"] == f"/login?next={page}%3Fx%3D1"
    assert "not signed in any more: nothing was changed" in client.get(sent["Location"]).content.decode()
    client.force_login(world.owner)
    assert client.get(f"{page}?x=1").status_code == 200
    job.refresh_from_db()
    assert job.deleted_at is None
    for referer in ("https://elsewhere.example/login", ""):
        answer = Client().post(url, headers={"referer": referer} if referer else {})
        assert answer["Location"] == "/login?next=/"


def test_a_script_that_saves_after_the_session_has_ended_is_told_so(world: SimpleNamespace, client: Client) -> None:
    url = reverse("program_save", args=[world.jobs["draft"].pk])
    for accept in ("*/*", "application/json"):
        answer = client.post(url, {"name": "model.py", "text": "x = 1"}, headers={"accept": accept})
        assert answer.status_code == 401 and "not signed in any more" in answer.json()["error"]["message"]


def test_the_list_needs_as_many_queries_for_ten_jobs_as_for_forty(world: SimpleNamespace, owner: Client) -> None:
    from harness.jobs.models import Job

    job = world.jobs["succeeded"]
    assert Job.objects.count() == len(world.jobs) == 11
    few = queries(owner, "/jobs/")
    for number in range(30):
        job.pk = f"copy{number:08d}"
        Job.objects.bulk_create([job])
    assert queries(owner, "/jobs/") == few <= 14


def test_every_page_needs_as_many_queries_for_one_project_as_for_thirty(world: SimpleNamespace, owner: Client) -> None:
    from harness.accounts.models import Membership, Project

    addresses = ("/", "/jobs/", "/datasets/", "/datasets/upload/", "/jobs/new/", "/pool/", "/projects/", "/account/")
    few = {address: queries(owner, address) for address in addresses}
    for number in range(30):
        project = Project.objects.create(name=f"p{number}", slug=f"p{number}")
        Membership.objects.create(project=project, user=world.owner, role="member" if number % 2 else "viewer")
    assert {address: queries(owner, address) for address in addresses} == few


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200, address
    return len(captured)


def test_the_wizard_offers_the_newest_datasets_that_the_person_may_use_with_few_queries(
    world: SimpleNamespace, owner: Client
) -> None:
    from harness.accounts.models import Membership, Project
    from harness.datasets.models import Dataset

    before = queries(owner, "/jobs/new/")
    seen_only = Project.objects.create(name="Seen", slug="seen")
    Membership.objects.create(project=seen_only, user=world.owner, role="viewer")
    for number in range(130):
        copy = Dataset.objects.get(pk=world.wine.pk)
        copy.pk, copy.name = f"copy{number:08d}", f"copy {number}"
        copy.project = seen_only if number > 60 else world.project
        Dataset.objects.bulk_create([copy])
    assert queries(owner, "/jobs/new/") == before
    page = owner.get("/jobs/new/").content.decode()
    assert page.count(">Use this<") == 60 and "copy 60<" in page and "copy 61<" not in page
    assert "the newest 60" in page and "178" in page
    assert "the newest" not in owner.get("/jobs/new/?q=copy+1").content.decode()


@pytest.mark.parametrize(
    "address", ["/jobs/?q=", "/jobs/?tag=", "/datasets/?q=", "/jobs/new/?q=", "/jobs/export.csv?q="]
)
def test_a_search_for_a_whole_book_is_refused_in_words(world: SimpleNamespace, owner: Client, address: str) -> None:
    answer = owner.get(address + "a" * 60_000)
    assert answer.status_code == 422 and "at most 500 characters" in answer.content.decode()


def test_a_tab_that_was_opened_before_another_one_saved_does_not_overwrite_it_unasked(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    address = reverse("program_save", args=[job.pk])
    page = owner.get(reverse("job_tab", args=[job.pk, "program"]) + "?file=model.py").content.decode()
    opened = page.split('data-sha256="')[1][:64]
    first = owner.post(address, {"name": "model.py", "text": "x = 1\r\n", "sha256": opened}).json()
    refused = owner.post(address, {"name": "model.py", "text": "y = 2\n", "sha256": opened})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (409, "changed") and "Save again" in error["hint"]
    assert owner.post(address, {"name": "model.py", "text": "x = 1\n", "sha256": opened}).status_code == 200  # the same
    again = owner.post(address, {"name": "model.py", "text": "y = 2\ry\n", "sha256": error["details"]["sha256"]})
    assert again.status_code == 200 and error["details"]["sha256"] == first["file_sha256"]
    own = again.json()["file_sha256"]
    assert owner.post(address, {"name": "model.py", "text": "y = 3\n", "sha256": own}).status_code == 200


def test_saving_a_file_tells_whether_it_still_differs_from_what_was_generated(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    generated = (settings.STORE.job(job.pk).generated / "model.py").read_text()
    address = reverse("program_save", args=[job.pk])
    texts = (generated + "# mine\n", generated)
    told = [owner.post(address, {"name": "model.py", "text": text}).json()["file_edited"] for text in texts]
    assert told == [True, False]


def test_names_are_escaped_in_pages_and_in_chart_data(world: SimpleNamespace, owner: Client) -> None:
    page = owner.get(reverse("job_tab", args=[world.jobs["succeeded"].pk, "results"])).content.decode()
    assert NASTY_NAME not in page
    assert escape(NASTY_NAME) in page
    assert NASTY_NAME not in owner.get("/datasets/").content.decode()


def test_no_page_has_an_inline_script_or_another_host(world: SimpleNamespace, owner: Client) -> None:
    for url in (
        "/",
        "/jobs/",
        "/datasets/",
        "/pool/",
        "/account/",
        reverse("job_page", args=[world.jobs["running"].pk]),
    ):
        response = owner.get(url)
        text = response.content.decode()
        assert "<script>" not in text and "onclick=" not in text and "https://" not in text
        assert "'unsafe-eval'" not in response["Content-Security-Policy"]


def test_a_refused_submit_says_why_and_keeps_the_draft(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    page = owner.post(reverse("job_act", args=[job.pk, "submit"]), follow=True).content.decode()
    assert "cannot be submitted" in page
    job.refresh_from_db()
    assert job.state == "succeeded"


def test_submit_queues_a_draft(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["draft"]
    assert owner.post(reverse("job_act", args=[job.pk, "submit"])).status_code == 302
    job.refresh_from_db()
    assert job.state == "queued"


def test_who_ends_a_job_that_has_not_run_is_told_of_no_run_and_no_checkpoint(
    world: SimpleNamespace, owner: Client
) -> None:
    def told(action: str) -> str:
        return owner.post(reverse("job_act", args=[job.pk, action]), follow=True).content.decode()

    job = world.jobs["draft"]
    page = told("submit")
    assert "It leaves the queue before it has run" in page and "The run stops within seconds" not in page
    assert "Paused. It starts once you resume it." in told("pause")
    assert "Queued again.<" in re.sub(r"\s+<", "<", told("resume"))
    assert "Cancelled.<" in re.sub(r"\s+<", "<", told("cancel"))
    running = owner.get(reverse("job_page", args=[world.jobs["running"].pk])).content.decode()
    assert "The run stops within seconds. Its checkpoints stay" in running


def test_who_asks_twice_as_in_a_second_tab_is_told_that_it_is_done_already(
    world: SimpleNamespace, owner: Client
) -> None:
    def told(action: str) -> str:
        page = owner.post(reverse("job_act", args=[job.pk, action]), follow=True).content.decode()
        return re.sub(r"\s+", " ", page)

    job = world.jobs["draft"]
    told("submit")
    told("pause")
    assert "It is paused already." in told("pause")
    told("resume")
    again = told("resume")
    assert f"{job.name} is queued already." in again and "There is nothing to do." in again
    told("cancel")
    assert "It was cancelled already." in told("cancel")


def test_a_spec_with_a_wrong_field_names_it(world: SimpleNamespace, owner: Client) -> None:
    url = reverse("job_new_check", args=[world.wine.pk])
    body = owner.post(url, json.dumps({"yaml": "training:\n  epocs: 3\n"}), content_type="application/json").json()
    assert "epocs" in json.dumps(body["problems"])
    assert owner.post(url, "nonsense", content_type="application/json").status_code == 422


def test_a_broken_own_model_is_refused_with_the_spec_kept(world: SimpleNamespace, owner: Client) -> None:
    url = reverse("job_new_spec", args=[world.wine.pk])
    response = owner.post(url, {"spec": "training:\n  epochs: 0\n", "own_model": "def build(spec): ..."})
    assert response.status_code == 422
    assert "epochs: 0" in response.content.decode() and "def build(spec)" in response.content.decode()


def test_a_token_is_shown_once(world: SimpleNamespace, owner: Client) -> None:
    page = owner.post("/account/tokens/", {"name": "laptop", "scope": "write", "days": ""})
    assert "dlh_" in page.content.decode() and page["Cache-Control"] == "no-store"
    assert 'id="new-token"' not in owner.get("/account/").content.decode()


def test_several_jobs_go_to_the_trash_and_come_back(world: SimpleNamespace, owner: Client) -> None:
    chosen = [world.jobs[state].pk for state in ("succeeded", "failed", "running")]
    page = owner.post("/jobs/bulk/", {"do": "delete", "job": chosen}, follow=True).content.decode()
    assert "2 jobs moved to the trash" in page and "1 could not be" in page
    owner.post("/jobs/bulk/", {"do": "restore", "job": chosen[:2]})
    world.jobs["succeeded"].refresh_from_db()
    assert world.jobs["succeeded"].deleted_at is None


def test_the_export_follows_the_filter(world: SimpleNamespace, owner: Client) -> None:
    rows = b"".join(owner.get("/jobs/export.csv?state=failed")).decode().splitlines()
    assert len(rows) == 2 and ",failed," in rows[1]
    items = json.loads(b"".join(owner.get("/jobs/export.json?state=failed")))["items"]
    assert [item["state"] for item in items] == ["failed"]
    assert json.loads(b"".join(owner.get("/jobs/export.json?state=failed&q=nothing"))) == {"items": []}
    assert owner.get("/jobs/export.csv?sort=nothing").status_code == 422


def test_a_failed_dataset_names_row_file_and_next_step(world: SimpleNamespace, owner: Client) -> None:
    page = owner.get(reverse("dataset_page", args=[world.failed_dataset.pk])).content.decode()
    for word in ("Row 4711 has 12 fields", "ragged.csv", "choose another delimiter", "Upload a corrected file"):
        assert word in page
    assert "<dt>Line</dt>" in page  # of the file, its header counted


def test_another_delimiter_is_asked_for_only_where_it_may_help(world: SimpleNamespace, owner: Client) -> None:
    place = reverse("dataset_page", args=[world.failed_dataset.pk])
    page = owner.get(place).content.decode()
    assert "Delimiter" in page and "Read it again" in page
    problem = {"code": "broken_archive", "message": "The zip archive cannot be opened.", "hint": "Pack it again."}
    type(world.failed_dataset).objects.filter(pk=world.failed_dataset.pk).update(problem=problem)
    page = owner.get(place).content.decode()
    assert "Delimiter" not in page and "Read it again" not in page and "Upload a corrected file" in page


def test_a_program_that_does_not_parse_is_told_at_its_check(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["draft"]
    saved = owner.post(reverse("program_save", args=[job.pk]), {"name": "model.py", "text": "def (:\n"})
    assert saved.status_code == 200, "what is half written may be kept"
    checked = owner.post(reverse("program_check", args=[job.pk]), headers={"HX-Request": "true"})
    assert checked.status_code == 422 and "model.py, line 1" in checked.content.decode()


def test_a_check_behind_another_says_what_it_waits_for(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.pages.check_view.check_waits_for", lambda *_: "another check of wine")
    page = owner.get(reverse("program_check_result", args=[world.jobs["draft"].pk, "some"])).content.decode()
    assert "The node waits for another check of wine to end, at most 3 min." in page


def test_a_check_that_no_node_answers_is_given_up(world: SimpleNamespace, owner: Client) -> None:
    address, now_s = reverse("program_check_result", args=[world.jobs["draft"].pk, "some"]), int(time.time())

    def shown(asked: str) -> str:
        return " ".join(owner.get(address, {"asked": asked}).content.decode().split())

    assert f"?asked={now_s - 60}" in shown(f"{now_s - 60}")
    late = shown(f"{now_s - 301}")
    assert "No node has answered within 5 min." in late and "hx-get" not in late
    for asked in ("", "²", "-1", "9" * 5000):
        assert "hx-get" in shown(asked)


def test_samples_can_be_had_where_data_is_uploaded_though_there_is_data_already(
    world: SimpleNamespace, owner: Client
) -> None:
    page = owner.get(reverse("dataset_upload")).content.decode()
    assert page.count(f'action="{reverse("dataset_sample")}"') == 3 and "wine" in page


@pytest.mark.parametrize("number", ["²", "9" * 5000, "-1", "one", ""])
def test_what_is_no_number_in_the_address_is_passed_over(world: SimpleNamespace, owner: Client, number: str) -> None:
    job = world.jobs["succeeded"].pk
    for address in (
        "/jobs/",
        reverse("dataset_preview", args=[world.wine.pk]),
        reverse("job_tab", args=[job, "logs"]),
    ):
        given = dict.fromkeys(("page", "offset", "rank", "attempt", "line"), number)
        assert owner.get(address, given).status_code == 200


@pytest.mark.parametrize("name", ["job_new_check", "job_new_models"])
def test_json_that_is_nested_without_end_is_refused(world: SimpleNamespace, owner: Client, name: str) -> None:
    answer = owner.post(reverse(name, args=[world.wine.pk]), "[" * 100_000, "application/json")
    assert answer.status_code == 422


def test_what_cannot_be_taken_back_at_once_stands_last_of_what_may_be_asked_of_a_job(
    world: SimpleNamespace, owner: Client
) -> None:
    for state in ("draft", "succeeded"):
        text = owner.get(f"/jobs/{world.jobs[state].pk}/").content.decode()
        places = [text.index(words) for words in ("Clone and edit", "Rename, tag", "/do/delete/")]
        assert places == sorted(places)
