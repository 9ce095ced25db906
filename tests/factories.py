"""A project with something in every state, so that each page has what it shows. Used by tests and by `seed`.

By hand: `DLH_HOME=/tmp/home python -m tests.factories`, then start the portal with the same `DLH_HOME`.
"""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from tests.factory_calibration import calibration_make
from tests.factory_jobs import NASTY_NAME, job_in_state
from tests.factory_offers import offers_make
from tests.factory_queue import queue_make
from tests.factory_rates import rate_test_make
from tests.factory_samples import dataset_from_sample
from tests.factory_weights import weights_make
from worker.states import JobState

PASSWORD = "correct horse battery"
STATES = tuple(sorted(JobState, key=lambda state: state == JobState.RETURNING))
"""The last one came last: what others are made of stays as it was."""


def people_make() -> SimpleNamespace:
    """owner, member, viewer of one project; an outsider with another; an admin of all."""
    from harness.accounts.models import Membership, Project, Role, User

    project = Project.objects.create(name="Orchard", slug="orchard")
    elsewhere = Project.objects.create(name="Elsewhere", slug="elsewhere")
    made = {
        name: User.objects.create_user(name, password=PASSWORD) for name in ("owner", "member", "viewer", "outsider")
    }
    made["admin"] = User.objects.create_superuser("admin", password=PASSWORD)
    for name, role in (("owner", Role.ADMIN), ("member", Role.MEMBER), ("viewer", Role.VIEWER)):
        Membership.objects.create(project=project, user=made[name], role=role)
    Membership.objects.create(project=elsewhere, user=made["outsider"], role=Role.ADMIN)
    return SimpleNamespace(**made, project=project, elsewhere=elsewhere)


def datasets_unready(user: Any, project: Any) -> SimpleNamespace:
    """One that is being read, one that cannot be used."""
    from harness.datasets.models import Dataset

    common = {"project": project, "owner": user, "source_bytes": 123_456_789}
    return SimpleNamespace(
        profiling=Dataset.objects.create(
            name="harvest 2024", source_name="harvest.csv.gz", progress=0.42, progress_note="counting values", **common
        ),
        failed=Dataset.objects.create(
            name=NASTY_NAME,
            source_name="ragged.csv",
            state="failed",
            problem={
                "code": "ragged_rows",
                "message": "Row 4711 has 12 fields, the header has 11.",
                "hint": "Quote the field that holds the delimiter, or choose another delimiter.",
                "row": 4711,
                "column": None,
                "file": "ragged.csv",
            },
            **common,
        ),
    )


def pool_make(running: Any = None) -> None:
    """Three nodes: one busy with `running`, one with GPUs that drains, one down."""
    from datetime import datetime

    from django.utils import timezone

    from harness.jobs.models import Allocation
    from harness.pool.models import Device, Node

    now: datetime = timezone.now()
    plan = (
        ("node-1", "up", 4, 0, now),
        ("gpu-1", "drain", 2, 2, now),
        ("attic", "down", 2, 0, now - timedelta(hours=3)),
    )
    for name, state, cpus, gpus, heartbeat in plan:
        node = Node.objects.create(
            name=name, state=state, cpu_cores=cpus, memory_bytes=16 << 30, sandbox_level=2, heartbeat_at=heartbeat,
            sandbox_reason="No cgroup may be made here.", description={"cpu_model": "Example CPU 3 GHz"},
            drain_wanted=state == "drain",
        )  # fmt: skip
        for index in range(cpus):
            Device.objects.create(node=node, kind="cpu", index=index, model_name="core", memory_bytes=4 << 30)
        for index in range(gpus):
            Device.objects.create(node=node, kind="cuda", index=index, model_name="Example GPU", memory_bytes=16 << 30)
    if running is not None:
        attempt = running.attempts.get(number=1)
        for rank, device in enumerate(Device.objects.filter(node__name="node-1")[:2]):
            Allocation.objects.create(device=device, job=running, attempt=attempt, rank=rank)


def world_make() -> SimpleNamespace:
    """People, datasets of both kinds and all states, a job in every state, a pool, a prediction."""
    from harness.jobs.models import Prediction
    from harness.saved_views.models import SavedView

    world = people_make()
    world.digits = dataset_from_sample(world.owner, world.project, "digits")
    world.wine = dataset_from_sample(world.owner, world.project, "wine")
    unready = datasets_unready(world.owner, world.project)
    world.profiling, world.failed_dataset = unready.profiling, unready.failed
    world.jobs = {}
    for at, state in enumerate(STATES):
        like = world.jobs.get("running") if state != "succeeded" else None  # that one has trained longer
        data = world.digits if at % 2 else world.wine
        world.jobs[state] = job_in_state(world.owner, world.project, data, state, like=like)
    world.prediction = Prediction.objects.create(
        job=world.jobs["succeeded"], owner=world.owner, input_name="form.json", state="failed",
        problem={"message": "The picture is broken.", "hint": "Open it in a viewer and save it again."},
    )  # fmt: skip
    world.view = SavedView.objects.create(
        owner=world.owner, project=world.project, name="What broke", query="state=failed&column=state&column=owner"
    )
    world.weights = weights_make(world.owner, world.project, "resnet-trained.safetensors")
    pool_make(world.jobs["running"])
    calibration_make(world.admin)
    offers_make(world.jobs)
    rate_test_make(world.jobs["draft"])
    queue_make(world)
    return world


def seed() -> None:
    """Fill the database of `DLH_HOME`; everybody's password is PASSWORD."""
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    world_make()


if __name__ == "__main__":
    seed()
