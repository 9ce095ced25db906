"""Links between nodes as people see them: page, API, command line."""

from __future__ import annotations

import json
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.utils import timezone

from harness.client.cli.links import _NETWORKS, _state
from harness.pool.links import path_of
from harness.pool.models import NetworkKind, Node, NodeLink
from harness.pool.services import pool_setting_get
from tests.harness.client.conftest import client, dlh, home, portal

__all__ = ["client", "dlh", "home", "portal"]


@pytest.fixture
def link(node_make):
    """Two nodes and the link between them, timed over the networks of their hosts."""

    def make(**more):
        pair = tuple(node_make(name, address=address) for name, address in (("near", "10.0.0.1"), ("far", "10.0.0.2")))
        first, second = sorted(pair, key=lambda node: node.name)
        timed = {
            "round_trip_s": 3.14e-4, "round_trip_noise": 0.08, "bytes_per_s": 112.5 * 2**20, "bytes_noise": 0.02,
            "measured_at": timezone.now(), "path": path_of((first, second), pool_setting_get()),
        }  # fmt: skip
        return NodeLink.objects.create(first=first, second=second, **{**timed, **more})

    return make


@pytest.fixture
def pool_page(people, tasks_sent, monkeypatch):
    """The pool's page for a person."""
    from harness import broker

    monkeypatch.setattr(broker, "publish", lambda *args, **more: None)

    def get(user):
        browser = Client()
        browser.force_login(user)
        return browser, " ".join(browser.get("/pool/").content.decode().split())

    return get


def test_the_page_shows_latency_bandwidth_noise_and_when(link, pool_page, people):
    link()
    _, page = pool_page(people.mate)
    for words in (
        "far and near",
        "0.314 ms <small>± 8.0 %",
        "113 MiB/s <small>± 2.0 %",
        "Used by estimates",
        "hosts&#x27;, in clear",
    ):
        assert words in page, words
    assert "Measure again" not in page


def test_the_page_says_what_is_the_matter_with_a_link(link, pool_page, people):
    row = link(problem="10.0.0.2 did not answer in time.")
    assert "Failed: 10.0.0.2 did not answer in time." in pool_page(people.mate)[1]
    NodeLink.objects.filter(pk=row.pk).update(problem="", wanted_at=timezone.now())
    assert "Waits until both nodes are idle" in pool_page(people.mate)[1]
    Node.objects.filter(name="far").update(state="down")
    assert "Waits until far takes work again and both nodes are idle" in pool_page(people.mate)[1]
    Node.objects.filter(name="near").update(state="drain")
    assert "Waits until far and near take work again and both nodes are idle" in pool_page(people.mate)[1]
    Node.objects.update(state="up")
    Node.objects.filter(name="far").update(address="10.0.0.9")
    NodeLink.objects.filter(pk=row.pk).update(wanted_at=None)
    assert "not used until it is timed again" in pool_page(people.mate)[1]


@pytest.mark.parametrize(
    ("kind", "on_page", "on_line"),
    [
        ("hosts", "hosts&#x27;, in clear", "hosts', in clear"),
        ("vxlan", "of their own, in clear (VXLAN)", "own, in clear"),
        ("wireguard_kernel", "of their own, encrypted by the kernels (WireGuard)", "own, encrypted (kernel)"),
        ("wireguard_process", "of their own, encrypted by a process (WireGuard)", "own, encrypted (process)"),
    ],
)
def test_all_are_told_what_a_link_was_timed_through(
    link, pool_page, people, portal, dlh, monkeypatch, kind, on_page, on_line
):
    monkeypatch.setenv("COLUMNS", "200")
    link(path={"addresses": ["10.0.0.2", "10.0.0.1"], "network": kind})
    assert on_page in pool_page(people.mate)[1]
    assert on_line in dlh("pool", "links").out
    (told,) = dlh("pool", "links", "--json").json["items"]
    assert (told["network"], told["own_network"]) == (kind, kind != "hosts")


def test_the_command_line_has_a_word_for_every_network():
    assert _NETWORKS.keys() == set(NetworkKind.values)


def test_an_admin_has_them_timed_from_the_page_also_before_the_first_time(node_make, pool_page, people):
    for number, name in enumerate(("near", "far")):
        node_make(name, address=f"10.0.0.{number + 1}")
    browser, page = pool_page(people.admin)
    assert "None has been timed yet" in page and "Measure again" in page
    assert "timed one after the other" in browser.post("/pool/links/", follow=True).content.decode()
    assert NodeLink.objects.get().wanted_at is not None
    stranger, _ = pool_page(people.mate)
    assert stranger.post("/pool/links/").status_code == 403


def test_links_of_an_earlier_release_are_told_what_they_were_timed_through(link):
    migration, editor = (
        import_module("harness.pool.migrations.0009_link_network"),
        SimpleNamespace(connection=connection),
    )
    before = {"addresses": ["10.0.0.2", "10.0.0.1"], "own_network": True}
    row = link(path=before, order={"id": "r1", "network": 7, "path": before})
    migration.name_networks(apps, editor)
    row.refresh_from_db()
    assert row.path == {"addresses": ["10.0.0.2", "10.0.0.1"], "network": "vxlan"} and row.order == {}
    migration.forget_names(apps, editor)
    row.refresh_from_db()
    assert row.path == before


def test_a_pool_of_one_node_shows_no_links(node_make, pool_page, people):
    node_make("near", address="10.0.0.1")
    assert "Links between nodes" not in pool_page(people.admin)[1]


def test_the_command_line_shows_them_and_has_them_timed(link, portal, dlh, monkeypatch, tasks_sent):
    monkeypatch.setenv("COLUMNS", "200")
    assert "No link has been timed yet" in dlh("pool", "links").out
    row = link()
    shown = dlh("pool", "links").out
    for words in ("far - near", "0.314 ms", "113 MiB/s", "±8 %, ±2 %", "hosts'"):
        assert words in shown, shown
    (told,) = dlh("pool", "links", "--node", "far", "--json").json["items"]
    assert told["bytes_per_s"] == 112.5 * 2**20 and told["current"] is True
    assert (
        dlh("pool", "links", "--node", "elsewhere", "--json").json["error"]["message"] == "There is no node elsewhere."
    )

    assert dlh("pool", "links", "--measure").code == 3
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    assert "1 link is timed" in dlh("pool", "links", "--measure", "--node", "far").out
    row.refresh_from_db()
    assert row.wanted_at is not None
    assert dlh("pool", "links", "--measure", "--node", "elsewhere").code == 3
    assert "waits for idle nodes" in dlh("pool", "links").out
    Node.objects.filter(name="far").update(state="down")
    assert "waits for far to take work again" in dlh("pool", "links").out
    NodeLink.objects.update(problem="It was cut.")
    assert "failed: It was cut." in dlh("pool", "links").out


def test_the_pool_lists_its_links_for_programs(link, people, client):
    link()
    browser = Client()
    browser.force_login(people.mate)
    (told,) = json.loads(browser.get("/api/v1/pool").content)["links"]
    assert (told["first"], told["second"], told["round_trip_s"]) == ("far", "near", 3.14e-4)


def test_a_portal_that_does_not_name_the_nodes_that_are_away_is_understood():
    assert _state({"problem": "", "waits": True, "current": False}) == "waits for idle nodes"
