"""What holds for every address: errors, hostile input, CSRF, OpenAPI, downloads, limits."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from django.conf import settings as django_settings
from django.test import Client

from harness.api.app import api
from harness.api.limits import JSON_LIMIT_BYTES, BodyLimit
from harness.api.query import operations
from harness.api.routes.jobs import CHECK_ID_LENGTH_MAX
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


def test_a_body_above_its_limit_is_413_unread(caller: Client) -> None:
    answer = caller.post(f"{API}/projects", b" " * (JSON_LIMIT_BYTES + 1), "application/json")
    assert answer.status_code == 413 and is_error(answer)


async def body_read(scope: Any, receive: Any, send: Any) -> None:
    """A portal that reads all of a body, and answers 200."""
    while (await receive())["more_body"]:
        pass
    await receive()
    await send({"type": "http.response.start", "status": 200})


def of_one_mib_each(parts: int) -> Any:
    """What a client sends: so many parts of a body, then that it has left."""
    left = [{"type": "http.request", "body": bytes(1 << 20), "more_body": n > 0} for n in range(parts)]
    messages = [{"type": "http.disconnect"}, *left]

    async def receive() -> Any:
        return messages.pop()

    return receive


@pytest.mark.parametrize(
    ("headers", "parts", "status"),
    [
        ([], 1, 200),
        ([], 2, 413),
        ([(b"content-length", b"1048577")], 1, 413),
        ([(b"cookie", b"other=1; csrftoken=2")], 2, 413),
        ([(b"cookie", b"other=1; SESSION=2")], 2, 200),
        ([(b"cookie", b"other=1"), (b"cookie", b"SESSION=2")], 2, 200),
        ([(b"authorization", b"Bearer x")], 2, 200),
    ],
)
@pytest.mark.parametrize("path", ["/login", f"{API}/uploads", f"{API}/projects"])
async def test_of_nobody_a_body_has_one_mib_at_most(headers: Any, parts: int, status: int, path: str) -> None:
    name = django_settings.SESSION_COOKIE_NAME.encode()
    headers = [(key, value.replace(b"SESSION", name)) for key, value in headers]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await BodyLimit(body_read)({"type": "http", "path": path, "headers": headers}, of_one_mib_each(parts), send)
    assert sent[0]["status"] == status
    assert status == 200 or b"larger than 1 MiB, and nobody is signed in" in sent[1]["body"]


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def nothing() -> Any:
        await asyncio.Event().wait()

    async def trickle() -> Any:
        return {"type": "http.request", "body": b"x", "more_body": True}

    monkeypatch.setattr("harness.api.limits.PART_LIMIT_S", 0.0)
    monkeypatch.setattr("harness.api.limits.LEAST_BYTES_PER_S", 1e12)
    for receive in (nothing, trickle):
        sent.clear()
        await BodyLimit(body_read)({"type": "http", "path": f"{API}/projects", "headers": []}, receive, send)
        assert sent[0]["status"] == 408 and json.loads(sent[1]["body"])["error"]["code"] == "too_slow"


async def test_a_body_that_there_is_no_room_for_is_told() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def full(scope: Any, receive: Any, send: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    scope = {"type": "http", "path": f"{API}/projects", "headers": []}
    await BodyLimit(full)(scope, of_one_mib_each(1), send)
    assert sent[0]["status"] == 507 and json.loads(sent[1]["body"])["error"]["code"] == "disk_full"
    with pytest.raises(OSError, match="Input/output"):
        await BodyLimit(broken)(scope, of_one_mib_each(1), send)


async def test_who_waits_for_an_answer_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.api.limits.PART_LIMIT_S", 5.0)
    heard: list[Any] = []

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        monkeypatch.setattr("harness.api.limits.PART_LIMIT_S", 0.0)
        heard.append(await receive())

    messages = of_one_mib_each(1)

    async def receive() -> Any:
        await asyncio.sleep(0)
        return await messages()

    await BodyLimit(stream)({"type": "http", "path": "/live", "headers": []}, receive, lambda _: None)
    assert heard == [{"type": "http.disconnect"}]


@pytest.mark.parametrize(
    ("path", "most_mib"),
    [
        (f"{API}/uploads/abc", 64),
        (f"{API}/projects", 4),
        ("/login", 64),
        ("/jobs/abc/predict/", 33),
        ("/pool/calibration/import/", 68),
        ("/no/such/page/api/v1/uploads", 64),
        ("/api/v1/jobs/api/v1/uploads", 4),
    ],
)
async def test_the_asgi_guard_stops_a_body_without_a_length(path: str, most_mib: int) -> None:
    sent: list[Any] = []
    served = 0

    async def receive() -> Any:
        nonlocal served
        served += 1
        assert served < 100, "nobody stops it"
        return {"type": "http.request", "body": bytes(1 << 20), "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", b"Bearer x")]
    await BodyLimit(body_read)({"type": "http", "path": path, "headers": headers}, receive, send)
    assert sent[0]["status"] == 413 and served == most_mib + 1
    text = sent[1]["body"].decode()
    assert (json.loads(text)["error"]["code"] if path.startswith("/api/") else "too_large") == "too_large"
    assert f"larger than {most_mib} MiB" in text


def test_the_id_of_a_trial_run_is_answered(caller: Client, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.jobs.predictions.answering_node", lambda _: "node-1")
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
            if "get" not in {item.lower() for item in operation.methods} or method == "GET":
                ids.append(described["operationId"])
    assert len(ids) == len(set(ids))
    text = json.dumps(schema)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in schema["components"]["schemas"]
    assert set(schema["components"]["securitySchemes"]) == {"BearerToken", "NodeSecret", "SessionWithCsrf"}


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
