"""Make offers: for a job that has not started or is paused, for a spec, for a workload from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from codegen.modes import MODES, STAGED, can_lose_ranks, needs_whole
from codegen.spec import TaskSpec
from harness.accounts.access import require
from harness.accounts.models import Project, Role, User
from harness.datasets.models import Dataset
from harness.datasets.selectors import dataset_kept_check, dataset_profile
from harness.datasets.weights import weights_named
from harness.errors import Conflict, Invalid, TooMany
from harness.estimates.groups import kinds_known
from harness.estimates.inspection import ANSWER_LIMIT_S, content_key, inspection_request
from harness.estimates.models import OfferRow, OfferState
from harness.estimates.offer_notes import model_note
from harness.estimates.rate_wishes import spec_untested_steps
from harness.estimates.settling import offer_settle
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import deadline_check, wanted_deadline, wanted_memory_bytes
from harness.jobs.pace import refusals_counted
from harness.jobs.program_checks import files_check, program_syntax_check
from harness.jobs.services import minimum_sandbox_level
from harness.jobs.taken import spec_named
from harness.moments import moment_words
from harness.plain import plain
from harness.pool.hardware import hardware
from harness.pool.services import pool_setting_get
from scheduler.offers.values import Wish
from scheduler.workload import Workload
from worker.states import JobState, said

OFFERED = frozenset({"single", "sync"})
"""Modes that every offer has lines for."""
OFFERABLE = (JobState.DRAFT, JobState.QUEUED, JobState.PAUSED)
"""States in which a job's devices can still be chosen: before it starts, or before it goes on."""
WAITING_MAX = 20
"""Programs that one person may have read at once."""
_OPERATORS_MAX = 100_000
"""A workload from outside with more is no training step."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a person wants of an offer besides the program."""

    deadline_at: datetime | None = None
    names_deadline: bool = False
    """The person gave this deadline, or none; else it is the spec's."""
    wish: Wish = field(default_factory=Wish)

    @staticmethod
    def of(*, deadline_at: datetime | None = None, names_deadline: bool | None = None, **fixed: Any) -> Asked:
        """With the parts of a `Wish` that are `fixed`; a deadline is named unless it is told otherwise.

        Raises `Invalid`.
        """
        named = deadline_at is not None if names_deadline is None else names_deadline
        try:
            return Asked(deadline_at=deadline_at, names_deadline=named, wish=Wish(**fixed))
        except ValueError as error:
            raise Invalid(
                f"{error}".capitalize() + ".", field="count", hint="Leave it out, or give 1 or more."
            ) from error

    @staticmethod
    def wished(spec: Mapping[str, Any], **given: Any) -> Asked:
        """Devices (kind, model, number) and deadline as the spec fixes them; what is `given` counts more, None is open.

        A model that is given without a kind brings its own. Raises `Invalid`.
        """
        read = TaskSpec.model_validate(spec)
        asked = read.resources
        fixed: dict[str, Any] = {"kind": asked.device, "model_name": asked.device_model, "count": asked.count}
        fixed["deadline_at"] = wanted_deadline(read)
        if "kind" in given and given["kind"] != _kind_of(asked.device_model):
            fixed["model_name"] = "auto"
        wishes = {**{name: None if value == "auto" else value for name, value in fixed.items()}, **given}
        if wishes["model_name"] and "kind" not in given:
            wishes["kind"] = _kind_of(wishes["model_name"])
        return Asked.of(**wishes, names_deadline="deadline_at" in given)

    def of_spec(self, spec: Mapping[str, Any], *, has_begun: bool = False) -> Asked:
        """With the mode that the spec names, where several devices are fixed or where it is not offered unasked, how it
        shares out rows and stages, and whether it asks for what stages know nothing of.

        `has_begun`: its spec cannot be changed any more, so that what a person asks for now wins over
        `resources.least`.
        """
        wish, named, stages = self.wish, spec.get("mode"), spec.get("pipeline", {}).get("stages")
        counts = MODES if wish.count is not None and wish.count > 1 else MODES - OFFERED
        mode = str(named) if wish.mode is None and named in counts else wish.mode
        known = stages if isinstance(stages, int) and (mode is None or mode in STAGED) else None
        even = spec.get("resources", {}).get("split") == "even"
        whole = mode is None and needs_whole(TaskSpec.model_validate(spec))
        least = spec.get("resources", {}).get("least")
        if not isinstance(least, int) or (has_begun and self._cannot_lose(least)):
            least = None
        fixed = {"mode": mode, "stages": wish.stages or known, "even": even, "whole": whole}
        return replace(self, wish=replace(wish, **fixed, least=least))

    def _cannot_lose(self, least: int) -> bool:
        """Whether the person asks for what cannot go on with so few of its ranks."""
        kind, mode = self.wish.kind or "cpu", self.wish.mode or "sync"
        return not can_lose_ranks(kind, mode) or (self.wish.count is not None and self.wish.count <= least)

    def row(self) -> dict[str, Any]:
        """Fields of an offer. Raises `Invalid` where nobody means the deadline."""
        deadline_at = utc(self.deadline_at)
        if deadline_at is not None:
            deadline_check(deadline_at, field="deadline")
        return {"deadline_at": deadline_at, "wish": asdict(self.wish)}


