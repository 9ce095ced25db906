"""The trained model as ONNX: made by a node when it is first asked for, kept, and offered as a zip.

The program that makes it is a person's, so that what it says and writes is read with care.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.bodies import Body
from harness.broker import publish_job, task_send_on_commit
from harness.bucket.wanted import wanted_check
from harness.datasets.content import space_check
from harness.errors import Conflict, NotFound, TooMany
from harness.hashes import Hashes
from harness.jobs.answer_models import AWAITED, NO_ANSWER
from harness.jobs.archive import Large, Members, zip_body
from harness.jobs.models import Checkpoint, Job, ModelExport
from harness.jobs.predictions import WEIGHTS_FILE, answering_node, node_request, weights_check
from harness.jobs.results import checkpoint_need, checkpoint_open, weights_open
from harness.jobs.sizes import job_size_due
from harness.plain import plain
from harness.pool.services import node_queue
from harness.storage.room import storage_check
from harness.store import UnsafePath, open_beneath
from worker.plan import RunPaths
from worker.trees import tree_remove

MODEL_FILE = "model.onnx"
TEXT_FILES = (
    "README.md", "predict_onnx.py", "answers.py", "row_text.py", "table_rows.py", "pictures.py",
    "predict_table.py", "series_checks.py", "moments.py", "unseen.py", "windows.py", "onnx.json", "preprocess.json",
)  # fmt: skip
"""Beside the model; predict_onnx.py and what it imports only where the program prepares rows as it was generated to."""
TEXT_BYTES_MAX, REPORT_CHARS_MAX = 16 << 20, 64 << 10
ANSWER_LIMIT_S = 600.0
"""A request without an answer for this long has failed, unless one still comes: a node makes one at a time."""
LATE_KEPT = timedelta(hours=1)
"""For so long after that nothing is removed into which a slow node may still write."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_hashes = Hashes()
_REPORTED = ("inputs", "outputs", "opset", "check", "versions", "script", "model_bytes")
_LISTS = {"inputs", "outputs"}
_WORDS_MAX = 600


def _newest(job: Job, checkpoint: str) -> ModelExport | None:
    """Of a checkpoint that is kept, which outlives attempts, or of the final weights of the newest one."""
    rows = job.exports.filter(checkpoint=checkpoint)
    rows = rows.filter(~_gone()) if checkpoint else rows.filter(token=job.token)
    return rows.order_by("-created_at").first()


def _gone() -> Q:
    """Exports of checkpoints that are kept no more."""
    kept = Checkpoint.objects.filter(job=OuterRef("job"), name=OuterRef("checkpoint"), removed_at=None)
    return ~Q(checkpoint="") & Q(~Exists(kept))


def export_get(job: Job, checkpoint: str = "") -> ModelExport | None:
    """The newest one of the weights there are now; None where nobody has asked, or its files were lost."""
    found = _newest(job, checkpoint)
    if found is not None and found.state == "done" and (is_stale(found) or not _has_model(found)):
        return None
    return found


def is_stale(export: ModelExport) -> bool:
    """The weights are others than those it was made of. Weights that are lost for now may be the same."""
    try:
        with open_beneath(settings.STORE.job(export.job_id).root, _weights_file(export)) as stream:
            return _hashes.sha256(stream) != export.weights_sha256
    except (OSError, UnsafePath):
        return False


def _weights_file(export: ModelExport) -> str:
    """Of whose weights it is, relative to the folder of its job."""
    paths: RunPaths = settings.STORE.job(export.job_id)
    return str(paths.checkpoint_state(export.checkpoint).relative_to(paths.root)) if export.checkpoint else WEIGHTS_FILE


