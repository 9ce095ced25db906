"""The address filter of a control group, asked by programs that run in one; and what else could get past the ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.untested import untested
from tests.worker.pairs import NODES, SPACES, SUM, Pair
from worker.sandbox import cgroup, egress

NO_FILTER = untested("address filter", "it needs root, cgroups version 2 and a kernel with CGROUP_BPF")
PORTS = (32768, 60999)
ASK = """
import socket, sys
with open(sys.argv[1], "w") as file:
    file.write("0")
for place in sys.argv[2:]:
    host, _, port = place.rpartition("_")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.socket(family).connect((host, int(port)))
        print("reached")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of version 2."""
    folder = cgroup.named(f"egress-{os.getpid()}").network if os.getuid() == 0 else None
    if folder is None:
        pytest.skip(NO_FILTER)
    try:  # the smallest program: one that is refused later is a fault of ours, not of this machine
        os.close(egress._load(egress._ALLOW, egress._ATTACH[4]))
    except OSError as error:
        pytest.skip(f"{NO_FILTER} ({error})")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    folder.rmdir()


@pytest.fixture
def ask(group: Path) -> Callable[..., list[str]]:
    """What becomes of connections to `address_port` from within the group, with these addresses allowed."""

    def run(allowed: list[str], *places: str) -> list[str]:
        egress.limit(group, allowed, PORTS)
        command = [sys.executable, "-c", ASK, str(group / "cgroup.procs"), *places]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()

    return run


@pytest.fixture
def port() -> Iterator[int]:
    """A port of the ranks' range that somebody listens on, at every address of this machine."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        number = server.getsockname()[1]
        if not PORTS[0] <= number <= PORTS[1]:
            pytest.skip(untested("ports of the address filter", f"this kernel's own ports are others than {PORTS}"))
        yield number


def test_only_the_named_addresses_are_reached(ask, port: int) -> None:
    told = ask(["127.0.0.2", "127.0.0.4"], *(f"127.0.0.{last}_{port}" for last in (1, 2, 3, 4)), f"0.0.0.0_{port}")
    assert told == ["PermissionError", "reached", "PermissionError", "reached", "PermissionError"]


def test_only_the_ports_of_ranks_are_reached(ask, port: int) -> None:
    below, above = f"127.0.0.2_{PORTS[0] - 1}", f"127.0.0.2_{PORTS[1] + 1}"
    assert ask(["127.0.0.2"], below, f"127.0.0.2_{port}", above) == ["PermissionError", "reached", "PermissionError"]


def test_sockets_of_ipv6_find_no_way_around(ask, port: int) -> None:
    places = [f"::1_{port}", f"::ffff:127.0.0.1_{port}", f"::ffff:127.0.0.2_{port}"]
    assert ask(["127.0.0.2"], *places) == ["PermissionError", "PermissionError", "reached"]


def test_an_address_of_ipv6_can_be_named(ask, port: int) -> None:
    assert ask(["::1"], f"::1_{port}", f"127.0.0.1_{port}") == ["reached", "PermissionError"]


def test_without_any_address_nothing_is_reached(ask, port: int) -> None:
    assert ask([], f"127.0.0.1_{port}", f"::1_{port}") == ["PermissionError"] * 2


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="far"):
        egress.program(4, ["far"], PORTS)


@pytest.mark.parametrize("version", [4, 6])
def test_a_program_is_whole_instructions_and_jumps_stay_inside(version: int) -> None:
    code = egress.program(version, ["10.0.0.1", "fd00::1", "10.0.0.1"], PORTS)
    instructions = [code[index : index + 8] for index in range(0, len(code), 8)]
    assert all(len(instruction) == 8 for instruction in instructions)
    jumps = {0xA6, 0xB6, 0x56}
    for index, instruction in enumerate(instructions):
        if instruction[0] in jumps:
            assert index + 1 + int.from_bytes(instruction[2:4], sys.byteorder) < len(instructions)


BEYOND = (
    SUM
    + """
import socket
def reach(address):
    try:
        socket.create_connection((address, PORT), timeout=20).close()
        return "reached"
    except OSError as error:
        return type(error).__name__
print("beyond", reach("BEYOND"), "host", reach("127.0.0.1"), flush=True)
"""
)


@pytest.mark.ranks
def test_ranks_of_a_gang_reach_each_other_and_no_third_machine(namespaces: Pair, ask) -> None:
    ask([])  # skips where there is no filter

    def enter(node: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{SPACES[node]}"]  # `ip netns exec` would hide the control groups

    pair = Pair(namespaces.folder, namespaces.broker, namespaces.addresses, enter)
    third = namespaces.broker.rpartition("@")[2].partition(":")[0]
    with socket.create_server((third, 0)) as server:
        port = server.getsockname()[1]
        pair.start(BEYOND.replace("BEYOND", third).replace("PORT", str(port)))
        ends = [pair.ended(node) for node in NODES]
    assert [end.data["outcome"] for end in ends] == ["succeeded", "succeeded"], pair.logs()
    for rank in (0, 1):
        assert "sum 3.0" in pair.log(rank)
        assert "beyond PermissionError host PermissionError" in pair.log(rank), pair.logs()
