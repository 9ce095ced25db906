"""`dlh submit`: a new job, or a draft as it is."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from harness.client.cli.asking import EARLIEST, DeadlineOption, deadline_read
from harness.client.cli.common import DataOption, ModelOption, PromiseOption, finish, job_body, open_client, spec_named
from harness.client.cli.interrupts import interrupted, job_made, submit_awaited
from harness.client.cli.output import JsonFlag, console, json_print, notes, standing
from harness.client.cli.runs import watch_and_print
from harness.client.cli.taking import RECOMMENDED, take_earliest
from harness.client.cli.weights import WeightsOption, weights_named
from harness.client.client import Client, Json
from harness.client.errors import ApiError, BadInput, Unreachable

SourceArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SPEC|DRAFT]",
        help="Task spec in YAML, without it every field is auto; or the id of a draft, which is queued as it is.",
    ),
]


def commands_add(app: typer.Typer) -> None:
    """Put the command of this module on the top level."""
    app.command("submit")(submit)


def submit(  # noqa: PLR0913
    context: typer.Context,
    spec: SourceArgument = None,
    data: DataOption = "",
    model: ModelOption = None,
    weights: WeightsOption = "",
    name: Annotated[str, typer.Option(help="Name of the job; else made from dataset and model.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Watch it until it ends, a range test before it included.")
    ] = False,
    draft: Annotated[bool, typer.Option("--draft", help="Create the job but do not queue it.")] = False,
    deadline: DeadlineOption = "",
    promise: PromiseOption = True,
    as_json: JsonFlag = False,
) -> None:
    """Upload the data if need be, make the program, and queue the job; or queue a draft as it is.

    With `--deadline earliest` it gets the devices that an offer recommends for the earliest finish that can be
    promised.
    """
    if deadline and deadline != EARLIEST:
        deadline_read(deadline)  # what is none is said before data are sent; a span counts from when they are there
    with open_client(context) as client:
        if spec is not None and _is_id(spec):
            if data or model or weights or name or draft or deadline:
                raise BadInput(f"{spec} cannot be read: No such file.", hint=_as_it_is(spec))
            job = _draft_submit(client, str(spec), promise=promise)
        else:
            with spec_named(spec):
                body = {**job_body(client, spec, data, model, quiet=as_json), "name": name}
                if weights:
                    named = weights_named(client, weights, body["dataset"], quiet=as_json)
                    body["changes"] = {"model.weights": named}
                job = _job_make(client, body, submit=not draft, deadline=deadline, promise=promise)
        if wait and not draft:
            if not as_json:
                notes().print(f"Job {job['id']}: {job['name']}", markup=False)
            job = _watch(client, job["id"], quiet=as_json)
        url = f"{client.transport.url}/jobs/{job['id']}"
    if as_json:
        json_print({**job, "url": url})
    elif not wait or draft:
        console().print(f"{job['id']}  {job['name']}  {standing(job)}\n{url}", markup=False, soft_wrap=True)
        notes().print(_next_words(job), markup=False, soft_wrap=True)
    if wait and not draft:
        finish(job)


def _next_words(job: Json) -> str:
    """The command that goes on from here."""
    if job["state"] == "draft" and not job.get("rate_test_first"):
        return f"`dlh jobs offer {job['id']}` tells what it would cost, `dlh submit {job['id']}` queues it."
    return f"`dlh watch {job['id']}` follows it."


def _is_id(source: Path) -> bool:
    """Whether it is rather the id of a job: a spec has a place or an ending, or is there."""
    return not source.suffix and len(source.parts) == 1 and not source.exists()


def _as_it_is(draft: Path) -> str:
    return (
        f"Check the path. A draft is queued as it is by `dlh submit {draft}`, without the options that make a job; "
        f"`dlh jobs offer {draft} --deadline` asks for a deadline first."
    )


def _draft_submit(client: Client, job_id: str, *, promise: bool) -> Json:
    """Raises `BadInput` where it is neither a job nor a file, `ApiError`."""
    try:
        with submit_awaited(client, job_id):
            return client.job_do(job_id, "submit", {"promise": promise})
    except ApiError as error:
        if error.status != 404:
            raise
        hint = "Check the path; `dlh jobs --state draft` lists the drafts."
        raise BadInput(f"There is neither a file nor a draft {job_id}.", hint=hint) from error


def _job_make(client: Client, body: Json, *, submit: bool, deadline: str, promise: bool) -> Json:
    """A new job, queued where it is to be submitted."""
    earliest = deadline == EARLIEST
    if deadline and not earliest:
        changes = {"budget.deadline": deadline_read(deadline) or "auto"}
        body = {**body, "changes": {**body.get("changes", {}), **changes}}
    asked = {**body, "submit": submit and not earliest, "promise": promise}
    by = f"`dlh jobs offer {{}} --deadline {EARLIEST} --take {RECOMMENDED} --submit`" if earliest else "`dlh submit {}`"
    job = job_made(lambda: client.job_create(asked), by)
    return take_earliest(client, job["id"], submit=submit, promise=promise) if earliest else job


def _watch(client: Client, job_id: str, *, quiet: bool) -> Json:
    """Follow the job. Ctrl-C, or a portal that is gone, ends the watching alone: the same command once more would make
    a second job. Raises `ApiError`, `Unreachable` that name it."""
    try:
        return watch_and_print(client, job_id, as_json=False, quiet=quiet)
    except KeyboardInterrupt:
        interrupted(f"The job continues: `dlh watch {job_id}` follows it, `dlh cancel {job_id}` ends it.")
    except (ApiError, Unreachable) as error:
        if not isinstance(error, ApiError) or error.status != HTTPStatus.NOT_FOUND:
            error.hint = f"{error.hint} It is job {job_id}: `dlh watch {job_id}` follows it.".strip()
        error.details = {"job": job_id}
        raise
