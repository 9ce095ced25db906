"""A run that is cancelled while its node waits for the portal leaves without the answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.worker.transfer.conftest import SECRET, FileServer
from worker.transfer.brought import Brought
from worker.transfer.cache import Cache
from worker.transfer.depot import Depot
from worker.transfer.fetch import Source, tree_fetch
from worker.transfer.portal import SLOW_S, Portal, Stopped

LEAVE_S = 20.0
"""A wait for the portal lasts 30 s at least."""


@pytest.fixture
def silent(server: FileServer) -> Iterator[FileServer]:
    """It takes requests, and answers none."""
    server.files = {"table.parquet": os.urandom(1 << 20)}
    server.silent = threading.Event()
    yield server
    server.silent.set()


def leaves(server: FileServer, work: Callable[[Callable[[], bool]], object]) -> bool:
    """Whether who does this work leaves it once it is not wanted any more, though no answer comes."""
    unwanted, stopped = threading.Event(), threading.Event()

    def working() -> None:
        with pytest.raises(Stopped):
            work(unwanted.is_set)
        stopped.set()

    threading.Thread(target=working, daemon=True).start()
    assert server.waits.wait(60)
    unwanted.set()
    return stopped.wait(LEAVE_S)


def test_nobody_waits_for_a_listing_that_is_not_wanted_any_more(silent: FileServer, tmp_path: Path) -> None:
    depot = Depot(Cache(tmp_path / "cache", 1 << 30), Portal(silent.url, SECRET))
    assert leaves(silent, lambda stopped: depot.content("jobs/x/program", Brought(), stopped))


@pytest.mark.parametrize("come_bytes", [0, 1000])
def test_nobody_waits_for_bytes_that_are_not_wanted_any_more(
    silent: FileServer, tmp_path: Path, come_bytes: int
) -> None:
    silent.silent_after_bytes = come_bytes
    source, portal = Source("/files", {"folder": "jobs/x/program"}), Portal(silent.url, SECRET)
    assert leaves(silent, lambda stopped: tree_fetch(portal, source, silent.tree, tmp_path / "new", stopped=stopped))


def test_a_connection_that_the_last_answer_closed_waits_as_long_as_one_that_is_new(server: FileServer) -> None:
    portal = Portal(server.url, SECRET)
    for _ in range(2):
        assert portal.json("GET", "/trees") == {"files": []}
        (connection,) = portal.connections
        assert connection.sock.gettimeout() == SLOW_S
        connection.close()  # as http.client does after an answer with `Connection: close`
