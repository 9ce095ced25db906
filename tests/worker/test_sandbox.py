"""Hostile programs, at each level this host allows."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.untested import untested
from worker import sandbox, trees
from worker.sandbox import SandboxLevel, SandboxLimits, abilities, cgroup, command

ATTACKS = Path(__file__).with_name("attacks")
BELOW_L2 = {"see_host_processes", "change_a_readonly_file"}
"""Not promised by landlock: names of processes stay visible; modes of files of the same user can be changed."""


def levels() -> list[SandboxLevel]:
    return [level for level in SandboxLevel if level <= sandbox.host().level and level >= SandboxLevel.L1]


def run_at(level: SandboxLevel, argv: list[str], tmp_path: Path, **more):
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    limits = more.pop("limits", SandboxLimits(memory_bytes=512 << 20, file_bytes=64 << 20, processes=64))
    return sandbox.run_sandboxed(
        argv, name=f"t{os.getpid()}-{level}", workdir=work, writable=(work,), limits=limits, at_level=level, **more
    )


@pytest.fixture(autouse=True)
def own_home(home: Path) -> Path:
    return home


@pytest.mark.skipif(os.getuid() != 0, reason=untested("user ids of sandboxes", "only root gives them"))
def test_a_sandbox_that_cannot_be_made_keeps_no_user_id(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("DLH_SANDBOX_UIDS", "60990-60990")

    def full(**_: str) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("worker.sandbox.run.tempfile.mkdtemp", full)
        with pytest.raises(OSError, match="No space"):
            run_at(SandboxLevel.L2, [sys.executable, "-c", ""], tmp_path)
    assert run_at(SandboxLevel.L2, [sys.executable, "-c", ""], tmp_path).returncode == 0


@pytest.mark.parametrize("level", levels())
def test_every_attack_is_stopped(level: SandboxLevel, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("THE_SECRET_NAME", "THE_SECRET_VALUE")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    other = tmp_path / "other"
    (other / "work").mkdir(parents=True)
    data = tmp_path / "data"
    data.mkdir()
    (data / "table").write_text("1")
    with (
        socket.socket() as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        tempfile.TemporaryDirectory(prefix="dlh") as folder,
    ):
        named.bind(f"{folder}/socket")
        named.listen()
        server.bind(("127.0.0.1", 0))
        server.listen()
        abstract.bind(f"\0probe-{os.getpid()}")
        abstract.listen()
        target = {
            "secret_file": str(secret), "other_run": str(other), "readonly": [str(data), str(ATTACKS)],
            "broker": list(server.getsockname()), "variable": "THE_SECRET_VALUE", "caller_pid": os.getpid(),
            "work": str(tmp_path / "work"), "abstract": f"probe-{os.getpid()}", "named": f"{folder}/socket",
            "own_uid": os.getuid() != 0 or level >= SandboxLevel.L2,
        }  # fmt: skip
        done = run_at(level, [sys.executable, str(ATTACKS), json.dumps(target)], tmp_path, readonly=(data, ATTACKS))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["tried"] > 40
    allowed = set() if level >= SandboxLevel.L2 else BELOW_L2
    assert {name: got for name, got in result["got"].items() if name not in allowed} == {}


NAMES_A_THREAD = """
import os, sys, threading
name = f"/proc/self/task/{threading.get_native_id()}/comm"
if os.fork() == 0:  # a rank is a child of the program
    name = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/comm"
    open(name, "w").write("named")
    os._exit(0)
code = os.waitstatus_to_exitcode(os.wait()[1])
open(name, "w").write("named")
forbidden = ["/proc/sys/kernel/hostname", f"/proc/{sys.argv[1]}/oom_score_adj", f"/proc/{sys.argv[1]}/mem"]
for path in forbidden:
    try:
        open(path, "r+")
    except OSError:
        continue
    sys.exit(f"{path} can be written")
