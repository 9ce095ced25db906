"""Drafts: a job's spec and program before it is submitted, and after as a template for the next."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction

from codegen.spec import TaskSpec
from codegen.types import Program, Resolved
from harness.accounts.access import project_hold, require
from harness.accounts.models import Project, Role, User
from harness.datasets.content import space_check
from harness.datasets.models import Dataset
from harness.datasets.selectors import dataset_kept_check, dataset_profile
from harness.datasets.weights import weights_hold, weights_named
from harness.errors import Conflict, NotFound
from harness.ids import new_id
from harness.jobs import programs
from harness.jobs.copying import GAVE_WAY, JobSource, family_check, job_copy, spec_kept
from harness.jobs.models import Job
from harness.jobs.naming import job_name_made, job_name_of_copy
from harness.jobs.options import wanted_deadline
from harness.jobs.pace import refusals_counted
from harness.jobs.places import places_check
from harness.jobs.program_checks import (
    file_change_check,
    file_count_check,
    file_name_check,
    files_check,
    program_syntax_check,
)
from harness.jobs.spec_edits import epochs_planned, gave_way_words, spec_edits_kept
from harness.jobs.spec_marks import spec_seen_check
from harness.jobs.states import job_note
from harness.jobs.taken import resolved_with, still_taken
from harness.names import name_line
from harness.pool.hardware import hardware
from harness.storage.room import storage_check
from worker.plan import RunPaths
from worker.states import JobState, said

_DRAFT_FIELDS = (
    "spec", "resolved", "taken", "suggestions", "dataset_sha256", "task", "family", "metric_name", "epochs", "name",
    "program_sha256", "program_edited", "program_own", "deadline_at", "options", "slowdown", "weights",
)  # fmt: skip
"""Columns that a change of spec or program may touch."""


def job_create(
    *,
    user: User,
    project: Project,
    dataset: Dataset,
    spec: str | dict[str, Any],
    own_model: str | None = None,
    files: dict[str, str] | None = None,
    parent: Job | None = None,
    name: str = "",
) -> Job:
    """Make a draft: resolve the spec, generate the program, write it to disk.

    `own_model` is the text of a person's model.py; `files` replace generated files of the same name. Of what an offer
    put into the spec of its `parent` that is kept which this one has, too. Nothing is kept of code that cannot run.
    Raises `NotFound`, `Forbidden`, `SpecInvalid`, `Invalid`, `Conflict`, `NoSpace`.
    """
    source = JobSource(spec=spec, own_model=own_model, files=files or {})
    return _create(user=user, project=project, dataset=dataset, source=source, parent=parent, name=name)


def _create(
    *, user: User, project: Project, dataset: Dataset, source: JobSource, parent: Job | None, name: str,
    is_copy: bool = False,
) -> Job:  # fmt: skip
    """`is_copy`: whether code that cannot run is taken as well."""
    _create_check(user, project, dataset)
    own = {} if source.own_model is None else {"model.py": source.own_model}
    if not is_copy:  # a job's own were looked at when they were written, and older ones may be edited in a clone
        files_check(source.files)
        files_check(own)
    wish = programs.spec_read(source.spec)
    resolved, program = _generate(wish, dataset, source.own_model)
    if not is_copy:
        with refusals_counted(user):
            _code_check({**own, **source.files}, program)
    job = Job(
        id=new_id(), project=project, owner=user, dataset=dataset, parent=parent, program_own=bool(own),
        taken=parent.taken if parent else {},
    )  # fmt: skip
    paths = settings.STORE.job(job.pk)
    try:
        lost = _program_written(job, source, program, is_copy=is_copy)
        _fill(job, wish, resolved, dataset)
        _fill_of_files(job, paths)
        job.suggestions = programs.suggestions_of(wish, dataset_profile(dataset), hardware())
        _named_save(job, name if is_copy else name or wish.name, lost, is_copy=is_copy)
    except BaseException:
        shutil.rmtree(paths.root, ignore_errors=True)
        raise
    return job


def _program_written(job: Job, source: JobSource, program: Program, *, is_copy: bool) -> int:
    """Write what was generated, and over it what is the person's own. Returns how many edits gave way."""
    paths, overlay, lost = settings.STORE.job(job.pk), dict(source.files), 0
    if is_copy and job.parent:
        before = programs.files_read(settings.STORE.job(job.parent.pk).generated)
        lost = spec_edits_kept(overlay, before, program.files, source.changed)
    programs.folders_replace({paths.generated: program.files, paths.program: {**program.files, **overlay}})
    return lost


