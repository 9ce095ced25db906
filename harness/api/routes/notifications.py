"""Routes: what the caller is told of and where, tests of it, and what became of the messages."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from ninja import Router, Status

from harness.accounts.models import User
from harness.accounts.time_zone import time_zone_choose
from harness.api.auth import person
from harness.api.schemas.base import Items
from harness.api.schemas.notifications import (
    DeliveryOut,
    NotificationsIn,
    NotificationsMade,
    NotificationsOut,
    SecretMade,
)
from harness.notify import selectors, services
from harness.notify.models import KINDS_CHOSEN, Delivery, NotifyChoice

router = Router()


def _delivery_out(delivery: Delivery) -> dict[str, Any]:
    names = ("id", "channel", "kind", "state", "tries", "problem", "created_at", "due_at", "ended_at")
    return {
        **{name: getattr(delivery, name) for name in names},
        "title": delivery.body["title"],
        "url": delivery.body["url"],
        "project": delivery.project.slug if delivery.project else None,
    }


def _out(user: User, choice: NotifyChoice) -> dict[str, Any]:
    return {
        "by_email": choice.by_email,
        "email": user.email,
        "email_obstacle": services.email_obstacle(user),
        "webhook": services.webhook_origin(choice),
        **{kind.value: getattr(choice, kind.value) for kind in KINDS_CHOSEN},
        "time_zone": user.time_zone,
        "projects": [project.slug for project in selectors.projects_watched(user=user)],
        "deliveries": [_delivery_out(delivery) for delivery in selectors.delivery_list(user=user)],
    }


@router.get("", response=NotificationsOut, summary="What I am told of")
def notifications(request: HttpRequest) -> dict[str, Any]:
    """What the caller chose, and the newest messages with what became of them."""
    user = person(request)
    return _out(user, selectors.choice_get(user=user))


@router.patch("", response=NotificationsMade, summary="Choose what I am told of")
def notifications_change(request: HttpRequest, body: NotificationsIn) -> dict[str, Any]:
    """Change what is given. A webhook that is new answers its secret, once."""
    user = person(request)
    changes = body.model_dump(exclude_none=True, exclude={"time_zone"})
    with transaction.atomic():  # all of it, or where something is refused nothing
        choice, secret = services.choice_update(user=user, changes=changes)
        if body.time_zone is not None:
            time_zone_choose(user=user, name=body.time_zone)
    return {**_out(user, choice), "secret": secret}


@router.post("/secret", response=SecretMade, summary="Make a new secret of my webhook")
def secret_renew(request: HttpRequest) -> SecretMade:
    """The old one stops working."""
    return SecretMade(secret=services.webhook_secret_renew(user=person(request)))


@router.post("/test", response={202: Items[DeliveryOut]}, summary="Send me a test")
def notifications_test(request: HttpRequest) -> Status[Any]:
    """One message by each channel that is on, tried once; `GET /notifications` says soon what became of them."""
    rows = services.delivery_test(user=person(request))
    return Status(202, {"items": [_delivery_out(delivery) for delivery in rows]})
