"""Sign-in by an identity provider: a real one over HTTP, and what a lying one or a stranger may try."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.accounts import provider as asked
from harness.accounts.identities import identity_allow
from harness.accounts.models import AuditEvent, Identity, SignInFailure, User
from harness.accounts.services import token_create, user_update
from harness.accounts.signin import TRIES_FROM_ADDRESS, signin_failed
from harness.env_oidc import OidcSettings
from harness.errors import Conflict, Forbidden
from harness.log_lines import WithoutCodes
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider

PASSWORD = "a long passphrase 7"
BACK = "/login/provider/back"


@pytest.fixture(scope="module")
def served() -> Iterator[Provider]:
    one = Provider()
    yield one
    one.close()


@pytest.fixture
def provider(served: Provider, settings: Any, db: None) -> Provider:
    """Honest, and the portal's; whoever is of example.org gets an account."""
    asked._kept.clear()
    served.tell()
    settings.OIDC = OidcSettings(
        issuer=served.issuer,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        allowed_domains=frozenset({"example.org"}),
        makes_accounts=True,
    )
    return served


def changed(settings: Any, **fields: Any) -> None:
    settings.OIDC = replace(settings.OIDC, **fields)


def begun(client: Client, to: str = "") -> str:
    """The provider's address that the browser is sent to."""
    answer = client.get(reverse("provider_start"), {"next": to} if to else {})
    assert answer.status_code == 302
    return answer["Location"]


def path_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}"


def sign_in(client: Client, provider: Provider, to: str = "") -> Any:
    return client.get(path_of(provider.answer_to(begun(client, to))))


def user_of(client: Client) -> str:
    key = client.session.get("_auth_user_id")
    return User.objects.get(pk=key).username if key else ""


def refused(client: Client, answer: Any, words: str, status: int = 403) -> None:
    assert answer.status_code == status
    assert words in answer.content.decode()
    assert user_of(client) == "" and not Identity.objects.exists()


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


@pytest.fixture
def ann(provider: Provider, client: Client) -> User:
    """A local account, signed in by its password."""
    user = User.objects.create_user("ann", "ann@example.org", PASSWORD)
    client.force_login(user)
    return user


def linked(client: Client, provider: Provider, password: str = PASSWORD) -> Any:
    client.post(reverse("provider_link"), {"link-password": password})
    there = client.get(reverse("provider_go"))["Location"]
    if not there.startswith(provider.issuer):
        return there
    return client.get(path_of(provider.answer_to(there)))["Location"]


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


def test_too_many_refusals_from_an_address_stop_it_there(provider: Provider, client: Client) -> None:
    address = begun(client)
    for _ in range(TRIES_FROM_ADDRESS):
        signin_failed(name="", address="127.0.0.1")
    refused(client, client.get(path_of(provider.answer_to(address))), "Too many refused", 429)
    assert client.get(reverse("provider_start")).status_code == 429


def test_a_provider_out_of_reach_is_told_and_counts_against_nobody(
    provider: Provider, client: Client, settings: Any
) -> None:
    changed(settings, issuer="http://127.0.0.1:9")
    answer = client.get(reverse("provider_start"))
    assert answer.status_code == 503 and "cannot be reached" in answer.content.decode()
    assert not SignInFailure.objects.exists()


@pytest.mark.parametrize(
    ("discovery", "words"),
    [
        ({"issuer": "https://evil.example"}, "names another issuer"),
        ({"authorization_endpoint": "http://evil.example/authorize"}, "cannot be read"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "cannot be read"),
    ],
)
def test_a_discovery_document_of_another_issuer_or_without_tls_leads_nowhere(
    discovery: dict[str, str], words: str, provider: Provider, client: Client
) -> None:
    provider.tell(discovery=discovery)
    answer = client.get(reverse("provider_start"))
    assert answer.status_code in (403, 503) and words in answer.content.decode()


def test_new_keys_are_asked_for_when_they_sign_but_not_for_every_lie(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(Client(), provider)
    monkeypatch.setattr(asked, "KEYS_ANEW_S", 0.0)
    provider.tell(signed="new key")
    browser = Client()
    sign_in(browser, provider)
    assert user_of(browser) == "ada"
    monkeypatch.undo()
    before = provider.key_requests()
    provider.tell(signed="other key")
    for _ in range(3):
        assert sign_in(Client(), provider).status_code == 403
    assert provider.key_requests() == before


def test_the_log_has_neither_code_nor_token_nor_secret(
    provider: Provider, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = path_of(provider.answer_to(begun(client)))
        client.get(answer)
        provider.tell(claims={"nonce": "x"})
        sign_in(Client(), provider)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("harness")]
    code = parse_qs(urlsplit(answer).query)["code"][0]
    assert any("user ada" in line for line in told) and any("refused" in line for line in told)
    assert not any(word in line for line in told for word in (code, CLIENT_SECRET, "eyJ"))


def test_the_servers_own_log_leaves_out_what_came_with_the_answer() -> None:
    answer = f"{BACK}?code=hidden&state=hidden"
    seen = []
    for path in (answer, "/jobs/?page=2"):
        record = logging.LogRecord(
            "uvicorn.access",
            logging.INFO,
            "",
            1,
            '%s - "%s %s HTTP/%s" %d',
            ("1.2.3.4:5", "GET", path, "1.1", 302),
            None,
        )
        assert WithoutCodes().filter(record)
        seen.append(record.getMessage())
    assert "hidden" not in seen[0] and BACK in seen[0] and "/jobs/?page=2" in seen[1]


def test_signing_in_by_password_after_turning_around_lasts_as_long_as_ever(
    ann: User, provider: Provider, settings: Any
) -> None:
    browser = Client()
    begun(browser)
    assert browser.session.get_expiry_age() <= 600
    browser.post("/login", {"username": "ann", "password": PASSWORD})
    assert user_of(browser) == "ann" and browser.session.get_expiry_age() == settings.SESSION_COOKIE_AGE


@pytest.mark.parametrize("name", ["provider_start", "provider_back"])
def test_without_a_provider_there_is_no_way_to_it(name: str, client: Client, db: None) -> None:
    assert client.get(reverse(name)).status_code in (403, 404)
    assert b"login/provider" not in client.get("/login").content


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("post", "provider_start"), ("post", "provider_back"), ("get", "provider_link"), ("post", "provider_go"),
        ("get", "provider_unlink"),
    ],
)  # fmt: skip
def test_each_address_takes_its_own_method(method: str, name: str, ann: User, client: Client) -> None:
    assert getattr(client, method)(reverse(name)).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ann)
    assert strict.post(reverse("provider_unlink"), {"unlink-password": PASSWORD}).status_code == 403


def test_strangers_link_nothing(provider: Provider, client: Client) -> None:
    answers = [client.post(reverse(name)) for name in ("provider_link", "provider_unlink")]
    for answer in (*answers, client.get(reverse("provider_go"))):
        assert answer.status_code == 302 and "/login" in answer["Location"]
