"""The API itself: one `NinjaAPI` with a router per room."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from harness.api.auth import BearerToken, SessionWithCsrf
from harness.api.errors import error_handlers_add
from harness.api.problems import WordedApi
from harness.api.query import unknown_parameters_refuse
from harness.api.routes import ROUTERS
from harness.plain import json_read

DESCRIPTION = """
Upload a dataset, get models suggested, run a generated program on the pool, watch it, download the result.

**Sign in** with `Authorization: Bearer <token>` (account page, or `dlh tokens add`), or with the portal's session
cookie plus `X-CSRFToken`. Tokens have a scope (`read`, `write`, `admin`) and may be bound to one project.
What you may not see answers 404.

**Errors** have one shape: `{"error": {"code", "message", "hint", "field", "details"}}`.
**Lists** answer `{"items": [...]}`; paged ones add `total`, `page`, `page_size`, `pages`.
**Times** are ISO 8601 in UTC; every other figure has its unit in its name. Values that are not finite are `null`.
**Uploads** speak tus 1.0 at `/uploads`.

**Live:** `GET /live?topics=job:ID,jobs` (beside `/api/v1`, with the same token) is a stream of server-sent events.
Topics are `job:ID`, `dataset:ID`, `jobs`, `datasets` and `pool`, up to 20. Each `data` is JSON with `kind`, `time_s`
(Unix time), `topic` and `data`; figures in it are totals, never increments. A stream begins five seconds back, and
its first event, `position`, carries the id of that place; with `Last-Event-ID` it continues where it broke off, without
gap or duplicate. After hours some words may be gone: `gap` of `position` says so. A comment every 15 s shows that it
lives. `broker`, with `away`, says where the portal itself hears nothing, and where it does again.
"""


class BodyParser(Parser):
    """Reads bodies that can be stored and shown again; a refusal answers 400."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The values of a JSON body. Raises `ValueError`."""
        return json_read(request.body)


api = WordedApi(
    parser=BodyParser(),
    title="Deep learning harness",
    version="1",
    description=DESCRIPTION,
    auth=[BearerToken(), SessionWithCsrf()],
    urls_namespace="api-v1",
)
error_handlers_add(api)
for _prefix, _router, _tag in ROUTERS:
    api.add_router(_prefix, _router, tags=[_tag])
unknown_parameters_refuse(api)
