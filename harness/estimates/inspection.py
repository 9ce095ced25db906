"""Have a node read what a program does, once per content; and take in its answer."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from codegen import safe_yaml
from harness.broker import task_send_on_commit
from harness.errors import Unavailable
from harness.estimates.models import AskState, Inspection, ProbeRow
from harness.jobs.programs import files_replace
from harness.plain import plain
from harness.pool.models import Node, NodeState
from harness.pool.services import node_queue
from scheduler.placing.obstacles import HOW_TO_JOIN
from scheduler.workload import Workload
from worker.plan import RunPaths
from worker.trees import tree_remove

ANSWER_LIMIT_S = 120.0
"""An inspection without an answer for this long has failed; it takes a few seconds."""
_COSTS_NOTHING = ("name", "mode", "pipeline", "resources", "budget", "checkpoints")
"""Parts of spec.yaml that change where and when a program runs, not what a step of it does."""
_NO_WORK = ("staleness", "backup", "learning_rate", "rate_rule")
"""Of its part `training`, the same: two come and go with mode async, and a step takes as long at any rate."""
TOLD_LATER = {"pieces": None, "precision": "auto", "compression": "none", "words_s": 0.0}
"""Fields of a workload that older nodes did not tell, and what is taken where no node tells them."""
_LATE = {
    "code": "no_answer",
    "message": "No node answered in time.",
    "hint": "Check on the pool page that a node is up, then ask again.",
}
_log = logging.getLogger(__name__)


def content_key(files: Mapping[str, str], dataset_sha256: str) -> str:
    """Hash of all that decides what a step does: two jobs that differ in devices or deadline alone have the same."""
    told = {name: text for name, text in files.items() if name.endswith(".py")}
    told["spec.yaml"] = _spec_told(files.get("spec.yaml", ""))
    body = json.dumps([dataset_sha256, sorted(told.items())], ensure_ascii=False)
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=16)  # a person asks for several offers of one program
def _spec_told(text: str) -> str:
    try:
        body = safe_yaml.load(text)
        if not isinstance(body, dict):
            return text
        told = {key: value for key, value in body.items() if key not in _COSTS_NOTHING}
        if isinstance(training := told.get("training"), dict):
            told["training"] = {key: value for key, value in training.items() if key not in _NO_WORK}
        return json.dumps(told, default=str)
    except (ValueError, TypeError):
        return text


def inspection_request(
    *, files: Mapping[str, str], dataset_sha256: str, minimum_sandbox_level: int, again: bool = False
) -> Inspection:
    """The inspection of a program, asked of a node unless it was read before; with `again` one that failed is retried.

    Raises `Unavailable` where no node could read it.
    """
    key = content_key(files, dataset_sha256)
    found = Inspection.objects.filter(key=key).first()
    is_old = found is not None and found.state == AskState.DONE and _is_old(found)
    if found is not None and found.state != AskState.FAILED and not is_late(found) and not is_old:
        return found
    if found is not None and not is_old and not again and not may_pass(found):
        return found
    try:
        node = _inspector(minimum_sandbox_level)
    except Unavailable:
        if found is not None and is_old:
            return found
        raise
    with transaction.atomic():
        made = _waiting_row(found, key, dataset_sha256, minimum_sandbox_level)
        files_replace(_paths(made.pk).program, dict(files))
        task_send_on_commit("node.inspect", [_request(made)], queue=node_queue(node), expires_s=ANSWER_LIMIT_S)
    return made


def _is_old(found: Inspection) -> bool:
    """Whether a node read it that did not tell all that is told now: read anew once, by its old figures until then."""
    return found.workload is not None and not TOLD_LATER.keys() <= found.workload.keys()


def may_pass(found: Inspection | ProbeRow) -> bool:
    """A failure that lies with the pool, not with the program: asked again without being told to."""
    return (found.problem or {}).get("code") in {"no_answer", "start_failed", "sandbox_too_weak"}


def _waiting_row(found: Inspection | None, key: str, dataset_sha256: str, level: int) -> Inspection:
    fresh: dict[str, Any] = {"state": AskState.WAITING, "problem": None, "sent_at": timezone.now()}
    fresh |= {"finished_at": None, "minimum_sandbox_level": level}
    if found is not None:
        Inspection.objects.filter(pk=found.pk).update(**fresh)
        found.refresh_from_db()
        return found
    try:
        with transaction.atomic():
            return Inspection.objects.create(key=key, dataset_sha256=dataset_sha256, **fresh)
    except IntegrityError:
        # Somebody else asked for the same program at the same moment.
        return Inspection.objects.get(key=key)


def _paths(inspection_id: str) -> RunPaths:
    return RunPaths(settings.STORE.root / "inspections" / inspection_id)


def _request(inspection: Inspection) -> dict[str, Any]:
    return {
        "request_id": inspection.pk,
        "job_dir": str(_paths(inspection.pk).root),
        "dataset_dir": str(settings.STORE.dataset(inspection.dataset_sha256).packed),
        "minimum_sandbox_level": inspection.minimum_sandbox_level,
    }


def _inspector(minimum_sandbox_level: int) -> str:
    """The node that has most idle devices, of those that can shut the program in. Raises `Unavailable`."""
    nodes = list(
        Node.objects.filter(
            state__in=[NodeState.UP, NodeState.DRAIN], sandbox_level__gte=minimum_sandbox_level
        ).prefetch_related("devices__allocation")
    )
    if not nodes:
        raise Unavailable(
            "No node is up that may read this program.",
            hint=f"An admin starts a node's agent; see the pool page. {HOW_TO_JOIN}",
        )

    def idle(node: Node) -> int:
        return sum(not hasattr(device, "allocation") for device in node.devices.all())

    return max(nodes, key=lambda node: (node.state == NodeState.UP, idle(node), node.name)).name


def is_late(inspection: Inspection) -> bool:
    """Whether nobody will answer any more (a moment in the future comes from a clock that was set back)."""
    waited = abs(timezone.now() - inspection.sent_at)
    return inspection.state == AskState.WAITING and waited > timedelta(seconds=ANSWER_LIMIT_S)


def inspection_done(report: dict[str, Any]) -> Inspection | None:
    """Take in a node's answer `{request_id, ok, workload, problem}`; one that comes twice counts once."""
    inspection = Inspection.objects.filter(pk=str(report.get("request_id", "")), state=AskState.WAITING).first()
    if inspection is None:
        return None
    try:
        report = plain(report)
    except ValueError as error:
        report = {"problem": {"code": "bad_answer", "message": f"The node's answer cannot be read: {error}"}}
    workload, problem = _answer_read(report)
    trace_s = report.get("trace_s")
    _end(
        inspection,
        workload=workload,
        problem=problem,
        trace_s=float(trace_s) if isinstance(trace_s, (int, float)) else None,
    )
    return inspection


