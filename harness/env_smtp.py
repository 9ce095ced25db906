"""The mail server, from the environment: `DLH_SMTP_*`."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.utils import parseaddr
from enum import StrEnum

from harness.env import SettingsError, env_int, env_text


class Security(StrEnum):
    """How the connection to the mail server is kept secret."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


_PORTS = {Security.STARTTLS: 587, Security.TLS: 465, Security.NONE: 25}


@dataclass(frozen=True, kw_only=True)
class SmtpSettings:
    """Where the mail server is and how to sign in there."""

    host: str
    port: int
    security: Security
    sender: str
    """`From` of every e-mail."""
    user: str = ""
    """Empty: without signing in."""
    password: str = field(default="", repr=False)


def smtp_settings() -> SmtpSettings | None:
    """The mail server, or None where `DLH_SMTP_HOST` is not set. Raises `SettingsError`."""
    host = env_text("DLH_SMTP_HOST").strip()
    if not host:
        return None
    text = env_text("DLH_SMTP_SECURITY").strip().lower() or Security.STARTTLS.value
    if text not in list(Security):
        raise SettingsError(f"DLH_SMTP_SECURITY must be one of {', '.join(Security)}, not {text!r}")
    sender = env_text("DLH_SMTP_FROM").strip()
    if "@" not in parseaddr(sender)[1]:
        raise SettingsError("DLH_SMTP_HOST is set: DLH_SMTP_FROM must name the address that e-mails come from")
    user, password = env_text("DLH_SMTP_USER").strip(), env_text("DLH_SMTP_PASSWORD").strip()
    if bool(user) != bool(password):
        raise SettingsError("DLH_SMTP_USER and DLH_SMTP_PASSWORD (or DLH_SMTP_PASSWORD_FILE) go together")
    if not (user + password).isascii():  # smtplib encodes no others, whichever way the server asks for them
        raise SettingsError("DLH_SMTP_USER and DLH_SMTP_PASSWORD may have ASCII characters only: no ä, no é")
    security = Security(text)
    port = env_int("DLH_SMTP_PORT", _PORTS[security])
    if not 0 < port < 65536:
        raise SettingsError(f"DLH_SMTP_PORT must be a port, not {port}")
    return SmtpSettings(host=host, port=port, security=security, sender=sender, user=user, password=password)
