"""Weights files by the API: an upload of that name becomes one, a job starts from it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factory_weights import safetensors, weights_make
from tests.harness.api.conftest import API, TUS, metadata

PIECE = "application/offset+octet-stream"


def begin(caller: Any, filename: str, body: bytes) -> Any:
    headers = {**TUS, "Upload-Length": str(len(body)), "Upload-Metadata": metadata(filename=filename, project="birds")}
    return caller.post(f"{API}/uploads", headers=headers)


def send(caller: Any, place: str, body: bytes) -> Any:
    return caller.patch(place, data=body, content_type=PIECE, headers={**TUS, "Upload-Offset": "0"})


@pytest.fixture
def caller(people: Any, bearer: Any) -> Any:
    return bearer(people.owner)


def test_an_upload_of_that_name_becomes_a_weights_file(caller: Any) -> None:
    place = begin(caller, "mine.safetensors", safetensors())["Location"]
    sent = send(caller, place, safetensors())
    assert sent.status_code == 204 and "Dataset-Id" not in sent
    assert caller.head(place, headers=TUS)["Weights-Id"] == sent["Weights-Id"]
    told = caller.get(f"{API}/weights/{sent['Weights-Id']}").json()
    assert (told["name"], told["project"], told["tensors"], told["jobs_count"]) == ("mine", "birds", 2, 0)
    assert caller.get(f"{API}/uploads").json()["items"] == []


def test_a_pickle_is_refused_before_a_byte_is_sent(caller: Any) -> None:
    answer = begin(caller, "model.pt", b"1234")
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "weights_pickle"


def test_a_file_that_is_none_is_refused_with_its_last_byte_and_forgotten(caller: Any) -> None:
    place = begin(caller, "mine.safetensors", safetensors())["Location"]
    answer = send(caller, place, bytes(len(safetensors())))
    assert answer.status_code == 422 and "not a safetensors file" in answer.json()["error"]["message"]
    assert caller.head(place, headers=TUS).status_code == 404


def test_the_list_is_of_what_the_caller_sees_and_is_filtered_by_project_and_bytes(
    people: Any, bearer: Any, caller: Any
) -> None:
    mine = weights_make(people.owner, people.project)
    theirs = weights_make(people.outsider, people.elsewhere, "theirs.safetensors", safetensors(fill=1))

    def ids(by: Any, **filters: str) -> list[str]:
        return [one["id"] for one in by.get(f"{API}/weights", filters).json()["items"]]

    assert ids(caller) == ids(caller, project="birds") == ids(caller, sha256=mine.sha256) == [mine.pk]
    assert ids(caller, sha256=theirs.sha256) == []
    assert ids(bearer(people.outsider)) == [theirs.pk]
    assert caller.get(f"{API}/weights", {"project": "elsewhere"}).status_code == 404


def test_a_job_names_its_weights_and_is_told_what_they_are(people: Any, caller: Any, dataset: Any) -> None:
    mine = weights_make(people.owner, people.project)
    body = {"dataset": dataset.pk, "changes": {"model.weights": mine.pk}}
    made = caller.post(f"{API}/jobs", body, content_type="application/json")
    assert made.status_code == 201, made.content
    assert made.json()["weights"] == {"id": mine.pk, "name": "mine"}
    assert caller.delete(f"{API}/weights/{mine.pk}").status_code == 409


def test_weights_of_another_project_are_refused_as_if_there_were_none(people: Any, caller: Any, dataset: Any) -> None:
    theirs = weights_make(people.outsider, people.elsewhere, "theirs.safetensors")
    body = {"dataset": dataset.pk, "spec": {"model": {"weights": theirs.pk}}}
    answer = caller.post(f"{API}/jobs", body, content_type="application/json")
    assert answer.status_code == 422 and answer.json()["error"]["field"] == "model.weights"
