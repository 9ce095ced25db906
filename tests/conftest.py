"""Fixtures shared by all tests: people, a project, the broker, a dataset that is ready, a draft job."""

from __future__ import annotations

import contextlib
import csv
import functools
import logging
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
import redis

from tests import order
from tests.broker import broker as broker_running
from tests.migrated import Migrated, migrated_for
from tests.objects import NO_SERVER, ObjectServer
from tests.objects import program as objects_program
from tests.small_disk import NO_MOUNT, small_disk
from tests.small_world import dataset_ready, people_make
from tests.untested import NOT_TESTED
from worker.loading import loading

# Where the environment says otherwise, too (images of containers do): each test process would rewrite every test file
# anew. What tests start keeps to the environment.
sys.dont_write_bytecode = False

# The same examples in every run: a change is judged by what it does, not by the luck of a draw. New examples are looked
# for by `make test ARGS="--hypothesis-profile search"`.
# No test asserts a time, and a machine under load is slow at making examples, too.
UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("fixed", derandomize=True, **UNTIMED)
hypothesis.settings.register_profile("search", derandomize=False, **UNTIMED)
hypothesis.settings.load_profile("fixed")


def pytest_itemcollected(item: pytest.Item) -> None:
    """What commits runs on both databases, before `-m` looks at marks."""
    if order.commits(item):
        item.add_marker("both_databases")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All that is loaded here stays: Python need not look through it for what can go, neither now nor between tests."""
    with loading():
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow files first: one that begins last is waited for by processes that have nothing left to do."""
    if lost := order.misplaced(items):
        raise pytest.UsageError(f"ranks, stacks and browsers are looked for in {order.WAITING_FOLDERS} alone: {lost}")
    order.slow_first(items)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What this machine does not allow to be tested is said where nobody overlooks it."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = {report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
    for reason in sorted(reason for reason in reasons if NOT_TESTED in reason):
        terminalreporter.write_line(reason.removeprefix("Skipped: "), red=True, bold=True)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Migrated | None:
    """A database with every table that is copied, not made; None where one process tests alone."""
    return migrated_for(tmp_path_factory)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, migrated: Migrated | None) -> None:
    """The database of this process's tests begins as a copy."""
    from django.db import connection

    if migrated:
        migrated.settle(connection.vendor, connection.settings_dict["TEST"])


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool, migrated: Migrated | None) -> bool:
    """Whether the database is there already: a copied file. PostgreSQL makes one from its template."""
    from django.db import connection

    return django_db_keepdb or (migrated is not None and connection.vendor == "sqlite")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The database of the tests, numbered and emptied as `tests.database` does it."""
    from django.db import connection
    from django.test import TransactionTestCase

    from tests.database import fixture_teardown, numbers_apart

    with django_db_blocker.unblock():
        numbers_apart(connection)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", fixture_teardown)
        yield


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, small enough to be filled."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(small_disk(tmp_path / "disk", 24))
        except PermissionError:
            pytest.skip(NO_MOUNT)


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real broker on a free loopback port, one per session."""
    with broker_running(tmp_path_factory.mktemp("broker")) as url:
        yield url


@pytest.fixture
def broker(broker_url: str, settings: Any) -> Iterator[redis.Redis]:
    """The broker, empty, and every client of this process pointed at it."""
    from harness import broker as harness_broker
    from harness.celery import app
    from harness.jobs.control.hearing import HEARING_KEY
    from harness.jobs.control.streams import AT_WORK_KEY

    before = app.conf.broker_url
    settings.REDIS_URL = broker_url
    app.conf.broker_url = broker_url
    app._pool = app.amqp._producer_pool = None
    harness_broker.client.cache_clear()
    client = redis.Redis.from_url(broker_url, decode_responses=True)
    client.flushall()
    client.mset({HEARING_KEY: 1, AT_WORK_KEY: "control"})  # it has listened, and taken in, all along
    yield client
    app.conf.broker_url = before
    app._pool = app.amqp._producer_pool = None
    harness_broker.client.cache_clear()


@pytest.fixture
def tasks_sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[Any], str]]:
    """Every task that would go to the broker, as (name, arguments, queue), also those meant for on commit."""
    from harness import broker as harness_broker

    sent: list[tuple[str, list[Any], str]] = []

    class Sender:
        def send_task(self, name: str, args: list[Any], queue: str, expires: float | None = None) -> None:
            sent.append((name, args, queue))

    monkeypatch.setattr(harness_broker, "sender", lambda: Sender())
    monkeypatch.setattr(harness_broker, "_tasks", harness_broker._Gate())  # an earlier test had no broker
    return sent


@pytest.fixture
def people(db: None) -> SimpleNamespace:
    """`owner` (admin of `project`), `mate` (member), `viewer`, `outsider` (of `elsewhere`), `admin` of all."""
    return people_make()


