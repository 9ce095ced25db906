"""Writes messages in the transaction of what they tell of: none is lost, and none tells what did not happen.

Called where a job's history is written (`harness.jobs.told`) and by the look at projects' storage. Control sends them.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.models import Membership, Project, Role, User
from harness.broker import task_send_on_commit
from harness.notify.messages import Message
from harness.notify.models import Channel, Delivery, Kind, NotifyChoice

SEND_TASK = "control.notify"


def project_told(project: Project) -> dict[str, str]:
    """What a message says of its project."""
    return {"slug": project.slug, "name": project.name}


def tell(kind: Kind, project: Project, about: str, message: Message, *, owner_id: int | None = None) -> None:
    """Write one message for everybody who chose to be told of it, by each of their channels; wake control."""
    rows = [
        Delivery(
            user_id=choice.user_id, project=project, channel=channel, kind=kind, about=about,
            body=message.to_dict(), due_at=timezone.now(),
        )
        for choice in _wanted_by(kind, project, owner_id)
        for channel in channels_of(choice)
    ]  # fmt: skip
    deliveries_add(rows)


def deliveries_add(rows: Iterable[Delivery]) -> None:
    """Store messages and wake control."""
    if made := list(rows):
        Delivery.objects.bulk_create(made, ignore_conflicts=True)
        task_send_on_commit(SEND_TASK)


def channels_of(choice: NotifyChoice) -> list[Channel]:
    """By which channels a person is told, as things are now."""
    found = [Channel.EMAIL] if choice.by_email and email_possible(choice.user) else []
    return [*found, Channel.WEBHOOK] if choice.webhook_url else found


def email_possible(user: User) -> bool:
    """Whether there is a mail server and an address."""
    return settings.SMTP is not None and bool(user.email)


def may_be_told(user: User, project: Project | None) -> bool:
    """Whether the person still sees the project."""
    if project is not None and project.deleted_at is not None:
        return False
    if project is None or user.is_superuser:
        return user.is_active
    return user.is_active and Membership.objects.filter(project=project, user=user).exists()


def _wanted_by(kind: Kind, project: Project, owner_id: int | None) -> QuerySet[NotifyChoice]:
    """Of a job: its owner and who watches the project. Of storage: who adds to the project, and who watches it."""
    members = Membership.objects.filter(project=project)
    adding = members.exclude(role=Role.VIEWER).values("user")
    concerned = Q(user_id=owner_id) if owner_id is not None else Q(user__in=adding)
    sees = Q(user__in=members.values("user")) | Q(user__is_superuser=True)
    watching = Q(pk__in=NotifyChoice.projects.through.objects.filter(project=project).values("notifychoice"))
    rows = NotifyChoice.objects.select_related("user").filter(**{kind.value: True, "user__is_active": True})
    return rows.filter(sees, concerned | watching).order_by("pk")
