"""What notifications tell of a person whose account is deleted."""

from __future__ import annotations

from harness.accounts.models import User
from harness.notify.models import Delivery, NotifyChoice


def person_forget(user: User, name: str) -> None:
    """Their choice with its address and their messages go; those to others name them otherwise."""
    NotifyChoice.objects.filter(user=user).delete()
    Delivery.objects.filter(user=user).delete()
    for delivery in Delivery.objects.filter(body__job__owner=user.username):
        delivery.body["job"]["owner"] = name
        delivery.save(update_fields=["body"])
