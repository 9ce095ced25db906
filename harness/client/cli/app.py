"""Puts the commands together, and turns every error into words or JSON and an exit code."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.client.cli import (
    account,
    backup,
    data,
    jobs,
    node,
    notifications,
    offers,
    people,
    pool,
    programs,
    projects,
    queue,
    rates,
    runs,
    simulate,
    specs,
    storage,
    store,
    submitting,
    weights,
)
from harness.client.cli.output import ExitCode, code_of, error_print, notes
from harness.client.errors import BadInput, ClientError
from harness.release import release

HELP = """Train models on your data from the command line.

Sign in once: `dlh login URL` asks for a token (from the Account page). Or set DLH_URL and DLH_TOKEN.

For example: `dlh submit --data mydata.csv --wait`, `dlh results JOB`, `dlh predict JOB new.csv`

Every command takes --help and --json.

Exit codes: 0 ok, 1 the job failed, 2 bad input, 3 not found or forbidden, 4 portal unreachable, 5 the job waits for
somebody, 130 interrupted.
"""

app = typer.Typer(
    name="dlh",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(release())
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    project: Annotated[
        str,
        typer.Option("--project", "-p", help="Slug of the project; else DLH_PROJECT, the stored one, or the only one."),
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", help="Print the release and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = {"project": project}


app.add_typer(data.app, name="data")
app.add_typer(weights.app, name="weights")
app.add_typer(specs.app, name="spec")
jobs.jobs_app.command("offer")(offers.job_offer)
jobs.jobs_app.command("rm")(storage.jobs_rm)
app.add_typer(jobs.jobs_app, name="jobs")
app.add_typer(pool.app, name="pool")
app.add_typer(queue.app, name="queue")
app.add_typer(account.tokens_app, name="tokens")
app.add_typer(people.app, name="people")
app.add_typer(projects.app, name="projects")
app.add_typer(notifications.app, name="notifications")
for _module in (account, programs, submitting, jobs, runs, offers, rates, simulate, node, backup, store):
    _module.commands_add(app)


_GOES_ON_COMMANDS = {"add", "submit", "suggest", "offer", "download", "code"}
_GOES_ON = " What was sent or received is kept: run the same command again to continue."


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    as_json = "--json" in arguments
    try:
        code = app(list(arguments), standalone_mode=False, prog_name="dlh")
        sys.stdout.flush()  # what cannot be written is told here: Python's own end would be 120
    except ClientError as error:
        return _told(error, as_json)
    except typer.TyperException as error:
        text = error.format_message()
        if not text:
            return ExitCode.BAD_INPUT
        if _meant(error):  # a command of that name says more than one of a like name
            text = re.split(r"\s+Did you mean ", text)[0]
        return _told(BadInput(text, hint=_usage_hint(error), code="usage"), as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(arguments)
    except BrokenPipeError:
        return _unread()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer makes a failure of it
            return _unread()
        raise
    except OSError as error:
        # A file or folder that was named: no such folder, no right to write, no space left.
        place = f"{error.filename}: " if error.filename else ""
        return _told(BadInput(f"{place}{error.strerror or error}.", hint="Check the path and the disk."), as_json)
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        # A file's name, or an argument, in the bytes of another encoding.
        return _told(BadInput(f"This is not UTF-8: {ascii(error.object)[:200]}.", hint="Rename the file."), as_json)
    if code == ExitCode.INTERRUPTED and not isinstance(code, ExitCode):  # typer's, of a Ctrl-C that nobody has told of
        return _interrupted(arguments)
    return int(code) if isinstance(code, int) else ExitCode.OK


_OF_JOBS = {"--take", "--offer", "--submit", "--probe"}
"""Options of `dlh jobs offer` that newcomers give to `dlh offer`."""


def _usage_hint(error: typer.TyperException) -> str:
    command = _command_of(error)
    if command == "dlh offer" and getattr(error, "option_name", "") in _OF_JOBS:
        return "`dlh offer` makes no job: `dlh submit --draft` does; then `dlh jobs offer JOB --take N` takes a line."
    if re.fullmatch(r"-\d.*", getattr(error, "option_name", "")):
        return f"No value here may be below 0. See `{command} --help`."
    if meant := _meant(error):
        return f"Did you mean {' or '.join(f'`{one}`' for one in meant)}?"
    return f"See `{command} --help`."


def _meant(error: typer.TyperException) -> list[str]:
    """Commands of the name that its group does not have: `dlh cancel` for `dlh jobs cancel`; the group for its list."""
    named = re.fullmatch(r"No such command '([\w-]+)'.*", error.format_message())
    context = getattr(error, "ctx", None)
    if named is None or context is None:
        return []
    name, group = named[1], _command_of(error)
    if name == "list" and context.command.invoke_without_command:
        return [group]
    of_jobs = ["dlh jobs"] if name == "list" and context.parent is None else []
    return of_jobs + [one for one in _commands(context.find_root().command, "dlh") if one.endswith(f" {name}")]


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        yield f"{path} {name}"
        yield from _commands(command, f"{path} {name}")


def _command_of(error: typer.TyperException) -> str:
    """The command that was not understood, as far as it was."""
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context else "dlh"


def _interrupted(arguments: Sequence[str]) -> int:
    notes().print(f"Interrupted.{_GOES_ON if _GOES_ON_COMMANDS & set(arguments) else ''}", soft_wrap=True)
    return ExitCode.INTERRUPTED


def _unread() -> int:
    """`dlh logs | head`: the reader has seen enough. What is left goes nowhere, or Python would fail at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.OK


def _told(error: ClientError, as_json: bool) -> int:
    try:
        error_print(error, as_json=as_json)
        sys.stdout.flush()
    except OSError:  # the output is what fails: a full disk, a reader that has left
        if as_json:
            error_print(error, as_json=False)
        _unread()
    return code_of(error)


def main() -> None:
    """Entry point of the `dlh` command."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started us: nobody is there
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  (until the process ends)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that the terminal does not know ends no command
    raise SystemExit(run(sys.argv[1:]))
