"""Figures of a job as the pages show them."""

from __future__ import annotations

import re
from typing import Any

from django.urls import reverse
from django.utils import timezone

from codegen.catalog import OWN
from codegen.spec import MODE_WORDS, TaskSpec
from codegen.spec_yaml import dump
from harness.datasets.selectors import dataset_profile
from harness.datasets.weights import weights_of
from harness.jobs.admission import is_being_measured
from harness.jobs.control.awaited import results_awaited
from harness.jobs.control.expectations import idle_s, left_s, slack_s
from harness.jobs.emulated import emulated_words
from harness.jobs.logs import LogPart
from harness.jobs.mode import job_mode
from harness.jobs.models import Job
from harness.jobs.options import has_estimate
from harness.jobs.outlook import is_unknown_now
from harness.jobs.promises import danger_hint
from harness.jobs.queue_order import deadline_can_be_kept, in_reach
from harness.jobs.queueing import job_reserved_until
from harness.jobs.quota_use import borrowers
from harness.jobs.readers import standstill
from harness.jobs.selectors import job_checkpoints, job_logs, jobs_queued_count, program_files
from harness.jobs.services import minimum_sandbox_level
from harness.jobs.spec_marks import spec_mark
from harness.jobs.starts import reads_apart, start_told
from harness.jobs.timelines import job_energy
from harness.pages.figures import figure
from harness.pages.loss_note import loss_note
from harness.pages.returning_view import returning_of
from harness.pages.spec_fields import spec_groups
from harness.pages.words import JOB_ACTIONS
from harness.plain import value_at
from harness.pool.hardware import hardware
from harness.pool.reports import TWINS_AT
from harness.pool.selectors import PoolOverview
from harness.rates.selectors import job_rate, rate_test_first
from scheduler.offers.words import energy_words
from scheduler.placing.obstacles import NEVER
from worker.events import Outcome
from worker.states import HOLDS_DEVICES, TERMINAL, JobState

ERROR_LINES = 30
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b")
_SPEC_LINES = (
    ("Size", "model.size"),
    ("Metric", "objective.metric"),
    ("Epochs", "training.epochs"),
    ("Batch size", "training.batch_size"),
    ("Device", "resources.device"),
    ("Model of device", "resources.device_model"),
    ("Devices", "resources.count"),
    ("Mode", "mode"),
)
_WHERE_NAMED = {"resources.device_model"}
"""Of these what a person named, and no line where nobody did."""


def spec_value(job: Job, path: str) -> Any:
    """A resolved spec value by dotted name; None where it is missing."""
    return value_at(job.resolved.get("spec") or job.spec, path)


def progress_share(job: Job) -> float:
    """How far the run is, 0-1."""
    if job.state == JobState.SUCCEEDED:
        return 1.0
    if job.steps_total:
        return min(1.0, job.step / job.steps_total)
    return min(1.0, job.epoch / job.epochs) if job.epochs else 0.0


def stopped_early(job: Job) -> str:
    """`stopped early, after epoch 7 of 60`; empty where it has not succeeded, or made all of its epochs."""
    made = int(job.epoch)
    is_early = job.state == JobState.SUCCEEDED and 0 < made < job.epochs
    return f"stopped early, after epoch {made:,} of {job.epochs:,}" if is_early else ""


def has_devices(job: Job) -> bool:
    """Whether it holds devices: its time runs. One that is cancelled while its results return has given them back."""
    if job.state == JobState.CANCELLING:
        return job.allocations.exists()
    return JobState(job.state) in HOLDS_DEVICES


def elapsed_s(job: Job) -> float:
    """Seconds on devices, over all attempts, the present one included."""
    open_since = job.placed_at if has_devices(job) else None
    return job.run_s + ((timezone.now() - open_since).total_seconds() if open_since else 0.0)


def header(job: Job) -> dict[str, Any]:
    """What the top of the job page says."""
    state = JobState(job.state)
    mode, why = job_mode(job)
    rate, rate_why = job_rate(job)
    is_live = state not in TERMINAL and state not in {JobState.DRAFT, JobState.PAUSED}
    stands = standstill() if is_live else None
    is_unknown = is_unknown_now(job)
    return {
        "share": progress_share(job),
        "stopped_early": stopped_early(job),
        "elapsed_s": elapsed_s(job),
        "has_devices": has_devices(job),
        "is_live": is_live,
        "standstill": stands,
        "lost": lost_last(job),
        "left_s": left_s(job),
        # Who takes nothing in does not know whether it makes progress, nor when it ends.
        "is_unknown": is_unknown,
        "idle_s": idle_s(job),
        "slack_s": None if is_unknown else slack_s(job),
        "danger_hint": danger_hint(job),
        "never_starts": job.waiting_code in NEVER,
        "start": start_told(job),
        "reserved_until": job_reserved_until(job),
        "may_be_promised": _may_be_promised(job),
        "is_being_measured": is_being_measured(job),
        "finish_spreads": _finish_spreads(job),
        "borrows": job.expected_finish_at is not None and job.pk in borrowers([job]),
        "mode": {"name": mode, "why": why, "says": MODE_WORDS.get(mode, "")},
        "rate": {"peak": rate, "why": rate_why},
        "is_tested_first": rate_test_first(job),
        "energy": energy_of(job),
        "returning": returning_of(job),
        "emulated": emulated_words(job),
        "awaited": results_awaited(job),
    }


