"""Where the operator asks for a second factor, who has none gets no further than to the page that sets one up."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from harness.accounts.second_factor import second_factor_id
from harness.api.errors import error_response
from harness.errors import Forbidden
from harness.pages.web import asks_part, error_answer

SHOWN = "second_factor"
"""Key of a session in which a code was shown: of which app (`second_factor_id`). One that was set up since has shown
none here."""
_OPEN = frozenset({"second_factor", "second_factor_add", "login", "login_code", "logout"})


class SecondFactorMiddleware(MiddlewareMixin):
    """After `AuthenticationMiddleware`. Tokens go on: they are secrets of their own."""

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponseBase | None:
        """Refuse what is asked for by a session without a second factor that should have one."""
        if settings.SECOND_FACTOR == "nobody":
            return None
        user, match = request.user, request.resolver_match
        for_programs = request.path.startswith(("/api/", "/live"))
        if not user.is_authenticated or (settings.SECOND_FACTOR == "admins" and not user.is_superuser):
            return None
        if (match and match.url_name in _OPEN) or (for_programs and _is_by_token(request)):
            return None
        has = second_factor_id(user)
        if has and request.session.get(SHOWN) == has:
            return None
        hint = "Sign in again." if has else "Set one up on the page Second factor."
        error = Forbidden("Here people sign in with a second factor.", hint=hint)
        if for_programs:
            return error_response(error)
        if asks_part(request):
            return error_answer(request, error)
        if has:
            logout(request)
        return redirect("login" if has else "second_factor")


def _is_by_token(request: HttpRequest) -> bool:
    """Whether the session counts for nothing: the API looks at it where the header is of any other scheme."""
    return request.headers.get("Authorization", "").lower().startswith("bearer ")