def export_create(*, user: User, job: Job, checkpoint: str = "") -> ModelExport:
    """Have a node export the final weights, or those of a checkpoint; the one that is there or on its way, where there
    is one.

    Raises `NotFound`, `Forbidden`, `TooMany`, `NoSpace`, `Invalid` (no such checkpoint), `Conflict` (no weights yet),
    `Unavailable` (no node; or what it needs was lost, and comes back).
    """
    require(user, job.project, Role.MEMBER)
    weights_check(job, checkpoint)
    export_get(job, checkpoint)  # the weights are hashed now, if ever, and not while others wait for the database
    with ExitStack() as undo, transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job.pk)  # two people who ask at once get one answer
        if (known := export_get(job, checkpoint)) is not None and known.state != "failed":
            return known
        _room_check(user, job, checkpoint)
        wanted_check(f"datasets/{job.dataset_sha256 or job.dataset.sha256}", "packed")
        node = answering_node(job, sees_store=True)
        _old_remove(job, checkpoint)
        made = ModelExport(job=job, owner=user, token=job.token, checkpoint=checkpoint)
        undo.callback(tree_remove, _folder(made))  # without its row nobody would find it
        _folder(made).mkdir(parents=True)
        made.save(force_insert=True)
        request = {"export_id": made.pk, "checkpoint": checkpoint, **node_request(job)}
        task_send_on_commit("node.export", [request], queue=node_queue(node), expires_s=ANSWER_LIMIT_S)
        undo.pop_all()
    return made


def _old_remove(job: Job, checkpoint: str) -> None:
    """What the new one takes the place of, and what was made of checkpoints that are kept no more; what a slow node may
    still write goes later. Call it in a transaction."""
    old = job.exports.filter(Q(checkpoint=checkpoint) | (_gone() & ~Q(state="waiting")))
    _remove(old.exclude(pk__in=_late()))


def _late() -> QuerySet[ModelExport, str]:
    """Ids of exports that a node may still be writing, though nobody waits for them any more."""
    late = ModelExport.objects.filter(state="failed", problem__code=NO_ANSWER["code"])
    return late.filter(finished_at__gt=timezone.now() - LATE_KEPT).values_list("pk", flat=True)


def _replaced() -> Exists:
    """Whether somebody has asked anew since."""
    same = ModelExport.objects.filter(job=OuterRef("job"), checkpoint=OuterRef("checkpoint"))
    return Exists(same.filter(created_at__gt=OuterRef("created_at")))


def _remove(old: Iterable[ModelExport]) -> None:
    """Their rows now, their files once that is certain. Call it in a transaction."""
    for export in old:
        transaction.on_commit(partial(tree_remove, _folder(export)))
        job_size_due(export.job_id)
        export.delete()


def _room_check(user: User, job: Job, checkpoint: str) -> None:
    with checkpoint_open(job, checkpoint) if checkpoint else weights_open(job) as stream:
        size_bytes = stream.seek(0, 2)
    space_check(size_bytes)
    storage_check(job.project, size_bytes)
    if ModelExport.objects.filter(owner=user, state="waiting").count() >= settings.PREDICTIONS_WAITING_MAX:
        raise TooMany(f"{settings.PREDICTIONS_WAITING_MAX} of your exports wait for a node.", hint="Wait for some.")


def _folder(export: ModelExport) -> Path:
    paths: RunPaths = settings.STORE.job(export.job_id)
    return paths.export(export.pk)


def _has_model(export: ModelExport) -> bool:
    try:
        _open(export, MODEL_FILE).close()
    except (OSError, UnsafePath):
        return False
    return True


def _open(export: ModelExport, name: str) -> BufferedReader:
    """A file of the export; a program wrote it: no link is followed. Raises `FileNotFoundError`, `UnsafePath`."""
    return open_beneath(*_place(export, name))


def _place(export: ModelExport, name: str) -> tuple[Path, str]:
    """The job's folder, and the file's name below it."""
    return settings.STORE.job(export.job_id).root, f"exports/{export.pk}/{name}"


def export_done(report: dict[str, Any]) -> None:
    """Take in a node's answer: `{export_id, report}` or `{export_id, problem}`."""
    export = ModelExport.objects.select_related("job").filter(pk=str(report.get("export_id", ""))).first()
    if export is None:
        return
    try:
        told, problem = _report(plain(report.get("report"))), plain(report.get("problem"))
    except ValueError as error:
        told, problem = {}, {"message": f"The answer of the program cannot be read: {error}."}
    sha256 = str(report.get("weights_sha256") or "")
    if told and not problem and _SHA256.fullmatch(sha256) and _has_model(export):
        _export_end(export, report=told, weights_sha256=sha256)
        return
    said = problem if isinstance(problem, dict) else {"message": "The program produced no model that can be offered."}
    words = {key: str(said.get(key) or "")[:_WORDS_MAX] for key in ("message", "hint")}
    _export_end(export, problem=words)


