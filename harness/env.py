"""Typed readers of environment variables, and the secrets of this installation."""

from __future__ import annotations

import os
import re
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from worker.events import EVENT_STREAMS_MAX

IPNetwork = IPv4Network | IPv6Network
REPOSITORY = Path(__file__).resolve().parent.parent
EVENT_STREAMS = 8
"""With PostgreSQL: room for as many control processes that read events."""
SECOND_FACTOR_FOR = ("nobody", "admins", "all")
LOG_LEVELS = ("INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL")
"""The usual one first."""
PORT_MAX = 65535
DAYS_MAX = 36_500
"""A hundred years: what is counted back from now must not begin before there were dates."""
SECRET_BYTES = 48
_SECRET_LENGTH_MIN = 40


class SettingsError(Exception):
    """The environment of this process is wrong; the message names the variable."""


def env_text(name: str, default: str = "") -> str:
    """The variable as text, or what the file named by `<name>_FILE` holds.

    Raises `SettingsError` for a file that cannot be read.
    """
    file = os.environ.get(f"{name}_FILE")
    if not file:
        return os.environ.get(name, default)
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise SettingsError(f"{name}_FILE: {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name}_FILE: {file} is not UTF-8 text") from error


def env_bool(name: str, *, default: bool = False) -> bool:
    """`1/true/yes/on` or `0/false/no/off`. Raises `SettingsError` on anything else."""
    text = env_text(name).strip().lower()
    if not text:
        return default
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    raise SettingsError(f"{name} must be 1 or 0, not {text!r}")


