"""`dlh projects`: one's projects; add, members, member, rm, trash, restore."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, json_print, pairs_print, size, table_print, when
from harness.client.client import Json
from harness.client.errors import BadInput
from harness.client.transport import segment

app = typer.Typer(help="Projects: list, add, members, member, rm, trash, restore.", invoke_without_command=True)
ProjectArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Slug of a project, as `dlh projects` lists.")]
NO_ROLE = "none"


@app.callback()
def projects_list(context: typer.Context, as_json: JsonFlag = False) -> None:
    """The projects you see; `add` makes one, `members` and `member` show and change who is in one, `rm` deletes one."""
    if context.invoked_subcommand:
        return
    with open_client(context) as client:
        items: list[Json] = client.get("/projects")["items"]
    if as_json:
        json_print(items)
        return
    rows = ((one["slug"], one["name"], one["role"], one["members_count"], when(one["created_at"])) for one in items)
    table_print(("Project", "Name", "Your role", "Members", "Created"), rows)


@app.command("add")
def projects_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name; its slug is made of it.")],
    as_json: JsonFlag = False,
) -> None:
    """Make a project, with you as its admin."""
    with open_client(context) as client:
        made: Json = client.send("POST", "/projects", {"name": name})
    if as_json:
        json_print(made)
    else:
        said = (
            f"{made['name']} is there, as {made['slug']}: `dlh projects member {made['slug']} USER ROLE` adds people."
        )
        console().print(said, markup=False, soft_wrap=True)


@app.command("members")
def projects_members(context: typer.Context, project: ProjectArgument, as_json: JsonFlag = False) -> None:
    """Who is in a project, and as what."""
    with open_client(context) as client:
        items: list[Json] = client.get(f"/projects/{segment(project)}/members")["items"]
    if as_json:
        json_print(items)
        return
    table_print(("User", "Role", "Since"), ((one["username"], one["role"], when(one["created_at"])) for one in items))


@app.command("member")
def projects_member(
    context: typer.Context,
    project: ProjectArgument,
    user: Annotated[str, typer.Argument(metavar="USER", help="User name.")],
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help=f"viewer, member or admin; {NO_ROLE} takes them out of the project.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Give a person a role in a project, or take them out of it. For the project's admins."""
    path = f"/projects/{segment(project)}/members/{segment(user)}"
    with open_client(context) as client:
        is_out = role == NO_ROLE
        told: Json = client.send("DELETE", path) if is_out else client.send("PUT", path, {"role": role})
    if as_json:
        json_print(told)
    else:
        said = f"{user} is no longer in {project}." if is_out else f"{told['username']} is {told['role']} in {project}."
        console().print(said, markup=False)


@app.command("rm")
def projects_rm(
    context: typer.Context,
    project: ProjectArgument,
    name: Annotated[str, typer.Option(help="The project's name, to delete it without being asked to type it.")] = "",
    forever: Annotated[bool, typer.Option("--forever", help="Not to the trash, or out of it: for good.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Move a project to the trash with its jobs, datasets and weights, once you have typed its name. For its admins."""
    path = f"/projects/{segment(project)}"
    with open_client(context) as client:
        holds: Json = client.get(f"{path}/holds")
        typed = name or _name_asked(project, holds, quiet=as_json)
        told: Json = client.transport.json("DELETE", path, params={"name": typed})
        if forever:
            told = client.send("POST", f"{path}/purge")
    if as_json:
        json_print({**holds, **told})
        return
    said = (
        "is being deleted for good" if forever else f"is in the trash: `dlh projects restore {project}` brings it back"
    )
    console().print(f"{project} {said}.", markup=False, soft_wrap=True)


def _name_asked(project: str, holds: Json, *, quiet: bool) -> str:
    """The name as it is typed, after what would go has been told, unless standard output is for a program. Raises
    `BadInput` where nobody is there to type."""
    rows = [(words.replace("_", " ").capitalize(), holds[words]) for words in _HELD]
    if not quiet:
        pairs_print([*rows, ("On the disk", size(holds["used_bytes"]))])
    if not sys.stdin.isatty():
        raise BadInput(f"Nothing is deleted before the name of {project} is given.", hint="Give it: --name NAME.")
    return str(typer.prompt(f"Type the name of the project {project} to delete it", err=True))


_HELD = ("jobs", "datasets", "weights", "uploads", "members", "tokens", "reservations", "quotas", "saved_views")


@app.command("trash")
def projects_trash(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Deleted projects that you may restore."""
    with open_client(context) as client:
        items: list[Json] = client.get("/projects", deleted=True)["items"]
    if as_json:
        json_print(items)
        return
    table_print(("Project", "Name", "Deleted"), ((one["slug"], one["name"], when(one["deleted_at"])) for one in items))


@app.command("restore")
def projects_restore(context: typer.Context, project: ProjectArgument, as_json: JsonFlag = False) -> None:
    """Take a project out of the trash, with all that is in it but its reservations."""
    with open_client(context) as client:
        told: Json = client.send("POST", f"/projects/{segment(project)}/restore")
    json_print(told) if as_json else console().print(f"{told['name']} is restored.", markup=False)
