"""Addresses of the API. Wrong methods and unknown paths answer in the one error shape too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import URLPattern, include, path, re_path
from django.views.decorators.csrf import csrf_exempt

from harness.api.app import api
from harness.api.errors import error_response, plain_error
from harness.api.limits import body_limit, too_large

View = Callable[..., HttpResponseBase]


def _guarded(view: View) -> View:
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        limit = body_limit(request.path)
        length = request.META.get("CONTENT_LENGTH") or "0"
        if str(length).isdigit() and int(length) > limit:
            return error_response(too_large(limit))
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            return _unknown(request)
        if response.status_code == 405 and response["Content-Type"] != "application/json":
            allowed = response["Allow"]
            answer = plain_error(405, f"{request.method} is not allowed here.", hint=f"Use one of: {allowed}.")
            answer["Allow"] = allowed
            return answer
        return response

    return guarded


@csrf_exempt
def _unknown(request: HttpRequest) -> HttpResponseBase:
    return plain_error(404, "The API has no such endpoint.", hint="See /api/v1/docs for all of them.")


_patterns, _app_name, _namespace = api.urls
for _pattern in _patterns:
    if isinstance(_pattern, URLPattern):
        _pattern.callback = _guarded(_pattern.callback)

urlpatterns = [
    path("", include((_patterns, _app_name), namespace=_namespace)),
    re_path(r"^.*$", _unknown),
]