def _kind_of(model_name: str) -> str | None:
    """Of the devices of that name; None where the pool has none, or of several kinds."""
    kinds = {kind for kind, name in kinds_known() if name == model_name}
    return kinds.pop() if len(kinds) == 1 else None


def utc(moment: datetime | None) -> datetime | None:
    """The moment in UTC; one without a zone is taken for that. Raises `Invalid` where UTC has no such year."""
    if moment is None or moment.tzinfo is None:
        return moment and moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise Invalid(
            f"{moment} lies outside the years 1 to 9999 in UTC.",
            field="deadline", hint="Give an earlier time, or none for no deadline.",
        ) from error  # fmt: skip


def job_key(job: Job) -> str:
    """`content_key` of a job's program and data as they are now."""
    files = programs.program_of(settings.STORE.job(job.pk)).files
    return content_key(files, job.dataset_sha256 or job.dataset.sha256)


def otherwise_hint(job: Job) -> str:
    """How a job that is none of `OFFERABLE` comes to other devices."""
    if job.state in {JobState.PLACED, JobState.RUNNING}:
        return "Pause it first to have it go on on other devices, or clone it."
    if job.state == JobState.PAUSING:
        return "Ask once it is paused."
    return "Clone it to run it on other devices."


def offer_make(*, user: User, job: Job, asked: Asked, again: bool = False) -> OfferRow:
    """An offer for a draft, or a job that waits or is paused; priced at once where its program was read before.

    With `again` a program that could not be read is tried once more.
    Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`, `TooMany`, `Unavailable` (no node).
    """
    require(user, job.project, Role.MEMBER)
    if job.deleted_at:
        raise Conflict(f"The job {job.name} is in the trash.", hint="Restore it first.")
    if job.state not in OFFERABLE:
        raise Conflict(f"The job {job.name} {said(job.state)}: there is nothing to offer.", hint=otherwise_hint(job))
    row = asked.of_spec(spec_named(job.spec, job.taken), has_begun=job.state != JobState.DRAFT).row()
    if job.state != JobState.DRAFT:
        row["deadline_at"] = _kept_deadline(job, asked)
    _waiting_check(user)
    files = programs.program_of(settings.STORE.job(job.pk)).files
    with refusals_counted(user):
        program_syntax_check(files)
    inspection = inspection_request(
        files=files,
        dataset_sha256=job.dataset_sha256 or job.dataset.sha256,
        minimum_sandbox_level=minimum_sandbox_level(job),
        again=again,
    )
    offer = OfferRow.objects.create(
        owner=user, project=job.project, job=job, inspection=inspection, title=job.name,
        memory_bytes=wanted_memory_bytes(job), **row,
    )  # fmt: skip
    return offer_settle(offer)


def _kept_deadline(job: Job, asked: Asked) -> datetime | None:
    """Of a job that was submitted: with it the promise was made. Raises `Invalid` where another one is asked for."""
    if asked.names_deadline and utc(asked.deadline_at) != job.deadline_at:
        has = moment_words(job.deadline_at) if job.deadline_at else "none"
        raise Invalid(
            f"{job.name} {said(job.state)}: its deadline was fixed when it was submitted ({has}).",
            field="deadline", hint="Leave it out; or clone the job, and give the clone another one.",
        )  # fmt: skip
    return job.deadline_at


