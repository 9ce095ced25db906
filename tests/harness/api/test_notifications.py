"""What a person is told of, by the API: everybody sees and changes their own alone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.notify.models import Delivery
from tests.harness.api.conftest import API

PLACE = f"{API}/notifications"
URL = "https://hooks.example.org/services/secret"


def patch(client: Any, **body: Any) -> Any:
    return client.patch(PLACE, body, content_type="application/json")


def test_a_choice_is_kept_and_neither_secret_nor_path_is_told_again(
    bearer: Callable[..., Any], people: SimpleNamespace
) -> None:
    client = bearer(people.owner)
    made = patch(client, webhook_url=URL, job_finished=False, projects=["birds"]).json()
    assert made["secret"].startswith("dlhw_") and made["webhook"] == "https://hooks.example.org"
    found = client.get(PLACE)
    body = found.json()
    assert (body["job_finished"], body["job_failed"], body["projects"]) == (False, True, ["birds"])
    assert "services" not in found.content.decode() and made["secret"] not in found.content.decode()
    renewed = client.post(f"{PLACE}/secret").json()["secret"]
    assert renewed != made["secret"]
    assert bearer(people.mate).get(PLACE).json()["webhook"] == ""


def test_a_test_is_sent_by_control_and_not_by_the_request(
    bearer: Callable[..., Any], people: SimpleNamespace, tasks_sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    client = bearer(people.owner)
    assert client.post(f"{PLACE}/test").status_code == 409
    patch(client, webhook_url=URL)
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(f"{PLACE}/test")
    (row,) = answer.json()["items"]
    assert answer.status_code == 202 and (row["state"], row["kind"], row["tries"]) == ("waiting", "test", 0)
    assert ("control.notify", [], "control") in tasks_sent
    assert client.get(PLACE).json()["deliveries"][0]["id"] == row["id"]
    assert bearer(people.mate).get(PLACE).json()["deliveries"] == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"webhook_url": "https://10.0.0.1/"}, 422, "webhook_url"),
        ({"by_email": True}, 422, "by_email"),
        ({"projects": ["elsewhere"]}, 404, "projects"),
        ({"strange": 1}, 422, "strange"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    bearer: Callable[..., Any], people: SimpleNamespace, body: dict[str, Any], status: int, field: str
) -> None:
    answer = patch(bearer(people.owner), **body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)


def test_an_admin_gives_a_person_an_address_and_nobody_else_does(
    bearer: Callable[..., Any], people: SimpleNamespace
) -> None:
    place = f"{API}/users/owner"
    admin = bearer(people.admin, "admin")
    assert admin.patch(place, {"email": " new@example.org "}, content_type="application/json").json()["email"] == (
        "new@example.org"
    )
    people.owner.refresh_from_db()
    assert people.owner.email == "new@example.org" and people.owner.is_active
    refused = admin.patch(place, {"email": "no address"}, content_type="application/json")
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "email")
    mine = bearer(people.owner, "admin").patch(place, {"email": "x@example.org"}, content_type="application/json")
    assert mine.status_code == 403


def test_messages_of_others_are_seen_by_nobody(bearer: Callable[..., Any], people: SimpleNamespace) -> None:
    patch(bearer(people.owner), webhook_url=URL)
    bearer(people.owner).post(f"{PLACE}/test")
    assert Delivery.objects.count() == 1
    for name in ("mate", "viewer", "outsider", "admin"):
        assert bearer(getattr(people, name), "admin").get(PLACE).json()["deliveries"] == []
