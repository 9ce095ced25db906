"""A whole stack in a temporary home, and the few questions that tests ask it."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.postgres import database_of
from tests.waiting import wait_for

REPOSITORY = Path(__file__).resolve().parent.parent.parent
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 180.0
JOB_TIMEOUT_S = 480.0
END_TIMEOUT_S = 90.0
"""How long processes that were told to end may take on a machine that is busy with something else."""
ENDED = {"succeeded", "failed", "cancelled"}
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody: a stack speaks plain HTTP. Without it each request reads all authorities of the machine, which takes
ten times as long as the request, and tests ask ten times a second."""


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """This process's environment without any setting of ours, in another home (and its database, on PostgreSQL).

    No reader of programs waits: to start one takes seconds of the processor, of each agent. Who ends a stack does not
    wait long for jobs that stand still.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("DLH_") and name not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}
    }
    own = {
        "DLH_HOME": str(home), "OMP_NUM_THREADS": "1", "XDG_CONFIG_HOME": str(home / "config"), "DLH_READERS": "0",
        "DLH_STOP_SAVE_S": "3", **database_of(home),
    }  # fmt: skip
    return {**kept, **own, **more}


def command_of(process: psutil.Process) -> str:
    """What was started, in one line; empty where it ends in this moment."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def processes_of(home: Path) -> list[psutil.Process]:
    """Every live process that works in the home: by its environment or its command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            named = any(str(home) in part for part in process.cmdline())
            if named or process.environ().get("DLH_HOME") == str(home):
                found.append(process)
        except psutil.Error:
            continue
    return found


class RunningStack:
    """`python -m harness.stack run` and what a client needs to talk to it."""

    def __init__(self, home: Path, command: tuple[str, ...] = ("run",), **environment: str) -> None:
        self.home = home
        self.environment = clean_environment(home, **environment)
        self.output = home / "output.txt"
        self.token = self.project = self.user = self.password = ""
        home.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "harness.stack", *command],
                cwd=REPOSITORY,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def state(self) -> dict[str, Any]:
        """The stack's own record."""
        try:
            return dict(json.loads((self.home / "run" / "stack.json").read_text()))
        except (OSError, ValueError):
            return {}

    def text(self) -> str:
        """What it printed so far."""
        return self.output.read_text(errors="replace")

    def wait_running(self) -> RunningStack:
        """Wait until the portal answers; then make a token."""

        def up() -> bool:
            assert self.process.poll() is None, self.text()
            state = self.state()
            return state.get("state") == "running" and state.get("pid") == self.process.pid

        wait_for(up, timeout_s=START_TIMEOUT_S, what="the stack starts")
        # the record is written before the words with the first password are printed; `demo` prints no such line
        run = "run" in self.process.args  # type: ignore[operator]
        wait_for(
            lambda: not run or "Ctrl-C" in self.text(), timeout_s=START_TIMEOUT_S, what="the stack tells where it is"
        )
        if match := re.search(r"Password +(\S{12,})", self.text()):
            self.password = match[1]
        done = subprocess.run(
            [sys.executable, "-m", "harness.stack.bootstrap", "--token", "e2e"],
            cwd=REPOSITORY,
            env={**self.environment, "DLH_REDIS_URL": self.state()["redis_url"], "DLH_PUBLIC_URL": self.url},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        first = json.loads(done.stdout.strip().splitlines()[-1])
        self.token, self.project, self.user = first["token"], first["project"], first["user"]
        wait_for(self._node_up, timeout_s=START_TIMEOUT_S, what="the node joins the pool")
        return self

    def _node_up(self) -> bool:
        return any(node["state"] == "up" for node in self.get("/pool")["nodes"])

    @property
    def url(self) -> str:
        """Address of the portal."""
        return str(self.state()["url"])

    def child(self, name: str) -> int:
        """Process id of a part; 0 while it is not there."""
        return {child["name"]: int(child["pid"]) for child in self.state().get("children", [])}.get(name, 0)

    def kill_child(self, name: str) -> None:
        """SIGKILL a part and wait until the stack has started it again."""
        old = self.child(name)
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: self.child(name) not in {0, old}, timeout_s=START_TIMEOUT_S, what=f"{name} is started again")

    # -- the public API --------------------------------------------------------------------------------------

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request with the token; a portal that restarts is asked again."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        url = f"{self.url}/api/v1{path}"
        response = httpx.request(method, url, headers=headers, timeout=60, verify=NO_TLS, **options)
        assert response.status_code < 400, f"{method} {path}: {response.status_code} {response.text[:2000]}"
        return response

    def get(self, path: str, **params: Any) -> Any:
        """JSON of a GET."""
        return self.request("GET", path, params=params).json()

    def post(self, path: str, body: Any = None) -> Any:
        """JSON of a POST."""
        response = self.request("POST", path, json=body if body is not None else {})
        return response.json() if response.content else None

    def upload(self, path: Path, name: str) -> str:
        """Upload a file; the id of its dataset once it is ready."""
        from harness.client.transport import Transport
        from harness.client.upload import Upload, UploadMemory

        transport = Transport(self.url, self.token)
        memory = UploadMemory(self.home / "uploads.json")
        dataset = Upload(transport, path, {"project": self.project, "name": name}, memory=memory).run()
        transport.close()

        def ready() -> bool:
            body = self.get(f"/datasets/{dataset}")
            assert body["state"] != "failed", body
            return bool(body["state"] == "ready")

        wait_for(ready, timeout_s=START_TIMEOUT_S, what=f"the dataset {name} is ready")
        return dataset

    def job_submit(self, dataset: str, spec: dict[str, Any], model: str | None = None) -> str:
        """Make and submit a job, of an own model if one is given; its id."""
        body = {"project": self.project, "dataset": dataset, "spec": spec}
        job = self.post("/jobs", body | ({"model": model} if model else {}))["id"]
        self.post(f"/jobs/{job}/submit")
        return str(job)

    def job(self, job: str) -> dict[str, Any]:
        """The job as the API shows it."""
        return dict(self.get(f"/jobs/{job}"))

    def job_wait(self, job: str, *states: str, timeout_s: float = JOB_TIMEOUT_S) -> dict[str, Any]:
        """Wait for one of the states; another end than wanted fails at once and shows why."""

        def there() -> dict[str, Any] | None:
            body = self.job(job)
            if body["state"] in states:
                return body
            assert body["state"] not in ENDED, f"{body['state']}: {body.get('failure')}\n{self.job_log(job)}"
            return None

        return wait_for(there, timeout_s=timeout_s, what=f"job {job} becomes {' or '.join(states)}")

    def job_log(self, job: str) -> str:
        """The newest log lines, for messages of failed assertions."""
        try:
            return self.request("GET", f"/jobs/{job}/logs.txt").text[-3000:]
        except (AssertionError, httpx.HTTPError) as error:
            return f"(no log: {error})"

    def job_wait_step(self, job: str, step: int) -> dict[str, Any]:
        """Wait until the job trains and has made this step."""
        self.job_wait(job, "running")
        return wait_for(
            lambda: (body := self.job_wait(job, "running"))["step"] >= step and body,
            timeout_s=JOB_TIMEOUT_S,
            what=f"job {job} makes step {step}",
        )

    def job_wait_checkpoint(self, job: str) -> None:
        """Wait until the job has saved at least once."""
        wait_for(lambda: items(self.get(f"/jobs/{job}/checkpoints")), timeout_s=JOB_TIMEOUT_S, what=f"job {job} saves")

    # -- its processes -----------------------------------------------------------------------------------------

    def supervisor(self, job: str) -> psutil.Process | None:
        """The supervisor of the job's running attempt."""
        for process in processes_of(self.home):
            try:
                command = process.cmdline()
            except psutil.Error:
                continue
            if "worker.supervisor" in command and any(part.endswith(f"/jobs/{job}") for part in command):
                return process
        return None

    def run_processes(self, job: str) -> list[psutil.Process]:
        """The supervisor and everything below it."""
        supervisor = self.supervisor(job)
        if supervisor is None:
            return []
        try:
            return [supervisor, *supervisor.children(recursive=True)]
        except psutil.Error:
            return []

    def ranks(self, job: str) -> list[psutil.Process]:
        """Processes that run the program's train.py."""
        found = []
        for process in self.run_processes(job):
            try:
                command = process.cmdline()
            except psutil.Error:
                continue
            if command and "python" in Path(command[0]).name and any(part.endswith("train.py") for part in command):
                found.append(process)
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask the stack to end; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End whatever is left, after a test that failed."""
        for process in [*processes_of(self.home)]:
            try:
                process.kill()
            except psutil.Error:
                continue
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def items(body: Any) -> list[Any]:
    """The rows of a list answer, paged or plain."""
    return list(body["items"] if isinstance(body, dict) else body)


def all_gone(processes: list[psutil.Process]) -> bool:
    """Whether none of the processes lives."""
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return False
        except psutil.Error:
            continue
    return True
