"""One part of the harness by itself, for containers and for several hosts: `python -m harness.stack.part PART`.

    prepare            bring the database up to date, make the first admin; once for each release
    portal | control   becomes that process, once `prepare` is done; DLH_HOST and DLH_PORT say where the portal listens
    node               becomes the agent of this host's node; with DLH_CACHE one that does not see the store
    health PART        exit 0 if that part works here
    store check|status|push|pull     the copy in an object store (DLH_S3_URL)
    backup FILE [--with-secrets], backup FOLDER --keep N, restore FILE

Reads DLH_DATABASE_URL, DLH_REDIS_URL, DLH_SECRET_KEY, DLH_PUBLIC_URL, DLH_STORE; DLH_DATABASE_PASSWORD and
DLH_REDIS_PASSWORD go into URLs that have none. Each may be read from a file, by NAME_FILE. Nothing is made up: what
is missing is named, and the part does not start. A node with DLH_CACHE reads DLH_URL and DLH_NODE_SECRET instead of
DLH_STORE; `prepare` tells the portal the secrets in the folder DLH_NODE_SECRETS, one file named after each node.
"""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from harness.env import (
    REPOSITORY,
    SettingsError,
    database,
    env_home,
    env_networks,
    env_text,
    s3_settings,
    without_serving,
)
from harness.env_addresses import env_broker, host_written
from harness.env_smtp import smtp_settings
from harness.stack import far_node
from harness.stack.commands import control_command, node_command, portal_command
from harness.stack.direct import DIRECT
from harness.stack.home import node_name
from harness.stack.tables import tables_await

_SHARED = ("DLH_DATABASE_URL", "DLH_SECRET_KEY", "DLH_STORE")
REQUIRED = {
    "prepare": _SHARED,
    "portal": (*_SHARED, "DLH_REDIS_URL", "DLH_PUBLIC_URL"),
    "control": (*_SHARED, "DLH_REDIS_URL", "DLH_PUBLIC_URL"),
    "node": ("DLH_REDIS_URL", "DLH_STORE"),
    "backup": ("DLH_DATABASE_URL", "DLH_STORE"),
    "restore": ("DLH_DATABASE_URL", "DLH_STORE"),
    "store": ("DLH_DATABASE_URL", "DLH_STORE", "DLH_S3_URL"),
}
ALIVE_WITHIN_S = 30.0
"""Control and nodes touch a file every few seconds (`run/control.alive`, `run/node.alive`)."""
EXIT_REFUSED = 2


def needs(part: str) -> tuple[str, ...]:
    """The settings without which the part does not start."""
    return far_node.NEEDS if part == "node" and far_node.is_far() else REQUIRED[part]


def environment(part: str) -> dict[str, str]:
    """What the part is started with. Raises `SettingsError` naming everything that is missing."""
    missing = [name for name in needs(part) if not env_text(name)]
    if missing:
        raise SettingsError(
            f"{part} needs {', '.join(missing)}; give each in the environment, or its file by NAME_FILE"
        )
    env_broker("DLH_REDIS_URL")
    database(env_text("DLH_DATABASE_URL"), Path())
    settled = {name: env_text(name) for name in {*needs(part), "DLH_REDIS_URL"} if env_text(name)}
    passwords = {kind: ("", env_text(f"DLH_{kind}_PASSWORD")) for kind in ("DATABASE", "REDIS")}
    if "DLH_NODE_SECRET" in settled:
        passwords["REDIS"] = far_node.login(node_name(), settled["DLH_NODE_SECRET"])
    for kind, (user, password) in passwords.items():
        if f"DLH_{kind}_URL" in settled:
            settled[f"DLH_{kind}_URL"] = with_login(settled[f"DLH_{kind}_URL"], user, password)
    kept = {name: value for name, value in os.environ.items() if name.removesuffix("_FILE") not in settled}
    kept.pop("DJANGO_SETTINGS_MODULE", None)  # Celery loads Django wherever it finds it; a node must not
    if part == "node":
        kept = without_serving(kept)
    else:
        s3_settings()
        smtp_settings()
        env_networks("DLH_WEBHOOK_NETWORKS")
        env_networks("DLH_FETCH_NETWORKS")
    if "DLH_CACHE" in settled:
        kept.pop("DLH_STORE", None)  # the image names a folder, which is empty here
    return {**kept, **settled, "DLH_NODE_NAME": node_name(), "PYTHONUNBUFFERED": "1"}


def with_login(url: str, user: str, password: str) -> str:
    """The URL with this password, and this user if one is given, unless it has a password or there is none."""
    parts = urlsplit(url)
    if not password or parts.password:
        return url
    before, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user or before}:{quote(password, safe='')}@{host}"))


def command(part: str, more: list[str]) -> list[str]:
    """What the part's process becomes."""
    if part == "prepare":
        given = env_text("DLH_NODE_SECRETS")
        secrets = ["--node-secrets", given] if given else []
        return [sys.executable, "-m", "harness.stack.bootstrap", "--words", *secrets, *more]
    if part == "portal":
        host = env_text("DLH_HOST", "0.0.0.0")  # noqa: S104  (in a container nothing else can reach it)
        return portal_command("--host", host, "--port", _port())
    if part == "control":
        return control_command(node_name())
    if part == "node":
        return node_command()
    if part == "store":
        return [sys.executable, "-m", "harness.bucket", *more]
    return [sys.executable, "-m", "harness.backup", "make" if part == "backup" else "restore", *more]


def _port() -> str:
    return env_text("DLH_PORT", "8000")


def _own_host() -> str:
    """Where this machine reaches its own portal."""
    host = env_text("DLH_HOST")
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  (compared, not bound)
    return everywhere.get(host) or host_written(host)


def health(part: str) -> int:
    """0 where the part works."""
    if part == "portal":
        # As the proxy would ask: else a portal behind TLS answers with a redirect.
        headers = {"X-Forwarded-Proto": "https"}
        question = urllib.request.Request(f"http://{_own_host()}:{_port()}/api/v1/health", headers=headers)
        try:
            with DIRECT.open(question, timeout=5) as answer:
                return 0 if answer.status == 200 else 1
        except (urllib.error.URLError, OSError):
            return 1
    alive = env_home() / "run" / f"{part}.alive"
    return 0 if _age_s(alive) < ALIVE_WITHIN_S else 1


def _age_s(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return float("inf")


def _unwanted(settled: dict[str, str]) -> str:
    """Why this node would be of no use; empty where nothing speaks against it."""
    if "DLH_CACHE" not in settled:
        return ""
    return far_node.refusal(settled["DLH_URL"], settled["DLH_NODE_SECRET"], settled["DLH_NODE_NAME"])


def main(arguments: list[str]) -> int:
    """Command line; see the module."""
    part, more = (arguments[0], arguments[1:]) if arguments else ("", [])
    if part == "health" and len(more) == 1 and more[0] in {"portal", "control", "node"}:
        return health(more[0])
    if part not in REQUIRED:
        sys.stderr.write(f"{__doc__}\n")
        return EXIT_REFUSED
    try:
        settled = environment(part)
        if part == "node" and (why := _unwanted(settled)):
            raise SettingsError(why)
    except SettingsError as error:
        sys.stderr.write(f"Cannot continue: {error}.\n")
        return EXIT_REFUSED
    if part in {"portal", "control"}:
        tables_await(settled, part)
    argv = command(part, more)
    os.execve(argv[0], argv, {**settled, "PYTHONPATH": str(REPOSITORY)})  # noqa: S606  (no shell is meant)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
