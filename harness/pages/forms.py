"""Forms: they read and tidy what was typed; services decide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from harness.accounts.models import Role, Scope, User
from harness.accounts.time_zone import zones_by_region
from harness.pages.project_options import project_options
from harness.pages.words import SCOPE_WORDS


class Tabler(forms.Form):
    """Gives every field its class, names the field's hint for screen readers, and refuses numbers in plain words."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            kind = "form-select" if isinstance(field.widget, forms.Select) else "form-control"
            field.widget.attrs.setdefault("class", kind)
            if isinstance(field, forms.IntegerField):  # floats are such, too
                _number_words_set(field)

    def add_error(self, field: str | None, error: Any) -> None:
        """Whoever gets the form back stands at what is wrong first: the form may lie far down its page."""
        super().add_error(field, error)
        for one in self.visible_fields():
            one.field.widget.attrs.pop("autofocus", None)
        wrong = [one.field.widget.attrs for one in self.visible_fields() if one.name in self.errors]
        if wrong:
            wrong[0]["autofocus"] = True

    def offer_choices(self, name: str, choices: Iterable[Any]) -> None:
        """Set what a field lets people choose from: (value, words), or (words, list of such)."""
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - tells the type
        field.choices = list(choices)

    def offer_projects(self, user: User, *first: tuple[str, str]) -> None:
        """The same of the field `project`: of all that the person sees, after `first`."""
        options = project_options(user, "see", [self["project"].value()])
        self.offer_choices("project", [*first, *options.choices])
        self.fields["project"].widget.attrs |= options.attrs


def _number_words_set(field: forms.IntegerField) -> None:
    """One sentence for whatever is wrong with a number: what the field takes. What a form says itself stays."""
    said, usual = f"Enter {_number_wanted(field)}.", type(field)().error_messages
    for code in ("required", "invalid", "min_value", "max_value"):
        if field.error_messages.get(code) == usual.get(code):
            field.error_messages[code] = said


def _number_wanted(field: forms.IntegerField) -> str:
    kind = "a number" if isinstance(field, forms.FloatField) else "a whole number"
    bounds = (field.min_value, field.max_value)
    low, high = ("" if bound is None else f"{bound:,}".removesuffix(".0") for bound in bounds)
    if low and high:
        return f"{kind} from {low} to {high}"
    return f"{kind} from {low}" if low else f"{kind}, at most {high}" if high else kind


class DeleteForm(Tabler):
    """The name of what is to be deleted, typed."""

    name = forms.CharField(
        max_length=120, label="Name of the project", widget=forms.TextInput(attrs={"autocomplete": "off"})
    )


class TokenForm(Tabler):
    """A new API token."""

    name = forms.CharField(max_length=80, help_text="What it is for, such as laptop or nightly script.")
    scope = forms.ChoiceField(
        label="May",
        choices=list(SCOPE_WORDS.items()),
        initial=Scope.WRITE,
        help_text="Read and change: upload, submit, cancel. Everything: all that you may do, including the pool.",
    )
    project = forms.ChoiceField(required=False, help_text="A token for one project cannot touch any other.")
    days = forms.TypedChoiceField(
        label="Expires",
        required=False,
        coerce=int,
        empty_value=None,
        initial="90",
        choices=[("30", "after 30 days"), ("90", "after 90 days"), ("365", "after a year"), ("", "never")],
    )

    def set_projects(self, user: User) -> None:
        """Offer the person's projects."""
        self.offer_projects(user, ("", "All my projects"))


class TimeZoneForm(Tabler):
    """In which zone a person's e-mails tell moments."""

    time_zone = forms.ChoiceField(
        required=False,
        label="Time zone",
        help_text="E-mails give times in it. Pages give them in the browser's, chats in UTC.",
    )

    def set_zones(self, browser: str) -> None:
        """Offer all, by region. `browser`: the one that the person's browser is in."""
        by_region = [
            (region, [(name, name.partition("/")[2].replace("_", " ")) for name in names])
            for region, names in zones_by_region().items()
        ]
        self.offer_choices("time_zone", [("", f"As my browser ({browser})"), ("UTC", "UTC"), *by_region])


class ProjectForm(Tabler):
    """A new project."""

    name = forms.CharField(
        max_length=120,
        label="Name of the project",
        error_messages=dict.fromkeys(("required", "max_length"), "A project needs a name of at most 120 characters."),
    )


class MemberForm(Tabler):
    """A person and their role."""

    username = forms.CharField(max_length=150, label="User name")
    role = forms.ChoiceField(
        choices=[(role.value, role.value.capitalize()) for role in Role],
        initial=Role.MEMBER,
        help_text=". ".join(str(role.label) for role in Role) + ".",
    )


class UserForm(Tabler):
    """A new person; a password is made for them."""

    username = forms.CharField(max_length=150, label="User name", help_text="Letters, digits and @ . + - _.")
    email = forms.EmailField(
        required=False, max_length=254, label="E-mail", help_text="Where to notify them of their jobs."
    )
    is_admin = forms.BooleanField(
        required=False,
        label="Admin of this installation",
        help_text="Manages people, the pool and every project.",
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )
