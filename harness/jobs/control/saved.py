"""What a job has saved: the rows of its checkpoints, and whether their files are there."""

from __future__ import annotations

import errno
import logging
import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Max, Min
from django.utils import timezone

from harness.jobs.control.telemetry import count_of, number_of
from harness.jobs.models import Checkpoint, Job, JobAttempt, JobEvent
from harness.jobs.states import job_note
from harness.store import UnsafePath, json_beneath, open_beneath
from worker.events import Event, EventKind
from worker.fence import step_name
from worker.machine_faults import is_disk_fault
from worker.merit import larger_is_better
from worker.plan import RunPaths
from worker.states import JobState
from worker.transfer.tree import CHECKPOINT_NAME, FILES_MAX
from worker.watchdog import made_a_step

_log = logging.getLogger(__name__)
_MANIFEST_BYTES_MAX = 4 << 20
_NO_ROOM_HERE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_DAMAGED = "damaged"
"""Key of the note that names one which was set aside; other notes name good ones."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """One whole checkpoint, as its manifest tells."""

    name: str
    step: int
    epoch: float
    metric: float | None
    bytes: int
    token: int
    """Attempt that made it; 0: it does not tell."""


def saved_read(name: str, *places: RunPaths) -> Saved | None:
    """The checkpoint of that name in the first of these places where it is whole; None where it is in none."""
    manifest = next((body for paths in places if (body := checkpoint_manifest(paths, name))), None)
    if manifest is None or name != step_name(step := count_of(manifest.get("step"))):
        return None
    epoch, metric = number_of(manifest.get("epoch")) or 0.0, number_of(manifest.get("metric"))
    size = count_of(sum(entry["bytes"] for entry in manifest["files"].values()))
    return Saved(name=name, step=step, epoch=epoch, metric=metric, bytes=size, token=count_of(manifest.get("attempt")))


def checkpoints_add(job: Job, attempt: JobAttempt, found: Sequence[Saved]) -> None:
    """Take in what lies in the store, the oldest first, as if the attempt had told of it."""
    if not found:
        return
    told = [
        Event(
            kind=EventKind.CHECKPOINT, job_id=job.pk, token=attempt.number, rank=0, seq=0, time_s=0.0,
            data={**asdict(one), "best": None, "removed": []},
        )
        for one in found
    ]  # fmt: skip
    checkpoints_take(job, attempt, told)


def _is_best(job: Job, metric: float | None) -> bool:
    """Whether none that the job lists has a better metric."""
    known = Checkpoint.objects.filter(job=job, removed_at=None).values_list("metric", flat=True)
    sign = 1.0 if larger_is_better(job.metric_name) else -1.0
    best = max((sign * one for one in known if one is not None), default=-math.inf)
    return metric is not None and sign * metric >= best


def checkpoints_take(job: Job, attempt: JobAttempt, events: Sequence[Event]) -> None:
    """Take in CHECKPOINT events of an attempt."""
    _history_leave(job, attempt)
    farthest = job.checkpoints.aggregate(step=Max("step"))["step"]
    for event in events:
        data = event.data
        name, best = str(data.get("name", "")), data.get("best")
        if not CHECKPOINT_NAME.fullmatch(name):
            continue
        is_best = _is_best(job, number_of(data.get("metric"))) if best is None else bool(best)
        if is_best:
            Checkpoint.objects.filter(job=job, best=True).update(best=False)
        step = count_of(data.get("step"))
        got_on = farthest is None or step > farthest
        farthest = step if got_on else farthest
        Checkpoint.objects.update_or_create(
            job=job,
            name=name,
            defaults={
                "step": step,
                "epoch": number_of(data.get("epoch")) or 0.0,
                "metric": number_of(data.get("metric")),
                "size_bytes": count_of(data.get("bytes")),
                "best": is_best,
                "removed_at": None,
                **({"token": attempt.number} if got_on else {}),
            },
        )
        removed = data.get("removed")
        if isinstance(removed, list):
            gone = Checkpoint.objects.filter(job=job, name__in=[str(item) for item in removed], removed_at=None)
            gone.exclude(name=name).update(removed_at=timezone.now(), best=False)
    # From here on the newest checkpoint of this attempt is where a restart goes on.
    Job.objects.filter(pk=job.pk).exclude(resume_from="").update(resume_from="")
    job.resume_from = ""


def checkpoints_gone(job_id: str, events: Iterable[Event], *, lost: bool) -> list[str]:
    """Checkpoints that were removed unheard, where words of the attempt were lost, or these events tell a first step,
    or the first that is heard of: from then on no older attempt, which was cut off, removes any. Best called before a
    transaction: the disk may be slow."""
    told = list(events)
    begins = (
        lost
        or any(event.kind is EventKind.RUNNING for event in told)
        or (any(map(made_a_step, told)) and Job.objects.filter(pk=job_id, state=JobState.PLACED).exists())
    )
    folder: Path = settings.STORE.job(job_id).checkpoints
    if not begins or not _is_there(folder):
        return []
    names = Checkpoint.objects.filter(job=job_id, removed_at=None).values_list("name", flat=True)
    return [name for name in names if _is_there(folder / name) is False]


def _is_there(path: Path) -> bool | None:
    """Whether something has that name, whatever it is; None where a disk does not tell."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        _log.warning("%s cannot be looked at: %s", path, error)
        return None
    return True


