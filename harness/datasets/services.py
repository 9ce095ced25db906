"""Write uploads and datasets."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.models import Project, Role, User
from harness.broker import publish_dataset, task_send_on_commit
from harness.datasets.content import (
    content_key,
    content_place,
    content_profile,
    content_source,
    contents_held,
    file_sha256,
    options_check,
    options_plain,
    source_name_clean,
    space_check,
)
from harness.datasets.models import Dataset, DatasetState, Upload
from harness.datasets.selectors import datasets_of_bytes
from harness.datasets.uploads import (
    upload_append,
    upload_create,
    upload_delete,
    upload_gone,
    upload_lock,
    upload_refresh,
)
from harness.errors import Conflict, Forbidden, Invalid
from harness.ids import new_id
from harness.names import name_mended, name_read
from harness.storage.room import storage_check
from harness.storage.sizes import content_measure
from worker.states import HAS_ATTEMPT, JobState

__all__ = [
    "dataset_create_from_file",
    "dataset_delete",
    "dataset_restore",
    "dataset_update",
    "upload_append",
    "upload_create",
    "upload_delete",
    "upload_finish",
]
_USING = [JobState.QUEUED, JobState.PAUSED, *HAS_ATTEMPT]
"""States in which a job still needs its dataset."""


def upload_finish(*, upload: Upload, name: str = "", options: dict[str, Any] | None = None) -> Dataset:
    """Make a dataset of a complete upload and start reading it. Again, or at the same time: returns the same dataset.

    Raises `Conflict` where bytes are missing, `Invalid` for options, `NotFound` where the bytes are gone.
    """
    if (made := _made_of(upload)) is not None:
        return made
    if upload.offset_bytes != upload.size_bytes:
        raise Conflict(
            f"{upload.size_bytes - upload.offset_bytes} bytes are missing.", hint="Send the rest, then finish."
        )
    # Hashing a large file takes so long that a client may ask again: that request waits here for the first.
    with upload_lock(upload, wait=True):
        if (made := _made_of(upload)) is not None:
            return made
        path = settings.STORE.upload(upload.pk)
        try:
            dataset = _dataset_create(
                owner=upload.owner, project=upload.project, name=name_mended(name), source=path,
                source_name=upload.filename, options=options, upload=upload,
            )  # fmt: skip
        except FileNotFoundError as error:  # hashing takes long: it was given up while it was read
            raise upload_gone() from error
        upload.dataset = dataset
        path.unlink(missing_ok=True)
    return dataset


def _made_of(upload: Upload) -> Dataset | None:
    """The dataset that this or another request made of the upload."""
    upload_refresh(upload, "dataset", "offset_bytes")
    return upload.dataset


def dataset_create_from_file(
    *, user: User, project: Project, name: str, path: Path, options: dict[str, Any] | None = None
) -> Dataset:
    """Make a dataset of a file on this machine (samples, commands). `path` never comes from a request."""
    require(user, project, Role.MEMBER)
    space_check(path.stat().st_size)
    storage_check(project, path.stat().st_size)
    return _dataset_create(
        owner=user,
        project=project,
        name=name,
        source=path,
        source_name=source_name_clean(path.name),
        options=options,
    )


def _dataset_create(
    *,
    owner: User,
    project: Project,
    name: str,
    source: Path,
    source_name: str,
    options: dict[str, Any] | None,
    upload: Upload | None = None,
) -> Dataset:
    """Without `upload` the source is a person's own file, which is copied; else it is noted on the upload in the same
    transaction, so that a kill leaves both or neither."""
    plain = options_plain(options_check(options))
    bytes_sha256 = file_sha256(source)
    key = content_key(bytes_sha256, source_name, plain)
    name = _name_check(name or _name_made(project, bytes_sha256, source_name))
    with contents_held():
        (content_place if upload else _copy_place)(source, key, source_name)
        content_measure(key)
        with transaction.atomic():
            dataset = Dataset.objects.create(
                project=project,
                owner=owner,
                name=name,
                source_name=source_name,
                source_bytes=content_source(key).stat().st_size,
                sha256=key,
                options=plain,
                **_reading_fields(key),
            )
            _reading_start(dataset)
            if upload is not None:
                Upload.objects.filter(pk=upload.pk).update(dataset=dataset)
    return dataset


def _copy_place(source: Path, key: str, source_name: str) -> None:
    """A hard link would let a later change of the person's file reach into the store."""
    draft = settings.STORE.uploads / f"copy-{new_id()}"
    draft.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, draft)
        content_place(draft, key, source_name)
    finally:
        draft.unlink(missing_ok=True)


def _reading_fields(key: str) -> dict[str, Any]:
    """What a dataset of this content begins with: ready where the content was packed before, else waiting."""
    if (profile := content_profile(key)) is not None:
        ready = {"state": DatasetState.READY, "progress": 1.0, "progress_note": "", "profile": profile.to_dict()}
        return {**ready, "problem": None}
    return {"state": DatasetState.PROFILING, "progress": 0.0, "progress_note": "waiting", "problem": None}


def _reading_start(dataset: Dataset) -> None:
    """Have control read what waits for it, and tell pages."""
    if dataset.state == DatasetState.PROFILING:
        task_send_on_commit("control.dataset_profile", [dataset.pk])
    publish_dataset(dataset.project_id, dataset.pk, {"state": str(dataset.state), "progress": dataset.progress})


