"""The form of the page Notifications."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms

from harness.accounts.models import Project
from harness.notify.models import KINDS_CHOSEN
from harness.notify.webhook import URL_LETTERS_MAX
from harness.pages.forms import Tabler


def _switch(label: str) -> forms.BooleanField:
    return forms.BooleanField(
        required=False, label=label, widget=forms.CheckboxInput(attrs={"class": "form-check-input"})
    )


class NotifyForm(Tabler):
    """Where the person is told, and of what."""

    by_email = _switch("By e-mail")
    webhook_url = forms.CharField(
        required=False,
        max_length=URL_LETTERS_MAX,
        label="Webhook",
        help_text="This URL gets each message as JSON, which Slack and Mattermost understand, too. Empty: none.",
        widget=forms.URLInput(attrs={"placeholder": "https://", "autocomplete": "off", "spellcheck": "false"}),
    )
    job_finished = _switch("A job finished")
    job_failed = _switch("A job failed")
    promise_at_risk = _switch("A promised finish is at risk")
    storage_full = _switch("A project is out of storage (95 % of its quota used)")
    projects = forms.MultipleChoiceField(
        required=False,
        label="Every job of these projects, not only my own",
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )

    @property
    def kind_fields(self) -> list[forms.BoundField]:
        """The switches of what to be told of."""
        return [self[kind.value] for kind in KINDS_CHOSEN]

    def set_person(self, projects: Iterable[Project], *, email: str, obstacle: str) -> None:
        """Offer the person's projects, and e-mail unless there is an obstacle, which is told instead."""
        self.offer_choices("projects", [(project.slug, project.name) for project in projects])
        by_email = self.fields["by_email"]
        by_email.help_text = obstacle or f"To {email}. An admin changes the address."
        if obstacle:
            by_email.disabled, self.initial["by_email"] = True, False
