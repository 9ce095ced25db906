"""What a node is told (`RunPlan`) and where the files of a job lie (`RunPaths`)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from worker.shares import Line, Planned

PLAN_VERSION = 1

START_WEIGHTS = "weights.safetensors"
"""Name of the file with the weights that a run starts from: alone in `RunPlan.weights_dir`, or beside train.py."""

_LATER = frozenset({"event_stream", "network", "network_port", "weights_dir"})
"""Fields that nodes of an older release refuse."""

EXIT_PAUSED = 75
"""Exit code of a rank that saved a checkpoint because it was asked to pause (EX_TEMPFAIL)."""
EXIT_REPORTED = 65
"""Exit code of a rank that already wrote an ERROR event that tells the cause (EX_DATAERR)."""
EXIT_PEER_LOST = 69
"""Exit code of a rank that only lost a sibling: the cause is with the other rank (EX_UNAVAILABLE)."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one attempt may take on one node."""

    memory_bytes: int
    """On the node with most of its ranks; the others give each rank as much."""
    disk_bytes: int
    processes: int = 512
    wall_s: float | None = None
    stall_s: float = 300.0
    """No progress for this long: the watchdog ends the attempt (Horovod's own check never fires under Gloo)."""


@dataclass(frozen=True, kw_only=True)
class RankPlan:
    """One rank and the device it drives."""

    rank: int
    node: str
    local_rank: int
    device: str
    """`cpu` or `cuda:N`."""
    threads: int
    others: tuple[str, ...] = ()
    """Further GPUs that the same process drives (mode replicated)."""
    slowdown: float = 1.0
    """The rank is made so many times as slow as its device is: declared, to try unlike devices where there are none."""
    rows: int = 0
    """Of a whole batch, in a gang of unlike devices; 0: an even share, watched where there is a `line`."""
    rows_most: int = 0
    """Rows that fit in its memory; 0: not known."""
    line: Line | None = None
    """Seconds of a step that the rank is expected to work, by its rows."""

    @staticmethod
    def from_dict(body: dict[str, Any]) -> RankPlan:
        """From plain values."""
        line = body.get("line")
        others = tuple(body.get("others", ()))
        return RankPlan(**{**body, "line": Line(**line) if line else None, "others": others})


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Everything a node needs to start its part of one attempt. JSON, versioned, frozen."""

    job_id: str
    token: int
    """Fencing token: the attempt's number. A node refuses a token lower than one it has seen."""
    mode: str
    """`single`, `replicated`, `sync`, `async`, `pipeline` or `pipeline+sync`; it wins over the program's spec.yaml."""
    ranks: tuple[RankPlan, ...]
    job_dir: str
    """Root for `RunPaths`; made by control, never by a user."""
    dataset_dir: str
    """Folder with `profile.json` and the packed data; bound read-only."""
    limits: Limits
    minimum_sandbox_level: int
    own_code: bool
    """The program was edited or given by a person."""
    resume_from: str | None = None
    """Name of a checkpoint below `RunPaths.checkpoints`, or None for the newest good one, if any."""
    backend: str = "horovod"
    """`horovod` or its twin `torch` (torch.distributed)."""
    environment: dict[str, str] = field(default_factory=dict)
    """Added to the ranks' environment; set by control only."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Node -> where the ranks of the other nodes reach it; empty for a run on one node."""
    note: str = ""
    """What was decided about its ranks, in words."""
    least: int = 0
    """Ranks with which the run goes on when others are lost; 0: all of them start again."""
    most: int = 0
    """Ranks that it may come to have while it runs, as control asks; 0: as many as it starts with, then as before."""
    word: str = ""
    """What the nodes of a run that may lose one show each other; empty on one node."""
    network: int = 0
    """Number of the network that its ranks have for themselves, where they lie on several nodes; 0: the hosts'."""
    network_port: int = 0
    """UDP port of the hosts at which WireGuard encrypts that network; 0: nothing does."""
    weights_dir: str = ""
    """Folder with the weights that the run starts from; bound read-only. Empty: fresh weights."""
    event_stream: int = 0
    """Number of the stream that control reads its events from (`worker.events.control_stream`)."""
    version: int = PLAN_VERSION

    @property
    def split(self) -> Planned | None:
        """Rows per rank where the devices are not alike, or what is known of like ones; None: even shares."""
        lines = tuple(rank.line for rank in self.ranks if rank.line is not None)
        alike = not any(rank.rows for rank in self.ranks)
        if not (alike or all(rank.rows for rank in self.ranks)) or (alike and len(lines) < len(self.ranks)):
            return None
        return Planned(
            rows=tuple(rank.rows for rank in self.ranks),
            most=tuple(rank.rows_most for rank in self.ranks),
            lines=lines if len(lines) == len(self.ranks) else (),
        )

    @property
    def world_size(self) -> int:
        """Number of ranks over all nodes."""
        return len(self.ranks)

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes in rank order; the first runs the rendezvous and writes checkpoints and results."""
        return tuple(dict.fromkeys(rank.node for rank in self.ranks))

    @property
    def notices_cuts(self) -> bool:
        """Whether ranks give up others that are cut off, long before they would count as standing still.

        They do in Horovod's sums by Gloo. Who waits in `torch.distributed` does not, nor in a sum by NCCL, as ranks on
        GPUs may; and of parameter servers all ranks of a node may wait at one of their own.
        """
        by_gloo = self.backend == "horovod" and all(rank.device == "cpu" for rank in self.ranks)
        return by_gloo and self.mode != "async"

    def memory_bytes(self, node: str) -> int:
        """What its ranks on a node may take there together."""
        on_node = Counter(rank.node for rank in self.ranks)
        return self.limits.memory_bytes * on_node[node] // max(on_node.values())

    def part(self, node: str) -> str:
        """What `RunPaths.part` is on a node: empty on the first one."""
        return "" if node == self.nodes[0] else node

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or a Celery message. What an older release does not know is left out where it is 0."""
        return {name: value for name, value in asdict(self).items() if value or name not in _LATER}

    @staticmethod
    def from_dict(body: dict[str, Any]) -> RunPlan:
        """Inverse of `to_dict`. Raises `ValueError` for another version or a missing field."""
        if body.get("version") != PLAN_VERSION:
            raise ValueError(f"run plan has version {body.get('version')!r}, this node supports {PLAN_VERSION}")
        try:
            fields = dict(body)
            fields["ranks"] = tuple(RankPlan.from_dict(rank) for rank in body["ranks"])
            fields["limits"] = Limits(**body["limits"])
            return RunPlan(**fields)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a run plan: {error}") from error

    def to_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps(self.to_dict(), indent=1)


