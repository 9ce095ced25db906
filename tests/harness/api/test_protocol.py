"""What holds for every address: errors, hostile input, CSRF, OpenAPI, downloads, limits."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from django.conf import settings as django_settings
from django.test import Client
from pydantic import BaseModel

from codegen.spec import TaskSpec
from harness.api.app import api
from harness.api.query import operations
from harness.api.routes.jobs import CHECK_ID_LENGTH_MAX
from harness.jobs.readers import Standstill
from tests.harness.api.conftest import API, is_error

TRAVERSAL = [
    "..", "../..", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e", "....//", "..%5c..%5c", "%00", "a%00b", "%0d%0aX: y",
    "'; drop table jobs--", "{{7*7}}", "$(id)", "`id`", "|id", "\u202e", "%ff%fe", "http:%2f%2f127.0.0.1:6379%2f",
    "file:%2f%2f%2fetc%2fpasswd", "gopher:%2f%2f127.0.0.1", "x" * 2000,
]  # fmt: skip


LEAK = b"not to be read by anybody"


@pytest.fixture
def lures(finished_job: Any, pictures: Any) -> Iterator[None]:
    """Files with `LEAK` wherever a way up from a folder of ours might lead."""
    job, data = django_settings.STORE.job(finished_job.pk), django_settings.STORE.dataset(pictures.sha256)
    inside = (job.program, job.results, data.packed / "thumbnails")
    made = {folder / "etc" for place in inside for folder in (place, *place.parents[:4])}
    for folder in made:
        folder.mkdir(parents=True)
        for name in ("passwd", "passwd.csv"):
            (folder / name).write_bytes(LEAK)
    yield
    for folder in made:
        shutil.rmtree(folder)


def refused_with(text: str, *, written: bool = False) -> int:
    """What a hostile text in an address is answered: NUL is told apart, with a slash it is no address of ours."""
    if "%00" in text:
        return 422
    return 422 if written and "/" not in unquote(text) else 404


@pytest.mark.usefixtures("lures")
@pytest.mark.parametrize("text", TRAVERSAL)
def test_hostile_ids_and_names_are_refused_everywhere(
    caller: Client, finished_job: Any, job_make: Any, pictures: Any, text: str
) -> None:
    job, data = f"{API}/jobs/{finished_job.pk}", f"{API}/datasets/{pictures.pk}"
    places = [
        f"{API}/jobs/{text}", f"{job}/program/{text}", f"{job}/charts/{text}.csv", f"{job}/predictions/{text}",
        f"{job}/predictions/{text}.csv", f"{API}/datasets/{text}", f"{data}/thumbnails/{text}",
        f"{API}/projects/{text}/members",
    ]  # fmt: skip
    for place in places:
        answer = caller.get(place)
        body = answer.content if not answer.streaming else b"".join(answer.streaming_content)
        assert LEAK not in body and b"root:" not in body, place
        assert answer.status_code == refused_with(text) and is_error(answer), place
    draft = f"{API}/jobs/{job_make(name='draft').pk}"
    write = caller.put(f"{draft}/program/{text}", json.dumps({"text": "x"}), "application/json")
    assert write.status_code == refused_with(text, written=True) and is_error(write)


@pytest.mark.usefixtures("lures")
@pytest.mark.parametrize("text", TRAVERSAL)
def test_a_hostile_id_of_a_trial_run_is_that_of_none(caller: Client, finished_job: Any, text: str) -> None:
    """A node may still answer one that is not known yet: it is waited for, and its id reads nothing."""
    answer = caller.get(f"{API}/jobs/{finished_job.pk}/check/{text}")
    assert LEAK not in answer.content and b"root:" not in answer.content
    if "%00" in text or "/" in unquote(text):
        assert answer.status_code == refused_with(text) and is_error(answer)
    elif len(text) > CHECK_ID_LENGTH_MAX:
        assert answer.status_code == 422 and is_error(answer)
    else:
        told = answer.json()
        assert answer.status_code == 200 and told.pop("check_id") and told.pop("waiting")
        assert not any(told.values()), told


@pytest.mark.parametrize(
    "query",
    [
        "owner__password__startswith=p", "project__members__email=x", "dataset__owner__tokens__digest__gt=a",
        "state__in=draft", "pk=1", "id__regex=.*", "spec__contains=x", "ordering=owner__password",
    ],
)  # fmt: skip
def test_filters_that_reach_into_the_database_are_refused(caller: Client, query: str) -> None:
    for place in ("jobs", "datasets", "projects", "tokens"):
        answer = caller.get(f"{API}/{place}?{query}")
        assert answer.status_code == 422 and is_error(answer)


def test_jobs_are_filtered_sorted_and_paged_on_the_server(caller: Client, finished_job: Any, job_make: Any) -> None:
    job_make(name="second")
    body = caller.get(f"{API}/jobs?state=succeeded&state=draft&sort=-metric&page_size=1").json()
    assert (body["total"], body["pages"], len(body["items"])) == (2, 2, 1)
    assert body["items"][0]["id"] == finished_job.pk
    assert caller.get(f"{API}/jobs?metric_min=0.95").json()["total"] == 0
    assert caller.get(f"{API}/jobs?query=second&owner=owner").json()["items"][0]["name"] == "second"


def refusal(path: str) -> tuple[int, str]:
    """Machines sign in by a secret in the request: a browser's session counts for nothing there."""
    if path.startswith("/node/"):
        return 401, "unauthenticated"
    return (422, "invalid") if path == "/pool/join" else (403, "csrf")


