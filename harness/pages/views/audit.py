"""The audit log: who changed people, rights, tokens or the pool, and when; for admins of the installation."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.dateparse import parse_date

from harness.accounts.audit import COMMAND_LINE, AuditFilters, audit_list, audit_words
from harness.errors import Invalid
from harness.pages.web import page, page_number, person, show
from harness.paging import page_of

PAGE_SIZE = 50


@page("GET", "HEAD")
def audit(request: HttpRequest) -> HttpResponseBase:
    """One page of the changes, newest first, filtered by what is in the address."""
    user = person(request)
    names, actions = audit_words(user=user)
    given = request.GET
    last = _day(given.get("until", ""))
    filters = AuditFilters(
        actor=given.get("person", ""),
        action=given.get("verb", ""),
        since=_midnight(_day(given.get("since", ""))),
        before=_midnight(last + timedelta(days=1) if last else None),
    )
    context = {
        "rows": page_of(audit_list(user=user, filters=filters), page=page_number(request), page_size=PAGE_SIZE),
        "people": names,
        "verbs": actions,
        "given": given,
        "command_line": COMMAND_LINE,
        "filtered": filters != AuditFilters(),
    }
    return show(request, "accounts/audit.html", context)


def _day(text: str) -> date | None:
    """A day out of the address. Raises `Invalid`."""
    try:
        day = parse_date(text) if text else None
    except ValueError:
        day = None
    if text and (day is None or not 1970 <= day.year < 9999):
        raise Invalid(f"{text!r} is no day.", field="since", hint="Write it like 2030-01-31.")
    return day


def _midnight(day: date | None) -> datetime | None:
    """Its first moment in the installation's time zone."""
    return timezone.make_aware(datetime(day.year, day.month, day.day)) if day else None
