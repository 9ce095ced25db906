"""A project with something in every state, so that each page has what it shows. Used by tests and by `seed`.

By hand: `DLH_HOME=/tmp/home python -m tests.factories`, then start the portal with the same `DLH_HOME`.
"""

from __future__ import annotations

import json
import math
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from tests.factory_calibration import calibration_make
from tests.factory_charts import charts_make
from tests.factory_offers import offers_make
from tests.factory_queue import queue_make
from tests.factory_rates import rate_test_make
from tests.factory_samples import dataset_from_sample

PASSWORD = "correct horse battery"
NASTY_NAME = '<img src=x onerror="window.hacked=1">'
"""A name that must stay text everywhere, charts included."""
STATES = ("draft", "queued", "placed", "running", "pausing", "paused", "cancelling", "succeeded", "failed", "cancelled")


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
                "code": "ragged_row",
                "message": "Row 4711 has 12 fields, the header has 11.",
                "hint": "Quote the field that holds the delimiter, or choose another delimiter.",
                "row": 4711,
                "column": None,
                "file": "ragged.csv",
            },
            **common,
        ),
    )


def curves_make(job: Any, epochs: int, *, per_epoch: int = 20, ranks: int = 2, like: Any = None) -> None:
    """Metric points as a run of that many epochs would have left them, and resource samples.

    Copied from the job that it is to be `like`: the database does that in a hundredth of the time.
    """
    from harness.jobs.models import MetricPoint, ResourceSample

    if like is not None:
        for model in (MetricPoint, ResourceSample):
            _rows_copy(model, like, job)
        return
    start_s = time.time() - epochs * 12
    points = []
    for step in range(1, epochs * per_epoch + 1):
        epoch, at_s = step / per_epoch, start_s + step * 12 / per_epoch
        wobble = math.sin(step * 1.7) * 0.06 + math.sin(step * 0.31) * 0.04
        values: dict[str, float | None] = {
            "train/loss": 2.2 * math.exp(-epoch / 3) + 0.12 + wobble * math.exp(-epoch / 8)
        }
        values["train/learning_rate"] = 0.002 * (0.5 + 0.5 * math.cos(math.pi * epoch / max(1, epochs)))
        for rank in range(ranks):
            values[f"rank{rank}/samples_per_s"] = 1400 + 90 * math.sin(step * 0.4 + rank) - 160 * rank
        if step % per_epoch == 0:
            values |= {
                "val/loss": 2.2 * math.exp(-epoch / 3) + 0.2,
                "val/accuracy": 0.985 - 0.8 * math.exp(-epoch / 2.4),
            }
            values["train/accuracy"] = 0.995 - 0.8 * math.exp(-epoch / 2.2)
        points += [
            MetricPoint(job=job, key=key, step=step, epoch=epoch, value=value, time_s=at_s)
            for key, value in values.items()
        ]
    MetricPoint.objects.bulk_create(points)
    samples = [
        {
            "ranks": [{"rank": rank, "cpu_percent": 93 + 5 * math.sin(at + rank), "rss_bytes": 4 * 10**8 + at * 90_000}
                      for rank in range(ranks)],
            "host": {"cpu_percent": 88 + 6 * math.sin(at / 3), "memory_bytes": 3 << 30, "memory_total_bytes": 16 << 30},
            "gpus": [],
        }
        for at in range(0, epochs * 12, 2)
    ]  # fmt: skip
    ResourceSample.objects.bulk_create(
        ResourceSample(job=job, token=1, time_s=start_s + 2 * index, data=data) for index, data in enumerate(samples)
    )


def _rows_copy(model: Any, source: Any, target: Any) -> None:
    from django.db import connection

    names = ", ".join(f'"{field.column}"' for field in model._meta.concrete_fields if field.name not in ("id", "job"))
    table = model._meta.db_table
    with connection.cursor() as cursor:
        command = f"INSERT INTO {table} (job_id, {names}) SELECT %s, {names} FROM {table} WHERE job_id = %s"
        cursor.execute(command, [target.pk, source.pk])


def logs_make(job: Any, *, ranks: int = 2, lines: int = 400, fails: bool = False) -> None:
    """Log files of one attempt."""
    from django.conf import settings

    paths = settings.STORE.job(job.pk)
    for rank in range(ranks):
        path = paths.rank_log(1, rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = [f"epoch {1 + line // 20} step {line} loss {2 * math.exp(-line / 60):.4f}" for line in range(1, lines)]
        text[5:5] = [
            "UserWarning: <b>not markup</b> \x1b[31mred\x1b[0m",
            "  0%|          |\r 50%|#####     |\r100%|##########|",
        ]
        if fails:
            text += [
                "Traceback (most recent call last):",
                '  File "train.py", line 88',
                "RuntimeError: loss is not finite",
            ]
        path.write_text("\n".join(text) + "\n")


def results_make(job: Any) -> dict[str, Any]:
    """results.json with every kind of chart, and weights."""
    from django.conf import settings

    classes = [NASTY_NAME, "apple", "pear", "plum"]
    body = {
        "task": job.task,
        "metric": {"name": "accuracy", "value_val": 0.972, "value_test": 0.966},
        "metrics": {
            part: {"accuracy": 0.96 + 0.01 * shift, "macro_f1": 0.95 + 0.01 * shift, "log_loss": 0.12 - 0.01 * shift}
            for shift, part in enumerate(("test", "val", "train"))
        },
        "classes": classes,
        "charts": charts_make(classes),
        "environment": {"python": "3.11.7", "torch": "2.13.0", "backend": "horovod", "device": "cpu"},
        "timing": {"train_s": 61.3, "samples_per_s": 2710.0, "epochs": 12, "steps": 240, "parameters": 184_394},
    }
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True, exist_ok=True)
    (results / "results.json").write_text(json.dumps(body))
    (results / "model.safetensors").write_bytes(b"weights")
    return body


