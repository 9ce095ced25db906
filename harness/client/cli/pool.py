"""`dlh pool`: show, drain, add, rm, settings ...; other modules add theirs, as `reserving` reservations and quotas."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Annotated, Any

import typer

from harness.client.cli import calibration, history, links, reserving, storage, use
from harness.client.cli.changes import change_send
from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, duration, json_print, size, table_print, when
from harness.client.client import Client, Json
from harness.client.errors import ApiError, BadInput
from harness.client.transport import segment
from worker.words import counted

app = typer.Typer(help="The pool of devices: nodes, reservations, quotas, use.", invoke_without_command=True)
NameArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.")]


@app.callback()
def pool_show(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Nodes and devices; `drain`, `undrain`, `add` and `rm` change them."""
    if context.invoked_subcommand:
        return
    with open_client(context) as client:
        pool: Json = client.get("/pool")
    if as_json:
        json_print(pool)
        return
    table_print(("Node", "State", "Cores", "Memory", "Devices", "Busy", "Sandbox", "Jobs"), map(_row, pool["nodes"]))
    told = (("reserved", "reserved"), ("away", "down, draining or not seen"))
    left_out = "".join(f"{pool[name]} {words}, " for name, words in told if pool.get(name))
    console().print(
        f"{pool['busy']} of {pool['devices']} devices busy, {pool['free']} free, {left_out}"
        f"{counted(pool['queued'], 'job waits', 'jobs wait')}."
    )
    for node in pool["nodes"]:
        if (off_s := node["description"].get("clock_off_s")) and node["state"] != "down":
            side = "ahead of" if off_s > 0 else "behind"
            said = f"{node['name']} accepts no new jobs: its clock is {duration(abs(off_s))} {side} the portal's."
            console().print(f"{said} There: timedatectl set-ntp true", markup=False)
        if node["description"].get("twins_at") and node["state"] != "down":
            said = f"No job starts on {node['name']}: two machines report as it. Stop the agent of one of them, and"
            how = "have that machine join anew: dlh pool add NODE, then there dlh node join URL TOKEN --home OTHER;"
            console().print(f"{said} {how} or give it a secret file of its own.", markup=False)
        for device in node["devices"]:
            if (away_s := device.get("away_s")) is not None:
                name = f"{device['kind']}:{device['index']}"
                console().print(f"{node['name']} has not seen its {name} for {duration(away_s)}.", markup=False)
        for pace in node.get("paces", ()):
            console().print(f"{node['name']}: {pace['words']}", markup=False)


def _row(node: Json) -> tuple[object, ...]:
    if node.get("heartbeat_age_s", 0.0) is None:
        return node["name"], "not joined yet", "", "", "", "", "", ""
    devices: list[Json] = node["devices"]
    busy = sum(device["busy"] for device in devices)
    jobs = sorted({device["job_id"] for device in devices if device["job_id"]})
    held = f"{busy}/{len(devices)}"
    level = f"L{node['sandbox_level']}"
    memory, models = size(node["memory_bytes"]), _models_words(devices)
    state = "down, drained" if node["state"] == "down" and node.get("drain_wanted") else node["state"]
    return node["name"], state, node["cpu_cores"], memory, models, held, level, ", ".join(jobs)


def _models_words(devices: list[Json]) -> str:
    """`16 x Xeon; 2 x Tesla T4`: by the names that `--device-model` takes."""
    from scheduler.kinds import declared_name

    found = Counter(declared_name(device["model_name"], device["slowdown"]) or device["kind"] for device in devices)
    return "; ".join(f"{count} x {name}" for name, count in found.items())


