"""Projects by their names, for lists to choose from that are too long for a page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from harness.errors import Invalid
from harness.pages.project_options import PROJECTS_OF, projects_found
from harness.pages.web import page, person
from harness.paging import search_check


@page("GET", "HEAD")
def project_names(request: HttpRequest) -> HttpResponseBase:
    """Slug and label of the first that hold the words `q`; `of`: those that the person sees, or may add things to."""
    of = request.GET.get("of", "see")
    if of not in PROJECTS_OF:
        raise Invalid(f"There is no such list: {of}.", field="of", hint=f"Take one of {', '.join(PROJECTS_OF)}.")
    found = projects_found(person(request), of, search_check(request.GET.get("q", ""), "q"))
    return JsonResponse({"projects": found})
