"""Routes: what projects take of the disk, their quotas, and what is deleted for good."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Router

from harness.accounts.access import require_admin
from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.schemas.base import Done, Items
from harness.api.schemas.storage import PurgeIn, StorageDetail, StorageItemOut, StorageOut, StorageQuotaIn
from harness.datasets.purging import dataset_purge
from harness.datasets.selectors import dataset_get
from harness.jobs.selectors import job_get
from harness.jobs.services import job_purge
from harness.storage import quotas
from harness.storage.items import storage_items
from harness.storage.use import ProjectStorage, storage_of, storage_rows

router = Router()
_USE = ("used_bytes", "dataset_bytes", "checkpoint_bytes", "result_bytes", "other_bytes", "upload_bytes")


def _out(row: ProjectStorage) -> dict[str, Any]:
    told = {name: getattr(row, name) for name in ("limit_bytes", "is_default", "is_over")}
    return {"project": row.project.slug, **told, **{name: getattr(row.use, name) for name in _USE}}


@router.get("/pool/storage", response=Items[StorageOut], summary="Storage by project")
def storage_list(request: HttpRequest) -> dict[str, Any]:
    """What the projects that the caller sees take of the disk, the largest first."""
    return {"items": [_out(row) for row in storage_rows(user=person(request))]}


@router.put("/pool/storage/{slug}", response=Done, summary="Set a storage quota")
def storage_quota_set(request: HttpRequest, slug: str, body: StorageQuotaIn) -> Done:
    """How many bytes a project may take. Nothing is deleted, and what runs goes on. For admins."""
    user = person(request)
    require_admin(user)
    quotas.storage_quota_set(user=user, project=project_get(user=user, slug=slug), limit_bytes=body.limit_bytes)
    return Done()


@router.delete("/pool/storage/{slug}", response=Done, summary="Remove a storage quota")
def storage_quota_remove(request: HttpRequest, slug: str) -> Done:
    """The installation's default holds again. For admins."""
    user = person(request)
    require_admin(user)
    quotas.storage_quota_remove(user=user, project=project_get(user=user, slug=slug))
    return Done()


@router.get("/projects/{slug}/storage", response=StorageDetail, summary="Storage of a project")
def project_storage(request: HttpRequest, slug: str) -> dict[str, Any]:
    """What a project takes of the disk, and its largest things: which of them may be deleted, and what keeps others."""
    user = person(request)
    project = project_get(user=user, slug=slug)
    items = storage_items(user=user, project=project)
    told = [{name: getattr(item, name) for name in StorageItemOut.model_fields} for item in items]
    return {**_out(storage_of(project)), "items": told}


@router.post("/datasets/{dataset_id}/purge", response=Done, summary="Delete a dataset for good")
def dataset_delete_for_good(
    request: HttpRequest, dataset_id: str, body: Annotated[PurgeIn | None, Body()] = None
) -> Done:
    """One in the trash, or any with `at_once`, of which no job was made (409 else). Cannot be undone."""
    user, at_once = person(request), body.at_once if body else False
    dataset_purge(user=user, dataset=dataset_get(user=user, dataset_id=dataset_id), at_once=at_once)
    return Done()


@router.post("/jobs/{job_id}/purge", response=Done, summary="Delete a job for good")
def job_delete_for_good(request: HttpRequest, job_id: str) -> Done:
    """One in the trash (409 else), with its program, checkpoints and results. Cannot be undone."""
    user = person(request)
    job_purge(user=user, job=job_get(user=user, job_id=job_id))
    return Done()
