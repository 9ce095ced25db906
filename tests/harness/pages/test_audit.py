"""The audit log's page: for admins of the installation, filtered by person, verb and time, page by page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from harness.accounts.models import AuditEvent, Project, User


@pytest.fixture
def changes(people: SimpleNamespace) -> SimpleNamespace:
    """120 role changes by the owner, one node by the admin, one user by the command line two days ago."""
    for number in range(120):
        AuditEvent.objects.create(
            actor=people.owner, action="membership_set", target=f"person-{number}", project=people.project,
            data={"role": "viewer"},
        )  # fmt: skip
    AuditEvent.objects.create(actor=people.admin, action="node_add", target="node-9", token="dlh_abcd")
    old = AuditEvent.objects.create(actor=None, action="user_create", target="<b>first</b>", data={"is_admin": True})
    AuditEvent.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=2))
    return people


def shown(user: User, **query: Any) -> str:
    client = Client()
    client.force_login(user)
    response = client.get("/audit/", query)
    assert response.status_code == 200
    return response.content.decode()


def test_only_admins_of_the_installation_see_it_and_are_offered_it(changes: SimpleNamespace, client: Client) -> None:
    for name in ("owner", "mate", "viewer", "outsider"):
        client.force_login(getattr(changes, name))
        assert client.get("/audit/").status_code == 403
        assert 'href="/audit/"' not in client.get("/projects/").content.decode()
    client.logout()
    assert client.get("/audit/").headers["Location"].startswith("/login?next=")
    assert 'href="/audit/"' in shown(changes.admin)


def test_all_changes_are_there_page_by_page_newest_first(changes: SimpleNamespace) -> None:
    seen: list[str] = []
    for number in (1, 2, 3):
        text = shown(changes.admin, page=number)
        assert "122 in all" in text and f"page {number} of 3" in text
        seen += [part.split("<")[0] for part in text.split('data-label="Of">')[1:]]
    assert len(seen) == 122
    assert seen[1:] == ["node-9", *(f"person-{number}" for number in reversed(range(120)))]
    assert "<b>first</b>" not in text and "&lt;b&gt;first&lt;/b&gt;" in shown(changes.admin, verb="user_create")
    assert "Nothing matches" in shown(changes.admin, page=1, person="nobody")


def test_a_project_in_the_trash_is_named_without_a_link_to_a_page_that_is_not_there(changes: SimpleNamespace) -> None:
    place = f'href="/projects/{changes.project.slug}/"'
    assert place in shown(changes.admin)
    Project.objects.update(deleted_at=timezone.now())
    text = shown(changes.admin)
    assert place not in text and f"{changes.project.name}, in the trash" in text


def test_beyond_the_last_page_the_last_one_is_shown(changes: SimpleNamespace) -> None:
    text = shown(changes.admin, page=99)
    assert "page 3 of 3" in text and ">person-0<" in text
    assert "Nothing matches" in shown(changes.admin, page=99, person="nobody")


def test_it_is_filtered_by_person_verb_and_day(changes: SimpleNamespace) -> None:
    assert "120 in all" in shown(changes.admin, person="owner")
    assert "1 in all" in shown(changes.admin, verb="node_add") and "dlh_abcd" in shown(changes.admin, verb="node_add")
    assert "first" in shown(changes.admin, person="-") and "person-1" not in shown(changes.admin, person="-")
    today = timezone.localdate()
    before = str(today - timedelta(days=1))
    assert "121 in all" in shown(changes.admin, since=before)
    assert "1 in all" in shown(changes.admin, until=before)
    assert "121 in all" in shown(changes.admin, since=str(today), until=str(today))
    kept = shown(changes.admin, person="owner", verb="membership_set", page=2)
    assert "person=owner" in kept and "verb=membership_set" in kept


def test_days_are_those_of_the_readers_browser_in_whose_zone_the_page_tells_times(changes: SimpleNamespace) -> None:
    event = AuditEvent.objects.get(action="node_add")
    AuditEvent.objects.filter(pk=event.pk).update(at=datetime(2025, 1, 31, 20, 0, tzinfo=UTC))
    days = {"since": "2025-02-01", "until": "2025-02-01"}
    assert "node-9" not in shown(changes.admin, **days)
    User.objects.filter(pk=changes.admin.pk).update(browser_time_zone="Asia/Tokyo")
    assert "node-9" in shown(changes.admin, **days)
    assert "node-9" not in shown(changes.admin, since="2025-01-31", until="2025-01-31")


@pytest.mark.parametrize("day", ["yesterday", "2030-13-01", "2030-02-30", "9999-12-31", "0001-01-01"])
def test_a_day_that_is_none_is_refused_in_words(changes: SimpleNamespace, client: Client, day: str) -> None:
    client.force_login(changes.admin)
    response = client.get("/audit/", {"until": day})
    assert response.status_code == 422
    assert "is not a valid date" in response.content.decode()


def test_the_api_takes_the_same_filters(changes: SimpleNamespace, client: Client) -> None:
    client.force_login(changes.admin)
    since = (timezone.now() - timedelta(days=1)).isoformat()

    def total(**query: Any) -> int:
        return int(client.get("/api/v1/audit", query).json()["total"])

    assert (total(), total(actor="owner"), total(actor="-"), total(action="node_add")) == (122, 120, 1, 1)
    assert (total(since=since), total(before=since)) == (121, 1)
    assert client.get("/api/v1/audit", {"since": str(datetime(2030, 1, 1))}).status_code == 422
    client.force_login(changes.owner)
    assert client.get("/api/v1/audit").status_code == 403
