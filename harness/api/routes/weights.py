"""Routes: weights files, which are uploaded as `/uploads` says, for jobs to start from (`model.weights` of a spec)."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import Field

from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.paging import Paging, page_body
from harness.api.schemas.base import Done, PageOf, Strict
from harness.api.schemas.weights import WeightsOut
from harness.datasets import weights
from harness.datasets.models import WeightsFile
from harness.paging import page_of

router = Router()
_COPIED = ("id", "name", "sha256", "size_bytes", "tensors", "parameters", "dtypes", "jobs_count", "created_at")


class WeightsFilters(Strict):
    """What the list of weights files may be filtered by."""

    project: str = Field("", description="Slug of a project; empty: all that the caller sees.")
    sha256: str = Field("", pattern="^([0-9a-f]{64})?$", description="Those of exactly these bytes.")


def _out(row: WeightsFile) -> dict[str, Any]:
    told = {name: getattr(row, name) for name in _COPIED}
    return {"project": row.project.slug, "owner": row.owner.username, **told}


@router.get("", response=PageOf[WeightsOut], summary="Weights files")
def weights_list(
    request: HttpRequest, filters: Annotated[WeightsFilters, Query()], paging: Annotated[Paging, Query()]
) -> dict[str, Any]:
    """Weights files that the caller sees, newest first."""
    user = person(request)
    project = project_get(user=user, slug=filters.project) if filters.project else None
    rows = weights.weights_list(user=user, project=project, sha256=filters.sha256)
    return page_body(page_of(rows, page=paging.page, page_size=paging.page_size), _out)


@router.get("/{weights_id}", response=WeightsOut, summary="A weights file")
def weights_get(request: HttpRequest, weights_id: str) -> dict[str, Any]:
    """One weights file."""
    return _out(weights.weights_get(user=person(request), weights_id=weights_id))


@router.delete("/{weights_id}", response=Done, summary="Delete a weights file")
def weights_delete(request: HttpRequest, weights_id: str) -> Done:
    """For good; refused (409) while there are jobs that start from it, those in the trash included."""
    user = person(request)
    weights.weights_delete(user=user, weights=weights.weights_get(user=user, weights_id=weights_id))
    return Done()
