"""A person sees where they are signed in, ends one or all others, and a new password ends all others."""

from __future__ import annotations

import importlib
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.utils import InterfaceError, OperationalError
from django.test import Client
from django.utils import timezone

from harness.accounts import sessions
from harness.accounts.models import BrowserSession, User
from harness.accounts.services import user_password_reset, user_update
from harness.accounts.sessions import session_list, session_seen, sessions_expire
from tests.harness.api.conftest import client_of, token_text

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Version/17.5 Mobile/15E148 Safari/604.1"


def signed_in(name: str, agent: str = FIREFOX, address: str = "192.0.2.7") -> Client:
    """A browser in which this person has signed in by the form."""
    client = Client(headers={"user-agent": agent}, REMOTE_ADDR=address)
    assert client.post("/login", {"username": name, "password": PASSWORD}).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def row_of(client: Client) -> BrowserSession:
    return BrowserSession.objects.get(session_key=client.session.session_key)


def test_each_browser_is_listed_with_where_and_since_when(people: SimpleNamespace) -> None:
    here, there = signed_in("owner"), signed_in("owner", SAFARI, "198.51.100.3")
    signed_in("mate")
    assert [row.address for row in session_list(user=people.owner)] == ["198.51.100.3", "192.0.2.7"]
    page = " ".join(here.get("/account/").content.decode().split())
    assert "Safari on iPhone" in page and "198.51.100.3" in page and page.count(">this one<") == 1
    assert f"/account/sessions/{row_of(here).pk}/end/" not in page
    for client in (here, there):
        assert client.session.session_key not in page


def test_one_browser_is_signed_out_and_the_others_stay(people: SimpleNamespace) -> None:
    here, there, mates = signed_in("owner"), signed_in("owner", SAFARI), signed_in("mate")
    address = f"/account/sessions/{row_of(there).pk}/end/"
    assert mates.post(address).status_code == 404 and is_in(there)
    told = here.post(address, follow=True).content.decode()
    assert "That browser is signed out." in told and not is_in(there) and is_in(here) and is_in(mates)
    assert here.post(address).status_code == 404
    assert session_list(user=people.owner).count() == 1


def test_all_others_are_signed_out_together_and_tokens_stay(people: SimpleNamespace) -> None:
    token = client_of(token_text(people.owner, "read"))
    here, *others = [signed_in("owner") for _ in range(3)]
    mates = signed_in("mate")
    here.post("/account/sessions/end/")
    assert is_in(here) and is_in(mates) and not any(map(is_in, others))
    assert token.get("/api/v1/me").status_code == 200
    assert "Sign out all others" not in here.get("/account/").content.decode()


def test_a_new_password_signs_out_all_others_and_this_browser_goes_on(people: SimpleNamespace) -> None:
    here, there = signed_in("owner"), signed_in("owner", SAFARI)
    since = row_of(here).created_at
    new = "another horse entirely"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert here.post("/account/password/", form).status_code == 302
    assert is_in(here) and not is_in(there)
    assert [row.created_at for row in session_list(user=people.owner)] == [since] == [row_of(here).created_at]
    assert Session.objects.count() == 1


def test_a_password_that_an_admin_gives_ends_all_of_a_persons_sessions(people: SimpleNamespace) -> None:
    there, mates = signed_in("owner"), signed_in("mate")
    user_password_reset(actor=people.admin, user=User.objects.get(username="owner"))
    assert not is_in(there) and is_in(mates)
    assert not BrowserSession.objects.filter(user=people.owner).exists()
    user_update(actor=people.admin, user=people.mate, is_admin=True)
    assert is_in(mates)


def test_a_browser_in_use_is_noted_now_and_then_and_from_where(people: SimpleNamespace, monkeypatch: Any) -> None:
    here = signed_in("owner")
    before = row_of(here)
    here.get("/", REMOTE_ADDR="203.0.113.9")
    assert row_of(here).address == before.address
    monkeypatch.setattr(sessions, "_noted", {})
    here.get("/", REMOTE_ADDR="203.0.113.9")
    after = row_of(here)
    assert after.address == "203.0.113.9" and after.seen_at > before.seen_at and after.created_at == before.created_at


def test_no_page_fails_because_the_database_cannot_note_a_browser(people: SimpleNamespace, monkeypatch: Any) -> None:
    here = signed_in("owner")
    monkeypatch.setattr(sessions, "_noted", {})

    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(BrowserSession.objects, "update_or_create", away)
    assert is_in(here)


def test_while_the_database_is_away_a_page_says_so(people: SimpleNamespace, monkeypatch: Any) -> None:
    here = signed_in("owner")

    def away(*_: Any, **__: Any) -> None:
        raise InterfaceError("connection already closed")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", away)
    assert here.get("/account/").status_code == 503


def test_who_is_disabled_and_later_let_in_again_signs_in_anew(people: SimpleNamespace) -> None:
    there, mates = signed_in("owner"), signed_in("mate")
    user_update(actor=people.admin, user=people.owner, is_active=False)
    assert not is_in(there) and is_in(mates)
    user_update(actor=people.admin, user=people.owner, is_active=True)
    assert not is_in(there)
    assert is_in(signed_in("owner"))


def test_what_a_browser_says_of_itself_is_cut_and_has_no_zero_byte(people: SimpleNamespace) -> None:
    session_seen(user_id=people.owner.pk, session_key="k" * 32, user_agent="a\x00" * 400, address="x" * 200)
    row = BrowserSession.objects.get(session_key="k" * 32)
    assert row.user_agent == "a" * 300 and len(row.address) == 64


def test_sign_ins_that_have_ended_are_not_listed_and_are_forgotten(people: SimpleNamespace) -> None:
    here, expired, left = (signed_in("owner") for _ in range(3))
    Session.objects.filter(session_key=expired.session.session_key).update(
        expire_date=timezone.now() - timedelta(days=1)
    )
    left.post("/logout")
    assert [row.pk for row in session_list(user=people.owner)] == [row_of(here).pk]
    sessions_expire()
    assert BrowserSession.objects.count() == Session.objects.count() == 1


def test_sign_ins_from_before_are_taken_up_with_the_tables(people: SimpleNamespace) -> None:
    here = signed_in("owner")
    BrowserSession.objects.all().delete()
    importlib.import_module("harness.accounts.migrations.0004_sessions_there_are").note(apps, None)
    (row,) = session_list(user=people.owner)
    since = Session.objects.get().expire_date - timedelta(seconds=settings.SESSION_COOKIE_AGE)
    assert row.session_key == here.session.session_key and row.created_at == row.seen_at == since


def test_a_request_by_token_is_no_browser(people: SimpleNamespace) -> None:
    assert client_of(token_text(people.owner, "read")).get("/api/v1/me").status_code == 200
    assert not BrowserSession.objects.exists()
