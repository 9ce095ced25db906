"""`python -m harness.backup make FILE [--with-secrets] | restore FILE [--json]`; `dlh` and `make` call it.

`make FOLDER --keep N` names the file by the time and keeps the newest N: for whoever backs up by the clock.

The installation is the one named by `DLH_HOME` (and `DLH_STORE`, `DLH_DATABASE_URL`), as for the stack.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.backup.archive import BackupError
from harness.backup.ending import term_interrupts
from harness.backup.keeping import backup_name, older_remove
from harness.env import SettingsError, env_home, env_path, env_text
from harness.errors import EXIT_INTERRUPTED, refusal_write
from harness.progress import Tell, Teller
from worker.words import counted, size_words

EXIT_REFUSED = 2
_SHOWN = 10
"""So many of the files left out are named to a person; `--json` has all."""
_LOUD = """
  THIS FILE HOLDS THE SECRET KEY of the installation: whoever reads it can sign in as anybody there.
  Keep it as you keep a password. Without --with-secrets people only have to sign in again."""


def make(path: Path, home: Path, tell: Tell, *, with_secrets: bool, keep: int) -> tuple[str, dict[str, Any]]:
    """Back up; (what to tell a person, the same as values)."""
    folder = path
    if keep:
        if not folder.is_dir():
            raise BackupError(f"there is no folder {folder}; --keep takes one, not a file")
        path = folder / backup_name(datetime.now(UTC))
    if not env_text("DLH_DATABASE_URL") and not (home / "db.sqlite3").is_file():
        raise BackupError(f"there is no installation in {home}; name its folder by DLH_HOME")
    os.environ["DLH_HOME"] = str(home)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")
    import django

    django.setup()
    from harness.backup.making import backup_make

    made = backup_make(path, with_secrets=with_secrets, tell=tell)
    text = f"{made.path}: {size_words(made.size_bytes)}, {made.files} files, {made.rows} rows. It holds people's\n"
    text += "  data and the hashes of their passwords; only you can read it (mode 0600)."
    text += _left_out(made.left_out)
    removed = _older_removed(folder, keep, made.path) if keep else []
    if removed:
        text += f"\n  Older ones removed: {', '.join(removed)}."
    return text + (_LOUD if made.secrets else ""), {**asdict(made), "removed": removed}


def _older_removed(folder: Path, keep: int, made: Path) -> list[str]:
    """Names of those that went. Raises `BackupError`: whoever looks at nothing but the exit status is to know."""
    try:
        return older_remove(folder, keep, made=made.name)
    except OSError as error:
        why = error.strerror or str(error)
        raise BackupError(f"{made} is made, but older ones cannot be removed: {why} ({error.filename})") from error


def _left_out(names: Sequence[str]) -> str:
    """What the backup lacks, or has zeros in. Programs chose the names: shown as literals, they do nothing to a
    terminal."""
    if not names:
        return ""
    named = ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN:,} more" if names[_SHOWN:] else "")
    count = counted(len(names), "file or folder", "files or folders")
    return (
        f"\n  {count} of runs could not be read, and the backup is without them, or has zeros where a disk gave "
        f"nothing: {named}."
    )


def restore(path: Path, home: Path, tell: Tell) -> tuple[str, dict[str, Any]]:
    """Restore; (what to tell a person, the same as values)."""
    from harness.backup.restoring import backup_restore

    back = backup_restore(path, home=home, store=env_path("DLH_STORE", home / "store"), tell=tell)
    text = f"{back.home}: {back.files:,} files, {back.rows:,} rows, as of {back.made_at}."
    if back.lost:
        runs = counted(
            back.lost, "run was under way; it resumes from its", "runs were under way; they resume from their"
        )
        text += f"\n  {runs} newest checkpoint."
    if not back.secrets:
        given = " where DLH_SECRET_KEY is another than before" if env_text("DLH_SECRET_KEY") else ""
        text += (
            f"\n  The backup has no secrets: people sign in again, and make new secrets for their webhooks{given}; "
            "passwords and API tokens stay as they were."
        )
    apart = env_text("DLH_DATABASE_URL")  # then its parts are likely started one by one, in containers for example
    start = "Start its portal, control and nodes." if apart else f"Start it: DLH_HOME={back.home} make run"
    return f"{text}\n  {start}", asdict(back)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


def main() -> int:
    """Command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m harness.backup", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make", help="back up the installation, which may be running")
    maker.add_argument("--with-secrets", action="store_true", help="also the secret key; keep such a file safe")
    maker.add_argument("--keep", type=_count, default=0, metavar="N", help="FILE is a folder: keep the newest N there")
    for command in (maker, commands.add_parser("restore", help="restore into an empty home")):
        command.add_argument("file", type=Path)
        command.add_argument("--json", action="store_true")
    given = parser.parse_args()
    term_interrupts()
    try:
        home = env_home()
        with Teller(quiet=given.json) as tell:
            if given.command == "make":
                text, values = make(given.file, home, tell, with_secrets=given.with_secrets, keep=given.keep)
            else:
                text, values = restore(given.file, home, tell)
    except (BackupError, SettingsError) as error:
        refusal_write(str(error), lead="Cannot continue", code="refused", as_json=given.json)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        refusal_write("nothing was left behind", lead="Interrupted", code="interrupted", as_json=given.json)
        return EXIT_INTERRUPTED
    sys.stdout.write((json.dumps(values, default=str) if given.json else text) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
