"""`dlh simulate`: replay a trace of jobs on a pool that need not exist. Needs no portal.

The only command that works without one: the scheduler is a library of pure functions, loaded when the command runs.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.client.cli.output import JsonFlag, json_print, notes, table_print
from harness.client.errors import BadInput

if TYPE_CHECKING:
    from scheduler.simulate.engine import Replay
    from scheduler.simulate.metrics import Metrics

_HINT = (
    "Tables are named by --tables, pools by --pool, policies by --policy, the time between decisions by --slot-s, and "
    "--no-overheads lets these cost nothing; docs/scheduling.md describes them and traces."
)


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
    report: Annotated[Path | None, typer.Option("--report", help="HTML page to write.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay a trace through the scheduler: satisfied deadlines, times, use and energy, by policy."""
    from scheduler.simulate.metrics import measure

    _seconds_check(slot_s, rescale_s)
    rules = {"slot_s": slot_s, "overheads": overheads, "rescale_s": rescale_s, "estimator": estimator}
    replays, said = _replays(trace, policy or ["deadline_energy"], pool, tables, span_nodes, rules)
    figures = [measure(replay) for replay in replays]
    if report:
        _report_write(report, f"{trace.name} on {pool}", [_cost_words(overheads, rescale_s), *said], replays, figures)
    json_print([item.to_dict() for item in figures]) if as_json else _print(figures)


def _seconds_check(slot_s: float, rescale_s: float | None) -> None:
    """Pass for times that can be replayed. Raises `BadInput` with the option."""
    if not (math.isfinite(slot_s) and slot_s > 0):
        raise BadInput(f"--slot-s is {slot_s:g}; it must be above 0.", hint="Give seconds, such as 60.")
    if rescale_s is not None and not (math.isfinite(rescale_s) and rescale_s >= 0):
        raise BadInput(f"--rescale-s is {rescale_s:g}; it must be 0 or more.", hint="Give seconds, such as 20.")


def _replays(
    trace: Path, policies: list[str], pool: str, tables: Path | None, span_nodes: bool, rules: dict[str, Any]
) -> tuple[list[Replay], list[str]]:
    """(a replay of each policy, what is said of all of them, in sentences). Raises `BadInput`."""
    try:
        replays, said = _replayed(trace, policies, pool, tables, span_nodes, rules)
    except ValueError as error:
        raise BadInput(f"{error}.", hint=_HINT) from error
    said = [f"{text}." for text in said]
    for text in said:
        notes().print(text, markup=False)
    return replays, said


def _replayed(
    trace: Path, policies: list[str], pool: str, tables: Path | None, span_nodes: bool, rules: dict[str, Any]
) -> tuple[list[Replay], list[str]]:
    """(a replay of each policy, what is to be said of all of them). Raises `ValueError`."""
    from scheduler.simulate.pool import SimPool
    from scheduler.simulate.run import misfits, one_speed, policy_for, rules_for, sim_jobs
    from scheduler.simulate.run import simulate as replay_run
    from scheduler.simulate.tables import Tables
    from scheduler.simulate.traces import read_trace

    place = SimPool.parse(pool, spans_nodes=span_nodes)
    for name in policies:  # what is wrong with an option is said before what is wrong with a file
        policy_for(
            name, rules_for(place, slot_s=rules["slot_s"], overheads=rules["overheads"], rescale_s=rules["rescale_s"])
        )
    jobs, known = read_trace(trace), Tables.read(tables) if tables else None
    estimator = bool(rules["estimator"])
    told = sum(bool(job.ways) for job in jobs)
    if estimator and not told:
        raise ValueError(f"{trace.name} has no column ways, or nothing in it: none of its jobs has estimates")
    able = sim_jobs(jobs, known, place, estimator=estimator)
    said = misfits(jobs, able, place) + one_speed(able, place)
    if not any(job.options for job in able):
        raise ValueError(f"{'; '.join(misfits(jobs, able, place))}: name a pool that fits with --pool")
    if estimator:
        said.append(f"{told} of {len(jobs)} jobs may run as the estimator predicted, scaled by what they actually took")
    return [replay_run(jobs, place, name, tables=known, **rules) for name in policies], said


def _cost_words(overheads: bool, rescale_s: float | None) -> str:
    """What decisions cost, as the report says it."""
    cost = "Decisions cost time by the published rules" if overheads else "Decisions cost no time"
    own = (
        f"; a start or change of devices {rescale_s:g} s per doubling, and once again" if rescale_s is not None else ""
    )
    return f"{cost}{own}. Energy is time by the power of data sheets: assumed."


def _report_write(path: Path, title: str, told: list[str], replays: list[Replay], figures: list[Metrics]) -> None:
    from scheduler.simulate.report import report_html

    try:
        path.write_text(report_html(title, replays, figures, told), "utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.", hint="Check the folder.") from error
    notes().print(f"Wrote {path}.", markup=False)


def _print(figures: list[Metrics]) -> None:
    from scheduler.simulate.report import ROWS

    rows = [(label, *(show(item) for item in figures)) for label, show in ROWS]
    table_print(("Figure", *(item.policy for item in figures)), rows)
