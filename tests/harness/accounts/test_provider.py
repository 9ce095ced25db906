"""Sign-in by an identity provider: a real one over HTTP, and what a lying one or a stranger may try."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from harness.accounts.models import AuditEvent, Identity, SignInFailure, User
from tests.harness.accounts.provider_parts import (
    BACK,
    PASSWORD,
    begun,
    changed,
    path_of,
    refused,
    sign_in,
    user_of,
)
from tests.oidc_provider import CLIENT_ID, Provider


def test_somebody_of_an_allowed_domain_gets_an_account_without_a_password_and_comes_back_to_it(
    provider: Provider, client: Client
) -> None:
    assert sign_in(client, provider)["Location"] == "/"
    user = User.objects.get(username="ada")
    assert (user_of(client), user.email, user.has_usable_password(), user.is_superuser) == (
        "ada", "ada@example.org", False, False,
    )  # fmt: skip
    assert {"user_create", "identity_link"} <= set(
        AuditEvent.objects.filter(actor=user).values_list("action", flat=True)
    )
    provider.tell(claims={"preferred_username": "renamed"})
    again = Client()
    sign_in(again, provider)
    assert user_of(again) == "ada" and User.objects.count() == 1


def test_the_way_there_has_state_nonce_and_a_challenge_and_keeps_the_verifier_here(
    provider: Provider, client: Client, settings: Any
) -> None:
    sent = parse_qs(urlsplit(begun(client)).query)
    kept = client.session["provider_way"]
    assert sent["code_challenge_method"] == ["S256"] and sent["response_type"] == ["code"]
    assert sent["state"] == [kept["state"]] and sent["nonce"] == [kept["nonce"]]
    assert kept["verifier"] not in str(sent) and len(kept["verifier"]) >= 43
    assert sent["redirect_uri"] == [f"{settings.PORTAL_URL}{BACK}"]
    begun(client)
    assert client.session["provider_way"]["state"] != kept["state"]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"claims": {"nonce": "another"}}, "belongs to another sign-in"),
        ({"claims": {"nonce": None}}, "belongs to another sign-in"),
        ({"claims": {"iss": "https://evil.example"}}, "names another issuer"),
        ({"claims": {"aud": "another-client"}}, "is for another application"),
        ({"claims": {"aud": [CLIENT_ID, "other"], "azp": "other"}}, "is for another application"),
        ({"claims": {"aud": [CLIENT_ID, "other"]}}, "is for another application"),
        ({"claims": {"exp": int(time.time()) - 3600}}, "has expired already"),
        ({"claims": {"exp": None}}, "lacks something"),
        ({"claims": {"iat": int(time.time()) + 36000}}, "from the future"),
        ({"claims": {"sub": ""}}, "lacks something"),
        ({"claims": {"sub": "x" * 256}}, "lacks something"),
        ({"signed": "none"}, "no signature that holds"),
        ({"signed": "HS256"}, "no signature that holds"),
        ({"signed": "other key"}, "no signature that holds"),
        ({"answer": {"code": "x", "iss": "https://evil.example"}}, "came from another identity provider"),
        ({"answer": {"error": "access_denied"}}, "cancelled or refused"),
        ({"answer": {"error": "invalid_scope"}}, "refused the request"),
        ({"answer": {"code": "made up"}}, "did not accept the sign-in"),
        ({"claims": {"email_verified": False}}, "a verified e-mail address of an allowed domain"),
        ({"claims": {"email_verified": None}}, "a verified e-mail address of an allowed domain"),
        ({"claims": {"email": "ada@example.org.evil.example"}}, "a verified e-mail address of an allowed domain"),
        ({"claims": {"preferred_username": "a/b"}}, "no name that an account here can have"),
        ({"claims": {"preferred_username": ".."}}, "no name that an account here can have"),
        ({"claims": {"preferred_username": None}}, "no name that an account here can have"),
    ],
)
def test_what_does_not_hold_is_refused_in_words_and_counted(
    told: dict[str, Any], words: str, provider: Provider, client: Client
) -> None:
    address = begun(client)
    provider.tell(**told)
    refused(client, client.get(path_of(provider.answer_to(address))), words)
    assert SignInFailure.objects.count() == 1 and not User.objects.exists()


def test_an_answer_is_good_once_and_in_the_browser_alone_that_asked(provider: Provider, client: Client) -> None:
    answer = path_of(provider.answer_to(begun(client)))
    stranger = Client()
    refused(stranger, stranger.get(answer), "not begun in this browser")
    assert not SignInFailure.objects.exists()  # another page can send a browser there
    assert client.get(answer).status_code == 302 and user_of(client) == "ada"
    client.post("/logout")
    assert client.get(answer).status_code == 403 and user_of(client) == ""


def test_a_wrong_state_uses_up_the_way(provider: Provider, client: Client) -> None:
    answer = path_of(provider.answer_to(begun(client)))
    refused(client, client.get(f"{BACK}?code=x&state=wrong"), "not begun in this browser")
    refused(client, client.get(answer), "not begun in this browser")


def test_a_way_that_took_too_long_is_over(provider: Provider, client: Client) -> None:
    answer = path_of(provider.answer_to(begun(client)))
    session = client.session
    session["provider_way"] = {**session["provider_way"], "at": time.time() - 3600}
    session.save()
    refused(client, client.get(answer), "took too long")


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"])
def test_nobody_is_sent_on_to_another_host(to: str, provider: Provider, client: Client) -> None:
    assert sign_in(client, provider, to)["Location"] == "/"


def test_who_wanted_a_page_gets_there(provider: Provider, client: Client) -> None:
    assert sign_in(client, provider, "/account/?a=1")["Location"] == "/account/?a=1"


def test_another_subject_of_the_same_address_and_name_gets_in_nowhere(provider: Provider, client: Client) -> None:
    sign_in(client, provider)
    provider.tell(claims={"sub": "ada-2"})
    swapped = Client()
    answer = sign_in(swapped, provider)
    assert answer.status_code == 409 and "There is an account ada already" in answer.content.decode()
    assert user_of(swapped) == "" and Identity.objects.count() == 1


def test_an_account_is_not_taken_by_its_address(provider: Provider, client: Client, settings: Any) -> None:
    User.objects.create_user("ann", "ada@example.org", PASSWORD)
    changed(settings, makes_accounts=False)
    refused(client, sign_in(client, provider), "no account here that is linked")


def test_a_disabled_account_stays_out(provider: Provider, client: Client) -> None:
    sign_in(client, provider)
    User.objects.update(is_active=False)
    again = Client()
    answer = sign_in(again, provider)
    assert answer.status_code == 403 and "is disabled" in answer.content.decode() and user_of(again) == ""


def test_groups_let_in_and_make_admins_who_are_none_any_more_when_they_leave(provider: Provider, settings: Any) -> None:
    User.objects.create_superuser("root", "root@example.org", PASSWORD)
    changed(settings, allowed_domains=frozenset(), allowed_groups=frozenset({"ml"}), admin_group="ml-admins")
    outsider, first, second = Client(), Client(), Client()
    refused(outsider, sign_in(outsider, provider), "membership of an allowed group")
    provider.tell(claims={"groups": ["ml", "ml-admins"], "email_verified": False})
    sign_in(first, provider)
    user = User.objects.get(username="ada")
    assert user.is_superuser and user.email == ""
    provider.tell(claims={"groups": ["ml"]})
    sign_in(second, provider)
    user.refresh_from_db()
    assert user_of(second) == "ada" and not user.is_superuser


def test_the_last_admin_stays_one_and_whom_an_admin_made_one_as_well(provider: Provider, settings: Any) -> None:
    changed(settings, admin_group="ml-admins")
    provider.tell(claims={"groups": ["ml-admins"]})
    sign_in(Client(), provider)
    provider.tell()
    sign_in(Client(), provider)
    assert User.objects.get(username="ada").is_superuser
    Identity.objects.update(made_admin=False)
    User.objects.create_superuser("root", "root@example.org", PASSWORD)
    sign_in(Client(), provider)
    assert User.objects.get(username="ada").is_superuser


def test_the_admin_for_emergencies_stays_one_who_leaves_the_group(provider: Provider, settings: Any) -> None:
    User.objects.create_superuser("root", "root@example.org", PASSWORD)
    changed(settings, admin_group="ml-admins", emergency_admin="ada")
    provider.tell(claims={"groups": ["ml-admins"]})
    sign_in(Client(), provider)
    provider.tell()
    sign_in(Client(), provider)
    assert User.objects.get(username="ada").is_superuser, "or no password would let anybody in"


def test_where_the_provider_counts_only_one_admin_has_a_password(provider: Provider, settings: Any) -> None:
    changed(settings, emergency_admin="root")
    for name, make in (("root", User.objects.create_superuser), ("boss", User.objects.create_superuser)):
        make(name, f"{name}@example.org", PASSWORD)
    boss, root = Client(), Client()
    wrong = boss.post("/login", {"username": "boss", "password": "wrong password"}).content
    right = boss.post("/login", {"username": "boss", "password": PASSWORD}).content
    assert b"Passwords are for emergencies" in right and b"Passwords are for emergencies" in wrong
    assert user_of(boss) == "" and SignInFailure.objects.filter(name="boss").count() == 2
    root.post("/login", {"username": "root", "password": PASSWORD})
    assert user_of(root) == "root"
    User.objects.filter(username="root").update(is_superuser=False)
    left = Client()
    left.post("/login", {"username": "root", "password": PASSWORD})
    assert user_of(left) == ""


def test_signing_in_by_password_after_turning_around_lasts_as_long_as_ever(
    ann: User, provider: Provider, settings: Any
) -> None:
    browser = Client()
    begun(browser)
    assert browser.session.get_expiry_age() <= 600
    browser.post("/login", {"username": "ann", "password": PASSWORD})
    assert user_of(browser) == "ann" and browser.session.get_expiry_age() == settings.SESSION_COOKIE_AGE
