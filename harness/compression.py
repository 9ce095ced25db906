"""Pages and JSON sent compressed. Static files lie compressed beside themselves, made when they are bundled."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware

TYPES = ("text/html", "application/json")


class CompressionMiddleware(GZipMiddleware):
    """Django's own, for pages and JSON that are whole.

    Left alone are streams (files with `Range`, live words) and what must not be stored, which holds secrets: the length
    of a compressed answer may tell what is in it to somebody who has a person's browser ask again and again (BREACH).
    Of the others no length tells anything: Django masks the one secret in a page, the token of its forms, anew in each
    answer, and its middleware adds a random number of bytes.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """The answer, smaller where that is safe and pays."""
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        if response.streaming or kind not in TYPES or "no-store" in response.headers.get("Cache-Control", ""):
            return response
        return super().process_response(request, response)
