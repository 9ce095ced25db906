"""`dlh jobs` (list, and what `drafts` adds), `show`, `cancel`, `pause`, `resume`, `results`."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from harness.client.cli import drafts
from harness.client.cli.common import JobArgument, open_client
from harness.client.cli.job_table import groups_print, jobs_print
from harness.client.cli.output import (
    JsonFlag,
    console,
    duration,
    idle_words,
    json_print,
    local_words,
    notes,
    number,
    pairs_print,
    standing,
    when,
)
from harness.client.cli.predictions import predict, predictions
from harness.client.cli.results import results
from harness.client.client import Json
from harness.client.errors import BadInput
from worker.words import percent_words

_STATE_HELP = (
    "draft, queued, placed, running, pausing, returning, paused, cancelling, succeeded, failed or cancelled; may be "
    "repeated."
)
_FAMILY_HELP = "Model family: mlp, resmlp, ft_transformer, cnn, resnet, convnext, or own for a person's model.py."
_COLUMN_HELP = "Shown beside the name, such as state, energy_j, metric:val/loss, spec:training.epochs; may be repeated."
_RANK_KEY = re.compile(r"rank\d+/")
_HAS_RANKS = frozenset({"placed", "running", "pausing", "cancelling"})
_GROUP_HELP = "Groups instead of jobs: by dataset, model, task, owner, project, state, tag, or a field of the spec."
_OF_HELP = "Of what groups have mean, spread and best: test, time, energy, speed, metric:KEY; else the best score."
jobs_app = typer.Typer(
    help="Jobs, newest first: without a command they are listed, as the options say. The commands clone, check and "
    "edit a job, tell what it would cost (offer), or move it to the trash (rm). One job alone: `dlh show JOB`.",
    short_help="Jobs: list, clone, check, edit, offer, rm.",
    invoke_without_command=True,
)
drafts.commands_add(jobs_app)

NOTES_SHOWN = 5
"""Of a run; the page has all."""
LIMIT_MAX = 10_000


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module on the top level."""
    for name, command in (
        ("show", show),
        ("cancel", cancel),
        ("pause", pause),
        ("resume", resume),
        ("results", results),
        ("predict", predict),
        ("predictions", predictions),
    ):
        app.command(name)(command)


