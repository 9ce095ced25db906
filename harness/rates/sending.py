"""Send a range test to an idle device, then trials around its centre; take in what the node tells, and end what nobody
answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from harness.broker import publish_job, task_send_on_commit
from harness.errors import HarnessError, Invalid
from harness.estimates.models import AskState
from harness.estimates.probes import idle_device
from harness.estimates.rate_wishes import UNASKED_WAIT_LIMIT_S, step_rows
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import wanted_model
from harness.jobs.program_checks import program_syntax_check
from harness.jobs.services import minimum_sandbox_level
from harness.plain import plain, text_plain
from harness.pool.models import Device, DeviceKind, Reservation
from harness.pool.reservations import reservation_hold, reservation_release
from harness.pool.services import node_queue
from harness.pool.turn import facts_change
from harness.rates.keys import rate_key
from harness.rates.models import RateTest
from harness.rates.trials import trials_answered, trials_failed, trials_most_s, trials_plan
from scheduler.rates.interval import RangeRecord, RateUnclear, rate_range
from scheduler.rates.worth import BUDGET_S, STEPS, SWEEPS
from worker.plan import RunPaths
from worker.trees import tree_remove

PURPOSE = "A learning-rate range test"
"""Everybody reads it, also who does not see the job."""
ANSWER_LIMIT_S = 240.0
ANSWER_SPARE_S = 180.0
"""Beside the time that trials are given: to start, to read the data, and for what the node measures before."""
WAIT_LIMIT_S = 600.0
"""For a device to fall idle, where a job is to be submitted afterwards."""
_LATE = {"code": "no_answer", "message": "No node answered in time.", "hint": "Check that it is up, then ask again."}
_CALLED_OFF = {
    "code": "called_off", "hint": "",
    "message": "The job no longer waits for it: it was submitted, cancelled or deleted meanwhile.",
}  # fmt: skip
_NO_DEVICE = {"code": "no_device", "message": "No device was idle for it in time.", "hint": "Ask again when one is."}


def rate_test_send(test: RateTest) -> None:
    """Keep an idle device and have its node make the test. Raises `Invalid`, `NotFound`, `Unavailable`,
    `Conflict` (only nodes that would train from other weights)."""
    job = test.job
    files = programs.program_of(settings.STORE.job(job.pk)).files
    program_syntax_check(files)
    sha256 = _sha256(job)
    if not settings.STORE.dataset(sha256).packed.is_dir():
        raise Invalid("The dataset has not been read yet.", field="dataset", hint="Wait until it is ready.")
    program_key = rate_key(files, sha256)
    with transaction.atomic():
        # Nothing that is being decided on the facts before this starts on the device that is taken here.
        facts_change()
        if not RateTest.objects.filter(pk=test.pk, state=AskState.WAITING, sent_at=None).exists():
            return  # another process was faster
        # What it may cost was reckoned of devices that the run itself may have.
        model_name = wanted_model(job) if test.wish.get("automatic") else ""
        device = idle_device(job, test.wish.get("kind") or "", model_name, trains=True)
        ends_at = timezone.now() + timedelta(seconds=ANSWER_LIMIT_S)
        held = reservation_hold(
            target=device, ends_at=ends_at, purpose=PURPOSE, by=test.by, within=job.project,
            planned_until=ends_at + timedelta(seconds=_trials_most_s(test)),
        )  # fmt: skip
        fields: dict[str, Any] = {
            "kind": device.kind, "model_name": device.model_name, "node_name": device.node.name,
            "reservation": str(held.pk), "sent_at": timezone.now(), "batch_size": step_rows(job),
            "program_key": program_key,
        }  # fmt: skip
        RateTest.objects.filter(pk=test.pk).update(**fields)
        test.refresh_from_db()
        programs.files_replace(_paths(test).program, files)
        asked = {"low": test.wish.get("low"), "high": test.wish.get("high"), "steps": STEPS, "sweeps": SWEEPS}
        request = _request(test, device) | asked
        task_send_on_commit("node.rate_range", [request], queue=node_queue(device.node.name), expires_s=ANSWER_LIMIT_S)


def _paths(test: RateTest) -> RunPaths:
    return RunPaths(settings.STORE.root / "inspections" / f"rates-{test.pk}")


def _sha256(job: Job) -> str:
    return job.dataset_sha256 or job.dataset.sha256


def _request(test: RateTest, device: Device) -> dict[str, Any]:
    return {
        "request_id": test.pk,
        "job_dir": str(_paths(test).root),
        "dataset_dir": str(settings.STORE.dataset(_sha256(test.job)).packed),
        "weights_dir": test.job.weights_dir,
        "batch_size": test.batch_size,
        "budget_s": BUDGET_S,
        "device": f"cuda:{device.index}" if device.kind == DeviceKind.CUDA else "cpu",
        "threads": 1,
        "minimum_sandbox_level": minimum_sandbox_level(test.job),
    }


def rate_test_told(report: dict[str, Any]) -> RateTest | None:
    """Take in a node's progress or answer; an answer that comes twice counts once. None: nothing ended by it."""
    pk = str(report.get("request_id", ""))
    test = RateTest.objects.select_related("job__project", "job__dataset", "by").filter(pk=pk).first()
    if test is None or test.state != AskState.WAITING:
        return None
    share = report.get("progress")
    if share is not None:
        if isinstance(share, (int, float)) and 0.0 <= share <= 1.0:
            RateTest.objects.filter(pk=pk, state=AskState.WAITING).update(progress=float(share))
        return None
    if plan := trials_waiting(test):
        if report.get("record") is not None:
            return None  # the range test's answer came twice
        _end(test, {"state": AskState.DONE, "trials": trials_answered(plan, report)})
        return test
    try:
        fields = _answer(plain(report))
    except ValueError as error:
        fields = _failed({"code": "bad_answer", "message": f"The node's answer cannot be read: {error}", "hint": ""})
    if fields["state"] == AskState.DONE:
        fields["trials"] = trials_plan(test.wish.get("trials") or "auto", report.get("run_s"), _files(test))
        if fields["trials"]["state"] == "waiting":
            return _trials_send(test, fields)
    _end(test, fields)
    return test


