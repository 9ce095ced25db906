"""What is refused, and in which words: values, bodies, forms, web sockets."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from pydantic import ValidationError

from harness.api.schemas.rates import RateUseIn
from harness.datasets.services import dataset_delete
from tests.factory_offers import workload_make
from tests.harness.api.conftest import API, is_error


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sort=owner__password", "sort"), ("sort=-spec", "sort"), ("page=0", "page"), ("page_size=100000", "page_size"),
        ("state=nope", "state"), ("task=nope", "task"), ("metric=acuracy", "metric"), ("metric_min=nan", "metric_min"),
        ("metric_max=inf", "metric_max"), ("page=x", "page"), ("query=" + "a" * 600, "query"),
    ],
)  # fmt: skip
def test_a_bad_parameter_names_its_field(caller: Client, query: str, field: str) -> None:
    answer = caller.get(f"{API}/jobs?{query}")
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


def test_an_empty_filter_is_none(caller: Client) -> None:
    for query in ("task=", "family=", "owner=", "tag=", "metric=", "task=&owner=&query="):
        assert caller.get(f"{API}/jobs?{query}").status_code == 200, query


@pytest.mark.parametrize(
    ("body", "field", "message", "hint"),
    [
        ({"name": "x", "scope": "root"}, "scope", "must be one of read, write, admin", "It was 'root'."),
        ({"name": "x", "scop": "read"}, "scop", "is not known here", "Did you mean scope?"),
        ({"scope": "read"}, "name", "is missing", "Known are: name, scope, project, expires_at."),
        ({"name": "x" * 81}, "name", "can have at most 80 characters", "Correct it"),
        ({"name": 5}, "name", "must be a string", "It was 5."),
        ({"name": "x", "expires_at": "2030-01-31T12:00:00"}, "expires_at", "needs a zone", "It was"),
        ({"name": "x", "expires_at": "soon"}, "expires_at", "must be a time", "It was 'soon'."),
    ],
)
def test_a_bad_body_names_the_field_what_it_takes_and_what_to_do(
    caller: Client, body: dict[str, Any], field: str, message: str, hint: str
) -> None:
    answer = caller.post(f"{API}/tokens", json.dumps(body), "application/json")
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (422, field)
    assert error["message"].startswith(f"{field}: {message}") and hint in error["hint"]


@pytest.mark.parametrize(
    ("address", "body", "field"),
    [
        ("queue/0123456789abcdef", {"priority": True}, "priority"),
        ("pool/settings", {"co2_g_per_kwh": False}, "co2_g_per_kwh"),
    ],
)
def test_true_and_false_are_no_numbers(caller: Client, address: str, body: dict[str, Any], field: str) -> None:
    answer = caller.patch(f"{API}/{address}", json.dumps(body), "application/json")
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (422, field)
    assert error["message"] == f"{field}: must be a number, not {str(body[field]).lower()}"


def test_a_spec_as_text_is_told_the_field_that_takes_it(caller: Client) -> None:
    answer = caller.post(f"{API}/spec/check", {"spec": "training: {epochs: 3}"}, content_type="application/json")
    told = answer.json()["error"]
    assert (answer.status_code, told["field"]) == (422, "spec")
    assert "YAML text goes into the field yaml" in told["message"]


def test_true_is_no_name_either_where_a_number_may_stand() -> None:
    with pytest.raises(ValidationError, match="must be a name or a number, not true"):
        RateUseIn(rate=True)
    assert RateUseIn(rate="valley").rate == "valley" and RateUseIn(rate=0.1).rate == 0.1


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:00-05:00"])
def test_a_time_whose_year_is_none_in_utc_is_refused_everywhere(
    caller: Client, bearer: Any, people: SimpleNamespace, moment: str
) -> None:
    """Databases keep UTC; somebody west of it writes the last day of all for never."""
    bodies = {"offers": {"workload": workload_make().to_dict(), "deadline": moment}, "tokens": {"name": "x"}}
    bodies["tokens"]["expires_at"] = moment
    answers = [caller.post(f"{API}/{name}", json.dumps(body), "application/json") for name, body in bodies.items()]
    answers.append(caller.get(f"{API}/jobs", {"since": moment}))
    answers.append(bearer(people.admin, "admin").get(f"{API}/audit", {"before": moment}))
    assert [(answer.status_code, answer.json()["error"]["field"]) for answer in answers] == [
        (422, "deadline"), (422, "expires_at"), (422, "since"), (422, "before"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", [2030, "2030", 0, 0.5, "1900000000", 10**400])
def test_a_number_is_no_time_as_if_it_counted_seconds_since_1970(
    bearer: Any, people: SimpleNamespace, number: Any
) -> None:
    """`since=2030` would find all jobs, and a reservation from 2030 on begin now."""
    admin = bearer(people.admin, "admin")
    bodies = {
        "offers": ("deadline", {"workload": workload_make().to_dict(), "deadline": number}),
        "tokens": ("expires_at", {"name": "x", "expires_at": number}),
        "pool/reservations": ("ends_at", {"node": "node-1", "purpose": "tests", "ends_at": number}),
    }
    answers = [
        (admin.post(f"{API}/{name}", json.dumps(body), "application/json"), field)
        for name, (field, body) in bodies.items()
    ]
    answers.append((admin.get(f"{API}/jobs", {"since": str(number)}), "since"))
    for answer, field in answers:
        error = answer.json()["error"]
        assert (answer.status_code, error["field"]) == (422, field)
        assert error["message"] == f"{field}: must be a time, as in 2030-01-31T12:00:00Z, not a number"


@pytest.mark.parametrize("word", [True, "nan", "-inf"])
def test_a_word_that_is_no_time_is_not_called_a_number(caller: Client, word: Any) -> None:
    answer = caller.post(f"{API}/tokens", json.dumps({"name": "x", "expires_at": word}), "application/json")
    assert answer.json()["error"]["message"] == "expires_at: must be a time, as in 2030-01-31T12:00:00Z"


def test_a_reservation_needs_the_zone_of_its_times(bearer: Any, people: SimpleNamespace) -> None:
    body = {"node": "node-1", "purpose": "tests", "ends_at": "2099-01-01T00:00:00"}
    error = bearer(people.admin, "admin").post(f"{API}/pool/reservations", body, "application/json").json()["error"]
    assert (error["field"], error["message"]) == ("ends_at", "ends_at: needs a zone, as in 2030-01-31T12:00:00Z")


def test_a_body_that_is_missing_is_told_as_such(caller: Client) -> None:
    error = caller.post(f"{API}/projects", "", "application/json").json()["error"]
    assert (error["message"], error["field"]) == ("The request has no body.", None)
    assert "as JSON" in error["hint"]


def test_no_refusal_repeats_a_password(bearer: Any, people: SimpleNamespace) -> None:
    body = {"username": "x", "password": "p" * 201}
    answer = bearer(people.admin, "admin").post(f"{API}/users", json.dumps(body), "application/json")
    short = bearer(people.admin, "admin").post(
        f"{API}/users", json.dumps({"username": "x", "password": ["secret"]}), "application/json"
    )
    assert answer.status_code == short.status_code == 422
    assert b"ppp" not in answer.content and b"secret" not in short.content


@pytest.mark.parametrize("body", ['{"name": "a\\u0000b"}', '{"a\\u0000b": 1}', '{"name": {"deep": ["\\u0000"]}}'])
def test_a_nul_is_refused_whichever_database_there_is(caller: Client, body: str) -> None:
    """SQLite keeps it, and PostgreSQL would then refuse the backup."""
    answer = caller.post(f"{API}/projects", body, "application/json")
    assert answer.status_code == 400 and is_error(answer)


def test_what_only_looks_like_a_nul_is_kept(caller: Client) -> None:
    answer = caller.post(f"{API}/projects", '{"name": "a\\\\u0000b"}', "application/json")
    assert (answer.status_code, answer.json()["name"]) == (201, "a\\u0000b")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ("{", 400, None), ("[]", 422, None), ('"x"', 422, None), ("null", 422, None), ('{"name": 1}', 422, "name"),
        ('{"name": "x", "admin": true}', 422, "admin"), ("{}", 422, "name"),
    ],
)  # fmt: skip
def test_a_body_of_another_form_is_refused_in_the_one_shape(
    caller: Client, body: str, status: int, field: str | None
) -> None:
    answer = caller.post(f"{API}/projects", body, "application/json")
    assert is_error(answer)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)


@pytest.mark.parametrize(
    ("content_type", "status"), [("multipart/form-data", 400), ("multipart/form-data; boundary=x", 415)]
)
def test_a_form_where_json_is_taken_is_refused_in_words(
    people: SimpleNamespace, content_type: str, status: int
) -> None:
    browser = Client(enforce_csrf_checks=True)  # looking for the token reads the form
    browser.force_login(people.owner)
    browser.cookies[django_settings.CSRF_COOKIE_NAME] = "a" * 32
    body = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nabc\r\n--x--'
    answer = browser.generic("POST", f"{API}/tokens", body, content_type, headers={"X-CSRFToken": "a" * 32})
    assert answer.status_code == status and is_error(answer)
    assert "application/json" in answer.json()["error"]["hint"]


def test_a_web_socket_is_refused_without_a_word_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    from asgiref.sync import async_to_sync
    from asgiref.testing import ApplicationCommunicator

    from harness.asgi import application

    async def answer() -> Any:
        asked = ApplicationCommunicator(application, {"type": "websocket", "path": "/live", "headers": []})
        await asked.send_input({"type": "websocket.connect"})
        return await asked.receive_output(5)

    assert async_to_sync(answer)()["type"] == "websocket.close"
    assert not caplog.records


def test_a_job_that_is_made_and_cannot_be_submitted_names_its_draft(caller: Client, dataset: Any) -> None:
    body = {"dataset": dataset.pk, "spec": {"budget": {"deadline": "2020-01-01T00:00:00Z"}}, "submit": True}
    error = caller.post(f"{API}/jobs", json.dumps(body), "application/json").json()["error"]
    assert error["code"] == "deadline_passed"
    draft = caller.get(f"{API}/jobs/{error['details']['job']}").json()
    assert draft["state"] == "draft" and draft["id"] in error["hint"]


@pytest.mark.parametrize(("line", "status"), [(10**12, 200), (10**12 + 1, 422), (10**400, 422), (-1, 422)])
def test_a_line_beyond_every_log_is_no_crash(caller: Client, finished_job: Any, line: int, status: int) -> None:
    answer = caller.get(f"{API}/jobs/{finished_job.pk}/logs?after_line={line}")
    assert answer.status_code == status
    assert status == 200 or answer.json()["error"]["field"] == "after_line"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"name": "a\\u0000b"}', "a text holds a NUL character"),
        (b"{'name': 'a'}", "line 1 column 2"),
        (b'{"name": "\xff"}', "can't decode"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_the_reason(caller: Client, body: bytes, words: str) -> None:
    answer = caller.post(f"{API}/tokens", body, "application/json")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "bad_request")
    assert error["message"].startswith("The request's body cannot be read: ") and words in error["message"]


def test_a_job_to_be_moved_before_one_that_is_none_is_not_called_missing_itself(
    bearer: Any, people: SimpleNamespace, job: Any
) -> None:
    admin, body = bearer(people.admin, "admin"), json.dumps({"before": "nosuch"})
    missing = {
        job_id: admin.post(f"{API}/queue/{job_id}/move", body, "application/json") for job_id in (job.pk, "another")
    }
    errors = [answer.json()["error"] for answer in missing.values()]
    assert [answer.status_code for answer in missing.values()] == [404, 404]
    assert [error["field"] for error in errors] == ["before", None]
    assert "'nosuch'" in errors[0]["message"] and "dlh queue" in errors[0]["hint"]


@pytest.mark.parametrize("place", ["jobs", "job-groups"])
def test_an_owner_whom_the_caller_does_not_see_is_refused_like_one_who_is_none(
    caller: Client, people: SimpleNamespace, job: Any, place: str
) -> None:
    answers = {name: caller.get(f"{API}/{place}?owner={name}") for name in (people.outsider.username, "nosuch")}
    for name, answer in answers.items():
        error = answer.json()["error"]
        assert (answer.status_code, error["field"]) == (422, "owner")
        assert error["message"] == f"Nobody in the projects that you see is called {name!r}."
        assert error["hint"] == f"Jobs that you see are of: {people.owner.username}."
    assert caller.get(f"{API}/{place}?owner={people.mate.username}").json()["total"] == 0


def test_who_has_left_the_project_is_still_the_owner_of_jobs_in_it(
    caller: Client, people: SimpleNamespace, job: Any
) -> None:
    type(job).objects.filter(pk=job.pk).update(owner=people.outsider)
    assert caller.get(f"{API}/jobs?owner={people.outsider.username}").json()["total"] == 1


@pytest.mark.parametrize("place", ["offers", "jobs"])
def test_what_no_job_could_be_made_of_gets_no_offer_either(
    caller: Client, dataset: Any, people: SimpleNamespace, place: str
) -> None:
    def error(**more: Any) -> tuple[int, str]:
        body = {"dataset": dataset.pk, "spec": {}, **more}
        answer = caller.post(f"{API}/{place}", json.dumps(body), "application/json")
        return answer.status_code, answer.json()["error"]["field"]

    assert error(dataset="nothing") == (404, "dataset")
    assert error(spec={"model": {"weights": "nowhere"}}) == (422, "model.weights")
    dataset_delete(user=people.owner, dataset=dataset)
    assert error() == (409, "data.dataset")
