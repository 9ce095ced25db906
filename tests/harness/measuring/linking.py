"""Two agents that time the link between their nodes, as control sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.measuring.node_links import link_told, links_advance
from harness.pool.models import NodeLink

FIGURES = {"round_trip_s": 3e-4, "round_trip_noise": 0.1, "bytes_per_s": 1.2e8, "bytes_noise": 0.02, "repeats": 7}
ABLE = {"network_problem": ""}
PROCESS = {**ABLE, "encryption_problem": "", "kernel_encryption_problem": "this kernel has no WireGuard"}
KERNEL = {**PROCESS, "kernel_encryption_problem": ""}


@pytest.fixture
def pair(node_make: Callable[..., Any]) -> Callable[..., None]:
    """Nodes that know each other's addresses: `pair("a", "b", "c")`."""

    def make(*names: str, **more: Any) -> None:
        for number, name in enumerate(names or ("node-a", "node-b")):
            node_make(name, address=f"10.0.0.{number + 1}", **more)

    return make


@pytest.fixture
def asked(tasks_sent: list[Any], commit: Callable[..., Any]) -> Callable[[], list[tuple[str, dict[str, Any]]]]:
    """Let control go on; (queue, request) of everything that agents were asked since."""

    def go_on() -> list[tuple[str, dict[str, Any]]]:
        tasks_sent.clear()
        commit(links_advance)
        return orders(tasks_sent)

    return go_on


def orders(sent: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(queue, args[0]) for name, args, queue in sent if name == "node.link"]


@pytest.fixture
def timed(asked: Any, tasks_sent: list[Any], commit: Callable[..., Any]) -> Callable[..., Any]:
    """Both agents do as they are asked; the link."""

    def run(**figures: Any) -> NodeLink:
        ((_, first),) = asked()
        ends = figures.pop("ends", (figures.pop("encryption", ""),) * 2)
        commit(link_told, {"request_id": first["request_id"], "port": 40_000, "encryption": ends[0]})
        answer = {"request_id": first["request_id"], "ok": True, "problem": None, "encryption": ends[1], **FIGURES}
        commit(link_told, {**answer, **figures})
        return NodeLink.objects.order_by("-measured_at").first()

    return run


def failed(commit: Callable[..., Any], request: dict[str, Any], code: str = "timeout") -> NodeLink:
    problem = {"code": code, "message": "10.0.0.2 did not answer in time."}
    commit(link_told, {"request_id": request["request_id"], "ok": False, "problem": problem})
    return NodeLink.objects.get()
