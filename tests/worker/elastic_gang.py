"""Starts a gang that seats its ranks again and again, without a sandbox, and tells what has become of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import wait_for
from tests.worker.runtime.samples import BARE, PROJECT
from worker.elastic.width import WIDTH_FILE, Width
from worker.launch_config import LaunchConfig, LocalRank


class ElasticRanks:
    """A program as ranks of an elastic gang; a rank's output goes to `rank-N.log` in the work folder."""

    def __init__(
        self,
        program: Path,
        size: int,
        least: int,
        work: Path,
        *,
        started: int = 0,
        first: int = 0,
        node: Mapping[str, Any] | None = None,
        own: Sequence[dict[str, str]] = (),
        **more: str,
    ) -> None:
        """`started`: so many of the ranks are there from the beginning; 0: all.

        `first`: number of its first rank, where this is one of several nodes; `node`: what its launcher is told of it.
        `own`: variables of single ranks, in their order; `more`: of all.
        """
        self.work = work
        (work / "requests").mkdir(parents=True, exist_ok=True)
        self.status_file = work / "status"
        status = os.open(self.status_file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        ranks = [self._rank(first + place, more | (own[place] if place < len(own) else {})) for place in range(size)]
        alone = {"hosts": [("localhost", size)], "hostname": "localhost", "address": "127.0.0.1"}
        config = LaunchConfig(
            argv=[sys.executable, "train.py"], workdir=str(program), requests=str(work / "requests"),
            status_fd=status, backend="horovod", interface="lo", ranks=ranks, least=least, started=started,
            **(node or alone),
        )  # fmt: skip
        (work / "launch.json").write_text(config.to_json())
        fds = (status, *(fd for rank in ranks for fd in (rank.stdout_fd, rank.stderr_fd)))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "worker.launch", str(work / "launch.json")],
            env=BARE | {"PYTHONPATH": str(PROJECT)}, pass_fds=fds,
        )  # fmt: skip
        for fd in fds:
            os.close(fd)

    def _rank(self, number: int, more: dict[str, str]) -> LocalRank:
        log = os.open(self.work / f"rank-{number}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        environment = {
            "DLH_WORK": str(self.work), "DLH_EVENTS": str(self.work / "events" / f"rank-{number}.jsonl"),
            "DLH_THREADS": "1", "DLH_BACKEND": "horovod", "DLH_RANK": str(number), **more,
        }  # fmt: skip
        return LocalRank(rank=number, local_rank=number, stdout_fd=log, stderr_fd=os.dup(log), environment=environment)

    def told(self) -> list[dict[str, Any]]:
        """Lines of the status pipe so far."""
        return [
            json.loads(line) for line in self.status_file.read_text().splitlines(keepends=True) if line[-1:] == "\n"
        ]

    def sizes(self) -> list[int]:
        """Ranks of each generation so far."""
        return [line["size"] for line in self.told() if "size" in line]

    def codes(self) -> dict[int, tuple[int, bool]]:
        """Rank -> how it ended, and whether by itself."""
        return {line["rank"]: (line["code"], line["own"]) for line in self.told() if "code" in line}

    def ask(self, number: int, *slots: int) -> None:
        """Ask for these ranks, as a node does."""
        making = self.work / "requests" / ".width"
        making.write_text(Width(number=number, slots=slots).to_json())
        making.replace(self.work / "requests" / WIDTH_FILE)

    def widths(self) -> list[tuple[int, list[int]]]:
        """(number of what was asked, ranks that are there) as the gang has told so far."""
        return [(line["width"], sorted(line["ranks"])) for line in self.told() if "width" in line]

    def left(self) -> list[int]:
        """Ranks that have ended because they were not asked for any more."""
        return [line["rank"] for line in self.told() if "left" in line]

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for something; the gang must not end before."""

        def there() -> Any:
            found = condition()
            assert found or self.process.poll() is None, self.log()
            return found

        return wait_for(there)

    def kill(self, number: int) -> None:
        """SIGKILL to the newest process of a rank."""
        os.kill(
            [line["pid"] for line in self.told() if line.get("rank") == number and "pid" in line][-1], signal.SIGKILL
        )

    def wait(self, limit_s: float = 300.0) -> int:
        """The exit code of the gang; ends it at the limit."""
        try:
            return self.process.wait(limit_s)
        finally:
            self.end()

    def end(self) -> None:
        """End the gang, and with it its ranks."""
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """What the ranks printed."""
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(self.work.glob("rank-*.log")))
