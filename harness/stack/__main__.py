"""`python -m harness.stack run | demo [--once] | stop | status | password | token | service`, for `make` and `dlh`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from typing import Any

from harness.env import REPOSITORY, SettingsError, env_text
from harness.stack.home import StackError, StackHome, home_from_environment
from harness.stack.leftovers import STOP_TIMEOUT_S, process_find, shown, wait_gone
from harness.stack.service import service
from harness.stack.stack import Interrupted, Stack, bootstrap_run, say
from worker.home import stop_save_s

OTHER_START_TIMEOUT_S = 120.0
TOKEN_DAYS, TOKEN_DAYS_MAX = 90, 3650
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def run(home: StackHome) -> int:
    """Run the stack until a stop signal."""
    return _own(home, demo=False, once=False)


def demo(home: StackHome, *, once: bool) -> int:
    """Run the stack and train the sample; with `once` end everything afterwards."""
    return _own(home, demo=True, once=once)


def _own(home: StackHome, *, demo: bool, once: bool) -> int:
    home.make_folders()
    lock = home.lock()
    if lock is None:
        return _beside(home, demo=demo)
    say(f"Starting in {home.root}")
    stack = Stack(home)
    stack.signals_take()
    status = 0
    try:
        stack.start(token_name="demo" if demo else "")
        status = _serve(stack, demo=demo, once=once)
    except Interrupted:
        status = EXIT_INTERRUPTED if once else 0
    finally:
        say("\nStopping")
        stack.stop()
        say("Stopped. Nothing is left running.")
        lock.close()
    return status


def _serve(stack: Stack, *, demo: bool, once: bool) -> int:
    if not demo:
        summary(stack)
        stack.watch()
        return 0
    say(f"  portal: {stack.url}\n")
    child = demo_start(stack.environment(), stack.first)
    status = stack.watch(child)
    if status is None:
        child.send_signal(signal.SIGINT)
        child.wait()
        return EXIT_INTERRUPTED if once else 0
    if not once:
        summary(stack)
        stack.watch()
    return status


def summary(stack: Stack) -> None:
    """Tell a person where to go and how to sign in."""
    password = stack.first.get("password") or "(as set before; `make password` makes a new one)"
    say("")
    say(f"  Portal     {stack.url}")
    say(f"  User       {stack.first.get('user')}")
    say(f"  Password   {password}")
    if stack.first.get("password"):
        say("             shown only now: note it, or change it in the portal")
    say(f"  Logs       {stack.home.logs}")
    say("\n  Ctrl-C stops everything.")


def _beside(home: StackHome, *, demo: bool) -> int:
    """Another stack holds this home: name it, and let a demo use it."""
    state = _wait_running(home)
    where = f"{state.get('url') or 'a stack'} (process {state.get('pid')})"
    if state.get("state") != "running":
        say(f"Another stack is {state.get('state', 'starting')} in {home.root}: {where}. Try again in a moment.")
        return EXIT_FAILED
    say(f"Already running in {home.root}: {where}.")
    if not demo:
        say("`make stop` ends it; DLH_HOME=/another/folder make run starts a second one beside it.")
        return 0
    environment = stack_environment(home, state)
    child = demo_start(environment, bootstrap_run(environment, token_name="demo"))  # noqa: S106
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.wait()
        return EXIT_INTERRUPTED


def _wait_running(home: StackHome) -> dict[str, Any]:
    end_s = time.monotonic() + OTHER_START_TIMEOUT_S
    while (state := home.state_read()).get("state") == "starting" and time.monotonic() < end_s:
        time.sleep(0.2)
    return state


def stack_environment(home: StackHome, state: dict[str, Any]) -> dict[str, str]:
    """Environment of a running stack, from its record."""
    return {
        **os.environ,
        "DLH_HOME": str(home.root),
        "DLH_REDIS_URL": str(state.get("redis_url", "")),
        "DLH_PUBLIC_URL": str(state.get("url", "")),
        "DLH_NODE_NAME": str(state.get("node", "")),
    }


def demo_start(environment: dict[str, str], first: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the demo, a client of the public API and nothing more."""
    login = {"DLH_TOKEN": str(first["token"]), "DLH_PROJECT": str(first["project"])}
    client = {**environment, "DLH_URL": environment["DLH_PUBLIC_URL"], **login}
    return subprocess.Popen([sys.executable, "-m", "harness.stack.demo"], cwd=REPOSITORY, env=client)


