"""Forms by which people show who they are: what they type is checked here, and wrong passwords are counted."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.http import HttpRequest

from harness.accounts.identities import may_use_password
from harness.accounts.models import User
from harness.accounts.names import name_meant
from harness.accounts.second_factor import second_factor_get, second_factor_verify
from harness.accounts.signin import client_address, signin_failed, signin_succeeded, signin_wait
from harness.pages.forms import Tabler


def minutes(wait: timedelta) -> int:
    """As people are told how long to wait."""
    return max(1, math.ceil(wait.total_seconds() / 60))


class SignInForm(AuthenticationForm):
    """Name, in whatever case, and password; after too many refusals a name must wait, right password or not."""

    def clean(self) -> dict[str, Any]:
        """Refuse without asking for the password while the name must wait; count what is refused."""
        name = str(self.cleaned_data.get("username") or "")
        address = client_address(self.request) if self.request else ""
        wait = signin_wait(name=name, address=address)
        if wait is not None:
            raise forms.ValidationError(f"{minutes(wait)} min", code="wait")
        if name:  # whosever it is, so that none takes longer
            self.cleaned_data["username"] = name_meant(name)
        try:
            cleaned = dict(super().clean())
        except forms.ValidationError:
            signin_failed(name=name, address=address)
            raise
        user = self.get_user()
        if not isinstance(user, User):
            return cleaned  # name or password is missing: nobody was let in, and no guess is forgotten
        if not may_use_password(user, settings.OIDC):
            # In the words of a wrong password: the page tells everybody alike to take the other way.
            signin_failed(name=name, address=address)
            raise self.get_invalid_login_error()
        if not second_factor_get(user):  # else after the code, or guesses start anew
            signin_succeeded(name=name, address=address)
        return cleaned

    @property
    def wait(self) -> str:
        """How long the name must wait; empty: it need not."""
        return next((str(error.message) for error in self.non_field_errors().as_data() if error.code == "wait"), "")


class CodeForm(Tabler):
    """The second step of a sign-in."""

    code = forms.CharField(max_length=40)


class PasswordForm(Tabler):
    """The person's password once more, before something that a found open browser must not do; guesses are counted."""

    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}), max_length=200, strip=False
    )

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request = request

    def clean_password(self) -> str:
        """Refuse a wrong one, and any while too many were wrong."""
        return _own_password(self._request, str(self.cleaned_data["password"]))


class NewPasswordForm(PasswordChangeForm):
    """A new password beside the old one, which is asked for as by `PasswordForm`."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request = request

    def clean_old_password(self) -> str:
        """Refuse a wrong one, and any while too many were wrong."""
        return _own_password(self._request, str(self.cleaned_data["old_password"]))


def _own_password(request: HttpRequest, password: str) -> str:
    """The password as typed, if it is that of the person who is signed in; a wrong one counts as a refused sign-in."""
    user = request.user
    name, address = user.get_username(), client_address(request)
    wait = signin_wait(name=name, address=address)
    if wait is not None:
        raise forms.ValidationError(f"Too many wrong attempts. Try again in {minutes(wait)} min.")
    if not user.check_password(password):
        signin_failed(name=name, address=address)
        raise forms.ValidationError("That is not your password.")
    return password


class SecondFactorForm(PasswordForm):
    """A first code of a new app."""

    code = forms.CharField(
        max_length=10,
        label="Code",
        help_text="The six digits that the app shows now.",
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )
    field_order = ("code", "password")


class AccountEndForm(PasswordForm):
    """The password, and of who has a second factor a code, before the account is deleted."""

    code = forms.CharField(
        max_length=40,
        label="Code",
        help_text="The six digits that your app shows now, or a recovery code.",
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code"}),
    )

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self._user = request.user
        if not (isinstance(self._user, User) and second_factor_get(self._user)):
            del self.fields["code"]

    def clean(self) -> dict[str, Any]:
        """Ask for the code only where the password is right: each is good once."""
        cleaned = dict(super().clean() or {})
        user, asked = self._user, "code" in cleaned and "password" in cleaned
        if asked and isinstance(user, User) and not second_factor_verify(user=user, code=cleaned["code"]):
            self.add_error("code", "That code is not valid now. Wait for the next one.")
        return cleaned