def _waiting_check(user: User) -> None:
    """Raise `TooMany` where many programs of the person are being read: nodes do it on the queue by which runs are
    started and stopped."""
    recent = timezone.now() - timedelta(seconds=ANSWER_LIMIT_S)
    waiting = OfferRow.objects.filter(owner=user, state=OfferState.WAITING, created_at__gt=recent)
    if waiting.values("inspection").distinct().count() >= WAITING_MAX:
        raise TooMany(
            f"{WAITING_MAX} of your programs are being read for offers.", hint="Wait for some of them, then ask again."
        )


def offer_make_spec(
    *, user: User, dataset: Dataset, spec: str | dict[str, Any], own_model: str | None = None, asked: Asked
) -> OfferRow:
    """An offer for a spec on a dataset, without making a job; none for what no job could be made of.

    Raises `NotFound`, `Forbidden`, `SpecInvalid`, `Invalid`, `Conflict`, `TooMany`, `Unavailable`.
    """
    require(user, dataset.project, Role.MEMBER)
    dataset_kept_check(dataset)
    _waiting_check(user)
    if own_model is not None:
        files_check({"model.py": own_model})
    wish = programs.spec_read(spec)
    weights_named(dataset.project, wish.model.weights)
    wished = wish.model_dump(mode="json")
    row = asked.of_spec(wished).row()
    profile = dataset_profile(dataset)
    resolved = programs.resolve_spec(wish, profile, hardware(), is_own=own_model is not None)
    program = programs.program_render(resolved, profile, own_model)
    with refusals_counted(user):
        program_syntax_check(program.files, needs_build=True)
    level = pool_setting_get().minimum_sandbox_level(own_code=own_model is not None)
    inspection = inspection_request(files=program.files, dataset_sha256=dataset.sha256, minimum_sandbox_level=level)
    memory = wish.resources.memory_gib
    offer = OfferRow.objects.create(
        owner=user, project=dataset.project, inspection=inspection, title=wish.name or dataset.name,
        memory_bytes=int(memory * 2**30) if isinstance(memory, (int, float)) else 0,
        untested_steps=spec_untested_steps(wished, resolved.spec, profile.rows),
        notes=[model_note(wished, resolved.spec, is_own=own_model is not None)], **row,
    )  # fmt: skip
    return offer_settle(offer)


def offer_make_workload(
    *, user: User, workload: Mapping[str, Any], project: Project | None = None, title: str = "", asked: Asked
) -> OfferRow:
    """An offer for a workload that somebody else read off a program. Raises `NotFound`, `Forbidden`, `Invalid`."""
    if project is not None:
        require(user, project, Role.MEMBER)
    row = asked.row()
    body = workload_check(workload)
    offer = OfferRow.objects.create(owner=user, project=project, title=title[:160], workload=body, **row)
    return offer_settle(offer)


def workload_check(body: Mapping[str, Any]) -> dict[str, Any]:
    """A workload given by a person, as kept; the whole line that the trace prints is taken, too. Raises `Invalid`."""
    given, hint = body.get("workload", body), "Give what `python -m worker.runtime.inspection.trace` prints."
    problem = body.get("problem")
    if given is None and isinstance(problem, dict):
        told = f"The program could not be traced: {problem.get('message') or 'no reason is given.'}"
        raise Invalid(told, field="workload", hint=str(problem.get("hint") or hint))
    try:
        read = Workload.from_dict(plain(given))
        figures = (read.parameter_bytes, read.activation_bytes, read.flops, read.train_rows, read.epochs)
        if not 0 < len(read.operators) <= _OPERATORS_MAX or min(figures) < 0 or min(figures[3:]) < 1:
            raise ValueError("it needs operators, rows and epochs, and no figure below 0")
        if read.global_batch_size < 1 or read.batch_size < 1:
            raise ValueError("a step needs at least one row")
    except (ValueError, TypeError, AttributeError) as error:
        why = str(error).removeprefix("not a workload: ")
        raise Invalid(f"This is not a workload: {why}.", field="workload", hint=hint) from error
    return read.to_dict()
