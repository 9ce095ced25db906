"""A portal over the seeded world, for tests that look at pages in a real browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
NAMED = "portal.localhost"
"""The portal's host by a name that browsers find by themselves and that pages do not take for their own computer's."""


class Portal:
    """A portal process that can be killed and started again on the same port."""

    def __init__(self, home: Path, broker_url: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("DLH_")},
            "DLH_HOME": str(home),
            "DLH_PUBLIC_URL": self.url,
            "DLH_ALLOWED_HOSTS": NAMED,
            "DLH_REDIS_URL": broker_url,
            "DLH_DISK_RESERVE_MIB": "1",
            "DLH_FETCH_NETWORKS": "127.0.0.0/8",  # servers of tests
            "DJANGO_SETTINGS_MODULE": "tests.portal_settings",
            "OMP_NUM_THREADS": "1",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def seed(self) -> None:
        subprocess.run([sys.executable, "-m", "tests.factories"], cwd=ROOT, env=self.env, check=True, timeout=600)

    def ids(self) -> dict[str, str]:
        code = (
            "import django; django.setup()\n"
            "from harness.jobs.models import Job; from harness.datasets.models import Dataset\n"
            "for job in Job.objects.all(): print(job.state, job.pk)\n"
            "for data in Dataset.objects.all(): print(data.source_name, data.pk)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=self.env, check=True, capture_output=True, text=True
        )
        return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())

    def start(self) -> None:
        command = [
            sys.executable, "-m", "uvicorn", "harness.asgi:application", "--port", str(self.port),
            "--timeout-graceful-shutdown", "1", "--log-level", "warning",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, env=self.env)
        wait_for(self._answers, what="the portal answers")

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, "the portal has ended"
        try:
            httpx.get(f"{self.url}/login", timeout=5)
        except httpx.HTTPError:
            return False
        return True

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)
            self.process = None


def visit(page: Any, address: str) -> None:
    """Open a page, with its scripts, from one that may just be loading itself anew, which takes the place of what was
    asked for.

    Other tests change this machine's addresses, upon which a browser gives up what it is waiting for.
    """
    from playwright.sync_api import Error

    given_up: list[str] = []

    def failed(request: Any) -> None:
        if request.resource_type in ("script", "stylesheet") and "ERR_NETWORK_CHANGED" in (request.failure or ""):
            given_up.append(request.url)

    page.on("requestfailed", failed)
    try:
        for _ in range(5):
            given_up.clear()
            try:
                page.goto(address)
            except Error as error:
                if not any(
                    words in str(error) for words in ("interrupted by another navigation", "ERR_NETWORK_CHANGED")
                ):
                    raise
                continue
            if not given_up:
                return
    finally:
        page.remove_listener("requestfailed", failed)
    raise AssertionError(f"something kept coming before {address}")


_BOXES = """selectors => selectors.map(selector => {
  const { x, y, width, height } = document.querySelector(selector).getBoundingClientRect();
  return { x, y, width, height };
})"""


def boxes(page: Any, *selectors: str) -> list[dict[str, float]]:
    """Where the first of each lies, all at one moment: charts above that are just drawn push the rest down."""
    found: list[dict[str, float]] = page.evaluate(_BOXES, selectors)
    return found


_PASSING = ("navigation", "context was destroyed", "Cannot read properties of null")
"""A page that is just loading: the last while its document has no body, or not yet what was asked for."""


def until(page: Any, condition: str, *, limit_s: float = 90.0) -> None:
    """Wait until a script expression holds; asked from outside, because the pages' policy forbids `eval` inside."""
    from playwright.sync_api import Error

    deadline, holds, said = time.monotonic() + limit_s, False, ""
    while not holds:
        assert time.monotonic() < deadline, f"never came true: {condition} {said}"
        page.wait_for_timeout(50)
        try:
            holds, said = bool(page.evaluate(condition)), ""
        except Error as error:
            said = str(error)
            if not any(words in said for words in _PASSING):
                raise


def addresses(ids: dict[str, str]) -> dict[str, str]:
    return {
        "home": "/",
        "datasets": "/datasets/",
        "upload": "/datasets/upload/",
        "table": f"/datasets/{ids['wine.csv']}/",
        "pictures": f"/datasets/{ids['digits.zip']}/",
        "failed data": f"/datasets/{ids['ragged.csv']}/",
        "jobs": "/jobs/",
        "columns": "/jobs/?view=&column=energy_j&column=metric:val/accuracy&column=spec:training.epochs&column=tags",
        "views": "/jobs/views/",
        "choose data": "/jobs/new/",
        "spec": f"/jobs/new/{ids['wine.csv']}/",
        "program": f"/jobs/{ids['draft']}/program/",
        "cost": f"/jobs/{ids['draft']}/cost/",
        "live": f"/jobs/{ids['running']}/live/",
        "logs": f"/jobs/{ids['failed']}/logs/",
        "checkpoints": f"/jobs/{ids['failed']}/checkpoints/",
        "results": f"/jobs/{ids['succeeded']}/results/",
        "events": f"/jobs/{ids['running']}/events/",
        "predict": f"/jobs/{ids['succeeded']}/predict/",
        "compare": f"/jobs/compare/?job={ids['running']}&job={ids['succeeded']}",
        "weights files": "/weights/",
        "pool": "/pool/",
        "queue": "/queue/",
        "reservations": "/pool/reservations/",
        "quotas": "/pool/quotas/",
        "storage": "/pool/storage/",
        "use": "/pool/use/",
        "accuracy": "/accuracy/",
        "modes": "/modes/",
        "project": "/projects/orchard/",
        "project storage": "/projects/orchard/storage/",
        "account": "/account/",
        "notifications": "/account/notifications/",
        "second factor": "/account/second-factor/",
        "trash": "/trash/",
        "projects": "/projects/",
        "password": "/account/password/",
        "no comparison": "/jobs/compare/",
        "groups": "/jobs/?group=model",
        "spec of a run": f"/jobs/{ids['succeeded']}/spec/",
        "cost of a run": f"/jobs/{ids['succeeded']}/cost/",
        "waiting": f"/jobs/{ids['queued']}/live/",
        "not found": "/jobs/nothing/",
        "not allowed": "/audit/",
    }


def admin_addresses() -> dict[str, str]:
    """Pages that only an admin sees, or that show an admin more."""
    return {
        "pool": "/pool/",
        "queue": "/queue/",
        "drain": "/pool/drain/node-1/",
        "reservations": "/pool/reservations/",
        "quotas": "/pool/quotas/",
        "storage": "/pool/storage/",
        "calibration": "/pool/calibration/",
        "projects": "/projects/",
        "audit": "/audit/",
    }


def rename(page: Any, name: str) -> None:
    """The job whose page it is, as a person does."""
    page.click("button:has-text('Rename, tag')")
    page.fill("#edit-name", name)
    page.click("#edit-dialog button:has-text('Save')")
    until(page, f"document.querySelector('h1').innerText === '{name}'")
