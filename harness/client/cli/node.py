"""`dlh node join`, `start`, `service`, `dlh doctor`: for the machine itself, not for people's jobs.

The node's own programs run as processes of their own (`python -m worker...`): this client knows only the HTTP API.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from harness.client.cli import store
from harness.client.cli.node_known import known_check, left_check
from harness.client.cli.node_place import home_check
from harness.client.cli.node_unit import node_unit, service_words
from harness.client.cli.output import JsonFlag, console, json_print, notes, size, table_print
from harness.client.cli.paths import path_meant
from harness.client.client import Json
from harness.client.config import environment_text, private_write
from harness.client.errors import ApiError, BadInput, ClientError, Unreachable
from harness.client.transport import Transport

app = typer.Typer(help="This machine as a node of the pool.", no_args_is_help=True)
STORE_MARK, CLOCK_OFF = ".dlh-store", "clock_off"
STACK_HOME = Path(__file__).resolve().parents[3] / "var"
"""Where `make run` keeps everything if nobody names a folder."""
DOCTOR_TIMEOUT_S = 180.0
CORES, ADDRESS, CACHE_GIB = "DLH_NODE_CORES", "DLH_NODE_ADDRESS", "DLH_CACHE_GIB"
"""What holds as it was when the machine joined, unless it is set again."""
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
HomeOption = Annotated[
    Path | None, typer.Option("--home", help="Folder of the node; else DLH_HOME, or /var/lib/dlh-node for root.")
]


class NodeBroken(ClientError):
    """A program of the node did not do what it should."""

    code = "node_broken"


def node_home(given: Path | None) -> Path:
    """The named folder, `DLH_HOME`, or the usual one."""
    if given is not None:
        return path_meant(given).resolve()
    if os.environ.get("DLH_HOME"):
        return path_meant(os.environ["DLH_HOME"]).resolve()
    return Path("/var/lib/dlh-node") if os.getuid() == 0 else Path.home() / ".local" / "share" / "dlh-node"


def node_file(home: Path) -> Path:
    """What the node was given when it joined."""
    return home / "node.json"


def node_read(home: Path) -> Json:
    """Its content. Raises `BadInput` where nothing joined from this home."""
    try:
        return dict(json.loads(node_file(home).read_text()))
    except FileNotFoundError as error:
        hint = "Join first: dlh node join URL TOKEN. An admin gets the token with dlh pool add NODE."
        raise BadInput(f"No node has joined from {home}.", hint=hint) from error
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{node_file(home)} cannot be read: {error}", hint="Remove it and join again.") from error


def environment(home: Path, node: Json) -> dict[str, str]:
    """Environment of the node's programs."""
    told = {
        "DLH_HOME": str(home),
        "DLH_URL": node.get("url"),
        "DLH_REDIS_URL": node.get("redis_url"),
        "DLH_NODE_NAME": node.get("node"),
        "DLH_NODE_SECRET": node.get("secret"),
        ADDRESS: os.environ.get(ADDRESS) or node.get("address"),
        "DLH_STORE": None if node.get("cache") else node.get("store"),
        "DLH_CACHE": node.get("cache"),
        CACHE_GIB: os.environ.get(CACHE_GIB) or node.get("cache_gib"),
        CORES: os.environ.get(CORES) or node.get("cores"),
    }
    kept = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return {**kept, **{name: str(value) for name, value in told.items() if value}}


