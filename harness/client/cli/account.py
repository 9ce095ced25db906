"""`dlh login`, `dlh whoami`, `dlh tokens`."""

from __future__ import annotations

import getpass
import json
import socket
import subprocess
import sys
from dataclasses import replace
from typing import Annotated

import typer

from harness.client.cli.common import open_client, project_of
from harness.client.cli.moments import moment_read
from harness.client.cli.output import JsonFlag, console, json_print, pairs_print, table_print, when
from harness.client.client import Client, Json
from harness.client.config import Config, config_save, environment_text
from harness.client.errors import BadInput
from harness.client.transport import segment

DAYS_MAX = 3650

tokens_app = typer.Typer(help="API tokens: list, add, rm.", invoke_without_command=True)


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module on the top level."""
    app.command("login")(login)
    app.command("whoami")(whoami)


def login(
    context: typer.Context,
    url: Annotated[
        str, typer.Argument(help="Address of the portal, e.g. http://127.0.0.1:8000; not needed with --here.")
    ] = "",
    token: Annotated[
        str,
        typer.Option("--token", "-t", help="A token from the Account page, else DLH_TOKEN; - reads it from stdin."),
    ] = "",
    here: Annotated[
        bool, typer.Option("--here", help="On the portal's own machine: create a token without a browser.")
    ] = False,
    user: Annotated[str, typer.Option("--user", help="With --here: whose token; else the first admin's.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Store the portal's address and a token (readable by you only)."""
    if here:
        url, token = _token_make(url, user)
    if not url:
        raise BadInput(
            "Where is the portal?", hint="`dlh login URL --token TOKEN`; on its own machine `dlh login --here`."
        )
    token = token or environment_text("DLH_TOKEN")
    if token == "-" or (not token and not sys.stdin.isatty()):  # noqa: S105  (reads it from stdin)
        token = sys.stdin.readline().strip()
    elif not token:
        token = typer.prompt("Token", hide_input=True, err=True)
    if not token:
        raise BadInput("There is no token.", hint="Create one on the portal's Account page.")
    project = project_of(context)
    with Client(url, token) as client:
        me = client.me()
    if project and project not in {item["slug"] for item in me["projects"]}:
        raise BadInput(f"You are not in a project {project!r}.", hint="`dlh whoami` lists your projects.")
    file = config_save(replace(Config(), url=url.rstrip("/"), token=token, project=project))
    if as_json:
        json_print({**me, "url": url.rstrip("/"), "config": str(file)})
    else:
        console().print(f"Signed in to {url} as {me['username']}; stored in {file}.", markup=False)


def _token_make(url: str, user: str) -> tuple[str, str]:
    """(address, token) of the installation in DLH_HOME, by whoever may read its files. Raises `BadInput`."""
    # In a process of its own: the client itself knows only the HTTP API. One token for each account and machine.
    name = f"dlh of {getpass.getuser()} on {socket.gethostname()}"[:80]
    argv = [
        sys.executable,
        "-P",
        "-m",
        "harness.stack",
        "token",
        "--json",
        "--name",
        name,
        *(["--user", user] if user else []),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = (done.stdout + done.stderr).strip()
        is_user = bool(user) and user in told
        hint = "Give another --user, or none." if is_user else "Name the installation's folder by DLH_HOME."
        raise BadInput(told or "No token could be created.", hint=hint)
    made = json.loads(done.stdout)
    return url or made["url"], made["token"]


def whoami(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Who this token is, and its projects."""
    with open_client(context) as client:
        me = client.me()
        url = client.transport.url
    if as_json:
        json_print({**me, "url": url})
        return
    names = ", ".join(f"{item['slug']} ({item['role']})" for item in me["projects"])
    rows = [("Portal", url), ("User", me["username"]), ("Scope", me["scope"]), ("Bound to", me["project"])]
    pairs_print([*rows, ("Admin", "yes" if me["is_admin"] else ""), ("Projects", names)])


@tokens_app.callback()
def tokens_list(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List your tokens; `add` and `rm` change them."""
    if context.invoked_subcommand:
        return
    with open_client(context) as client:
        items: list[Json] = client.get("/tokens")["items"]
    if as_json:
        json_print(items)
        return
    table_print(
        ("Id", "Name", "Begins with", "Scope", "Project", "Last used", "Expires"),
        (
            (
                *(item[key] for key in ("id", "name", "prefix", "scope", "project")),
                when(item["last_used_at"]),
                when(item["expires_at"]),
            )
            for item in items
        ),
    )


@tokens_app.command("add")
def tokens_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[str, typer.Option(help="read, write or admin.")] = "write",
    for_project: Annotated[str, typer.Option("--for-project", help="Bind it to one project (slug).")] = "",
    days: Annotated[
        int | None, typer.Option(help=f"How long it is good for (1 to {DAYS_MAX}); else without end.")
    ] = None,
    expires: Annotated[str, typer.Option(help="Or when it ends: 2030-01-31T18:00 (here), or 720h from now.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Make a token. It is printed once."""
    expires_at = _ends_at(days, expires)
    body: Json = {"name": name, "scope": scope, "project": for_project or None, "expires_at": expires_at}
    with open_client(context) as client:
        made = client.send("POST", "/tokens", body)
    if as_json:
        json_print(made)
    else:
        console().print(made["token"], markup=False, soft_wrap=True)


def _ends_at(days: int | None, expires: str) -> str | None:
    """When a token ends, of the two ways to say it. Raises `BadInput`."""
    if days is None:
        return moment_read(expires, "--expires", field="expires_at") if expires else None
    if expires:
        raise BadInput("--days and --expires both say when it ends.", hint="Give one of them.", field="days")
    if not 1 <= days <= DAYS_MAX:
        raise BadInput(
            f"A token is good for 1 to {DAYS_MAX} days, not {days}.", hint="Such as --days 90.", field="days"
        )
    return moment_read(f"{days}d", "--days", field="days")


@tokens_app.command("rm")
def tokens_rm(
    context: typer.Context,
    token_id: Annotated[str, typer.Argument(help="Id of a token, as `dlh tokens` lists them.")],
    as_json: JsonFlag = False,
) -> None:
    """Revoke a token at once."""
    with open_client(context) as client:
        done = client.send("DELETE", f"/tokens/{segment(token_id)}")
    if as_json:
        json_print(done)
    else:
        console().print("Revoked.")
