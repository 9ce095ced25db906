"""`dlh people`: who may sign in to the portal; add, admin, email, disable, enable, password, second-factor, rm."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from harness.client.cli.changes import change_send
from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, json_print, table_print, when
from harness.client.client import Json
from harness.client.errors import BadInput
from harness.client.transport import segment

app = typer.Typer(
    help="People of the installation: list, add, admin, email, disable, enable, password, second-factor, rm. For"
    " admins.",
    invoke_without_command=True,
)
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="User name.")]


@app.callback()
def people_list(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Everybody who has an account; `add`, `admin`, `email`, `disable`, `enable`, `password`, `second-factor` and `rm`
    change that."""
    if context.invoked_subcommand:
        return
    with open_client(context) as client:
        items: list[Json] = client.get("/users")["items"]
    if as_json:
        json_print(items)
        return
    table_print(("User", "Standing", "Second factor", "E-mail", "Last seen"), map(_row, items))


def _row(one: Json) -> tuple[str, ...]:
    second_factor = "on" if one["has_second_factor"] else ""
    return one["username"], _standing(one), second_factor, one["email"], when(one["last_seen_at"])


def _standing(one: Json) -> str:
    return "disabled" if not one["is_active"] else "admin" if one["is_admin"] else ""


@app.command("add")
def people_add(
    context: typer.Context,
    user: UserArgument,
    email: Annotated[str, typer.Option(help="E-mail address.")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="An admin of the whole installation.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make an account. Its password is printed once; they choose their own when they first sign in."""
    with open_client(context) as client:
        made = client.send("POST", "/users", {"username": user, "email": email, "is_admin": admin})
    _password_print(made, as_json)


@app.command("email")
def people_email(
    context: typer.Context,
    user: UserArgument,
    address: Annotated[str, typer.Argument(help="Where to notify them of their jobs; empty: nowhere.")],
    as_json: JsonFlag = False,
) -> None:
    """Change a person's e-mail address."""

    def said(changed: Json) -> str:
        until = "It holds until they next sign in at the identity provider, which gives them its verified address."
        return f"{user} now has the address {address or '(none)'}." + f"\n{until}" * bool(changed.get("has_identity"))

    _change(context, user, {"email": address}, said, as_json)


@app.command("admin")
def people_admin(
    context: typer.Context,
    user: UserArgument,
    remove: Annotated[bool, typer.Option("--remove", help="They are no longer one.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a person an admin of the whole installation, or with --remove no longer one."""
    said = f"{user} is {'no longer ' if remove else ''}an admin of the installation."
    _change(context, user, {"is_admin": not remove}, said, as_json)


@app.command("disable")
def people_disable(context: typer.Context, user: UserArgument, as_json: JsonFlag = False) -> None:
    """End a person's access at once: sessions and tokens. Their datasets and jobs stay, and jobs that run go on."""
    _change(
        context, user, {"is_active": False}, f"{user} can no longer sign in, and their tokens no longer work.", as_json
    )


@app.command("enable")
def people_enable(context: typer.Context, user: UserArgument, as_json: JsonFlag = False) -> None:
    """Let a person in again, with the password and the tokens of before."""
    _change(context, user, {"is_active": True}, f"{user} can sign in again.", as_json)


@app.command("password")
def people_password(context: typer.Context, user: UserArgument, as_json: JsonFlag = False) -> None:
    """Give a person a new password, printed once; they choose their own at the next sign-in. Their sessions end, their
    tokens stay."""
    with open_client(context) as client:
        made = client.send("PATCH", f"/users/{segment(user)}", {"new_password": True})
    _password_print(made, as_json)


@app.command("second-factor")
def people_second_factor(
    context: typer.Context,
    user: UserArgument,
    remove: Annotated[
        bool, typer.Option("--remove", help="For people who have lost their phone and recovery codes.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove a person's second factor; they set it up again on the page Account."""
    if not remove:
        raise BadInput("People set it up themselves, on the page Account.", hint="--remove removes a lost one.")
    _change(context, user, {"remove_second_factor": True}, f"{user} now signs in with the password alone.", as_json)


@app.command("rm")
def people_rm(
    context: typer.Context,
    user: UserArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Delete an account for good, with everything that tells of the person. Their datasets and jobs stay in their
    projects, as those of a deleted person, and jobs that run go on."""
    if not yes and not sys.stdin.isatty():
        raise BadInput(f"Nothing is deleted unasked: {user} would be gone for good.", hint="Say so: --yes.")
    if not yes:
        typer.confirm(f"Delete the account of {user} for good? This cannot be undone", abort=True, err=True)
    with open_client(context) as client:
        gone = client.send("DELETE", f"/users/{segment(user)}")
    said = f"The account of {user} is deleted; what they made is shown as by {gone['shown_as']}."
    json_print(gone) if as_json else console().print(said, markup=False, soft_wrap=True)


def _change(context: typer.Context, user: str, body: Json, said: str | Callable[[Json], str], as_json: bool) -> None:
    change_send(context, "PATCH", f"/users/{segment(user)}", body, said, as_json)


def _password_print(made: Json, as_json: bool) -> None:
    if as_json:
        json_print(made)
    else:
        console().print(f"User       {made['username']}\nPassword   {made['password']}", markup=False, soft_wrap=True)