def program_json(module: str, env: dict[str, str]) -> Json:
    """What `python -m module` prints. Raises `NodeBroken`."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", module], env=env, capture_output=True, text=True, check=False,
            timeout=DOCTOR_TIMEOUT_S,
        )  # fmt: skip
        body: Json = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        hint = f"Something here is slow, such as a disk or the network. See for yourself: python -m {module}"
        raise NodeBroken(f"{module} did not end within {DOCTOR_TIMEOUT_S:.0f} s.", hint=hint) from error
    except (OSError, ValueError, IndexError) as error:
        hint = "Is the whole harness installed here, not the client alone? Run deploy/setup.sh."
        raise NodeBroken(f"{module} does not run on this machine: {error}", hint=hint) from error
    return body


@app.command("join")
def node_join(
    url: Annotated[str, typer.Argument(help="Address of the portal.")],
    token: Annotated[str, typer.Argument(help="Join token: an admin gets it with dlh pool add NODE.")],
    home: HomeOption = None,
    address: Annotated[str, typer.Option("--address", envvar=ADDRESS, help="Where other nodes reach this one.")] = "",
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder of its own, for a machine that does not mount the store.")
    ] = None,
    cache_gib: Annotated[
        float, typer.Option("--cache-gib", envvar=CACHE_GIB, min=0.1, help="How much the cache may hold, GiB.")
    ] = 50.0,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start the agent at once.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Bring this machine into the pool, look it over, and run its agent in the foreground."""
    folder = node_home(home)
    left = left_check(node_read(folder), folder, url.rstrip("/")) if node_file(folder).exists() else ""
    if urlsplit(url).scheme == "http" and urlsplit(url).hostname not in _LOCAL:
        notes().print("Warning: this address is not encrypted; the node's credentials are sent in plain text.")
    home_check(folder)
    facts = program_json("worker.facts", environment(folder, {}))
    node = _joined(url.rstrip("/"), token, facts)
    store_id = node.pop("store_id")
    if cache is None:
        store_check(Path(node["store"]), store_id)
    else:
        node |= {"cache": str(path_meant(cache).resolve()), "cache_gib": cache_gib}
    node = {**node, "url": url.rstrip("/"), "address": address, "cores": os.environ.get(CORES, "")}
    for name in (ADDRESS, CACHE_GIB):
        os.environ.pop(name, None)  # an option of this command goes before its variable, and the node has either now
    if left:
        told = f"The portal at {left} does not answer; this home leaves it, and runs that only it knows are stopped."
        notes().print(told, markup=False, soft_wrap=True)
    private_write(node_file(folder), json.dumps(node, indent=1) + "\n")
    report = _doctor_run_joined(folder, node)
    if as_json:
        json_print({"node": node["node"], "home": str(folder), "facts": facts, **report})
    else:
        _told(node["node"], folder, facts, report)
    if start:
        agent_run(folder, node, silent=as_json)


def _doctor_run_joined(folder: Path, node: Json) -> Json:
    """As `doctor_run`; the token is spent, so a look that breaks off does not undo the joining."""
    try:
        return doctor_run(folder, node)
    except NodeBroken as error:
        again = f"dlh doctor --home {shlex.quote(str(folder))}"
        told = f"{node['node']} has joined, but was not looked over. Do it later: {again}"
        notes().print(told, markup=False, soft_wrap=True)
        meaning = "Nobody knows whether this machine can do what it should."
        finding = {"name": "doctor", "state": "bad", "text": error.message, "meaning": meaning, "step": error.hint}
        return {"ok": False, "findings": [finding]}


def _joined(url: str, token: str, facts: Json) -> Json:
    """The portal's answer. Raises `ApiError`, `Unreachable`."""
    body = {"token": token, **{name: facts[name] for name in ("version", "plan_version")}}
    transport = Transport(url)
    try:
        try:
            return dict(transport.json("POST", "/pool/join", json=body | {"time_s": time.time()}))
        except ApiError as error:
            if error.code != CLOCK_OFF:
                raise
        # The way there may have taken that long (a name server that is away, TLS); the connection is kept open.
        return dict(transport.json("POST", "/pool/join", json=body | {"time_s": time.time()}))
    except Unreachable as error:
        hint = "Is it running, and can this machine reach it? Check the address that you gave to dlh node join."
        raise Unreachable(str(error), hint=hint) from error
    finally:
        transport.close()


def store_check(store: Path, store_id: str) -> None:
    """Pass where this machine sees the portal's store under the same path. Raises `BadInput`."""
    hint = (
        f"Mount the portal's folder {store} here under the same path (NFS), or give the node a --cache of its own; "
        "then join with a new token."
    )
    try:
        found = (store / STORE_MARK).read_text().strip()
    except OSError as error:
        raise BadInput(f"This machine does not see the store at {store}: {error.strerror}.", hint=hint) from error
    if found != store_id:
        raise BadInput(f"The folder {store} here is another store than the portal's.", hint=hint)


def _told(name: str, home: Path, facts: Json, report: Json) -> None:
    devices: list[Json] = facts["devices"]
    kinds = {kind: [item for item in devices if item["kind"] == kind] for kind in ("cpu", "cuda")}
    words = [f"{len(items)} x {items[0]['model_name']} ({kind})" for kind, items in kinds.items() if items]
    out = console()
    out.print(f"{name} has joined. Its home is {home}.", markup=False)
    out.print(f"Devices  {', '.join(words)}, {size(sum(item['memory_bytes'] for item in kinds['cpu']))}", markup=False)
    links = [f"{link['name']} {link['address']}" for link in facts["links"]]
    out.print(f"Links    {', '.join(links)}", markup=False)
    out.print(f"Sandbox  L{facts['sandbox_level']} {facts['sandbox_reason']}\n", markup=False)
    findings_print(report["findings"])
    out.print(f"\nAs a service: {service_words(home)}\n", markup=False)


