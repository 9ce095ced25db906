"""What saved views tell of a person whose account is deleted."""

from __future__ import annotations

from harness.accounts.models import User
from harness.saved_views.models import DefaultView, SavedView


def person_forget(user: User, name: str) -> None:
    """Their own views go; those that they shared are the project's."""
    DefaultView.objects.filter(user=user).delete()
    SavedView.objects.filter(owner=user, project=None).delete()
