"""What a node that has joined sees of the others, and tells of itself."""

from __future__ import annotations

import pytest
from django.test import Client

from harness.pool.models import Node, PoolSetting
from tests.harness.pool.joins import join, real_broker, text

__all__ = ["real_broker", "text"]
pytestmark = pytest.mark.django_db


def test_a_node_is_told_of_which_others_the_ranks_have_networks_of_their_own(text, node_make):
    answer = join(text)
    caller = Client(headers={"Authorization": f"Bearer {answer.secret}"})

    def able():
        return {peer["name"]: peer["own_network"] for peer in caller.get("/api/v1/node").json()["peers"]}

    node_make("able", description={"network_problem": ""})
    node_make("unable", description={"network_problem": "the agent is not root"})
    node_make("older")
    assert able() == {"able": True, "older": False, "unable": False}
    PoolSetting.objects.update_or_create(pk=1, defaults={"own_network": False})
    assert not any(able().values())


def test_a_node_is_told_towards_which_others_its_ranks_networks_are_encrypted(text, node_make):
    answer = join(text)
    caller = Client(headers={"Authorization": f"Bearer {answer.secret}"})
    program = {"network_problem": "", "encryption_problem": "", "kernel_encryption_problem": "it has none"}
    Node.objects.filter(name="node-2").update(description=program)
    node_make("able", description=program)
    node_make("older", description={"network_problem": ""})

    def encrypted(wish):
        PoolSetting.objects.update_or_create(pk=1, defaults={"network_encryption": wish})
        return {peer["name"] for peer in caller.get("/api/v1/node").json()["peers"] if peer["encrypted"]}

    assert [encrypted(wish) for wish in ("off", "kernel", "preferred", "required")] == [
        set(),
        set(),
        {"able"},
        {"able"},
    ]


def test_a_node_is_told_whether_ranks_may_talk_in_clear(text, node_make):
    answer = join(text)
    caller = Client(headers={"Authorization": f"Bearer {answer.secret}"})
    node_make("able")
    for wish in ("off", "kernel", "preferred", "required"):
        PoolSetting.objects.update_or_create(pk=1, defaults={"network_encryption": wish})
        (peer,) = caller.get("/api/v1/node").json()["peers"]
        assert peer["encryption_required"] == (wish == "required")


def test_a_node_sees_the_others_and_tells_how_it_is(text, node_make):
    answer = join(text)
    node_make("node-1", address="10.1.0.1")
    caller = Client(headers={"Authorization": f"Bearer {answer.secret}"})
    seen = caller.get("/api/v1/node").json()
    peer = {"name": "node-1", "address": "10.1.0.1", "state": "up", "own_network": False, "encrypted": False}
    assert seen["peers"] == [{**peer, "encryption_required": False}]
    answer = caller.get("/api/v1/node/probe?size_bytes=1500000")
    assert sum(len(block) for block in answer.streaming_content) == 1500000
    answer = caller.post("/api/v1/node/probe", bytes(8 << 20), "application/octet-stream")
    assert (answer.status_code, answer.json()) == (200, {"bytes": 8 << 20})
    line = {"name": "clock", "state": "ok", "text": "0.00 s"}
    assert caller.post("/api/v1/node/check", {"findings": [line]}, "application/json").status_code == 200
    assert Node.objects.get(name="node-2").check_result["findings"][0]["text"] == "0.00 s"
    bad = caller.post("/api/v1/node/check", {"findings": [{**line, "state": "fine"}]}, "application/json")
    assert bad.status_code == 422
    assert caller.get("/api/v1/jobs").status_code == 401
    assert caller.get("/api/v1/pool").status_code == 401
