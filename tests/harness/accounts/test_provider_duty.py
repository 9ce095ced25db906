"""The provider's word that comes later: passwords that count no longer, a group that made an admin, a new address."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.accounts import identities
from harness.accounts.models import AuditEvent, Identity, User
from harness.accounts.services import user_update
from tests.harness.accounts.provider_parts import PASSWORD, changed, linked, sign_in, user_of
from tests.oidc_provider import ADA, Provider


def test_sign_ins_by_password_end_once_the_provider_alone_counts(
    ann: User, provider: Provider, client: Client, settings: Any
) -> None:
    root, by_provider = Client(), Client()
    root.force_login(User.objects.create_superuser("root", "root@example.org", PASSWORD))
    sign_in(by_provider, provider)
    changed(settings, emergency_admin="root")
    told = client.get("/api/v1/me")
    assert told.status_code == 403 and "Sign-ins by password have ended here." in told.json()["error"]["message"]
    shown = client.get("/account/", follow=True)
    assert shown.redirect_chain[-1][0] == "/login" and user_of(client) == ""
    words = shown.content.decode()
    assert "Sign-ins by password have ended here." in words and f"identity provider: {settings.OIDC.label}" in words
    assert (user_of(root), root.get("/account/").status_code) == ("root", 200)
    assert by_provider.get("/account/").status_code == 200


def made_admin_by_group(client: Client, provider: Provider, settings: Any) -> User:
    """The one of the client is linked, and made an admin by the group. Gives another admin."""
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    changed(settings, admin_group="ml-admins")
    linked(client, provider)
    provider.tell(claims={"groups": ["ml-admins"]})
    sign_in(Client(), provider)
    return root


def test_the_right_of_the_providers_group_goes_with_the_link(
    ann: User, provider: Provider, client: Client, settings: Any
) -> None:
    root = made_admin_by_group(client, provider, settings)
    assert User.objects.get(username="ann").is_superuser
    User.objects.filter(pk=root.pk).update(is_active=False)
    client.post(reverse("provider_unlink"), {"unlink-password": PASSWORD})
    assert User.objects.get(username="ann").is_superuser  # the last one stays, and linked
    User.objects.filter(pk=root.pk).update(is_active=True)
    client.post(reverse("provider_unlink"), {"unlink-password": PASSWORD})
    assert not User.objects.get(username="ann").is_superuser
    provider.tell()
    linked(client, provider)
    sign_in(Client(), provider)
    assert not User.objects.get(username="ann").is_superuser


def test_a_new_verified_address_is_taken_over_unless_another_account_has_it(provider: Provider, client: Client) -> None:
    sign_in(client, provider)
    for claims in ({"email": "ada@new.example.org", "email_verified": False}, {"email": "no address"}):
        provider.tell(claims={**claims, "groups": []})
        sign_in(Client(), provider)
    assert User.objects.get(username="ada").email == ADA["email"]
    provider.tell(claims={"email": "lovelace@example.org"})
    sign_in(Client(), provider)
    assert User.objects.get(username="ada").email == "lovelace@example.org"
    assert AuditEvent.objects.filter(action="user_update", data__email="lovelace@example.org").exists()
    User.objects.create_user("bob", "Bob@example.org", PASSWORD)
    provider.tell(claims={"email": "bob@example.org"})
    again = Client()
    sign_in(again, provider)
    assert "bob@example.org, was not taken over: another account here has it" in again.get("/account/").content.decode()
    assert User.objects.get(username="ada").email == "lovelace@example.org"


def test_the_emergency_admin_does_not_lock_herself_out_by_removing_the_link(
    ann: User, provider: Provider, client: Client, settings: Any
) -> None:
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    changed(settings, admin_group="ml-admins", emergency_admin="ann")
    Identity.objects.create(user=ann, issuer=provider.issuer, subject=ADA["sub"])
    provider.tell(claims={"groups": ["ml-admins"]})
    browser = Client()
    sign_in(browser, provider)
    answer = browser.post(reverse("provider_unlink"), {"unlink-password": PASSWORD}, follow=True)
    assert "dlh people admin ann" in answer.content.decode()
    assert Identity.objects.exists() and User.objects.get(username="ann").is_superuser
    user_update(actor=root, user=User.objects.get(username="ann"), is_admin=True)
    browser.post(reverse("provider_unlink"), {"unlink-password": PASSWORD})
    assert not Identity.objects.exists() and User.objects.get(username="ann").is_superuser
    again = Client()
    again.post("/login", {"username": "ann", "password": PASSWORD})
    assert user_of(again) == "ann"


def test_an_admin_made_by_hand_after_the_group_did_stays_one(
    ann: User, provider: Provider, client: Client, settings: Any
) -> None:
    root = made_admin_by_group(client, provider, settings)
    for is_admin in (False, True):
        user_update(actor=root, user=User.objects.get(username="ann"), is_admin=is_admin)
    provider.tell()
    sign_in(Client(), provider)
    assert User.objects.get(username="ann").is_superuser
    client.post(reverse("provider_unlink"), {"unlink-password": PASSWORD})
    assert not Identity.objects.exists() and User.objects.get(username="ann").is_superuser


def test_the_loss_of_an_admins_right_is_told_before_and_after_a_link_is_removed(
    ann: User, provider: Provider, client: Client, settings: Any
) -> None:
    root = Client()
    root.force_login(User.objects.create_superuser("root", "root@example.org", PASSWORD))
    changed(settings, admin_group="ml-admins")
    linked(client, provider)
    assert "no longer an admin" not in client.get("/account/").content.decode()
    assert "no longer an admin" not in root.get("/projects/").content.decode()
    provider.tell(claims={"groups": ["ml-admins"]})
    sign_in(Client(), provider)
    assert "no longer an admin" in client.get("/account/").content.decode()
    answer = client.post(reverse("provider_unlink"), {"unlink-password": PASSWORD}, follow=True)
    assert "The link is removed. You are no longer an admin" in answer.content.decode()
    linked(client, provider)
    sign_in(Client(), provider)
    assert "ann is signed out, is no longer an admin" in root.get("/projects/").content.decode()
    answer = root.post("/people/ann/unlink/", follow=True)
    assert "ann is no longer linked, and no longer an admin" in answer.content.decode()


def test_nobody_is_sent_to_a_password_that_counts_no_longer(ann: User, provider: Provider, settings: Any) -> None:
    User.objects.filter(pk=ann.pk).update(username="ada")
    for makes_accounts in (True, False):
        changed(settings, emergency_admin="root", makes_accounts=makes_accounts)
        words = sign_in(Client(), provider).content.decode()
        assert "allow the link" in words and "sign in with your password" not in words
        changed(settings, emergency_admin="")
        assert "sign in with your password" in sign_in(Client(), provider).content.decode()


def test_a_sign_in_holds_the_admins_before_its_own_row(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of whoever changes rights, or the two would wait for each other on PostgreSQL."""
    sign_in(Client(), provider)
    order: list[str] = []
    hold, find = identities.admins_hold, identities._identity_of
    monkeypatch.setattr(identities, "admins_hold", lambda: order.append("admins") or hold())
    monkeypatch.setattr(identities, "_identity_of", lambda told: order.append("identity") or find(told))
    sign_in(Client(), provider)
    assert order == ["admins", "identity"]
