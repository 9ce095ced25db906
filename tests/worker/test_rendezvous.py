"""How ranks find each other: what they are told, where they meet, and who holds its port until then."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from tests.worker.launch_configs import config
from worker import rendezvous
from worker.rendezvous import await_port, open_rendezvous, rank_environments


def test_horovod_ranks_are_told_their_place_in_the_world() -> None:
    told = rank_environments(config("dlh-b"), 1234)[2]
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "GLOO_RENDEZVOUS_PORT")
    assert [told[f"HOROVOD_{name}"] for name in names] == ["2", "3", "0", "1", "1", "2", "1234"]
    assert told["HOROVOD_CONTROLLER"] == told["HOROVOD_CPU_OPERATIONS"] == "gloo"


def test_one_rank_is_told_nothing_of_others() -> None:
    lone = config(hosts=[("dlh-a", 1)], ranks=config().ranks[:1])
    assert rank_environments(lone, 0) == {0: {}}


def test_a_first_node_that_cannot_be_reached_is_named_with_what_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "CONNECT_LIMIT_S", 0.2)
    with socket.socket() as taken:  # and nobody listens
        taken.bind(("127.0.0.1", 0))
        (tmp_path / "port").write_text(str(taken.getsockname()[1]))
        with pytest.raises(TimeoutError, match=r"127.0.0.1 cannot be reached .* Open the port"):
            await_port(config("dlh-b", backend="torch", hint="Open the port."), str(tmp_path / "port"))


def test_the_port_of_the_twin_s_store_is_nobody_else_s_until_it_opens_there() -> None:
    """The first rank reads its data before, which may take minutes: other programs ask for ports meanwhile."""
    told: list[dict[str, Any]] = []
    port = open_rendezvous(config(backend="torch"), told.append)
    assert told == [{"port": port}]
    for address in ("127.0.0.1", "127.0.0.2", ""):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((address, port))
    with pytest.raises(ConnectionRefusedError):  # ranks that wait for the store do not take this for it
        socket.create_connection(("127.0.0.1", port))
    store = TCPStore("127.0.0.1", port, 2, is_master=True, wait_for_workers=False)
    TCPStore("127.0.0.1", port, 2, is_master=False, wait_for_workers=False).set("rank", "here")
    assert store.get("rank") == b"here"
