"""Start a program in the strongest sandbox this host allows, wait for it, and leave nothing behind."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from worker import trees
from worker.home import data_roots, run_dir
from worker.sandbox import abilities, cgroup, command, egress, overlay, uids
from worker.sandbox.environment import package_folder, python_environment
from worker.sandbox.model import Completed, SandboxError, SandboxLevel, SandboxLimits, SandboxSpec, SandboxTooWeak
from worker.sandbox.output import Reader

GONE_S = 3.0
"""How long killed processes may take to leave."""
LOOK_S = 0.5
"""Whether a run is called off is looked at this often."""
SUFFIX_LENGTH = 8
"""Of what `tempfile.mkdtemp` appends."""
NO_LIMITS = SandboxLimits()
"""The defaults only."""
_log = logging.getLogger(__name__)


@dataclass
class SandboxProcess:
    """A started sandbox. Call `close` when it has ended, whatever happened."""

    popen: subprocess.Popen[bytes]
    level: SandboxLevel
    scratch: Path
    group: cgroup.Cgroup | None
    uid: uids.UidSlot | None
    writable: tuple[Path, ...]
    network: overlay.Network | None = None
    """That of `SandboxSpec.overlay`."""
    peers_only: bool = False
    """It connects to `SandboxSpec.peers` alone."""
    _closed: bool = False
    _seen: list[psutil.Process] = field(default_factory=list)
    """What was inside when last looked."""

    def processes(self) -> list[psutil.Process]:
        """All processes of the sandbox that can be seen now."""
        try:
            self._seen = psutil.Process(self.popen.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return self._seen

    def out_of_memory(self) -> bool:
        """Whether the kernel ended a process of it because its memory limit was reached."""
        return self.group is not None and self.group.oom_kills() > 0

    def kill(self) -> None:
        """End everything inside at once, daemons included, and wait until it is gone."""
        inside = self.processes()
        if self.level < SandboxLevel.L2:
            with contextlib.suppress(ProcessLookupError):
                self.popen.send_signal(signal.SIGTERM)  # enter.py ends its descendants
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(timeout=1.0)
        self.popen.kill()
        for process in inside:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.popen.wait()
        self._empty_group(give_up_s=GONE_S)
        # Without a cgroup: bubblewrap's outer process ends before the kernel has emptied the process namespace.
        psutil.wait_procs(self._seen, timeout=GONE_S)

    def _empty_group(self, give_up_s: float) -> None:
        deadline = time.monotonic() + give_up_s
        while self.group and (pids := self.group.pids()) and time.monotonic() < deadline:
            self.group.kill()
            psutil.wait_procs(_alive(pids), timeout=0.05)

    def close(self, *, take_back: bool = True) -> None:
        """Remove cgroup, scratch folder and user id; take back the ownership of the written files.

        Not `take_back` where another sandbox writes to the same folders by now.
        """
        if self._closed:
            return
        self._closed = True
        if self.popen.poll() is None:
            self.kill()
        self._empty_group(give_up_s=GONE_S)
        if self.group:
            self.group.remove()
        if self.network:
            self.network.close()
        if self.uid:
            for path in self.writable if take_back else ():
                trees.give_tree(path, os.getuid())
            self.uid.release()
        trees.tree_remove(self.scratch)


def start(
    spec: SandboxSpec,
    *,
    at_level: SandboxLevel | None = None,
    stdout: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.DEVNULL,
) -> SandboxProcess:
    """Start it. Raises `SandboxTooWeak` below `spec.minimum_level` and `SandboxError` or `OSError` on failure."""
    host = abilities.host() if at_level is None else abilities.ingredients()
    level = _level(spec, host, at_level)
    own_uid = host.gives_uid(level)
    with contextlib.ExitStack() as undo:
        uid, scratch, group, network = _surroundings(spec, own_uid, undo)
        writable = spec.writable if level >= SandboxLevel.L2 else (*spec.writable, _private_tmp(scratch))
        peers_only = group is not None and _limit_egress(spec, group)
        if uid:
            _hand_over(spec, writable, uid.uid)
            if level < SandboxLevel.L2:
                _let_through(spec, scratch)
        argv = command.command(spec, level, host, scratch, uid.uid if uid else None, group)
        argv = network.entered(argv) if network else argv
        environment = {"TMPDIR": "/tmp" if level >= SandboxLevel.L2 else str(scratch / "tmp"), **spec.environment}  # noqa: S108
        popen = subprocess.Popen(
            argv, env=environment, cwd="/" if level >= SandboxLevel.L2 else spec.workdir,
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, pass_fds=spec.pass_fds, start_new_session=True,
        )  # fmt: skip
        undo.pop_all()  # it runs: `close` sees to all of it
    return SandboxProcess(popen, level, scratch, group, uid, spec.writable, network=network, peers_only=peers_only)


def _level(spec: SandboxSpec, host: abilities.Host, at_level: SandboxLevel | None) -> SandboxLevel:
    """What it is run at. Raises `SandboxTooWeak`, or where that may pass `SandboxError`."""
    level = host.level if at_level is None else at_level
    if spec.share_network:
        level = min(level, SandboxLevel.L2)
    least = max(spec.minimum_level, SandboxLevel.L2 if spec.overlay else 0)
    if level >= least:
        return level
    if host.level < least <= host.tried:
        raise SandboxError(f"Sandbox level {least} cannot be reached here at the moment: {host.reason}")
    raise SandboxTooWeak(level, least, host.reason)


def _surroundings(
    spec: SandboxSpec, own_uid: bool, undo: contextlib.ExitStack
) -> tuple[uids.UidSlot | None, Path, cgroup.Cgroup | None, overlay.Network | None]:
    """User id, scratch folder, control group and network of a sandbox; `undo` takes back what was made of them."""
    uid = uids.UidSlot() if own_uid else None
    if uid:
        undo.callback(uid.release)
    scratch = Path(tempfile.mkdtemp(prefix=f"{spec.name}-", dir=run_dir("sandbox")))
    undo.callback(trees.tree_remove, scratch)
    group = _group(spec) if os.getuid() == 0 else None
    if group:
        undo.callback(group.remove)
    network = overlay.make(spec.overlay) if spec.overlay else None
    if network:
        undo.callback(network.close)
    return uid, scratch, group, network


def _group(spec: SandboxSpec) -> cgroup.Cgroup | None:
    limits = spec.limits
    return cgroup.create(spec.name, limits.memory_bytes, limits.processes, network=bool(spec.peers))


def _limit_egress(spec: SandboxSpec, group: cgroup.Cgroup) -> bool:
    """Whether its connections are now limited to `spec.peers`; where that cannot be, the run says so."""
    if not spec.peers or group.network is None:
        return False
    try:
        egress.limit(group.network, spec.peers, command.EPHEMERAL_PORTS)
    except (OSError, ValueError) as error:
        _log.warning("%s: connections cannot be limited to its peers: %s", spec.name, error)
        return False
    return True


def remove_leftovers(name: str) -> None:
    """Clean up after a sandbox whose caller was killed: whatever still runs in it, its cgroup, its scratch folder."""
    group = cgroup.named(name) if os.getuid() == 0 else None
    deadline = time.monotonic() + GONE_S
    # What is just about to join cannot once the group is gone; until then the next look finds it.
    while group and not group.remove() and time.monotonic() < deadline:
        group.kill()
        psutil.wait_procs(_alive(group.pids()), timeout=0.05)
    # As `mkdtemp` names them: what is longer belongs to another node of the same run on this host.
    for folder in run_dir("sandbox").glob(f"{name}-{'?' * SUFFIX_LENGTH}"):
        trees.tree_remove(folder)


def _alive(pids: Iterable[int]) -> list[psutil.Process]:
    """Those of the process ids that still name a process; one may end while we look."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found


