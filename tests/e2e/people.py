"""How people reach a stack: by its pages, signed in, and by the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.e2e.stack import REPOSITORY, RunningStack

DLH = [sys.executable, "-c", "import sys; from harness.client.cli import main; sys.exit(main())"]


def dlh(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """One command line, run to its end."""
    command = [*DLH, *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def client_environment(stack: RunningStack) -> dict[str, str]:
    """Of a person who works with this stack from a shell."""
    return {**stack.environment, "DLH_URL": stack.url, "DLH_TOKEN": stack.token, "DLH_PROJECT": stack.project}


@contextmanager
def signed_in(stack: RunningStack, user: str = "", password: str = "") -> Iterator[httpx.Client]:
    """A browser without the browser, of the first admin if nobody is named."""
    with httpx.Client(base_url=stack.url, follow_redirects=True, timeout=60) as browser:
        browser.get("/login")
        token = next(value for name, value in browser.cookies.items() if name.startswith("dlh_csrf"))
        form = {"username": user or stack.user, "password": password or stack.password, "csrfmiddlewaretoken": token}
        answer = browser.post("/login", data=form, headers={"Referer": f"{stack.url}/login"})
        assert answer.status_code == 200 and answer.url.path != "/login", answer.url
        yield browser