def inspection_expire(inspection: Inspection) -> bool:
    """Let one that nobody answered fail. True where it did."""
    if not is_late(inspection):
        return False
    _end(inspection, workload=None, problem=_LATE, trace_s=None)
    return True


def _answer_read(report: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """(workload, problem): exactly one of them. What people's programs had a hand in is checked before use."""
    if report.get("ok"):
        try:
            return Workload.from_dict(report["workload"]).to_dict(), None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return None, {"code": "bad_answer", "message": f"The node's answer is not a workload: {error}", "hint": ""}
    problem = report.get("problem")
    told = problem if isinstance(problem, dict) else {}
    return None, {
        "code": str(told.get("code") or "cannot_trace"),
        "message": str(told.get("message") or "The program cannot be read without running it."),
        "hint": str(told.get("hint") or ""),
    }


def _end(
    inspection: Inspection,
    *,
    workload: dict[str, Any] | None,
    problem: dict[str, Any] | None,
    trace_s: float | None,
) -> None:
    """Of a program that is read anew the old figures stay where the new reading fails."""
    if workload is None and inspection.workload is not None:
        workload, problem = {**TOLD_LATER, **inspection.workload}, None
    ended = Inspection.objects.filter(pk=inspection.pk, state=AskState.WAITING).update(
        state=AskState.DONE if workload else AskState.FAILED,
        workload=workload,
        problem=problem,
        trace_s=trace_s,
        finished_at=timezone.now(),
    )
    inspection.refresh_from_db()
    if ended:
        tree_remove(_paths(inspection.pk).root)
