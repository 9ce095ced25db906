"""What the doctor makes of what it finds."""

from __future__ import annotations

import importlib.util
import json
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from worker import address, sandbox
from worker.doctor import broker, machine, network, portal
from worker.doctor.findings import State
from worker.sandbox.model import SandboxLevel
from worker.transfer.cache import Cache


@pytest.mark.parametrize(
    ("kind", "version", "state"),
    [
        ("Redis", "7.0.15", State.WARN),
        ("Redis", "7.2.10", State.WARN),
        ("Redis", "7.2.11", State.OK),
        ("Redis", "8.2.2", State.OK),
        ("Redis", "8.4.0", State.OK),
        ("Valkey", "8.1.3", State.WARN),
        ("Valkey", "8.1.4", State.OK),
        ("Valkey", "9.1.2", State.OK),
        ("Redis", "unstable", State.SKIP),
    ],
)
def test_a_broker_with_the_lua_hole_is_named(kind, version, state):
    found = broker.broker_release(kind, version)
    assert found.state is state
    assert ("CVE-2025-49844" in found.meaning) == (state is State.WARN)


@pytest.mark.parametrize(
    ("ahead_s", "took_s", "state"),
    [(0.1, 0.1, State.OK), (-2.0, 0.1, State.WARN), (30, 0.1, State.BAD), (3, 6, State.OK)],
)
def test_a_clock_is_judged_by_what_the_request_can_tell(ahead_s, took_s, state):
    assert portal.clock(ahead_s, took_s).state is state


@pytest.mark.parametrize(("content", "state"), [(b"\0ncclAllReduce\0", State.OK), (b"\0gloo\0", State.WARN)])
def test_a_horovod_without_nccl_is_named_where_gpus_are(tmp_path, monkeypatch, content, state):
    library = tmp_path / "torch" / "mpi_lib_v2.cpython-311-x86_64-linux-gnu.so"
    library.parent.mkdir()
    library.write_bytes(content)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "x.py")))
    found = machine.gpu_sums()
    assert found.state is state
    assert ("host's memory" in found.meaning) == (state is State.WARN)


@pytest.fixture
def driver(monkeypatch) -> None:
    """Of two GPUs."""
    names = {"nvmlInit": None, "nvmlSystemGetDriverVersion": "580.1", "nvmlDeviceGetCount": 2}
    answers = {name: lambda value=value: value for name, value in names.items()}
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(**answers))


@pytest.mark.parametrize(("cuda", "horovod", "names"), [
    (True, "0.28.1", ["GPU driver", "sums between GPUs"]),
    (True, "", ["GPU driver"]),
    (False, "0.28.1", ["GPU driver"]),
])  # fmt: skip
def test_sums_between_gpus_are_looked_at_where_pytorch_and_horovod_can_use_them(
    driver, monkeypatch, cuda, horovod, names
):
    monkeypatch.setattr(machine, "_torch_has_cuda", lambda: cuda)
    monkeypatch.setattr(machine, "_version", lambda _: horovod)
    assert [line.name for line in machine.gpus()] == names


