"""Addresses: the API, the live stream, the pages."""

from __future__ import annotations

from django.urls import include, path

from harness.live import live_view

urlpatterns = [
    path("live", live_view, name="live"),
    path("api/v1/", include("harness.api.urls")),
    path("", include("harness.pages.urls")),
]