sys.exit(code)
"""
"""What CUDA does at its start, and what it must not open the door to."""


@pytest.mark.skipif(os.getuid() != 0, reason="user ids are given by root alone")
def test_a_program_with_a_gpu_under_landlock_alone_names_its_threads_and_changes_no_others_process(
    tmp_path: Path, monkeypatch
) -> None:
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip(untested("a GPU under landlock alone", "no Python here that another user id can run"))
    host = replace(abilities.ingredients(), uid_reaches_us=True)
    monkeypatch.setattr(abilities, "ingredients", lambda: host)
    argv = [python, "-I", "-S", "-c", NAMES_A_THREAD, str(os.getpid())]
    done = run_at(SandboxLevel.L1, argv, tmp_path, gpus=(0,))
    assert done.returncode == 0, done.stderr
    assert run_at(SandboxLevel.L1, argv, tmp_path).returncode == 1, "without a GPU nothing there may be written"


@pytest.mark.skipif(os.getuid() != 0, reason="user ids are given by root alone")
def test_a_program_with_a_user_id_of_its_own_finds_its_files_below_a_private_home(monkeypatch) -> None:
    host = replace(abilities.ingredients(), uid_reaches_us=True)
    monkeypatch.setattr(abilities, "ingredients", lambda: host)
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above)
        folder.chmod(0o755)
        home, work = folder / "home", folder / "home" / "store" / "work"
        monkeypatch.setenv("DLH_HOME", str(home))
        for made in (home, home / "secrets", home / "store"):
            made.mkdir(mode=0o700)
        work.mkdir()
        (work / "mine").write_text("rows")
        (home / "secrets" / "key").write_text("not for programs")
        here = {"name": f"t{os.getpid()}", "workdir": work, "writable": (work,), "at_level": SandboxLevel.L1}
        done = sandbox.run_sandboxed(["/bin/cat", str(work / "mine")], **here)
        assert (done.returncode, done.stdout) == (0, "rows"), done.stderr
        for secret in (home / "secrets" / "key", home / "secrets", home):
            assert sandbox.run_sandboxed(["/bin/ls", str(secret)], **here).returncode != 0
        assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "store")] == [0o710, 0o710]
        assert stat.S_IMODE((home / "secrets").stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="user ids are given by root alone")
def test_programs_get_no_user_id_that_cannot_come_to_their_data(monkeypatch) -> None:
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip(untested("user ids under landlock alone", "no Python here that another user id can run"))
    monkeypatch.setattr(abilities.sys, "executable", python)
    with tempfile.TemporaryDirectory() as above:
        home = Path(above, "home")
        home.mkdir()
        monkeypatch.setenv("DLH_HOME", str(home))

        def reached(mode: int, home_mode: int, *, uid: int = 0, gid: int = 0) -> bool:
            Path(above).chmod(mode)
            os.chown(home, uid, gid)
            home.chmod(home_mode)
            abilities.ingredients.cache_clear()
            return abilities.ingredients().uid_reaches_us

        assert reached(0o755, 0o700) and not reached(0o700, 0o700)
        assert not reached(0o755, 0o700, uid=1000), "of somebody else"
        assert not reached(0o755, 0o770, gid=1000), "a group would lose its rights"
        assert reached(0o755, 0o775, gid=1000)
    abilities.ingredients.cache_clear()


def test_a_group_that_has_rights_in_a_folder_keeps_them(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, mode in ((ours, 0o700), (theirs, 0o770)):
        (folder / "below").mkdir(parents=True)
        folder.chmod(mode)
    if os.getuid() == 0:
        os.chown(theirs, -1, 4321)
    group = os.getegid()
    for folder in (ours, theirs):
        trees.let_through(folder / "below", group, [folder])
    assert stat.S_IMODE(ours.stat().st_mode) == 0o710
    if os.getuid() == 0:
        assert (stat.S_IMODE(theirs.stat().st_mode), theirs.stat().st_gid) == (0o770, 4321)


def test_a_program_without_a_user_id_of_its_own_may_write_nothing_below_proc(tmp_path: Path) -> None:
    spec = sandbox.SandboxSpec(name="t", argv=("true",), workdir=tmp_path, gpus=(0,))
    host = abilities.ingredients()
    policies = [
        json.loads(command.command(spec, SandboxLevel.L1, host, tmp_path, uid, None)[4]) for uid in (None, 60100)
    ]
    assert [policy["landlock"]["rewrite"] for policy in policies] == [[], ["/proc"]]


@pytest.mark.parametrize("level", levels())
def test_a_programs_output_holds_only_what_the_program_writes(level: SandboxLevel, tmp_path: Path) -> None:
    done = run_at(level, [sys.executable, "-c", "import os; os.write(1, b'told'); os.write(2, b'failed')"], tmp_path)
    assert (done.stdout, done.stderr) == ("told", "failed")


@pytest.mark.parametrize("level", levels())
def test_a_fork_bomb_hits_its_limit_and_nothing_is_left(level: SandboxLevel, tmp_path: Path) -> None:
    if level < SandboxLevel.L2 and os.getuid() != 0:
        pytest.skip(untested("number of processes below L2", "only root can limit it"))
    body = """