@pytest.mark.parametrize("level", [SandboxLevel.L1, SandboxLevel.L2])
@pytest.mark.parametrize("uid_reaches_us", [False, True])
def test_a_sandbox_that_keeps_gpus_from_jobs_is_named(driver, monkeypatch, level, uid_reaches_us):
    host = replace(sandbox.host(), level=level, uid_reaches_us=uid_reaches_us)
    monkeypatch.setattr(sandbox, "host", lambda: host)
    monkeypatch.setattr("worker.sandbox.abilities.os.getuid", lambda: 0)
    monkeypatch.setattr(machine, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(machine, "_version", lambda _: "")
    bad = [line.name for line in machine.gpus() if line.state is State.BAD]
    assert bad == (["GPUs in the sandbox"] if level == SandboxLevel.L1 and not uid_reaches_us else [])


def test_a_portal_that_is_none_is_named_and_the_rest_left_out():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    found = portal.portal(url, "").findings
    assert [line.state for line in found] == [State.BAD] and found[0].step
    assert portal.portal("", "").findings[0].state is State.SKIP


@pytest.mark.parametrize(("control", "warned"), [({}, False), ({"control": True}, False), ({"control": False}, True)])
def test_a_portal_whose_control_is_silent_is_told_and_one_of_an_earlier_release_is_not(monkeypatch, control, warned):
    told = {"version": "1", "time_s": time.time(), "database": True, "broker": True, **control}
    monkeypatch.setattr(portal, "health", lambda url: told)
    found = {line.name: line for line in portal.portal("http://127.0.0.1:1", "").findings}
    assert found["portal"].state is State.OK
    assert ("control" in found) is warned
    assert not warned or "control.log" in found["control"].step


@pytest.mark.parametrize(("full", "runs"), [("database", "runs go on"), ("installation", "runs may fail")])
def test_a_portal_whose_control_cannot_write_is_told_by_whose_disk_is_full(monkeypatch, full, runs):
    told = {"time_s": time.time(), "database": True, "broker": True, "control": False, "full": full}
    monkeypatch.setattr(portal, "health", lambda url: told)
    found = {line.name: line for line in portal.portal("http://127.0.0.1:1", "").findings}
    assert f"the disk of the {full} is full" in found["control"].text and "Free space" in found["control"].step
    assert found["control"].meaning == f"No job starts or is watched meanwhile; {runs}."


def test_a_port_that_refuses_is_reached_and_one_without_a_way_is_not():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert network.answers("127.0.0.1", port)
    assert not network.answers("host.invalid", port)


def test_datagrams_that_are_refused_have_a_way_and_those_that_vanish_may_have_none(monkeypatch):
    monkeypatch.setattr(network, "DATAGRAM_S", 0.05)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        assert not network.refuses_datagrams("127.0.0.1", port)
    assert network.refuses_datagrams("127.0.0.1", port)
    assert not network.refuses_datagrams("host.invalid", port)


@pytest.mark.parametrize(
    ("able", "own_network", "open_ports", "state", "words"),
    [
        (True, True, {"udp"}, State.OK, "UDP port 4789 is open"),
        (True, True, {"tcp"}, State.WARN, "UDP port 4789 is silent"),
        (True, False, {"udp"}, State.BAD, "are silent"),
        (False, True, {"udp"}, State.BAD, "are silent"),
        (False, True, {"tcp"}, State.OK, "are open between us"),
    ],
)
def test_the_ports_are_tried_that_ranks_of_both_nodes_would_use(
    monkeypatch, able, own_network, open_ports, state, words
):
    monkeypatch.setattr(network, "refuses_datagrams", lambda host, port: "udp" in open_ports)
    monkeypatch.setattr(network, "answers", lambda host, port: "tcp" in open_ports)
    peer = {"name": "b", "address": "192.0.2.5", "state": "up", "own_network": own_network}
    (line,) = network.reach("192.0.2.4", [peer], able=able)
    assert line.state is state and words in line.text
    assert bool(line.step) is (state is not State.OK)


@pytest.mark.parametrize(
    ("encrypted", "required", "silent", "state", "words"),
    [
        (True, False, set(), State.OK, "UDP ports 21820-21919 and 4789 are open"),
        (True, False, {21919}, State.WARN, "UDP port 21919 is silent"),
        (True, False, {21820, 21919}, State.WARN, "UDP port 21820 and 21919 is silent"),
        (True, False, {4789}, State.WARN, "UDP port 4789 is silent"),
        (True, True, {4789}, State.OK, "UDP ports 21820-21919 are open"),
        (True, True, {4789, 21820}, State.WARN, "UDP port 21820 is silent"),
        (False, True, {4789}, State.OK, "UDP ports 21820-21919 are open"),
        (False, False, {21820, 21919}, State.OK, "UDP port 4789 is open"),
    ],
)
def test_the_ports_of_wireguard_are_tried_where_it_encrypts_and_the_one_in_clear_where_something_may_use_it(
    monkeypatch, encrypted, required, silent, state, words
):
    monkeypatch.setattr(network, "refuses_datagrams", lambda host, port: port not in silent)
    peer = {"name": "b", "address": "192.0.2.5", "state": "up", "own_network": True}
    (line,) = network.reach("192.0.2.4", [{**peer, "encrypted": encrypted, "encryption_required": required}], able=True)
    assert line.state is state and words in line.text
    assert ("4789" in line.step) == (state is State.WARN and not required)


def test_a_port_in_clear_is_asked_for_only_where_something_may_use_it():
    assert "4789" in network.own_network("").text
    required = network.own_network("", required=True)
    assert required.state is State.OK and "4789" not in required.text and not required.meaning


@pytest.mark.parametrize(
    ("problem", "kernel_problem", "words"),
    [
        ("", "", "the kernel's WireGuard"),
        ("", "this kernel has no WireGuard", "wireguard-go"),
        ("`wg` is not installed", "this kernel has no WireGuard", "none: `wg` is not installed"),
    ],
)
def test_it_is_told_what_encrypts_between_the_nodes_and_why_nothing_better_does(problem, kernel_problem, words):
    line = network.encryption(problem, kernel_problem)
    assert words in line.text and line.state is State.OK
    assert problem or kernel_problem in line.meaning


def test_an_address_of_another_machine_and_a_loopback_among_several_nodes_are_told(monkeypatch):
    assert network.own_address("", several=True).state is State.BAD
    assert network.own_address("192.0.2.77", several=True).state is State.BAD
    assert network.own_address("127.0.0.1", several=True).state is State.WARN
    assert network.own_address("127.0.0.1", several=False).state is State.OK
    peers = [{"name": "b", "address": "192.0.2.5", "state": "up"}]
    assert [line.state for line in network.reach("127.0.0.1", peers)] == [State.BAD]
    assert [line.state for line in network.reach("127.0.0.1", [])] == [State.SKIP]
    here = [{"name": "b", "address": "127.0.0.3", "state": "up"}]
    assert [line.state for line in network.reach("127.0.0.2", here)] == [State.OK]


def crowd(count):
    """Nodes that are up."""
    return [{"name": f"n{number}", "address": f"192.0.2.{number}", "state": "up"} for number in range(count)]


@pytest.mark.parametrize(("peers", "silent"), [(8, 0), (9, 0), (250, 3), (250, 9), (250, 250)])
def test_a_report_about_many_nodes_is_one_that_the_portal_takes(monkeypatch, peers, silent):
    out_of_reach = {f"192.0.2.{number}" for number in range(silent)}
    monkeypatch.setattr(network, "answers", lambda host, port: host not in out_of_reach)
    lines = list(network.reach("192.0.2.254", crowd(peers)))
    assert len(lines) <= 2 * network.PEERS_NAMED + 2
    assert all(re.fullmatch(r"[\w .,:/()-]{1,80}", line.name) and len(line.text) <= 600 for line in lines)
    named = {line.name for line in lines if line.state is State.BAD}
    assert named == {f"node n{number}" for number in range(min(silent, network.PEERS_NAMED))}
    sums = {line.name: line.text for line in lines if not line.name.startswith("node ")}
    good = peers - silent
    assert sums.get("other nodes", "").startswith(f"{good} of {peers} are reached" if good > 8 else "")
    assert sums.get("more nodes", "").startswith(f"{silent - 8} more" if silent > 8 else "")


def test_nodes_behind_a_silent_firewall_are_told_in_time(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(network, "REACH_S", 0.05)
    monkeypatch.setattr(network, "answers", lambda host, port: host == "192.0.2.0" or over.wait())
    lines = list(network.reach("192.0.2.254", crowd(200)))
    over.set()
    assert [(line.name, line.state) for line in lines[-1:]] == [("nodes left out", State.WARN)]
    assert "were not looked at" in lines[-1].text and lines[-1].text.endswith("…")


@pytest.mark.parametrize(
    ("found", "level", "state"), [("10.0.0.5", 0, "ok"), ("127.0.1.1", 3, "ok"), ("127.0.1.1", 1, "bad")]
)
def test_the_hosts_own_name_matters_where_sandboxes_have_none_of_their_own(monkeypatch, found, level, state):
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, 0))]
    monkeypatch.setattr(network.socket, "getaddrinfo", lambda *_: answer)
    assert network.host_name(level).state == state