@pytest.fixture(scope="session")
def flowers_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table: two numeric columns, one category, a target with two classes, 120 rows."""
    path = tmp_path_factory.mktemp("data") / "flowers.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["length", "width", "colour", "kind"])
        for row in range(120):
            kind = row % 2
            colour = ("red", "white", "blue")[row % 3]
            writer.writerow(
                [f"{4 + kind + row / 100:.2f}", f"{2 - kind + row / 50:.2f}", colour, ("iris", "rose")[kind]]
            )
    return path


@pytest.fixture(scope="session")
def flowers_packed(flowers_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table's packed form, made once."""
    from codegen.profile import profile_dataset
    from codegen.profile.types import ProfileOptions

    out = tmp_path_factory.mktemp("packed")
    profile_dataset(flowers_csv, out, ProfileOptions(), lambda done, note: None)
    return out


@pytest.fixture
def dataset_make(flowers_csv: Path, flowers_packed: Path) -> Callable[..., Any]:
    """Make a ready dataset of the flowers without reading them again: `dataset_make(user, project, name)`."""

    def make(user: Any, project: Any, name: str = "flowers") -> Any:
        return dataset_ready(flowers_csv, flowers_packed, user, project, name)

    return make


@pytest.fixture
def dataset(people: SimpleNamespace, dataset_make: Callable[..., Any]) -> Any:
    """A ready dataset of `people.project`."""
    return dataset_make(people.owner, people.project)


@pytest.fixture
def job_make(dataset: Any, people: SimpleNamespace) -> Callable[..., Any]:
    """Make a draft job: `job_make(user=..., **spec fields)`."""
    from harness.jobs.services import job_create

    def make(user: Any = None, *, own_model: str | None = None, **spec: Any) -> Any:
        owner = user or people.owner
        return job_create(user=owner, project=people.project, dataset=dataset, spec=spec, own_model=own_model)

    return make


@pytest.fixture
def job(job_make: Callable[..., Any]) -> Any:
    """A draft of `people.owner`."""
    return job_make()


@pytest.fixture
def commit(django_capture_on_commit_callbacks: Any) -> Callable[..., Any]:
    """`commit(function, *arguments)` calls it and does what it left for the commit."""

    def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with django_capture_on_commit_callbacks(execute=True):
            return function(*arguments, **named)

    return call


@pytest.fixture
def node_make(db: None) -> Callable[..., Any]:
    """Have a node join by a heartbeat: `node_make(name, cpus=2, gpus=0, level=3)`; `gpus` also as `{index: uuid}`."""
    from harness.pool.services import node_report

    def make(
        name: str = "node-1", *, cpus: int = 2, gpus: int | dict[int, str] = 0, level: int = 3, **more: Any
    ) -> Any:
        uuids = dict.fromkeys(range(gpus), "") if isinstance(gpus, int) else gpus
        devices = [
            {"kind": "cpu", "index": index, "model_name": "core", "memory_bytes": 4 << 30} for index in range(cpus)
        ]
        devices += [
            {"kind": "cuda", "index": index, "model_name": "gpu", "memory_bytes": 16 << 30, "uuid": uuid}
            for index, uuid in uuids.items()
        ]
        report = {
            "name": name, "boot_id": "boot", "devices": devices, "cpu_cores": cpus, "memory_bytes": 16 << 30,
            "sandbox_level": level, "sandbox_reason": "", "description": {}, "running": [], **more,
        }  # fmt: skip
        return node_report(report)

    return make


def _log_streams() -> list[logging.Handler]:
    """Of the root logger; what pytest puts there is of classes of its own."""
    return [handler for handler in logging.getLogger().handlers if type(handler) is logging.StreamHandler]


@pytest.fixture(autouse=True)
def log_streams_as_before() -> Iterator[None]:
    """A test that sets Django up again logs to a stream that is closed after it: later tests must not."""
    root, before = logging.getLogger(), _log_streams()
    yield
    for handler in _log_streams():
        if handler not in before:
            root.removeHandler(handler)
    for handler in before:
        if handler not in root.handlers:
            root.addHandler(handler)


@pytest.fixture(scope="session")
def object_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A real S3-compatible server, one per session. Its clients here read what describes the service once."""
    if objects_program() is None:
        pytest.skip(NO_SERVER)
    import botocore.session

    server = ObjectServer(tmp_path_factory.mktemp("objects")).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", functools.cache(botocore.session.create_loader))
        yield server
    server.kill()


@pytest.fixture
def bucket(object_server: ObjectServer, settings: Any) -> Any:
    """The object store of this process: a prefix of the test's own on the real server."""
    from harness.bucket.client import bucket_get

    settings.S3 = object_server.given(uuid.uuid4().hex)
    return bucket_get()