def job_in_state(user: Any, project: Any, dataset: Any, state: str, name: str = "", like: Any = None) -> Any:
    """A job as it would look in that state: a real draft, then the columns that its run would have written.

    Its curves are those of the job that it is `like`.
    """
    from django.utils import timezone

    from harness.jobs.models import Job, JobAttempt, JobEvent
    from harness.jobs.services import job_create

    job = job_create(user=user, project=project, dataset=dataset, spec={"name": name or f"{dataset.name} {state}"})
    if state == "draft":
        return job
    now = timezone.now()
    fields: dict[str, Any] = {
        "state": state,
        "queued_at": now - timedelta(minutes=6),
        "tags": ["team:orchard", "baseline"],
    }
    started = state not in {"queued", "placed"}
    if state == "queued":
        fields |= {
            "waiting_code": "too_few_devices",
            "waiting_text": "It needs 4 devices; 1 of 8 is free on the nodes that are up.",
        }
    if state != "queued":
        fields |= {"placed_at": now - timedelta(minutes=5), "token": 1, "sandbox_level": 2}
        ranks = [{"rank": rank, "node": "node-1", "device": "cpu", "slowdown": 1.0 + rank} for rank in range(2)]
        plan = {"ranks": ranks, "note": "Emulated: an admin declared devices slower than they are."}
        JobAttempt.objects.create(job=job, number=1, plan=plan, world_size=2, started_at=now - timedelta(minutes=5))
    if started:
        epochs = 12
        done = epochs if state == "succeeded" else 7
        fields |= {
            "running_at": now - timedelta(minutes=4), "step": done * 20, "steps_total": epochs * 20,
            "epoch": float(done), "epochs": epochs, "samples_per_s": 2710.0,
            "eta_s": 63.0 if state == "running" else None, "phase": "training",
            "metric_best": 0.943, "last_values": {"train/loss": 0.31, "val/accuracy": 0.943},
        }  # fmt: skip
        curves_make(job, done, like=like)
        logs_make(job, fails=state == "failed")
        _checkpoints_make(job, done)
    if state in {"succeeded", "failed", "cancelled"}:
        fields |= {"finished_at": now - timedelta(minutes=1), "run_s": 240.0}
    if state == "succeeded":
        fields |= {"metric_test": 0.966}
        results_make(job)
    if state == "failed":
        fields["failure"] = {
            "code": "nan_loss",
            "message": "The loss was not finite any more.",
            "hint": "Lower the learning rate, or resume from the last good checkpoint, step-00000120.",
            "step": 141,
            "traceback": 'Traceback (most recent call last):\n  File "train.py", line 88\nRuntimeError: not finite',
        }
    Job.objects.filter(pk=job.pk).update(**fields)
    job.refresh_from_db()
    JobEvent.objects.create(
        job=job, kind="state", old_state="draft", new_state="queued", actor=user, message="Submitted"
    )
    if state == "running":
        _shares_make(job)
    return job


def _shares_make(job: Any) -> None:
    """What a run on unlike devices tells of its ranks, and one correction."""
    from harness.jobs.models import JobEvent

    told = {"rank0/rows": 43.0, "rank1/rows": 21.0, "rank0/samples_per_s": 1412.0, "rank1/samples_per_s": 689.5}
    job.last_values |= told | {"rank0/idle_share": 0.021, "rank1/idle_share": 0.004}
    job.save(update_fields=["last_values"])
    for message, data in (
        ("Emulated: an admin declared devices slower than they are.", {}),
        (
            "Rank 1 worked 41 ms on its 32 rows of a step, rank 0 20.4 ms on 32. From now on the ranks take 43 + 21 "
            "rows, expected to end together after 27.4 ms (50% faster).",
            {"step": 14, "split": {"before": [32, 32], "after": [43, 21], "work_s": [0.0204, 0.041]}},
        ),
    ):
        JobEvent.objects.create(job=job, kind="note", token=1, message=message, data=data)


def _checkpoints_make(job: Any, epochs: int) -> None:
    from harness.jobs.models import Checkpoint

    for epoch in range(max(1, epochs - 3), epochs + 1):
        Checkpoint.objects.create(
            job=job, name=f"step-{epoch * 20:08d}", step=epoch * 20, epoch=float(epoch), size_bytes=2_300_000, token=1,
            metric=0.90 + epoch / 200, best=epoch == epochs,
        )  # fmt: skip


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
