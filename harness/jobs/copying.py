"""What a new job takes over of an old one: all of it but a finish time that has passed, which nothing could keep."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from codegen.catalog import OWN
from codegen.spec import TaskSpec
from harness.errors import Invalid
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import wanted_deadline
from harness.jobs.spec_edits import spec_fields_edited
from harness.moments import moment_words
from harness.plain import value_at
from worker.words import counted

GAVE_WAY = "gave_way"
"""In the data of a line of history: how many edits of spec.yaml a new spec left no place for."""
_DEADLINE = "budget.deadline"


@dataclass(frozen=True, kw_only=True)
class JobSource:
    """What a person gives for a job."""

    spec: str | dict[str, Any]
    own_model: str | None
    """Text of their model.py; None where the model is to be generated."""
    files: dict[str, str]
    """Texts in place of generated ones, by name."""
    changed: tuple[str, ...] = ()
    """Dotted names of fields that are to be otherwise than in the job it is a copy of, whatever its spec.yaml says."""


def job_copy(job: Job, changes: Mapping[str, Any] | None = None) -> JobSource:
    """Its spec, without a deadline that has passed and with the `changes`, value by dotted name; and what of its
    program is the person's own. Raises `Invalid`."""
    spec: dict[str, Any] = spec_kept(job, job.spec)
    if _deadline_passed(job):
        spec = {**spec, "budget": {**spec["budget"], "deadline": "auto"}}
    paths = settings.STORE.job(job.pk)
    generated, written = programs.files_read(paths.generated), programs.files_read(paths.program)
    whole = _changes_whole(job, spec, changes or {})
    return JobSource(
        spec=spec_with(spec, whole),
        own_model=written.get("model.py") if job.program_own else None,
        files={name: text for name, text in written.items() if text != generated.get(name)},
        changed=tuple(whole),
    )


def _changes_whole(job: Job, spec: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes with those that follow from them."""
    return {**({} if job.program_own else _knobs_open(spec, changes)), **changes}


def _knobs_open(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What becomes open with another family or size, as in the form: a line of an offer that was taken has written the
    knobs of the former into the spec."""

    def becomes_another(field: str) -> bool:
        return field in changes and changes[field] != value_at(spec, field)

    if becomes_another("model.family"):
        return {"model.size": "auto", "model.params": {}}
    return {"model.params": {}} if becomes_another("model.size") else {}


def spec_kept(job: Job, spec: dict[str, Any]) -> dict[str, Any]:
    """A spec for a job's program, which its own model.py may read: made when own models had the knobs of the suggested
    family, it names that family, so that they stay."""
    family = str(value_at(job.resolved, "spec.model.family") or OWN)
    were_open = all(value_at(one, "model.family") == "auto" for one in (job.spec, spec))
    if not job.program_own or family == OWN or not were_open:
        return spec
    return spec_with(spec, {"model.family": family})


def spec_with(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a spec with values set at dotted names. Raises `Invalid` where a name leads through a value."""
    made = copy.deepcopy(dict(spec))
    for field, value in changes.items():
        *above, name = field.split(".")
        place = made
        for key in above:
            if place.get(key) is None:
                place[key] = {}
            if not isinstance(place[key], dict):
                raise Invalid(
                    f"{field[:80]} is not a field: {key[:80]} is a value.", field=field[:80],
                    hint="`dlh spec init` lists the fields.",
                )  # fmt: skip
            place = place[key]
        place[name] = value
    return made


def family_check(job: Job, wish: TaskSpec) -> None:
    """Pass unless a spec newly names a family for a job that has a model.py of its own, which would stay. Raises
    `Invalid`."""
    family = wish.model.family
    known = {"auto", OWN, value_at(job.spec, "model.family"), value_at(job.resolved, "spec.model.family")}
    if job.program_own and family not in known:
        raise Invalid(
            f"{job.name} has a model.py of its own, which {family} would not replace.", field="model.family",
            code="own_model",
            hint=f"Make a new job of its data with {family}: without a model.py, or with one that reads its knobs.",
        )  # fmt: skip


def left_out(job: Job, changes: Mapping[str, Any] | None = None, clone: Job | None = None) -> list[str]:
    """What `job_copy` does not take over, in sentences; of a `clone` that was made also which edits found no place."""
    passed_at = _deadline_passed(job)
    told = _edits_left_out(job, changes or {}, clone)
    if passed_at is None or {"budget", _DEADLINE} & set(changes or ()):
        return told
    return [f"The deadline of {job.name}, {moment_words(passed_at)}, has passed: choose another or none.", *told]


def edits_given_way(draft: Job) -> int:
    """How many edits of its spec.yaml found no place when it was made, or was last given another spec."""
    data = draft.events.order_by("pk").values_list("data", flat=True).last() or {}
    return int(data.get(GAVE_WAY, 0))


def _edits_left_out(job: Job, changes: Mapping[str, Any], clone: Job | None) -> list[str]:
    whole = _changes_whole(job, job.spec, changes)
    paths = settings.STORE.job(job.pk)
    written, generated = (
        programs.files_read(folder).get("spec.yaml", "") for folder in (paths.program, paths.generated)
    )
    edited = spec_fields_edited(written, generated, whole) if whole else []
    told = [f"What was written into spec.yaml as {field} gave way to the change." for field in edited]
    inner = sum(any(field.startswith(f"{other}.") for other in edited) for field in edited)
    others = edits_given_way(clone) - len(edited) + inner if clone else 0
    if others > 0:
        edits = counted(others, "other edit" if edited else "edit")
        told.append(f"{edits} of spec.yaml gave way to the spec of the copy; spec.yaml of {job.name} still has it all.")
    return told


def _deadline_passed(job: Job) -> datetime | None:
    deadline_at = wanted_deadline(programs.spec_read(job.spec))
    return deadline_at if deadline_at is not None and deadline_at <= timezone.now() else None
