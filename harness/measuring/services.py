"""Start and stop sweeps. Raises `HarnessError` for everything that cannot be done."""

from __future__ import annotations

import math
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.broker import task_send_on_commit
from harness.calibration.holding import devices_hold
from harness.calibration.models import OPEN, CalibrationRun, RunState
from harness.calibration.plans import points_known, run_plan
from harness.calibration.states import run_move, run_tell
from harness.errors import Conflict, HarnessError, Invalid, NotFound, Unavailable
from harness.measuring.node_links import links_renew
from harness.measuring.requests import requests_remove
from harness.measuring.sweep import sweep_before
from harness.pool.models import Device, DeviceKind, Node, NodeState
from harness.pool.naming import node_named

BUDGET_DEFAULT_S = 600.0
BUDGET_LEAST_S, BUDGET_MOST_S = 10.0, 24 * 3600.0


def calibration_start(
    *,
    user: User,
    node: str = "",
    kind: str = DeviceKind.CPU,
    model_name: str = "",
    budget_s: float = BUDGET_DEFAULT_S,
) -> CalibrationRun:
    """Begin a sweep of one model of device on a node (without names: the one node that is up and has them, the one
    model that it has of the kind).

    Its devices take no new jobs until it ends; jobs that run there end in peace first. It waits for another sweep of
    the node. What was measured before is not measured again, but for the links to the other nodes, which are timed
    after it. Raises `Forbidden`, `NotFound`, `Invalid`, `Conflict`, `Unavailable`.
    """
    require_admin(user)
    _check(kind, budget_s)
    found = _node(node, kind, model_name)
    return _begin(user, found, kind, _model_name(found, kind, model_name), budget_s)


def calibrations_start(
    *, user: User, kind: str = DeviceKind.CPU, budget_s: float = BUDGET_DEFAULT_S
) -> list[CalibrationRun]:
    """Begin a sweep of every model of a kind in the pool that none is under way for, each on the node that has most.

    All or none; sweeps on one node follow each other, `budget_s` each. Raises as `calibration_start`.
    """
    require_admin(user)
    _check(kind, budget_s)
    there = Device.objects.filter(kind=kind, away_since=None, node__state=NodeState.UP).exclude(model_name="")
    found = (
        there.values("model_name", "node").annotate(count=Count("pk")).order_by("model_name", "-count", "node__name")
    )
    nodes: dict[str, str] = {}
    for row in found:
        nodes.setdefault(row["model_name"], row["node"])
    if not nodes:
        raise _none_up(kind, "")
    open_names = set(CalibrationRun.objects.filter(kind=kind, state__in=OPEN).values_list("model_name", flat=True))
    wanted = {name: pk for name, pk in nodes.items() if name not in open_names}
    if not wanted:
        raise Conflict(f"Calibrations of all {kind} devices are under way.", hint="Wait until they end.")
    with transaction.atomic():
        return [_begin(user, Node.objects.get(pk=pk), kind, name, budget_s) for name, pk in wanted.items()]


def _begin(user: User, node: Node, kind: str, model_name: str, budget_s: float) -> CalibrationRun:
    try:
        with transaction.atomic():
            run = CalibrationRun.objects.create(
                node=node, node_name=node.name, kind=kind, model_name=model_name, budget_s=budget_s,
                started_by=user, message="Waits for idle devices.",
            )  # fmt: skip
            planned = {item.point_id for item in run_plan(run)}
            run.planned, run.before = len(planned), len(points_known(run) & planned)
            run.save(update_fields=["planned", "before"])
            if sweep_before(run) is None:
                devices_hold(run)
            audit_write(user, "calibration_start", node.name, kind=kind, model=model_name, budget_s=budget_s)
            links_renew(node)
            run_tell(run)
            task_send_on_commit("control.calibrate")
    except IntegrityError as error:
        raise Conflict(
            f"A calibration of {kind} {model_name} on {node.name} is under way.",
            hint="Wait until it ends, or stop it first.",
        ) from error
    return run


