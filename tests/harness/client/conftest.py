"""A portal on a free port, a person with a token, and `dlh` run in this process."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
from django.conf import settings as django_settings

from harness.client import Client, Unreachable
from harness.client.cli.app import run
from tests.harness.api.conftest import RESULTS
from tests.silent_broker import SilentBroker


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Dlh = Callable[..., Ended]


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Typer makes all commands anew for each command line, which takes longer than what most of these do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the configuration of whoever runs it."""
    folder = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    for name in ("DLH_URL", "DLH_TOKEN", "DLH_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def portal(
    transactional_db: None,
    people: SimpleNamespace,
    tasks_sent: list[Any],
    live_server: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> SimpleNamespace:
    """A running portal; `owner` is signed in by the environment."""
    from harness import broker
    from harness.accounts.models import User
    from harness.accounts.services import token_create
    from harness.jobs import readers  # noqa: F401 - else its `client` would be the silent one for all later tests

    monkeypatch.setattr(broker, "client", SilentBroker)

    @contextmanager
    def no_stream(*_: Any, **__: Any) -> Iterator[Any]:
        # A test server for pages holds no endless stream; following by events has tests of its own.
        raise Unreachable("no live stream here")
        yield

    monkeypatch.setattr(Client, "live", no_stream)

    def token(name: str, scope: str = "admin") -> str:
        return token_create(user=User.objects.get(username=name), name="cli", scope=scope)[1]

    text = token("owner")
    monkeypatch.setenv("DLH_URL", live_server.url)
    monkeypatch.setenv("DLH_TOKEN", text)
    return SimpleNamespace(url=live_server.url, token=text, token_of=token, project=people.project.slug, people=people)


@pytest.fixture
def client(portal: SimpleNamespace) -> Client:
    return Client(portal.url, portal.token, project=portal.project)


@pytest.fixture
def dlh(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`dlh("jobs", "--json")` runs a command line."""

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(int(code), captured.out, captured.err)

    return call


@pytest.fixture
def read_at_once(flowers_csv: Path, flowers_packed: Path) -> None:
    """The flowers count as read before: an upload of them is ready at once."""
    import shutil

    from django.conf import settings

    from harness.datasets.content import content_key, file_sha256

    packed = settings.STORE.dataset(content_key(file_sha256(flowers_csv), flowers_csv.name, {})).packed
    if not packed.exists():
        shutil.copytree(flowers_packed, packed)


@pytest.fixture
def ended_job(job: Any, people: SimpleNamespace) -> Any:
    """A succeeded job with results, weights and logs of two attempts."""
    from harness.jobs.models import Checkpoint, Job

    paths = django_settings.STORE.job(job.pk)
    paths.results.mkdir(parents=True)
    (paths.results / "results.json").write_text(json.dumps(RESULTS))
    (paths.results / "model.safetensors").write_bytes(b"weights")
    log = paths.rank_log(1, 0)
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {number}\n" for number in range(1, 8)) + "Error: no\n")
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1.0, size_bytes=5, best=True, token=1)
    Job.objects.filter(pk=job.pk).update(state="succeeded", token=1, metric_best=0.9, last_values={"val/loss": 0.5})
    return job


def state_set(job: Any, state: str, **fields: Any) -> None:
    from harness.jobs.models import Job

    Job.objects.filter(pk=job.pk).update(state=state, **fields)
