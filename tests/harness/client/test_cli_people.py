"""`dlh people`: an admin ends and gives access from the command line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django_otp.plugins.otp_totp.models import TOTPDevice

from harness.accounts.models import Identity, User
from harness.env_oidc import OidcSettings
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


@pytest.fixture
def admin(portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))


def works(portal: SimpleNamespace) -> bool:
    """Whether the owner's token is good for anything."""
    headers = {"Authorization": f"Bearer {portal.token}"}
    return httpx.get(f"{portal.url}/api/v1/me", headers=headers).status_code == 200


@pytest.mark.usefixtures("admin")
def test_a_person_is_added_disabled_enabled_and_given_a_new_password(dlh: Dlh, portal: SimpleNamespace) -> None:
    made = dlh("people", "add", "ada", "--json").json
    assert User.objects.get(username="ada").check_password(made["password"])
    assert works(portal)
    assert "can no longer sign in" in dlh("people", "disable", "owner").out
    assert not works(portal) and "disabled" in dlh("people").out
    assert dlh("people", "enable", "owner", "--json").json["is_active"]
    assert works(portal)
    shown = dlh("people", "password", "ada").out
    assert User.objects.get(username="ada").check_password(shown.split()[-1])
    assert {one["username"] for one in dlh("people", "--json").json} >= {"ada", "owner"}


@pytest.mark.usefixtures("admin")
def test_a_person_becomes_an_admin_and_is_one_no_longer(dlh: Dlh) -> None:
    assert "owner is an admin of the installation." in dlh("people", "admin", "owner").out
    assert User.objects.get(username="owner").is_superuser
    assert not dlh("people", "admin", "owner", "--remove", "--json").json["is_admin"]
    assert not User.objects.get(username="owner").is_superuser
    refused = dlh("people", "admin", "admin", "--remove")
    assert refused.code == 2 and "the last admin" in refused.err


@pytest.mark.usefixtures("admin")
def test_who_is_nobody_and_the_last_admin_are_refused(dlh: Dlh) -> None:
    assert dlh("people", "disable", "nobody").code == 3
    ended = dlh("people", "disable", "admin")
    assert ended.code == 2 and "last admin" in ended.err


def test_only_admins_look_at_people_and_change_them(dlh: Dlh) -> None:
    assert [dlh(*words).code for words in (("people",), ("people", "disable", "mate"))] == [3, 3]


def test_an_admin_removes_a_second_factor_that_is_lost(
    dlh: Dlh, portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    TOTPDevice.objects.create(user=portal.people.mate)
    assert dlh("people", "second-factor", "mate", "--remove").code == 3
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    assert {one["username"] for one in dlh("people", "--json").json if one["has_second_factor"]} == {"mate"}
    assert dlh("people", "second-factor", "mate").code == 2
    assert "mate now signs in with the password alone" in dlh("people", "second-factor", "mate", "--remove").out
    assert not TOTPDevice.objects.exists()
    again = dlh("people", "second-factor", "mate", "--remove")
    assert again.code != 0 and "has no second factor" in again.err


@pytest.mark.usefixtures("admin")
def test_an_account_is_deleted_once_somebody_says_so(dlh: Dlh, portal: SimpleNamespace) -> None:
    unasked = dlh("people", "rm", "mate")
    assert unasked.code == 2 and "--yes" in unasked.err and User.objects.filter(username="mate").exists()
    pk = User.objects.get(username="mate").pk
    assert f"shown as by deleted-person-{pk}" in dlh("people", "rm", "mate", "--yes").out
    assert "mate" not in dlh("people").out and dlh("people", "rm", "mate", "-y").code == 3
    refused = dlh("people", "rm", "owner", "--yes", "--json")
    assert refused.code == 2 and refused.json["error"]["code"] == "last_admin"
    assert works(portal)


@pytest.mark.usefixtures("admin")
def test_an_address_that_the_provider_will_replace_is_called_so(
    dlh: Dlh, portal: SimpleNamespace, settings: Any
) -> None:
    settings.OIDC = OidcSettings(issuer="https://id.example.org", client_id="harness")
    assert "until they next sign in" not in dlh("people", "email", "mate", "mate@example.org").out
    Identity.objects.create(user=portal.people.mate, issuer=settings.OIDC.issuer, subject="1")
    assert "until they next sign in at the identity provider" in dlh("people", "email", "mate", "m@example.org").out
    assert dlh("people", "email", "mate", "mate@example.org", "--json").json["has_identity"]
