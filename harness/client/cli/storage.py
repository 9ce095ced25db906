"""What projects take of the portal's disk: `dlh pool storage`, `dlh pool storage-quota`, `dlh jobs rm`."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, json_print, pairs_print, size, table_print, when
from harness.client.client import Client, Json
from harness.client.errors import BadInput, ClientError
from harness.client.transport import segment

ForeverFlag = Annotated[
    bool,
    typer.Option("--forever", help="Permanently instead of to the trash, which frees the disk. This cannot be undone."),
]
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]i?B?|B)?", re.IGNORECASE)
_SIZE_LETTERS_MAX = 40
_POWERS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_KINDS = {"earlier": "dataset, earlier"}


def size_read(text: str) -> int:
    """Bytes: `500MiB`, `1.5 TiB`, `20G` (all binary), or a plain number. Raises `BadInput`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or len(text) > _SIZE_LETTERS_MAX:
        raise BadInput(
            f"{text!r} is not a valid size.", hint="Write it like 500MiB, 20GiB or 1.5TiB; or none, or default."
        )
    return int(float(found[1]) * 1024 ** _POWERS[(found[2] or "")[:1].lower()])


def pool_commands_add(pool: typer.Typer) -> None:
    """Add the commands to `dlh pool`."""
    pool.command("storage")(storage)
    pool.command("storage-quota")(storage_quota)


def storage(
    context: typer.Context,
    project: Annotated[
        str, typer.Argument(metavar="[PROJECT]", help="Slug: show what this project's storage consists of.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Disk by project beside its quota; of one project its largest things, and what keeps them."""
    with open_client(context) as client:
        found: Json = client.get(f"/projects/{segment(project)}/storage" if project else "/pool/storage")
    if as_json:
        json_print(found if project else found["items"])
    elif project:
        _project_show(found)
    else:
        names = ("Project", "Used", "Allowed", "Datasets", "Checkpoints", "Results", "Other", "Uploads")
        table_print(names, map(_row, found["items"]))


def _row(row: Json) -> tuple[str, ...]:
    parts = ("dataset_bytes", "checkpoint_bytes", "result_bytes", "other_bytes", "upload_bytes")
    return (row["project"], size(row["used_bytes"]), _allowed(row), *(size(row[name]) for name in parts))


def _allowed(row: Json) -> str:
    return "no limit" if row["limit_bytes"] is None else size(row["limit_bytes"])


def _project_show(found: Json) -> None:
    state = "used up: nothing more can be added" if found["is_over"] else ""
    pairs_print([("Project", found["project"]), ("Used", size(found["used_bytes"])), ("Allowed", _allowed(found)),
                 ("State", state)])  # fmt: skip
    console().print()
    table_print(
        ("Size", "Kind", "Id", "Name", "Owner", "In the trash since", "Kept because"),
        (
            (size(item["used_bytes"]), _KINDS.get(item["kind"], item["kind"]), item["id"], item["name"], item["owner"],
             when(item["deleted_at"]), item["keeps"])
            for item in found["items"]
        ),
    )  # fmt: skip
    console().print(
        "Delete for good: dlh data rm ID --forever, dlh jobs rm ID --forever, dlh data uploads --give-up ID"
    )


def storage_quota(
    context: typer.Context,
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Slug of a project.")],
    limit: Annotated[str, typer.Argument(metavar="SIZE", help="Such as 500MiB, 20GiB; none: no limit; default.")],
    as_json: JsonFlag = False,
) -> None:
    """Set how much of the disk a project may take. For admins; nothing is deleted, and what runs goes on."""
    path = f"/pool/storage/{segment(project)}"
    with open_client(context) as client:
        if limit == "default":
            answer, said = client.send("DELETE", path), "as much as the installation's default allows"
        else:
            limit_bytes = None if limit == "none" else size_read(limit)
            answer = client.send("PUT", path, {"limit_bytes": limit_bytes})
            said = "as much as there is" if limit_bytes is None else size(limit_bytes)
        found: Json = {} if as_json else client.get(f"/projects/{segment(project)}/storage")
    if as_json:
        json_print(answer)
        return
    console().print(f"{project} may take {said}.", markup=False)
    if found["is_over"]:  # as where a number without a unit was meant as GiB
        used = size(found["used_bytes"])
        console().print(
            f"It takes {used}, so its quota is used up: it can add nothing until it takes less.", markup=False
        )


def remove(client: Client, what: str, key: str, *, forever: bool) -> None:
    """Move one of the `jobs` or `datasets` to the trash, a job from there on; where that fails, the error says both.

    A dataset that jobs used stays as it is: it is deleted for good in one step, or not at all.
    """
    path = f"/{what}/{segment(key)}"
    if forever and what == "datasets":
        client.send("POST", f"{path}/purge", {"at_once": True})
        return
    client.send("DELETE", path)
    if forever:
        try:
            client.send("POST", f"{path}/purge")
        except ClientError as error:
            error.message = f"{error.message} {key} is in the trash."
            error.hint = f"{error.hint} `dlh jobs rm {key} --forever` tries again.".strip()
            raise


def _others(where: str, done: list[str], left: list[str]) -> str:
    """What has become of the jobs that were named beside one that failed."""
    parts = [f"{', '.join(done)}: {where}."] if done else []
    return " ".join([*parts, f"{', '.join(left)}: not touched."] if left else parts)


def jobs_rm(
    context: typer.Context,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs that neither wait nor run.")],
    forever: ForeverFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Move jobs to the trash, from where they can be restored (two weeks, unless set otherwise)."""
    where = "deleted for good" if forever else "in the trash"
    with open_client(context) as client:
        for number, job in enumerate(jobs):
            try:
                remove(client, "jobs", job, forever=forever)
            except ClientError as error:
                error.message = f"{job}: {error.message}" if len(jobs) > 1 else error.message
                error.hint = " ".join(filter(None, (_others(where, jobs[:number], jobs[number + 1 :]), error.hint)))
                raise
    if as_json:
        json_print({"ok": True, "ids": jobs})
    else:
        console().print(f"{', '.join(jobs)}: {where}.", markup=False)
