"""Links between nodes: when agents are asked to time them, what is kept, and that nothing is stuck when they do not."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.accounts.models import AuditEvent
from harness.errors import Conflict, Forbidden, NotFound
from harness.estimates.models import AskState, Inspection, ProbeRow
from harness.jobs.models import Allocation
from harness.measuring import node_links
from harness.measuring.node_links import link_told, links_want
from harness.measuring.services import calibration_start, calibration_stop
from harness.pool.given import node_secret_give
from harness.pool.links import link_list
from harness.pool.models import JoinToken, Node, NodeLink, NodeState
from harness.pool.removing import node_remove
from harness.pool.services import node_drain, pool_setting_get, pool_setting_update
from tests.harness.jobs.helpers import run_now
from tests.harness.measuring.linking import ABLE, FIGURES, asked, failed, orders, pair, timed

__all__ = ["asked", "pair", "timed"]


def test_two_new_nodes_are_asked_one_after_the_other_and_what_they_timed_is_kept(pair, asked, tasks_sent, commit):
    pair(description=ABLE)
    ((queue, listens),) = asked()
    assert queue == "node.node-a" and listens["role"] == "listen" and "port" not in listens
    assert (listens["own"], listens["peer"]) == ("10.0.0.1", "10.0.0.2") and listens["network"] > 0
    assert asked() == [], "one at a time"

    commit(link_told, {"request_id": listens["request_id"], "port": 40_000})
    ((queue, connects),) = orders(tasks_sent)
    assert queue == "node.node-b" and connects["role"] == "connect" and connects["port"] == 40_000
    assert (connects["own"], connects["peer"]) == ("10.0.0.2", "10.0.0.1")
    assert connects["network"] == listens["network"]
    assert connects["token"] == listens["token"] and len(bytes.fromhex(connects["token"])) == 32

    commit(link_told, {"request_id": listens["request_id"], "ok": True, "problem": None, **FIGURES})
    (row,) = link_list()
    assert (row.first, row.second, row.current, row.waits, row.problem) == ("node-a", "node-b", True, False, "")
    assert (row.round_trip_s, row.bytes_per_s, row.own_network, row.network) == (3e-4, 1.2e8, True, "vxlan")
    assert row.measured_at is not None
    assert asked() == [], "it is timed once"


def test_each_order_has_a_token_of_its_own(pair, asked, commit):
    pair()
    tokens = set()
    for _ in range(2):
        ((_, request),) = asked()
        tokens.add(request["token"])
        failed(commit, request)
        NodeLink.objects.update(again_at=None)
    assert len(tokens) == 2


@pytest.mark.parametrize("port", [0, 65_536, "22", None, True])
def test_what_is_no_port_leads_nowhere(port, pair, asked, tasks_sent, commit):
    pair()
    ((_, request),) = asked()
    commit(link_told, {"request_id": request["request_id"], "port": port})
    assert len(orders(tasks_sent)) == 1


def test_a_word_that_comes_twice_or_late_changes_nothing(pair, asked, tasks_sent, commit, timed):
    pair()
    link = timed()
    tasks_sent.clear()
    for late in ({"port": 40_001}, {"ok": True, **FIGURES, "bytes_per_s": 1.0}, {"ok": False, "problem": {}}, {}):
        commit(link_told, {"request_id": "", **late})
    commit(link_told, {"request_id": "r" * 12, "ok": True, **FIGURES, "bytes_per_s": 1.0})
    link.refresh_from_db()
    assert link.bytes_per_s == 1.2e8 and not orders(tasks_sent)

    links = NodeLink.objects.update(wanted_at=timezone.now())
    assert links == 1
    ((_, request),) = asked()
    for _ in range(2):
        commit(link_told, {"request_id": request["request_id"], "port": 40_000})
    assert len(orders(tasks_sent)) == 2, "listen, and connect once"


@pytest.mark.parametrize(
    "wrong",
    [
        {"round_trip_s": 0.0}, {"round_trip_s": float("nan")}, {"bytes_per_s": float("inf")}, {"bytes_per_s": -1.0},
        {"bytes_noise": -0.1}, {"bytes_per_s": "fast"}, {"round_trip_s": None}, {"round_trip_s": 1e9},
    ],
)  # fmt: skip
def test_figures_that_cannot_be_are_a_failure(wrong, pair, asked, timed):
    pair()
    assert timed(**wrong).measured_at is None
    (row,) = link_list()
    assert row.problem.startswith("The answer is not a measurement") and not row.current


def test_a_failure_is_shown_and_tried_again_later_and_later(pair, asked, commit):
    pair()
    waits = []
    for _ in range(9):
        ((_, request),) = asked()
        link = failed(commit, request)
        assert asked() == []
        waits.append(round((link.again_at - timezone.now()) / timedelta(minutes=1)))
        NodeLink.objects.update(again_at=timezone.now() - timedelta(seconds=1))
    assert link_list()[0].problem == "10.0.0.2 did not answer in time."
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_failure_leaves_what_was_timed_before(pair, asked, commit, timed, people):
    pair()
    timed()
    links_want(user=people.admin)
    for _ in range(node_links.ASKED_FAILURES_MOST):
        ((_, request),) = asked()
        link = failed(commit, request, "cut")
        assert link.bytes_per_s == 1.2e8 and link.problem
        NodeLink.objects.update(again_at=None)
    assert link_list()[0].current and asked() == [], "it was asked for, and given up"


def test_nodes_that_do_not_answer_are_given_up_and_the_next_pair_has_its_turn(pair, asked, commit):
    pair("node-a", "node-b", "node-c")
    ((_, first),) = asked()
    link = NodeLink.objects.get()
    NodeLink.objects.update(order={**link.order, "sent_s": time.time() - node_links.ANSWER_LIMIT_S - 1})
    ((_, second),) = asked()
    assert (first["peer"], second["peer"]) == ("10.0.0.2", "10.0.0.3")
    link.refresh_from_db()
    assert link.problem == "The nodes did not answer." and link.order == {}
    commit(link_told, {"request_id": first["request_id"], "ok": True, **FIGURES})
    link.refresh_from_db()
    assert link.measured_at is None, "too late: the other pair may have disturbed it"


def test_an_order_from_before_the_clock_was_set_back_is_given_up(pair, asked):
    pair()
    asked()
    link = NodeLink.objects.get()
    NodeLink.objects.update(order={**link.order, "sent_s": time.time() + 7200.0})
    asked()
    assert NodeLink.objects.get().failures == 1


def test_a_busy_node_is_no_failure(pair, asked, commit):
    pair()
    ((_, request),) = asked()
    link = failed(commit, request, "busy")
    assert link.failures == 0 and not link.problem and asked() == []
    NodeLink.objects.update(again_at=timezone.now() - timedelta(seconds=1))
    assert len(asked()) == 1


def test_a_node_that_leaves_the_pool_meanwhile_takes_its_links_with_it(pair, asked, commit, people):
    pair()
    ((_, request),) = asked()
    Node.objects.update(heartbeat_at=None)
    node_remove(user=people.admin, name="node-b")
    commit(link_told, {"request_id": request["request_id"], "port": 40_000})
    commit(link_told, {"request_id": request["request_id"], "ok": True, **FIGURES})
    assert not NodeLink.objects.exists() and asked() == []


def test_a_node_that_is_down_or_drains_is_not_asked(pair, asked, people):
    pair()
    Node.objects.filter(name="node-b").update(state=NodeState.DOWN)
    assert asked() == []
    Node.objects.update(state=NodeState.UP)
    node_drain(user=people.admin, name="node-a")
    assert asked() == []


@pytest.mark.parametrize("addresses", [("10.0.0.1", ""), ("10.0.0.1", "127.0.0.1")])
def test_nodes_that_cannot_reach_each_other_are_not_asked(addresses, node_make, asked):
    for name, address in zip(("node-a", "node-b"), addresses, strict=True):
        node_make(name, address=address)
    assert asked() == []


def test_a_joined_node_is_asked_once_it_passed_its_checks(pair, asked):
    pair()
    joined = Node.objects.filter(name="node-b")
    joined.update(secret_digest="d" * 64, check_result={})
    assert asked() == []
    joined.update(check_result={"at_s": 1.0, "findings": [{"name": "clock", "state": "bad"}]})
    assert asked() == []
    joined.update(check_result={"at_s": 1.0, "findings": [{"name": "clock", "state": "warn"}]})
    assert len(asked()) == 1


def test_a_node_whose_secret_was_given_to_it_makes_no_checks_and_is_asked(pair, asked, monkeypatch):
    monkeypatch.setattr("harness.pool.given.broker_user_renew", lambda name, digest: True)
    pair()
    node_secret_give(name="node-b", secret="dlhn_" + "k7Qw3ZxP9aLd" * 5)
    assert len(asked()) == 1


def test_a_node_that_joined_by_a_token_is_not_taken_for_one_that_was_given_its_secret(pair, asked):
    pair()
    node, now = Node.objects.get(name="node-b"), timezone.now()
    JoinToken.objects.create(node=node, digest="t" * 64, expires_at=now + timedelta(days=1), used_at=now)
    Node.objects.filter(pk=node.pk).update(secret_digest="d" * 64, joined_at=now)
    assert asked() == [], "it makes its checks now"


def test_which_links_are_due_takes_as_many_queries_for_many_nodes_as_for_two(pair):
    def queries(*names):
        pair(*names)
        for node in Node.objects.filter(secret_digest=""):
            node.secret_digest, node.joined_at = node.pk, timezone.now()
            node.save()
            if node.name < "node-m":  # joined by a token, and was not looked over yet
                JoinToken.objects.create(node=node, digest=node.pk, used_at=node.joined_at, expires_at=node.joined_at)
        with CaptureQueriesContext(connection) as asked:
            due = node_links._due()
        assert all(node.name > "node-m" for two in due for node in two)
        return len(due), len(asked)

    pool_setting_get()
    (none, few), (due, many) = queries("node-a", "node-z"), queries(*(f"node-{letter}" for letter in "abcdefnopqrz"))
    assert (none, due) == (0, 15) and many == few


def test_nodes_are_left_alone_while_they_work(pair, asked, job):
    pair("node-1", "node-2")
    run_now(job)
    assert asked() == []
    Allocation.objects.all().delete()
    assert len(asked()) == 1


def test_nodes_are_left_alone_while_they_measure(pair, asked, people, commit):
    pair()
    inspection = Inspection.objects.create(key="k", sent_at=timezone.now())
    probe = ProbeRow.objects.create(inspection=inspection, kind="cpu", node_name="node-b", allocation={})
    assert asked() == []
    ProbeRow.objects.filter(pk=probe.pk).update(state=AskState.DONE)
    sweep = commit(calibration_start, user=people.admin, node="node-a")
    assert asked() == []
    commit(calibration_stop, user=people.admin, run_id=sweep.pk)
    assert len(asked()) == 1


def test_a_calibration_has_the_links_of_its_node_timed_anew(pair, asked, people, commit, timed):
    pair()
    timed()
    sweep = commit(calibration_start, user=people.admin, node="node-b")
    assert link_list()[0].waits
    commit(calibration_stop, user=people.admin, run_id=sweep.pk)
    assert len(asked()) == 1


def test_an_admin_has_links_timed_anew_even_of_nodes_that_failed_their_checks(pair, asked, people, timed):
    pair("node-a", "node-b", "node-c")
    Node.objects.update(secret_digest="")
    Node.objects.filter(name="node-c").update(
        secret_digest="d" * 64, check_result={"findings": [{"name": "clock", "state": "bad"}]}
    )
    timed()
    assert asked() == []
    assert links_want(user=people.admin, node="node-c") == 2
    assert [row.waits for row in link_list()] == [True, True, False]
    assert AuditEvent.objects.filter(action="links_measure", target="node-c").exists()
    ((_, request),) = asked()
    assert request["peer"] == "10.0.0.3"


def test_only_admins_ask_and_only_where_there_is_a_pair(pair, people, node_make):
    node_make("node-a", address="10.0.0.1")
    with pytest.raises(Forbidden):
        links_want(user=people.owner)
    with pytest.raises(NotFound):
        links_want(user=people.admin, node="nowhere")
    with pytest.raises(Conflict):
        links_want(user=people.admin)


def test_in_a_large_pool_only_links_that_are_asked_for_are_timed(pair, asked, people, monkeypatch):
    monkeypatch.setattr(node_links, "NODES_MOST", 2)
    pair("node-a", "node-b", "node-c")
    assert asked() == []
    with pytest.raises(Conflict, match="would take hours"):
        links_want(user=people.admin)
    assert links_want(user=people.admin, node="node-c") == 2
    ((_, request),) = asked()
    assert request["peer"] == "10.0.0.3"


def test_in_a_large_pool_a_calibration_has_no_links_timed(pair, people, commit, monkeypatch):
    monkeypatch.setattr(node_links, "NODES_MOST", 2)
    pair("node-a", "node-b", "node-c")
    commit(calibration_start, user=people.admin, node="node-b")
    assert link_list() == []


def test_waiting_jobs_are_estimated_anew_after_the_last_link(pair, timed, tasks_sent, people):
    pair("node-a", "node-b", "node-c")
    pool_setting_update(user=people.admin, span_nodes=True)
    renewed = []
    for _ in range(3):
        timed()
        renewed.append("control.estimates_renew" in [name for name, _, _ in tasks_sent])
    assert renewed == [False, False, True]


def test_a_pair_has_one_link(pair, timed):
    pair()
    link = timed()
    with pytest.raises(IntegrityError), transaction.atomic():
        NodeLink.objects.create(first=link.first, second=link.second)
    with pytest.raises(IntegrityError), transaction.atomic():
        NodeLink.objects.create(first=link.first, second=link.first)
