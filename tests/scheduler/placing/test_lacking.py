"""Why no node has what a job waits for: devices not seen or declared otherwise, and nodes that would not do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.place import place
from tests.scheduler.pools import job, node, pool, way

SLOW = "core, declared 3 times as slow"
OFFER = "or take other devices by an offer: tab Cost, dlh jobs offer."


def told(view, *options, level=0):
    return place([job("a", *options, minimum_sandbox_level=level)], view, 0.0, policy="fifo").waits["a"]


def test_a_job_whose_devices_were_declared_slower_is_told_that_and_what_gives_it_others():
    models = {"cpu0": SLOW, "cpu1": SLOW}
    waits = told(pool(node(cpus=2, models=models)), way(1, model="core"))
    assert waits.text == f"No node that takes work has a CPU core (core). n1 has 2 CPU cores ({SLOW}) now."
    back = "an admin declares those of n1 as they were (Pool, dlh pool slow)"
    assert waits.remedy == f"It starts when {back}, or such a node is up; {OFFER}"
    full_speed = told(pool(node(cpus=2, models={"cpu0": "core", "cpu1": "core"})), way(1, model=SLOW))
    assert "n1 has 2 CPU cores (core) now." in full_speed.text and back in full_speed.remedy


def test_a_gang_that_lost_one_device_to_a_declaration_is_told_so_where_that_is_what_it_lacks():
    view = pool(node(cpus=2, models={"cpu0": "core", "cpu1": SLOW}))
    waits = told(view, way(2, model="core"))
    assert waits.text == (
        f"It needs 2 CPU cores (core) on one node; the only node that takes work has 1. n1 has 1 CPU core ({SLOW}) now."
    )
    assert "as they were (Pool, dlh pool slow), or a larger node is up; or clone it" in waits.remedy
    assert SLOW not in told(view, way(3, model="core")).text, "it would not do"
    assert SLOW not in told(view, way(1, model="other")).text, "it is another model"


@pytest.mark.parametrize("spans", [False, True])
def test_a_gpu_that_its_node_does_not_see_is_told_as_that(spans):
    one = replace(node(cpus=1), unseen=(("cuda", "A100"),))
    waits = told(pool(one, spans=spans), way(1, kind="cuda", model="A100"))
    assert waits.text == "No node that takes work has a GPU (A100). n1 does not see 1 GPU (A100) of its own now."
    assert waits.remedy == f"It starts when n1 sees it again, or such a node is up; {OFFER}"
    two = replace(node(cpus=1), unseen=(("cuda", "A100"), ("cuda", "A100")))
    assert told(pool(two, spans=spans), way(2, kind="cuda")).remedy.startswith("It starts when n1 sees them again, or")
    assert "n1" not in told(pool(one, spans=spans), way(2, kind="cuda")).words, "it would not do"


@pytest.mark.parametrize(
    ("weak", "level", "why"),
    [
        ({"memory_gib": 8}, 0, "too little memory: the job asks for 12 GiB"),
        ({"level": 1}, 3, "too weak a sandbox for this program, which needs level 3"),
    ],
)
def test_a_node_that_is_down_and_could_not_run_it_is_not_waited_for(weak, level, why):
    down = node("n2", cpus=0, gpus=1, takes_work=False, **weak)
    wish = way(1, kind="cuda", memory_gib=12)
    waits = told(pool(down), wish, level=level)
    assert waits.text == f"No node takes work. n2 is down. n2 has {why}."
    assert waits.remedy.startswith("It starts when another node with 1 GPU is up.")
    waits = told(pool(node(), down), wish, level=level)
    assert waits.text == f"No node that takes work has a GPU. n2 is down. n2 has {why}."
    assert waits.remedy == f"It starts when another such node is up; {OFFER}"
    able = node("n3", cpus=0, gpus=1, takes_work=False)
    assert "It starts when n3 is up." in told(pool(down, able), wish, level=level).remedy


def test_a_larger_node_that_is_down_and_has_too_little_memory_is_named_with_that():
    large = node("n2", cpus=4, memory_gib=8, takes_work=False)
    waits = told(pool(node(cpus=2), large), way(4, memory_gib=12))
    assert waits.text.endswith("n2 has too little memory: the job asks for 12 GiB.")
    assert waits.remedy == "It starts when a larger node is up; or clone it with fewer devices."


def test_a_gang_over_several_nodes_needs_of_each_the_memory_of_its_devices_there():
    nodes = [node(f"n{number}", cpus=2, memory_gib=12, takes_work=number == 1) for number in (1, 2)]
    gang = replace(way(4, memory_gib=24), mode="sync")
    assert told(pool(*nodes, spans=True), gang).remedy.startswith("It starts when n2 is up;")
    small = [nodes[0], replace(nodes[1], memory_bytes=2**30)]
    waits = told(pool(*small, spans=True), gang)
    assert "n2 has too little memory" in waits.text and waits.remedy.startswith("It starts when more nodes are up;")


def test_a_node_with_memory_for_some_of_its_devices_is_waited_for_only_if_those_do():
    up = node("n1", cpus=2, memory_gib=16)
    gang = replace(way(4, memory_gib=24), mode="sync")
    for memory_gib, then in ((6, "more nodes are up"), (12, "n2 is up")):
        down = node("n2", cpus=2, memory_gib=memory_gib, takes_work=False)
        assert told(pool(up, down, spans=True), gang).remedy.startswith(f"It starts when {then};")


def test_one_device_that_was_declared_otherwise_is_not_two_of_a_mixture():
    twice = "core, declared 2 times as slow"
    mixture = replace(way(2, model=f"core + {twice}"), parts=(("core", 1), (twice, 1)))
    for cpus, helps in ((1, False), (2, True)):
        models = {f"cpu{number}": SLOW for number in range(cpus)}
        words = told(pool(node(cpus=cpus, models=models)), mixture).words
        assert ("as they were" in words) is helps


def test_a_mixture_that_no_nodes_have_together_is_not_told_that_they_lie_apart():
    nodes = [node(name, cpus=1, models={"cpu0": "X"}) for name in ("n1", "n2")]
    mixture = replace(way(2, model="X + Y"), parts=(("X", 1), ("Y", 1)))
    waits = told(replace(pool(*nodes), apart="They lie apart."), mixture)
    assert waits.text.endswith("on one node; the largest that takes work has 1, all together 1.")
    assert waits.remedy == "It starts when a larger node is up; or clone it with fewer devices."
