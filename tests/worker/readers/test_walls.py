"""What a program that a waiting reader reads can do to others, at each level this host allows."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.worker.readers.conftest import Seen, model_of
from worker import inspection, sandbox
from worker.readers.priority import as_usual, may_take_back
from worker.readers.slot import slot_make
from worker.sandbox import SandboxLevel, abilities

ATTACK = """
import json, os, socket, zlib
target = json.loads({target!r})
got = []
def tried(name, do):
    try:
        do()
    except OSError:
        return
    got.append(name)
def strange():
    if set(os.listdir(slots)) == {{os.path.basename(slot)}}:
        raise OSError
slot = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
slots, table = os.path.dirname(slot), slot + "/data/table.parquet"
with open(table, "rb") as file:
    file.read(1)
assert os.path.exists(slot + "/program/spec.yaml")
tried("change data", lambda: open(table, "r+b"))
tried("append to data", lambda: open(table, "ab"))
tried("truncate data", lambda: os.truncate(table, 1))
tried("remove data", lambda: os.unlink(table))
tried("add data", lambda: open(slot + "/data/more", "w"))
tried("replace data", lambda: os.rename(table, slot + "/data/other"))
tried("link data", lambda: os.link(table, "/tmp/linked") or open("/tmp/linked", "r+b"))
tried("change mode", lambda: os.chmod(table, 0o666))
tried("change program", lambda: open(__file__, "r+"))
tried("add to program", lambda: open(slot + "/program/more.py", "w"))
tried("see slots", strange)
tried("read other slot", lambda: open(target["other"]))
tried("read store", lambda: open(target["stored"]))
tried("read agent", lambda: open("/proc/%d/mem" % target["pid"], "rb"))
tried("read settings of agent", lambda: open("/proc/%d/environ" % target["pid"], "rb"))
tried("reach agent", lambda: socket.create_connection(("127.0.0.1", target["port"]), 1))
for number in range(3, 100):
    tried("a pipe or socket left", lambda: os.fstat(number).st_mode & 0o170000 in (0o010000, 0o140000) or open("/no"))
names = zlib.crc32(repr(sorted(os.environ)).encode())  # a message is cut where it is long
raise ValueError(json.dumps([got, os.getuid(), os.sched_getscheduler(0), names]))
"""


@pytest.fixture(params=[level for level in SandboxLevel if SandboxLevel.L1 <= level <= sandbox.host().level])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SandboxLevel:
    """Each level of this host in turn."""
    monkeypatch.setenv("DLH_SANDBOX_MAX_LEVEL", str(int(request.param)))
    monkeypatch.setattr(abilities, "_finding", abilities.Finding())
    found: SandboxLevel = request.param
    return found


def said(answer: dict[str, Any]) -> list[Any]:
    message = answer["problem"]["message"]
    found: list[Any] = json.loads(message[message.index("[[") : message.rindex("]") + 1])
    return found


def test_a_program_changes_nothing_it_was_lent_and_sees_nothing_of_others(
    level: SandboxLevel, pool: Seen, request_of: dict[str, Any]
) -> None:
    pool.come_ready()
    (reader,) = pool.waiting()
    assert reader.process.level == level
    assert reader.process.uid is not None or not sandbox.host().gives_uid(level)
    other = slot_make()
    (other.program / "model.py").write_text("another's")
    table = Path(request_of["dataset_dir"]) / "table.parquet"
    before = table.read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = {
            "other": str(other.program / "model.py"), "stored": str(table), "pid": os.getpid(),
            "port": server.getsockname()[1],
        }  # fmt: skip
        model_of(request_of).write_text(ATTACK.format(target=json.dumps(target)))
        got, uid, policy, names = said(inspection.inspect(request_of))
        assert pool.took == [True]
        pool.close()
        cold_got, cold_uid, cold_policy, cold_names = said_cold(request_of, target)
    below_l2 = {"change mode"} if level < SandboxLevel.L2 else set()
    assert set(got) - below_l2 == set()
    assert (policy, names) == (cold_policy, cold_names) == (os.SCHED_OTHER, names)
    assert (uid == os.getuid()) == (cold_uid == os.getuid()) == (reader.process.uid is None)
    assert "read other slot" not in cold_got
    assert table.read_bytes() == before and table.stat().st_nlink == 1
    assert model_of(request_of).read_text().startswith("\nimport json")


def said_cold(request: dict[str, Any], target: dict[str, Any]) -> list[Any]:
    """What the same program says that is read where it lies: its data are not beside it."""
    text = ATTACK.format(target=json.dumps(target)).replace(
        'slots, table = os.path.dirname(slot), slot + "/data/table.parquet"',
        f"slots, table = os.path.dirname(slot), {request['dataset_dir'] + '/table.parquet'!r}",
    )
    model_of(request).write_text(text)
    return said(inspection.inspect(request))


@pytest.mark.skipif(
    not may_take_back(own_uid=os.getuid() == 0), reason="nobody is let back from leftovers' priority on this host"
)
def test_a_reader_waits_at_leftovers_priority_and_comes_back_from_it(pool: Seen) -> None:
    pool.come_ready()
    (reader,) = pool.waiting()
    inside = [process.pid for process in reader.process.processes()]
    assert inside and {os.sched_getscheduler(pid) for pid in inside} == {os.SCHED_IDLE}
    as_usual(reader.process)
    threads = [int(task.name) for pid in inside for task in Path(f"/proc/{pid}/task").iterdir()]
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_OTHER}
