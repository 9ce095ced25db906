"""Which gangs get a network for themselves, and what a job is told where they do not."""

from __future__ import annotations

import pytest

from harness.errors import Invalid
from harness.jobs import ports
from harness.jobs.control.spread import addresses_of, network_of
from harness.jobs.control.tick import tick
from harness.jobs.models import JobEvent
from harness.jobs.programs import SpecInvalid
from harness.pool.models import Device
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import place_now, queue
from worker.sandbox.wireguard import PORTS

pytestmark = pytest.mark.django_db
ABLE = {"description": {"network_problem": ""}}
KERNEL = {"description": {**ABLE["description"], "encryption_problem": "", "kernel_encryption_problem": ""}}
PROGRAM = {"description": {**KERNEL["description"], "kernel_encryption_problem": "this kernel has no WireGuard"}}
NONE = {"description": {**PROGRAM["description"], "encryption_problem": "`wg` is not installed"}}
GANG = {"resources": {"device": "cpu", "count": 2}, "mode": "sync"}


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


@pytest.fixture
def pair(people, node_make):
    """Two nodes of one core each, with what they say of themselves."""

    def make(*more, **setting):
        pool_setting_update(user=people.admin, span_nodes=True, **setting)
        for number, said in enumerate(more, 1):
            node_make(f"node-{number}", cpus=1, **{"address": f"10.0.0.{number}", **said})

    return make


def told(job):
    return " ".join(JobEvent.objects.filter(job=job, kind="note").values_list("message", flat=True))


def test_ranks_on_nodes_that_can_make_one_get_a_network_of_their_own_each_attempt_another(pair, job_make):
    pair(ABLE, ABLE)
    attempt = place_now(job_make(**GANG))
    assert 0 < attempt.plan["network"] < 1 << 24
    devices = list(Device.objects.select_related("node"))
    assert network_of(devices, addresses_of(devices)).number not in {0, attempt.plan["network"]}
    assert "no network of their own" not in told(attempt.job)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"description": {"network_problem": "the agent does not run as root"}}, "node-2 cannot make one: the agent"),
        ({"description": {}}, "node-2 cannot make one: its release knows no such networks"),
        ({**ABLE, "address": "10.0.0.1"}, "node-1 and node-2 are on one machine"),
    ],
)
def test_where_a_node_cannot_they_share_the_hosts_networks_and_the_job_is_told_why(pair, job_make, other, why):
    pair(ABLE, other)
    attempt = place_now(job_make(**GANG))
    assert "network" not in attempt.plan
    assert f"The ranks have no network of their own: {why}" in told(attempt.job)


def test_nodes_of_one_machine_at_loopback_share_its_network(pair, job_make):
    local = [{**ABLE, "address": f"127.0.0.{number}"} for number in (2, 3)]
    pair(*local)
    assert "means its own machine only" in told(place_now(job_make(**GANG)).job)


def test_an_admin_can_turn_it_off(pair, job_make):
    pair(ABLE, ABLE, own_network=False)
    assert "own: it is turned off." in told(place_now(job_make(**GANG)).job)


def test_a_run_on_one_node_has_nothing_to_do_with_it(pair, node_make, job_make):
    pair(ABLE, ABLE)
    node_make("node-3", cpus=2, address="10.0.0.3")
    attempt = place_now(job_make(**GANG))
    assert "network" not in attempt.plan and not told(attempt.job)


@pytest.mark.parametrize(("other", "started"), [(ABLE, 1), ({"description": {}}, 0)])
def test_a_job_that_needs_level_3_lies_on_several_nodes_only_in_a_network_of_its_own(pair, job_make, other, started):
    pair(ABLE, other, minimum_sandbox_level_generated=3)
    queue(job_make(**GANG))
    assert tick() == started


@pytest.mark.parametrize(("least", "started"), [(1, 1), (3, 0)])
def test_nodes_of_unlike_sandboxes_hold_a_gang_where_no_setting_tells_them_apart(pair, job_make, least, started):
    pair(ABLE, {**ABLE, "level": 2}, minimum_sandbox_level_own_code=least)
    queue(job_make(**GANG))
    assert tick() == started


@pytest.mark.parametrize(
    ("wish", "others", "encrypted"),
    [
        ("kernel", (KERNEL, KERNEL), True),
        ("kernel", (KERNEL, PROGRAM), False),
        ("preferred", (KERNEL, PROGRAM), True),
        ("preferred", (KERNEL, NONE), False),
        ("preferred", (KERNEL, ABLE), False),
        ("required", (PROGRAM, PROGRAM), True),
        ("off", (KERNEL, KERNEL), False),
    ],
)
def test_a_network_is_encrypted_as_all_of_its_nodes_can_and_the_setting_wishes(pair, job_make, wish, others, encrypted):
    pair(*others, network_encryption=wish)
    attempt = place_now(job_make(**GANG))
    assert attempt.plan["network"] and (attempt.plan.get("network_port", 0) in PORTS) is encrypted


@pytest.mark.parametrize(
    ("other", "why"),
    [(NONE, "node-2 cannot: `wg` is not installed"), (ABLE, "node-2 cannot: its release cannot")],
)
def test_a_job_is_told_why_it_is_not_encrypted_where_that_was_wished(pair, job_make, other, why):
    pair(KERNEL, other, network_encryption="preferred")
    assert f"What the ranks send is not encrypted: {why}." in told(place_now(job_make(**GANG)).job)


@pytest.mark.parametrize("other", [NONE, ABLE, {**PROGRAM, "address": "10.0.0.1"}])
@pytest.mark.parametrize("own_network", [True, False])
def test_where_it_must_be_encrypted_no_job_lies_on_nodes_that_cannot(people, pair, job_make, other, own_network):
    pair(KERNEL, other)
    job = job_make(**GANG)
    pool_setting_update(user=people.admin, network_encryption="required", own_network=own_network)
    queue(job)
    assert tick() == 0
    with pytest.raises(SpecInvalid, match="the largest node has 1 CPU core"):
        job_make(**GANG)


def test_what_must_be_encrypted_is_never_sent_in_clear_though_a_node_has_just_lost_the_means(pair):
    pair(KERNEL, NONE, network_encryption="required", own_network=False)
    devices = list(Device.objects.select_related("node"))
    assert network_of(devices, addresses_of(devices)).port in PORTS


def test_two_attempts_on_the_same_nodes_have_unlike_ports(pair, job_make, monkeypatch):
    pair(KERNEL, KERNEL)
    monkeypatch.setattr(ports, "PORTS", range(21820, 21822))
    first = place_now(job_make(**GANG)).plan["network_port"]
    devices = list(Device.objects.select_related("node"))
    assert {network_of(devices, addresses_of(devices)).port for _ in range(20)} == {21820, 21821} - {first}


def test_a_setting_that_is_none_of_the_ways_is_refused(people):
    with pytest.raises(Invalid, match="network_encryption is one of: off, kernel, preferred, required"):
        pool_setting_update(user=people.admin, network_encryption="always")
