"""Resumable uploads: bytes go straight to the store's file; the offset in the database is what is durable."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from harness.accounts.access import require, visible_projects
from harness.accounts.models import Project, Role, User
from harness.datasets.content import disk_full_told, options_check, options_plain, source_name_clean, space_check
from harness.datasets.models import UNFINISHED, Upload
from harness.datasets.safetensors_header import is_weights
from harness.errors import Conflict, Invalid, NotFound, TooLarge, TooMany
from harness.names import name_read
from harness.storage.room import storage_check, storage_hold
from worker.words import size_words

_log = logging.getLogger(__name__)


def upload_create(
    *,
    user: User,
    project: Project,
    filename: str,
    size_bytes: int | None,
    name: str = "",
    options: dict[str, Any] | None = None,
) -> Upload:
    """Begin an upload; `name` and `options` wait for its end. `size_bytes` None: `upload_resize` tells it later.

    Raises `NotFound`, `Forbidden`, `Invalid`, `TooLarge`, `TooMany`, `NoSpace` (the disk; the project's quota).
    """
    require(user, project, Role.MEMBER)
    filename = source_name_clean(filename)
    plain = options_plain(options_check(options))
    if name.strip():
        name = name_read(name, of="A weights file" if is_weights(filename) else "A dataset", letters_max=120)
    if size_bytes is not None:
        _size_check(filename, size_bytes)
    space_check(size_bytes or 0)
    with transaction.atomic():
        _count_check(user)
        storage_hold(project)
        storage_check(project, size_bytes or 0)
        upload = Upload.objects.create(
            project=project, owner=user, filename=filename, size_bytes=size_bytes or 0, name=name.strip(), options=plain
        )
    settings.STORE.uploads.mkdir(parents=True, exist_ok=True)
    settings.STORE.upload(upload.pk).touch(mode=0o600)
    return upload


def _size_check(filename: str, size_bytes: int) -> None:
    if size_bytes <= 0:
        raise Invalid(f"{filename} is empty.", field="size_bytes", hint="Choose a file that contains data.")
    limit_bytes, name = settings.UPLOAD_LIMIT_BYTES, "DLH_UPLOAD_LIMIT_GIB"
    if is_weights(filename):
        limit_bytes, name = min(limit_bytes, settings.WEIGHTS_LIMIT_BYTES), "DLH_WEIGHTS_LIMIT_GIB"
    if size_bytes > limit_bytes:
        raise TooLarge(
            f"{filename} has {size_words(size_bytes)}; the limit is {size_words(limit_bytes)}.",
            hint=f"Upload a smaller file, or ask an admin to raise {name}.",
        )


def upload_resize(*, upload: Upload, size_bytes: int) -> None:
    """Tell how large it becomes, where that was not known at its beginning.

    Raises `Invalid`, `TooLarge`, `NoSpace` as `upload_create` does, `NotFound` where it was given up meanwhile.
    """
    _size_check(upload.filename, size_bytes)
    space_check(size_bytes - upload.offset_bytes)
    with transaction.atomic():
        storage_hold(upload.project)
        upload_refresh(upload, "size_bytes")
        if size_bytes > upload.size_bytes:
            storage_check(upload.project, size_bytes - upload.size_bytes)
        if not Upload.objects.filter(pk=upload.pk).update(size_bytes=size_bytes, updated_at=timezone.now()):
            raise upload_gone()
    upload.size_bytes = size_bytes


def upload_restart(*, upload: Upload, filename: str = "") -> None:
    """Forget what has arrived, and its size; `filename`: it is called so now.

    Raises `NotFound`, `Conflict` where another request writes it, `Invalid` for a name that is none.
    """
    with upload_lock(upload, wait=False) as descriptor:
        upload.filename = source_name_clean(filename or upload.filename)
        upload.offset_bytes = upload.size_bytes = 0
        rows = Upload.objects.filter(pk=upload.pk)
        rows.update(filename=upload.filename, offset_bytes=0, size_bytes=0, updated_at=timezone.now())
        os.ftruncate(descriptor, 0)  # last: a kill between the two must not leave an offset without its bytes


def _count_check(user: User) -> None:
    """Raise `TooMany` where the person has as many unfinished uploads as are allowed; holds the person's row, so that
    requests that come at once are counted one after the other."""
    User.objects.select_for_update().get(pk=user.pk)
    if Upload.objects.filter(UNFINISHED, owner=user).count() >= settings.UPLOADS_OPEN_MAX:
        raise TooMany(
            f"You have {settings.UPLOADS_OPEN_MAX} unfinished uploads, which is the maximum per person.",
            hint="Finish or discard some: `dlh data uploads --give-up ID`, or `DELETE /uploads/ID`. "
            f"What is not touched for {settings.UPLOAD_EXPIRES_DAYS} days is removed automatically.",
        )


def upload_list(*, user: User) -> QuerySet[Upload]:
    """The person's unfinished uploads that may be gone on with, newest first."""
    rows = Upload.objects.filter(UNFINISHED, owner=user, project__in=visible_projects(user))
    return rows.select_related("project").order_by("-created_at", "pk")


def upload_get(*, user: User, upload_id: str) -> Upload:
    """An upload of the person's own. Raises `NotFound`."""
    upload = Upload.objects.select_related("project", "dataset").filter(pk=upload_id, owner=user).first()
    if upload is None:
        raise NotFound("There is no such upload, or it has expired.", hint="Start it again.")
    require(user, upload.project, Role.MEMBER)
    return upload


def upload_append(*, upload: Upload, offset: int, chunk: Iterable[bytes], whole: bool = False) -> int:
    """Write bytes at `offset` and return the new offset; what arrived before a break is kept, but
    for what counts only as a `whole`.

    Raises `Conflict` where the offset is not the upload's or another request writes now, `TooLarge`, `NoSpace`.
    """
    with upload_lock(upload, wait=False) as descriptor:
        upload_refresh(upload, "offset_bytes", "size_bytes")
        if offset != upload.offset_bytes:
            raise Conflict(
                f"The upload stands at byte {upload.offset_bytes:,}, not {offset:,}.",
                code="wrong_offset",
                hint="Ask for the offset and continue from there.",
                details={"offset": upload.offset_bytes},
            )
        return _write(upload, descriptor, chunk, whole=whole)


def upload_refresh(upload: Upload, *fields: str) -> None:
    """Read it anew. Raises `NotFound` where it was given up meanwhile."""
    try:
        upload.refresh_from_db(fields=fields)
    except Upload.DoesNotExist as error:
        raise upload_gone() from error


def upload_gone() -> NotFound:
    """What is told of an upload whose row or bytes are there no more."""
    return NotFound("This upload has expired, was given up or is finished.", hint="Start it again.")


@contextmanager
def upload_lock(upload: Upload, *, wait: bool) -> Iterator[int]:
    """Hold the upload's file, open for writing: one request at a time. Without `wait` a second one is refused.

    Raises `NotFound` where the file is gone, `Conflict` where another request holds it.
    """
    try:
        descriptor = os.open(settings.STORE.upload(upload.pk), os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise upload_gone() from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise Conflict(
                "Another request is writing to this upload.", code="locked", hint="Wait, then continue."
            ) from error
        yield descriptor
    finally:
        os.close(descriptor)


def _write(upload: Upload, descriptor: int, chunk: Iterable[bytes], *, whole: bool) -> int:
    """What lies behind the durable offset counts for nothing, and is written over by the next piece."""
    position = upload.offset_bytes
    is_all = False
    with disk_full_told():
        try:
            for piece in chunk:
                view = memoryview(piece)
                if position + len(view) > upload.size_bytes:
                    raise TooLarge(f"This is more than the {upload.size_bytes:,} bytes that were announced.")
                space_check(len(view))  # at its beginning there was room for this upload, not for all at once
                while view:
                    written = os.pwrite(descriptor, view, position)
                    position += written
                    view = view[written:]
            is_all = True
        finally:
            if position != upload.offset_bytes and (is_all or not whole):
                os.fdatasync(descriptor)  # also where it broke off: nothing else tells that bytes were lost with power
                upload.offset_bytes = position
                Upload.objects.filter(pk=upload.pk).update(offset_bytes=position, updated_at=timezone.now())
    return position


def upload_delete(*, upload: Upload) -> None:
    """Give an upload up; its bytes go."""
    settings.STORE.upload(upload.pk).unlink(missing_ok=True)
    upload.delete()


def uploads_expire() -> int:
    """Give up uploads nobody touched for `UPLOAD_EXPIRES_DAYS`; return how many."""
    limit = timezone.now() - timedelta(days=settings.UPLOAD_EXPIRES_DAYS)
    count = 0
    for upload in Upload.objects.filter(updated_at__lt=limit):
        try:
            upload_delete(upload=upload)
        except OSError as error:  # one that a disk does not let go must not keep all others
            _log.warning("upload %s stays: %s", upload.pk, error)
        else:
            count += 1
    return count
