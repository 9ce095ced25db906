"""Conditional answers where a version is known without making the body."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from ninja.responses import NinjaJSONEncoder


def json_if_changed(request: HttpRequest, version: str, make: Callable[[], Any]) -> HttpResponseBase:
    """304 where the caller holds this version already, else the made body with its ETag."""
    etag = quote_etag(version)
    answer = get_conditional_response(request, etag=etag)
    if answer is None:
        body = json.dumps(make(), cls=NinjaJSONEncoder, allow_nan=False)
        answer = HttpResponse(body, content_type="application/json; charset=utf-8")
    answer["ETag"] = etag
    answer["Cache-Control"] = "private, no-cache"
    return answer
