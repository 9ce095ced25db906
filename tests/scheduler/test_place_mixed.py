"""Mixtures of unlike devices in a plan: placed as they were offered, or not at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.kinds import mixed_name
from scheduler.place import place
from scheduler.policies import names
from scheduler.types import WaitCode
from tests.scheduler.pools import comes_to_rest, job, node, pool, runs, scene, way

NOW_S = 200.0
policies = st.sampled_from(names())
seeds = st.integers(0, 2**32)


def blend(*, kind="cpu", run_s=100.0, mode="sync", **counts):
    """`blend(A=2, B=1)`: two devices of model A and one of B."""
    parts = tuple(sorted(counts.items()))
    count = sum(counts.values())
    option = way(count, kind=kind, run_s=run_s, model=mixed_name(parts))
    return replace(option, parts=parts, mode=mode)


def two_models(name="n1", *, a=2, b=2, **more):
    models = {f"cpu{index}": "A" if index < a else "B" for index in range(a + b)}
    return node(name, cpus=a + b, models=models, **more)


def models_of(view, device_ids):
    known = {device.device_id: device.model_name for node_ in view.nodes for device in node_.devices}
    return Counter(known[device_id] for device_id in device_ids)


def mixed_scene(seed):
    """`scene` with devices of models A and B, and a mixture among the options of many jobs."""
    jobs, view, quotas = scene(seed)
    random = Random(seed)
    nodes = tuple(
        replace(
            node_,
            devices=tuple(replace(device, model_name=device.model_name or "B") for device in node_.devices),
        )
        for node_ in view.nodes
    )
    mixed = []
    for job_ in jobs:
        if random.random() < 0.6:
            kind = random.choice(["cpu", "cpu", "cuda"])
            some = blend(kind=kind, run_s=random.choice([0.0, 60.0]), A=random.choice([1, 2]), B=random.choice([1, 3]))
            some = replace(some, memory_bytes=random.choice([0, 0, 4 << 30]))
            job_ = replace(job_, options=random.choice([(some,), (some, *job_.options), (*job_.options, some)]))
        mixed.append(job_)
    return mixed, replace(view, nodes=nodes), quotas


@pytest.mark.parametrize("policy", names())
def test_a_mixture_gets_exactly_its_devices_in_the_order_of_its_parts(policy):
    view = pool(two_models(a=3, b=2))
    decision = place([job("j", blend(A=1, B=2))], view, NOW_S, policy=policy)
    (start,) = decision.placements
    assert start.device_ids == ("n1/cpu0", "n1/cpu3", "n1/cpu4")


@pytest.mark.parametrize("policy", names())
def test_a_mixture_that_no_node_has_waits_though_there_are_devices_enough(policy):
    view = pool(two_models(a=4, b=1), two_models("n2", a=1, b=4))
    decision = place([job("j", blend(A=2, B=2))], view, NOW_S, policy=policy)
    assert not decision.placements
    assert decision.waits["j"].code is WaitCode.TOO_MANY_DEVICES
    assert "mixed: 2 A + 2 B" in decision.waits["j"].text


@pytest.mark.parametrize("policy", names())
def test_where_gangs_span_nodes_the_parts_may_lie_apart(policy):
    view = pool(two_models(a=2, b=0), two_models("n2", a=0, b=2), spans=True)
    decision = place([job("j", blend(A=2, B=1))], view, NOW_S, policy=policy)
    (start,) = decision.placements
    assert start.nodes == ("n1", "n2")
    assert models_of(view, start.device_ids) == {"A": 2, "B": 1}


@pytest.mark.parametrize("policy", names())
def test_a_mixture_waits_for_the_part_that_is_held_and_starts_once_it_is_free(policy):
    view = pool(two_models(a=2, b=1))
    holder = runs(job("h", way(1, run_s=50.0, model="B")), "n1", "cpu2")
    waiting = job("j", blend(A=1, B=1), at=1.0)
    held = replace(view, nodes=(replace(view.nodes[0], devices=tuple(
        replace(device, free=device.index != 2) for device in view.nodes[0].devices
    )),))  # fmt: skip
    decision = place([holder, waiting], held, NOW_S, policy=policy)
    assert not decision.placements and "j" in decision.waits
    (start,) = place([waiting], view, NOW_S, policy=policy).placements
    assert start.device_ids == ("n1/cpu0", "n1/cpu2")


@pytest.mark.parametrize("policy", names())
def test_a_job_that_leaves_the_model_open_is_mixed_where_no_model_is_enough(policy):
    view = pool(two_models(a=2, b=2))
    (start,) = place([job("j", way(3, run_s=100.0))], view, NOW_S, policy=policy).placements
    assert len(start.device_ids) == 3


@settings(max_examples=100, deadline=None)
@given(seeds, policies)
def test_every_placed_mixture_is_whole_and_nobody_shares_a_device(seed, policy):
    jobs, view, quotas = mixed_scene(seed)
    decision = place(jobs, view, NOW_S, policy=policy, quotas=quotas)
    by_id = {job_.job_id: job_ for job_ in jobs}
    given_out = Counter(device for start in decision.placements for device in start.device_ids)
    assert max(given_out.values(), default=1) == 1
    for start in decision.placements:
        assert start.option in by_id[start.job_id].options
        assert len(start.device_ids) == start.option.count
        assert tuple(dict.fromkeys(device.split("/")[0] for device in start.device_ids)) == start.nodes
        if start.option.parts:
            assert models_of(view, start.device_ids) == dict(start.option.parts)
    parts = [[start.job_id for start in decision.placements], list(decision.running), list(decision.waits)]
    assert sorted(name for part in parts for name in part) == sorted(by_id)
    assert all(reason.words.endswith(".") for reason in decision.waits.values())


@settings(max_examples=60, deadline=None)
@given(seeds, policies)
def test_decisions_over_mixtures_come_to_rest(seed, policy):
    jobs, view, quotas = mixed_scene(seed)
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas=quotas), "it pauses and starts for ever"