@pytest.mark.parametrize(("problem", "weaker"), [("", False), ("the agent does not run as root", True)])
def test_ranks_on_several_nodes_are_called_weaker_only_where_they_share_the_hosts_networks(
    monkeypatch, problem, weaker
):
    strongest = SimpleNamespace(level=SandboxLevel.L3, reason="")
    monkeypatch.setattr(machine.sandbox, "host", lambda: strongest)
    monkeypatch.setattr(machine.sandbox, "network_problem", lambda: problem)
    assert ("L2" in machine.sandbox_level().meaning) == weaker


@pytest.mark.parametrize(
    ("tried", "words"), [(SandboxLevel.L3, "Nothing is missing"), (SandboxLevel.L1, "Install bubblewrap")]
)
def test_nothing_is_to_be_installed_where_a_trial_of_the_sandbox_failed(monkeypatch, tried, words):
    host = SimpleNamespace(level=SandboxLevel.L1, tried=tried, reason="L3: [Errno 28] No space left on device")
    monkeypatch.setattr(machine.sandbox, "host", lambda: host)
    finding = machine.sandbox_level()
    assert finding.state == State.WARN and words in finding.step
    assert finding.meaning.endswith("No space left on device.")


def test_a_full_disk_and_one_that_is_gone_are_bad(tmp_path, monkeypatch):
    states = [line.state for line in machine.disk("disk", tmp_path)]
    assert len(states) == 2 and State.BAD not in states
    assert [line.state for line in machine.disk("disk", tmp_path / "gone")] == [State.BAD]
    monkeypatch.setattr(machine, "DISK_BAD_BYTES", 1 << 62)
    assert [line.state for line in machine.disk("disk", tmp_path)] == [State.BAD]


