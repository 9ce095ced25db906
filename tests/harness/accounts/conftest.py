"""An identity provider over HTTP, and a local account signed in beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from harness.accounts import provider as asked
from harness.accounts.models import User
from harness.env_oidc import OidcSettings
from tests.harness.accounts.provider_parts import (
    PASSWORD,
)
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider


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


@pytest.fixture
def ann(provider: Provider, client: Client) -> User:
    """A local account, signed in by its password."""
    user = User.objects.create_user("ann", "ann@example.org", PASSWORD)
    client.force_login(user)
    return user
