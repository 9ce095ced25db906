"""The tus 1.0 protocol, by token and by session."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from harness.accounts.models import Membership, Project, Role
from tests.harness.api.conftest import API, TUS, metadata

BODY = b"a,b\n" + b"1,2\n" * 50
PIECE = "application/offset+octet-stream"


@pytest.fixture
def caller(people: SimpleNamespace, bearer: Any) -> Client:
    return bearer(people.owner)


def begin(caller: Client, size: int = len(BODY), **named: str) -> str:
    given = {"filename": "t.csv", "project": "birds", **named}
    headers = {**TUS, "Upload-Length": str(size), "Upload-Metadata": metadata(**given)}
    answer = caller.post(f"{API}/uploads", headers=headers)
    assert answer.status_code == 201, answer.content
    return answer["Location"]


def send(caller: Client, place: str, offset: int, body: bytes, **headers: str) -> Any:
    return caller.patch(place, data=body, content_type=PIECE, headers={**TUS, "Upload-Offset": str(offset), **headers})


def offset_of(caller: Client, place: str) -> int:
    answer = caller.head(place, headers=TUS)
    assert answer.status_code == 200
    return int(answer["Upload-Offset"])


def digest(body: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, body).digest()).decode()}"


def test_a_file_in_pieces_becomes_a_dataset_with_the_same_bytes(caller: Client) -> None:
    from harness.datasets.content import content_source
    from harness.datasets.models import Dataset

    place = begin(caller, name="Table", options='{"target": "b"}')
    first = send(caller, place, 0, BODY[:50], **{"Upload-Checksum": digest(BODY[:50])})
    assert (first.status_code, first["Upload-Offset"]) == (204, "50")
    assert "Dataset-Id" not in first and "Upload-Expires" in first
    assert offset_of(caller, place) == 50
    last = send(caller, place, 50, BODY[50:], **{"Upload-Checksum": digest(BODY[50:], "sha1")})
    dataset = Dataset.objects.get(pk=last["Dataset-Id"])
    assert (dataset.name, dataset.options, dataset.state) == ("Table", {"target": "b"}, "profiling")
    assert content_source(dataset.sha256).read_bytes() == BODY
    again = caller.head(place, headers=TUS)
    assert again["Dataset-Id"] == dataset.pk


def test_a_dataset_names_an_earlier_one_of_the_same_bytes(caller: Client) -> None:
    made = [send(caller, begin(caller), 0, BODY)["Dataset-Id"] for _ in range(2)]
    first, second = (caller.get(f"{API}/datasets/{dataset_id}").json() for dataset_id in made)
    assert (first["name"], first["same_as"]) == ("t", [])
    assert (second["name"], second["same_as"]) == ("t (2)", [{"id": made[0], "name": "t"}])


def test_the_answer_to_options_says_what_the_server_can_do(caller: Client) -> None:
    answer = caller.options(f"{API}/uploads")
    assert answer.status_code == 204
    assert answer["Tus-Version"] == "1.0.0"
    assert set(answer["Tus-Extension"].split(",")) >= {"creation", "termination", "checksum", "expiration"}
    assert "sha1" in answer["Tus-Checksum-Algorithm"]
    assert int(answer["Tus-Max-Size"]) == django_settings.UPLOAD_LIMIT_BYTES


def test_a_first_piece_may_come_with_the_creation(caller: Client) -> None:
    headers = {**TUS, "Upload-Length": str(len(BODY)), "Upload-Metadata": metadata(filename="t.csv")}
    answer = caller.post(f"{API}/uploads", data=BODY, content_type=PIECE, headers=headers)
    assert (answer.status_code, answer["Upload-Offset"]) == (201, str(len(BODY)))
    assert answer["Dataset-Id"]


def test_a_wrong_offset_is_refused_and_nothing_is_written(caller: Client) -> None:
    place = begin(caller)
    send(caller, place, 0, BODY[:10])
    answer = send(caller, place, 5, BODY[5:20])
    assert answer.status_code == 409
    assert answer.json()["error"]["details"] == {"offset": 10}
    assert offset_of(caller, place) == 10


def test_a_wrong_checksum_is_460_and_the_piece_can_be_sent_again(caller: Client) -> None:
    place = begin(caller)
    answer = send(caller, place, 0, BODY[:10], **{"Upload-Checksum": digest(b"something else")})
    assert (answer.status_code, answer.json()["error"]["code"]) == (460, "checksum_mismatch")
    assert offset_of(caller, place) == 0
    assert send(caller, place, 0, BODY, **{"Upload-Checksum": digest(BODY)}).status_code == 204


def test_a_piece_with_a_checksum_is_never_whole_in_memory() -> None:
    from harness.api import tus

    reads: list[int] = []

    def read(size: int) -> bytes:
        reads.append(size)
        return b"x" * 10 if len(reads) <= 3 else b""

    asked: Any = SimpleNamespace(read=read, headers={"Upload-Checksum": digest(b"something else")})
    pieces = tus.pieces(asked)
    assert (next(pieces), len(reads)) == (b"x" * 10, 1)
    with pytest.raises(tus.ChecksumMismatch):
        list(pieces)


@pytest.mark.parametrize(("given", "status"), [("md4 AAAA", 422), ("sha256 *", 422), ("", 422), ("sha256", 460)])
def test_an_unknown_checksum_is_refused(caller: Client, given: str, status: int) -> None:
    place = begin(caller)
    assert send(caller, place, 0, BODY, **{"Upload-Checksum": given}).status_code == status
    assert offset_of(caller, place) == 0


def test_more_bytes_than_announced_are_refused(caller: Client) -> None:
    place = begin(caller, size=10)
    answer = send(caller, place, 0, BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_a_file_above_the_limit_is_refused_before_a_byte_is_sent(caller: Client, settings: Any) -> None:
    settings.UPLOAD_LIMIT_BYTES = 100
    headers = {**TUS, "Upload-Length": "101", "Upload-Metadata": metadata(filename="t.csv")}
    assert caller.post(f"{API}/uploads", headers=headers).status_code == 413


def test_a_disk_without_room_is_507_and_says_what_to_do(caller: Client, settings: Any) -> None:
    settings.DISK_RESERVE_BYTES = 1 << 60
    headers = {**TUS, "Upload-Length": "10", "Upload-Metadata": metadata(filename="t.csv")}
    answer = caller.post(f"{API}/uploads", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")
    assert answer.json()["error"]["hint"]


def test_a_disk_that_fills_up_is_507_and_what_arrived_is_kept(caller: Client, monkeypatch: Any) -> None:
    place = begin(caller)
    send(caller, place, 0, BODY[:10])

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    answer = send(caller, place, 10, BODY[10:])
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")
    monkeypatch.undo()
    assert offset_of(caller, place) == 10


def test_a_second_writer_is_told_to_wait(caller: Client) -> None:
    import fcntl

    place = begin(caller)
    with django_settings.STORE.upload(place.rsplit("/", 1)[-1]).open("rb+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert send(caller, place, 0, BODY).status_code == 423


def test_a_deleted_upload_is_gone_with_its_bytes(caller: Client) -> None:
    place = begin(caller)
    send(caller, place, 0, BODY[:10])
    assert caller.delete(place, headers=TUS).status_code == 204
    assert caller.head(place, headers=TUS).status_code == 404
    assert not django_settings.STORE.upload(place.rsplit("/", 1)[-1]).exists()


def test_an_upload_that_lost_its_last_answer_is_finished_by_asking(caller: Client, monkeypatch: Any) -> None:
    from harness.datasets import services

    place = begin(caller)
    monkeypatch.setattr(services, "upload_finish", lambda **_: None)
    send(caller, place, 0, BODY)
    monkeypatch.undo()
    assert caller.head(place, headers=TUS)["Dataset-Id"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 412),
        ({"Tus-Resumable": "0.2.2"}, 412),
        (TUS, 422),
        ({**TUS, "Upload-Length": "-1"}, 422),
        ({**TUS, "Upload-Length": "1e3"}, 422),
        ({**TUS, "Upload-Length": "9" * 40}, 422),
        ({**TUS, "Upload-Length": "٣"}, 422),
        ({**TUS, "Upload-Length": "0", "Upload-Metadata": metadata(filename="t.csv")}, 422),
        ({**TUS, "Upload-Length": "5"}, 422),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": "filename !!!"}, 422),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": "filename /w=="}, 422),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="t.csv", options="[1]")}, 422),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="t.csv", options="{")}, 422),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="t.csv", options='{"x": 1}')}, 422),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="t.csv", name="x" * 200)}, 422),
        ({**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="t.csv", project="nope")}, 404),
    ],
)
def test_a_creation_that_makes_no_sense_is_refused(caller: Client, headers: dict[str, str], status: int) -> None:
    answer = caller.post(f"{API}/uploads", headers=headers)
    assert answer.status_code == status
    assert answer["Tus-Resumable"] == "1.0.0"
    assert answer.json()["error"]["message"]


def test_a_guess_of_the_target_is_no_option_of_an_upload(caller: Client) -> None:
    told = metadata(filename="t.csv", options='{"target_guess": "b"}')
    answer = caller.post(f"{API}/uploads", headers={**TUS, "Upload-Length": "5", "Upload-Metadata": told})
    problem = answer.json()["error"]
    assert (
        answer.status_code == 422 and problem["field"] == "options.target_guess" and "name a target" in problem["hint"]
    )


def test_a_guess_that_was_kept_is_not_among_the_options_that_are_told(caller: Client, dataset: Any) -> None:
    dataset.options = {"column_types": {"length": "category"}, "target_guess": "kind"}
    dataset.save()
    told = caller.get(f"{API}/datasets/{dataset.pk}").json()
    assert told["options"] == {"column_types": {"length": "category"}} and told["notes"] == []
    assert told["target_reason"] == dataset.profile["target_reason"] != ""
    dataset.options = {"column_types": {"kind": "text"}, "target_guess": "kind"}
    dataset.save()
    assert "cannot be it as text" in caller.get(f"{API}/datasets/{dataset.pk}").json()["notes"][0]


def test_a_piece_with_another_content_type_is_415(caller: Client) -> None:
    place = begin(caller)
    answer = caller.patch(place, data=BODY, content_type="text/csv", headers={**TUS, "Upload-Offset": "0"})
    assert answer.status_code == 415


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..\\..\\boot.csv", "a/../../b.csv", ".hidden.csv", "x" * 400 + ".csv"]
)
def test_file_names_never_leave_the_store(caller: Client, name: str) -> None:
    from harness.datasets.content import content_source
    from harness.datasets.models import Dataset

    dataset_id = send(caller, begin(caller, filename=name), 0, BODY)["Dataset-Id"]
    source = content_source(Dataset.objects.get(pk=dataset_id).sha256)
    assert source.resolve().is_relative_to(django_settings.STORE.datasets.resolve())
    assert "/" not in source.name and not source.name.startswith(".")


@pytest.mark.parametrize("name", ["..", ".", "", "a\0b.csv", "a\nb.csv", "\x1b[2J.csv"])
def test_names_that_are_no_names_are_refused(caller: Client, name: str) -> None:
    headers = {**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename=name)}
    assert caller.post(f"{API}/uploads", headers=headers).status_code == 422


def test_a_browser_uploads_with_its_session_and_csrf_token(people: SimpleNamespace) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.owner)
    headers = {**TUS, "Upload-Length": str(len(BODY)), "Upload-Metadata": metadata(filename="t.csv")}
    refused = browser.post(f"{API}/uploads", headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "csrf")
    secret = "a" * 32
    browser.cookies[django_settings.CSRF_COOKIE_NAME] = secret
    csrf = {"X-CSRFToken": secret}
    place = browser.post(f"{API}/uploads", headers={**headers, **csrf})["Location"]
    assert send(browser, place, 0, BODY).status_code == 403
    assert send(browser, place, 0, BODY[:9], **csrf).status_code == 204
    assert offset_of(browser, place) == 9
    assert send(browser, place, 9, BODY[9:], **csrf)["Dataset-Id"]
    assert browser.delete(place, headers=TUS).status_code == 403
    assert browser.delete(place, headers={**TUS, **csrf}).status_code == 204


def test_somebody_else_cannot_write_into_an_upload(caller: Client, people: SimpleNamespace, bearer: Any) -> None:
    place = begin(caller)
    for other in (people.mate, people.admin, people.outsider):
        assert send(bearer(other), place, 0, BODY).status_code == 404
    assert offset_of(caller, place) == 0


def test_one_person_has_a_limited_number_of_unfinished_uploads(
    caller: Client, bearer: Any, people: SimpleNamespace, settings: Any
) -> None:
    settings.UPLOADS_OPEN_MAX = 2
    first, _ = begin(caller), begin(caller)
    headers = {**TUS, "Upload-Length": "10", "Upload-Metadata": metadata(filename="t.csv", project="birds")}
    refused = caller.post(f"{API}/uploads", headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many")
    assert "--give-up" in refused.json()["error"]["hint"]
    begin(bearer(people.mate))
    caller.delete(first, headers=TUS)
    send(caller, begin(caller), 0, BODY)  # a finished one does not count
    begin(caller)


def test_unfinished_uploads_are_listed_for_their_owner_alone(
    caller: Client, bearer: Any, people: SimpleNamespace
) -> None:
    place = begin(caller)
    send(caller, place, 0, BODY[:10])
    send(caller, begin(caller), 0, BODY)
    (found,) = caller.get(f"{API}/uploads").json()["items"]
    assert place.endswith(found["id"])
    assert (found["filename"], found["project"]) == ("t.csv", "birds")
    assert (found["offset_bytes"], found["size_bytes"]) == (10, len(BODY))
    assert bearer(people.mate).get(f"{API}/uploads").json()["items"] == []


def test_nobody_has_data_sent_to_a_project_of_theirs_by_adding_a_person_to_it(
    bearer: Any, people: SimpleNamespace
) -> None:
    caller = bearer(people.mate)
    headers = {**TUS, "Upload-Length": "10", "Upload-Metadata": metadata(filename="t.csv")}
    assert caller.get(f"{API}/me").json()["default_project"] == "birds"
    assert caller.post(f"{API}/uploads", headers=headers).status_code == 201
    trap = Project.objects.create(name="A trap", slug="a-trap")
    Project.objects.filter(pk=trap.pk).update(created_at="2001-01-01T00:00:00Z")
    Membership.objects.create(project=trap, user=people.mate, role=Role.ADMIN)
    assert caller.get(f"{API}/me").json()["default_project"] is None
    fetch = {"url": "https://data.example.org/a.csv"}
    for refused in (
        caller.post(f"{API}/uploads", headers=headers),
        caller.post(f"{API}/fetches", data=fetch, content_type="application/json"),
    ):
        error = refused.json()["error"]
        assert (refused.status_code, error["field"]) == (422, "project") and "a-trap, birds" in error["message"]
    (found,) = caller.get(f"{API}/uploads").json()["items"]
    assert found["project"] == "birds"


def test_a_person_who_may_create_no_more_projects_is_told(bearer: Any, people: SimpleNamespace, settings: Any) -> None:
    settings.PROJECTS_MAX = 1
    caller, body = bearer(people.mate), {"name": "Zoo"}
    answers = [caller.post(f"{API}/projects", data=body, content_type="application/json") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 403]
    assert answers[1].json()["error"]["code"] == "forbidden"
