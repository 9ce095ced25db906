"""The page that explains the modes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from harness.pages.modes_view import mode_charts, modes_context
from harness.pages.web import chart_csv, page, show


@page("GET", "HEAD")
def modes(request: HttpRequest) -> HttpResponseBase:
    """What each mode does, with measured pictures: for everybody who is signed in."""
    return show(request, "modes/page.html", modes_context(), nav="modes")


@page("GET", "HEAD")
def modes_chart(request: HttpRequest, name: str) -> HttpResponseBase:
    """Figures of one chart of that page."""
    return chart_csv(request, mode_charts(), name)
