"""Have the agents of two nodes time the link between them: when a node has joined, and when somebody asks.

One pair at a time over the whole pool, so that measurements do not disturb each other, and only while neither node runs
or measures anything. The first node listens and tells its port, then the second is told to connect; both get a one-time
token that nobody else has.
"""

from __future__ import annotations

import math
import secrets
import time
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.broker import publish_pool, task_send_on_commit
from harness.errors import Conflict
from harness.ids import new_id
from harness.jobs.ports import network_port_draw
from harness.measuring.idle import pairs_idle
from harness.plain import text_plain
from harness.pool.given import nodes_given
from harness.pool.links import Pair, pairs_of, path_of
from harness.pool.models import NetworkKind, Node, NodeLink, NodeState, PoolSetting
from harness.pool.naming import node_named
from harness.pool.networks import ENCRYPTED
from harness.pool.services import node_queue, pool_setting_get
from worker.sandbox import Encryption
from worker.sandbox.overlay import NUMBERS

ANSWER_LIMIT_S = 75.0
"""Both nodes give up by themselves before."""
LISTEN_EXPIRES_S, CONNECT_EXPIRES_S = 20.0, 10.0
BUSY_AGAIN = timedelta(seconds=30)
AGAIN_FIRST, AGAIN_MOST = timedelta(minutes=1), timedelta(hours=1)
ASKED_FAILURES_MOST = 3
"""What a person asked for is given up after so many."""
NODES_MOST = 45
"""Up to so many nodes (990 pairs) all links are timed unasked, in more only those of nodes that an admin names."""
ROUND_TRIP_MOST_S, BYTES_PER_S_MOST, NOISE_MOST = 60.0, 1e13, 1e6
_PORTS = range(1, 65_536)


def links_want(*, user: User, node: str = "") -> int:
    """Have the links of a node (without a name: of all) timed anew, as soon as its pairs are idle; return how many.

    Raises `Forbidden`, `NotFound`, `Conflict` where there is no pair, or where all of them are too many.
    """
    require_admin(user)
    wanted = node_named(node, field="node") if node else None
    if wanted is None and Node.objects.filter(state=NodeState.UP).count() > NODES_MOST:
        raise Conflict(
            f"All links between more than {NODES_MOST} nodes would take hours.",
            code="too_many_pairs",
            hint="Name a node: dlh pool links --measure --node NODE.",
        )
    with transaction.atomic():
        count = links_mark(wanted)
        if not count:
            raise Conflict(
                f"There is no other node that {node or 'any node'} could be joined with.",
                code="no_pair",
                hint="A link is timed between two nodes that are up and know each other's address.",
            )
        audit_write(user, "links_measure", node or "pool", links=count)
        publish_pool("link", {"node": node})
        task_send_on_commit("control.calibrate")
    return count


def links_renew(node: Node) -> None:
    """Have the links of a node that is measured timed anew, too; in a large pool an admin asks for that."""
    if Node.objects.filter(state=NodeState.UP).count() <= NODES_MOST:
        links_mark(node)


def links_mark(node: Node | None) -> int:
    """Note that the links of a node, or all, are to be timed anew; return how many there are."""
    now = timezone.now()
    pairs = pairs_of(Node.objects.filter(state=NodeState.UP), of=node)
    NodeLink.objects.bulk_create(
        [NodeLink(first=first, second=second, wanted_at=now) for first, second in pairs],
        update_conflicts=True,
        unique_fields=["first", "second"],
        update_fields=["wanted_at", "again_at", "failures", "problem"],
    )
    return len(pairs)


def links_advance() -> None:
    """Give up an order that nobody answers, and send the next. Safe to call at any time, from anywhere, twice."""
    open_order = NodeLink.objects.exclude(order={}).exists()
    if not open_order and not pairs_idle(_due()):
        return
    with transaction.atomic():
        PoolSetting.objects.select_for_update().filter(pk=1).first()  # one control process at a time
        ordered = NodeLink.objects.select_for_update(of=("self",)).exclude(order={})
        link = ordered.select_related("first", "second").first()
        if link is not None:
            # An order from the time to come was sent before the clock was set back.
            if abs(time.time() - float(link.order["sent_s"])) < ANSWER_LIMIT_S:
                return
            _fail(link, "The nodes did not answer.")
        if pair := next(iter(pairs_idle(_due())), None):
            _order(pair)


