"""Have a dataset fetched from a web address, try it again, give it up."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.audit import audit_write
from harness.accounts.models import Project, Role, User
from harness.broker import task_send_on_commit
from harness.datasets.safetensors_header import is_weights
from harness.datasets.uploads import upload_create, upload_delete
from harness.errors import Conflict, Invalid
from harness.fetches.models import Fetch, FetchState
from harness.fetches.names import name_of_url
from harness.fetches.rules import NO_WEIGHTS, NO_WEIGHTS_HINT, fetch_check, url_check

FETCH_TASK = "control.fetch"


def fetch_create(
    *, user: User, project: Project, url: str, name: str = "", options: dict[str, Any] | None = None
) -> Fetch:
    """Have control fetch the file at an address; `name` and `options` wait for its end.

    Raises `NotFound`, `Forbidden`, `Invalid` (an address that is not allowed, of a page that only shows the file, or of
    weights), `Conflict` where this installation fetches nothing, `TooMany`, `NoSpace`.
    """
    require(user, project, Role.MEMBER)
    fetch_check()
    url = url_check(url)
    if is_weights(name_of_url(url)):
        raise Invalid(NO_WEIGHTS, field="url", hint=NO_WEIGHTS_HINT)
    with transaction.atomic():
        upload = upload_create(
            user=user, project=project, filename=name_of_url(url), size_bytes=None, name=name, options=options
        )
        fetch = Fetch.objects.create(upload=upload, url=url)
        audit_write(user, "dataset_fetch", f"{upload.pk} {fetch.shown_url}", project=project)
        task_send_on_commit(FETCH_TASK)
    return fetch


def fetch_again(*, user: User, fetch: Fetch) -> Fetch:
    """Try one that failed once more; it goes on with what has arrived, where the server allows it.

    Raises `Conflict` where it has not failed, `NotFound`, `Forbidden`.
    """
    require(user, fetch.upload.project, Role.MEMBER)
    fetch_check()
    with transaction.atomic():
        again = Fetch.objects.filter(pk=fetch.pk, state=FetchState.FAILED).update(
            state=FetchState.WAITING, due_at=timezone.now(), begun_at=None, tries=0, restarts=0, problem=None
        )
        if not again:
            raise Conflict("This is already being fetched, or is done.", hint="Check its progress.")
        task_send_on_commit(FETCH_TASK)
    fetch.refresh_from_db()
    return fetch


def fetch_cancel(*, user: User, fetch: Fetch) -> None:
    """Give it up with what has arrived; the dataset of one that is done stays. Raises `NotFound`, `Forbidden`."""
    require(user, fetch.upload.project, Role.MEMBER)
    upload_delete(upload=fetch.upload)
