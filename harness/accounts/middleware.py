"""Notes which signed-in browsers are in use."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from harness.accounts.models import User
from harness.accounts.sessions import session_seen
from harness.accounts.signin import client_address
from harness.database import DATABASE_AWAY


def browser_seen(request: HttpRequest, user_id: Any) -> None:
    """Note the browser of a request that came with a session."""
    if request.session.session_key:
        agent, address = str(request.META.get("HTTP_USER_AGENT", "")), client_address(request)
        session_seen(user_id=int(user_id), session_key=request.session.session_key, user_agent=agent, address=address)


def signed_in(*, request: HttpRequest, user: User, **_: Any) -> None:
    """Receiver of `user_logged_in`."""
    request.session.set_expiry(None)  # who began a sign-in elsewhere before had a short one
    browser_seen(request, user.pk)


class SessionsMiddleware(MiddlewareMixin):
    """After `AuthenticationMiddleware`, which ends a session that is no longer good; requests by token have none."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Note it where the view asked who is signed in; where the database did not say, the answer tells already."""
        with suppress(*DATABASE_AWAY):
            if request.session.accessed and (user_id := request.session.get(SESSION_KEY)):
                browser_seen(request, user_id)
        return response