def _due() -> list[Pair]:
    """Pairs whose link is to be timed: those that somebody asked for first, then new ones by their names."""
    up = list(Node.objects.filter(state=NodeState.UP))
    pairs = pairs_of(up) if len(up) <= NODES_MOST else _wanted_pairs()
    if not pairs:
        return []
    setting, now = pool_setting_get(), timezone.now()
    known = {(link.first_id, link.second_id): link for link in NodeLink.objects.all()}
    asked: list[tuple[datetime, Pair]] = []
    fresh: list[Pair] = []
    for pair in pairs:
        link = known.get((pair[0].pk, pair[1].pk))
        if link is not None and (link.order or (link.again_at is not None and link.again_at > now)):
            continue
        if link is not None and link.wanted_at is not None:
            asked.append((link.wanted_at, pair))
        elif link is None or link.path != path_of(pair, setting):
            fresh.append(pair)
    return [pair for _, pair in sorted(asked, key=lambda item: item[0])] + _checked(fresh)


def _wanted_pairs() -> list[Pair]:
    """Those that somebody asked for and that can be timed."""
    links = NodeLink.objects.exclude(wanted_at=None).select_related("first", "second")
    return [pair for link in links for pair in pairs_of((link.first, link.second))]


def _checked(pairs: list[Pair]) -> list[Pair]:
    """Those of which both nodes passed their checks; one that was started beside the portal, or that its secret was
    given to, makes none."""
    nodes = {node.pk: node for pair in pairs for node in pair}
    told = {pk: node.check_result.get("findings", []) for pk, node in nodes.items()}
    given = nodes_given(node for pk, node in nodes.items() if node.secret_digest and not told[pk])

    def passed(node: Node) -> bool:
        if not node.secret_digest or not told[node.pk]:
            return not node.secret_digest or node.pk in given
        return all(item["state"] != "bad" for item in told[node.pk])

    return [pair for pair in pairs if all(map(passed, pair))]


def _order(pair: Pair) -> None:
    """Have the first node listen."""
    link, _ = NodeLink.objects.get_or_create(first=pair[0], second=pair[1])
    path = path_of(pair, pool_setting_get())
    link.order = {
        "id": new_id(), "sent_s": time.time(), "path": path,
        "network": 0 if path["network"] == NetworkKind.HOSTS else 1 + secrets.randbelow(NUMBERS - 1),
        "network_port": network_port_draw(pair) if path["network"] in ENCRYPTED else 0,
    }  # fmt: skip
    link.save(update_fields=["order"])
    _send(link, "listen", {}, LISTEN_EXPIRES_S)
    publish_pool("link", {"node": pair[0].name})


def _send(link: NodeLink, role: str, more: dict[str, Any], expires_s: float) -> None:
    node = link.first if role == "listen" else link.second
    own, peer = link.order["path"]["addresses"][:: 1 if role == "listen" else -1]
    request = {
        "request_id": link.order["id"], "role": role, "own": own, "peer": peer, "token": _token(link.order["id"]),
        "network": link.order["network"], "network_port": link.order.get("network_port", 0), **more,
    }  # fmt: skip
    task_send_on_commit("node.link", [request], queue=node_queue(node.name), expires_s=expires_s)


def _token(order_id: str) -> str:
    """Of one order: as good as random for whoever lacks our secret key, and nothing to be stored."""
    # Whatever this module is called: tokens of orders that are under way stay good.
    return salted_hmac("harness.calibration.node_links", order_id, algorithm="sha256").hexdigest()


