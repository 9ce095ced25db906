"""The record of changes to people, rights, tokens and the pool: written by services, read by admins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from harness.accounts.access import require, require_admin, token_of
from harness.accounts.models import AuditEvent, Project, Role, User


def audit_write(actor: User | None, action: str, target: str, *, project: Project | None = None, **data: Any) -> None:
    """Note a change; call it in the transaction of the change. `actor` is None for the command line."""
    token = token_of(actor) if actor is not None else None
    AuditEvent.objects.create(
        actor=actor, token=token.prefix if token else "", action=action, target=target[:160], project=project, data=data
    )


@dataclass(frozen=True, kw_only=True)
class AuditFilters:
    """Which changes; what is empty or None lets all pass."""

    actor: str = ""
    """User name; `-`: the command line."""
    action: str = ""
    since: datetime | None = None
    before: datetime | None = None
    """Exclusive."""


EVERYTHING = AuditFilters()
COMMAND_LINE = "-"


def audit_list(
    *, user: User, project: Project | None = None, filters: AuditFilters = EVERYTHING
) -> QuerySet[AuditEvent]:
    """Changes, newest first: of one project for its admins, all for admins of the installation.

    Raises `NotFound`, `Forbidden`.
    """
    rows = _wanted(AuditEvent.objects.select_related("actor", "project").order_by("-pk"), filters)
    if project is None:
        require_admin(user)
        return rows
    require(user, project, Role.ADMIN)
    return rows.filter(project=project)


def _wanted(rows: QuerySet[AuditEvent], filters: AuditFilters) -> QuerySet[AuditEvent]:
    if filters.actor == COMMAND_LINE:
        rows = rows.filter(actor=None)
    elif filters.actor:
        rows = rows.filter(actor__username=filters.actor)
    if filters.action:
        rows = rows.filter(action=filters.action)
    if filters.since:
        rows = rows.filter(at__gte=filters.since)
    return rows.filter(at__lt=filters.before) if filters.before else rows


def audit_words(*, user: User) -> tuple[list[str], list[str]]:
    """(user names, actions) that occur, each in order: what a list may be filtered by. Raises `Forbidden`."""
    require_admin(user)
    names = AuditEvent.objects.exclude(actor=None).order_by("actor__username").values_list("actor__username", flat=True)
    actions = AuditEvent.objects.order_by("action").values_list("action", flat=True)
    return [name for name in names.distinct() if name], list(actions.distinct())