def calibration_stop(*, user: User, run_id: str) -> CalibrationRun:
    """End a sweep now; what it has measured stays. Raises `Forbidden`, `NotFound`, `Conflict` where it has ended."""
    require_admin(user)
    with transaction.atomic():
        run = CalibrationRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None:
            raise NotFound("There is no such calibration.", hint="The page Calibration shows the newest ones.")
        if run.state not in OPEN or not run_move(run, RunState.STOPPED, message=f"Stopped by {user.username}."):
            raise Conflict("This calibration has ended.", hint="Its points and its model are kept.")
        audit_write(user, "calibration_stop", run.node_name, run=run.pk)
        if run.measured > run.fitted_points:
            task_send_on_commit("control.calibration_fit", [run.kind, run.model_name, run.pk])
    requests_remove(run.pk)
    return run


def _check(kind: str, budget_s: Any) -> None:
    if kind not in DeviceKind.values:
        raise Invalid(
            f"There is no kind of device {kind[:40]!r}.", field="kind", hint=f"Use {' or '.join(DeviceKind.values)}."
        )
    if not math.isfinite(budget_s) or not BUDGET_LEAST_S <= budget_s <= BUDGET_MOST_S:
        raise Invalid(
            f"The budget is from {BUDGET_LEAST_S:.0f} s to {BUDGET_MOST_S / 3600:.0f} h.",
            field="budget_s",
            hint="Ten minutes measure about 200 points on a core.",
        )


def _none_up(kind: str, model_name: str) -> HarnessError:
    """Why there is nothing to measure: waiting helps only where the pool has such a device on a node that is down."""
    what, there = f"{kind} {model_name}".strip(), Device.objects.filter(kind=kind)
    if (there.filter(model_name=model_name) if model_name else there).exists():
        return Unavailable(f"No node that is up has a device of the kind {what}.", hint="See the pool page.")
    field = "model_name" if model_name else "kind"
    told = f"The pool has no device of the kind {what}."
    return Invalid(told, field=field, hint="The pool page shows what there is.")


def _node(name: str, kind: str, model_name: str) -> Node:
    """The node of that name; without one the only node that is up and has such devices."""
    if name:
        found = node_named(name, field="node")
        if found.state == NodeState.DOWN:
            raise Unavailable(f"{name} is down.", hint="Start its agent first.")
        return found
    wanted = Device.objects.filter(kind=kind, away_since=None, node__state=NodeState.UP)
    having = wanted.filter(model_name=model_name) if model_name else wanted
    up = list(Node.objects.filter(pk__in=having.values("node")).order_by("name"))
    if not up:
        raise _none_up(kind, model_name)
    if len(up) > 1:
        what = f"{kind} {model_name}".strip()
        names = ", ".join(node.name for node in up)
        raise Invalid(f"Several nodes have {what} devices: {names}.", field="node", hint="Name one of them.")
    return up[0]


def _model_name(node: Node, kind: str, wanted: str) -> str:
    """The wanted model, which the node has; without a wish the only one that it has of the kind."""
    devices = node.devices.filter(kind=kind, away_since=None).exclude(model_name="")
    there = sorted(set(devices.values_list("model_name", flat=True)))
    if not there:
        raise Invalid(
            f"{node.name} has no device of the kind {kind} that tells its name.",
            field="kind",
            hint="The pool page shows what it has.",
        )
    if wanted and wanted not in there:
        raise Invalid(
            f"{node.name} has no {kind} device {wanted[:120]!r}.",
            field="model_name",
            hint=f"It has {', '.join(there)}.",
        )
    if not wanted and len(there) > 1:
        raise Invalid(
            f"{node.name} has {kind} devices of several models: {', '.join(there)}.",
            field="model_name",
            hint="Name one of them, or have every model calibrated.",
        )
    return wanted or there[0]
