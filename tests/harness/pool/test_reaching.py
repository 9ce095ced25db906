"""The portal tries a node's ports for it, and lets nobody look around in its own network by that."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from django.core.cache import cache
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.pool import reaching
from tests.harness.pool.joins import join, real_broker, text
from worker.reach import RANK_PORTS

__all__ = ["real_broker", "text"]
pytestmark = pytest.mark.django_db
OWN, WORD, PATH = "198.51.100.7", "ab" * 16, "/api/v1/node/reach"


@pytest.fixture
def tried(monkeypatch):
    """(address, port) that the portal connected to; ports from 50000 on say nothing."""
    made: list[tuple[str, int]] = []

    def says(host, port, word, limit_s):
        made.append((host, port))
        return port < 50000 and word == WORD

    monkeypatch.setattr(reaching, "says", says)
    monkeypatch.setattr(reaching, "TRY_S", 0.0)
    cache.clear()
    return made


@pytest.fixture
def ask(text, tried):
    """Ask as a node that has joined, from an address."""
    caller = Client(headers={"Authorization": f"Bearer {join(text).secret}"})

    def post(*, origin=OWN, claimed="", **changes):
        body = {"address": OWN, "ports": [40000, 50000], "word": WORD, **changes}
        headers = {"X-Forwarded-For": claimed} if claimed else {}
        return caller.post(PATH, body, "application/json", headers=headers, REMOTE_ADDR=origin)

    return post


def test_the_ports_of_the_asking_node_alone_are_tried(ask, tried):
    answer = ask()
    assert (answer.status_code, answer.json()) == (200, {"open": [40000], "not_tried": ""})
    assert sorted(tried) == [(OWN, 40000), (OWN, 50000)]
    assert ask(origin=f"::ffff:{OWN}").json()["open"] == [40000], "the same address, as a socket of IPv6 has it"


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("203.0.113.9", OWN),
        (OWN, "203.0.113.9"),
        (OWN, "portal.internal"),
        (OWN, ""),
        ("127.0.0.1", "127.0.0.1"),
        ("169.254.169.254", "169.254.169.254"),
        ("224.0.0.1", "224.0.0.1"),
        ("0.0.0.0", "0.0.0.0"),
        ("::1", "::1"),
        ("testclient", "testclient"),
    ],
)
def test_no_other_address_is_tried_and_the_reason_is_told(ask, tried, origin, address):
    told = ask(origin=origin, address=address).json()
    assert told["open"] == [] == tried
    assert told["not_tried"].endswith(".")


def test_behind_a_proxy_that_says_who_asks_its_word_counts_and_else_nothing_is_tried(ask, tried, settings):
    assert "sees this machine at 10.0.0.2" in ask(origin="10.0.0.2").json()["not_tried"]
    assert tried == []
    settings.BEHIND_PROXY = True
    assert ask(origin="10.0.0.2").json()["not_tried"]
    assert tried == []
    assert ask(origin="10.0.0.2", claimed=f"203.0.113.9, {OWN}").json()["open"] == [40000]
    assert ask(origin="10.0.0.2", claimed=f"{OWN}, 203.0.113.9").json()["not_tried"]
    assert {host for host, _ in tried} == {OWN}


@pytest.mark.parametrize("ports", [[], [22], [6379, 40000], [61000], [40000] * 5, [-1], [70000], ["ssh"]])
def test_ports_that_no_rank_listens_on_are_not_tried(ask, tried, ports):
    assert ask(ports=ports).status_code == 422
    assert tried == []


@pytest.mark.parametrize("word", ["", "AB" * 16, "ab" * 15, "ab" * 17, "GET / HTTP/1.1"])
def test_a_word_that_something_else_may_say_is_refused(ask, tried, word):
    assert ask(word=word).status_code == 422
    assert tried == []


def test_a_node_may_ask_six_times_a_minute_whatever_comes_of_it(ask, tried):
    statuses = [ask(origin=OWN if number % 2 else "203.0.113.9").status_code for number in range(8)]
    assert statuses == [200] * 6 + [429] * 2
    assert len(tried) == 2 * 3


def test_a_port_that_refuses_takes_as_long_as_one_that_is_silent(ask, tried, monkeypatch):
    slept = []
    monkeypatch.setattr(reaching, "TRY_S", 300.0)
    # its own clock: other threads of this process sleep, too
    monkeypatch.setattr(reaching, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    ask(ports=[40000])
    assert slept == []
    ask(ports=[40000, 50000])
    assert 200.0 < slept[0] <= 300.0


def test_strangers_ask_nothing(tried, client):
    assert client.post(PATH, {}, "application/json").status_code == 401
    assert tried == []


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.ip_addresses().map(str),
    st.none() | st.ip_addresses().map(str),
    st.lists(st.integers(0, 65535) | st.sampled_from(RANK_PORTS), max_size=5),
)
def test_whatever_is_asked_nothing_but_the_callers_address_on_ports_of_ranks_is_tried(
    text, tried, caller, address, ports
):
    cache.clear()
    tried.clear()
    address = address or caller
    node = reaching.Node(pk=1)
    try:
        found = reaching.ports_try(node, caller=caller, address=address, ports=ports, word=WORD)
    except reaching.Invalid:
        assert not all(port in RANK_PORTS for port in ports) or not 1 <= len(ports) <= 4
    else:
        assert found.not_tried or caller == address
    assert all(host == caller == address and port in RANK_PORTS for host, port in tried)