def trials_waiting(test: RateTest) -> dict[str, Any] | None:
    """The plan of trials that a node works on; None before and after."""
    plan: dict[str, Any] | None = test.trials
    return plan if test.state == AskState.WAITING and plan is not None and plan["state"] == "waiting" else None


def _files(test: RateTest) -> dict[str, str]:
    try:
        return programs.files_read(_paths(test).program)
    except HarnessError:
        return {}


def _trials_send(test: RateTest, fields: dict[str, Any]) -> RateTest | None:
    """Keep the range test's answer and have the same device make the trials; None: they go on."""
    plan = fields["trials"]
    try:
        with transaction.atomic():
            facts_change()
            held = Reservation.objects.select_related("device__node").get(pk=test.reservation, cancelled_at=None)
            kept = {**fields, "state": AskState.WAITING, "progress": 0.0, "sent_at": timezone.now()}
            waiting = RateTest.objects.filter(pk=test.pk, state=AskState.WAITING, trials__isnull=True)
            if held.device is None or not waiting.update(**kept):
                return None  # its answer came twice at once
            reservation_release(held)
            ends_at = timezone.now() + timedelta(seconds=_trials_limit_s(plan))
            longer = reservation_hold(
                target=held.device, ends_at=ends_at, purpose=PURPOSE, by=test.by, within=test.job.project
            )  # fmt: skip
            RateTest.objects.filter(pk=test.pk).update(reservation=str(longer.pk))
            more = {"centre": fields["found"]["centre"], "scale": plan["scale"], "budget_s": plan["limit_s"]}
            request = _request(test, held.device) | more
            queue = node_queue(held.device.node.name)
            task_send_on_commit("node.rate_range", [request], queue=queue, expires_s=_trials_limit_s(plan))
    except (Reservation.DoesNotExist, HarnessError):
        plan = {**plan, "state": "none", "why": "The device is kept for something else by now."}
        _end(test, {**fields, "trials": plan})
        return test
    publish_job(test.job.project_id, test.job_id, "rates", {"test_id": test.pk, "state": AskState.WAITING})
    return None