def test_a_session_needs_the_csrf_token_for_every_unsafe_method(people: SimpleNamespace) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.admin)
    for path, operation in operations(api):
        for method in set(operation.methods) - {"GET", "HEAD", "OPTIONS"}:
            answer = browser.generic(method, API + re.sub(r"\{[^}]+\}", "x", path))
            assert (answer.status_code, answer.json()["error"]["code"]) == refusal(path), (method, path)


def test_a_session_with_the_csrf_token_may_change_things(people: SimpleNamespace) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.owner)
    browser.cookies[django_settings.CSRF_COOKIE_NAME] = "b" * 32
    headers = {"X-CSRFToken": "b" * 32}
    body = json.dumps({"name": "New"})
    assert browser.post(f"{API}/projects", body, "application/json", headers=headers).status_code == 201


@pytest.mark.parametrize("header", ["Bearer", "Bearer x", "Bearer dlh_x", "Basic eDp5", "dlh_x", "Bearer  "])
def test_a_wrong_token_is_401_even_beside_a_session(people: SimpleNamespace, header: str) -> None:
    caller = Client(headers={"Authorization": header})
    answer = caller.get(f"{API}/me")
    assert answer.status_code == 401 and is_error(answer)
    assert answer["WWW-Authenticate"].startswith("Bearer")
    if header.startswith("Bearer"):
        caller.force_login(people.owner)
        assert caller.get(f"{API}/me").status_code == 401


def test_expired_and_revoked_tokens_and_inactive_people_are_401(people: SimpleNamespace, bearer: Any) -> None:
    from django.utils import timezone

    from harness.accounts.models import ApiToken, User

    caller = bearer(people.owner)
    assert caller.get(f"{API}/me").status_code == 200
    ApiToken.objects.update(expires_at=timezone.now())
    assert caller.get(f"{API}/me").status_code == 401
    ApiToken.objects.update(expires_at=None, revoked_at=timezone.now())
    assert caller.get(f"{API}/me").status_code == 401
    ApiToken.objects.update(revoked_at=None)
    User.objects.filter(pk=people.owner.pk).update(is_active=False)
    assert caller.get(f"{API}/me").status_code == 401


