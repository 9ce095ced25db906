"""The whole stack for tests that need it: real broker, portal, control and node in a temporary home."""

import fcntl
import json
import os
import shutil

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.portal import Portal
from tests.e2e.stack import END_TIMEOUT_S, RunningStack, processes_of, wait_for


@pytest.fixture(scope="session")
def settled(migrated):
    """Settle a home for an installation that need not make its tables itself: `settled(folder / "home")`; the home."""
    return migrated.give if migrated else lambda home: home


@pytest.fixture
def make_stack(tmp_path_factory, settled):
    """A maker of stacks of the test's own, ended after it."""
    stacks = []

    def make(home=None, command=("run",), **environment):
        home = home or tmp_path_factory.mktemp("stack") / "home"
        if command == ("run",):  # the demo begins as at people's
            settled(home)
        stacks.append(RunningStack(home, command, **environment))
        return stacks[-1]

    yield make
    for stack in stacks:
        stack.kill()


@pytest.fixture(scope="session")
def stack(tmp_path_factory, settled):
    """The stack that tests share; nothing of it is left afterwards."""
    stack = RunningStack(settled(tmp_path_factory.mktemp("shared") / "home"))
    try:
        yield stack.wait_running()
        stack.stop()
        wait_for(
            lambda: not processes_of(stack.home), timeout_s=END_TIMEOUT_S, what="every process of the stack has ended"
        )
    finally:
        stack.kill()
        shutil.rmtree(stack.home / "store", ignore_errors=True)


@pytest.fixture(scope="session")
def world(tmp_path_factory, broker_url):
    """The seeded world, made once for all test processes: (its home, of which portals take copies, ids)."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    home, ids = folder / "world", folder / "world.json"
    with (folder / "world.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ids.exists():
            portal = Portal(home, broker_url)
            portal.seed()
            ids.write_text(json.dumps(portal.ids()))
    return home, json.loads(ids.read_text())


@pytest.fixture(scope="session")
def digits(stack, tmp_path_factory):
    """Id of the digits as pictures."""
    return stack.upload(sample_file("digits", tmp_path_factory.mktemp("digits")), "digits")


@pytest.fixture(scope="session")
def wine(stack, tmp_path_factory):
    """Id of the wine table."""
    return stack.upload(sample_file("wine", tmp_path_factory.mktemp("wine")), "wine")
