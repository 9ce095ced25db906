"""People through the API: what is told of them, and that who may no longer sign in can still leave a project."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from django.contrib.auth import base_user
from django.db import connection
from django.test import Client
from django_otp.plugins.otp_totp.models import TOTPDevice

from harness.accounts.models import User
from harness.accounts.selectors import token_find
from tests.harness.api.conftest import API

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(bearer: Callable[..., Client], people: SimpleNamespace) -> Client:
    return bearer(people.admin, "admin")


def test_who_is_changed_was_last_seen_when_the_list_says_so(
    admin: Client, people: SimpleNamespace, token_make: Callable[..., str]
) -> None:
    token_find(token_make(people.mate))
    changed = admin.patch(f"{API}/users/mate", json.dumps({"is_active": False}), "application/json").json()
    (listed,) = (one for one in admin.get(f"{API}/users").json()["items"] if one["username"] == "mate")
    assert changed["last_seen_at"] is not None
    assert {**listed, "password": ""} == changed


def test_a_disabled_person_can_be_taken_out_of_a_project(admin: Client, people: SimpleNamespace) -> None:
    User.objects.filter(pk=people.mate.pk).update(is_active=False)
    place = f"{API}/projects/{people.project.slug}/members/mate"
    assert admin.delete(place).status_code == 200
    assert not people.project.memberships.filter(user=people.mate).exists()


def test_a_role_for_a_disabled_account_is_refused_as_such(admin: Client, people: SimpleNamespace) -> None:
    place = f"{API}/projects/{people.project.slug}/members"
    before = list(people.project.memberships.values())
    User.objects.filter(username__in=("mate", "outsider")).update(is_active=False)
    for who, told in (
        ("MATE", "The account of mate, who is in the project, is disabled: their role stays as it is."),
        ("outsider", "outsider cannot be added: their account is disabled."),
    ):
        refused = admin.put(f"{place}/{who}", json.dumps({"role": "viewer"}), "application/json")
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["message"]) == (409, "account_disabled", told)
        assert "An admin of the installation enables it again" in error["hint"]
    nobody = admin.put(f"{place}/nobody", json.dumps({"role": "viewer"}), "application/json")
    assert nobody.status_code == 404 and nobody.json()["error"]["message"] == "There is no user nobody."
    assert list(people.project.memberships.values()) == before


def test_who_may_not_give_roles_learns_of_no_account(people: SimpleNamespace, bearer: Callable[..., Client]) -> None:
    User.objects.filter(username="outsider").update(is_active=False)
    mate = bearer(people.mate, "admin")
    place = f"{API}/projects/{people.project.slug}/members"
    answers = [
        mate.put(f"{place}/{who}", json.dumps({"role": "viewer"}), "application/json") for who in ("outsider", "nobody")
    ]
    assert [answer.status_code for answer in answers] == [403, 403]


def test_whoever_leaves_a_project_may_write_their_own_name_in_any_case(
    people: SimpleNamespace, bearer: Callable[..., Client]
) -> None:
    mate = bearer(people.mate, "admin")
    assert mate.delete(f"{API}/projects/{people.project.slug}/members/MATE").status_code == 200
    assert not people.project.memberships.filter(user=people.mate).exists()


def test_an_admin_deletes_somebody_but_not_themselves(admin: Client, people: SimpleNamespace) -> None:
    gone = admin.delete(f"{API}/users/mate")
    assert gone.json() == {"shown_as": f"deleted-person-{people.mate.pk}"}
    assert "mate" not in {one["username"] for one in admin.get(f"{API}/users").json()["items"]}
    assert admin.delete(f"{API}/users/mate").status_code == 404
    User.objects.filter(pk=people.viewer.pk).update(is_superuser=True)
    own = admin.delete(f"{API}/users/admin")
    assert own.status_code == 403 and "Account" in own.json()["error"]["hint"]
    last = admin.delete(f"{API}/users/owner")
    assert last.status_code == 409 and last.json()["error"]["code"] == "last_admin"


def test_of_a_change_of_which_a_part_is_refused_nothing_is_done(admin: Client, people: SimpleNamespace) -> None:
    wish = {"email": "new@example.org", "is_active": False, "remove_second_factor": True, "new_password": True}
    refused = admin.patch(f"{API}/users/mate", json.dumps(wish), "application/json")
    assert refused.status_code == 404 and "second factor" in refused.json()["error"]["message"]
    before = (people.mate.email, people.mate.password)
    people.mate.refresh_from_db()
    assert people.mate.is_active and (people.mate.email, people.mate.password) == before


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_for_a_transaction_while_a_new_password_is_hashed(
    admin: Client, people: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    TOTPDevice.objects.create(user=people.mate, name="app", confirmed=True)
    in_transaction, hashed = [], base_user.make_password

    def hash_seen(password: str | None) -> str:
        in_transaction.append(connection.in_atomic_block)
        return hashed(password)

    monkeypatch.setattr(base_user, "make_password", hash_seen)
    wish = {"email": "new@example.org", "is_active": False, "remove_second_factor": True, "new_password": True}
    for asked in (wish, {"new_password": True}):
        told = admin.patch(f"{API}/users/mate", json.dumps(asked), "application/json").json()
        people.mate.refresh_from_db()
        assert people.mate.check_password(told["password"]) and told["must_change_password"]
        assert not told["has_second_factor"] and not told["is_active"] and told["email"] == "new@example.org"
    assert in_transaction == [False, False]