def stop(home: StackHome) -> int:
    """End the stack that runs in this home and wait for it."""
    state = home.state_read()
    process = process_find(state)
    if process is None:
        say(f"No stack runs in {home.root}.")
        return 0
    process.terminate()
    save_s = float(state.get("stop_save_s") or stop_save_s())  # that of the stack, not of this environment
    if not wait_gone(state, save_s + STOP_TIMEOUT_S):
        say(f"Process {process.pid} does not end; see {home.logs}.")
        return EXIT_FAILED
    say("Stopped.")
    return 0


def status(home: StackHome, *, as_json: bool) -> int:
    """Print what runs; exit 0 only if a stack runs."""
    state = home.state_read()
    running = process_find(state) is not None
    if as_json:
        say(json.dumps(shown(state) if running else {"state": "stopped", "children": []}, indent=1))
    else:
        say("\n".join(_status_lines(home, shown(state))) if running else f"No stack runs in {home.root}.")
    return 0 if running else EXIT_FAILED


def _status_lines(home: StackHome, state: dict[str, Any]) -> list[str]:
    """What a person wants to know of a stack that runs."""
    lines = [f"  Address    {state['url'] or 'none yet'} ({state['state']})"]
    lines += [f"  Home       {home.root}", f"  Stack      process {state['pid']}, since {_since(state['created_s'])}"]
    for child in state["children"]:
        how = f"process {child['pid']}, since {_since(child['created_s'])}" if child["alive"] else "ended; see its log"
        lines.append(f"  {child['name'].capitalize():<11}{how}")
    return [*lines, f"  Logs       {home.logs}"]


def _since(time_s: float) -> str:
    """A moment in local time."""
    return datetime.fromtimestamp(time_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def password(home: StackHome) -> int:
    """Give the first admin a new password."""
    home.make_folders()
    first = bootstrap_run({**os.environ, "DLH_HOME": str(home.root)}, new_password=True)
    say(f"User       {first['user']}\nPassword   {first['password']}")
    return 0


def token(home: StackHome, *, user: str, name: str, days: int, as_json: bool) -> int:
    """A token for the command line, made without a browser by whoever may read this home; one of that name ends.

    Standard output holds the token alone.
    """
    if not 1 <= days <= TOKEN_DAYS_MAX:
        raise StackError(f"a token is good for 1 to {TOKEN_DAYS_MAX} days, not {days}")
    home.make_folders()
    options = ["--user", user] if user else []
    environment = {**os.environ, "DLH_HOME": str(home.root)}
    made = bootstrap_run(environment, *options, "--days", str(days), token_name=name)
    if made["password"]:
        sys.stderr.write(f"User       {made['user']}\nPassword   {made['password']} (shown only now)\n")
    url = env_text("DLH_PUBLIC_URL") or str(home.state_read().get("url") or "")
    say(json.dumps({"token": made["token"], "url": url, "days": days}) if as_json else made["token"])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.stack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("run", "stop", "password", "service"):
        commands.add_parser(name)
    commands.add_parser("status").add_argument("--json", action="store_true", help="as JSON")
    commands.add_parser("demo").add_argument("--once", action="store_true", help="end everything afterwards")
    maker = commands.add_parser("token", help="print a token for dlh and programs")
    maker.add_argument("--user", default="", help="whose; else the first admin's")
    maker.add_argument("--name", default="command line", help="an earlier token of this name ends")
    maker.add_argument("--days", type=int, default=TOKEN_DAYS, help=f"how long it is good for (1 to {TOKEN_DAYS_MAX})")
    maker.add_argument("--json", action="store_true", help="as JSON, with the portal's address")
    return parser


def main() -> int:
    """Command line; see the module."""
    given = _parser().parse_args()
    try:
        home = home_from_environment()
        if given.command == "demo":
            return demo(home, once=given.once)
        if given.command == "token":
            return token(home, user=given.user, name=given.name, days=given.days, as_json=given.json)
        if given.command == "status":
            return status(home, as_json=given.json)
        return {"run": run, "stop": stop, "password": password, "service": service}[given.command](home)
    except (StackError, SettingsError) as error:
        say(f"\nCannot continue: {error}")
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