def link_told(report: dict[str, Any]) -> None:
    """Take in what a node says of an order: that it listens, what was timed, or what went wrong.

    What comes twice, late, or of an order that is over counts not at all.
    """
    with transaction.atomic():
        found = NodeLink.objects.select_for_update(of=("self",)).select_related("first", "second")
        link = found.filter(order__id=str(report.get("request_id") or "-")).first()
        if link is None:
            return
        if "port" in report:
            _listening(link, report)
            return
        _answered(link, report)
        task_send_on_commit("control.calibrate")


def _listening(link: NodeLink, report: dict[str, Any]) -> None:
    port = report["port"]
    if "port" in link.order or isinstance(port, bool) or not isinstance(port, int) or port not in _PORTS:
        return
    link.order = {**link.order, "port": port, "encryption": _encryption(report)}
    link.save(update_fields=["order"])
    _send(link, "connect", {"port": port}, CONNECT_EXPIRES_S)


def _answered(link: NodeLink, report: dict[str, Any]) -> None:
    problem = report.get("problem")
    if problem or report.get("ok") is not True:
        told = problem if isinstance(problem, dict) else {}
        if told.get("code") == "busy":
            link.order, link.again_at = {}, timezone.now() + BUSY_AGAIN
            link.save(update_fields=["order", "again_at"])
        else:
            _fail(link, str(told.get("message") or "The node gave no reason."))
        return
    try:
        figures = _figures(report)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        _fail(link, f"The answer is not a measurement: {error}")
        return
    through, asked = _through(link, report), link.order["path"]["network"]
    if through != asked:
        wanted = NetworkKind(asked).label
        _fail(link, f"It was timed through a network {through.label}, while ranks would have one {wanted}.")
        return
    for field, value in figures.items():
        setattr(link, field, value)
    link.path, link.order, link.measured_at = link.order["path"], {}, timezone.now()
    link.wanted_at, link.again_at, link.failures, link.problem = None, None, 0, ""
    link.save()
    _tell(link)


def _through(link: NodeLink, report: dict[str, Any]) -> NetworkKind:
    """What both nodes say that they timed it through: nodes of an older release encrypt nothing for it."""
    if not link.order["network"]:
        return NetworkKind.HOSTS
    ends = {link.order.get("encryption", ""), _encryption(report)}
    if ends == {str(Encryption.KERNEL)}:
        return NetworkKind.WIREGUARD_KERNEL
    return NetworkKind.WIREGUARD_PROCESS if Encryption.PROGRAM in ends else NetworkKind.VXLAN


def _encryption(report: dict[str, Any]) -> str:
    """What encrypted it on the node that reports; empty where it does not say."""
    return next((str(known) for known in Encryption if known == report.get("encryption")), "")


def _figures(report: dict[str, Any]) -> dict[str, float]:
    """What was timed. Raises `KeyError`, `TypeError`, `ValueError`."""
    limits = {
        "round_trip_s": ROUND_TRIP_MOST_S, "round_trip_noise": NOISE_MOST,
        "bytes_per_s": BYTES_PER_S_MOST, "bytes_noise": NOISE_MOST,
    }  # fmt: skip
    figures = {name: float(report[name]) for name in limits}
    for name, value in figures.items():
        least = 0.0 if name.endswith("noise") else math.ulp(0.0)
        if not least <= value <= limits[name]:
            raise ValueError(f"{name} is {value}")
    return figures


def _fail(link: NodeLink, problem: str) -> None:
    """Count it, and try again later and later; what was timed before stays."""
    link.failures = min(link.failures + 1, 1000)
    wait = min(AGAIN_MOST, AGAIN_FIRST * 2 ** min(link.failures - 1, 10))
    link.order, link.problem, link.again_at = {}, text_plain(problem)[:500], timezone.now() + wait
    if link.failures >= ASKED_FAILURES_MOST:
        link.wanted_at = None
    link.save(update_fields=["failures", "order", "problem", "again_at", "wanted_at"])
    publish_pool("link", {"node": link.first.name})


def _tell(link: NodeLink) -> None:
    """Show it; after the last of several links jobs that wait are estimated with them."""
    publish_pool("link", {"node": link.first.name})
    if pool_setting_get().span_nodes and not _due():
        task_send_on_commit("control.estimates_renew")