def test_the_whole_report_is_json_and_every_line_that_is_not_good_says_what_to_do(tmp_path):
    env = {
        "PATH": "/usr/bin:/bin",
        "DLH_HOME": str(tmp_path),
        "PYTHONPATH": str(machine.__file__).rpartition("/worker/")[0],
    }
    done = subprocess.run([sys.executable, "-m", "worker.doctor"], env=env, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1)
    names = {line["name"] for line in report["findings"]}
    assert {
        "portal",
        "broker",
        "address",
        "name resolution",
        "Python",
        "PyTorch",
        "sandbox",
        "disk of the home",
    } <= names
    for line in report["findings"]:
        assert line["text"] and (line["state"] in {"ok", "skip"} or line["meaning"])


def test_a_setting_that_is_none_and_a_folder_that_cannot_be_made_keep_no_other_line_from_the_report(tmp_path):
    (tmp_path / "file").touch()
    env = {
        "PATH": "/usr/bin:/bin",
        "DLH_HOME": str(tmp_path),
        "DLH_CACHE": str(tmp_path / "file" / "cache"),
        "DLH_REDIS_URL": "redis://host:port",
        "PYTHONPATH": str(machine.__file__).rpartition("/worker/")[0],
    }
    done = subprocess.run([sys.executable, "-m", "worker.doctor"], env=env, capture_output=True, text=True)
    lines = {line["name"]: line for line in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1 and {"portal", "Python", "sandbox", "disk of the home"} <= set(lines)
    assert lines["broker"]["state"] == lines["disk of the cache"]["state"] == "bad"
    assert "'port'" in lines["broker"]["text"] and lines["broker"]["step"]


def test_a_node_with_an_address_that_is_none_keeps_nobody_from_hearing_of_the_others():
    peers = [{"name": "odd", "address": "a..b"}, {"name": "here", "address": "127.0.0.1"}]
    odd, here = sorted(network.reach("192.0.2.4", peers), key=lambda line: line.name != "node odd")
    assert odd.state is State.BAD and "a..b" in odd.text and odd.step
    assert here.name == "node here"


def test_an_interface_is_found_by_its_address():
    assert address.interface_of("127.0.0.1") == address.interface_of("127.0.0.9") == "lo"
    with pytest.raises(ValueError, match="no network interface"):
        address.interface_of("192.0.2.77")
    assert address.address_towards("127.0.0.1", 6379) == "127.0.0.1"
    assert address.address_towards("", 1) == ""


def test_a_cache_in_which_bits_flip_is_told_for_a_month(tmp_path):
    row = {"digest": "ab", "files": ["table.parquet"], "bytes": 1 << 20, "at_s": 1_000_000.0}
    soon, late = 1_000_060.0, 1_000_000.0 + 31 * 86400
    cache, notes = Cache(tmp_path, 0), tmp_path / "damages"
    assert machine.cache_contents(cache, soon).state is State.OK
    notes.write_text(json.dumps(row) + "\n")
    assert "table.parquet" in machine.cache_contents(cache, soon).text
    notes.write_text("".join(json.dumps(each) + "\n" for each in (row, {**row, "files": []})))
    found = machine.cache_contents(cache, soon)
    assert found.state is State.WARN and found.step and "2 became damaged" in found.text and "1 MiB" in found.text
    assert machine.cache_contents(cache, late).state is State.OK


def test_an_address_of_ipv6_is_told_as_that_and_not_as_a_firewall():
    line = network.own_ports("fd00::4")
    assert line.state is State.WARN and "meet by IPv4" in line.meaning and "firewall" not in f"{line.text} {line.step}"
    for own, place in (("192.0.2.4", "fd00::7"), ("fd00::4", "192.0.2.7")):
        (line,) = network.reach(own, [{"name": "n", "state": "idle", "address": place}])
        assert line.state is State.BAD and "meet by IPv4" in line.meaning and "through" not in line.step