def agent_run(home: Path, node: Json, *, silent: bool) -> None:
    """Become the agent, in the foreground; Ctrl-C ends it, and runs that it started go on."""
    if not silent:
        console().print(f"Starting the agent of {node['node']}. Ctrl-C ends it.", markup=False)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-P", "-m", "worker.agent"], environment(home, node))  # noqa: S606


@app.command("start")
def node_start(home: HomeOption = None, as_json: JsonFlag = False) -> None:
    """Run the agent of a machine that has joined, in the foreground; with --json the node as JSON before it runs."""
    folder = node_home(home)
    node = node_read(folder)
    known_check(node)
    if as_json:
        json_print({"node": node.get("node"), "home": str(folder), "url": node.get("url")})
    agent_run(folder, node, silent=as_json)


@app.command("service")
def node_service(home: HomeOption = None, as_json: JsonFlag = False) -> None:
    """Print a unit file of systemd that runs the agent of this machine from boot on, with the node's settings of now.

    Its runs outlive the agent.
    """
    folder = node_home(home)
    try:
        text = node_unit(folder, str(node_read(folder)["node"]))
    except ValueError as error:
        raise BadInput(f"No unit file can be made: {error}.", hint="Look at the DLH_ settings and --home.") from error
    if as_json:
        json_print({"unit": text})
    else:
        sys.stdout.write(text)


def doctor_run(home: Path, node: Json) -> Json:
    """Look this machine over; a joined node tells the portal, too."""
    report = program_json("worker.doctor", environment(home, node))
    if node.get("secret"):
        transport = Transport(str(node["url"]), str(node["secret"]))
        try:
            transport.json("POST", "/node/check", json={"findings": report["findings"]})
        except ClientError as error:
            notes().print(f"The portal did not accept the report: {error.message}", markup=False)
        finally:
            transport.close()
    return report


def doctor(
    home: HomeOption = None,
    url: Annotated[str, typer.Option("--url", help="Address of the portal, if this home does not have it.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Look this machine over: clock, names, ports, bandwidth, disk, sandbox, versions. Exit 1 if something is wrong."""
    folder = _looked_at(home)
    report = doctor_run(folder, {**_known(folder), **({"url": url.rstrip("/")} if url else {})})
    if (line := store.finding()) is not None:
        report["findings"].append(line)
        report["ok"] = report["ok"] and line["state"] != "bad"
    if as_json:
        json_print(report)
    else:
        findings_print(report["findings"])
    if not report["ok"]:
        raise typer.Exit(1)


def _looked_at(home: Path | None) -> Path:
    """The home of the node that joined from this machine; where none did, and none is named, of this clone's stack."""
    folder = node_home(home)
    named = home is not None or bool(os.environ.get("DLH_HOME"))
    if named or node_file(folder).exists() or not _stack_file(STACK_HOME).exists():
        return folder
    return STACK_HOME


def _stack_file(home: Path) -> Path:
    return home / "run" / "stack.json"


def _known(home: Path) -> Json:
    """What the home tells: of a node that joined, else of a portal's own stack."""
    if node_file(home).exists():
        return node_read(home)
    try:
        stack: Json = json.loads(_stack_file(home).read_text())
    except (OSError, ValueError):
        return {"url": environment_text("DLH_URL")}
    store = environment_text("DLH_STORE") or str(home / "store")
    return {"url": stack.get("url"), "redis_url": stack.get("redis_url"), "node": stack.get("node"), "store": store}


def findings_print(findings: list[dict[str, Any]]) -> None:
    """One line a finding, and below those that are not good what they mean and what to do."""
    rows = []
    for line in findings:
        advice = " ".join(text for text in (line["meaning"], line["step"]) if text)
        rows.append((line["state"], line["name"], line["text"], advice))
    table_print(("State", "Check", "Found", "What it means, what to do"), rows)


def commands_add(root: typer.Typer) -> None:
    """Hang the commands into `dlh`."""
    root.add_typer(app, name="node")
    root.command("doctor")(doctor)