def env_int(name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
    """A whole number from `least` to `most`. Raises `SettingsError` on anything else."""
    text = env_text(name).strip()
    if not text:
        return default
    try:
        number = int(text)
    except ValueError as error:
        raise SettingsError(f"{name} must be a whole number, not {text!r}") from error
    if number < least:
        raise SettingsError(f"{name} must be at least {least}, not {number}")
    if most is not None and number > most:
        raise SettingsError(f"{name} must be at most {most}, not {number}")
    return number


def env_choice(name: str, choices: Sequence[str]) -> str:
    """One of the choices, in upper or lower case; the first where nothing is set. Raises `SettingsError` on others."""
    text = env_text(name).strip()
    found = next((choice for choice in choices if choice.lower() == text.lower()), None)
    if text and found is None:
        raise SettingsError(f"{name} must be one of {', '.join(choices)}, not {text!r}")
    return found or choices[0]


def env_address(name: str, default: str) -> str:
    """The address of a portal, without a slash at its end; the default where nothing is set. Raises `SettingsError`."""
    url = (env_text(name).strip() or default).rstrip("/")
    if not _is_web_address(url):
        raise SettingsError(f"{name} must look like https://portal.example, not {url!r}")
    parts = urlsplit(url)
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        whole = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        raise SettingsError(f"{name} must be {whole} alone, not {url!r}: a portal has a host, or a port, to itself")
    return url


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        return False


def event_streams(*, several: bool) -> int:
    """`DLH_EVENT_STREAMS`. Without it as many as are worth their while where `several` processes can write at once.

    Raises `SettingsError`.
    """
    streams = env_int("DLH_EVENT_STREAMS", EVENT_STREAMS if several else 1)
    if not 1 <= streams <= EVENT_STREAMS_MAX:
        raise SettingsError(f"DLH_EVENT_STREAMS must be from 1 to {EVENT_STREAMS_MAX}, not {streams}")
    return streams


def second_factor() -> str:
    """`DLH_SECOND_FACTOR`: who must have one. Raises `SettingsError`."""
    return env_choice("DLH_SECOND_FACTOR", SECOND_FACTOR_FOR)


def env_list(name: str) -> list[str]:
    """Comma-separated values without empty ones."""
    return [item.strip() for item in env_text(name).split(",") if item.strip()]


def env_networks(name: str) -> tuple[IPNetwork, ...]:
    """Comma-separated networks. Raises `SettingsError` on anything else."""
    try:
        return tuple(ip_network(text) for text in env_list(name))
    except ValueError as error:
        raise SettingsError(f"{name} must be networks such as 10.1.2.0/24, comma-separated: {error}") from error


def env_path(name: str, default: Path) -> Path:
    """An absolute path. Raises `SettingsError` where it begins with the home of a person who is not known here."""
    try:
        return Path(env_text(name) or default).expanduser().resolve()
    except RuntimeError as error:
        raise SettingsError(f"{name}: nobody is known here whose home {env_text(name)} names") from error


def folder_make(path: Path, name: str) -> None:
    """Make a folder for this process alone, below the one that a setting names. Raises `SettingsError`."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SettingsError(f"{name}: {path} cannot be made: {error.strerror}") from error


def env_home() -> Path:
    """The home folder of the installation: `DLH_HOME`, else `var` beside the sources."""
    return env_path("DLH_HOME", REPOSITORY / "var")


def secret_read_or_make(path: Path, given: str = "") -> str:
    """The secret in `path`, made at first use (mode 0600); `given` wins if it is long enough.

    Two processes that start at once agree: the file appears by `link`, which only one can win.
    Raises `SettingsError` for a secret that is too short to be safe.
    """
    text = given or (path.read_text().strip() if path.exists() else "")
    if not text:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(secrets.token_urlsafe(SECRET_BYTES))
            stream.flush()
            os.fsync(descriptor)  # before it has its name: a power cut would leave an empty file, for good
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        text = path.read_text().strip()
    if len(text) < _SECRET_LENGTH_MIN or len(set(text)) < 10 or "insecure" in text:
        where = "DLH_SECRET_KEY" if given else str(path)
        remedy = "unset it" if given else "take that of a backup, or remove the file"
        raise SettingsError(f"the secret in {where} is too weak: {remedy} to have one made for this installation")
    return text


@dataclass(frozen=True)
class S3Settings:
    """Where the object store is and how to sign in there: `DLH_S3_*`."""

    place: str
    """`bucket` or `bucket/prefix`."""
    endpoint: str = ""
    """Empty: Amazon's."""
    region: str = ""
    key: str = ""
    secret: str = field(default="", repr=False)
    ca_file: str = ""
    """Certificate authorities that its certificate is checked by; empty: the usual ones."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self.place.partition("/")[0]


_S3_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9._-]+)*)/?")


def s3_settings() -> S3Settings | None:
    """The object store, or None where `DLH_S3_URL` is not set. Raises `SettingsError`."""
    url = env_text("DLH_S3_URL").strip()
    if not url:
        return None
    match = _S3_URL.fullmatch(url)
    if match is None:
        raise SettingsError(f"DLH_S3_URL must look like s3://bucket or s3://bucket/prefix, not {url!r}")
    endpoint = env_text("DLH_S3_ENDPOINT").strip().rstrip("/")
    if endpoint and not _is_web_address(endpoint):
        raise SettingsError(f"DLH_S3_ENDPOINT must look like https://objects.example.org, not {endpoint!r}")
    key, secret = env_text("DLH_S3_KEY").strip(), env_text("DLH_S3_SECRET").strip()
    if not key or not secret:
        raise SettingsError("DLH_S3_URL is set: DLH_S3_KEY and DLH_S3_SECRET (or ..._FILE) must be, too")
    region = env_text("DLH_S3_REGION").strip() or "us-east-1"
    return S3Settings(match[1], endpoint, region, key, secret, _ca_file("DLH_S3_CA_FILE"))


def _ca_file(name: str) -> str:
    """The path of a file with certificates, or nothing. Raises `SettingsError`."""
    path = os.environ.get(name, "").strip()
    try:
        if path:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except OSError as error:
        raise SettingsError(f"{name} must name a file with certificates (PEM), not {path!r}: {error}") from error
    return path


_SERVING = ("DLH_S3_", "DLH_SMTP_", "DLH_OIDC_")


def without_serving(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for whoever must sign in at no object store, mail server or identity provider: nodes."""
    return {name: value for name, value in environment.items() if not name.startswith(_SERVING)}


def database(url: str, sqlite_path: Path) -> dict[str, Any]:
    """Django's `DATABASES["default"]`: SQLite on one machine, PostgreSQL by a `postgres://` URL."""
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": sqlite_path,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16000;",
            },
        }
    if not url.startswith(("postgres://", "postgresql://")):
        raise SettingsError("DLH_DATABASE_URL must start with postgres:// (leave it empty for SQLite)")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:  # what follows a / or # in a password is no longer of it
        raise SettingsError(
            f"DLH_DATABASE_URL must name a port from 0 to {PORT_MAX}, or none, and a password with / # ? [ ] @ and % "
            "written as %2F %23 %3F %5B %5D %40 and %25"
        ) from error
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(port or ""),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": dict(parse_qsl(parts.query)),
    }
