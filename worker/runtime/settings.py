"""Where a program runs: read from the platform's variables, from horovodrun's or torchrun's, or from arguments."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.shares import Planned

PROCESS_STARTED_S = time.time()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One rank's place in the world. Alone: rank 0 of 1, files below ./work."""

    rank: int
    world_size: int
    backend: str
    """`horovod` or `torch`; used only with more than one rank."""
    device: str | None
    """`cpu`, `cuda:N`, or None to choose."""
    threads: int | None
    memory_bytes: int | None
    """What this rank may take before the platform ends it; None: what the machine has."""
    device_ranks: int
    """So many ranks here drive the same GPU; each counts on its share of what is free there."""
    data: Path
    work: Path
    events: Path
    requests: Path | None
    """Folder in which a file `pause` asks to save and leave."""
    resume_from: str | None
    """Name of a checkpoint; None: the newest good one."""
    fresh: bool
    """Set all checkpoints aside and start over."""
    epochs: int | None
    """Overrides the spec."""
    job_id: str
    token: int
    started_s: float
    """Unix time at which the attempt began."""
    mode: str | None = None
    """In which mode the platform has started the ranks; None: as spec.yaml says."""
    stages: int = 0
    """Into which each pipeline cuts the model, as the platform has placed it; 0: as spec.yaml says."""
    split: Planned | None = None
    """Rows per rank of a whole batch, as planned for devices that are not alike."""
    slowdown: float = 1.0
    """This rank is made so many times as slow, to try unlike devices where there are none."""
    weights: Path | None = None
    """Weights to start from, where the spec asks for some; None: those beside the program."""
    seat_fd: int | None = None
    """Socket to a gang that seats its ranks again and again (`worker.elastic.gang`); None: all end together."""

    @staticmethod
    def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
        """Read arguments (they win) and environment. Exits with usage on unknown arguments."""
        given = _arguments(arguments)
        rank = int(environment.get("HOROVOD_RANK", environment.get("RANK", "0")))
        world_size = int(environment.get("HOROVOD_SIZE", environment.get("WORLD_SIZE", "1")))
        work = Path(given.work or environment.get("DLH_WORK", "work")).absolute()
        requests = environment.get("DLH_REQUESTS")
        threads, memory = environment.get("DLH_THREADS"), environment.get("DLH_MEMORY_BYTES")
        seat, weights = environment.get("DLH_SEAT_FD"), given.weights or environment.get("DLH_WEIGHTS")
        return Settings(
            rank=rank,
            world_size=world_size,
            backend=environment.get("DLH_BACKEND") or ("horovod" if "HOROVOD_RANK" in environment else "torch"),
            device=given.device or environment.get("DLH_DEVICE") or _local_gpu(environment),
            threads=int(threads) if threads else None,
            memory_bytes=int(memory) if memory else None,
            device_ranks=_device_ranks(given.device, environment),
            data=Path(given.data or environment.get("DLH_DATA", "data")).absolute(),
            work=work,
            events=Path(environment.get("DLH_EVENTS") or work / "events" / f"rank-{rank}.jsonl"),
            requests=Path(requests) if requests else None,
            resume_from=given.resume or environment.get("DLH_RESUME_FROM") or None,
            fresh=given.fresh,
            epochs=given.epochs,
            job_id=environment.get("DLH_JOB", "local"),
            token=int(environment.get("DLH_ATTEMPT", "0")),
            started_s=float(environment.get("DLH_STARTED_S", PROCESS_STARTED_S)),
            mode=environment.get("DLH_MODE") or None,
            stages=int(environment.get("DLH_STAGES") or 0),
            split=Planned.read(environment.get("DLH_SPLIT")),
            slowdown=max(1.0, float(environment.get("DLH_SLOWDOWN", "1"))),
            weights=Path(weights).absolute() if weights else None,
            seat_fd=int(seat) if seat else None,
        )


def _local_gpu(environment: Mapping[str, str]) -> str | None:
    """The GPU that horovodrun or torchrun means for this rank, if this process sees one."""
    local = environment.get("HOROVOD_LOCAL_RANK", environment.get("LOCAL_RANK"))
    if local is None:
        return None
    import torch

    return f"cuda:{local}" if torch.cuda.is_available() and int(local) < torch.cuda.device_count() else "cpu"


def _device_ranks(given: str | None, environment: Mapping[str, str]) -> int:
    """How many ranks of this machine drive this rank's GPU: all, where the launcher gave each the same `--device`."""
    if given is None:
        return max(1, int(environment.get("DLH_DEVICE_RANKS", "1")))
    here = environment.get("HOROVOD_LOCAL_SIZE", environment.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, int(here)) if given.startswith("cuda") else 1


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="train.py", description="Train the model as spec.yaml says.")
    parser.add_argument("--data", help="folder with the packed data (default ./data)")
    parser.add_argument("--work", help="folder for checkpoints and results (default ./work)")
    parser.add_argument("--weights", help="file that spec.model.weights stands for (default ./weights.safetensors)")
    parser.add_argument("--epochs", type=int, help="instead of spec.training.epochs")
    parser.add_argument("--device", help="cpu or cuda:N (default: what spec.yaml asks for)")
    parser.add_argument("--resume", help="name of a checkpoint to continue from (default: the newest good one)")
    parser.add_argument("--fresh", action="store_true", help="start over; checkpoints of an earlier run are put aside")
    return parser.parse_args(arguments)
