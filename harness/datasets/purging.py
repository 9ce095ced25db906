"""Delete for good: datasets that a person gives up or that lay in the trash too long, contents that nobody names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.audit import audit_write
from harness.accounts.models import Role, User
from harness.broker import publish_dataset, task_send_on_commit
from harness.bucket.units import unit_forget
from harness.datasets.content import contents_held
from harness.datasets.models import Dataset, Upload
from harness.datasets.profiling import DRAFT_PREFIX
from harness.errors import Conflict, Forbidden
from harness.ids import new_id
from harness.trash import PURGE_BEGUN
from worker.trees import tree_remove
from worker.words import counted

YOUNG = timedelta(days=1)
"""What changed so short a time ago stays: somebody may be at work with it."""
_log = logging.getLogger(__name__)


def dataset_purge(*, user: User, dataset: Dataset, at_once: bool = False) -> None:
    """Delete a dataset in the trash for good, now, or any with `at_once`; its content goes as soon as nobody names it.

    Raises `NotFound`, `Forbidden`, `Conflict` (not in the trash, or jobs were made of it).
    """
    role = require(user, dataset.project, Role.MEMBER)
    if dataset.owner_id != user.pk and role != Role.ADMIN:
        raise Forbidden("Only its owner or an admin of the project deletes a dataset.", hint="Ask one of them.")
    with transaction.atomic():
        row = Dataset.objects.select_for_update().filter(pk=dataset.pk).first()
        if row is None:
            return
        if row.deleted_at is None and not at_once:
            raise Conflict("This dataset is not in the trash.", hint="Delete it first, then for good.")
        _unused_check(row)
        audit_write(user, "dataset_purge", f"{row.pk} {row.name}", project=row.project, bytes=row.source_bytes)
        publish_dataset(row.project_id, row.pk, {"deleted": True})
        dataset_row_delete(row)


def dataset_row_delete(dataset: Dataset) -> None:
    """With the upload that it was made of: without a dataset that would be an unfinished one again."""
    Upload.objects.filter(dataset=dataset).delete()
    dataset.delete()
    task_send_on_commit("control.content_purge", [dataset.sha256])


def _unused_check(dataset: Dataset) -> None:
    if kept := dataset.jobs.exclude(deleted_at=PURGE_BEGUN).count():
        raise Conflict(
            f"{counted(kept, 'job')} used this dataset.",
            hint="Delete them for good first; those in the trash count, too.",
        )
    if dataset.jobs.exists():
        raise Conflict("Jobs that used this dataset are just being deleted.", hint="Try again in a minute.")


def datasets_purge() -> int:
    """Delete for good what was in the trash too long and no job needs; then contents nobody names. Returns how many."""
    limit = timezone.now() - timedelta(days=settings.TRASH_DAYS)
    old = Dataset.objects.filter(deleted_at__lt=limit, jobs__isnull=True)
    count = 0
    for dataset_id in list(old.values_list("pk", flat=True)):
        with transaction.atomic():  # a person may take it out of the trash, or make a job of it, meanwhile
            dataset = Dataset.objects.select_for_update().filter(pk=dataset_id, deleted_at__lt=limit).first()
            if dataset is not None and not dataset.jobs.exists():
                dataset_row_delete(dataset)
                count += 1
    return count


def content_remove(sha256: str, is_named: Callable[[str], bool]) -> bool:
    """Remove a content at once where nothing names it; False where something does, or one is being placed just now
    (then `contents_purge` comes by)."""
    folder = settings.STORE.dataset(sha256).root
    with contents_held(alone=True) as alone:
        if not sha256 or is_named(sha256) or not alone or not folder.is_dir():
            return False
        gone = _put_out_of_sight(folder)
    tree_remove(gone)
    return True


def contents_purge(keep: Iterable[str], *, older_than: timedelta = YOUNG) -> int:
    """Remove content folders that nothing names and that are older than `older_than`. Returns how many."""
    kept = set(keep)
    limit_s = (timezone.now() - older_than).timestamp()
    count = 0
    folders = settings.STORE.datasets.iterdir() if settings.STORE.datasets.is_dir() else ()
    for folder in folders:
        try:
            if folder.name not in kept:
                count += _folder_remove(folder, limit_s)
            else:
                _drafts_remove(folder, limit_s)
        except OSError as error:  # one that a disk does not give must not keep all others
            _log.warning("content %s cannot be tidied: %s", folder.name, error)
    return count


def _folder_remove(folder: Path, limit_s: float) -> bool:
    with contents_held(alone=True) as alone:
        # Whoever places a content makes its folder young; and nobody does so now.
        if not alone or not folder.is_dir() or folder.stat().st_mtime >= limit_s:
            return False
        gone = _put_out_of_sight(folder)
    tree_remove(gone)
    return True


def _put_out_of_sight(folder: Path) -> Path:
    """Move a content's folder to where the next round finds it after a kill; its new place."""
    unit_forget(f"datasets/{folder.name}")  # first: whoever is killed in between finds the folder again
    place: Path = settings.STORE.gone / f"{folder.name}-{new_id()}"
    with suppress(OSError):  # another file system: then it goes where it is
        place.parent.mkdir(parents=True, exist_ok=True)
        return folder.rename(place)
    return folder


def _drafts_remove(folder: Path, limit_s: float) -> None:
    """Readings, and copies of a source or of weights, whose process was killed."""
    for draft in (*folder.glob(f"{DRAFT_PREFIX}*"), *folder.glob("source/.*"), *folder.glob("packed/.*")):
        if draft.lstat().st_mtime < limit_s:
            tree_remove(draft) if draft.is_dir() else draft.unlink(missing_ok=True)
