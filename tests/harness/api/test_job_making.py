"""Making and copying jobs over HTTP: what is refused leaves nothing, and what is left out is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from harness.jobs.models import Job
from tests.harness.api.conftest import API

SYNTAX = "def build(spec):\n    return (\n"


def sent(caller: Client, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    answer = caller.post(f"{API}{path}", json.dumps(body or {}), "application/json")
    return answer.status_code, answer.json()


@pytest.mark.parametrize("submit", [True, False])
@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({"model": SYNTAX}, "program_syntax", "model.py"),
        ({"model": "a,b\n1,2\n"}, "model_no_build", "model.py"),
        ({"model": "def build(): ...\n"}, "model_build_call", "model.py"),
        ({"files": {"extra.py": "def (:\n"}}, "program_syntax", "extra.py"),
        ({"spec": {"model": {"family": "own"}}}, "spec_invalid", "model.family"),
    ],
)
def test_a_refused_job_of_own_code_leaves_no_draft(
    caller: Client, dataset: Any, given: dict[str, Any], code: str, field: str, submit: bool
) -> None:
    status, answer = sent(caller, "/jobs", {"dataset": dataset.pk, **given, "submit": submit})
    error = answer["error"]
    assert (status, error["code"], error["field"]) == (422, code, field)
    assert "draft" not in error["hint"] and not Job.objects.exists()


def test_a_deadline_that_cannot_be_kept_still_leaves_the_draft_that_an_offer_is_for(
    caller: Client, dataset: Any
) -> None:
    spec = {"budget": {"deadline": "2020-01-31T18:00:00Z"}}
    status, answer = sent(caller, "/jobs", {"dataset": dataset.pk, "spec": spec, "submit": True})
    assert status == 422 and Job.objects.get(pk=answer["error"]["details"]["job"]).state == "draft"


@pytest.mark.parametrize(("deadline", "told"), [("2020-01-31T18:00:00Z", 1), ("2035-01-31T18:00:00Z", 0), ("auto", 0)])
def test_a_clone_tells_of_a_deadline_that_was_left_out(caller: Client, job_make: Any, deadline: str, told: int) -> None:
    job = job_make(name="first", budget={"deadline": deadline})
    status, answer = sent(caller, f"/jobs/{job.pk}/clone")
    words = "The deadline of first, 2020-01-31 18:00 UTC, has passed: choose another or none."
    assert (status, answer["left_out"]) == (201, [words] * told)
    assert (answer["deadline_at"] is None) is (told == 1 or deadline == "auto")


def test_a_clone_takes_changes_or_is_not_made(caller: Client, job: Any) -> None:
    before = Job.objects.count()
    for changes, field in (({"foo": 1}, "foo"), ({"training.epochs": "abc"}, "training.epochs")):
        status, answer = sent(caller, f"/jobs/{job.pk}/clone", {"changes": changes})
        assert (status, answer["error"]["field"]) == (422, field)
    assert Job.objects.count() == before
    status, answer = sent(caller, f"/jobs/{job.pk}/clone", {"changes": {"training.epochs": 3}, "name": "three"})
    assert (status, answer["name"], answer["spec"]["training"]["epochs"]) == (201, "three", 3)


def test_changes_count_over_the_spec_of_a_new_job_or_it_is_not_made(caller: Client, dataset: Any) -> None:
    asked = {"dataset": dataset.pk, "yaml": "training:\n  epochs: 9\n  batch_size: 8\n"}
    for field, value in (("foo", 1), ("training.epochs", "abc"), ("training.epochs.more", 1)):
        status, answer = sent(caller, "/jobs", {**asked, "changes": {field: value}})
        assert status == 422 and answer["error"]["field"] == field
    assert not Job.objects.exists()
    status, answer = sent(caller, "/jobs", {**asked, "changes": {"training.epochs": 3}})
    training = answer["spec"]["training"]
    assert (status, training["epochs"], training["batch_size"]) == (201, 3, 8)


@pytest.mark.parametrize("own", [True, False, None])
def test_a_check_of_a_spec_for_an_own_model_says_what_is_chosen_for_that(
    caller: Client, dataset: Any, own: bool | None
) -> None:
    _, answer = sent(caller, "/spec/check", {"dataset": dataset.pk, "spec": {}, "own_model": own})
    told = {guess["field"]: guess for guess in answer["resolved"]["guesses"]}
    assert answer["ok"] and (told["model.family"]["value"] == "own") is (own is True)
    assert ("nothing is known" in told["training.learning_rate"]["reason"]) is (own is True)


def test_a_change_tells_which_edits_of_spec_yaml_gave_way(caller: Client, job_make: Any) -> None:
    job = job_make(training={"epochs": 3})
    text = (settings.STORE.job(job.pk).program / "spec.yaml").read_text().replace("epochs: 3", "epochs: 44")
    place = f"{API}/jobs/{job.pk}"
    assert caller.put(f"{place}/program/spec.yaml", json.dumps({"text": text}), "application/json").status_code == 200
    for spec, told in (({"training": {"epochs": 7}}, ["1 edit of spec.yaml gave way to its spec."]), (None, [])):
        body = {"spec": spec} if spec else {"name": "other"}
        answer = caller.patch(place, json.dumps(body), "application/json")
        assert (answer.status_code, answer.json()["left_out"]) == (200, told)


def test_of_two_who_change_a_spec_at_once_the_later_undoes_nothing_unasked(caller: Client, job_make: Any) -> None:
    place = f"{API}/jobs/{job_make(training={'epochs': 3}).pk}"
    seen = caller.get(place).json()["spec_sha256"]

    def changed(epochs: int, **more: Any) -> Any:
        body = {"spec": {"training": {"epochs": epochs}}, **more}
        return caller.patch(place, json.dumps(body), "application/json")

    first = changed(7, expected_spec_sha256=seen)
    assert first.status_code == 200 and first.json()["spec_sha256"] != seen
    second = changed(9, expected_spec_sha256=seen)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "changed")
    assert second.json()["error"]["details"] == {"sha256": first.json()["spec_sha256"]}
    assert caller.get(place).json()["spec"]["training"]["epochs"] == 7
    assert changed(9, expected_spec_sha256=first.json()["spec_sha256"]).status_code == 200
    assert changed(11).json()["spec"]["training"]["epochs"] == 11
