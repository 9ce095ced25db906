"""Datasets from web addresses: how far they are, tried again, given up."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from harness.errors import NotFound
from harness.fetches.rules import fetch_problem, is_off
from harness.fetches.selectors import fetch_get, fetch_list
from harness.fetches.services import fetch_again, fetch_cancel
from harness.pages.web import change, page, person, show

SHOWN_MAX = 50


@page("GET", "HEAD")
def fetch_rows(request: HttpRequest) -> HttpResponseBase:
    """The person's own, as a fragment that asks for itself again while something may still arrive."""
    return show(request, "datasets/fetches.html", fetch_context(request))


def fetch_context(request: HttpRequest) -> dict[str, Any]:
    """What the fragment shows."""
    rows = list(fetch_list(user=person(request))[:SHOWN_MAX])
    off = {row.pk: fetch_problem(row) for row in rows if is_off(row)}
    return {
        "fetches": rows,
        "off": off,
        "off_problem": next(iter(off.values()), None),
        "is_open": any(row.is_open for row in rows),
        "can_fetch": settings.FETCHES_AT_ONCE > 0,
    }


@page("POST")
def fetch_act(request: HttpRequest, fetch_id: str, action: str) -> HttpResponseBase:
    """Try one again, or give it up; back to the page of uploads."""
    user = person(request)
    fetch = fetch_get(user=user, fetch_id=fetch_id)
    acts = {"again": fetch_again, "cancel": fetch_cancel}
    if action not in acts:
        raise NotFound("There is no such action.")
    done = "" if action == "again" else f"{fetch.upload.filename} is no longer being fetched."
    to = f"{reverse('dataset_upload')}?project={fetch.upload.project.slug}"
    return change(request, lambda: acts[action](user=user, fetch=fetch), done=done, to=to)
