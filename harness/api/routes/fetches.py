"""Routes: datasets from web addresses, fetched by control."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from harness.accounts.selectors import project_chosen
from harness.api.auth import person
from harness.api.schemas.base import Done, Items
from harness.api.schemas.fetches import FetchIn, FetchOut
from harness.fetches import selectors, services
from harness.fetches.models import Fetch, FetchState
from harness.fetches.rules import fetch_problem, is_off

router = Router()
_SHOWN_MAX = 200


def fetch_out(fetch: Fetch) -> FetchOut:
    """A fetch as the API shows it."""
    upload, off = fetch.upload, is_off(fetch)
    return FetchOut(
        id=upload.pk,
        url=fetch.shown_url,
        filename=upload.filename,
        project=upload.project.slug,
        state=FetchState(fetch.state),
        offset_bytes=upload.offset_bytes,
        total_bytes=fetch.total_bytes,
        rate_bytes_s=0.0 if off else fetch.rate_bytes_s,
        left_s=None if off else fetch.left_s,
        problem=fetch_problem(fetch),
        due_at=fetch.due_at,
        dataset=upload.dataset_id,
        created_at=upload.created_at,
    )


@router.post("", response={201: FetchOut}, summary="Fetch a dataset from a web address")
def fetch_create(request: HttpRequest, body: FetchIn) -> Status[FetchOut]:
    """Control fetches it in the background. 422 `share_page`: the page of a file, not the file; its `details` may hold
    the `direct_url`."""
    user = person(request)
    project = project_chosen(user=user, slug=body.project)
    made = services.fetch_create(user=user, project=project, url=body.url, name=body.name, options=body.options)
    return Status(201, fetch_out(made))


@router.get("", response=Items[FetchOut], summary="Fetches")
def fetches(request: HttpRequest) -> dict[str, Any]:
    """One's own, newest first: what has not become a dataset, and what has within the last hour."""
    rows = selectors.fetch_list(user=person(request))[:_SHOWN_MAX]
    return {"items": [fetch_out(row) for row in rows]}


@router.get("/{fetch_id}", response=FetchOut, summary="A fetch")
def fetch_get(request: HttpRequest, fetch_id: str) -> FetchOut:
    """How far it is, and the dataset it has become."""
    return fetch_out(selectors.fetch_get(user=person(request), fetch_id=fetch_id))


@router.post("/{fetch_id}/again", response=FetchOut, summary="Try a fetch again")
def fetch_again(request: HttpRequest, fetch_id: str) -> FetchOut:
    """Of one that has failed: goes on with what has arrived, where the server allows it."""
    user = person(request)
    return fetch_out(services.fetch_again(user=user, fetch=selectors.fetch_get(user=user, fetch_id=fetch_id)))


@router.delete("/{fetch_id}", response=Done, summary="Give a fetch up")
def fetch_delete(request: HttpRequest, fetch_id: str) -> Done:
    """What has arrived goes; the dataset of one that is done stays."""
    user = person(request)
    services.fetch_cancel(user=user, fetch=selectors.fetch_get(user=user, fetch_id=fetch_id))
    return Done()
