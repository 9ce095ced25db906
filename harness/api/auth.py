"""Who calls: a bearer token, or the session of a browser with its CSRF token. The person becomes `request.user`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.errors import AuthenticationError
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from harness.accounts.access import require_write
from harness.accounts.bearer import bearer_token
from harness.accounts.models import User
from harness.accounts.selectors import token_find
from harness.errors import Forbidden
from harness.pool.joining import node_find
from harness.pool.models import Node

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class _Bearer(HttpBearer):
    def __call__(self, request: HttpRequest) -> Any:
        """What `authenticate` says of the token; None where there is none."""
        token = bearer_token(request.headers.get("Authorization", ""))
        return None if token is None else self.authenticate(request, token)


class BearerToken(_Bearer):
    """`Authorization: Bearer dlh_...`; a wrong token never falls back to a cookie."""

    openapi_description = "A token made on the page *Account* or by `dlh tokens add`."

    def authenticate(self, request: HttpRequest, token: str) -> User:
        """The token's person. Raises `AuthenticationError`; `Forbidden` for a read token that would write."""
        found = token_find(token)
        if found is None:
            raise AuthenticationError(message="This token is unknown, has expired or was revoked.")
        user = found.user
        user.api_token = found  # type: ignore[attr-defined]
        request.user = user
        if request.method not in SAFE_METHODS:
            require_write(user)
        return user


class SessionWithCsrf(APIKeyCookie):
    """The cookie of a signed-in browser; methods that change something need the header `X-CSRFToken`."""

    param_name = settings.SESSION_COOKIE_NAME
    openapi_description = (
        "The portal's session cookie; send the CSRF cookie's value as `X-CSRFToken` with every change."
    )

    def __init__(self) -> None:
        super().__init__(csrf=True)

    def __call__(self, request: HttpRequest) -> User | None:
        """The signed-in person, None for nobody. Raises `Forbidden` where the CSRF token is missing."""
        if not request.user.is_authenticated:
            return None
        if check_csrf(request):
            raise Forbidden(
                "The CSRF token is missing or wrong.",
                hint="Load the page again; programs should use an API token instead.",
                code="csrf",
            )
        return request.user

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        """Unused: the session has been read by Django."""
        return self(request)


class NodeSecret(_Bearer):
    """`Authorization: Bearer dlhn_...`: a joined node speaks for itself, and for nobody else."""

    openapi_description = "What a machine got when it joined the pool (`dlh node join`)."

    def authenticate(self, request: HttpRequest, token: str) -> Node:
        """The node. Raises `AuthenticationError`."""
        node = node_find(token)
        if node is None:
            raise AuthenticationError(message="This is not a node of the pool.")
        return node


def person(request: HttpRequest) -> User:
    """The authenticated person of an API request; the token, if any, is bound to it."""
    user = request.user
    if not isinstance(user, User):
        raise AuthenticationError
    return user