def _trials_most_s(test: RateTest) -> float:
    """For which its device may be kept after the range test: until that has told a centre nobody knows whether."""
    most_s = trials_most_s(test.wish.get("trials") or "auto")
    return most_s + ANSWER_SPARE_S if most_s else 0.0


def _trials_limit_s(plan: Mapping[str, Any]) -> float:
    """For the node's answer."""
    return float(plan["limit_s"]) + ANSWER_SPARE_S


def _answer(report: Mapping[str, Any]) -> dict[str, Any]:
    """Raises `ValueError`."""
    if problem := report.get("problem"):
        if not isinstance(problem, dict):
            raise ValueError("its problem is no problem")
        return _failed({key: str(problem.get(key) or "") for key in ("code", "message", "hint")})
    body = report.get("record")
    if not isinstance(body, dict):
        raise ValueError("it holds no record")
    record = RangeRecord.from_dict(body)
    rate, took_s = report.get("rate"), report.get("took_s")
    fields: dict[str, Any] = {
        "record": record.to_dict(),
        "rate": rate if isinstance(rate, float) else None,
        "took_s": took_s if isinstance(took_s, float) else None,
        "optimizer": text_plain(str(report.get("optimizer") or ""))[:40],
    }
    try:
        return {**fields, "state": AskState.DONE, "found": plain(rate_range(record).to_dict())}
    except RateUnclear as unclear:
        return fields | _failed({"code": unclear.code, "message": unclear.message, "hint": unclear.hint})


def _failed(problem: dict[str, str]) -> dict[str, Any]:
    return {"state": AskState.FAILED, "problem": problem}


def rate_test_is_late(test: RateTest) -> bool:
    """Whether it waits for longer than it may: for a device, for an answer, or over already, for its job to go on."""
    wait_s = UNASKED_WAIT_LIMIT_S if test.wish.get("automatic") else WAIT_LIMIT_S
    if test.state != AskState.WAITING:
        since, limit_s = test.finished_at or test.created_at, WAIT_LIMIT_S
    elif test.sent_at:
        plan = trials_waiting(test)
        since, limit_s = test.sent_at, _trials_limit_s(plan) if plan else ANSWER_LIMIT_S
    else:
        since, limit_s = test.created_at, wait_s
    return abs(timezone.now() - since) > timedelta(seconds=limit_s)


def rate_test_expire(test: RateTest) -> None:
    """Let one fail that nobody answers, or that no device fell idle for."""
    if test.state != AskState.WAITING or not rate_test_is_late(test):
        return
    if plan := trials_waiting(test):
        _end(test, {"state": AskState.DONE, "trials": trials_failed(plan, _LATE)})
    else:
        _end(test, _failed(_LATE if test.sent_at else _NO_DEVICE))


def rate_test_fail(test: RateTest, problem: dict[str, str]) -> bool:
    """End one for a reason of ours, with what it has told by then; False where it had ended before."""
    plan = trials_waiting(test)
    is_ended = test.state != AskState.WAITING
    _end(test, {"state": AskState.DONE, "trials": trials_failed(plan, problem)} if plan else _failed(problem))
    return not is_ended


def rate_test_call_off(test: RateTest) -> None:
    """End one whose job is not to be submitted any more: its device is free, and its node drops it."""
    plan = trials_waiting(test)
    fields = {"state": AskState.DONE, "trials": trials_failed(plan, _CALLED_OFF)} if plan else _failed(_CALLED_OFF)
    with transaction.atomic():
        if test.sent_at:
            task_send_on_commit("node.rate_stop", [test.pk], queue=node_queue(test.node_name))
        _end(test, {**fields, "submit": False})


def _end(test: RateTest, fields: Mapping[str, Any]) -> None:
    with transaction.atomic():
        done = {**fields, "finished_at": timezone.now(), "progress": 1.0}
        if RateTest.objects.filter(pk=test.pk, state=AskState.WAITING).update(**done):
            for held in Reservation.objects.filter(pk=test.reservation or None, cancelled_at=None):
                reservation_release(held)
            publish_job(test.job.project_id, test.job_id, "rates", {"test_id": test.pk, "state": done["state"]})
    tree_remove(_paths(test).root)
    test.refresh_from_db()
