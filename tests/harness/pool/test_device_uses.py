"""Every device does exactly one thing, so that what an admin is told of them adds up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.pool.models import NodeState
from harness.pool.selectors import DeviceRow, DeviceUse, NodeRow, PoolOverview

DEVICES = st.builds(
    DeviceRow,
    id=st.just("d"),
    kind=st.sampled_from(["cpu", "cuda"]),
    index=st.just(0),
    model_name=st.just("model"),
    slowdown=st.sampled_from([1.0, 2.0]),
    memory_bytes=st.just(1 << 30),
    job_id=st.sampled_from([None, "job"]),
    job_name=st.none(),
    project_id=st.none(),
    rank=st.none(),
    reserved=st.sampled_from(["", "maintenance"]),
    away_s=st.sampled_from([None, 60.0]),
)
NODES = st.builds(
    NodeRow,
    name=st.just("node-1"),
    state=st.sampled_from(NodeState.values),
    drain_wanted=st.booleans(),
    cpu_cores=st.just(4),
    memory_bytes=st.just(1 << 30),
    sandbox_level=st.just(3),
    sandbox_reason=st.just(""),
    description=st.just({}),
    heartbeat_age_s=st.none(),
    address=st.just(""),
    near=st.just(""),
    check=st.just({}),
    devices=st.lists(DEVICES, max_size=6).map(tuple),
)


@given(st.lists(NODES, max_size=4).map(tuple))
def test_what_devices_do_adds_up_to_all_of_them(nodes: tuple[NodeRow, ...]) -> None:
    pool = PoolOverview(nodes=nodes)
    assert pool.busy + pool.free + pool.reserved + pool.away == pool.devices
    counted = Counter(node.use_of(device) for node in nodes for device in node.devices)
    told = {DeviceUse.BUSY: pool.busy, DeviceUse.IDLE: pool.free, DeviceUse.RESERVED: pool.reserved}
    kinds = pool.kinds
    assert [sum(getattr(row, use) for row in kinds) for use in DeviceUse] == [counted[use] for use in DeviceUse]
    assert sum(row.devices for row in kinds) == pool.devices
    assert len({(row.kind, row.name) for row in kinds}) == len(kinds) <= 4
    assert all(counted[use] == count for use, count in told.items()) and counted[DeviceUse.AWAY] == pool.away


@given(NODES)
def test_only_what_nothing_stands_against_is_free(node: NodeRow) -> None:
    free = [device for device in node.devices if node.use_of(device) is DeviceUse.IDLE]
    assert all(
        node.state == NodeState.UP and device.job_id is None and device.away_s is None and not device.reserved
        for device in free
    )
    assert all(node.use_of(device) is DeviceUse.BUSY for device in node.devices if device.job_id)
