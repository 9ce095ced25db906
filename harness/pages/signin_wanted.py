"""What people have to do before anything else: choose a password of their own where somebody else set it, and set up a
second factor where the operator asks for one. Until then they get no further than to the page for it."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from harness.accounts.bearer import bearer_token
from harness.accounts.identities import may_use_password
from harness.accounts.models import User
from harness.accounts.second_factor import second_factor_id
from harness.api.errors import error_response
from harness.database import DATABASE_AWAY
from harness.errors import Forbidden
from harness.pages.web import asks_part, error_answer
from harness.trouble import trouble_page

SHOWN = "second_factor"
"""Key of a session in which a code was shown: of which app (`second_factor_id`). One that was set up since has shown
none here."""
BY_PROVIDER = "by_provider"
"""Key of a session that an identity provider's sign-in began: of which issuer. It counts in place of password and
second factor as long as that provider does."""
PROVEN = "proven_by_provider"
"""Key of a session in which the provider's sign-in was repeated, as others type their password again: by whom, when."""
PROVEN_S = 300.0
"""So long it counts."""
_OPEN = frozenset({"login", "login_code", "logout", "provider_start", "provider_back"})
_SETTING_UP = frozenset({"second_factor", "second_factor_add"})
_PASSWORD = "password_change"  # noqa: S105  (a page's name)


class SignInMiddleware(MiddlewareMixin):
    """After `AuthenticationMiddleware`. Tokens go on: they are secrets of their own."""

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponseBase | None:
        """Refuse what is asked for by a session of which something else is wanted first."""
        name = request.resolver_match.url_name if request.resolver_match else None
        if name in _OPEN or (_for_programs(request) and _is_by_token(request)):
            return None
        try:
            user = request.user
            return _held(request, user, name or "") if isinstance(user, User) else None
        except DATABASE_AWAY as error:  # here nobody else turns it into words
            answer = trouble_page(request, error)
            if answer is None:
                raise
            return answer


def is_proven_by_provider(request: HttpRequest, user: User) -> bool:
    """Whether the person signed in at the identity provider again a moment ago."""
    proof = request.session.get(PROVEN)
    return proof is not None and proof["user"] == user.pk and 0 <= time.time() - proof["at"] <= PROVEN_S


def _held(request: HttpRequest, user: User, name: str) -> HttpResponseBase | None:
    if issuer := request.session.get(BY_PROVIDER):
        if settings.OIDC and issuer == settings.OIDC.issuer:
            return None
        return _refused(request, "The identity provider that you signed in by counts no longer.", _AGAIN, "login")
    if settings.OIDC and settings.OIDC.emergency_admin and not may_use_password(user, settings.OIDC):
        return _refused(request, _ENDED, f"Sign in by the identity provider: {settings.OIDC.label}.", "login")
    wants_factor = settings.SECOND_FACTOR == "all" or (settings.SECOND_FACTOR == "admins" and user.is_superuser)
    factor = second_factor_id(user) if wants_factor else ""
    if factor and request.session.get(SHOWN) != factor and name not in _SETTING_UP:
        return _refused(request, _FACTOR, _AGAIN, "login")
    if user.must_change_password:
        return None if name == _PASSWORD else _refused(request, _SET_BY_OTHERS, _CHOOSE, _PASSWORD)
    if wants_factor and not factor and name not in _SETTING_UP:
        return _refused(request, _FACTOR, "Set one up on the page Second factor.", "second_factor")
    return None


_AGAIN = "Sign in again."
_ENDED = "Sign-ins by password have ended here."
_FACTOR = "Here people sign in with a second factor."
_SET_BY_OTHERS = "Somebody else set your password."
_CHOOSE = "Load the page again and choose one that only you know; API tokens work as before."


def _refused(request: HttpRequest, message: str, hint: str, to: str) -> HttpResponseBase:
    """A page is sent on to the one that is wanted, which leads back; all else is told in words."""
    error = Forbidden(message, hint=hint)
    if _for_programs(request):
        return error_response(error)
    if asks_part(request):
        return error_answer(request, error)
    if to == "login":
        logout(request)
        messages.error(request, message, extra_tags=hint)
    back = request.get_full_path()
    leads_back = to == _PASSWORD and request.method in ("GET", "HEAD") and back != reverse("home")
    return redirect(f"{reverse(to)}?{urlencode({'next': back})}" if leads_back else reverse(to))


def _for_programs(request: HttpRequest) -> bool:
    return request.path.startswith(("/api/", "/live"))


def _is_by_token(request: HttpRequest) -> bool:
    """Whether the session counts for nothing: the API looks at it where the header is of any other scheme."""
    return bearer_token(request.headers.get("Authorization", "")) is not None
