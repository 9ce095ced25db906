"""Read what a person chose, and what became of their messages. Everybody reads their own alone."""

from __future__ import annotations

from django.db.models import QuerySet

from harness.accounts.access import visible_projects
from harness.accounts.models import Project, User
from harness.notify.models import Delivery, NotifyChoice
from harness.notify.services import require_whole

SHOWN = 20


def choice_get(*, user: User) -> NotifyChoice:
    """What the person chose; an empty one where they have chosen nothing yet. Raises `Forbidden`."""
    require_whole(user)
    found = NotifyChoice.objects.select_related("user").filter(pk=user.pk).first()
    return found or NotifyChoice(user=user)


def projects_watched(*, user: User) -> QuerySet[Project]:
    """Projects of whose every job the person is told, by name; those that they see no more are left out."""
    require_whole(user)
    return visible_projects(user).filter(watched_by=user.pk).order_by("name", "pk")


def delivery_list(*, user: User) -> QuerySet[Delivery]:
    """The person's newest messages. Raises `Forbidden`."""
    require_whole(user)
    return Delivery.objects.filter(user=user).select_related("project").order_by("-created_at", "-pk")[:SHOWN]
