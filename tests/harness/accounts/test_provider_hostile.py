"""What a hostile or odd provider answers, addresses that look alike, and people without a password who leave."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.accounts import provider as asked
from harness.accounts.identities import identity_allow, is_same_address
from harness.accounts.leaving import user_delete
from harness.accounts.models import Identity, User
from harness.accounts.services import user_update
from tests.harness.accounts.provider_parts import (
    BACK,
    PASSWORD,
    begun,
    changed,
    linked,
    path_of,
    refused,
    sign_in,
    user_of,
)
from tests.oidc_provider import Provider

DISCOVERY = "/.well-known/openid-configuration"


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "ada\x00"},
        {"sub": "\ud800"},
        {"sub": 5},
        {"sub": ["ada-1"]},
        {"email": "ada\x00@example.org"},
        {"email": "ada\ud800@example.org"},
        {"email": ["ada@example.org"]},
        {"email": f"{'a' * 300}@example.org"},
        {"preferred_username": "\ud800"},
        {"preferred_username": "a\x00"},
        {"preferred_username": "a" * 200},
        {"aud": {"harness": 1}},
        {"exp": "9999999999"},
        {"email_verified": ["yes"]},
    ],
)
def test_claims_of_odd_types_and_letters_are_refused_in_words(
    claims: dict[str, Any], provider: Provider, client: Client
) -> None:
    address = begun(client)
    provider.tell(claims=claims)
    answer = client.get(path_of(provider.answer_to(address)))
    refused(client, answer, "alert-title")
    assert not User.objects.exists()


@pytest.mark.parametrize("groups", ["ml", {"ml": True}, [["ml"], {"ml": 1}, None, 5], 7, None])
def test_groups_that_are_no_list_of_names_let_nobody_in(
    groups: object, provider: Provider, client: Client, settings: Any
) -> None:
    changed(settings, allowed_domains=frozenset(), allowed_groups=frozenset({"ml"}), admin_group="ml")
    address = begun(client)
    provider.tell(claims={"groups": groups})
    refused(client, client.get(path_of(provider.answer_to(address))), "membership of an allowed group")


@pytest.mark.parametrize(
    ("body", "is_packed"),
    [("[" * 500_000, False), ("[]", False), ("", False), ("{" + " " * 2**21 + "}", False), ("{}" + " " * 2**26, True)],
)
def test_an_answer_that_is_too_deep_too_large_or_none_is_told_as_such(
    body: str, is_packed: bool, provider: Provider, client: Client
) -> None:
    provider.tell(bodies={DISCOVERY: body}, packed=is_packed)
    answer = client.get(reverse("provider_start"))
    assert answer.status_code == 503 and "cannot be read" in answer.content.decode()


def test_a_key_that_nobody_can_use_leaves_the_others_good(provider: Provider, client: Client) -> None:
    odd = [{"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"}, {"kty": "RSA", "kid": "x"}, {"kty": ["RSA"]}, 5]
    provider.tell(keys=odd)
    sign_in(client, provider)
    assert user_of(client) == "ada"


def test_a_key_set_without_any_is_refused(provider: Provider, client: Client) -> None:
    address = begun(client)
    provider.tell(bodies={"/keys": '{"keys": 5}'})
    refused(client, client.get(path_of(provider.answer_to(address))), "no signature that holds")


def test_a_new_key_under_the_old_name_is_asked_for(
    provider: Provider, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(Client(), provider)
    monkeypatch.setattr(asked, "KEYS_ANEW_S", 0.0)
    provider.tell(signed="new key of the old name")
    sign_in(client, provider)
    assert user_of(client) == "ada"


@pytest.mark.parametrize(("claimed", "is_same"), [("ADA@Mike.example", True), ("ada@m\u0131ke.example", False)])
def test_an_allowed_link_is_for_the_address_itself_and_none_that_looks_like_it(
    claimed: str, is_same: bool, provider: Provider, client: Client, settings: Any
) -> None:
    assert is_same_address("ada@mike.example", claimed) is is_same
    changed(settings, makes_accounts=False, allowed_domains=frozenset())
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    identity_allow(actor=root, user=User.objects.create_user("ann", "ada@mike.example", PASSWORD))
    provider.tell(claims={"email": claimed})
    sign_in(client, provider)
    assert user_of(client) == ("ann" if is_same else "")


@pytest.mark.parametrize("change", [{"email": "ada@example.org"}, {"is_active": False}])
def test_an_allowance_goes_with_the_address_and_with_the_access(
    change: dict[str, Any], provider: Provider, client: Client, settings: Any
) -> None:
    changed(settings, makes_accounts=False)
    root = User.objects.create_superuser("root", "root@example.org", PASSWORD)
    user = User.objects.create_user("ann", "ada@example.org" if "is_active" in change else "ann@example.org", PASSWORD)
    identity_allow(actor=root, user=user)
    user_update(actor=root, user=user, **change)
    user_update(actor=root, user=user, is_active=True)
    refused(client, sign_in(client, provider), "no account here that is linked")


def test_who_was_deleted_comes_back_as_a_stranger(provider: Provider, client: Client, settings: Any) -> None:
    sign_in(client, provider)
    gone = User.objects.get(username="ada")
    user_delete(actor=None, user=gone)
    assert client.get("/account/").status_code == 302 and not Identity.objects.exists()
    changed(settings, makes_accounts=False)
    late = Client()
    refused(late, sign_in(late, provider), "no account here that is linked")
    changed(settings, makes_accounts=True)
    sign_in(late, provider)
    assert user_of(late) == "ada" and User.objects.get(username="ada").pk != gone.pk


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_sign_in_by_a_provider_that_counts_no_longer_ends(
    is_removed: bool, provider: Provider, client: Client, settings: Any
) -> None:
    sign_in(client, provider)
    assert client.get("/account/").status_code == client.get("/api/v1/me").status_code == 200
    if is_removed:
        settings.OIDC = None
    else:
        changed(settings, issuer="https://other.example.org")
    assert client.get("/api/v1/me").status_code == 403
    assert client.get("/account/")["Location"] == "/login" and user_of(client) == ""


def proven(client: Client, provider: Provider, **claims: Any) -> Any:
    there = client.get(reverse("provider_again"))["Location"]
    assert "max_age=0" in there
    provider.tell(claims=claims)
    return client.get(path_of(provider.answer_to(there)))


def test_who_has_no_password_deletes_their_account_by_a_fresh_sign_in_at_the_provider(
    provider: Provider, client: Client
) -> None:
    sign_in(client, provider)
    place = reverse("account_end")
    page = client.get(place).content.decode()
    assert reverse("provider_again") in page and 'name="password"' not in page and "Delete my account" not in page
    assert client.post(place).status_code == 422 and User.objects.filter(username="ada").exists()
    assert proven(client, provider, auth_time=int(time.time()))["Location"] == place
    assert "Delete my account" in client.get(place).content.decode()
    assert client.post(place)["Location"] == reverse("login")
    assert not Identity.objects.exists() and not User.objects.filter(username="ada").exists()


@pytest.mark.parametrize("claims", [{"sub": "another"}, {"auth_time": 1_700_000_000}, {"nonce": "another"}])
def test_another_person_or_an_old_sign_in_proves_nothing(
    claims: dict[str, Any], provider: Provider, client: Client
) -> None:
    sign_in(client, provider)
    assert proven(client, provider, **claims)["Location"] == "/account/"
    assert client.post(reverse("account_end")).status_code == 422 and User.objects.filter(username="ada").exists()


def test_the_proof_is_of_one_person_and_soon_over(provider: Provider, client: Client) -> None:
    sign_in(client, provider)
    proven(client, provider)
    session = client.session
    for proof in ({"at": time.time() - 301}, {"user": 0}):
        session["proven_by_provider"] = {"user": int(session["_auth_user_id"]), "at": time.time(), **proof}
        session.save()
        assert client.post(reverse("account_end")).status_code == 422
    assert User.objects.filter(username="ada").exists()


def test_who_has_a_password_gives_it_though_the_provider_would_do(provider: Provider, client: Client) -> None:
    user = User.objects.create_user("ann", "ann@example.org", PASSWORD)
    client.force_login(user)
    linked(client, provider)
    proven(client, provider)
    assert client.post(reverse("account_end"), {"password": "wrong password"}).status_code == 422
    assert client.post(reverse("account_end"), {"password": PASSWORD}).status_code == 302
    assert not Identity.objects.exists() and client.get(BACK).status_code == 403
