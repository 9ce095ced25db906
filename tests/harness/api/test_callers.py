"""Whose a request is, by its headers: a person's token, a node's secret, a session of somebody who is signed in."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.test import Client

from harness.api.callers import _is_known, claimed
from harness.pool.joining import SECRET_PREFIX, digest_of

pytestmark = pytest.mark.django_db


def known(**headers: str) -> bool:
    """Whether a request with these headers is of anybody."""
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    return _is_known(*claimed({"headers": sent}))


def cookie(key: str | None) -> str:
    """As a browser sends it."""
    return f"csrftoken=2; {settings.SESSION_COOKIE_NAME}={key}"


def test_a_token_is_of_somebody_until_it_is_revoked(people: Any, token_make: Any) -> None:
    token = token_make(people.owner)
    assert known(authorization=f"Bearer {token}") and known(authorization=f"bearer {token}")
    people.owner.tokens.all().delete()
    assert not known(authorization=f"Bearer {token}")


def test_a_node_is_known_by_its_secret(node_make: Any) -> None:
    node, secret = node_make(), f"{SECRET_PREFIX}abc"
    node.secret_digest = digest_of(secret)
    node.save()
    assert known(authorization=f"Bearer {secret}")
    assert not known(authorization=f"Bearer {secret}d")


def test_a_session_is_of_somebody_while_they_are_signed_in(people: Any) -> None:
    browser = Client()
    browser.force_login(people.owner)
    key = browser.session.session_key
    assert known(cookie=cookie(key))
    assert not known(cookie=cookie(key), authorization="Bearer wrong"), "a wrong token never falls back to a cookie"
    browser.logout()
    assert not known(cookie=cookie(key))


@pytest.mark.parametrize("other", ['prefs={"a":1}', "theme=dark mode", "list[0]=a", "flag"])
def test_a_cookie_of_another_program_of_this_host_hides_no_session(other: str, people: Any) -> None:
    browser = Client()
    browser.force_login(people.owner)
    sent = f"{other}; {cookie(browser.session.session_key)}"
    assert browser.get("/api/v1/me", headers={"Cookie": sent}).status_code == 200, "Django knows who it is"
    assert known(cookie=sent)


def test_a_session_before_the_sign_in_is_of_nobody() -> None:
    begun = SessionStore()
    begun["next"] = "/jobs/"
    begun.save()
    assert not known(cookie=cookie(begun.session_key))


@pytest.mark.parametrize("headers", [{}, {"cookie": "a=1"}, {"cookie": "=;;\x01"}, {"authorization": "Basic eDp5"}])
def test_a_request_without_either_claims_nothing(headers: dict[str, str]) -> None:
    assert claimed({"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}) == (None, None)


@pytest.mark.parametrize("key", ["made-up", "", "0" * 32, "'; --", "\x00"])
def test_a_session_that_was_made_up_is_of_nobody(key: str) -> None:
    assert not known(cookie=cookie(key))


def test_who_serves_it_says_that_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: str) -> None:
        raise OperationalError

    monkeypatch.setattr("harness.api.callers.token_find", away)
    assert known(authorization="Bearer dlh_x")
