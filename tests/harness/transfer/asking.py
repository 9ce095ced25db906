"""What a joined node asks of the portal, and what it sends."""

from __future__ import annotations

import hashlib
import json

from django.conf import settings
from django.test import Client

from harness.pool.joining import digest_of
from harness.pool.models import Node
from worker.plan import RunPaths

API = "/api/v1/node"
STATE, MANIFEST = b"weights" * 1000, b'{"format": 1}'


def caller(node):
    Node.objects.filter(pk=node.pk).update(secret_digest=digest_of(f"dlhn_{node.name}"))
    return Client(headers={"Authorization": f"Bearer dlhn_{node.name}"})


def base(attempt):
    return f"{API}/runs/{attempt.job_id}/{attempt.number}"


def paths(attempt) -> RunPaths:
    return settings.STORE.job(attempt.job_id)


def code(answer):
    return answer.json()["error"]["code"]


def bytes_of(answer):
    return b"".join(answer.streaming_content)


def rows(files):
    return [
        {"name": name, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()} for name, body in files.items()
    ]


def put(client, address, body, **query):
    return client.put(address, body, content_type="application/octet-stream", query_params=query)


def send(client, attempt, files, *, kind="checkpoint", name="step-00000010"):
    for file, body in files.items():
        for start in range(0, max(1, len(body)), 4000):
            answer = put(
                client, f"{base(attempt)}/pieces", body[start : start + 4000], kind=kind, name=name, file=file,
                offset=start,
            )  # fmt: skip
            if answer.status_code != 200:
                return answer
    return answer


def commit(client, attempt, files, *, kind="checkpoint", name="step-00000010", removed=()):
    body = {"kind": kind, "name": name, "files": rows(files), "removed": list(removed)}
    return client.post(f"{base(attempt)}/commit", json.dumps(body), "application/json")
