"""From a plan to what is started on this node: folders, launch configuration, sandbox."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from worker.address import interface_addresses, interface_of
from worker.devices import gpus_at
from worker.events import SUPERVISOR_RANK
from worker.launch_config import LaunchConfig, LocalRank
from worker.plan import START_WEIGHTS, Limits, RankPlan, RunPaths, RunPlan
from worker.registry import sandbox_name, write_json
from worker.sandbox import (
    EPHEMERAL_PORTS,
    PORTS_ABI,
    Encryption,
    Overlay,
    SandboxError,
    SandboxLevel,
    SandboxLimits,
    SandboxProcess,
    SandboxSpec,
    host,
    package_folder,
    python_environment,
)
from worker.sandbox.overlay import INTERFACE, PORT, inside_address, ports_told
from worker.sandbox.wireguard import Peer
from worker.trees import tree_remove

SPARE_PROCESSES = 64
LOOPBACK = "127.0.0.1"
_ENCRYPTED = {
    Encryption.NONE: "not encrypted",
    Encryption.PROGRAM: "encrypted by WireGuard (here in a process of its own)",
    Encryption.KERNEL: "encrypted by WireGuard (here by the kernel)",
}


@dataclass(frozen=True)
class Attempt:
    """One attempt of one job, as this node sees it."""

    plan: RunPlan
    paths: RunPaths
    node: str

    @property
    def local_ranks(self) -> list[RankPlan]:
        """Ranks that this node starts."""
        return [rank for rank in self.plan.ranks if rank.node == self.node]

    @property
    def slots(self) -> list[RankPlan]:
        """The same, and those that this node may start later, when the run becomes wider while it runs."""
        first = self.local_ranks
        more = range(len(first), self.plan.most)
        return first + [replace(first[0], rank=number, local_rank=number) for number in more]

    @property
    def gpus(self) -> tuple[int, ...]:
        """NVML's indices of the GPUs that the local ranks drive."""
        devices = {device for rank in self.local_ranks for device in (rank.device, *rank.others)}
        return tuple(sorted(int(device.partition(":")[2]) for device in devices if device.startswith("cuda:")))

    @property
    def limits(self) -> Limits:
        """What it may take on this node."""
        return replace(self.plan.limits, memory_bytes=self.plan.memory_bytes(self.node))

    @property
    def several_nodes(self) -> bool:
        """Ranks of this attempt run on other nodes as well."""
        return len(self.local_ranks) < self.plan.world_size

    @property
    def first(self) -> bool:
        """This node has rank 0: it runs the rendezvous and writes checkpoints and results."""
        return self.node == self.plan.nodes[0]

    def is_dispensable(self, elsewhere: int | None) -> bool:
        """Whether an elastic run goes on without this node. `elsewhere`: ranks that the other nodes have now; None: as
        many as by the plan."""
        if elsewhere is None:
            elsewhere = self.plan.world_size - len(self.local_ranks)
        return not self.first and 0 < self.plan.least <= elsewhere

    @property
    def supervisor_rank(self) -> int:
        """`Event.rank` of what this node's supervisor says: one for each node."""
        return SUPERVISOR_RANK - self.plan.nodes.index(self.node)

    def address(self, node: str) -> str:
        """Where its ranks are reached by those of the others. Raises `SandboxError` where nobody knows."""
        if self.plan.network:
            return inside_address(self.plan.nodes.index(node))
        return self._host_address(node)

    def _host_address(self, node: str) -> str:
        """Where the node itself is reached."""
        if not self.several_nodes:
            return LOOPBACK
        found = self.plan.addresses.get(node, "")
        if not found:
            raise SandboxError(f"the address of node {node} is not known: set DLH_NODE_ADDRESS there")
        return found

    @property
    def port_file(self) -> Path:
        """Written by the supervisor once all nodes are there."""
        return self.paths.requests(self.plan.token) / "port"

    def let_meet(self, port: int) -> None:
        """All nodes are there: the launcher reads the port."""
        write_json(self.port_file, str(port))
        self.port_file.chmod(0o644)  # the launcher may be another user

    def events_file(self, rank: int) -> Path:
        """Event file of a rank, relative to `RunPaths.work`."""
        return self.paths.rank_events(self.plan.token, rank).relative_to(self.paths.work)

    def make_folders(self) -> None:
        """Everything the sandbox expects to be there."""
        paths, token = self.paths, self.plan.token
        paths.requests(token).mkdir(parents=True, exist_ok=True)
        for folder in (paths.work, paths.checkpoints, paths.results, paths.events, paths.rank_events(token, 0).parent):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                folder.unlink()  # an earlier attempt's program put it there
            folder.mkdir(parents=True, exist_ok=True)
        for old in () if self.first else paths.checkpoints.iterdir():
            tree_remove(old)  # what an earlier attempt saved here for others (`worker.elastic.rescue`)

    def rank_environment(self, rank: RankPlan) -> dict[str, str]:
        """Variables of one rank, without those that tell it where the others are. Raises `GpuAway`, `SandboxError`."""
        plan, paths = self.plan, self.paths
        device = rank.device
        if device.startswith("cuda:"):  # only the assigned GPUs are visible: count among them
            device = f"cuda:{self.gpus.index(int(device.partition(':')[2]))}"
        environment = {
            "DLH_WORK": str(paths.work),
            "DLH_DATA": plan.dataset_dir,
            "DLH_EVENTS": str(paths.rank_events(plan.token, rank.rank)),
            "DLH_REQUESTS": str(paths.requests(plan.token)),
            "DLH_JOB": plan.job_id,
            "DLH_ATTEMPT": str(plan.token),
            "DLH_RANK": str(rank.rank),
            "DLH_DEVICE": device,
            "DLH_DEVICE_RANKS": str(sum(other.device == rank.device for other in self.local_ranks)),
            "DLH_THREADS": str(rank.threads),
            "DLH_MEMORY_BYTES": str(self.limits.memory_bytes // max(1, len(self.slots))),
            "DLH_BACKEND": plan.backend,
            "DLH_ADDRESS": self.address(self.node),
            "DLH_MODE": plan.mode,
            "DLH_STARTED_S": str(time.time()),
            "OMP_NUM_THREADS": str(rank.threads),
            "MKL_NUM_THREADS": str(rank.threads),
            "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in gpus_at(self.gpus)),
            **plan.environment,
        }
        if plan.weights_dir:
            environment["DLH_WEIGHTS"] = str(Path(plan.weights_dir) / START_WEIGHTS)
        if plan.resume_from:
            environment["DLH_RESUME_FROM"] = plan.resume_from
        if plan.split is not None:
            environment["DLH_SPLIT"] = plan.split.to_json()
        if rank.slowdown > 1.0:
            environment["DLH_SLOWDOWN"] = str(rank.slowdown)
        return environment

    def launch_config(self, status_fd: int, streams: dict[int, tuple[int, int]]) -> LaunchConfig:
        """What the node process reads. `streams`: rank -> write ends for its output and error."""
        counts = Counter(rank.node for rank in self.plan.ranks)
        counts[self.node] = len(self.slots)
        ranks = [
            LocalRank(
                rank=rank.rank, local_rank=rank.local_rank, stdout_fd=streams[rank.rank][0],
                stderr_fd=streams[rank.rank][1], environment=self.rank_environment(rank),
            )
            for rank in self.slots
        ]  # fmt: skip
        return LaunchConfig(
            argv=[sys.executable, str(self.paths.program / "train.py")],
            workdir=str(self.paths.program), requests=str(self.paths.requests(self.plan.token)), status_fd=status_fd,
            backend=self.plan.backend, hosts=[(host_name(node), count) for node, count in counts.items()],
            hostname=host_name(self.node), address=self.address(self.plan.nodes[0]),
            interface=INTERFACE if self.plan.network else interface_of(self.address(self.node)), ranks=ranks,
            port_file=str(self.port_file) if self.several_nodes else None, least=self.plan.least,
            started=len(self.local_ranks), word=self.plan.word, hint=network_hint(self.plan),
            asks_others=not self.plan.notices_cuts,
        )  # fmt: skip

    def sandbox(self, config_file: Path, pass_fds: tuple[int, ...]) -> SandboxSpec:
        """The sandbox of the node process. Raises `GpuAway`, `SandboxError`."""
        plan, paths = self.plan, self.paths
        most = self.limits
        limits = SandboxLimits(
            memory_bytes=most.memory_bytes,
            file_bytes=most.disk_bytes,
            processes=most.processes + SPARE_PROCESSES,
            tmp_bytes=min(most.disk_bytes, most.memory_bytes // 2),
            shm_bytes=most.memory_bytes // 2,
        )
        return SandboxSpec(
            name=sandbox_name(plan.job_id, plan.token, paths.part),
            argv=(sys.executable, "-m", "worker.launch", str(config_file)),
            workdir=paths.program,
            readonly=(
                paths.program, Path(plan.dataset_dir).resolve(), paths.requests(plan.token), config_file,
                package_folder("worker"), *((Path(plan.weights_dir),) if plan.weights_dir else ()),
            ),
            writable=(paths.work,), environment=python_environment(), limits=limits, hostname=host_name(self.node),
            loopback=max(plan.world_size, plan.most) > 1, pass_fds=pass_fds,
            gpus=tuple(gpu.minor for gpu in gpus_at(self.gpus)), overlay=self._overlay(),
            share_network=self.several_nodes and not plan.network,
            hosts=self._hosts(), peers=self._peers(),
            minimum_level=plan.minimum_sandbox_level,
        )  # fmt: skip

    def _hosts(self) -> tuple[tuple[str, str], ...]:
        """All nodes by their names inside sandboxes: Gloo looks up its own host's name."""
        if not self.several_nodes:
            return ()
        return tuple((self.address(node), host_name(node)) for node in self.plan.nodes)

    def _overlay(self) -> Overlay | None:
        """This node's end of the network that the attempt has for itself."""
        if not self.plan.network:
            return None
        local = self._host_address(self.node)
        others = tuple(self._host_address(node) for node in self.plan.nodes if node != self.node)
        return Overlay(
            number=self.plan.network, local=local, device=interface_of(local), inside=self.address(self.node),
            peers=others, port=self.plan.network_port,
        )  # fmt: skip

    def tunnel_peers(self, keys: Mapping[str, str]) -> list[Peer]:
        """The other nodes, for this one's end of an encrypted network. `keys`: node -> public key, of each of them."""
        return [
            Peer(key=keys[node], address=self._host_address(node), inside=self.address(node))
            for node in self.plan.nodes
            if node != self.node
        ]

    def _peers(self) -> tuple[str, ...]:
        """Where its ranks may connect to: the nodes, and what else this node's interface is called; empty: anywhere.

        Gloo tells the others the first address of the interface, be it that or not.
        """
        if not self.several_nodes or self.plan.network or os.environ.get("DLH_PEER_EGRESS") == "ports":
            return ()
        nodes = [self.address(node) for node in self.plan.nodes]
        return tuple(dict.fromkeys((*nodes, *interface_addresses(interface_of(self.address(self.node))))))


def host_name(node: str) -> str:
    """Host name of a node inside sandboxes; never the host's own, which may resolve to a useless address."""
    return f"dlh-{node}"


def network_hint(plan: RunPlan) -> str:
    """What to look at when the ranks do not find the first node."""
    if not plan.network:
        return ""
    return (
        f"The ranks have a network of their own: let UDP port {ports_told(plan.network_port)} through between the "
        "nodes, or ask an admin to turn it off (Pool, Settings)."
    )


def network_note(nodes: Sequence[str], process: SandboxProcess) -> str:
    """What a person should know of a run on several nodes: how far its programs reach."""
    if process.network is not None:
        tunnel = process.network.tunnel
        return (
            f"The ranks run on {', '.join(nodes)}, in a network shared with no other run: a tunnel by UDP "
            f"port {tunnel.port if tunnel else PORT} between these hosts, {_ENCRYPTED[process.network.encryption]}."
        )
    first = f"The ranks run on {', '.join(nodes)} and share the network of these hosts (sandbox L2 at most)."
    low, high = EPHEMERAL_PORTS
    if process.level >= SandboxLevel.L1 and process.peers_only:
        return f"{first} They may connect by TCP to ports {low}-{high} of these nodes only, and cannot send datagrams."
    if process.level >= SandboxLevel.L1 and host().landlock_abi >= PORTS_ABI:
        return f"{first} They may open TCP connections to ports {low}-{high} only, and cannot send datagrams."
    return f"{first} The kernel here cannot limit where they connect to: it lacks landlock's rules for ports."


def load(job_dir: Path, token: int, node: str, part: str = "") -> Attempt:
    """Read the plan that the agent wrote. Raises `OSError`, `ValueError`."""
    paths = RunPaths(job_dir.resolve(), part)
    plan = RunPlan.from_dict(json.loads(paths.plan(token).read_text()))
    if plan.token != token:
        raise ValueError(f"plan of attempt {token} carries token {plan.token}")
    data, weights = os.path.realpath(plan.dataset_dir), os.path.realpath(plan.weights_dir) if plan.weights_dir else ""
    return Attempt(replace(plan, job_dir=str(paths.root), dataset_dir=data, weights_dir=weights), paths, node)
