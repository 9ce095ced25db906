"""What the API hands out as files: whole, in ranges, and never as a page or a formula."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from tests.harness.api.conftest import API


def test_weights_are_sent_in_ranges(caller: Client, finished_job: Any) -> None:
    place = f"{API}/jobs/{finished_job.pk}/weights"
    whole = caller.get(place)
    assert b"".join(whole.streaming_content) == bytes(range(200))
    assert whole["Accept-Ranges"] == "bytes"
    part = caller.get(place, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part["Content-Range"]) == (206, "bytes 10-19/200")
    assert b"".join(part.streaming_content) == bytes(range(10, 20))
    assert caller.get(place, headers={"Range": "bytes=200-"}).status_code == 416
    assert caller.head(place)["Content-Length"] == "200"


def read(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else bytes(answer.content)


@pytest.mark.parametrize("part", ["weights", "model.zip", "program.zip", "program.zip?data=true"])
def test_a_cut_download_goes_on_while_the_bytes_are_the_same(caller: Client, finished_job: Any, part: str) -> None:
    place = f"{API}/jobs/{finished_job.pk}/{part}"
    whole = caller.get(place)
    body = read(whole)
    assert whole["Content-Length"] == str(len(body))
    rest = caller.get(place, headers={"Range": "bytes=50-", "If-Range": whole["ETag"]})
    assert (rest.status_code, read(rest)) == (206, body[50:])
    other = caller.get(place, headers={"Range": "bytes=50-", "If-Range": '"what-it-was-before"'})
    assert (other.status_code, read(other)) == (200, body)
    assert caller.get(place, headers={"If-None-Match": whole["ETag"]}).status_code == 304
    assert caller.head(place, headers={"If-Match": '"what-it-was-before"'}).status_code == 412


@pytest.mark.parametrize("part", ["weights", "model.zip", "program.zip"])
def test_who_asks_for_it_is_told_the_hash_of_the_whole(caller: Client, finished_job: Any, part: str) -> None:
    place = f"{API}/jobs/{finished_job.pk}/{part}"
    digest = base64.b64encode(hashlib.sha256(read(caller.get(place))).digest()).decode()
    for ask in (caller.head, caller.get):
        answer = ask(place, headers={"Want-Repr-Digest": "sha-256=1", "Range": "bytes=3-9"})
        assert answer["Repr-Digest"] == f"sha-256=:{digest}:"
    assert "Repr-Digest" not in caller.head(place)


@pytest.mark.parametrize("part", ["weights", "model.zip"])
def test_weights_that_are_a_link_are_not_followed(caller: Client, finished_job: Any, part: str) -> None:
    weights = django_settings.STORE.job(finished_job.pk).results / "model.safetensors"
    weights.unlink()
    weights.symlink_to("/etc/passwd")
    assert caller.get(f"{API}/jobs/{finished_job.pk}/{part}").status_code == 409


def test_a_model_has_no_file_of_elsewhere(caller: Client, finished_job: Any) -> None:
    results = django_settings.STORE.job(finished_job.pk).results
    (results / "preprocess.json").symlink_to("/etc/passwd")
    assert caller.get(f"{API}/jobs/{finished_job.pk}/model.zip").status_code == 409


def test_a_model_that_is_not_trained_is_told_as_for_its_weights(caller: Client, job: Any) -> None:
    answers = [caller.get(f"{API}/jobs/{job.pk}/{part}") for part in ("weights", "model.zip")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json() == answers[1].json()


def test_downloads_are_never_shown_as_a_page(caller: Client, finished_job: Any) -> None:
    for part in ("weights", "model.zip", "program.zip", "logs.txt", "series.csv", "charts/per_class.csv"):
        answer = caller.get(f"{API}/jobs/{finished_job.pk}/{part}")
        assert answer["Content-Disposition"].startswith("attachment")
        assert answer["X-Content-Type-Options"] == "nosniff"


def test_the_program_zip_holds_the_files_and_the_runtime(caller: Client, job: Any) -> None:
    answer = caller.get(f"{API}/jobs/{job.pk}/program.zip")
    names = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content))).namelist()
    root = f"program-{job.pk}"
    assert {f"{root}/train.py", f"{root}/model.py", f"{root}/worker/runtime/__init__.py"} <= set(names)


def test_csv_cells_that_a_spreadsheet_would_run_are_defused(caller: Client, finished_job: Any) -> None:
    answer = caller.get(f"{API}/jobs/{finished_job.pk}/charts/per_class.csv")
    job_place = django_settings.STORE.job(finished_job.pk).results / "results.json"
    results = json.loads(job_place.read_text())
    results["charts"][0]["rows"] = [["=cmd|' /C calc'!A0"]]
    job_place.write_text(json.dumps(results))
    answer = caller.get(f"{API}/jobs/{finished_job.pk}/charts/per_class.csv")
    assert b"\n=cmd" not in b"".join(answer.streaming_content).replace(b'"', b"")


def test_the_program_is_not_sent_again_while_it_is_the_same(caller: Client, job: Any) -> None:
    place = f"{API}/jobs/{job.pk}/program"
    first = caller.get(place)
    assert caller.get(place, headers={"If-None-Match": first["ETag"]}).status_code == 304
    caller.put(f"{place}/model.py", json.dumps({"text": "x = 1\n"}), "application/json")
    second = caller.get(place, headers={"If-None-Match": first["ETag"]})
    assert second.status_code == 200 and second.json()["edited"]
