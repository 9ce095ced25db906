"""Each generation of an elastic run meets anew, and leaves nothing open behind it."""

from __future__ import annotations

import socket

from tests.waiting import wait_for
from worker.elastic.rendezvous import Rendezvous
from worker.launch_config import LaunchConfig, LocalRank


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5.0).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it is being closed
        return False
    return False


def test_a_generation_that_is_over_listens_no_more() -> None:
    ranks = [LocalRank(rank=rank, local_rank=rank, stdout_fd=-1, stderr_fd=-1, environment={}) for rank in range(2)]
    config = LaunchConfig(
        argv=[], workdir="/", requests="/nowhere", status_fd=-1, backend="horovod", hosts=[("localhost", 2)],
        hostname="localhost", address="127.0.0.1", interface="lo", ranks=ranks, least=1,
    )  # fmt: skip
    rendezvous = Rendezvous(config)
    ports = [int(rendezvous.open([("localhost", 2)])[0]["HOROVOD_GLOO_RENDEZVOUS_PORT"]) for _ in range(3)]
    assert not _refuses(ports[-1])
    rendezvous.open([("localhost", 1)])  # one rank alone meets nobody
    assert wait_for(lambda: all(map(_refuses, ports)))
