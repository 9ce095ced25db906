"""A browser on its way over an identity provider: what the tests of signing in by one have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.test import Client
from django.urls import reverse

from harness.accounts.models import Identity, User
from tests.oidc_provider import Provider

PASSWORD = "a long passphrase 7"
BACK = "/login/provider/back"


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


def linked(client: Client, provider: Provider, password: str = PASSWORD) -> Any:
    client.post(reverse("provider_link"), {"link-password": password})
    there = client.get(reverse("provider_go"))["Location"]
    if not there.startswith(provider.issuer):
        return there
    return client.get(path_of(provider.answer_to(there)))["Location"]