def _report(told: Any) -> dict[str, Any]:
    """What is kept of a report; nothing of one that is none."""
    given = told if isinstance(told, dict) else {}
    kept = {name: given[name] for name in _REPORTED if name in given}
    if not all(isinstance(kept.get(name, []), list) for name in _LISTS):
        return {}
    return kept if len(json.dumps(kept)) <= REPORT_CHARS_MAX else {}


def _export_end(
    export: ModelExport,
    *,
    report: dict[str, Any] | None = None,
    weights_sha256: str = "",
    problem: dict[str, str] | None = None,
) -> None:
    state = "failed" if problem else "done"
    with transaction.atomic():
        ended = ModelExport.objects.filter(AWAITED, pk=export.pk).update(
            state=state,
            report=report or {},
            weights_sha256=weights_sha256,
            problem=problem,
            finished_at=timezone.now(),
        )
        if ended:
            job_size_due(export.job_id)
            publish_job(export.job.project_id, export.job_id, "export", {"export_id": export.pk, "state": state})


def exports_expire() -> int:
    """Fail requests that no node answered, and remove what was made of checkpoints that are kept no more, or made anew.

    Returns how many failed.
    """
    limit = timezone.now() - timedelta(seconds=ANSWER_LIMIT_S)
    late = list(ModelExport.objects.select_related("job").filter(state="waiting", created_at__lt=limit))
    for export in late:
        _export_end(export, problem=NO_ANSWER)
    # A node may still write what it was asked for: that goes when it has answered, or could have for long.
    gone = ModelExport.objects.filter(_gone() | Q(_replaced())).exclude(state="waiting").exclude(pk__in=_late())
    if gone.exists():
        with transaction.atomic():
            _remove(gone)
    return len(late)


def export_model_open(job: Job, checkpoint: str = "") -> BufferedReader:
    """model.onnx alone, of the final weights or of a checkpoint.

    Raises `NotFound`, `Conflict` (it cannot be made), `Unavailable` (lost, and comes back).
    """
    return _opened(_ready(job, checkpoint), MODEL_FILE)


def export_zip(job: Job, checkpoint: str = "") -> Body:
    """The model and what helps to use it, as a zip that is the same each time. Raises like `export_model_open`."""
    export = _ready(job, checkpoint)
    members: Members = {}
    for name in TEXT_FILES:
        try:
            with _open(export, name) as stream:
                members[name] = stream.read(TEXT_BYTES_MAX)
        except (OSError, UnsafePath):
            continue
    _opened(export, MODEL_FILE).close()  # a plain file, no link
    members[MODEL_FILE] = Large(*_place(export, MODEL_FILE))
    return zip_body(export_name(job, checkpoint), members)


def export_name(job: Job, checkpoint: str = "") -> str:
    """Of the folder in the zip, and of the zip without its ending."""
    return f"onnx-{job.pk}-{checkpoint}" if checkpoint else f"onnx-{job.pk}"


def _opened(export: ModelExport, name: str) -> BufferedReader:
    try:
        return _open(export, name)
    except (FileNotFoundError, UnsafePath) as error:
        wanted_check(f"jobs/{export.job_id}", f"exports/{export.pk}")
        raise NotFound("The exported model is gone.", hint="Ask for it again.") from error


def _ready(job: Job, checkpoint: str) -> ModelExport:
    if checkpoint:
        checkpoint_need(job, checkpoint)
    export = _newest(job, checkpoint)
    if export is None or export.state == "waiting":
        hint = "Ask for it: POST to /onnx, `dlh download --onnx`, or the button on the page of results."
        raise NotFound(
            "The model has not been exported as ONNX yet.", hint="Wait a moment." if export is not None else hint
        )
    if export.state == "failed":
        said = export.problem or {}
        raise Conflict(str(said.get("message", "It could not be exported.")), hint=str(said.get("hint", "")))
    if is_stale(export):
        raise NotFound("The ONNX model there is was made of other weights.", hint="Ask for it again.")
    return export
