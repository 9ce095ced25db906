"""Where the portal is and who we are: `~/.config/dlh/config.json` (mode 0600), overruled by the environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.client.errors import BadInput

DEFAULT_URL = "http://127.0.0.1:8000"


def config_folder() -> Path:
    """`$XDG_CONFIG_HOME/dlh`, usually `~/.config/dlh`."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "dlh"


@dataclass(frozen=True)
class Config:
    """Address of the portal, token, and the project that commands use where none is named."""

    url: str = DEFAULT_URL
    token: str = ""
    project: str = ""


def config_file() -> Path:
    """The file itself."""
    return config_folder() / "config.json"


def config_stored() -> Config:
    """What the file says; defaults where there is none. Raises `BadInput` for a broken file."""
    try:
        body: dict[str, Any] = json.loads(config_file().read_text())
        return Config(**{name: str(body[name]) for name in ("url", "token", "project") if name in body})
    except FileNotFoundError:
        return Config()
    except (ValueError, TypeError, OSError) as error:
        raise BadInput(f"{config_file()} cannot be read: {error}", hint="Run `dlh login URL --token TOKEN`.") from error


def environment_text(name: str) -> str:
    """The variable, or what the file named by `<name>_FILE` holds; as `harness.env` reads the portal's own.

    Raises `BadInput` where that file cannot be read.
    """
    file = os.environ.get(f"{name}_FILE")
    if not file:
        return os.environ.get(name, "")
    try:
        return Path(file).read_text().strip()
    except (OSError, ValueError) as error:
        raise BadInput(f"{name}_FILE: {file} cannot be read: {error}", hint=f"Correct it, or set {name}.") from error


def config_load() -> Config:
    """The file, overruled by `DLH_URL`, `DLH_TOKEN` and `DLH_PROJECT` (or the files that these name with `_FILE`).

    A token from the file is never sent to another address than the one it was stored with.
    """
    stored = config_stored()
    url = (environment_text("DLH_URL") or stored.url).rstrip("/")
    own_token = stored.token if url == stored.url.rstrip("/") else ""
    return Config(
        url=url,
        token=environment_text("DLH_TOKEN") or own_token,
        project=environment_text("DLH_PROJECT") or stored.project,
    )


def config_save(config: Config) -> Path:
    """Write the file so that only its owner reads it, at no moment otherwise."""
    private_write(config_file(), json.dumps(asdict(config), indent=1) + "\n")
    return config_file()


def private_write(path: Path, text: str) -> None:
    """Write a file of mode 0600 in a folder of mode 0700, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    draft.replace(path)
