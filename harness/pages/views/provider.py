"""Sign-in by the identity provider: the way there, the way back, and the link of an account that is there already.

Both ways are GET: the policy of the pages lets no form lead to another host. What a way back may do was decided, and is
kept in the session, when it began.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from harness.accounts.identities import (
    address_obstacle,
    identity_link,
    identity_of,
    identity_prove,
    identity_signin,
    identity_unlink,
)
from harness.accounts.models import User
from harness.accounts.provider import Way, answer_check, code_redeem, way_address
from harness.accounts.signin import client_address, signin_failed, signin_wait
from harness.env_oidc import OidcSettings
from harness.errors import Forbidden, HarnessError, NotFound, TooMany, Unavailable
from harness.pages.signin_forms import PasswordForm, minutes
from harness.pages.signin_wanted import BY_PROVIDER, PROVEN
from harness.pages.views.account import SignIn, account_page
from harness.pages.web import change, form_page, next_address, page, person

BACKEND = "django.contrib.auth.backends.ModelBackend"
WAY_S = 600
"""So long people may take at the provider."""
LINK_S = 300.0
"""So long a password that was typed lets its person go and link."""
_WAY = "provider_way"
_MAY_LINK = "provider_may_link"
_NOT_BEGUN = "not_begun_here"


def _oidc() -> OidcSettings:
    oidc: OidcSettings | None = settings.OIDC
    if oidc is None:
        raise NotFound("This installation has no identity provider.", hint="Sign in with your password.")
    return oidc


def _back() -> str:
    return f"{settings.PORTAL_URL}{reverse('provider_back')}"


def _wait_check(request: HttpRequest) -> None:
    wait = signin_wait(name=None, address=client_address(request))
    if wait is not None:
        raise TooMany("Too many refused sign-ins from your address.", hint=f"Try again in {minutes(wait)} min.")


def _sent_there(request: HttpRequest, *, to: str, links: int | None = None, proves: int | None = None) -> HttpResponse:
    """On to the provider; `links`: whose account the answer shall be linked to; `proves`: who shall show that it is
    they."""
    way = Way.make()
    address = way_address(_oidc(), way, back=_back(), anew=proves is not None)
    request.session[_WAY] = {**asdict(way), "to": to, "links": links, "proves": proves, "at": time.time()}
    if not request.user.is_authenticated:
        request.session.set_expiry(WAY_S)  # whoever turns around leaves nothing behind for long
    return redirect(address)


@never_cache
@require_http_methods(["GET"])
def provider_start(request: HttpRequest) -> HttpResponseBase:
    """To the provider, and with its word into the portal."""
    to = next_address(request)
    if request.user.is_authenticated:
        return redirect(to or reverse("home"))
    try:
        _wait_check(request)
        return _sent_there(request, to=to)
    except HarnessError as error:
        return _refused(request, error, to)


@never_cache
@require_http_methods(["GET"])
def provider_back(request: HttpRequest) -> HttpResponseBase:
    """The provider's answer: good once, in the browser that asked, for what it asked for."""
    kept = request.session.pop(_WAY, None)
    to = str(kept["to"]) if kept else ""
    try:
        _wait_check(request)
        return _arrived(request, kept, to)
    except HarnessError as error:
        # What another page may send a browser to counts against nobody.
        if error.code != _NOT_BEGUN and not isinstance(error, TooMany | Unavailable):
            signin_failed(name="", address=client_address(request))
        if request.user.is_authenticated:
            messages.error(request, error.message, extra_tags=error.hint)
            return redirect("account")
        return _refused(request, error, to)


