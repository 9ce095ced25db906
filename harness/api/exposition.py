"""The state of the installation as gauges, in the text format of Prometheus, for an admin's own monitoring.

Names have their unit as a suffix (prometheus.io/docs/practices/naming). All projects together: nothing names a job, a
person or a project.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from django.conf import settings
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from harness.errors import Unavailable
from harness.jobs.readers import reading_state
from harness.jobs.selectors import jobs_by_state, oldest_queued_s, promises_at_risk_count
from harness.pool.models import NodeState
from harness.pool.selectors import DeviceUse, NodeRow, pool_overview
from harness.release import release
from harness.store_disk import store_free_bytes

Rows = Iterable[tuple[Sequence[str], float]]
"""Values of the labels, value."""


def exposition() -> bytes:
    """All gauges as they stand now. What broker or store would tell is left out while they do not answer."""
    registry = CollectorRegistry()
    registry.register(_Gauges())
    return generate_latest(registry)


class _Gauges:
    """A collector, as the library calls it."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Every family."""
        yield _gauge("dlh_info", "The release that the portal runs.", [([release()], 1.0)], ("release",))
        yield from _of_jobs()
        yield from _of_nodes(nodes := pool_overview().nodes)
        yield from _of_devices(nodes)
        yield from _of_events()
        yield from _of_store()


def _gauge(name: str, about: str, rows: Rows, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _single(name: str, about: str, value: float) -> GaugeMetricFamily:
    return _gauge(name, about, [([], value)])


def _of_jobs() -> Iterator[GaugeMetricFamily]:
    counts = [([state], float(count)) for state, count in jobs_by_state().items()]
    yield _gauge("dlh_jobs", "Jobs by state, without those in the trash.", counts, ("state",))
    yield _single("dlh_queue_oldest_seconds", "How long the first queued job waits; 0: none.", oldest_queued_s())
    at_risk = promises_at_risk_count()
    yield _single("dlh_promises_at_risk", "Jobs whose promised finish the scheduler warns of.", at_risk)


def _of_nodes(nodes: Iterable[NodeRow]) -> Iterator[GaugeMetricFamily]:
    states = [([node.name, state], float(node.state == state)) for node in nodes for state in NodeState.values]
    yield _gauge("dlh_node_state", "1 for the state that a node is in.", states, ("node", "state"))
    ages = [([node.name], node.heartbeat_age_s) for node in nodes if node.heartbeat_age_s is not None]
    yield _gauge("dlh_node_heartbeat_age_seconds", "Since a node was heard of last.", ages, ("node",))


def _of_devices(nodes: Iterable[NodeRow]) -> Iterator[GaugeMetricFamily]:
    counts: Counter[tuple[str, ...]] = Counter()
    idle_w: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for node in nodes:
        for device in node.devices:
            state = node.use_of(device)
            counts[node.name, device.kind, device.model_name, state] += 1
            if state in (DeviceUse.IDLE, DeviceUse.RESERVED):
                idle_w[node.name, device.kind, device.model_name, device.idle_basis] += device.idle_w
    labels = ("node", "kind", "model")
    yield _gauge("dlh_devices", "Devices, by what they do.", counts.items(), (*labels, "state"))
    yield _gauge(
        "dlh_idle_power_watts", "What free devices draw, and what that rests on.", idle_w.items(), (*labels, "basis")
    )


def _of_events() -> Iterator[GaugeMetricFamily]:
    reading = None
    with suppress(Unavailable):
        reading = reading_state()
    yield _single("dlh_broker_up", "Whether the broker answers.", float(reading is not None))
    if reading is None:
        return
    yield _single("dlh_events_waiting", "Events of runs that control has not taken in yet.", reading.waiting)
    yield _single("dlh_events_behind_seconds", "Age of the oldest of them; 0: none.", reading.behind_s)
    yield _single("dlh_event_readers", "Control processes that took events in lately.", len(reading.readers))


def _of_store() -> Iterator[GaugeMetricFamily]:
    free_bytes = store_free_bytes(settings.STORE)
    yield _single("dlh_store_up", "Whether the store's disk answers.", float(free_bytes is not None))
    if free_bytes is not None:
        yield _single("dlh_store_free_bytes", "Free space on the store's disk.", free_bytes)
