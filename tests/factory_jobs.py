"""A job in any state, as its run would have left it: curves, logs, checkpoints, results."""

from __future__ import annotations

import json
import math
import time
from datetime import datetime, timedelta
from typing import Any

from tests.factory_charts import charts_make

NASTY_NAME = '<img src=x onerror="window.hacked=1">'
"""A name that must stay text everywhere, charts included."""
EPOCHS = 12
"""Of a whole run."""


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
    if state != "queued":
        ranks = [{"rank": rank, "node": "node-1", "device": "cpu", "slowdown": 1.0 + rank} for rank in range(2)]
        plan = {"ranks": ranks, "note": "Emulated: an admin declared devices slower than they are."}
        JobAttempt.objects.create(job=job, number=1, plan=plan, world_size=2, started_at=now - timedelta(minutes=5))
    if state not in {"queued", "placed"}:
        done = _epochs_done(state)
        curves_make(job, done, like=like)
        logs_make(job, fails=state == "failed")
        _checkpoints_make(job, done)
    if state == "succeeded":
        results_make(job)
    Job.objects.filter(pk=job.pk).update(**_columns(state, now))
    job.refresh_from_db()
    JobEvent.objects.create(
        job=job, kind="state", old_state="draft", new_state="queued", actor=user, message="Submitted"
    )
    if state == "running":
        _shares_make(job)
    if state == "returning":
        _return_begin(job, now)
    return job


def _return_begin(job: Any, now: datetime) -> None:
    """The run has ended, its node cannot return what it made."""
    from harness.jobs.models import JobAttempt, JobEvent

    JobAttempt.objects.filter(job=job).update(released_at=now - timedelta(minutes=1))
    ended = "Its ranks have ended, its devices are free; what it made is being returned from node-1"
    waits = (
        "The run has ended: succeeded. What it made waits on node-1, as it cannot be returned to the store of the "
        "portal now: the portal does not answer"
    )
    JobEvent.objects.create(job=job, kind="state", old_state="running", new_state="returning", token=1, message=ended)
    JobEvent.objects.create(job=job, kind="note", token=1, message=waits)


def _epochs_done(state: str) -> int:
    return EPOCHS if state in {"returning", "succeeded"} else 7


def _columns(state: str, now: datetime) -> dict[str, Any]:
    """What its way to the state wrote into its row."""
    fields: dict[str, Any] = {
        "state": state, "queued_at": now - timedelta(minutes=6), "tags": ["team:orchard", "baseline"],
    }  # fmt: skip
    if state == "queued":
        text = "It needs 4 devices; 1 of 8 is free on the nodes that are up."
        return fields | {"waiting_code": "too_few_devices", "waiting_text": text}
    fields |= {"placed_at": now - timedelta(minutes=5), "token": 1, "sandbox_level": 2}
    if state != "placed":
        done = _epochs_done(state)
        fields |= {
            "running_at": now - timedelta(minutes=4), "step": done * 20, "steps_total": EPOCHS * 20,
            "epoch": float(done), "epochs": EPOCHS, "samples_per_s": 2710.0,
            "eta_s": 63.0 if state == "running" else None, "phase": "training",
            "metric_best": 0.943, "last_values": {"train/loss": 0.31, "val/accuracy": 0.943},
        }  # fmt: skip
    if state in {"succeeded", "failed", "cancelled"}:
        fields |= {"finished_at": now - timedelta(minutes=1), "run_s": 240.0}
    if state == "returning":
        fields["run_s"] = 240.0
    if state == "succeeded":
        fields |= {"metric_test": 0.966}
    if state == "failed":
        fields["failure"] = {
            "code": "nan_loss",
            "message": "The loss was no longer finite.",
            "hint": "Lower the learning rate, or resume from the last good checkpoint, step-00000120.",
            "step": 141,
            "traceback": 'Traceback (most recent call last):\n  File "train.py", line 88\nRuntimeError: not finite',
        }
    return fields


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
            "rows, expected to end together after 27.4 ms (50 % faster).",
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
