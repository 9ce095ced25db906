"""Forms of the second factor: its code at a sign-in, and the password once more before it is changed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest

from harness.accounts.signin import client_address, signin_failed, signin_wait
from harness.pages.forms import Tabler, minutes_of


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
        user, password = self._request.user, str(self.cleaned_data["password"])
        name, address = user.get_username(), client_address(self._request)
        wait = signin_wait(name=name, address=address)
        if wait is not None:
            raise forms.ValidationError(f"Too many wrong attempts. Try again in {minutes_of(wait)} min.")
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
