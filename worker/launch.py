"""The node process inside the sandbox: rendezvous on the first node, the local ranks, the gang rule.

Started by the supervisor as `python -m worker.launch CONFIG`; ends when its ranks have ended. At the first bad
exit it ends the others.

Exit codes: 0 all ranks done, 75 all paused or done, otherwise the code of the rank that ended badly first
(128 + number for a signal). What each rank did goes to the status pipe as JSON lines:
`{"rank", "pid"}` when started, `{"rank", "code", "own"}` when ended (`own`: not ended by this process). On several
nodes the first one says `{"port"}` once its rendezvous, or with the twin its door, is open; its supervisor brings it
to the others', and each supervisor writes the port file when all nodes are there (`worker.meeting`). Where ranks may
not notice a cut network, each says `{"reaches"}` when its ranks stand still: whether the other nodes answer.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from worker.launch_config import LaunchConfig
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST
from worker.reach import all_answer
from worker.rendezvous import open_rendezvous, rank_environments

POLL_S = 0.03
SIBLING_GRACE_S = 1.0
"""After a bad exit the others may end by themselves (and say why) for this long."""
_PR_SET_PDEATHSIG = 1
CANCEL_FILE, END_FILE = "cancel", "end"
"""Requests that all ranks end: as nobody wants the run any more, or as a part of it has ended on another node."""
STACKS_FILE = "stacks"
"""Request of the supervisor that every rank prints where it stands (`worker.runtime.control`)."""


def die_with_parent() -> None:
    """In a new process: its end is that of this one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Gang:
    """The local ranks and the rule that they live and die together."""

    def __init__(self, config: LaunchConfig) -> None:
        self.config = config
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.codes: dict[int, int] = {}
        self._kill_at_s: float | None = None
        self._killed = False

    def start(self) -> None:
        """Start the local ranks."""
        environments = rank_environments(self.config, open_rendezvous(self.config, self._tell))
        for rank in self.config.ranks:
            environment = {**os.environ, **rank.environment, **environments[rank.rank]}
            process = subprocess.Popen(
                self.config.argv, cwd=self.config.workdir, env=environment, stdin=subprocess.DEVNULL,
                stdout=rank.stdout_fd, stderr=rank.stderr_fd, preexec_fn=die_with_parent,
            )  # fmt: skip
            os.close(rank.stdout_fd)
            os.close(rank.stderr_fd)
            self.running[rank.rank] = process
            self._tell({"rank": rank.rank, "pid": process.pid})

    def run(self) -> int:
        """Until all have ended; the exit code of this process."""
        requests = Path(self.config.requests)
        ends, stacks = (requests / CANCEL_FILE, requests / END_FILE), requests / STACKS_FILE
        asked = False
        while self._is_busy():
            self._reap()
            if not asked and stacks.exists():
                asked = True
                self._signal(signal.SIGUSR1)
                self._reach_begin()
            if self._kill_at_s is None and any(file.exists() for file in ends):
                self._signal(signal.SIGTERM)
                self._kill_at_s = time.monotonic() + SIBLING_GRACE_S
            if self._kill_at_s is not None and time.monotonic() >= self._kill_at_s and not self._killed:
                self._killed = True
                self._signal(signal.SIGKILL)
            time.sleep(POLL_S)
        return self._exit_code()

    def _reach_begin(self) -> None:
        """Begin to ask the other nodes for an answer, beside all else, where the ranks notice no cut themselves."""
        file = self.config.port_file
        if file is not None and self.config.asks_others:
            threading.Thread(target=self._reach, args=(Path(file),), daemon=True).start()

    def _reach(self, port_file: Path) -> None:
        others = [name for name, _ in self.config.hosts if name != self.config.hostname]
        with suppress(OSError, ValueError):  # no port yet: then nobody was there at all
            reaches = all_answer(others, int(port_file.read_text()))
            if reaches is not None:
                self._tell({"reaches": reaches})

    def _is_busy(self) -> bool:
        return bool(self.running)

    def _reap(self) -> None:
        for rank, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[rank]
            self.codes[rank] = code
            self._tell({"rank": rank, "code": code, "own": not self._killed})
            if code not in (0, EXIT_PAUSED) and self._kill_at_s is None:
                self._kill_at_s = time.monotonic() + SIBLING_GRACE_S

    def _signal(self, number: int) -> None:
        for process in self.running.values():
            process.send_signal(number)

    def _tell(self, body: dict[str, Any]) -> None:
        os.write(self.config.status_fd, json.dumps(body).encode() + b"\n")

    def _exit_code(self) -> int:
        bad = [code for code in self.codes.values() if code not in (0, EXIT_PAUSED)]
        cause = [code for code in bad if code != EXIT_PEER_LOST] or bad
        if cause:
            return cause[0] if cause[0] > 0 else 128 - cause[0]
        return EXIT_PAUSED if EXIT_PAUSED in self.codes.values() else 0


def main() -> int:
    """Run the gang that the configuration file named on the command line describes."""
    config = LaunchConfig.from_json(Path(sys.argv[1]).read_text())
    os.set_inheritable(config.status_fd, False)
    gang = _gang(config)
    gang.start()
    return gang.run()


def _gang(config: LaunchConfig) -> Gang:
    if not config.least:
        return Gang(config)
    from worker.elastic.gang import ElasticGang
    from worker.elastic.remote_gang import RemoteGang  # they build on this module

    return ElasticGang(config) if config.first else RemoteGang(config)


if __name__ == "__main__":
    sys.exit(main())
