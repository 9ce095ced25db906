"""`dlh simulate`: replay a trace of jobs on a pool that need not exist. Needs no portal.

The only command that works without one: the scheduler is a library of pure functions, loaded when the command runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.client.cli.output import JsonFlag, json_print, notes, table_print
from harness.client.errors import BadInput

if TYPE_CHECKING:
    from scheduler.simulate.engine import Replay
    from scheduler.simulate.metrics import Metrics
    from scheduler.simulate.pool import SimPool
    from scheduler.simulate.quotas import Limit
    from scheduler.simulate.tables import Tables
    from scheduler.simulate.traces import Trace
    from scheduler.types import Policy

_FILES = "docs/scheduling.md describes the files: traces, throughput tables and watts."
_OPTIONS = "`dlh simulate --help` describes the options."
_PAGES = (".html", ".htm")


def commands_add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command("simulate")(simulate)


def simulate(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="CSV or JSON of jobs, plain or .gz.")],
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="fifo, edf, fair_share, deadline_energy ...; may be repeated.")
    ] = None,
    pool: Annotated[
        str, typer.Option("--pool", help="NODESxDEVICES[:MODEL], several with commas: 64x8, 2x8:V100,1x4:cpu.")
    ] = "1x8",
    tables: Annotated[
        Path | None, typer.Option("--tables", help="Folder of throughput tables, for traces that name models.")
    ] = None,
    slot_s: Annotated[float, typer.Option("--slot-s", help="Least time between two decisions, seconds.")] = 60.0,
    overheads: Annotated[
        bool, typer.Option("--overheads/--no-overheads", help="Let decisions and device changes take time.")
    ] = True,
    rescale_s: Annotated[
        float | None,
        typer.Option("--rescale-s", help="What a start or change of devices costs per doubling; else as published."),
    ] = None,
    estimator: Annotated[
        bool, typer.Option("--estimator", help="Also run jobs from our own history as the estimator predicted them.")
    ] = False,
    span_nodes: Annotated[
        bool, typer.Option("--span-nodes/--one-node", help="Whether one job may use several nodes.")
    ] = True,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            "--quota",
            metavar="PROJECT=DEVICES",
            help="What a project may hold at once, such as red=8, red:cpu=16 or red=8,no-borrow; none: no limit. May "
            "be repeated; over what a history in JSON carries.",
        ),
    ] = None,
    keep_quotas: Annotated[
        bool, typer.Option("--keep-quotas/--no-quotas", help="Whether the quotas of a history in JSON count.")
    ] = True,
    power: Annotated[
        Path | None,
        typer.Option(
            "--power", help="Watts by device, as `dlh pool power --json` prints them; else those of a history in JSON."
        ),
    ] = None,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Leave out jobs of which nothing says how fast they run there.")
    ] = False,
    report: Annotated[Path | None, typer.Option("--report", help="HTML page to write.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay a trace through the scheduler: satisfied deadlines, times, use and energy, by policy."""
    from scheduler.simulate.metrics import measure

    _seconds_check(slot_s, rescale_s)
    for name in policy or ():
        _policy_check(name)
    if report:
        _report_check(report, trace)
    rules = {"slot_s": slot_s, "overheads": overheads, "rescale_s": rescale_s, "estimator": estimator}
    given = _Given(
        trace=trace, policies=policy or ["deadline_energy"], pool=pool, tables=tables, span_nodes=span_nodes,
        quotas=quota or [], keep_quotas=keep_quotas, power=power, skip_unknown=skip_unknown, rules=rules,
    )  # fmt: skip
    replays, said = _replays(given)
    figures = [measure(replay) for replay in replays]
    if report:
        _report_write(report, f"{trace.name} on {pool}", [_cost_words(overheads, rescale_s), *said], replays, figures)
    json_print([item.to_dict() for item in figures]) if as_json else _print(figures)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What the command line says."""

    trace: Path
    policies: list[str]
    pool: str
    tables: Path | None
    span_nodes: bool
    quotas: list[str]
    keep_quotas: bool
    power: Path | None
    skip_unknown: bool
    rules: dict[str, Any]


def _seconds_check(slot_s: float, rescale_s: float | None) -> None:
    """Pass for times that can be replayed. Raises `BadInput` with the option."""
    if not (math.isfinite(slot_s) and slot_s > 0):
        raise BadInput(f"--slot-s is {slot_s:g}; it must be above 0.", hint="Give seconds, such as 60.")
    if rescale_s is not None and not (math.isfinite(rescale_s) and rescale_s >= 0):
        raise BadInput(f"--rescale-s is {rescale_s:g}; it must be 0 or more.", hint="Give seconds, such as 20.")


def _policy_check(name: str) -> None:
    """Pass for a policy that exists. Raises `BadInput` with those of a like name."""
    from scheduler.policies import names, policy_of

    try:
        policy_of(name)
    except ValueError as error:
        close = get_close_matches(name.lower(), names())
        hint = f"Did you mean {' or '.join(close)}?" if close else _OPTIONS
        raise BadInput(f"--policy: {error}.", hint=hint) from error


def _report_check(path: Path, trace: Path) -> None:
    """Pass for a page that can be written once the replays are done, and replaces no data. Raises `BadInput`."""
    if path.exists() and trace.exists() and path.samefile(trace):
        raise BadInput(f"--report would replace the trace, {path}.", hint="Give the page a name of its own.")
    if path.suffix.lower() not in _PAGES:
        hint = f"Give a name that ends in {_PAGES[0]}, such as {path.stem or 'report'}.html; what is there is replaced."
        raise BadInput(f"--report writes a page, and {path.name} is not the name of one.", hint=hint)
    if not path.parent.is_dir():
        raise BadInput(f"{path} cannot be written: there is no folder {path.parent}.", hint="Make it, or name another.")
    if path.is_dir():
        raise BadInput(f"{path} cannot be written: it is a folder.", hint="Name a file in it.")


def _replays(given: _Given) -> tuple[list[Replay], list[str]]:
    """(a replay of each policy, what is said of all of them, in sentences). Raises `BadInput`."""
    from scheduler.simulate.trace_rows import TraceError

    try:
        replays, said = _replayed(given)
    except TraceError as error:
        raise BadInput(f"{error}.", hint=_FILES) from error
    except ValueError as error:
        raise BadInput(f"{error}.", hint=_OPTIONS) from error
    said = [f"{text}." for text in said]
    for text in said:
        notes().print(text, markup=False)
    return replays, said


def _replayed(given: _Given) -> tuple[list[Replay], list[str]]:
    """(a replay of each policy, what is to be said of all of them). Raises `ValueError`, `BadInput`."""
    from scheduler.simulate.known import stand_ins
    from scheduler.simulate.run import lends_nothing, misfits, one_speed, power_words, sim_jobs, unused
    from scheduler.simulate.run import simulate as replay_run
    from scheduler.simulate.tables import Tables
    from scheduler.simulate.traces import trace_read

    place, limits, policies = _options_read(given)
    trace, known = trace_read(given.trace), Tables.read(given.tables) if given.tables else None
    estimator = bool(given.rules["estimator"])
    if estimator and not any(job.ways for job in trace.jobs):
        problem = f"{trace.name} has no column ways, or nothing in it: none of its jobs has estimates."
        raise BadInput(problem, hint="`dlh pool history FILE.json` writes them; or leave --estimator out.")
    trace, said = _known_jobs(given, trace, known, place)
    jobs = trace.jobs
    place, bound = _bound(given, trace, place, limits)
    able = sim_jobs(jobs, known, place, estimator=estimator)
    lost = misfits(jobs, able, place)
    if not any(job.options for job in able):
        raise BadInput(f"{'; '.join(lost)}.", hint="Give another --pool, or --quota.")
    said += [*lost, *unused(able, place), *one_speed(able, place), *stand_ins(jobs, place), *bound]
    said += filter(None, (lends_nothing(policy, place) for policy in policies))
    if estimator:
        told = sum(bool(job.ways) for job in jobs)
        said.append(f"{told:,} of {len(jobs):,} jobs may run as the estimator predicted, scaled by what they took")
    said += power_words(jobs, place)
    return [replay_run(jobs, place, name, tables=known, **given.rules) for name in given.policies], said


def _options_read(given: _Given) -> tuple[SimPool, list[Limit], list[Policy]]:
    """(pool, quotas, policies): what is wrong with an option is said before what is wrong with a file.

    Raises `ValueError`.
    """
    from scheduler.simulate.pool import SimPool
    from scheduler.simulate.quotas import limit_parse
    from scheduler.simulate.run import policy_for, rules_for

    place = SimPool.parse(given.pool, spans_nodes=given.span_nodes)
    costs = {name: given.rules[name] for name in ("slot_s", "overheads", "rescale_s")}
    policies = [policy_for(name, rules_for(place, **costs)) for name in given.policies]
    return place, list(map(limit_parse, given.quotas)), policies


def _known_jobs(given: _Given, trace: Trace, tables: Tables | None, place: SimPool) -> tuple[Trace, list[str]]:
    """(the trace with the jobs of which it is known how fast they run there, what is said of the others). Raises
    `BadInput`."""
    from scheduler.simulate.known import unknown_of

    unknown = unknown_of(trace.jobs, tables, place, estimator=bool(given.rules["estimator"]))
    if not unknown.jobs:
        return trace, []
    known = [job for job in trace.jobs if job.job_id not in unknown.jobs]
    count = f"{len(unknown.jobs):,} of {len(trace.jobs):,} jobs"
    if not (known and given.skip_unknown):
        remedies = [*unknown.remedies, *(["leave these jobs out by --skip-unknown"] if known else [])]
        hint = "; or ".join(remedies)
        raise BadInput(
            f"Nothing says how fast {count} run there: {unknown.words}.", hint=f"{hint[:1].upper()}{hint[1:]}."
        )
    left = f"{count} are left out, of which nothing says how fast they run there: {unknown.words}"
    return replace(trace, jobs=known), [left]


def _bound(given: _Given, trace: Trace, place: SimPool, limits: list[Limit]) -> tuple[SimPool, list[str]]:
    """(the pool with quotas and watts, what is said of where they come from). Raises `ValueError`."""
    from scheduler.simulate.power import SHIPPED, PowerTable
    from scheduler.simulate.quotas import limits_of, quotas_of

    kinds = {part.kind for part in place.parts}
    quotas, said = quotas_of(trace, kinds, limits, limits_of(trace) if given.keep_quotas else [])
    table = SHIPPED
    if given.power:
        table = PowerTable.read(given.power)
    elif kept := trace.extras.get("power"):
        table = PowerTable.of(kept, trace.name)
    if trace.is_history and not trace.extras:
        said.append(
            f"{trace.name} carries neither quotas nor watts of its installation: `dlh pool history FILE.json` writes "
            "both with the jobs"
        )
    place = place.bound(quotas=quotas, table=table)
    if given.power and not any(table.tells(part.power) for part in place.parts):
        said.append(f"{given.power.name} has watts of none of these devices: those of data sheets count")
    return place, said


def _cost_words(overheads: bool, rescale_s: float | None) -> str:
    """What decisions cost, as the report says it."""
    cost = "Decisions cost time by the published rules" if overheads else "Decisions cost no time"
    own = (
        f"; a start or change of devices {rescale_s:g} s per doubling, and once again" if rescale_s is not None else ""
    )
    return f"{cost}{own}. Energy is watts times time."


def _report_write(path: Path, title: str, told: list[str], replays: list[Replay], figures: list[Metrics]) -> None:
    from scheduler.simulate.report import report_html

    try:
        path.write_text(report_html(title, replays, figures, told), "utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.", hint="Check the folder.") from error
    notes().print(f"Wrote {path}.", markup=False)


def _print(figures: list[Metrics]) -> None:
    from scheduler.simulate.report import PROJECT_HEAD, ROWS, project_rows

    rows = [(label, *(show(item) for item in figures)) for label, show in ROWS]
    table_print(("Figure", *(item.policy for item in figures)), rows)
    if by_project := project_rows(figures):
        table_print(PROJECT_HEAD, by_project, title="By project")