import os, time
made = 0
try:
    while made < 500:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
"""
    done = run_at(level, [sys.executable, "-c", body], tmp_path)
    assert 0 < int(done.stdout) < 64


@pytest.mark.parametrize("level", levels())
def test_a_memory_hog_is_stopped_and_told(level: SandboxLevel, tmp_path: Path) -> None:
    body = "hog = []\nwhile True: hog.append(bytearray(16 << 20))"
    limits = SandboxLimits(memory_bytes=128 << 20)
    done = run_at(level, [sys.executable, "-c", body], tmp_path, limits=limits)
    assert done.returncode != 0
    assert done.out_of_memory or "MemoryError" in done.stderr


@pytest.mark.parametrize("level", levels())
def test_one_file_cannot_grow_without_end(level: SandboxLevel, tmp_path: Path) -> None:
    body = "f = open('big', 'wb')\nfor _ in range(200): f.write(b'x' * (1 << 20)); f.flush()"
    done = run_at(level, [sys.executable, "-c", body], tmp_path)
    assert "File too large" in done.stderr
    assert (tmp_path / "work" / "big").stat().st_size <= 64 << 20


@pytest.mark.parametrize("level", [level for level in levels() if level >= SandboxLevel.L2])
def test_tmp_is_private_and_limited(level: SandboxLevel, tmp_path: Path) -> None:
    inside = Path(f"/tmp/dlh-test-{os.getpid()}-{level}")
    body = f"f = open({str(inside)!r}, 'wb')\nwhile True: f.write(b'x' * (1 << 20))"
    limits = SandboxLimits(memory_bytes=512 << 20, tmp_bytes=8 << 20)
    done = run_at(level, [sys.executable, "-c", body], tmp_path, limits=limits)
    assert "No space left on device" in done.stderr
    assert not inside.exists()


@pytest.mark.parametrize("level", levels())
def test_a_program_that_takes_too_long_is_ended_with_its_children(level: SandboxLevel, tmp_path: Path) -> None:
    body = "import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(1000)"
    done = run_at(level, [sys.executable, "-c", body], tmp_path, timeout_s=1.0)
    assert done.timed_out


def test_written_files_come_back_to_the_caller_and_nothing_is_left_behind(tmp_path: Path, home: Path) -> None:
    level = sandbox.host().level
    done = run_at(level, [sys.executable, "-c", "open('made', 'w').write('x'); print(1, flush=True)"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "made").stat().st_uid == os.getuid()
    assert list((home / "run" / "sandbox").iterdir()) == []


def test_lines_are_handed_on_while_the_program_runs(tmp_path: Path) -> None:
    lines: list[str] = []
    body = "for i in range(3): print('line', i, flush=True)"
    run_at(sandbox.host().level, [sys.executable, "-c", body], tmp_path, on_line=lines.append)
    assert lines == ["line 0", "line 1", "line 2"]


def test_the_host_names_its_level_and_why_not_more() -> None:
    host = sandbox.host()
    assert host.level == SandboxLevel.L3 or f"L{host.level + 1}" in host.reason


def test_without_bubblewrap_the_level_falls_and_the_reason_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(abilities.shutil, "which", lambda _: None)
    abilities.ingredients.cache_clear()
    monkeypatch.setattr(abilities, "_finding", abilities.Finding())
    try:
        host = sandbox.host()
        assert host.level <= SandboxLevel.L1
        assert "bubblewrap is not installed" in host.reason
    finally:
        monkeypatch.undo()
        abilities.ingredients.cache_clear()


@pytest.mark.skipif(
    os.getuid() != 0, reason=untested("namesakes of two installations", "only root has cgroups and user ids to mix up")
)
def test_what_ends_in_one_installation_leaves_its_namesake_in_another_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = SandboxLimits(memory_bytes=256 << 20, file_bytes=1 << 20, processes=16)
    spec = sandbox.SandboxSpec(name="job1-1", argv=("/bin/sleep", "600"), workdir=Path("/usr"), limits=limits)
    process = sandbox.start(spec)
    try:
        monkeypatch.setenv("DLH_HOME", str(tmp_path / "other"))  # a restored copy has the same jobs
        sandbox.remove_leftovers("job1-1")
        assert process.popen.poll() is None
        monkeypatch.setenv("DLH_HOME", str(tmp_path / "var"))
        sandbox.remove_leftovers("job1-1")
        process.popen.wait(30)  # of the 600 s that it would take by itself
    finally:
        process.kill()
        process.close()


@pytest.mark.skipif(os.getuid() != 0, reason=untested("processes that join a group late", "only root has cgroups"))
def test_a_process_that_joins_while_the_others_are_killed_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    group = cgroup.create("job1-1", None, 16)
    assert group
    late: list[subprocess.Popen[bytes]] = []
    kill = cgroup.Cgroup.kill

    def slow_kill(self: cgroup.Cgroup) -> None:
        kill(self)
        if not late:
            late.append(_joined(group))

    monkeypatch.setattr(cgroup.Cgroup, "kill", slow_kill)
    first = _joined(group)
    try:
        sandbox.remove_leftovers("job1-1")
        assert late and not any(process.poll() is None for process in (first, *late))
        assert not any(folder.exists() for folder in group.folders)
    finally:
        for process in (first, *late):
            process.kill()
            process.wait()


def _joined(group: cgroup.Cgroup) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["/bin/sleep", "600"])
    for file in group.procs_files:
        file.write_text(str(process.pid))
    return process


def test_what_ends_on_one_node_leaves_what_another_on_this_host_has_of_the_same_run() -> None:
    first, other = (
        sandbox.SandboxSpec(name=name, argv=("/bin/sleep", "600"), workdir=Path("/usr"))
        for name in ("job1-1", "job1-1-b")
    )
    here, there = sandbox.start(first), sandbox.start(other)
    try:
        sandbox.remove_leftovers("job1-1")
        assert not here.scratch.exists() and there.scratch.exists()
        assert there.popen.poll() is None
    finally:
        for process in (here, there):
            process.kill()
            process.close()


def test_in_a_container_threads_of_other_containers_do_not_count_against_a_run(tmp_path: Path, monkeypatch) -> None:
    spec = sandbox.SandboxSpec(name="t", argv=("/bin/true",), workdir=tmp_path)

    def threads_allowed() -> int:
        argv = command.command(spec, SandboxLevel.L1, sandbox.host(), tmp_path, None, None)
        return int(json.loads(argv[-1])["rlimits"]["NPROC"])

    monkeypatch.setattr(command, "_MACHINES_PROCESSES", command._PROCESSES.stat().st_ino)
    on_the_machine = threads_allowed()
    monkeypatch.setattr(command, "_MACHINES_PROCESSES", 0)
    assert threads_allowed() > on_the_machine + command.UNSEEN_THREADS // 2
