"""What the supervisor tells the node process inside the sandbox (`worker.launch`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class LocalRank:
    """One rank this node starts."""

    rank: int
    local_rank: int
    stdout_fd: int
    stderr_fd: int
    environment: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class LaunchConfig:
    """What the supervisor tells the node process."""

    argv: list[str]
    """Command line of a rank."""
    workdir: str
    requests: str
    status_fd: int
    backend: str
    hosts: list[tuple[str, int]]
    """(host name, ranks) in rank order over all nodes."""
    hostname: str
    address: str
    """Where the rendezvous listens; the first node's address for all."""
    interface: str
    ranks: list[LocalRank]
    port_file: str | None = None
    """Where the port stands as soon as all nodes are there; None for a run on one node."""
    least: int = 0
    """Number of ranks the run goes on with when others are lost; 0: all of them live and die together."""
    started: int = 0
    """So many of the ranks are started at first, the others when asked for (`worker.elastic.width`); 0: all."""
    word: str = ""
    """What the nodes of one elastic run show each other (`worker.elastic.remote_nodes`)."""
    hint: str = ""
    """What to look at where the first node cannot be reached."""
    asks_others: bool = False
    """The other nodes are asked for an answer once the ranks here stand still: these notice no cut network."""

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> LaunchConfig:
        """Inverse of `to_json`."""
        body = json.loads(text)
        body["ranks"] = [LocalRank(**rank) for rank in body["ranks"]]
        body["hosts"] = [(str(name), int(slots)) for name, slots in body["hosts"]]
        return LaunchConfig(**body)

    @property
    def world_size(self) -> int:
        """Ranks over all nodes."""
        return sum(slots for _, slots in self.hosts)

    @property
    def first(self) -> bool:
        """Whether this node runs the rendezvous."""
        return self.hosts[0][0] == self.hostname