def _private_tmp(scratch: Path) -> Path:
    folder = scratch / "tmp"
    folder.mkdir()
    scratch.chmod(0o755)
    return folder


def _hand_over(spec: SandboxSpec, writable: tuple[Path, ...], uid: int) -> None:
    for path in writable:
        trees.give_tree(path, uid)
        path.chmod(path.stat().st_mode | 0o111)  # bubblewrap enters it before it becomes that user
    for path in spec.readonly:
        trees.make_readable(path)


def _let_through(spec: SandboxSpec, scratch: Path) -> None:
    """What is not bound to a place of its own is reached through its real folders, which are private to the agent."""
    for path in dict.fromkeys((scratch / "tmp", spec.workdir, *spec.readonly, *spec.writable)):
        trees.let_through(path, uids.way_gid(), data_roots())


def run_sandboxed(  # noqa: PLR0913 - keywords only; each is a thing a caller must be able to say
    argv: list[str],
    *,
    name: str,
    workdir: Path,
    readonly: tuple[Path, ...] = (),
    writable: tuple[Path, ...] = (),
    packages: tuple[str, ...] = (),
    limits: SandboxLimits = NO_LIMITS,
    environment: dict[str, str] | None = None,
    minimum_level: int = 0,
    gpus: tuple[int, ...] = (),
    loopback: bool = False,
    timeout_s: float = 600.0,
    on_line: Callable[[str], None] | None = None,
    called_off: Callable[[], bool] = lambda: False,
    at_level: SandboxLevel | None = None,
) -> Completed:
    """Run one program to its end in the sandbox and return how it ended.

    `packages`: names of our own packages the program may import. `on_line` gets each line of its standard
    output from another thread. Once it is `called_off` it is ended. No network but `loopback`, for ranks. Raises as
    `start` does.
    """
    folders = tuple(package_folder(package) for package in packages)
    spec = SandboxSpec(
        name=name, argv=tuple(argv), workdir=workdir.resolve(), limits=limits, minimum_level=minimum_level,
        readonly=tuple(path.resolve() for path in (*readonly, *folders)),
        writable=tuple(path.resolve() for path in writable),
        environment=environment if environment is not None else python_environment(), gpus=gpus, loopback=loopback,
    )  # fmt: skip
    process = start(spec, at_level=at_level, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return to_its_end(process, timeout_s, on_line, called_off)


def to_its_end(
    process: SandboxProcess,
    timeout_s: float,
    on_line: Callable[[str], None] | None,
    called_off: Callable[[], bool],
) -> Completed:
    """Wait for one that was started with its output in pipes, end it in time, close it, and tell how it ended."""
    timed_out, end_s = False, time.monotonic() + timeout_s
    try:
        assert process.popen.stdout and process.popen.stderr  # noqa: S101 - PIPE was asked for
        readers = [Reader(process.popen.stdout, on_line), Reader(process.popen.stderr, None)]
        while process.popen.poll() is None:
            left_s = end_s - time.monotonic()
            timed_out = left_s <= 0.0
            if timed_out or called_off():
                process.kill()
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.popen.wait(timeout=min(LOOK_S, left_s))
        for reader in readers:
            reader.join(timeout=5.0)
        code = process.popen.returncode
        return Completed(
            returncode=128 - code if 128 < code < 160 else code,
            stdout=readers[0].text, stderr=readers[1].text, level=process.level,
            timed_out=timed_out, out_of_memory=process.out_of_memory(),
        )  # fmt: skip
    finally:
        process.close()
