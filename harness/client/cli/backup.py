"""`dlh backup` and `dlh restore`: a whole installation in one file, on its machine, without the portal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.client.cli.child import child_run
from harness.client.cli.output import JsonFlag

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


def commands_add(app: typer.Typer) -> None:
    """Put the commands on the top level."""
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    file: FileArgument,
    with_secrets: Annotated[
        bool,
        typer.Option("--with-secrets", help="Also the secret key: anyone who reads the file can sign in as anybody."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Put the installation of DLH_HOME into one file. It may be running. On its machine only."""
    _run("make", file, ["--with-secrets"] if with_secrets else [], as_json)


def restore(file: FileArgument, as_json: JsonFlag = False) -> None:
    """Bring a backup into the empty folder DLH_HOME (and the empty database DLH_DATABASE_URL, if set)."""
    _run("restore", file, [], as_json)


def _run(command: str, file: Path, options: list[str], as_json: bool) -> None:
    raise typer.Exit(child_run("harness.backup", command, str(file), *options, *(["--json"] if as_json else [])))
