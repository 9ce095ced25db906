"""Whether a request is of anybody, asked before more of its body is taken than strangers may send."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import connections
from django.http.cookie import parse_cookie

from harness.accounts.bearer import bearer_token
from harness.accounts.selectors import token_find
from harness.database import DATABASE_AWAY
from harness.pool.joining import node_find

Scope = dict[str, Any]


async def is_known(scope: Scope) -> bool:
    """Whether its token is a person's or a node's, or its session that of somebody who is signed in.

    True while the database is away: whoever serves the request says so then.
    """
    token, session = claimed(scope)
    if token is None and session is None:
        return False
    async with ThreadSensitiveContext():  # that of the request, where it has begun: no thread more
        try:
            return await sync_to_async(_is_known)(token, session)
        finally:
            await sync_to_async(connections.close_all)()


def claimed(scope: Scope) -> tuple[str | None, str | None]:
    """(token, key of a session) that a request comes with; a token counts instead of the session."""
    headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
    for token in (bearer_token(value) for name, value in headers if name == b"authorization"):
        if token is not None:
            return token, None
    # As Django reads them, for whom one that is no cookie by the letter, of another program of this host, ends nothing.
    for cookies in (parse_cookie(value) for name, value in headers if name == b"cookie"):
        if found := cookies.get(settings.SESSION_COOKIE_NAME):
            return None, found
    return None, None


def _is_known(token: str | None, session: str | None) -> bool:
    try:
        if token is not None:
            return token_find(token) is not None or node_find(token) is not None
        return SESSION_KEY in import_module(settings.SESSION_ENGINE).SessionStore(session)
    except DATABASE_AWAY:
        return True