@jobs_app.callback()
def jobs(  # noqa: PLR0913  (typer: one parameter per option)
    context: typer.Context,
    state: Annotated[list[str] | None, typer.Option("--state", "-s", help=_STATE_HELP)] = None,
    query: Annotated[str, typer.Option("--query", "-q", help="In name, notes or dataset.")] = "",
    tag: Annotated[str, typer.Option(help="With this tag.")] = "",
    owner: Annotated[str, typer.Option(help="User name.")] = "",
    task: Annotated[str, typer.Option(help="Problem type, such as tabular_classification.")] = "",
    family: Annotated[str, typer.Option(help=_FAMILY_HELP)] = "",
    sort: Annotated[str, typer.Option(help="created, name, state, metric, run, ...; -created: descending.")] = "",
    view: Annotated[str, typer.Option(help="A view saved on the page Jobs, by name or id; its columns, too.")] = "",
    column: Annotated[list[str] | None, typer.Option("--column", "-c", help=_COLUMN_HELP)] = None,
    group: Annotated[str, typer.Option("--group", "-g", help=_GROUP_HELP)] = "",
    of: Annotated[str, typer.Option(help=_OF_HELP)] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=LIMIT_MAX, help="How many to show.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """Jobs, newest first; `clone`, `check` and `edit` make a variation."""
    if context.invoked_subcommand:
        return
    if of and not group:
        raise BadInput("--of chooses the figure that groups are averaged by.", hint="Name the groups with --group.")
    if group and (sort or column):
        raise BadInput(
            "--sort and --column do not work with groups.", hint="Leave them out; the best mean comes first."
        )
    filters: dict[str, Any] = {"state": state, "query": query, "tag": tag, "owner": owner, "task": task}
    filters |= {"view": view, "family": family}
    with open_client(context) as client:
        path, shown = ("/job-groups", {"by": group, "of": of}) if group else ("/jobs", {"sort": sort, "column": column})
        page = client.first(path, limit, project=client.project, **filters, **shown)
    if as_json:
        json_print(page)
        return
    if not page["items"] and any((state, query, tag, owner, task, family, view)):
        console().print("No job matches.")
        return
    groups_print(page) if group else jobs_print(page["items"], has_columns=bool(view or column))
    if page["total"] > len(page["items"]):
        more = "--limit shows more" if limit < LIMIT_MAX else "filters narrow them down"
        notes().print(f"{len(page['items'])} of {page['total']}; {more}.")


def show(context: typer.Context, job: JobArgument, as_json: JsonFlag = False) -> None:
    """One job: state, progress, metrics, promise, checkpoints, why it waits or failed."""
    with open_client(context) as client:
        body = client.job(job)
        url = f"{client.transport.url}/jobs/{body['id']}"
        kept = [] if as_json else client.job_part(job, "checkpoints")["items"]
        history = [] if as_json else client.job_part(job, "events")["items"]
    json_print({**body, "url": url}) if as_json else _show(body, kept, history, url)


def _show(job: Json, kept: list[Json], history: list[Json], url: str) -> None:
    names = ("id", "name", "project", "owner", "state", "waiting_text", "task", "family", "notes")
    told = {**job, "waiting_text": local_words(job["waiting_text"])}
    failure = job["failure"] or {}
    of_ranks = {key: value for key, value in job["last_values"].items() if _RANK_KEY.match(key)}
    metrics = _values({key: value for key, value in job["last_values"].items() if key not in of_ranks})
    pairs_print(
        [
            *((name.replace("_", " ").capitalize(), told[name]) for name in names),
            ("Dataset", f"{job['dataset']['name']} ({job['dataset']['id']})"),
            ("Tags", ", ".join(job["tags"])),
            ("Progress", _progress(job)),
            ("Results", _awaited(job)),
            ("Reserved until", f"about {when(job['reserved_until'])}" if job.get("reserved_until") else ""),
            ("Left", idle_words(job) or duration(job["eta_s"])),
            ("Expected finish", _expected(job)),
            ("Deadline", f"{when(job['deadline_at'])}{_kept(job)}"),
            ("Promised", _promised(job)),
            ("Warning", local_words(job["warning"])),
            ("Newest values", metrics),
            ("Ranks" if job["state"] in _HAS_RANKS else "Ranks, when it last ran", _values(of_ranks)),
            (f"Best {job['metric_name']} (validation)", number(job["metric_best"])),
            (f"Test {job['metric_name']}", number(job["metric_test"])),
            ("Checkpoints", ", ".join(f"{item['name']}{' (best)' if item['best'] else ''}" for item in kept)),
            ("Program", "edited" if job["program_edited"] else "own model" if job["program_own"] else "generated"),
            ("Mode", f"{job['mode']} ({job['mode_why']})"),
            ("Learning rate", f"{job['learning_rate'] or 'as the program says'} ({job['learning_rate_why']})"),
            ("Emulated devices", job["emulated"]),
            ("Sandbox", f"L{job['sandbox_level']}" if job["sandbox_level"] is not None else ""),
            ("Created", when(job["created_at"])),
            ("Finished", when(job["finished_at"])),
            ("Devices held", duration(job["run_s"]) if job["run_s"] else ""),
            ("Failure", failure.get("message")),
            ("What to do", failure.get("hint")),
            ("Told by the run", _told_by_run(job, history)),
            ("Page", url),
        ]
    )


def _values(values: Json) -> str:
    return ", ".join(f"{key} {number(value)}" for key, value in values.items())


def _told_by_run(job: Json, history: list[Json]) -> str:
    """What ranks of its newest attempt noted, such as of a model that returns probabilities."""
    notes = [item for item in history if item["kind"] == "note" and "rank" in (item["data"] or {})]
    told = dict.fromkeys(item["message"] for item in notes if item["token"] == job["token"])
    return " ".join(list(told)[:NOTES_SHOWN])


def _progress(job: Json) -> str:
    """How far it is; of a job that has succeeded also whether it stopped before its last epoch."""
    made = int(job["epoch"])
    is_early = job["state"] == "succeeded" and 0 < made < job["epochs"]
    early = f"stopped early, after epoch {made} of {job['epochs']}; " if is_early else ""
    return f"{percent_words(job['progress'], 0)} ({early}{job['step']}/{job['steps_total']} steps)"


def _awaited(job: Json) -> str:
    """Where they are, of a run whose node does not answer."""
    if not (awaited := job.get("awaited")):
        return ""
    told = f"on {awaited['node']} alone, which does not answer; waited for until {when(awaited['until'])}"
    return f"{told}, or `dlh resume {job['id']}` has it train again now"


def _expected(job: Json) -> str:
    if not job["expected_finish_at"] or idle_words(job):
        return ""
    return f"{when(job['expected_finish_at'])} ({when(job['expected_low_at'])} to {when(job['expected_high_at'])})"


def _kept(job: Json) -> str:
    """By how much a job that has succeeded kept or missed its deadline: in minutes both moments may read the same."""
    if job["state"] != "succeeded" or job["slack_s"] is None:
        return ""
    late_s = -job["slack_s"]
    return f" (finished {duration(abs(late_s))} {'late' if late_s > 0 else 'before'})"


def _promised(job: Json) -> str:
    """What was said while it waited is over once it has ended."""
    if job["promised_at"] is None and job["finished_at"]:
        return "no" if job["deadline_at"] else ""
    return when(job["promised_at"]) or local_words((job["promise"] or {}).get("text") or "")


def _do(context: typer.Context, job: str, verb: str, body: Json | None, as_json: bool) -> None:
    with open_client(context) as client:
        changed = client.job_do(job, verb, body)
    if as_json:
        json_print(changed)
    else:
        console().print(f"{changed['name']}: {standing(changed)}", markup=False)


def cancel(context: typer.Context, job: JobArgument, as_json: JsonFlag = False) -> None:
    """Stop a job for good; its checkpoints stay."""
    _do(context, job, "cancel", None, as_json)


def pause(context: typer.Context, job: JobArgument, as_json: JsonFlag = False) -> None:
    """Have a job save a checkpoint and leave its devices."""
    _do(context, job, "pause", None, as_json)


def resume(
    context: typer.Context,
    job: JobArgument,
    checkpoint: Annotated[str, typer.Option(help="Name of a checkpoint; else the newest good one.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Queue a paused job again; a failed or cancelled one, too, if it saved a checkpoint (`dlh show` lists them).

    One that is trained, and whose results are on a node alone that does not answer, trains again.
    """
    _do(context, job, "resume", {"checkpoint": checkpoint}, as_json)
