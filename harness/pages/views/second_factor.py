"""The second step of a sign-in, and the page that sets up one's app, makes recovery codes, and removes it."""

from __future__ import annotations

import time
from urllib.parse import urlencode

import segno
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from harness.accounts.models import User
from harness.accounts.second_factor import (
    key_address,
    key_make,
    key_words,
    recovery_codes_left,
    recovery_codes_renew,
    second_factor_get,
    second_factor_id,
    second_factor_remove,
    second_factor_set,
    second_factor_verify,
    second_factor_wait,
)
from harness.accounts.signin import client_address, signin_succeeded
from harness.errors import Conflict, Invalid, NotFound
from harness.pages.signin_forms import CodeForm, PasswordForm, SecondFactorForm
from harness.pages.signin_wanted import SHOWN
from harness.pages.web import form_page, next_address, page, person, show
from worker.words import duration_words

BACKEND = "django.contrib.auth.backends.ModelBackend"
HALF_S = 600.0
"""So long a right password waits for its code."""
_HALF = "sign_in_half_way"
_KEY = "second_factor_key"


def half_way(request: HttpRequest, user: User, to: str) -> HttpResponse:
    """The password was right: ask for the code. Nobody is signed in before it was shown."""
    request.session.cycle_key()
    request.session[_HALF] = {"user": user.pk, "hash": user.get_session_auth_hash(), "at": time.time()}
    return redirect(f"{reverse('login_code')}?{urlencode({'next': to})}")


def _half_way(request: HttpRequest) -> User | None:
    """Who gave the right password in this browser a short while ago; a new password since then undoes that."""
    kept = request.session.get(_HALF)
    if not kept or not 0 <= time.time() - kept["at"] <= HALF_S:
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    return user if user and constant_time_compare(kept["hash"], user.get_session_auth_hash()) else None


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def login_code(request: HttpRequest) -> HttpResponse:
    """The code of the app, or a recovery code; 429 while a wrong one before must wait."""
    user = _half_way(request)
    if user is None:
        return redirect("login")
    form = CodeForm(request.POST or None)
    wait = second_factor_wait(user)
    wait_words = duration_words(wait.total_seconds(), up=True) if wait else ""
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/login_code.html", {"form": form, "wait": wait_words})
    if not second_factor_verify(user=user, code=form.cleaned_data["code"]):
        context = {"form": form, "wait": wait_words, "wrong": wait is None}
        return render(request, "accounts/login_code.html", context, status=429 if wait else 200)
    del request.session[_HALF]
    signin_succeeded(name=user.username, address=client_address(request))
    login(request, user, backend=BACKEND)
    request.session[SHOWN] = second_factor_id(user)
    return redirect(next_address(request) or reverse("home"))


@page("GET", "HEAD")
def second_factor(request: HttpRequest) -> HttpResponseBase:
    """Where the person stands, and what can be done about it."""
    return _shown(request)


def _shown(
    request: HttpRequest,
    *,
    form: SecondFactorForm | None = None,
    renew_form: PasswordForm | None = None,
    remove_form: PasswordForm | None = None,
    codes: list[str] | None = None,
    status: int = 200,
) -> HttpResponseBase:
    user = person(request)
    device = second_factor_get(user)
    if device:
        context = {
            "device": device,
            "codes": codes,
            "left": recovery_codes_left(user),
            "renew_form": renew_form or PasswordForm(request, prefix="renew"),
            "remove_form": remove_form or PasswordForm(request, prefix="remove"),
        }
    else:
        key = request.session.setdefault(_KEY, key_make())
        picture = segno.make(key_address(user, key), error="m", micro=False)
        drawn = picture.svg_inline(scale=4, border=4, omitsize=True, dark="#000", light="#fff")
        context = {"form": form or SecondFactorForm(request), "key": key_words(key), "picture": drawn}
    response = show(request, "accounts/second_factor.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


@form_page("second_factor")
def second_factor_add(request: HttpRequest) -> HttpResponseBase:
    """Switch it on; the recovery codes are in this answer and nowhere else."""
    form = SecondFactorForm(request, request.POST)
    key = request.session.get(_KEY)
    if key is None:
        return redirect("second_factor")
    if not form.is_valid():
        return _shown(request, form=form, status=422)
    session, code = request.session, form.cleaned_data["code"]
    try:
        codes = second_factor_set(user=person(request), key=key, code=code, keep_session=session.session_key)
    except Invalid as error:
        form.add_error("code", f"{error.message} {error.hint}")
        return _shown(request, form=form, status=422)
    except Conflict as error:
        messages.error(request, error.message, extra_tags=error.hint)
        return redirect("second_factor")
    del session[_KEY]
    session[SHOWN] = second_factor_id(person(request))
    return _shown(request, codes=codes)


@form_page("second_factor")
def second_factor_end(request: HttpRequest) -> HttpResponseBase:
    """Remove it, by the password."""
    form = PasswordForm(request, request.POST, prefix="remove")
    if not form.is_valid():
        return _shown(request, remove_form=form, status=422)
    try:
        second_factor_remove(actor=person(request), user=person(request))
    except NotFound as error:
        messages.error(request, error.message, extra_tags=error.hint)
    else:
        messages.success(request, "The second factor is removed. You now sign in with the password alone.")
    request.session.pop(SHOWN, None)
    return redirect("account")


@form_page("second_factor")
def recovery_codes(request: HttpRequest) -> HttpResponseBase:
    """New recovery codes, by the password; they are in this answer and nowhere else."""
    form = PasswordForm(request, request.POST, prefix="renew")
    if not form.is_valid():
        return _shown(request, renew_form=form, status=422)
    return _shown(request, codes=recovery_codes_renew(user=person(request)))