@dataclass(frozen=True)
class RunPaths:
    """Names every file of a job once. Only `work` is writable for the sandboxed ranks."""

    root: Path
    part: str = ""
    """Name of a node that has some of the ranks but not the first: its own `work` and `attempt` lie apart, so that no
    two nodes write, or own, the same folder."""

    @property
    def program(self) -> Path:
        """Files that run: model.py, data.py, train.py, predict.py, spec.yaml, README.md. Read-only in the sandbox."""
        return self.root / "program"

    @property
    def generated(self) -> Path:
        """The files as generated, kept to diff an edited program against."""
        return self.root / "generated"

    @property
    def work(self) -> Path:
        """The one folder ranks may write."""
        return self.root / "parts" / self.part / "work" if self.part else self.root / "work"

    @property
    def checkpoints(self) -> Path:
        """One folder per checkpoint, `step-00000123`, each with a MANIFEST.json written last."""
        return self.work / "checkpoints"

    def checkpoint_state(self, name: str) -> Path:
        """The weights, and what else a run needs to go on, of one checkpoint."""
        return self.checkpoints / name / "state.pt"

    @property
    def results(self) -> Path:
        """results.json, predictions.parquet, model.safetensors, preprocess.json, environment.json."""
        return self.work / "results"

    @property
    def events(self) -> Path:
        """Event files of the ranks, one folder per attempt."""
        return self.work / "events"

    def rank_events(self, token: int, rank: int) -> Path:
        """JSON lines appended by one rank in one attempt."""
        return self.events / f"attempt-{token}" / f"rank-{rank}.jsonl"

    @property
    def logs(self) -> Path:
        """Log files, written by the supervisor only."""
        return self.root / "logs"

    def rank_log(self, token: int, rank: int) -> Path:
        """Standard output and error of one rank in one attempt."""
        return self.logs / f"attempt-{token}" / f"rank-{rank}.log"

    def attempt(self, token: int) -> Path:
        """The supervisor's own folder for one attempt: plan, pid, hosts file, exit record."""
        whole = self.root / "attempts" / str(token)
        return whole / "parts" / self.part if self.part else whole

    def plan(self, token: int) -> Path:
        """The plan of one attempt."""
        return self.attempt(token) / "plan.json"

    def requests(self, token: int) -> Path:
        """Folder bound read-only into the sandbox; the file `pause` in it asks the ranks to save and leave."""
        return self.attempt(token) / "requests"

    def pid_file(self, token: int) -> Path:
        """Process id and start time of the supervisor, JSON."""
        return self.attempt(token) / "supervisor.json"

    def exit_file(self, token: int) -> Path:
        """The EXITED event, written before it is sent, so that a lost broker loses nothing."""
        return self.attempt(token) / "exit.json"

    def returning_file(self, token: int) -> Path:
        """How the ranks of this node ended, and what is still to be returned: as long as its supervisor does so."""
        return self.attempt(token) / "returning.json"

    @property
    def fence(self) -> Path:
        """Highest fencing token this node has seen for the job."""
        return self.root / "fence"

    def prediction(self, prediction_id: str) -> Path:
        """Folder of one prediction request: input, output, error."""
        return self.root / "predictions" / prediction_id

    def export(self, export_id: str) -> Path:
        """Folder of one export of the trained model as ONNX."""
        return self.root / "exports" / export_id
