"""Weights files of all the person's projects."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from harness.datasets.weights import weights_deletable, weights_delete, weights_get, weights_list
from harness.pages.web import change, page, person, show

PAGE_SIZE = 30


@page("GET", "HEAD")
def weights_index(request: HttpRequest) -> HttpResponseBase:
    """What there is, how much it holds, and how many jobs start from it."""
    user = person(request)
    rows = Paginator(weights_list(user=user), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"rows": rows, "deletable": weights_deletable(user=user, rows=rows)}
    return show(request, "datasets/weights.html", context, nav="datasets")


@page("POST")
def weights_remove(request: HttpRequest, weights_id: str) -> HttpResponseBase:
    """Delete one for good."""
    user = person(request)
    weights = weights_get(user=user, weights_id=weights_id)
    done, to = f"{weights.name} is deleted for good.", reverse("weights_files")
    return change(request, lambda: weights_delete(user=user, weights=weights), done=done, to=to)
