"""Write nodes, devices and settings of the pool."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.broker import publish_pool, task_send_on_commit
from harness.errors import Conflict, Invalid, NotFound
from harness.plain import text_plain
from harness.pool.devices import device_find, devices_follow
from harness.pool.idle_power import idle_power_keep
from harness.pool.models import Device, NetworkEncryption, Node, NodeState, Policy, PoolSetting
from harness.pool.naming import node_named
from harness.pool.power import power_table_check
from harness.pool.presence import absence_begin, absence_end, absence_until
from harness.pool.reports import CLOCK_OFF, TWINS_AT, clock_settle, report_read, twins_settle
from harness.pool.terms import NODE_NAME
from worker.queues import node_queue_name

HEARTBEAT_LIMIT = timedelta(seconds=20)
"""A node without a heartbeat for this long is down."""
CO2_MAX_G_PER_KWH = 5000.0
DATA_LEAST, DATA_MAX = 0.01, 1e6
"""MiB/s by which data can be taken to come to a node."""
SLOWDOWN_MAX = 100.0
AGENT_ID_MOST = 32
NEAR_MOST = 60
"""Letters of a rack's name."""
_log = logging.getLogger(__name__)


def node_queue(name: str) -> str:
    """Celery queue of one node."""
    return node_queue_name(name)


def pool_setting_get() -> PoolSetting:
    """The one row of settings, made at first use."""
    return PoolSetting.objects.get_or_create(pk=1)[0]


def pool_setting_update(*, user: User, **changes: Any) -> PoolSetting:
    """Change settings of the pool. Raises `Forbidden`, `Invalid`."""
    require_admin(user)
    setting = pool_setting_get()
    for name, value in changes.items():
        _setting_check(name, value)
        setattr(setting, name, value)
    with transaction.atomic():
        setting.save(update_fields=list(changes))
        audit_write(user, "pool_setting_update", "pool", **changes)
        if "power_table" in changes:
            task_send_on_commit("control.estimates_renew")
        task_send_on_commit("control.tick")
    return setting


_SETTING_LIMITS = {"minimum_sandbox_level_own_code": 3, "minimum_sandbox_level_generated": 3, "max_restarts": 100}
_SETTING_CHOICES = {
    "backend": ("horovod", "torch"),
    "policy": tuple(Policy.values),
    "network_encryption": tuple(NetworkEncryption.values),
}


def _setting_check(name: str, value: Any) -> None:
    """Pass for a value that the setting may have. Raises `Invalid`."""
    if name in _SETTING_LIMITS:
        limit = _SETTING_LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise Invalid(f"{name} must be a whole number from 0 to {limit}.", field=name)
    elif name in _SETTING_CHOICES:
        if value not in _SETTING_CHOICES[name]:
            raise Invalid(f"The {name} is one of: {', '.join(_SETTING_CHOICES[name])}.", field=name)
    elif name in {"span_nodes", "own_network"}:
        if not isinstance(value, bool):
            raise Invalid(f"{name} is true or false.", field=name)
    elif name == "co2_g_per_kwh":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= CO2_MAX_G_PER_KWH:
            raise Invalid(f"{name} is grams per kWh, from 0 to {CO2_MAX_G_PER_KWH:.0f}.", field=name)
    elif name == "data_mib_per_s":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not DATA_LEAST <= value <= DATA_MAX:
            raise Invalid(f"{name} is MiB per second, from {DATA_LEAST:g} to {DATA_MAX:,.0f}.", field=name)
    elif name == "power_table":
        power_table_check(value)
    else:
        raise Invalid(f"There is no setting {name}.", field=name)


def node_add(*, user: User, name: str) -> Node:
    """Expect a node; it is up at its agent's first heartbeat. Raises `Forbidden`, `Invalid`, `Conflict`."""
    require_admin(user)
    if not NODE_NAME.fullmatch(name):
        raise Invalid(
            "A node name consists of lower-case letters, digits and hyphens.", field="name", hint="For example node-2."
        )
    node, made = Node.objects.get_or_create(name=name)
    if not made:
        raise Conflict(f"The node {name} is in the pool already.", field="name", hint="Choose another name.")
    audit_write(user, "node_add", name)
    publish_pool("node", {"node": name, "state": node.state})
    return node


def node_drain(*, user: User, name: str) -> Node:
    """Let the node's jobs end and give it no new ones. Raises `Forbidden`, `NotFound`."""
    return _drain_set(user, name, wanted=True)


def node_undrain(*, user: User, name: str) -> Node:
    """Give the node work again. Raises `Forbidden`, `NotFound`."""
    return _drain_set(user, name, wanted=False)


def _drain_set(user: User, name: str, *, wanted: bool) -> Node:
    require_admin(user)
    node = node_named(name)
    old = NodeState.UP if wanted else NodeState.DRAIN
    new = NodeState.DRAIN if wanted else NodeState.UP
    Node.objects.filter(pk=node.pk).update(drain_wanted=wanted)
    if wanted or not _is_amiss(node):
        Node.objects.filter(pk=node.pk, state=old).update(state=new)
    audit_write(user, "node_drain" if wanted else "node_undrain", name)
    node.refresh_from_db()
    publish_pool("node", {"node": name, "state": node.state})
    task_send_on_commit("control.tick")
    return node


