"""The stack of one machine: starts the parts in order, keeps them alive, ends them all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from types import FrameType
from typing import Any

from harness.env import PORT_MAX, REPOSITORY, SettingsError, env_int, env_text, s3_settings, without_serving
from harness.stack.bootstrap import EXIT_REFUSED
from harness.stack.broker import LOOPBACK, Broker, broker_choose, broker_wait
from harness.stack.commands import control_command, node_command, portal_command
from harness.stack.direct import DIRECT
from harness.stack.home import StackError, StackHome, node_name
from harness.stack.leftovers import end_stale_children, end_supervisors, supervisors, supervisors_hurry
from harness.stack.ports import port_take
from harness.stack.process import Child, ChildSpec, process_record
from worker.home import stop_save_s
from worker.words import counted

PORT_FIRST = 8000
PORTAL_TIMEOUT_S = 90.0
PORTAL_CRASHES_MAX = 3
BUCKET_AWAY = 1
"""Exit status of `python -m harness.bucket check` where the object store does not answer."""
WATCH_PERIOD_S = 0.2
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A person or the machine asked the stack to stop."""


def say(text: str) -> None:
    """Print one line; a terminal that went away is no reason to fail."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (lives as long as the process)


class Stack:
    """Broker, portal, control and one node, as children of this process."""

    def __init__(self, home: StackHome) -> None:
        self.home = home
        self.node = node_name()
        self.url = ""
        self.first: dict[str, Any] = {}
        """What `bootstrap` said: user, password, project, token."""
        self.save_s = 0.0
        """Time in which runs may save when it ends."""
        self._broker: Broker | None = None
        self._listener: socket.socket | None = None
        self._children: dict[str, Child] = {}
        self._stop, self._unwritten, self._state = False, False, "starting"

    def signals_take(self) -> None:
        """Ctrl-C, SIGTERM and a terminal that hangs up all mean: end everything in order."""
        for number in STOP_SIGNALS:
            if not (number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN):  # under nohup: stay
                signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop = True

    def _tick(self) -> None:
        if self._stop:
            raise Interrupted

    def start(self, *, token_name: str = "") -> None:
        """Start all parts and wait until the portal answers. Raises `StackError`, `SettingsError`, `Interrupted`."""
        s3_settings()  # what is wrong there is said before anything starts
        try:
            self.save_s = stop_save_s()
        except ValueError as error:
            raise SettingsError(str(error)) from error
        if leftover := end_stale_children(self.home):
            say(f"  ended {counted(leftover, 'process', 'processes')} that an earlier, killed stack had left")
        if (before := self.home.state_read().get("node")) and before != self.node:
            self._renamed(str(before))
        self._broker_start()
        self._tick()
        host = env_text("DLH_HOST", LOOPBACK)
        self._listener = port_take(host, env_int("DLH_PORT", PORT_FIRST, most=PORT_MAX))
        shown = LOOPBACK if host in {"0.0.0.0", "::"} else host  # noqa: S104  (compared, not bound)
        port = self._listener.getsockname()[1]
        self.url = env_text("DLH_PUBLIC_URL") or f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"
        self._launch(self._node())
        say("  database: bringing it up to date")
        try:
            self.first = bootstrap_run(self.environment(), token_name=token_name)
        except StackError:
            self._tick()
            raise
        bucket_check(self.environment())
        self._tick()
        self._launch(self._portal(port))
        self._launch(self._control())
        self._portal_wait(f"http://{LOOPBACK if shown == LOOPBACK else shown}:{port}/api/v1/health")
        self._write("running")

    def _renamed(self, before: str) -> None:
        """End the runs of a killed stack whose node had another name: nobody would find them under it any more."""
        if ended := end_supervisors(self.home, before, save_s=0.0):
            say(f"  ended {counted(ended, 'run')} of this node's old name {before}, to resume under the new one")

    def _broker_start(self) -> None:
        self._broker = broker_choose(self.home, self.home.state_read().get("broker_port"))
        say(f"  broker: {self._broker.what}")
        child = self._launch(self._broker.child) if self._broker.child else None
        broker_wait(self._broker, child, self._tick)

    def _launch(self, spec: ChildSpec) -> Child:
        child = Child(spec)
        self._children[spec.name] = child
        child.start()
        self._write("starting")
        return child

    def environment(self) -> dict[str, str]:
        """Environment of every part."""
        if self._broker is None:
            raise StackError("the broker has not been started")
        # Celery loads Django wherever it finds this variable; a node must not.
        inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        return {
            **inherited,
            "DLH_HOME": str(self.home.root),
            "DLH_REDIS_URL": self._broker.url,
            "DLH_PUBLIC_URL": self.url,
            "DLH_NODE_NAME": self.node,
            "PYTHONUNBUFFERED": "1",
        }

    def _portal(self, port: int) -> ChildSpec:
        if self._listener is None:
            raise StackError("the portal has no port")
        descriptor = self._listener.fileno()
        return self._part("portal", portal_command("--fd", str(descriptor)), pass_fds=(descriptor,))

    def _control(self) -> ChildSpec:
        return self._part("control", control_command(self.node))

    def _node(self) -> ChildSpec:
        return self._part("node", node_command(), environment=without_serving(self.environment()))

    def _part(
        self,
        name: str,
        command: list[str],
        *,
        pass_fds: tuple[int, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> ChildSpec:
        log, given = self.home.logs / f"{name}.log", environment or self.environment()
        return ChildSpec(name=name, command=command, environment=given, log=log, pass_fds=pass_fds)

    def _portal_wait(self, health_url: str) -> None:
        end_s = time.monotonic() + PORTAL_TIMEOUT_S
        portal = self._children["portal"]
        while not http_answers(health_url):
            self._tick()
            self._keep()
            if portal.restarts >= PORTAL_CRASHES_MAX or time.monotonic() > end_s:
                raise StackError(
                    f"the portal does not start; its log says:\n{portal.log_tail()}\n  see {portal.spec.log}"
                )
            time.sleep(0.1)

    def _keep(self) -> None:
        news = [text for child in self._children.values() if (text := child.keep())]
        for text in news:
            say(f"  {text}; see {self.home.logs}")
        if news or self._unwritten:
            self._write(self._state)

    def watch(self, foreground: subprocess.Popen[bytes] | None = None) -> int | None:
        """Keep the parts alive until a stop signal (None) or until `foreground` ended (its exit status)."""
        while not self._stop:
            self._keep()
            if foreground is not None and foreground.poll() is not None:
                return foreground.returncode
            time.sleep(WATCH_PERIOD_S)
        return None

    def stop(self) -> None:
        """End everything: no new starts, then the runs (they save, and resume later), then node, portal and broker."""
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGINT, lambda *_: supervisors_hurry(self.home, self.node))
        self._write("stopping")
        for name in ("control", "node", "portal"):
            if name in self._children:
                self._children[name].ask_to_end()
        if running := supervisors(self.home, self.node):
            say(f"  ending {counted(len(running), 'run')}: saving takes at most {self.save_s:.0f} s; Ctrl-C skips it")
        if ended := end_supervisors(self.home, self.node, save_s=self.save_s):
            say(f"  stopped {counted(ended, 'run')}, to resume at the next start")
        for name in ("control", "node", "portal"):
            if name in self._children:
                self._children[name].end()
        end_supervisors(self.home, self.node, save_s=0.0)  # what was started while all ended
        if "broker" in self._children:
            self._children["broker"].end()
        if self._listener is not None:
            self._listener.close()
        self._write("stopped")

    def _write(self, state: str) -> None:
        """Record the state; what a full disk refuses is tried again, and ends nothing."""
        self._state = state
        record = {
            "state": state,
            "url": self.url,
            **process_record(os.getpid() if state != "stopped" else 0),
            "node": self.node,
            "stop_save_s": self.save_s,
            "broker_port": self._broker.port if self._broker and self._broker.child else None,
            "redis_url": self._broker.url if self._broker else "",
            "children": [child.record() for child in self._children.values() if child.process],
        }
        try:
            self.home.state_write(record)
        except OSError as error:
            if not self._unwritten:
                say(f"  cannot write in {self.home.root}: {error.strerror}; free space there")
            self._unwritten = True
        else:
            self._unwritten = False


def bootstrap_run(
    environment: dict[str, str], *options: str, token_name: str = "", new_password: bool = False
) -> dict[str, Any]:
    """Run `harness.stack.bootstrap` and return what it says. Raises `StackError` with its last lines."""
    command = [sys.executable, "-m", "harness.stack.bootstrap", *options]
    command += ["--token", token_name] if token_name else []
    command += ["--new-password"] if new_password else []
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == EXIT_REFUSED:
        raise StackError(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        tail = "\n".join("    " + line for line in done.stderr.strip().splitlines()[-12:])
        raise StackError(f"the database cannot be prepared:\n{tail}\n  next: check {environment.get('DLH_HOME')}")
    body = json.loads(done.stdout.strip().splitlines()[-1])
    return dict(body)


def bucket_check(environment: dict[str, str]) -> None:
    """Say how the object store is, where there is one. Raises `StackError` for what only a person can put right.

    One that is away stops nothing: runs go on, bytes go by the portal, and the copy is made when it is back.
    """
    if not environment.get("DLH_S3_URL") and not environment.get("DLH_S3_URL_FILE"):
        return
    command = [sys.executable, "-m", "harness.bucket", "check"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    told = (done.stdout or done.stderr).strip()
    if done.returncode not in {0, BUCKET_AWAY}:
        raise StackError(told[-2000:])
    say(f"  object store: {told.splitlines()[0] if told else 'does not answer'}")


def http_answers(url: str) -> bool:
    """Whether somebody answers the request without a server error."""
    try:
        with DIRECT.open(url, timeout=5) as answer:
            return bool(answer.status < 500)
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