def test_a_token_is_made_shown_once_and_ended(caller: Client) -> None:
    from harness.accounts.models import ApiToken

    made = caller.post(f"{API}/tokens", {"name": "laptop", "scope": "read"}, "application/json").json()
    assert made["token"].startswith(made["prefix"])
    assert not ApiToken.objects.filter(digest=made["token"]).exists()
    listed = caller.get(f"{API}/tokens").content.decode()
    assert made["id"] in listed and made["token"] not in listed
    other = Client(headers={"Authorization": f"Bearer {made['token']}"})
    assert other.get(f"{API}/me").json()["scope"] == "read"
    assert other.post(f"{API}/projects", {"name": "x"}, "application/json").status_code == 403
    caller.delete(f"{API}/tokens/{made['id']}")
    assert other.get(f"{API}/me").status_code == 401


@pytest.mark.parametrize("tag", [rb"\ud800", rb"\UDC00".replace(b"U", b"u"), b"\xed\xa0\x80", b"\xff"])
def test_text_that_no_page_could_show_is_refused(caller: Client, finished_job: Any, tag: bytes) -> None:
    body = b'{"tags": ["' + tag + b'"]}'
    answer = caller.patch(f"{API}/jobs/{finished_job.pk}", body, "application/json")
    assert answer.status_code == 400 and is_error(answer)
    finished_job.refresh_from_db()
    assert finished_job.tags == []


def test_a_letter_spelt_in_two_halves_is_that_letter(caller: Client, finished_job: Any) -> None:
    answer = caller.patch(f"{API}/jobs/{finished_job.pk}", rb'{"tags": ["\ud83c\udf38"]}', "application/json")
    assert answer.json()["tags"] == ["\U0001f338"]


def test_a_row_that_lies_beyond_all_numbers_is_refused(caller: Client, dataset: Any) -> None:
    answer = caller.get(f"{API}/datasets/{dataset.pk}/rows?offset={10**30}")
    assert answer.status_code == 422 and is_error(answer)


def test_a_wrong_method_and_an_unknown_address_answer_in_the_one_shape(caller: Client) -> None:
    wrong = caller.put(f"{API}/me")
    assert wrong.status_code == 405 and is_error(wrong) and "GET" in wrong["Allow"]
    for place in ("nope", "jobs/x/y/z/", ""):
        answer = caller.get(f"{API}/{place}")
        assert answer.status_code == 404 and is_error(answer)


def test_a_crash_tells_a_number_and_no_secret(caller: Client, monkeypatch: Any) -> None:
    from harness.jobs import selectors

    def crash(**_: Any) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(selectors, "job_list", crash)
    answer = caller.get(f"{API}/jobs")
    assert answer.status_code == 500 and is_error(answer)
    assert b"hunter2" not in answer.content and b"Traceback" not in answer.content


