"""Accounts linked with a person of the identity provider: by themselves, by an admin, and back."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.accounts.identities import identity_allow
from harness.accounts.models import AuditEvent, Identity, User
from harness.accounts.services import token_create, user_update
from harness.errors import Conflict, Forbidden
from tests.harness.accounts.provider_parts import (
    PASSWORD,
    changed,
    linked,
    path_of,
    refused,
    sign_in,
    user_of,
)
from tests.oidc_provider import Provider


def test_who_is_signed_in_links_their_account_by_their_password_and_signs_in_by_the_provider(
    ann: User, provider: Provider, client: Client
) -> None:
    assert linked(client, provider) == "/account/"
    assert Identity.objects.get().user == ann
    again = Client()
    sign_in(again, provider)
    assert user_of(again) == "ann"


def test_a_link_needs_the_password_each_time(ann: User, provider: Provider, client: Client) -> None:
    assert linked(client, provider, "wrong password") == "/account/"
    client.post(reverse("provider_link"), {"link-password": PASSWORD})
    client.get(reverse("provider_go"))
    assert client.get(reverse("provider_go"))["Location"] == "/account/"
    assert not Identity.objects.exists()


def test_a_person_of_the_provider_belongs_to_one_account(ann: User, provider: Provider, client: Client) -> None:
    sign_in(Client(), provider)
    linked(client, provider)
    assert "signs in as another account" in client.get("/account/").content.decode()
    assert Identity.objects.get().user.username == "ada"


def test_a_link_that_another_began_ends_in_nothing(ann: User, provider: Provider, client: Client) -> None:
    client.post(reverse("provider_link"), {"link-password": PASSWORD})
    answer = path_of(provider.answer_to(client.get(reverse("provider_go"))["Location"]))
    session = client.session
    session["provider_way"] = {**session["provider_way"], "links": ann.pk + 1}
    session.save()
    client.get(answer)
    assert not Identity.objects.exists()


def test_a_link_goes_by_the_password_and_signs_out_elsewhere(ann: User, provider: Provider, client: Client) -> None:
    linked(client, provider)
    other = Client()
    sign_in(other, provider)
    assert client.post(reverse("provider_unlink"), {"unlink-password": "wrong password"}).status_code == 422
    assert {client.get(reverse(name))["Location"] for name in ("provider_link", "provider_unlink")} == {"/account/"}
    assert Identity.objects.exists()
    client.post(reverse("provider_unlink"), {"unlink-password": PASSWORD})
    assert not Identity.objects.exists() and user_of(client) == "ann"
    assert other.get("/account/").status_code == 302
    assert AuditEvent.objects.filter(action="identity_unlink", actor=ann).exists()


def test_the_only_way_in_is_not_removed(provider: Provider, client: Client) -> None:
    sign_in(client, provider)
    page = client.get("/account/").content.decode()
    assert "you have no password" in page and "Change password" not in page
    client.post(reverse("provider_unlink"), {"unlink-password": ""})
    assert Identity.objects.exists()


def test_an_admin_lets_an_account_be_linked_by_its_verified_address_once(provider: Provider, settings: Any) -> None:
    changed(settings, makes_accounts=False)
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    user = User.objects.create_user("ann", "Ada@example.org", PASSWORD)
    with pytest.raises(Forbidden):
        identity_allow(actor=user, user=user)
    admin = Client()
    admin.force_login(root)
    assert "Allow link" in admin.get("/projects/").content.decode()
    assert admin.post("/people/ann/allow-link/").status_code == 302
    changed(settings, allowed_domains=frozenset())
    provider.tell(claims={"email_verified": False})
    refused(stranger := Client(), sign_in(stranger, provider), "no account here that is linked")
    provider.tell()
    browser = Client()
    sign_in(browser, provider)
    assert user_of(browser) == "ann"
    provider.tell(claims={"sub": "ada-2"})
    late = Client()
    assert sign_in(late, provider).status_code == 403 and user_of(late) == ""
    assert admin.post("/people/ann/unlink/").status_code == 302
    assert not Identity.objects.exists() and browser.get("/account/").status_code == 302


def test_an_allowance_ends_and_an_address_of_two_is_nobodys(provider: Provider, settings: Any) -> None:
    changed(settings, makes_accounts=False)
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    user = User.objects.create_user("ann", "ada@example.org", PASSWORD)
    identity_allow(actor=root, user=user)
    User.objects.filter(pk=user.pk).update(link_allowed_until=timezone.now())
    assert sign_in(Client(), provider).status_code == 403
    identity_allow(actor=root, user=user)
    User.objects.create_user("eve", "ADA@example.org", PASSWORD)
    assert sign_in(Client(), provider).status_code == 403
    with pytest.raises(Conflict):
        identity_allow(actor=root, user=user)


def test_the_providers_sign_in_counts_as_second_factor_until_the_link_is_removed(
    ann: User, provider: Provider, client: Client, settings: Any
) -> None:
    linked(client, provider)
    settings.SECOND_FACTOR = "all"
    User.objects.update(must_change_password=True)
    assert client.get("/account/").status_code == 302
    browser = Client()
    sign_in(browser, provider)
    assert browser.get("/account/").status_code == 200
    browser.post(reverse("provider_unlink"), {"unlink-password": PASSWORD})
    assert browser.get("/account/").status_code == 302


def test_a_token_made_on_the_account_page_works_for_who_has_no_password(provider: Provider, client: Client) -> None:
    sign_in(client, provider)
    _, text = token_create(user=User.objects.get(username="ada"), name="cli")
    answer = Client().get("/api/v1/me", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 200 and "ada" in answer.content.decode()
    user_update(actor=None, user=User.objects.get(username="ada"), is_active=False)
    assert client.get("/account/").status_code == 302


@pytest.mark.parametrize(
    ("method", "name"),
    [("post", "provider_start"), ("post", "provider_back"), ("post", "provider_go")],
)
def test_each_address_takes_its_own_method(method: str, name: str, ann: User, client: Client) -> None:
    assert getattr(client, method)(reverse(name)).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ann)
    assert strict.post(reverse("provider_unlink"), {"unlink-password": PASSWORD}).status_code == 403


def test_strangers_link_nothing(provider: Provider, client: Client) -> None:
    answers = [client.post(reverse(name)) for name in ("provider_link", "provider_unlink")]
    for answer in (*answers, client.get(reverse("provider_go"))):
        assert answer.status_code == 302 and "/login" in answer["Location"]
