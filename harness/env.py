"""Typed readers of environment variables, and the secrets of this installation."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SECRET_BYTES = 48
_SECRET_LENGTH_MIN = 40


class SettingsError(Exception):
    """The environment of this process is wrong; the message names the variable."""


def env_text(name: str, default: str = "") -> str:
    """The variable as text, or what the file named by `<name>_FILE` holds."""
    file = os.environ.get(f"{name}_FILE")
    if file:
        return Path(file).read_text().strip()
    return os.environ.get(name, default)


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


def env_int(name: str, default: int) -> int:
    """A whole number. Raises `SettingsError` on anything else."""
    text = env_text(name).strip()
    if not text:
        return default
    try:
        return int(text)
    except ValueError as error:
        raise SettingsError(f"{name} must be a whole number, not {text!r}") from error


def env_list(name: str) -> list[str]:
    """Comma-separated values without empty ones."""
    return [item.strip() for item in env_text(name).split(",") if item.strip()]


def env_path(name: str, default: Path) -> Path:
    """An absolute path."""
    return Path(env_text(name) or default).expanduser().resolve()


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
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        text = path.read_text().strip()
    if len(text) < _SECRET_LENGTH_MIN or len(set(text)) < 10 or "insecure" in text:
        raise SettingsError("the secret key is too weak: unset DLH_SECRET_KEY to have one made for this installation")
    return text


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
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise SettingsError("DLH_DATABASE_URL must start with postgres:// (leave it empty for SQLite)")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": dict(parse_qsl(parts.query)),
    }
