"""First steps inside Django, in a process of its own: migrations, the first admin, a short-lived token.

`python -m harness.stack.bootstrap [--token NAME [--user USER] [--days N]] [--new-password]` ends with one line of JSON:
`{"user", "password" (empty unless made now), "project", "token"}`, and `nodes` where secrets were given; with `--words`
it tells a person instead, in the log of a container: a password that stays there for others to read is changed at the
first sign-in. The one that `make run` or `make password` shows once, to the operator at their own terminal, is theirs.
The token is the first admin's unless a user is named.
`--node-secrets FOLDER` lets nodes in: one file for each that has a cache of its own, named after it, with its secret;
not where a new password is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.env import SettingsError
from harness.stack.home import node_slug

ADMIN_NAME = "admin"
PROJECT_NAME = "First project"
TOKEN_DAYS = 1
EXIT_REFUSED = 3
"""What was asked for cannot be done; the last line of errors says why, in words."""


def bootstrap(
    *,
    token_name: str = "",
    token_user: str = "",
    token_days: int = TOKEN_DAYS,
    new_password: bool = False,
    is_own: bool = True,
    node_secrets: Path | None = None,
) -> dict[str, Any]:
    """Bring the database up to date, let in the nodes of a folder of secrets, and make sure that somebody can sign in.

    Idempotent. `is_own`: a password that is made now is told to nobody but its person.
    Raises `NotFound` where there is no such user, `BackupError` where a restore was not finished, `Conflict` where
    newer sources have changed the database, `SettingsError` where the store cannot be made or the secrets be read,
    `HarnessError` where the broker takes no user.
    """
    from django.conf import settings
    from django.core.management import call_command
    from django.db import transaction

    restore_settle()
    not_newer()
    try:
        settings.STORE.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"DLH_STORE: {settings.STORE.root} cannot be made: {error.strerror}") from error
    call_command("migrate", interactive=False, verbosity=0)
    # A password is made last: whoever starts this again until it ends well keeps the words of the last try alone. One
    # that was asked for is for somebody who waits for it, whatever becomes of the nodes.
    nodes = node_secrets_take(node_secrets) if node_secrets and not new_password else None
    with transaction.atomic():
        user, password = admin_ensure(new_password=new_password, is_own=is_own)
        project = project_ensure(user)
    token = token_make(_person(token_user) if token_user else user, token_name, token_days) if token_name else ""
    told = {"user": user.username, "password": password, "project": project.slug, "token": token}
    return told if nodes is None else {**told, "nodes": nodes}


def restore_settle() -> None:
    """Refuse to work on half of what a backup holds. Raises `BackupError`."""
    from django.conf import settings

    from harness.backup.archive import BackupError
    from harness.backup.marking import UNFINISHED, marked
    from harness.backup.staging import settle

    if marked():
        raise BackupError(UNFINISHED)
    settle(settings.STORE.root)


def not_newer() -> None:
    """Raise `Conflict` for a database that newer sources have changed: rows written by these would lack what is new."""
    from harness.backup.rows import migrations_unknown
    from harness.errors import Conflict

    if unknown := migrations_unknown():
        named = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if unknown[3:] else "")
        raise Conflict(
            "The database was changed by other, likely newer, sources, and these do not know what they changed: "
            f"{named}.",
            hint="Start it with those, or restore a backup from before the update into an empty folder and database.",
        )


def admin_ensure(*, new_password: bool, is_own: bool = True) -> tuple[Any, str]:
    """The first admin and, where it was made or reset now, its password (else empty); then no second factor either."""
    from harness.accounts import services
    from harness.accounts.models import User
    from harness.accounts.second_factor import second_factor_remove
    from harness.errors import NotFound

    user = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if user is None:
        return services.user_create(actor=None, username=ADMIN_NAME, is_admin=True, is_own=is_own)
    if not new_password:
        return user, ""
    with suppress(NotFound):  # whoever may read the installation's files lets themselves in, lost phone or not
        second_factor_remove(actor=None, user=user)
    return user, services.user_password_reset(actor=None, user=user, is_own=is_own)


def project_ensure(user: Any) -> Any:
    """A project to work in."""
    from harness.accounts import selectors, services

    oldest = selectors.project_list(user=user).order_by("created_at", "pk").first()
    return oldest or services.project_create(user=user, name=PROJECT_NAME)


def _person(username: str) -> Any:
    from harness.accounts.selectors import user_get

    return user_get(username=username)


def token_make(user: Any, name: str, days: int = TOKEN_DAYS) -> str:
    """A token that ends by itself; earlier ones of the same name are revoked."""
    from django.utils import timezone

    from harness.accounts import selectors, services
    from harness.accounts.models import Scope

    for old in selectors.token_list(user=user).filter(name=name):
        services.token_revoke(user=user, token_id=old.pk)
    expires_at = timezone.now() + timedelta(days=days)
    return services.token_create(user=user, name=name, scope=Scope.ADMIN, expires_at=expires_at)[1]


def node_secrets_take(folder: Path) -> list[str]:
    """Let in the nodes that the files of the folder name; names of those whose secret is new.

    Raises `SettingsError`, `HarnessError`.
    """
    from harness.pool.given import node_secret_give

    given: dict[str, tuple[str, str]] = {}
    try:
        files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
        for file in files:
            name, secret = node_slug(file.name), file.read_text().strip()
            other, known = given.setdefault(name, (file.name, secret))
            if known != secret:
                raise SettingsError(
                    f"the files {other} and {file.name} in {folder} give the node {name} two secrets: of a file's "
                    "name the small letters, digits and hyphens count, 60 at most"
                )
    except OSError as error:
        raise SettingsError(f"the secrets of nodes in {folder} cannot be read: {error.strerror}") from error
    return [name for name, (_, secret) in given.items() if node_secret_give(name=name, secret=secret)]


def main() -> None:
    """Command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--token", default="", metavar="NAME")
    parser.add_argument("--user", default="", metavar="USER")
    parser.add_argument("--days", type=int, default=TOKEN_DAYS)
    parser.add_argument("--new-password", action="store_true")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--node-secrets", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")
    import django

    try:
        django.setup()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_REFUSED)
    from harness.backup.archive import BackupError
    from harness.errors import HarnessError

    try:
        told = bootstrap(
            token_name=given.token,
            token_user=given.user,
            token_days=given.days,
            new_password=given.new_password,
            is_own=not given.words,
            node_secrets=given.node_secrets,
        )
    except HarnessError as error:
        sys.stderr.write(f"{error} {error.hint}\n")
        sys.exit(EXIT_REFUSED)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_REFUSED)
    except BackupError as error:
        sys.stderr.write(f"Cannot continue: {error}\n")
        sys.exit(EXIT_REFUSED)
    print(_words(told) if given.words else json.dumps(told), flush=True)


def _words(told: dict[str, Any]) -> str:
    if told["password"]:
        text = (
            f"The database is ready. User {told['user']}, password {told['password']} "
            "(shown only now; the first sign-in asks for another)."
        )
    else:
        text = f"The database is up to date. User {told['user']}, password as set before."
    if told["token"]:
        text += f"\nToken {told['token']} (shown only now)."
    if "nodes" in told:
        text += f"\nNodes let in: {', '.join(told['nodes']) or 'none that is new'}."
    return text


if __name__ == "__main__":
    main()
