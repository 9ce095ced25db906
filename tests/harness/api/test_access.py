"""Every row of who may call what, tried as everybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from harness.api.app import api
from harness.api.query import operations
from tests.harness.api.access_matrix import CALLERS, KINDS, MATRIX, NAMES, OK
from tests.harness.api.access_world import World, world_make
from tests.harness.api.conftest import API, TUS, client_of, metadata, token_text
from tests.kept import Kept, kept

pytestmark = pytest.mark.both_databases


def routes() -> list[tuple[str, str]]:
    return [(method, path) for path, operation in operations(api) for method in operation.methods]


@pytest.fixture(scope="module")
def world_kept(request: pytest.FixtureRequest, flowers_csv: Path, flowers_packed: Path) -> Iterator[Kept[World]]:
    from harness import broker

    def make() -> World:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker, "publish", lambda *_, **__: None)
            return world_make(flowers_csv, flowers_packed)

    with kept(request, make, lambda world: world.folders) as found:
        yield found


@pytest.fixture
def world(world_kept: Kept[World], db: None) -> Iterator[World]:
    with world_kept.lent() as world:
        yield world


def request_of(method: str, path: str, world: World) -> dict[str, Any]:
    """Body and headers with which the address would do its work."""
    bodies: dict[tuple[str, str], Any] = {
        ("POST", "/tokens"): {"name": "new"},
        ("PATCH", "/notifications"): {"job_failed": False},
        ("POST", "/projects"): {"name": "New"},
        ("PUT", "/projects/{slug}/members/{username}"): {"role": "viewer"},
        ("POST", "/users"): {"username": "fresh"},
        ("PATCH", "/users/{username}"): {"new_password": True},
        ("PATCH", "/datasets/{dataset_id}"): {"name": "renamed"},
        ("POST", "/fetches"): {"url": "https://data.example.org/b.csv", "project": world.values["slug"]},
        ("POST", "/spec/check"): {"dataset": world.dataset.pk, "spec": {}},
        ("POST", "/suggest"): {"dataset": world.dataset.pk},
        ("POST", "/job-views"): {"name": "mine", "query": "state=failed"},
        ("PATCH", "/job-views/{view_id}"): {"name": "renamed"},
        ("POST", "/jobs"): {"dataset": world.dataset.pk, "spec": {}},
        ("POST", "/offers"): {"dataset": world.dataset.pk, "spec": {}},
        ("PATCH", "/jobs/{job_id}"): {"notes": "seen"},
        ("PUT", "/jobs/{job_id}/program/{name}"): {"text": "x = 1\n"},
        ("POST", "/jobs/{job_id}/predictions"): {"records": [{"length": 1}]},
        ("PATCH", "/queue/{job_id}"): {"priority": 3},
        ("POST", "/queue/{job_id}/move"): {"to": "first"},
        ("POST", "/queue/{job_id}/move/consequences"): {"to": "first"},
        ("POST", "/queue/{job_id}/consequences"): {"priority": 1},
        ("POST", "/pool/reservations"): {"node": "node-9", "ends_at": "2099-01-01T00:00:00Z", "purpose": "tests"},
        ("POST", "/pool/reservations/consequences"): {
            "node": "node-9",
            "ends_at": "2099-01-01T00:00:00Z",
            "purpose": "",
        },
        ("PUT", "/pool/quotas/{slug}/{device_kind}"): {"devices": 4},
        ("POST", "/pool/quotas/{slug}/{device_kind}/consequences"): {"devices": 4},
        ("PUT", "/pool/storage/{slug}"): {"limit_bytes": 1 << 40},
        ("POST", "/pool/nodes"): {"name": "node-10"},
        ("POST", "/pool/nodes/{name}/token"): {"valid_s": 600},
        ("POST", "/pool/join"): join_body(world.join_token),
        ("POST", "/node/check"): {"findings": []},
        ("POST", "/node/reach"): {"address": "10.0.0.1", "ports": [40000], "word": "0" * 32},
        ("PUT", "/pool/nodes/{name}/near"): {"near": "rack 2"},
        ("PUT", "/pool/nodes/{name}/devices/{kind}/{index}/slowdown"): {"factor": 2.0},
        ("PATCH", "/pool/settings"): {"max_restarts": 2},
        ("POST", "/pool/links"): {"node": "node-9"},
        ("POST", "/pool/calibration"): {"node": "node-9", "budget_s": 60.0},
        ("POST", "/pool/calibration/all"): {"budget_s": 60.0},
        ("POST", "/pool/calibration/points"): {"text": ""},
    }
    if path.startswith("/uploads"):
        return upload_request(method, world)
    body = bodies.get((method, path))
    return {"data": json.dumps(body), "content_type": "application/json"} if body is not None else {}


def join_body(token: str) -> dict[str, Any]:
    from harness.release import release
    from worker.plan import PLAN_VERSION

    return {"token": token, "version": release(), "plan_version": PLAN_VERSION, "time_s": timezone.now().timestamp()}


def upload_request(method: str, world: World) -> dict[str, Any]:
    if method == "POST":
        named = metadata(filename="b.csv", project=world.values["slug"])
        return {"headers": {**TUS, "Upload-Length": "4", "Upload-Metadata": named}}
    if method == "PATCH":
        headers = {**TUS, "Upload-Offset": "0"}
        return {"data": b"a\n1\n", "content_type": "application/offset+octet-stream", "headers": headers}
    return {"headers": TUS}


def test_every_method_of_every_address_has_a_row() -> None:
    assert set(routes()) == set(MATRIX)


@pytest.mark.parametrize(("method", "path"), list(MATRIX), ids=lambda value: value)
def test_everybody_gets_what_the_matrix_says(method: str, path: str, world: World) -> None:
    values = {**world.values, "name": NAMES.get(path.split("/")[1], "")}
    place = API + path.format(**values)
    expected = dict(zip(CALLERS, KINDS[MATRIX[method, path]], strict=True))
    got = {}
    # Those who are refused come first: nobody's success may hide that another would have failed.
    for name in sorted(CALLERS, key=lambda caller: (expected[caller] == OK, caller == "owner")):
        with transaction.atomic():
            answer = world.callers[name].generic(method, place, **request_of(method, path, world))
            transaction.set_rollback(True)
        assert answer.status_code != 500
        got[name] = answer.status_code if answer.status_code in {401, 403, 404} else OK
        if got[name] and method != "HEAD":
            assert set(answer.json()["error"]) == {"code", "message", "hint", "field", "details"}
    assert got == expected


def test_lists_show_outsiders_and_bound_tokens_nothing_of_the_project(world: World) -> None:
    for name in ("outsider", "bound_token"):
        caller = world.callers[name]
        assert caller.get(f"{API}/jobs").json()["total"] == 0
        assert caller.get(f"{API}/datasets").json()["total"] == 0
        assert [item["slug"] for item in caller.get(f"{API}/projects").json()["items"]] == ["elsewhere"]
        assert caller.get(f"{API}/jobs?project=birds").status_code == 404
    assert world.callers["viewer"].get(f"{API}/jobs").json()["total"] == 1


def test_a_write_token_manages_no_members(world: World) -> None:
    place = f"{API}/projects/{world.values['slug']}/members/extra"
    assert client_of(token_text(world.people.owner)).delete(place).status_code == 403
    assert world.callers["owner"].delete(place).status_code == 200


def test_a_bound_token_sees_only_tokens_of_its_project(world: World) -> None:
    items = world.callers["bound_token"].get(f"{API}/tokens").json()["items"]
    assert [item["project"] for item in items] == ["elsewhere"]


def test_the_pool_names_no_job_to_outsiders(world: World, node_make: Any) -> None:
    from harness.jobs.models import Allocation, JobAttempt
    from harness.pool.models import Device

    node_make("node-1")
    attempt = JobAttempt.objects.create(job=world.job, number=1, plan={})
    Allocation.objects.create(device=Device.objects.first(), job=world.job, attempt=attempt, rank=0)
    for name, shown in (("outsider", None), ("bound_token", None), ("viewer", world.job.pk)):
        nodes = world.callers[name].get(f"{API}/pool").json()["nodes"]
        held = [device for node in nodes for device in node["devices"] if device["busy"]]
        assert [device["job_id"] for device in held] == [shown]


def test_a_template_for_somebody_elses_dataset_is_not_found(world: World) -> None:
    place = f"{API}/spec/template?dataset={world.dataset.pk}"
    assert world.callers["outsider"].get(place).status_code == 404
    assert world.callers["viewer"].get(place).status_code == 200