def test_the_id_of_a_trial_run_is_answered(caller: Client, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.jobs.predictions.answering_node", lambda *_, **__: "node-1")
    asked = caller.post(f"{API}/jobs/{job.pk}/check").json()["check_id"]
    answer = caller.get(f"{API}/jobs/{job.pk}/check/{asked}")
    assert (answer.status_code, answer.json()["waiting"]) == (200, True)


def test_openapi_describes_every_route_with_words_and_unique_names() -> None:
    schema = json.loads(Client().get(f"{API}/openapi.json").content)
    assert schema["openapi"].startswith("3.1")
    ids = []
    for path, operation in operations(api):
        for method in operation.methods:
            described = schema["paths"][API + path][method.lower()]
            assert described["summary"] and described["description"], (method, path)
            ids.append(described["operationId"])
    assert len(ids) == len(set(ids))
    text = json.dumps(schema)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in schema["components"]["schemas"]
    assert set(schema["components"]["securitySchemes"]) == {"BearerToken", "NodeSecret", "SessionWithCsrf"}


def test_openapi_tells_the_shape_of_refusals_and_the_kind_of_files() -> None:
    paths = json.loads(Client().get(f"{API}/openapi.json").content)["paths"]
    for path, methods in paths.items():
        for method, described in methods.items():
            refused = described["responses"]["default"].get("content")
            assert (refused is None) == (method == "head"), (method, path)
            if refused:
                assert refused["application/json"]["schema"] == {"$ref": "#/components/schemas/Refusal"}
            if method == "get":
                assert described["responses"]["200"]["content"], path
    weights = paths[f"{API}/jobs/{{job_id}}/weights"]["get"]["responses"]
    assert set(weights) == {"200", "206", "304", "416", "default"}
    for place in ("node/files", "node/runs/{job_id}/{token}/checkpoints/{checkpoint}"):
        fetched = paths[f"{API}/{place}"]["get"]["responses"]
        assert set(fetched) == set(weights), place
        assert fetched["206"]["content"] == fetched["200"]["content"] == weights["200"]["content"]
        assert "content" not in fetched["304"] and "content" not in fetched["416"]
    for place in ("spec/schema", "jobs/{job_id}/program"):
        kept = paths[f"{API}/{place}"]["get"]["responses"]
        assert set(kept) == {"200", "304", "default"} and "content" not in kept["304"], place
    assert set(paths[f"{API}/jobs/{{job_id}}/series.csv"]["get"]["responses"]["200"]["content"]) == {"text/csv"}
    assert set(paths[f"{API}/pool/calibration/points.{{form}}"]["get"]["responses"]["200"]["content"]) == {
        "text/csv", "application/json",
    }  # fmt: skip


def test_no_two_bodies_of_one_name_take_each_others_place_in_openapi() -> None:
    shapes = dict.fromkeys(subclasses(BaseModel))
    names = Counter(shape.__name__ for shape in shapes if shape.__module__.startswith("harness.api.schemas"))
    assert len(names) > 100
    assert {name for name, count in names.items() if count > 1} == set()


def subclasses(shape: type) -> Iterator[type]:
    """All below it that are loaded."""
    for below in shape.__subclasses__():
        yield below
        yield from subclasses(below)


def test_the_schema_of_specs_is_of_one_version_in_every_portal_process(caller: Client) -> None:
    schema = caller.get(f"{API}/spec/schema")
    assert schema["ETag"] == f'"{sha256(str(TaskSpec.model_json_schema()).encode()).hexdigest()}"'
    assert caller.get(f"{API}/spec/schema", headers={"If-None-Match": schema["ETag"]}).status_code == 304


def test_the_docs_page_needs_nothing_from_elsewhere_and_no_inline_script() -> None:
    answer = Client().get(f"{API}/docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "http://" not in page and "https://" not in page and "//cdn" not in page
    scripts = [tag for tag in page.split("<script")[1:] if "src=" not in tag.split(">")[0]]
    assert all('type="application/json"' in tag.split(">")[0] for tag in scripts)
    assert "script-src 'self'" in answer["Content-Security-Policy"]


def test_health_needs_no_sign_in_and_says_when_a_part_is_away(db: None, monkeypatch: Any) -> None:
    import redis

    from harness.api.routes import pool

    def away() -> None:
        raise redis.ConnectionError

    monkeypatch.setattr(pool, "client", lambda: SimpleNamespace(ping=lambda: True))
    answer = Client().get(f"{API}/health")
    told = answer.json()
    assert (answer.status_code, told["database"], told["broker"], told["ok"]) == (200, True, True, True)
    monkeypatch.setattr(pool, "client", lambda: SimpleNamespace(ping=away))
    answer = Client().get(f"{API}/health")
    assert (answer.status_code, answer.json()["broker"], answer.json()["ok"]) == (503, False, False)


def test_health_says_that_no_control_process_works_and_stays_well_for_load_balancers(
    db: None, monkeypatch: Any
) -> None:
    from harness.api.routes import pool

    monkeypatch.setattr(pool, "client", lambda: SimpleNamespace(ping=lambda: True))
    for stands, full in ((None, ""), (Standstill(full=""), ""), (Standstill(full="database"), "database")):
        monkeypatch.setattr(pool, "standstill", lambda stands=stands: stands)
        answer = Client().get(f"{API}/health")
        told = answer.json()
        assert (answer.status_code, told["ok"], told["control"], told["full"]) == (200, True, stands is None, full)
