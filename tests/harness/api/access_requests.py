"""Requests with which each address would do its work."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from tests.harness.api.access_world import World
from tests.harness.api.conftest import TUS, metadata
from worker.events import SUPERVISOR_RANK, Event, EventKind, Outcome


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
        ("POST", "/pool/reservations"): {"node": "node-9", **_span(), "purpose": "tests"},
        ("POST", "/pool/reservations/consequences"): {"node": "node-9", **_span(), "purpose": "tests"},
        ("PUT", "/pool/quotas/{slug}/{device_kind}"): {"devices": 4},
        ("POST", "/pool/quotas/{slug}/{device_kind}/consequences"): {"devices": 4},
        ("PUT", "/pool/storage/{slug}"): {"limit_bytes": 1 << 40},
        ("POST", "/pool/nodes"): {"name": "node-10"},
        ("POST", "/pool/nodes/{name}/token"): {"valid_s": 600},
        ("POST", "/pool/join"): join_body(world.join_token),
        ("POST", "/node/check"): {"findings": []},
        ("POST", "/node/reach"): {"address": "10.0.0.1", "ports": [40000], "word": "0" * 32},
        ("POST", "/node/runs/{job_id}/{token}/commit"): {"kind": "results", "name": "results", "files": []},
        ("POST", "/node/runs/{job_id}/{token}/uploads"): {"kind": "results", "name": "results", "files": []},
        ("PUT", "/node/runs/{job_id}/{token}/exit"): exit_body(world),
        ("POST", "/node/unreturned"): {"runs": [{"job_id": world.job.pk, "token": 1}]},
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


def query_of(method: str, path: str, world: World) -> dict[str, str]:
    """What has to stand in the query."""
    log = settings.STORE.job(world.job.pk).rank_log(1, 0)
    queries = {
        ("DELETE", "/projects/{slug}"): {"name": world.people.project.name},
        ("GET", "/node/probe"): {"size_bytes": "1000"},
        ("GET", "/node/trees"): {"folder": f"jobs/{world.job.pk}/program"},
        ("GET", "/node/files"): {"folder": f"jobs/{world.job.pk}/program", "name": "model.py"},
        ("GET", "/node/runs/{job_id}/{token}/checkpoints/{checkpoint}"): {"name": "state.pt"},
        ("PUT", "/node/runs/{job_id}/{token}/pieces"): {
            "kind": "results", "name": "results", "file": "results.json", "offset": "0",
        },
        ("PUT", "/node/runs/{job_id}/{token}/logs/{rank}"): {"offset": str(log.stat().st_size)},
    }  # fmt: skip
    return queries.get((method, path), {})


def _span() -> dict[str, str]:
    """After what is kept in the world already."""
    now = timezone.now()
    return {"starts_at": (now + timedelta(hours=2)).isoformat(), "ends_at": (now + timedelta(hours=3)).isoformat()}


def exit_body(world: World) -> Any:
    told = {"outcome": str(Outcome.SUCCEEDED), "failure": None, "node": "node-9"}
    kind, rank = EventKind.EXITED, SUPERVISOR_RANK
    return json.loads(Event(kind=kind, job_id=world.job.pk, token=1, rank=rank, seq=9, time_s=1.0, data=told).to_json())


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
