"""What a person has had fetched."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.access import require, visible_projects
from harness.accounts.models import Role, User
from harness.datasets.models import Upload
from harness.errors import NotFound
from harness.fetches.models import Fetch, FetchState

DONE_SHOWN = timedelta(hours=1)


def fetch_list(*, user: User) -> QuerySet[Fetch]:
    """The person's own, newest first: what is not done, and what was done a short while ago."""
    young = Q(upload__updated_at__gt=timezone.now() - DONE_SHOWN)
    rows = Fetch.objects.filter(upload__owner=user, upload__project__in=visible_projects(user))
    rows = rows.filter(~Q(state=FetchState.DONE) | young)
    return rows.select_related("upload__project", "upload__dataset").order_by("-upload__created_at", "pk")


def is_fetched(upload: Upload) -> bool:
    """Whether its bytes come from a web address."""
    return Fetch.objects.filter(pk=upload.pk).exists()


def fetch_get(*, user: User, fetch_id: str) -> Fetch:
    """One of the person's own. Raises `NotFound`, `Forbidden`."""
    rows = Fetch.objects.select_related("upload__project", "upload__owner", "upload__dataset")
    fetch = rows.filter(pk=fetch_id, upload__owner=user).first()
    if fetch is None:
        raise NotFound("There is no such fetch, or it was given up.", hint="Give the address again.")
    require(user, fetch.upload.project, Role.MEMBER)
    return fetch
