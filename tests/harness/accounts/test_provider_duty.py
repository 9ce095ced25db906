"""The provider's word that comes later: passwords that count no longer, a group that made an admin, a new address."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from harness.accounts.models import AuditEvent, User
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


def test_the_right_of_the_providers_group_goes_with_the_link(
    ann: User, provider: Provider, client: Client, settings: Any
) -> None:
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    changed(settings, admin_group="ml-admins")
    linked(client, provider)
    provider.tell(claims={"groups": ["ml-admins"]})
    sign_in(Client(), provider)
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
