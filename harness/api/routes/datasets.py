"""Routes: datasets, their profiles, rows and thumbnails."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from codegen.profile.types import DatasetProfile
from codegen.task import task_guessed
from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.document import media
from harness.api.paging import Paging, page_body
from harness.api.schemas.base import Done, PageOf, Strict
from harness.api.schemas.datasets import DatasetOut, DatasetPatch, DatasetRef, RowsOut
from harness.datasets import selectors, services
from harness.datasets.content import source_name_clean
from harness.datasets.models import Dataset, DatasetState
from harness.paging import page_of
from harness.plain import INTEGER_MAX
from harness.responses import file_response

router = Router()
THUMBNAIL_MAX_AGE_S = 24 * 3600
_COPIED = (
    *("id", "name", "state", "source_name", "source_bytes", "progress", "progress_note", "problem"),
    *("created_at", "deleted_at"),
)


class DatasetFilters(Strict):
    """What the list of datasets may be filtered by."""

    project: str = Field("", description="Slug of a project; empty: all that the caller sees.")
    query: str = Field("", max_length=200, description="Part of the name or of the file's name.")
    state: DatasetState | None = None
    deleted: bool = Field(False, description="Those in the trash instead.")
    bytes_sha256: str = Field(
        "",
        pattern="^([0-9a-f]{64})?$",
        description="With `filename`: those made of exactly this file, with whatever options it is read.",
    )
    filename: str = Field("", max_length=255)


def task_of(profile: dict[str, Any]) -> str | None:
    """The task that is guessed: of rows that may be a series by more than the target."""
    if not profile.get("series"):
        return profile.get("task")
    task, _ = task_guessed(DatasetProfile.from_dict(profile))
    return str(task) or None


def dataset_out(dataset: Dataset, same: Iterable[Dataset] = ()) -> DatasetOut:
    """A dataset as the API shows it; `same`: earlier ones of the same bytes."""
    profile = dataset.profile or {}
    return DatasetOut(
        project=dataset.project.slug,
        owner=dataset.owner.username,
        kind=profile.get("kind"),
        rows=profile.get("rows"),
        task=task_of(profile),
        target=profile.get("target"),
        target_reason=profile.get("target_reason") or "",
        notes=selectors.target_notes(dataset),
        same_as=[DatasetRef(id=one.pk, name=one.name) for one in same],
        options={name: value for name, value in dataset.options.items() if name != "target_guess"},  # nobody set it
        **{name: getattr(dataset, name) for name in _COPIED},
    )


@router.get("", response=PageOf[DatasetOut], summary="Datasets")
def dataset_list(
    request: HttpRequest, filters: Annotated[DatasetFilters, Query()], paging: Annotated[Paging, Query()]
) -> dict[str, Any]:
    """Datasets that the caller sees, newest first."""
    user = person(request)
    project = project_get(user=user, slug=filters.project) if filters.project else None
    rows = selectors.dataset_list(user=user, project=project, query=filters.query, deleted=filters.deleted)
    if filters.state:
        rows = rows.filter(state=filters.state)
    if filters.bytes_sha256:
        rows = selectors.datasets_of_bytes(rows, filters.bytes_sha256, source_name_clean(filters.filename))
    return page_body(page_of(rows, page=paging.page, page_size=paging.page_size), dataset_out)


@router.get("/{dataset_id}", response=DatasetOut, summary="A dataset")
def dataset_get(request: HttpRequest, dataset_id: str) -> DatasetOut:
    """One dataset, in the trash or not."""
    dataset = selectors.dataset_get(user=person(request), dataset_id=dataset_id)
    return dataset_out(dataset, selectors.datasets_same(dataset))


@router.patch("/{dataset_id}", response=DatasetOut, summary="Change a dataset")
def dataset_update(request: HttpRequest, dataset_id: str, body: DatasetPatch) -> DatasetOut:
    """Rename it, or have it read anew with other column types, target, delimiter or encoding."""
    user = person(request)
    dataset = selectors.dataset_get(user=user, dataset_id=dataset_id)
    return dataset_out(services.dataset_update(user=user, dataset=dataset, **body.model_dump(exclude_none=True)))


@router.delete("/{dataset_id}", response=Done, summary="Delete a dataset")
def dataset_delete(request: HttpRequest, dataset_id: str) -> Done:
    """Move it to the trash, from where it can be restored for two weeks."""
    user = person(request)
    services.dataset_delete(user=user, dataset=selectors.dataset_get(user=user, dataset_id=dataset_id))
    return Done()


@router.post("/{dataset_id}/restore", response=DatasetOut, summary="Restore a dataset")
def dataset_restore(request: HttpRequest, dataset_id: str) -> DatasetOut:
    """Take it out of the trash."""
    user = person(request)
    dataset = selectors.dataset_get(user=user, dataset_id=dataset_id)
    services.dataset_restore(user=user, dataset=dataset)
    return dataset_out(dataset)


@router.get("/{dataset_id}/profile", response=dict[str, Any], summary="Profile of a dataset")
def dataset_profile(request: HttpRequest, dataset_id: str) -> dict[str, Any]:
    """Types, missing values, balance, warnings with what they mean for training. 409 until it has been read."""
    dataset = selectors.dataset_get(user=person(request), dataset_id=dataset_id)
    return selectors.dataset_profile(dataset).to_dict()


@router.get("/{dataset_id}/rows", response=RowsOut, summary="Rows of a dataset")
def dataset_rows(
    request: HttpRequest,
    dataset_id: str,
    offset: Annotated[int, Query(ge=0, le=INTEGER_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=selectors.ROWS_MAX)] = 50,
) -> dict[str, Any]:
    """Rows as they were understood, from `offset` (0-based)."""
    dataset = selectors.dataset_get(user=person(request), dataset_id=dataset_id)
    return selectors.dataset_rows(dataset, offset=offset, limit=limit)


@router.api_operation(
    ["GET", "HEAD"], "/{dataset_id}/thumbnails/{name}", summary="A thumbnail", openapi_extra=media("image/*")
)
def dataset_thumbnail(request: HttpRequest, dataset_id: str, name: str) -> HttpResponseBase:
    """One small picture that the profile names."""
    dataset = selectors.dataset_get(user=person(request), dataset_id=dataset_id)
    path = selectors.dataset_thumbnail(dataset, name)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    response = file_response(request, path, filename=path.name, content_type=kind, inline=kind.startswith("image/"))
    response["Cache-Control"] = f"private, max-age={THUMBNAIL_MAX_AGE_S}"
    return response
