"""Routes: the pool, its settings, health."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import Field
from redis import RedisError

from harness.accounts.access import require_admin, visible_projects
from harness.accounts.models import User
from harness.api.auth import person
from harness.api.document import media
from harness.api.exposition import exposition
from harness.api.schemas.base import Done, Items
from harness.api.schemas.pool import (
    DeviceOut,
    HealthOut,
    LinkOut,
    LinksIn,
    LinksOut,
    NearIn,
    NodeIn,
    NodeOut,
    ObjectStoreOut,
    PaceOut,
    PoolOut,
    PoolSettingsIn,
    PoolSettingsOut,
    PowerOut,
    ReadingOut,
    SlowdownIn,
)
from harness.broker import client
from harness.bucket.status import bucket_status
from harness.calibration.known import pool_powers
from harness.calibration.paces_told import PaceTold, paces_told
from harness.jobs.readers import reading_state, standstill
from harness.jobs.selectors import jobs_queued_count
from harness.measuring.node_links import links_want
from harness.pool import removing, selectors, services
from harness.pool.links import link_list
from harness.pool.models import Node, NodeState
from harness.release import release
from scheduler.estimation.device_parts import PowerModel

router = Router()
health_router = Router()
_NODE = (
    *("name", "state", "drain_wanted", "cpu_cores", "memory_bytes", "sandbox_level", "sandbox_reason", "description"),
    *("heartbeat_age_s", "address", "near", "check"),
)


def _node_out(node: selectors.NodeRow, seen: set[str], paces: Iterable[PaceTold]) -> NodeOut:
    devices = []
    for device in node.devices:
        named = device.project_id in seen
        devices.append(
            DeviceOut(
                kind=device.kind,
                index=device.index,
                model_name=device.model_name,
                memory_bytes=device.memory_bytes,
                busy=device.job_id is not None,
                job_id=device.job_id if named else None,
                job_name=device.job_name if named else None,
                rank=device.rank if named else None,
                slowdown=device.slowdown,
                away_s=device.away_s,
                idle_w=device.idle_w,
                idle_basis=device.idle_basis,
            )
        )
    told = [PaceOut(**{name: getattr(pace, name) for name in PaceOut.model_fields}) for pace in paces]
    return NodeOut(devices=devices, paces=told, **{name: getattr(node, name) for name in _NODE})


def _pool_out(user: User) -> PoolOut:
    overview, paces = selectors.pool_overview(), paces_told()
    seen = set(visible_projects(user).values_list("pk", flat=True))
    return PoolOut(
        nodes=[_node_out(node, seen, paces.get(node.name, ())) for node in overview.nodes],
        links=[LinkOut(**vars(link)) for link in link_list()],
        devices=overview.devices,
        busy=overview.busy,
        free=overview.free,
        reserved=overview.reserved,
        away=overview.away,
        queued=jobs_queued_count(),
    )


def _one(user: User, name: str) -> NodeOut:
    return next(node for node in _pool_out(user).nodes if node.name == name)


@router.get("", response=PoolOut, summary="The pool")
def pool(request: HttpRequest) -> PoolOut:
    """Nodes, devices and who holds them. Jobs of projects that the caller does not see stay nameless."""
    return _pool_out(person(request))


@router.post("/links", response={202: LinksOut}, summary="Time the links between nodes")
def links_measure(request: HttpRequest, body: LinksIn) -> Status[Any]:
    """Have links timed anew, one after the other, as soon as their two nodes are idle. For admins."""
    return Status(202, LinksOut(links=links_want(user=person(request), node=body.node)))


@router.post("/nodes", response={201: NodeOut}, summary="Expect a node")
def node_add(request: HttpRequest, body: NodeIn) -> Status[Any]:
    """Add a node by name; it is up once its agent reports. For admins."""
    user = person(request)
    return Status(201, _one(user, services.node_add(user=user, name=body.name).name))


@router.post("/nodes/{name}/drain", response=NodeOut, summary="Drain a node")
def node_drain(request: HttpRequest, name: str) -> NodeOut:
    """Let its jobs end and give it no new ones. For admins."""
    user = person(request)
    return _one(user, services.node_drain(user=user, name=name).name)


@router.post("/nodes/{name}/undrain", response=NodeOut, summary="Undrain a node")
def node_undrain(request: HttpRequest, name: str) -> NodeOut:
    """Give the node work again. For admins."""
    user = person(request)
    return _one(user, services.node_undrain(user=user, name=name).name)


@router.put("/nodes/{name}/near", response=NodeOut, summary="Name a node's rack")
def node_near_set(request: HttpRequest, name: str, body: NearIn) -> NodeOut:
    """Runs on several nodes stay within one rack where it has devices enough. Empty: nobody knows. For admins."""
    user = person(request)
    return _one(user, services.node_near_set(user=user, name=name, near=body.near).name)


@router.put("/nodes/{name}/devices/{kind}/{index}/slowdown", response=NodeOut, summary="Slow a device down")
def device_slow(request: HttpRequest, name: str, kind: str, index: int, body: SlowdownIn) -> NodeOut:
    """Emulate a slower device: ranks that start on it from now on take `factor` times as long. 1 ends it. For admins.

    Wherever the device is shown it is said to be emulated.
    """
    user = person(request)
    services.device_slow(user=user, node=name, kind=kind, index=index, factor=body.factor)
    return _one(user, name)


@router.delete("/nodes/{name}", response=Done, summary="Remove a node")
def node_remove(
    request: HttpRequest,
    name: str,
    force: Annotated[
        bool, Query(), Field(description="Also where it has results to return, which are lost with it.")
    ] = False,
) -> Done:
    """Take a node without jobs out of the pool. For admins."""
    removing.node_remove(user=person(request), name=name, force=force)
    return Done()


@router.get("/power", response=Items[PowerOut], summary="Watts of devices")
def power(request: HttpRequest) -> dict[str, Any]:
    """What one device of each model draws, as offers and bills count it where no meter is read during a run."""
    person(request)
    found = pool_powers()
    return {"items": [PowerOut(kind=kind, model=name, **_watts(known)) for (kind, name), known in found.items()]}


def _watts(known: PowerModel) -> dict[str, Any]:
    return {name: getattr(known, name) for name in ("idle_w", "busy_w", "basis", "idle_basis", "source")}


@router.get("/settings", response=PoolSettingsOut, summary="Settings of the pool")
def settings_get(request: HttpRequest) -> Any:
    """What everyone may read."""
    return services.pool_setting_get()


@router.patch("/settings", response=PoolSettingsOut, summary="Change settings of the pool")
def settings_update(request: HttpRequest, body: PoolSettingsIn) -> Any:
    """Settings left out stay as they are. For admins."""
    return services.pool_setting_update(user=person(request), **body.model_dump(exclude_none=True))


@router.get("/object-store", response=ObjectStoreOut, summary="The copy in the object store")
def object_store(request: HttpRequest) -> ObjectStoreOut:
    """How it stands, as the last pass left it; the object store itself is not asked. For admins."""
    require_admin(person(request))
    found = bucket_status()
    return ObjectStoreOut(used=False) if found is None else ObjectStoreOut(used=True, **asdict(found))


@router.get("/readers", response=ReadingOut, summary="The reading of events")
def readers(request: HttpRequest) -> Any:
    """How far control is with what runs say, and which of its processes read. For admins."""
    require_admin(person(request))
    return reading_state()


@health_router.get("/metrics", response={200: None}, summary="Gauges for Prometheus", openapi_extra=media("text/plain"))
def metrics(request: HttpRequest) -> HttpResponse:
    """Jobs by state, nodes, devices, the reading of events, free disk: text in Prometheus' format, for a read token.

    All projects together; no job, person or project is named.
    """
    person(request)
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _answers(check: Any) -> bool:
    try:
        check()
    except (DatabaseError, RedisError, OSError):
        return False
    return True


@health_router.get("/health", auth=None, response={200: HealthOut, 503: HealthOut}, summary="Health")
def health(request: HttpRequest) -> Status[Any]:
    """Whether database and broker answer, for load balancers. Needs no sign-in and names nothing."""
    database = _answers(connection.ensure_connection)
    broker = _answers(client().ping)
    nodes_up = Node.objects.filter(state=NodeState.UP).count() if database else 0
    ok = database and broker
    stands = standstill() if ok else None
    return Status(
        200 if ok else 503,
        HealthOut(
            ok=ok, version=release(), time_s=time.time(), database=database, broker=broker,
            control=ok and stands is None, full=stands.full if stands else "", nodes_up=nodes_up,
        ),
    )  # fmt: skip
