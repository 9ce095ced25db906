"""Sign-in, password, time zone, tokens, and where one is signed in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from harness.accounts.identities import identity_of, may_use_password
from harness.accounts.leaving import leaving_problem, user_delete
from harness.accounts.models import User
from harness.accounts.second_factor import second_factor_get
from harness.accounts.selectors import project_get, token_list
from harness.accounts.services import token_create, token_revoke, user_update
from harness.accounts.sessions import session_end, session_list, session_moved, sessions_end
from harness.accounts.time_zone import browser_time_zone_name, browser_time_zone_note, time_zone_choose
from harness.errors import Conflict, Invalid
from harness.pages.forms import TimeZoneForm, TokenForm
from harness.pages.signin_forms import AccountEndForm, NewPasswordForm, PasswordForm, SignInForm
from harness.pages.signin_wanted import is_proven_by_provider
from harness.pages.views.second_factor import half_way
from harness.pages.web import change, form_page, next_address, page, person, show


class SignIn(LoginView):
    """Name and password; people who are signed in already go home."""

    template_name = "accounts/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """With the identity provider, where there is one."""
        return {**super().get_context_data(**kwargs), "oidc": settings.OIDC}

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """In, or where the person has a second factor on to its code."""
        user = form.get_user()
        if isinstance(user, User) and second_factor_get(user):
            return half_way(self.request, user, self.get_success_url())
        return super().form_valid(form)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """The page again; 429 while the name must wait."""
        response = super().form_invalid(form)
        if isinstance(form, SignInForm) and form.wait:
            response.status_code = 429
        return response


class SignOut(LogoutView):
    """POST only."""


class PasswordChange(PasswordChangeView):
    """The person's own password; where somebody else set it, the page they are held at until it is changed."""

    template_name = "accounts/password.html"
    form_class = NewPasswordForm

    def get_form_kwargs(self) -> dict[str, Any]:
        """With the request: wrong old passwords are counted by its address."""
        return {**super().get_form_kwargs(), "request": self.request}

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        """Through the service, which notes it in the audit log; this session goes on, all others end."""
        user, session = person(self.request), self.request.session
        old_key, was_held = session.session_key, user.must_change_password
        try:
            user_update(actor=user, user=user, password=form.cleaned_data["new_password1"], keep_session=old_key)
        except Invalid as error:
            form.add_error("new_password1", f"{error.message} {error.hint}")
            return self.form_invalid(form)
        update_session_auth_hash(self.request, user)
        session_moved(old_key=old_key, new_key=session.session_key)
        messages.success(self.request, "The password is changed. You are signed out everywhere else.")
        return redirect(next_address(self.request) or reverse("home" if was_held else "account"))


@page("GET", "HEAD")
def account(request: HttpRequest) -> HttpResponseBase:
    """The person's tokens and a form for a new one."""
    return account_page(request)


def account_page(
    request: HttpRequest,
    *,
    form: TokenForm | None = None,
    secret: str = "",
    link_form: PasswordForm | None = None,
    unlink_form: PasswordForm | None = None,
    may_link: bool = False,
    status: int = 200,
) -> HttpResponseBase:
    """The page, after a form of it was refused or done."""
    user = person(request)
    form = form or TokenForm()
    form.set_projects(user)
    context = {
        "tokens": token_list(user=user),
        "form": form,
        "secret": secret,
        "zone_form": _zone_form(user),
        "has_second_factor": second_factor_get(user) is not None,
        "sessions": session_list(user=user),
        "session_key": request.session.session_key,
        "has_password": may_use_password(user, settings.OIDC),
        "oidc": settings.OIDC,
        "identity": identity_of(user, settings.OIDC),
        "link_form": link_form or PasswordForm(request, prefix="link"),
        "unlink_form": unlink_form or PasswordForm(request, prefix="unlink"),
        "may_link": may_link,
    }
    response = show(request, "accounts/account.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


def _zone_form(user: User) -> TimeZoneForm:
    form = TimeZoneForm(initial={"time_zone": user.time_zone})
    form.set_zones(browser_time_zone_name(user) or "unknown, so UTC")
    return form


@page("POST")
def time_zone(request: HttpRequest) -> HttpResponseBase:
    """Choose the zone of one's e-mails, or none: then it is the browser's."""
    name = request.POST.get("time_zone", "")
    return change(
        request,
        lambda: time_zone_choose(user=person(request), name=name),
        done=f"Your e-mails give times in {name or 'the time zone of your browser'}.",
        to=reverse("account"),
    )


@page("POST")
def browser_time_zone(request: HttpRequest) -> HttpResponseBase:
    """Pages tell here in which zone the browser is, where it is not the one of before."""
    browser_time_zone_note(user=person(request), name=request.POST.get("name", ""))
    return HttpResponse(status=204)


@form_page("account")
def token_add(request: HttpRequest) -> HttpResponseBase:
    """Make a token; its text is in this answer and nowhere else."""
    user = person(request)
    form = TokenForm(request.POST)
    form.set_projects(user)
    if not form.is_valid():
        return account_page(request, form=form, status=422)
    wish = form.cleaned_data
    project = project_get(user=user, slug=wish["project"]) if wish["project"] else None
    expires_at = timezone.now() + timedelta(days=wish["days"]) if wish["days"] else None
    try:
        _, text = token_create(
            user=user, name=wish["name"], scope=wish["scope"], project=project, expires_at=expires_at
        )
    except Invalid as error:
        form.add_error(None, f"{error.message} {error.hint}")
        return account_page(request, form=form, status=422)
    return account_page(request, secret=text)


@page("POST")
def token_end(request: HttpRequest, token_id: str) -> HttpResponseBase:
    """Revoke a token."""
    return change(
        request,
        lambda: token_revoke(user=person(request), token_id=token_id),
        done="The token is revoked. Programs that use it are refused from now on.",
        to=reverse("account"),
    )


@page("POST")
def session_out(request: HttpRequest, session_id: str) -> HttpResponseBase:
    """Sign one browser out; where it is this one, to the page of the sign-in."""
    user = person(request)
    return change(
        request,
        lambda: session_end(user=user, session_id=session_id),
        done="That browser is signed out.",
        to=reverse("account"),
    )


@page("POST")
def sessions_out(request: HttpRequest) -> HttpResponseBase:
    """Sign all browsers out but this one."""
    user = person(request)
    return change(
        request,
        lambda: sessions_end(user=user, but_key=request.session.session_key),
        done="You are signed out everywhere else. API tokens stay valid.",
        to=reverse("account"),
    )


@page("GET", "HEAD", "POST")
def account_end(request: HttpRequest) -> HttpResponseBase:
    """Delete one's own account: by the password, and with a second factor by its code; who has no password that lets
    them in signs in at the identity provider again, and who has neither asks an admin."""
    user = person(request)
    by_provider = not may_use_password(user, settings.OIDC) and identity_of(user, settings.OIDC) is not None
    is_proven = by_provider and is_proven_by_provider(request, user)
    by_password = user.has_usable_password() and not by_provider
    form = AccountEndForm(request, request.POST or None) if by_password else None
    problem = None if request.method == "POST" else leaving_problem(user)
    if request.method == "POST" and (form.is_valid() if form else is_proven):
        try:
            user_delete(actor=user, user=user, is_proven=True)
        except Conflict as error:
            problem = error
        else:
            logout(request)
            messages.success(request, "Your account is deleted.")
            return redirect("login")
    status = 200 if request.method != "POST" else problem.status if problem else Invalid.status
    context = {"form": form, "is_proven": is_proven, "by_provider": by_provider, "problem": problem}
    response = show(request, "accounts/delete.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response