def _arrived(request: HttpRequest, kept: dict[str, Any] | None, to: str) -> HttpResponseBase:
    oidc = _oidc()
    state = request.GET.get("state", "")
    if kept is None or not constant_time_compare(state, kept["state"]) or not 0 <= time.time() - kept["at"] <= WAY_S:
        raise Forbidden(
            "This sign-in was not begun in this browser, took too long, or is over already.",
            hint=f"Start again at {settings.PORTAL_URL}{reverse('login')}.",
            code=_NOT_BEGUN,
        )
    way = Way(state=kept["state"], nonce=kept["nonce"], verifier=kept["verifier"])
    code = answer_check(oidc, request.GET.dict())
    if kept["links"] is not None:
        user = _who_began(request, kept["links"])
        identity_link(user=user, told=code_redeem(oidc, way, code=code, back=_back()), oidc=oidc)
        messages.success(request, "Your account is linked. From now on you can sign in by the identity provider.")
        return redirect("account")
    if kept["proves"] is not None:
        user = _who_began(request, kept["proves"])
        identity_prove(user=user, told=code_redeem(oidc, way, code=code, back=_back()), since=kept["at"])
        request.session[PROVEN] = {"user": user.pk, "at": time.time()}
        return redirect("account_end")
    if request.user.is_authenticated:
        return redirect(to or reverse("home"))
    told = code_redeem(oidc, way, code=code, back=_back())
    user = identity_signin(told=told, oidc=oidc)
    request.session.flush()  # nothing of before: neither its key nor half a sign-in by password
    login(request, user, backend=BACKEND)
    request.session[BY_PROVIDER] = oidc.issuer
    if told.email and told.email != user.email:
        obstacle = address_obstacle(user, told.email)
        hint = "Tell an admin of this installation."
        messages.warning(request, f"Your address at the provider, {told.email}, was not taken over: {obstacle}.", hint)
    return redirect(to or reverse("home"))


def _who_began(request: HttpRequest, user_id: int) -> User:
    user = request.user
    if not isinstance(user, User) or user.pk != user_id:
        raise Forbidden("You are no longer signed in as who began this.", hint="Sign in and begin it again.")
    return user


def _refused(request: HttpRequest, error: HarnessError, to: str) -> HttpResponseBase:
    """The page of the sign-in, which says what went wrong and what to do."""
    view = SignIn()
    view.setup(request)
    context = view.get_context_data(form=view.authentication_form(request), refusal=error)
    return view.render_to_response({**context, "next": to}, status=error.status)


@form_page("account")
def provider_link(request: HttpRequest) -> HttpResponseBase:
    """The password once more, after which the page Account leads to the provider."""
    _oidc()
    form = PasswordForm(request, request.POST, prefix="link")
    if not form.is_valid():
        return account_page(request, link_form=form, status=422)
    request.session[_MAY_LINK] = {"user": person(request).pk, "at": time.time()}
    return account_page(request, may_link=True)


@page("GET")
def provider_go(request: HttpRequest) -> HttpResponseBase:
    """To the provider, to link the account of who has typed their password a moment ago."""
    user = person(request)
    allowed = request.session.pop(_MAY_LINK, None)
    if not allowed or allowed["user"] != user.pk or not 0 <= time.time() - allowed["at"] <= LINK_S:
        messages.error(request, "The link needs your password first.", extra_tags="Type it and go on within 5 min.")
        return redirect("account")
    try:
        _wait_check(request)
        return _sent_there(request, to="", links=user.pk)
    except HarnessError as error:
        messages.error(request, error.message, extra_tags=error.hint)
        return redirect("account")


@page("GET")
def provider_again(request: HttpRequest) -> HttpResponseBase:
    """To the provider, to sign in there once more before the account is deleted."""
    try:
        _wait_check(request)
        return _sent_there(request, to="", proves=person(request).pk)
    except HarnessError as error:
        messages.error(request, error.message, extra_tags=error.hint)
        return redirect("account")


@form_page("account")
def provider_unlink(request: HttpRequest) -> HttpResponseBase:
    """Remove the link, by the password."""
    oidc = _oidc()
    form = PasswordForm(request, request.POST, prefix="unlink")
    if not form.is_valid():
        return account_page(request, unlink_form=form, status=422)

    def unlink() -> None:
        identity_unlink(
            actor=person(request), user=person(request), oidc=oidc, keep_session=request.session.session_key
        )
        # What a password asks for besides, a second factor, was never shown in this session.
        request.session.pop(BY_PROVIDER, None)

    link = identity_of(person(request), oidc)
    lost = " You are no longer an admin of the installation." if link and link.makes_admin else ""
    done = f"The link is removed.{lost} You now sign in with your password."
    return change(request, unlink, done=done, to=reverse("account"))