def _may_be_promised(job: Job) -> bool:
    """Whether it waits for a promise that could still be kept, as far as it is estimated."""
    now = timezone.now()
    if job.state != JobState.QUEUED or job.promised_at or job.deadline_at is None or job.deadline_at <= now:
        return False
    return not has_estimate(job) or deadline_can_be_kept(job, now, in_reach())


def lost_last(job: Job) -> dict[str, Any] | None:
    """Why the platform ended an attempt last, and whether that was the newest one; None where it ended none."""
    attempt = job.attempts.filter(outcome=Outcome.LOST).order_by("-number").first() if job.token else None
    if attempt is None or attempt.run_failure is None:
        return None
    return {"message": attempt.run_failure.message, "is_newest": attempt.number == job.token}


def _finish_spreads(job: Job) -> bool:
    """Whether the two ends of the range of the expected finish read differently: minutes are shown."""
    low, high = job.expected_low_at, job.expected_high_at
    return low is not None and high is not None and reads_apart(low, high)


def energy_of(job: Job) -> dict[str, str] | None:
    """Energy so far and power now, in words; None before the job has held a device."""
    took = job_energy(job)
    if not took.basis:
        return None
    power = f"{figure(took.power_w, 3)} W now, " if took.power_w else ""
    return {"energy": energy_words(took.energy_j), "note": f"{power}{took.basis}"}


def curves_source(job: Job) -> dict[str, Any]:
    """Where the charts of a job get their points, and where all points lie as CSV."""
    return {
        "id": job.pk,
        "name": job.name,
        "curves": reverse("job_curves", args=[job.pk]),
        "csv": f"/api/v1/jobs/{job.pk}/series.csv",
        "notes": {"loss": loss_note(job)},
    }


def job_actions(job: Job) -> tuple[str, ...]:
    """What a member may ask for now; an ended run is resumed only where it left a checkpoint."""
    actions = JOB_ACTIONS[job.state]
    if "resume" in actions and job.state != JobState.PAUSED and not job_checkpoints(job).exists():
        return tuple(action for action in actions if action != "resume")
    return actions


def first_error_line(job: Job) -> dict[str, Any] | None:
    """The first log line of a failed run's newest attempt that speaks of an error.

    `text` is the first that says more than that a traceback follows.
    """
    if job.run_failure is None:
        return None
    lines = job_logs(job=job, level="error", part=LogPart(limit=ERROR_LINES))["lines"]
    if not lines:
        return None
    telling = (line["text"] for line in lines if _EXCEPTION.match(line["text"]))
    return {**lines[0], "text": next(telling, lines[0]["text"])}


def spec_editor(job: Job) -> dict[str, Any]:
    """What the form of a draft's spec shows: fields, YAML, and the files the person changed by hand."""
    profile = dataset_profile(job.dataset)
    wish = {**job.spec, "name": job.name} if job.spec.get("name") else job.spec
    edited = [file["name"] for file in program_files(job) if file["edited"]]
    return {
        "can_edit": True,
        "groups": spec_groups(profile, weights_of(job.project), _device_models(job)),
        "yaml_text": dump(TaskSpec.model_validate(wish)),
        "seen": spec_mark(job),
        "edited_files": [name for name in edited if name != "spec.yaml"],
        "edited_spec": "spec.yaml" in edited,
    }


def _device_models(job: Job) -> set[str]:
    """What the spec may name: those of the pool, and the one that it names already."""
    named = job.spec.get("resources", {}).get("device_model", "auto")
    return {*hardware().models, named} - {"auto"}


def submit_summary(job: Job, pool: PoolOverview) -> dict[str, Any]:
    """What will happen on submit: model, size of the run, where it stands in the queue, least sandbox."""
    wanted = spec_value(job, "resources.count")
    suggestion: dict[str, Any] = next((item for item in job.suggestions if item.get("family") == job.family), {})
    up = [node for node in pool.nodes if node.state == "up"]
    resting = [node for node in pool.nodes if node.state == "drain" and not node.drain_wanted]
    # A person's own model has no size of ours.
    lines = [line for line in _SPEC_LINES if job.family != OWN or line[1] != "model.size"]
    lines = [line for line in lines if line[1] not in _WHERE_NAMED or spec_value(job, line[1])]
    return {
        "lines": [("Model", job.family), *((label, spec_value(job, path)) for label, path in lines)],
        "parameters": suggestion.get("parameters"),
        "memory_bytes": suggestion.get("memory_bytes"),
        "free": pool.free,
        "queued": jobs_queued_count(),
        "no_node": not up,
        "draining": [node.name for node in pool.nodes if node.state == "drain" and node.drain_wanted],
        "clock_off": [node.name for node in resting if TWINS_AT not in node.description],
        "twins": [node.name for node in resting if TWINS_AT in node.description],
        "must_wait": isinstance(wanted, int) and wanted > pool.free,
        "least_level": minimum_sandbox_level(job),
        "best_level": max((node.sandbox_level for node in up), default=None),
    }
