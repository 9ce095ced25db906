"""The identity provider that people sign in by, from the environment: `DLH_OIDC_*`."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from harness.env import SettingsError, env_bool, env_list, env_text

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """Where the identity provider (OpenID Connect) is, and whom of its people the portal lets in."""

    issuer: str
    """As its discovery document and its tokens name it, to the letter."""
    client_id: str
    client_secret: str = field(default="", repr=False)
    """Empty: a public client, which PKCE alone protects."""
    scopes: str = "openid email profile"
    name_claim: str = "preferred_username"
    """Claim that a new account is named by."""
    groups_claim: str = "groups"
    allowed_domains: frozenset[str] = frozenset()
    """Of verified e-mail addresses, in small letters. With `allowed_groups` empty as well: everybody it knows."""
    allowed_groups: frozenset[str] = frozenset()
    admin_group: str = ""
    """Who is in it is an admin of the installation; empty: the provider makes none."""
    makes_accounts: bool = False
    """Who is allowed and unknown gets an account."""
    label: str = "Sign in with your organisation"
    emergency_admin: str = ""
    """The one who may still sign in by password; empty: everybody who has one."""


def is_safe_address(url: str) -> bool:
    """Whether tokens and keys may go there: by TLS, or without it on this machine alone."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)


def oidc_settings() -> OidcSettings | None:
    """The identity provider, or None where `DLH_OIDC_ISSUER` is not set. Raises `SettingsError`."""
    issuer = env_text("DLH_OIDC_ISSUER").strip()
    emergency_admin = env_text("DLH_OIDC_EMERGENCY_ADMIN").strip()
    if not issuer:
        if emergency_admin:
            raise SettingsError("DLH_OIDC_EMERGENCY_ADMIN is set: without DLH_OIDC_ISSUER nobody else could sign in")
        return None
    if not is_safe_address(issuer) or "?" in issuer or "#" in issuer:
        raise SettingsError(f"DLH_OIDC_ISSUER must look like https://id.example.org/realms/main, not {issuer!r}")
    client_id = env_text("DLH_OIDC_CLIENT_ID").strip()
    if not client_id:
        raise SettingsError("DLH_OIDC_ISSUER is set: DLH_OIDC_CLIENT_ID must be, too")
    scopes = env_text("DLH_OIDC_SCOPES").split() or OidcSettings.scopes.split()
    if "openid" not in scopes:
        raise SettingsError(f"DLH_OIDC_SCOPES must have openid among them, not {' '.join(scopes)!r}")
    domains = frozenset(domain.lower().lstrip("@") for domain in env_list("DLH_OIDC_ALLOWED_DOMAINS"))
    groups = frozenset(env_list("DLH_OIDC_ALLOWED_GROUPS"))
    makes_accounts = env_bool("DLH_OIDC_NEW_ACCOUNTS")
    if makes_accounts and not (domains or groups):
        raise SettingsError(
            "DLH_OIDC_NEW_ACCOUNTS is set: DLH_OIDC_ALLOWED_DOMAINS or DLH_OIDC_ALLOWED_GROUPS must say for whom"
        )
    return OidcSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret=env_text("DLH_OIDC_CLIENT_SECRET").strip(),
        scopes=" ".join(scopes),
        name_claim=env_text("DLH_OIDC_NAME_CLAIM").strip() or OidcSettings.name_claim,
        groups_claim=env_text("DLH_OIDC_GROUPS_CLAIM").strip() or OidcSettings.groups_claim,
        allowed_domains=domains,
        allowed_groups=groups,
        admin_group=env_text("DLH_OIDC_ADMIN_GROUP").strip(),
        makes_accounts=makes_accounts,
        label=env_text("DLH_OIDC_LABEL").strip()[:60] or OidcSettings.label,
        emergency_admin=emergency_admin,
    )
