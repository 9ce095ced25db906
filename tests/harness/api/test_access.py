"""Who may call what: one row for every method of every address, tried as everybody."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from harness.api.app import api
from harness.api.query import operations
from tests.factory_rates import rate_test_make
from tests.harness.api.conftest import API, TUS, metadata
from tests.harness.estimates.factories import offer_make

OK = 0
"""Stands for any status but 401, 403 and 404: the caller got through."""
CALLERS = ("anonymous", "outsider", "viewer", "mate", "owner", "admin", "read_token", "bound_token")
# Of each kind: what each caller gets, in the order of CALLERS. `read_token` and `bound_token` are the owner's.
KINDS: dict[str, tuple[int, ...]] = {
    "open": (OK, OK, OK, OK, OK, OK, OK, OK),
    "look": (401, OK, OK, OK, OK, OK, OK, OK),
    "self": (401, OK, OK, OK, OK, OK, 403, OK),
    "self unbound": (401, OK, OK, OK, OK, OK, 403, 403),
    "read": (401, 404, OK, OK, OK, OK, OK, 404),
    "ask": (401, 404, OK, OK, OK, OK, 403, 404),
    "write": (401, 404, 403, OK, OK, OK, 403, 404),
    "delete": (401, 404, 403, 403, OK, OK, 403, 404),
    "manage": (401, 404, 403, 403, OK, OK, 403, 404),
    "admin": (401, 403, 403, 403, 403, OK, 403, 403),
    "own": (401, 404, 404, 404, OK, 404, 403, 404),
    "node": (401,) * 8,
    "own or admin": (401, 404, 404, 404, OK, OK, 403, 404),
}
MATRIX: dict[tuple[str, str], str] = {
    ("GET", "/me"): "look",
    ("GET", "/tokens"): "look",
    ("POST", "/tokens"): "self unbound",
    ("DELETE", "/tokens/{token_id}"): "own or admin",
    ("GET", "/projects"): "look",
    ("POST", "/projects"): "self unbound",
    ("GET", "/projects/{slug}/members"): "read",
    ("PUT", "/projects/{slug}/members/{username}"): "manage",
    ("DELETE", "/projects/{slug}/members/{username}"): "manage",
    ("GET", "/projects/{slug}/audit"): "manage",
    ("GET", "/audit"): "admin",
    ("GET", "/users"): "admin",
    ("POST", "/users"): "admin",
    ("PATCH", "/users/{username}"): "admin",
    ("OPTIONS", "/uploads"): "look",
    ("GET", "/uploads"): "look",
    ("POST", "/uploads"): "write",
    ("HEAD", "/uploads/{upload_id}"): "own",
    ("PATCH", "/uploads/{upload_id}"): "own",
    ("DELETE", "/uploads/{upload_id}"): "own",
    ("GET", "/datasets"): "look",
    ("GET", "/datasets/{dataset_id}"): "read",
    ("PATCH", "/datasets/{dataset_id}"): "write",
    ("DELETE", "/datasets/{dataset_id}"): "delete",
    ("POST", "/datasets/{dataset_id}/restore"): "write",
    ("GET", "/datasets/{dataset_id}/profile"): "read",
    ("GET", "/datasets/{dataset_id}/rows"): "read",
    ("GET", "/datasets/{dataset_id}/thumbnails/{name}"): "read",
    ("HEAD", "/datasets/{dataset_id}/thumbnails/{name}"): "read",
    ("GET", "/spec/schema"): "look",
    ("GET", "/spec/template"): "look",
    ("POST", "/spec/check"): "ask",
    ("POST", "/suggest"): "ask",
    ("GET", "/jobs"): "look",
    ("POST", "/jobs"): "write",
    ("GET", "/jobs/{job_id}"): "read",
    ("PATCH", "/jobs/{job_id}"): "write",
    ("DELETE", "/jobs/{job_id}"): "delete",
    ("POST", "/jobs/{job_id}/submit"): "write",
    ("POST", "/jobs/{job_id}/cancel"): "write",
    ("POST", "/jobs/{job_id}/pause"): "write",
    ("POST", "/jobs/{job_id}/resume"): "write",
    ("POST", "/jobs/{job_id}/clone"): "write",
    ("POST", "/jobs/{job_id}/restore"): "write",
    ("POST", "/jobs/{job_id}/check"): "write",
    ("GET", "/jobs/{job_id}/check/{check_id}"): "read",
    ("GET", "/jobs/{job_id}/program"): "read",
    ("POST", "/jobs/{job_id}/program/reset"): "write",
    ("GET", "/jobs/{job_id}/program/diff"): "read",
    ("GET", "/jobs/{job_id}/program/{name}"): "read",
    ("PUT", "/jobs/{job_id}/program/{name}"): "write",
    ("GET", "/jobs/{job_id}/program.zip"): "read",
    ("HEAD", "/jobs/{job_id}/program.zip"): "read",
    ("GET", "/jobs/{job_id}/weights"): "read",
    ("HEAD", "/jobs/{job_id}/weights"): "read",
    ("GET", "/jobs/{job_id}/events"): "read",
    ("GET", "/jobs/{job_id}/series"): "read",
    ("GET", "/jobs/{job_id}/series.csv"): "read",
    ("GET", "/jobs/{job_id}/samples"): "read",
    ("GET", "/jobs/{job_id}/logs"): "read",
    ("GET", "/jobs/{job_id}/logs.txt"): "read",
    ("GET", "/jobs/{job_id}/checkpoints"): "read",
    ("GET", "/jobs/{job_id}/attempts"): "read",
    ("GET", "/jobs/{job_id}/results"): "read",
    ("GET", "/jobs/{job_id}/charts/{chart}.csv"): "read",
    ("POST", "/jobs/{job_id}/predictions"): "write",
    ("GET", "/jobs/{job_id}/predictions"): "read",
    ("GET", "/jobs/{job_id}/predictions/{prediction_id}.csv"): "read",
    ("GET", "/jobs/{job_id}/predictions/{prediction_id}"): "read",
    ("GET", "/queue"): "look",
    ("PATCH", "/queue/{job_id}"): "admin",
    ("POST", "/queue/{job_id}/move"): "admin",
    ("GET", "/pool/reservations"): "look",
    ("POST", "/pool/reservations"): "admin",
    ("DELETE", "/pool/reservations/{reservation_id}"): "admin",
    ("GET", "/pool/quotas"): "look",
    ("PUT", "/pool/quotas/{slug}/{device_kind}"): "admin",
    ("DELETE", "/pool/quotas/{slug}/{device_kind}"): "admin",
    ("GET", "/pool/nodes/{name}/consequences"): "admin",
    ("GET", "/pool/use"): "look",
    ("GET", "/pool/use.csv"): "look",
    ("GET", "/pool/timeline"): "look",
    ("GET", "/pool/timeline.csv"): "look",
    ("GET", "/pool/history.csv"): "look",
    ("POST", "/offers"): "write",
    ("GET", "/offers/{offer_id}"): "read",
    ("GET", "/offers/{offer_id}/lines.csv"): "read",
    ("POST", "/offers/{offer_id}/accept"): "write",
    ("POST", "/offers/{offer_id}/probe"): "write",
    ("POST", "/jobs/{job_id}/offers"): "write",
    ("GET", "/jobs/{job_id}/estimate"): "read",
    ("POST", "/jobs/{job_id}/rates"): "write",
    ("GET", "/jobs/{job_id}/rates"): "read",
    ("GET", "/jobs/{job_id}/rates/{test_id}"): "read",
    ("GET", "/jobs/{job_id}/rates/{test_id}/curve.csv"): "read",
    ("POST", "/jobs/{job_id}/rates/{test_id}/use"): "write",
    ("GET", "/pool"): "look",
    ("POST", "/pool/nodes"): "admin",
    ("POST", "/pool/nodes/{name}/token"): "admin",
    ("POST", "/pool/join"): "open",
    ("GET", "/node"): "node",
    ("GET", "/node/probe"): "node",
    ("POST", "/node/check"): "node",
    ("GET", "/node/trees"): "node",
    ("GET", "/node/files"): "node",
    ("GET", "/node/runs/{job_id}/{token}/checkpoints"): "node",
    ("GET", "/node/runs/{job_id}/{token}/checkpoints/{checkpoint}"): "node",
    ("PUT", "/node/runs/{job_id}/{token}/pieces"): "node",
    ("POST", "/node/runs/{job_id}/{token}/commit"): "node",
    ("POST", "/node/runs/{job_id}/{token}/uploads"): "node",
    ("PUT", "/node/runs/{job_id}/{token}/logs/{rank}"): "node",
    ("PUT", "/node/runs/{job_id}/{token}/exit"): "node",
    ("POST", "/pool/nodes/{name}/drain"): "admin",
    ("POST", "/pool/nodes/{name}/undrain"): "admin",
    ("DELETE", "/pool/nodes/{name}"): "admin",
    ("PUT", "/pool/nodes/{name}/devices/{kind}/{index}/slowdown"): "admin",
    ("GET", "/pool/object-store"): "admin",
    ("GET", "/pool/readers"): "admin",
    ("GET", "/pool/settings"): "look",
    ("PATCH", "/pool/settings"): "admin",
    ("GET", "/pool/calibration"): "look",
    ("POST", "/pool/calibration"): "admin",
    ("GET", "/pool/calibration/points.{form}"): "look",
    ("POST", "/pool/calibration/points"): "admin",
    ("GET", "/pool/calibration/{run_id}"): "look",
    ("POST", "/pool/calibration/{run_id}/stop"): "admin",
    ("GET", "/accuracy"): "look",
    ("GET", "/health"): "open",
}
NAMES = {"datasets": "0.png", "jobs": "model.py", "pool": "node-9"}


def routes() -> list[tuple[str, str]]:
    return [(method, path) for path, operation in operations(api) for method in operation.methods]


@pytest.fixture
def world(people: SimpleNamespace, finished_job: Any, pictures: Any, bearer: Any, token_make: Any) -> SimpleNamespace:
    from harness.accounts.models import ApiToken, Membership, Role, User
    from harness.calibration.models import CalibrationRun
    from harness.datasets.services import upload_create
    from harness.pool.joining import join_token_make
    from harness.pool.models import Device, Node
    from harness.pool.quotas import quota_set
    from harness.pool.reservations import reservation_hold

    Membership.objects.create(project=people.elsewhere, user=people.owner, role=Role.ADMIN)
    extra = User.objects.create_user("extra")
    Membership.objects.create(project=people.project, user=extra, role=Role.MEMBER)
    token_make(people.owner)
    node = Node.objects.create(name="node-9")
    Device.objects.create(node=node, kind="cpu", index=0)
    _, join_token = join_token_make(user=people.admin, name="node-9")
    hour = timedelta(hours=1)
    kept = reservation_hold(target=node, ends_at=timezone.now() + hour, purpose="maintenance")
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=2)
    offer = offer_make(people.owner, finished_job)
    upload = upload_create(user=people.owner, project=people.project, filename="a.csv", size_bytes=4)
    callers = {"anonymous": Client()}
    for name in ("outsider", "viewer", "mate", "owner", "admin"):
        callers[name] = bearer(getattr(people, name), "admin")
    callers["read_token"] = bearer(people.owner, "read")
    callers["bound_token"] = bearer(people.owner, "write", people.elsewhere)
    values = {
        "token_id": ApiToken.objects.filter(user=people.owner, project=None).earliest("created_at").pk,
        "slug": people.project.slug,
        "username": "extra",
        "upload_id": upload.pk,
        "dataset_id": pictures.pk,
        "job_id": finished_job.pk,
        "offer_id": offer.pk,
        "test_id": rate_test_make(finished_job).pk,
        "check_id": "check2345678",
        "prediction_id": finished_job.test_prediction,
        "chart": "per_class",
        "reservation_id": kept.pk,
        "device_kind": "cpu",
        "kind": "cpu",
        "index": "0",
        "run_id": CalibrationRun.objects.create(node_name="node-9", kind="cpu", budget_s=60.0).pk,
        "form": "csv",
        "token": 1,
        "checkpoint": "step-00000010",
        "rank": 0,
    }
    return SimpleNamespace(callers=callers, values=values, dataset=pictures, upload=upload, join_token=join_token)


def request_of(method: str, path: str, world: SimpleNamespace) -> dict[str, Any]:
    """Body and headers with which the address would do its work."""
    bodies: dict[tuple[str, str], Any] = {
        ("POST", "/tokens"): {"name": "new"},
        ("POST", "/projects"): {"name": "New"},
        ("PUT", "/projects/{slug}/members/{username}"): {"role": "viewer"},
        ("POST", "/users"): {"username": "fresh"},
        ("PATCH", "/users/{username}"): {"new_password": True},
        ("PATCH", "/datasets/{dataset_id}"): {"name": "renamed"},
        ("POST", "/spec/check"): {"dataset": world.dataset.pk, "spec": {}},
        ("POST", "/suggest"): {"dataset": world.dataset.pk},
        ("POST", "/jobs"): {"dataset": world.dataset.pk, "spec": {}},
        ("POST", "/offers"): {"dataset": world.dataset.pk, "spec": {}},
        ("PATCH", "/jobs/{job_id}"): {"notes": "seen"},
        ("PUT", "/jobs/{job_id}/program/{name}"): {"text": "x = 1\n"},
        ("POST", "/jobs/{job_id}/predictions"): {"records": [{"length": 1}]},
        ("PATCH", "/queue/{job_id}"): {"priority": 3},
        ("POST", "/queue/{job_id}/move"): {"to": "first"},
        ("POST", "/pool/reservations"): {"node": "node-9", "ends_at": "2099-01-01T00:00:00Z", "purpose": "tests"},
        ("PUT", "/pool/quotas/{slug}/{device_kind}"): {"devices": 4},
        ("POST", "/pool/nodes"): {"name": "node-10"},
        ("POST", "/pool/nodes/{name}/token"): {"valid_s": 600},
        ("POST", "/pool/join"): join_body(world.join_token),
        ("POST", "/node/check"): {"findings": []},
        ("PUT", "/pool/nodes/{name}/devices/{kind}/{index}/slowdown"): {"factor": 2.0},
        ("PATCH", "/pool/settings"): {"max_restarts": 2},
        ("POST", "/pool/calibration"): {"node": "node-9", "budget_s": 60.0},
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


def upload_request(method: str, world: SimpleNamespace) -> dict[str, Any]:
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
def test_everybody_gets_what_the_matrix_says(method: str, path: str, world: SimpleNamespace) -> None:
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


def test_lists_show_outsiders_and_bound_tokens_nothing_of_the_project(world: SimpleNamespace) -> None:
    for name in ("outsider", "bound_token"):
        caller = world.callers[name]
        assert caller.get(f"{API}/jobs").json()["total"] == 0
        assert caller.get(f"{API}/datasets").json()["total"] == 0
        assert [item["slug"] for item in caller.get(f"{API}/projects").json()["items"]] == ["elsewhere"]
        assert caller.get(f"{API}/jobs?project=birds").status_code == 404
    assert world.callers["viewer"].get(f"{API}/jobs").json()["total"] == 1


def test_a_write_token_manages_no_members(world: SimpleNamespace, people: SimpleNamespace, bearer: Any) -> None:
    place = f"{API}/projects/{people.project.slug}/members/extra"
    assert bearer(people.owner, "write").delete(place).status_code == 403
    assert world.callers["owner"].delete(place).status_code == 200


def test_a_bound_token_sees_only_tokens_of_its_project(world: SimpleNamespace) -> None:
    items = world.callers["bound_token"].get(f"{API}/tokens").json()["items"]
    assert [item["project"] for item in items] == ["elsewhere"]


def test_the_pool_names_no_job_to_outsiders(world: SimpleNamespace, finished_job: Any, node_make: Any) -> None:
    from harness.jobs.models import Allocation, JobAttempt
    from harness.pool.models import Device

    node_make("node-1")
    attempt = JobAttempt.objects.create(job=finished_job, number=1, plan={})
    Allocation.objects.create(device=Device.objects.first(), job=finished_job, attempt=attempt, rank=0)
    for name, shown in (("outsider", None), ("bound_token", None), ("viewer", finished_job.pk)):
        nodes = world.callers[name].get(f"{API}/pool").json()["nodes"]
        held = [device for node in nodes for device in node["devices"] if device["busy"]]
        assert [device["job_id"] for device in held] == [shown]


def test_a_template_for_somebody_elses_dataset_is_not_found(world: SimpleNamespace) -> None:
    place = f"{API}/spec/template?dataset={world.dataset.pk}"
    assert world.callers["outsider"].get(place).status_code == 404
    assert world.callers["viewer"].get(place).status_code == 200