def checkpoints_drop(job: Job, names: Sequence[str]) -> None:
    """List them no more."""
    if names:
        listed = Checkpoint.objects.filter(job=job, name__in=names, removed_at=None)
        listed.update(removed_at=timezone.now(), best=False)


def _history_leave(job: Job, attempt: JobAttempt) -> None:
    """Forget checkpoints after the one that a person had the job go on from: the run has put their files aside."""
    step = course_step(job, attempt)
    if step is not None:
        Checkpoint.objects.filter(job=job, step__gt=step).delete()


def course_step(job: Job, attempt: JobAttempt) -> int | None:
    """The step from which a person had this attempt go on, as long as it has saved nothing since; else None."""
    if not job.resume_from or attempt.run_plan.resume_from != job.resume_from:
        return None
    return Checkpoint.objects.filter(job=job, name=job.resume_from).values_list("step", flat=True).first()


def place_at(job: Job, name: str | None) -> dict[str, Any]:
    """Fields of a job that tell where it stands when it goes on from this checkpoint, or None, from its beginning.

    What an attempt before had done beyond that is lost, and not to be shown as done while the new one loads.
    """
    if name is None:
        return {"step": 0, "epoch": 0.0}
    rows = Checkpoint.objects.filter(job=job, name=name).values("step", "epoch")
    return dict(rows.first() or {})


def course_begin(job: Job) -> int:
    """The first attempt of the course that the job is on: what older ones made, and nobody heard of, is not of it.

    That is the one that made its newest checkpoint; or the first after a person had it go on from an earlier one.
    """
    newest = Checkpoint.objects.filter(job=job).aggregate(token=Max("token"))["token"] or 0
    if not job.resume_from:
        return int(newest)
    since = job.attempts.filter(created_at__gte=job.queued_at or job.created_at)
    return max(newest, since.aggregate(number=Min("number"))["number"] or job.token)


def checkpoint_set_aside(job: Job, name: str) -> None:
    """It does not load: the next older one is tried."""
    Checkpoint.objects.filter(job=job, name=name).update(removed_at=timezone.now(), best=False)
    job_note(job, "note", f"The checkpoint {name} is damaged and was set aside.", data={_DAMAGED: name})


def checkpoints_damaged(job: Job) -> dict[str, int]:
    """Those that were set aside so -> the newest attempt that found it."""
    rows = JobEvent.objects.filter(job=job, kind="note", data__has_key=_DAMAGED).order_by("pk")
    return {str(name): token for name, token in rows.values_list(f"data__{_DAMAGED}", "token")}


def checkpoint_is_whole(paths: RunPaths, name: str) -> bool:
    """Whether its manifest is there and every file has the size it names (the run itself checks the hashes)."""
    return checkpoint_manifest(paths, name) is not None


def checkpoint_look(paths: RunPaths, name: str) -> bool:
    """The same. Raises `OSError` where that cannot be told now: the disk fails, or too many files are open here."""
    return _manifest_look(paths, name) is not None


def checkpoint_manifest(paths: RunPaths, name: str) -> dict[str, Any] | None:
    """The manifest of a checkpoint that is whole; else None. Its `files` are entries with `bytes`, by name."""
    with suppress(OSError):
        return _manifest_look(paths, name)
    return None


def _manifest_look(paths: RunPaths, name: str) -> dict[str, Any] | None:
    folder = paths.checkpoints.relative_to(paths.root) / name
    try:
        manifest = json_beneath(paths.root, folder / "MANIFEST.json", _MANIFEST_BYTES_MAX)
        files = manifest.get("files") if isinstance(manifest, dict) else None
        if not isinstance(files, dict) or len(files) > FILES_MAX:
            return None  # a program may have written it, with anything in it and files without end
        whole = all(
            isinstance(entry, dict) and entry.get("bytes") == _size_bytes(paths, folder / file)
            for file, entry in files.items()
        )
    except (OSError, UnsafePath, ValueError) as error:
        for each in (error, error.__cause__):
            if isinstance(each, OSError) and (is_disk_fault(each) or each.errno in _NO_ROOM_HERE):
                raise each from None
        return None
    return manifest if whole else None


def _size_bytes(paths: RunPaths, relative: Path) -> int:
    """Size of a plain file of the run, no link followed. Raises `OSError`, `UnsafePath`."""
    with open_beneath(paths.root, relative) as stream:
        return os.fstat(stream.fileno()).st_size
