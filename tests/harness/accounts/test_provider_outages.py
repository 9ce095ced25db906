"""An identity provider out of reach or reached too often, its keys anew, and what logs tell of a sign-in."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from harness.accounts import provider as asked
from harness.accounts.models import SignInFailure
from harness.accounts.signin import TRIES_FROM_ADDRESS, signin_failed
from harness.log_lines import WithoutCodes
from tests.harness.accounts.provider_parts import (
    BACK,
    begun,
    changed,
    path_of,
    refused,
    sign_in,
    user_of,
)
from tests.oidc_provider import CLIENT_SECRET, Provider


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


@pytest.mark.parametrize("name", ["provider_start", "provider_back"])
def test_without_a_provider_there_is_no_way_to_it(name: str, client: Client, db: None) -> None:
    assert client.get(reverse(name)).status_code in (403, 404)
    assert b"login/provider" not in client.get("/login").content