def _named_save(job: Job, name: str, lost: int, *, is_copy: bool) -> None:
    """The draft's row and the first line of its history; `lost`: edits that gave way."""
    with transaction.atomic():
        project_hold(job.project_id)  # one after another, so that no two take the same number
        parent = job.parent
        numbers_copy = is_copy and not name.strip()
        job.name = job_name_of_copy(parent, job) if parent and numbers_copy else job_name_made(name, job)
        weights_hold(job.weights)
        job.save(force_insert=True)
        made = f"Draft made from {parent.name}" if parent else "Draft made"
        message, data = _with_edits_lost(made, lost)
        job_note(job, "person", message, actor=job.owner, data=data)


def _with_edits_lost(message: str, lost: int) -> tuple[str, dict[str, Any]]:
    """(a line of history, its data) that tells of edits that gave way: see `copying.edits_given_way`."""
    return "; ".join(filter(None, (message, gave_way_words(lost)))), {GAVE_WAY: lost} if lost else {}


def _create_check(user: User, project: Project, dataset: Dataset) -> None:
    require(user, project, Role.MEMBER)
    if dataset.project_id != project.pk:
        raise NotFound(
            "There is no such dataset in this project.", field="data.dataset", hint="See the list of datasets."
        )
    dataset_kept_check(dataset)
    space_check(0)
    storage_check(project)


def _code_check(files: dict[str, str], program: Program) -> None:
    """Pass for files that may take the place of a program's. Raises `Invalid` with file and line."""
    program_syntax_check(files, needs_build="model.py" in files)
    if "spec.yaml" in files:
        places_check(files["spec.yaml"], program.files["spec.yaml"])


def _generate(wish: TaskSpec, dataset: Dataset, own_model: str | None) -> tuple[Resolved, Program]:
    profile = dataset_profile(dataset)
    resolved = programs.resolve_spec(wish, profile, hardware(), is_own=own_model is not None)
    return resolved, programs.program_render(resolved, profile, own_model)


def _fill(job: Job, wish: TaskSpec, resolved: Resolved, dataset: Dataset) -> None:
    """Columns that follow from the spec. Raises `Invalid` for weights that there are not."""
    job.spec = wish.model_dump(mode="json")
    job.taken = still_taken(job.taken, job.spec)
    job.resolved = resolved_with(resolved.to_dict(), job.taken)
    job.dataset_sha256 = dataset.sha256
    job.task = str(resolved.spec.get("task", ""))
    job.family = "own" if job.program_own else str(resolved.spec.get("model", {}).get("family", ""))
    before = job.weights or (job.parent.weights if job.parent else None)
    job.weights = weights_named(job.project, wish.model.weights, before=before)
    job.metric_name = str(resolved.spec.get("objective", {}).get("metric", ""))
    job.deadline_at = wanted_deadline(wish)


def _fill_of_files(job: Job, paths: RunPaths) -> None:
    """Columns that follow from the program as it lies there."""
    program, generated = programs.program_of(paths), programs.files_read(paths.generated)
    job.epochs = epochs_planned(program.files, generated, job.resolved)
    job.program_sha256, job.program_edited = program.sha256, programs.program_is_edited(paths)
    job.options, job.slowdown = [], 0.0  # what was estimated was another program


def _draft_require(user: User, job: Job, *, hold: bool = False) -> RunPaths:
    """The files of a draft. `hold`: until the transaction ends nobody submits it, so that what is written is marked,
    nor changes it: it is read again as it is now, since another change may have come before this one."""
    require(user, job.project, Role.MEMBER)
    rows = Job.objects.select_for_update() if hold else Job.objects.all()
    job.refresh_from_db(fields=["state", "deleted_at", *(_DRAFT_FIELDS if hold else ())], from_queryset=rows)
    if job.deleted_at:
        raise Conflict(f"{job.name} is in the trash.", hint="Restore it first.")
    if job.state != JobState.DRAFT:
        told = f"{job.name} {said(job.state)} and can no longer be edited."
        raise Conflict(told, hint="Clone it and edit the clone.")
    paths: RunPaths = settings.STORE.job(job.pk)
    return paths


