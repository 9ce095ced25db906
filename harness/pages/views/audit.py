"""The audit log: who changed people, rights, tokens or the pool, and when; for admins of the installation."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from harness.accounts.audit import COMMAND_LINE, AuditFilters, audit_list, audit_words
from harness.accounts.time_zone import browser_time_zone_of
from harness.days import days_read
from harness.pages.web import page, page_number, person, show
from harness.paging import page_within

PAGE_SIZE = 50


@page("GET", "HEAD")
def audit(request: HttpRequest) -> HttpResponseBase:
    """One page of the changes, newest first, filtered by what is in the address."""
    user = person(request)
    names, actions = audit_words(user=user)
    given = request.GET
    since, before = days_read(given, browser_time_zone_of(user))
    filters = AuditFilters(
        actor=given.get("person", ""),
        action=given.get("verb", ""),
        since=since,
        before=before,
    )
    context = {
        "rows": page_within(audit_list(user=user, filters=filters), page=page_number(request), page_size=PAGE_SIZE),
        "people": names,
        "verbs": actions,
        "given": given,
        "command_line": COMMAND_LINE,
        "filtered": filters != AuditFilters(),
    }
    return show(request, "accounts/audit.html", context)
