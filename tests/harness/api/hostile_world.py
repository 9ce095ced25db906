"""The world, brought to where an address would do its work."""

from __future__ import annotations

from django.utils import timezone

from tests.harness.api.access_matrix import MATRIX
from tests.harness.api.access_world import World

NODE_SECRET = "dlhn_" + "s" * 43
OF_DRAFTS = {"submit", "program/reset", "program/{name}", "offers", "rates", "rates/{test_id}/use"}
OF_WAITING = {"cancel", "pause"}
OF_NODES_AWAY = {("POST", "/pool/nodes/{name}/token"), ("POST", "/pool/join"), ("DELETE", "/pool/nodes/{name}")}


def ready_make(method: str, path: str, world: World) -> None:
    """What it changes, the end of the test undoes."""
    _node_ready(is_up=(method, path) not in OF_NODES_AWAY, is_free="reservations" not in path)
    _job_ready(method, path, world)
    if path.endswith("/purge"):
        _trash(path.split("/")[1], world)
    if path.endswith("/again"):
        from harness.fetches.models import Fetch

        Fetch.objects.filter(pk=world.values["fetch_id"]).update(state="failed")


def _node_ready(*, is_up: bool, is_free: bool) -> None:
    from harness.pool.models import Device, Node, Reservation
    from harness.pool.terms import digest_of

    nodes = Node.objects.filter(name="node-9")
    nodes.update(secret_digest=digest_of(NODE_SECRET))
    Device.objects.filter(node__in=nodes).update(model_name="Processor", memory_bytes=8 << 30)
    if is_up:
        nodes.update(state="up", heartbeat_at=timezone.now(), sandbox_level=3, cpu_cores=4, memory_bytes=8 << 30)
    if is_free:
        Reservation.objects.all().delete()


def _job_ready(method: str, path: str, world: World) -> None:
    from harness.jobs.models import Job, JobAttempt

    job, part = Job.objects.filter(pk=world.job.pk), path.removeprefix("/jobs/{job_id}/")
    if (method != "GET" and part in OF_DRAFTS) or path.startswith("/offers/"):
        job.update(state="draft")
    if part in OF_WAITING or path.startswith("/queue/"):
        job.update(state="queued")
    if part == "resume":
        job.update(state="paused")
    if MATRIX[method, path] == "node":
        ranks = [{"rank": 0, "node": "node-9", "device": "cpu"}]
        JobAttempt.objects.create(job=world.job, number=1, plan={"ranks": ranks, "limits": {"disk_bytes": 1 << 30}})


def _trash(kind: str, world: World) -> None:
    from harness.accounts.models import Project
    from harness.datasets.models import Dataset
    from harness.jobs.models import Job

    if kind == "datasets":
        Job.objects.all().delete()
    models = {"projects": Project, "jobs": Job, "datasets": Dataset}
    things = {"projects": world.people.project, "jobs": world.job, "datasets": world.dataset}
    models[kind].objects.filter(pk=things[kind].pk).update(deleted_at=timezone.now())
