"""Links between nodes are timed through what ranks on them would talk through, and count only while they would."""

from __future__ import annotations

import pytest

from harness.jobs import ports
from harness.pool.links import link_list
from harness.pool.models import Node, NodeLink
from harness.pool.services import pool_setting_update
from tests.harness.measuring.linking import ABLE, KERNEL, PROCESS, asked, orders, pair, timed
from worker.sandbox.wireguard import PORTS

__all__ = ["asked", "pair", "timed"]


def test_hosts_that_make_no_network_of_their_own_are_timed_over_theirs_and_it_is_said(pair, asked, timed):
    pair()
    link = timed()
    assert link.path == {"addresses": ["10.0.0.1", "10.0.0.2"], "network": "hosts"}
    assert not link_list()[0].own_network


@pytest.mark.parametrize(
    ("wish", "second", "ends", "network"),
    [
        ("off", KERNEL, ("", ""), "vxlan"),
        ("kernel", KERNEL, ("kernel", "kernel"), "wireguard_kernel"),
        ("kernel", PROCESS, ("", ""), "vxlan"),
        ("preferred", PROCESS, ("kernel", "program"), "wireguard_process"),
        ("preferred", ABLE, ("", ""), "vxlan"),
        ("required", PROCESS, ("kernel", "program"), "wireguard_process"),
        ("required", {}, ("", ""), "hosts"),
    ],
)
def test_the_link_is_timed_through_what_ranks_would_talk_through_and_that_is_kept(
    wish, second, ends, network, pair, asked, timed, tasks_sent, people
):
    pool_setting_update(user=people.admin, network_encryption=wish)
    pair(description=KERNEL)
    Node.objects.filter(name="node-b").update(description=second)
    link = timed(ends=ends)
    assert link.path["network"] == network and link_list()[0].current and link_list()[0].network == network
    (connects,) = [request for _, request in orders(tasks_sent) if request["role"] == "connect"]
    assert (connects["network_port"] in PORTS) == network.startswith("wireguard")
    assert bool(connects["network"]) == (network != "hosts")
    assert asked() == [], "it is timed once"


@pytest.mark.parametrize("ends", [("", ""), ("kernel", "program"), ("program", ""), (["kernel"], None), ("no\0ne", 7)])
def test_what_was_timed_through_another_network_than_was_asked_for_is_a_failure(ends, pair, timed, asked, people):
    pair(description=KERNEL)
    assert timed(ends=ends).measured_at is None
    (row,) = link_list()
    assert row.problem.startswith("It was timed through a network of their own") and not row.current
    assert "ranks would have one of their own, encrypted by the kernels" in row.problem
    assert asked() == [], "it is tried again later"


@pytest.mark.parametrize("setting", [{"network_encryption": "off"}, {"network_encryption": "preferred"}, {}])
def test_a_link_is_timed_anew_once_ranks_would_talk_another_way(setting, pair, asked, timed, people):
    """Because of a setting, or because a node can do what it could not."""
    pool_setting_update(user=people.admin, network_encryption="kernel")
    pair(description=KERNEL if setting.get("network_encryption") == "off" else PROCESS)
    before = timed(encryption="kernel" if setting.get("network_encryption") == "off" else "").path["network"]
    pool_setting_update(user=people.admin, **setting)
    if not setting:
        Node.objects.update(description=KERNEL)
    assert not link_list()[0].current
    ends = {"off": "", "preferred": "program"}.get(setting.get("network_encryption"), "kernel")
    assert timed(encryption=ends).path["network"] != before and link_list()[0].current


def test_a_run_and_a_link_that_is_timed_have_ports_of_their_own(pair, asked, people, monkeypatch):
    monkeypatch.setattr(ports, "PORTS", range(21820, 21822))
    pair(description=KERNEL)
    ((_, request),) = asked()
    drawn = {ports.network_port_draw(list(Node.objects.all())) for _ in range(20)}
    assert {request["network_port"]} | drawn == {21820, 21821} and len(drawn) == 1


def test_a_node_that_moved_or_another_network_is_timed_anew_and_not_used_until_then(
    pair, asked, timed, people, node_make
):
    pair(description=ABLE)
    timed()
    assert link_list()[0].current
    pool_setting_update(user=people.admin, own_network=False)
    assert not link_list()[0].current and len(asked()) == 1
    NodeLink.objects.update(order={})
    pool_setting_update(user=people.admin, own_network=True)
    assert link_list()[0].current
    node_make("node-b", address="10.0.0.77", description=ABLE)
    assert not link_list()[0].current and len(asked()) == 1