def _name_made(project: Project, bytes_sha256: str, source_name: str) -> str:
    """From the file's name; with a number where the project has the same bytes and a dataset of that name."""
    name = name_mended(Path(source_name).stem.removesuffix(".csv").removesuffix(".tar"))[:120].rstrip() or "data"
    rows = Dataset.objects.filter(project=project, deleted_at=None)
    if not datasets_of_bytes(rows, bytes_sha256, source_name).exists():
        return name
    taken = set(rows.filter(name__startswith=name[:110]).values_list("name", flat=True))
    numbered = (f"{name[:110]} ({number})" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)


def _name_check(name: str) -> str:
    return name_read(name, of="A dataset", letters_max=120)


def dataset_update(
    *,
    user: User,
    dataset: Dataset,
    name: str | None = None,
    column_types: dict[str, str] | None = None,
    target: str | None = None,
    options: dict[str, Any] | None = None,
) -> Dataset:
    """Rename, or read anew with other column types, target, delimiter or encoding.

    `column_types` adds to the overrides there are; an empty type takes one back. `target=""` takes the target back. A
    target that was guessed stays as a guess beside types that a person set.
    What is refused changes nothing. Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict` (also where the dataset was
    deleted or changed while its source was hashed).
    """
    require(user, dataset.project, Role.MEMBER)
    if dataset.deleted_at:
        raise Conflict("This dataset is in the trash.", hint="Restore it first.")
    # An older name may be none that is given today: forms send it along.
    renamed = {} if name is None or name.strip() == dataset.name else {"name": _name_check(name)}
    plain = _options_wanted(dataset, column_types, target, options)
    is_renamed_alone = name is not None and (column_types, target, options) == (None, None, None)
    if plain != dataset.options or (dataset.state == DatasetState.FAILED and not is_renamed_alone):
        _read_anew(dataset, plain, renamed)
    elif renamed:
        _write(dataset, Dataset.objects.filter(pk=dataset.pk, deleted_at=None), renamed)
    return dataset


def _options_wanted(
    dataset: Dataset,
    column_types: dict[str, str] | None,
    target: str | None,
    options: dict[str, Any] | None,
) -> dict[str, Any]:
    """Options of the dataset after a change, as plain values. Raises `Invalid`."""
    kept = dict(dataset.options)
    kept_guess = kept.pop("target_guess", None)
    is_read = dataset.state == DatasetState.READY  # else the profile is that of the options before
    shown = (dataset.profile or {}).get("target") if is_read and not kept.get("target") else None
    guess = shown or kept_guess
    wanted = {**kept, **(options or {})}
    if column_types is not None:
        types = {**wanted.get("column_types", {}), **column_types}
        wanted["column_types"] = {column: kind for column, kind in types.items() if kind}
        known = {column["name"] for column in (dataset.profile or {}).get("columns", ())}
        strange = sorted(set(column_types) - known) if known else []
        if strange:
            raise Invalid(f"There is no column {strange[0]!r}.", field=f"column_types.{strange[0]}")
    if target is not None:
        wanted["target"] = target
    if wanted.get("target") or target == "" or not wanted.get("column_types"):
        guess = None
    return options_plain(replace(options_check(wanted), target_guess=guess))


def _read_anew(dataset: Dataset, options: dict[str, Any], renamed: dict[str, Any]) -> None:
    storage_check(dataset.project)  # it is packed once more
    source = content_source(dataset.sha256)
    key = content_key(file_sha256(source), dataset.source_name, options)
    # Hashing took long: what the row has become meanwhile (in the trash, read in another way) is not undone.
    rows = Dataset.objects.filter(pk=dataset.pk, sha256=dataset.sha256, deleted_at=None)
    with contents_held():
        if not rows.exists():  # nor is its source there for sure
            raise _changed()
        content_place(source, key, source.name)
        content_measure(key)
        with transaction.atomic():
            _write(dataset, rows, {**renamed, "sha256": key, "options": options, **_reading_fields(key)})
            _reading_start(dataset)


def _write(dataset: Dataset, rows: QuerySet[Dataset], fields: dict[str, Any]) -> None:
    """Set these fields where the row is still among `rows`, the state that they were made for; else `Conflict`."""
    if not rows.update(**fields):
        raise _changed()
    for name, value in fields.items():
        setattr(dataset, name, value)


def _changed() -> Conflict:
    return Conflict(
        "This dataset was deleted or changed meanwhile.", hint="Look at it as it is now, then change it again."
    )


def dataset_delete(*, user: User, dataset: Dataset) -> None:
    """Move to the trash, from where it can be restored for `TRASH_DAYS`. Raises `NotFound`, `Forbidden`, `Conflict`."""
    role = require(user, dataset.project, Role.MEMBER)
    if dataset.owner_id != user.pk and role != Role.ADMIN:
        raise Forbidden("Only its owner or an admin of the project deletes a dataset.", hint="Ask one of them.")
    if dataset.jobs.filter(state__in=_USING, deleted_at=None).exists():
        raise Conflict("Jobs that run or wait use this dataset.", hint="Cancel them or wait until they end.")
    Dataset.objects.filter(pk=dataset.pk, deleted_at=None).update(deleted_at=timezone.now())
    dataset.refresh_from_db(fields=["deleted_at"])
    publish_dataset(dataset.project_id, dataset.pk, {"deleted": True})


def dataset_restore(*, user: User, dataset: Dataset) -> None:
    """Take out of the trash. Raises `NotFound`, `Forbidden`."""
    require(user, dataset.project, Role.MEMBER)
    Dataset.objects.filter(pk=dataset.pk).update(deleted_at=None)
    dataset.deleted_at = None
    publish_dataset(dataset.project_id, dataset.pk, {"deleted": False})