@app.command("drain")
def pool_drain(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Let a node's jobs end and give it no new ones; what that means is told before."""
    if not as_json:
        reserving.consequences(context, name)
    change_send(context, "POST", f"/pool/nodes/{segment(name)}/drain", None, f"{name} accepts no new jobs.", as_json)


@app.command("undrain")
def pool_undrain(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Give a node work again."""
    with open_client(context) as client:
        node: Json = client.send("POST", f"/pool/nodes/{segment(name)}/undrain")
    if as_json:
        json_print(node)
    else:
        console().print(_let_in_words(node), markup=False)


def _let_in_words(node: Json) -> str:
    """When it takes jobs."""
    if node["state"] == "down":
        return f"{node['name']} is down: it accepts jobs once it is back."
    if node["description"].get("clock_off_s"):
        return f"{node['name']} accepts jobs once its clock is right."
    if node["description"].get("twins_at"):
        return f"{node['name']} accepts jobs once one machine alone reports as it."
    return f"{node['name']} accepts jobs again."


@app.command("near")
def pool_near(
    context: typer.Context,
    name: NameArgument,
    rack: Annotated[str, typer.Argument(metavar="RACK", help="Rack or switch; none: unknown.")],
    as_json: JsonFlag = False,
) -> None:
    """Name a node's rack: runs on several nodes stay within one where they can."""
    near = "" if rack == "none" else rack
    said = f"{name} is in {near}." if near else f"The rack of {name} is not known."
    change_send(context, "PUT", f"/pool/nodes/{segment(name)}/near", {"near": near}, said, as_json)


@app.command("slow")
def pool_slow(
    context: typer.Context,
    name: NameArgument,
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="Such as cpu:1 or cuda:0.")],
    factor: Annotated[float, typer.Argument(metavar="FACTOR", help="How many times slower; 1: full speed.")],
    as_json: JsonFlag = False,
) -> None:
    """Let a device act slower than it is, to try unlike devices on a machine that has none."""
    kind, _, index = device.partition(":")
    if not index.isdecimal():
        hint = "Write it like cpu:1 or cuda:0; `dlh pool` shows what there is."
        raise BadInput(f"{device!r} names no device.", hint=hint)
    path = f"/pool/nodes/{segment(name)}/devices/{segment(kind)}/{segment(index)}/slowdown"
    said = f"Runs that start on {device} of {name} from now on run {factor:g} times slower (emulated)."
    if factor == 1.0:
        said = f"{device} of {name} runs at full speed."
    change_send(context, "PUT", path, {"factor": factor}, said, as_json)


@app.command("add")
def pool_add(
    context: typer.Context,
    name: NameArgument,
    hours: Annotated[float, typer.Option("--hours", help="How long the join token is valid.")] = 24.0,
    as_json: JsonFlag = False,
) -> None:
    """Expect a node of this name, and print the command that lets its machine in, once."""
    if not math.isfinite(hours):  # JSON has no word for it, so that the portal cannot say what is wrong
        told = f"--hours is {hours:g}; it must be a finite number."
        raise BadInput(told, hint="Such as 24, for a day.", field="hours")
    with open_client(context) as client:
        made = _join_token(client, name, hours)
    if as_json:
        json_print(made)
        return
    console().print(
        f"{name} can join now. Run this on that machine, once, before {when(made['expires_at'])}:", markup=False
    )
    console().print(f"  {made['command']}", markup=False, soft_wrap=True)


def _join_token(client: Client, name: str, hours: float) -> Json:
    """A token of the node, which is added where there is none of this name: not before what the token lacks is told."""
    place, body = f"/pool/nodes/{segment(name)}/token", {"valid_s": hours * 3600.0}
    try:
        made: Json = client.send("POST", place, body)
    except ApiError as error:
        if error.status != 404:
            raise
        client.send("POST", "/pool/nodes", {"name": name})
        made = client.send("POST", place, body)
    return made


@app.command("readers")
def pool_readers(context: typer.Context, as_json: JsonFlag = False) -> None:
    """How far control is with what runs say, and which of its processes read."""
    with open_client(context) as client:
        found: Json = client.get("/pool/readers")
    if as_json:
        json_print(found)
        return
    rows = [
        (row["number"], row["waiting"], f"{row['behind_s']:.0f} s", row["reader"] or "none yet")
        for row in found["streams"]
    ]
    table_print(("Stream", "Waiting", "Behind", "Current or last reader"), rows)
    console().print(
        f"{counted(found['waiting'], 'event waits', 'events wait')}, the oldest for {found['behind_s']:.0f} s; "
        f"{counted(len(found['readers']), 'reader')} in the last minute."
    )
    console().print(f"Scheduled last by {found.get('decided_by') or 'nobody yet'}.", markup=False)


@app.command("settings")
def pool_settings(
    context: typer.Context,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="e.g. max_restarts=5; may be repeated. For admins."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Settings of the whole pool; `--set` changes some, and the others stay."""
    body = dict(_setting(text) for text in changes or [])
    with open_client(context) as client:
        found: Json = client.send("PATCH", "/pool/settings", body) if body else client.get("/pool/settings")
    if as_json:
        json_print(found)
    else:
        table_print(("Setting", "Value"), ((name, _setting_words(value)) for name, value in found.items()))


def _setting(text: str) -> tuple[str, Any]:
    """`max_restarts=5` as name and value: JSON where it is any, else the text (YAML would make `off` false).

    Raises `BadInput`.
    """
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise BadInput(f"{text!r} does not set anything.", hint="Write NAME=VALUE, e.g. --set max_restarts=5.")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value.strip()


def _setting_words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@app.command("rm")
def pool_rm(
    context: typer.Context,
    name: NameArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Also one that has results to return: their jobs train again.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Take a node without jobs out of the pool."""
    path = f"/pool/nodes/{segment(name)}{'?force=true' if force else ''}"
    change_send(context, "DELETE", path, None, f"{name} has left the pool.", as_json)


calibration.commands_add(app)
links.commands_add(app)
reserving.commands_add(app)
use.commands_add(app)
history.commands_add(app)
storage.pool_commands_add(app)
