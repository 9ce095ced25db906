"""Weights files: weights that were trained elsewhere, for jobs to start from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Count, QuerySet

from harness.accounts.access import projects_with_role, require, visible_projects
from harness.accounts.audit import audit_write
from harness.accounts.models import Project, Role, User
from harness.broker import task_send_on_commit
from harness.bucket.units import unit_keep
from harness.datasets.content import contents_held, disk_full_told, file_copy, file_sha256
from harness.datasets.models import Upload, WeightsFile
from harness.datasets.safetensors_header import SUFFIX, header_read
from harness.datasets.uploads import upload_delete, upload_gone, upload_lock, upload_refresh
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.names import name_mended
from harness.storage.sizes import content_measure
from worker.plan import START_WEIGHTS
from worker.words import counted

FRESH = "auto"
"""What `model.weights` of a spec says where it names no file."""
_NONE = "There is no such weights file."
_HINT = "`dlh weights list` and the page Weights files show those of your projects."


def weights_list(*, user: User, project: Project | None = None, sha256: str = "") -> QuerySet[WeightsFile]:
    """Those that the person sees, newest first, each with `jobs_count`; with `sha256` those of exactly these bytes."""
    rows = WeightsFile.objects.filter(project__in=visible_projects(user))
    rows = rows.filter(project=project) if project is not None else rows
    rows = rows.filter(sha256=sha256) if sha256 else rows
    return rows.annotate(jobs_count=Count("jobs")).select_related("project", "owner").order_by("-created_at", "pk")


def weights_deletable(*, user: User, rows: Iterable[WeightsFile]) -> set[str]:
    """Ids of those of `weights_list` that the person may delete now."""
    member, admin = (
        set(projects_with_role(user, role).values_list("pk", flat=True)) for role in (Role.MEMBER, Role.ADMIN)
    )
    free = (row for row in rows if not row.jobs_count)  # type: ignore[attr-defined]
    return {row.pk for row in free if row.project_id in (member if row.owner_id == user.pk else admin)}


def weights_of(project: Project) -> list[WeightsFile]:
    """What jobs of a project may start from, newest first."""
    return list(WeightsFile.objects.filter(project=project).order_by("-created_at", "pk"))


def weights_get(*, user: User, weights_id: str) -> WeightsFile:
    """One by its id. Raises `NotFound`."""
    found = weights_list(user=user).filter(pk=weights_id).first()
    if found is None:
        raise NotFound(_NONE, hint=_HINT)
    return found


def weights_named(project: Project, name: str, *, before: WeightsFile | None = None) -> WeightsFile | None:
    """What `model.weights` of a spec means in a project: an id, or a name that one file has; None: fresh ones.

    `before`: what it meant in the job before a change, or in the one that it is a copy of; that it means then, though
    another file has got its name meanwhile. Raises `Invalid`.
    """
    if name == FRESH:
        return None
    if before is not None and before.project_id == project.pk and name in {before.pk, before.name}:
        return before
    rows = WeightsFile.objects.filter(project=project)
    found = list(rows.filter(pk=name)) or list(rows.filter(name=name).order_by("-created_at", "pk")[:10])
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(one.pk for one in found)
        raise Invalid(
            f"{len(found)} weights files of {project.name} are named {name}: {ids}.", field="model.weights",
            hint="Use an id instead.",
        )  # fmt: skip
    raise _unknown(name, project)


def _unknown(name: str, project: Project) -> Invalid:
    return Invalid(f"There is no weights file {name!r} in {project.name}.", field="model.weights", hint=_HINT)


def weights_hold(weights: WeightsFile | None) -> None:
    """Keep a file from being deleted until the transaction ends. Raises `Invalid` where it was already."""
    if weights is None:
        return
    if not WeightsFile.objects.select_for_update().filter(pk=weights.pk).exists():
        raise _unknown(weights.name, weights.project)


def weights_finish(*, upload: Upload) -> WeightsFile:
    """Make a weights file of a complete upload; one of the same name and bytes in its project is taken for it.

    Again, or at the same time: returns the same. A file that cannot be used is forgotten with its upload. Raises
    `Conflict` where bytes are missing, `Invalid`, `NotFound` where the bytes are gone.
    """
    if (made := _made_of(upload)) is not None:
        return made
    if upload.offset_bytes != upload.size_bytes:
        raise Conflict(
            f"{upload.size_bytes - upload.offset_bytes} bytes are missing.", hint="Send the rest, then finish."
        )
    with upload_lock(upload, wait=True):  # hashing takes long: a client that asks again waits here
        if (made := _made_of(upload)) is not None:
            return made
        path = settings.STORE.upload(upload.pk)
        try:
            upload.weights = made = _made(upload, path)
        except FileNotFoundError as error:  # it was given up while it was read
            raise upload_gone() from error
        except Invalid:
            upload_delete(upload=upload)
            raise
        path.unlink(missing_ok=True)
    return made


def _made_of(upload: Upload) -> WeightsFile | None:
    """What this or another request made of the upload."""
    upload_refresh(upload, "weights", "offset_bytes")
    return upload.weights


def _made(upload: Upload, path: Path) -> WeightsFile:
    header, sha256 = header_read(path), file_sha256(path)
    name = name_mended(upload.name) or name_mended(upload.filename[: -len(SUFFIX)])[:120].rstrip() or "weights"
    name = f"{name}{SUFFIX}" if name == FRESH else name  # which in a spec names no file
    with contents_held():
        _place(path, sha256)
        content_measure(sha256)
        with transaction.atomic():
            made, _ = WeightsFile.objects.get_or_create(
                project=upload.project,
                name=name,
                sha256=sha256,
                defaults={
                    "owner": upload.owner, "size_bytes": upload.size_bytes, "tensors": header.tensors,
                    "parameters": header.parameters, "dtypes": list(header.dtypes),
                },
            )  # fmt: skip
            Upload.objects.filter(pk=upload.pk).update(weights=made)
    return made


def _place(source: Path, sha256: str) -> None:
    """Put the file into the folder of its content, which nodes fetch as they do data; safe where two do it at once."""
    paths = settings.STORE.dataset(sha256)
    paths.packed.mkdir(parents=True, exist_ok=True)
    source.chmod(0o644)  # ranks, which may be another user, read it
    target = paths.packed / START_WEIGHTS
    with disk_full_told():
        try:
            os.link(source, target)
        except FileExistsError:
            pass
        except OSError:
            file_copy(source, target)
    os.utime(paths.root)  # now: a copy to the object store that was made meanwhile is made again
    unit_keep(f"datasets/{sha256}")


def weights_delete(*, user: User, weights: WeightsFile) -> None:
    """Delete a weights file for good; its content goes as soon as nothing names it.

    Raises `NotFound`, `Forbidden`, `Conflict` while jobs start from it.
    """
    role = require(user, weights.project, Role.MEMBER)
    if weights.owner_id != user.pk and role != Role.ADMIN:
        raise Forbidden("Only its owner or an admin of the project deletes a weights file.", hint="Ask one of them.")
    with transaction.atomic():
        row = WeightsFile.objects.select_for_update().filter(pk=weights.pk).first()
        if row is None:
            return
        if kept := row.jobs.count():
            raise Conflict(
                f"{counted(kept, 'job')} started from this weights file, or may do so.",
                hint="Delete them for good first; those in the trash count, too.",
            )
        audit_write(user, "weights_delete", f"{row.pk} {row.name}", project=row.project, bytes=row.size_bytes)
        weights_row_delete(row)


def weights_row_delete(weights: WeightsFile) -> None:
    """With the uploads that it was made of; call it in a transaction."""
    Upload.objects.filter(weights=weights).delete()
    weights.delete()
    task_send_on_commit("control.content_purge", [weights.sha256])