def job_spec_update(
    *, user: User, job: Job, spec: str | dict[str, Any], taken: Mapping[str, Any] | None = None, seen: str = ""
) -> Job:
    """Give a draft another spec: its program is generated anew, files that the person edited are kept.

    `taken` is what an offer put into it; None: what is still there of what one put into the spec before. `seen`: the
    `spec_mark` of the one that it may replace.
    Raises `NotFound`, `Forbidden`, `Conflict`, `SpecInvalid`, `Invalid`.
    """
    paths = _draft_require(user, job)
    wish = programs.spec_read(spec)
    family_check(job, wish)
    wish = programs.spec_read(spec_kept(job, wish.model_dump(mode="json")))
    own_model = programs.files_read(paths.program).get("model.py") if job.program_own else None
    resolved, program = _generate(wish, job.dataset, own_model)
    suggestions = programs.suggestions_of(wish, dataset_profile(job.dataset), hardware())
    with transaction.atomic():
        _draft_require(user, job, hold=True)
        spec_seen_check(job, seen)
        job.suggestions = suggestions
        named, job.taken = job.spec.get("name"), job.taken if taken is None else dict(taken)
        _fill(job, wish, resolved, job.dataset)
        weights_hold(job.weights)
        # From here on nothing is refused any more: what is refused changes no file either.
        before, written = programs.files_read(paths.generated), programs.files_read(paths.program)
        edited = {name: text for name, text in written.items() if text != before.get(name)}
        lost = spec_edits_kept(edited, before, program.files)
        programs.folders_replace({paths.generated: program.files, paths.program: {**program.files, **edited}})
        _fill_of_files(job, paths)
        if wish.name and wish.name != named:  # the old name in the spec takes back no later one: a clone's, a rename
            job.name = name_line(wish.name) or job.name
        return _draft_save(job, user, *_with_edits_lost("Spec changed", lost))


def _draft_save(job: Job, user: User, message: str, data: dict[str, Any] | None = None) -> Job:
    """Call it in the transaction that holds the draft (`_draft_require`)."""
    changed = {field: getattr(job, field) for field in _DRAFT_FIELDS}
    Job.objects.filter(pk=job.pk, state=JobState.DRAFT).update(**changed)
    job_note(job, "program", message, actor=user, data=data)
    return job


def program_file_write(*, user: User, job: Job, name: str, text: str, expected_sha256: str = "") -> Job:
    """Write one file of a draft's program; with `expected_sha256` only over the text of that hash.

    Raises `NotFound`, `Forbidden`, `Conflict` (`changed`: somebody else wrote it meanwhile), `Invalid`.
    """
    paths = _draft_require(user, job)
    file_change_check(programs.files_read(paths.program), name, text)  # may take seconds: others write meanwhile
    return _file_written(user, job, name, text, expected_sha256)


@transaction.atomic
def _file_written(user: User, job: Job, name: str, text: str, expected_sha256: str) -> Job:
    paths = _draft_require(user, job, hold=True)
    have = programs.files_read(paths.program)
    file_count_check(have, name)
    found = programs.text_sha256(have.get(name, ""))
    if expected_sha256 not in {"", found} and have.get(name) != text:
        raise Conflict(
            f"{name} was changed in another tab or by someone else since it was opened here.",
            code="changed",
            field="name",
            hint="Save again to overwrite their text, or reload the page to see it first.",
            details={"sha256": found},
        )
    programs.file_write(paths.program, name, text)
    return _program_changed(user, job, paths, f"{name} edited", name)


@transaction.atomic
def program_reset(*, user: User, job: Job, name: str | None = None) -> Job:
    """Put a file, or all, back to what was generated; files that were added go. Raises like `program_file_write`."""
    paths = _draft_require(user, job, hold=True)
    generated = programs.files_read(paths.generated)
    if name is None:
        programs.files_replace(paths.program, generated)
    elif name in generated:
        programs.file_write(paths.program, name, generated[name])
    else:
        (paths.program / file_name_check(name)).unlink(missing_ok=True)
    return _program_changed(user, job, paths, f"{name or 'program'} put back as generated", name)


def _program_changed(user: User, job: Job, paths: RunPaths, message: str, name: str | None) -> Job:
    _fill_of_files(job, paths)
    return _draft_save(job, user, message, {"file": name, "sha256": job.program_sha256})


def job_clone(*, user: User, job: Job, name: str = "", changes: Mapping[str, Any] | None = None) -> Job:
    """A new draft with what `job_copy` takes over, changed so; `left_out` tells the rest. Code that cannot run is
    copied as well: the copy is where it is corrected. Without a `name` it has the one that `changes` give the spec,
    else is numbered as a copy. Raises like `job_create`, and then makes nothing."""
    require(user, job.project, Role.MEMBER)
    source = job_copy(job, changes)
    wish = programs.spec_read(source.spec)
    family_check(job, wish)
    given = name or (wish.name if changes and "name" in changes else "")
    return _create(
        user=user, project=job.project, dataset=job.dataset, source=source, parent=job, name=given, is_copy=True
    )  # fmt: skip
