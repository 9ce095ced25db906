"""Where the ranks of one generation of an elastic gang meet: a rendezvous of its own, and variables for each place."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from worker.launch_config import LaunchConfig
from worker.rendezvous import rank_environments

OWN_VARIABLE = "HOROVOD_GLOO_IFACE"
"""Each node has its own; its processes are started with it."""


class Rendezvous:
    """The newest generation's, on this node; the one before is shut, so that nobody meets what it left there."""

    def __init__(self, config: LaunchConfig) -> None:
        self._config = config
        self._server: Any = None

    def open(self, hosts: Sequence[tuple[str, int]]) -> list[dict[str, str]]:
        """Variables by place. `hosts`: (name, ranks) in the order of places; one rank needs neither."""
        size = sum(count for _, count in hosts)
        ranks = [replace(self._config.ranks[0], rank=place, local_rank=place) for place in range(size)]
        config = replace(self._config, hosts=list(hosts), ranks=ranks)
        if self._server is not None:
            threading.Thread(target=_end, args=(self._server,), daemon=True).start()  # the ranks wait for their seats
            self._server = None
        port = self._serve(config) if size > 1 else 0
        environments = rank_environments(config, port)
        for variables in environments.values():
            variables.pop(OWN_VARIABLE, None)
        return [environments[place] for place in range(size)]

    def _serve(self, config: LaunchConfig) -> int:
        from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
        from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

        hosts = [HostInfo(name, count) for name, count in config.hosts]
        self._server = server = RendezvousHTTPServer((config.address, 0), RendezvousHandler, 0)
        server.init(get_host_assignments(hosts, config.world_size, config.world_size))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return int(server.server_address[1])


def _end(server: Any) -> None:
    """Its socket, too: a run that grows and shrinks for weeks would run out of them."""
    server.shutdown()
    server.server_close()
