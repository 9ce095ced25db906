"""What offers tell of a person whose account is deleted."""

from __future__ import annotations

from harness.accounts.models import User
from harness.estimates.models import OfferRow


def person_forget(user: User, name: str) -> None:
    """Offers that belong to no project are seen by nobody else, and go."""
    OfferRow.objects.filter(owner=user, project=None).delete()