def node_near_set(*, user: User, name: str, near: str) -> Node:
    """Say in which rack, or at which switch, a node is; empty: nobody knows. It holds for what starts from now on.

    Raises `Forbidden`, `NotFound`, `Invalid`.
    """
    require_admin(user)
    near = near.strip()
    if len(near) > NEAR_MOST or not near.isprintable():
        raise Invalid(f"A rack name must be one line of at most {NEAR_MOST} characters.", field="near")
    with transaction.atomic():
        node = node_named(name)
        Node.objects.filter(pk=node.pk).update(near=near)
        node.near = near
        audit_write(user, "node_near_set", name, near=near)
        task_send_on_commit("control.tick")
    publish_pool("node", {"node": name, "state": node.state})
    return node


def device_slow(*, user: User, node: str, kind: str, index: int, factor: float) -> Device:
    """Declare a device `factor` times as slow as it is, for runs that start from now on; 1 takes it back.

    For machines without unlike devices: ranks on it are slowed down, and whatever shows it says so.
    Raises `Forbidden`, `NotFound`, `Invalid`.
    """
    require_admin(user)
    if isinstance(factor, bool) or not 1.0 <= factor <= SLOWDOWN_MAX:
        raise Invalid(f"A device is declared 1 to {SLOWDOWN_MAX:g} times as slow.", field="factor")
    with transaction.atomic():
        device = device_find(node_named(node), kind, index)
        if device is None:
            raise NotFound(f"{node} has no device {kind}:{index}.", hint="See the pool page for its devices.")
        Device.objects.filter(pk=device.pk).update(slowdown=factor)
        device.slowdown = factor
        audit_write(user, "device_slow", f"{node} {kind}:{index}", factor=factor)
        task_send_on_commit("control.estimates_renew")
    publish_pool("node", {"node": node, "state": device.node.state})
    return device


def _is_amiss(node: Node) -> bool:
    """Nothing new is started there: what is sent to a clock that is off may be out of date there, starts, of one job
    after the other; and of two machines nobody knows which one takes it."""
    return CLOCK_OFF in node.description or TWINS_AT in node.description


def node_report(report: dict[str, Any]) -> Node | None:
    """Take in a heartbeat of an agent: the node joins, its devices follow what it says. Idempotent.

    A report that makes no sense is logged and dropped: agents of other versions must not stop control. So is one of an
    agent that has left: two processes may take its last report and its last word, in any order.
    """
    name = str(report.get("name", ""))
    if not NODE_NAME.fullmatch(name):
        _log.warning("dropped the report of a node with a bad name: %r", name[:80])
        return None
    try:
        told, devices, readings = report_read(report)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        _log.warning("dropped a report of the node %s: %s: %s", name, type(error).__name__, error)
        return None
    with transaction.atomic():
        node, made = Node.objects.select_for_update().get_or_create(name=name)
        agent_id = _agent_id(report.get("agent_id"))
        if node.agent_left and node.agent_left == agent_id:
            _log.info("dropped a report of the node %s that its agent sent before it left", name)
            return None
        before = NodeState.DOWN if made else NodeState(node.state)
        clock_settle(told, node)
        twins_settle(told, node, agent_id)
        for field, value in told.items():
            setattr(node, field, value)
        rests = node.drain_wanted or _is_amiss(node)
        node.state = NodeState.DRAIN if rests else NodeState.UP
        is_first, node.heartbeat_at = node.heartbeat_at is None, timezone.now()
        node.save()
        if before == NodeState.DOWN:
            absence_end(node, node.heartbeat_at)
        if is_first and not made:  # an admin had named it
            absence_until(node, node.created_at, node.heartbeat_at)
        changed = devices_follow(node, devices, node.heartbeat_at)
        idle_power_keep(node, readings, node.heartbeat_at)
        if changed or before != node.state:
            publish_pool("node", {"node": name, "state": node.state})
            task_send_on_commit("control.tick")
    return node


def is_heard(node: Node) -> bool:
    """Whether its agent lives, as far as its newest heartbeat tells; as in `nodes_mark_down`."""
    return node.heartbeat_at is not None and abs(timezone.now() - node.heartbeat_at) < HEARTBEAT_LIMIT


def nodes_mark_down(now: datetime) -> list[str]:
    """Mark nodes without a fresh heartbeat as down; return the names of those that just went.

    `now`: when the caller last knew that nodes can be heard. It may have stood still since then.
    """
    # A heartbeat to come is one from before the clock was set back.
    silent = Q(heartbeat_at__lt=now - HEARTBEAT_LIMIT) | Q(heartbeat_at__gt=now + HEARTBEAT_LIMIT)
    return [node.name for node in Node.objects.filter(silent) if _mark_down(node, silent)]


def node_leave(name: str, agent_id: str = "") -> None:
    """Start nothing more on a node that ends its runs: what it says next would send them back to it.

    `agent_id`: of the agent whose last word it is. What it reported and another process reads after that, or reads
    already, does not bring the node back.
    """
    node = Node.objects.filter(name=name).first()
    if node is None:
        return
    if agent_id:
        Node.objects.filter(pk=node.pk).update(agent_left=_agent_id(agent_id))  # before it is down: to stay so
    _mark_down(node)


def _agent_id(told: Any) -> str:
    """As it is kept; empty of an agent of an earlier release."""
    return text_plain(str(told or ""))[:AGENT_ID_MOST]


def _mark_down(node: Node, *still: Q) -> bool:
    """Returns False where it was down, or where `still` does not hold any more."""
    rows = Node.objects.filter(*still, pk=node.pk).exclude(state=NodeState.DOWN)
    if not rows.update(state=NodeState.DOWN):
        return False
    absence_begin(node)
    publish_pool("node", {"node": node.name, "state": NodeState.DOWN.value})
    return True
