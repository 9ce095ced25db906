"""The pool by model of device, as a spec that names one is checked against it."""

from __future__ import annotations

from harness.pool.hardware import hardware
from harness.pool.services import device_slow


def test_each_model_has_the_largest_gang_of_it_alone(node_make, people):
    node_make("node-1", cpus=2, gpus=1)
    node_make("node-2", cpus=6, memory_bytes=32 << 30)
    device_slow(user=people.admin, node="node-2", kind="cpu", index=5, factor=2.0)
    models = hardware().models
    assert set(models) == {"core", "gpu", "core, declared 2 times as slow"}
    assert (models["core"].cpu_cores, models["core"].gpus) == (5, 0)
    assert models["core, declared 2 times as slow"].cpu_cores == 1
    assert (models["gpu"].cpu_cores, models["gpu"].gpus, models["gpu"].gpu_memory_bytes) == (0, 1, 16 << 30)


def test_a_models_memory_is_that_of_the_nodes_that_have_it(node_make):
    node_make("node-1", cpus=2, gpus=1)
    node_make("node-2", cpus=6, memory_bytes=32 << 30)
    found = hardware()
    assert found.cpu_memory_bytes == 32 << 30
    assert found.models["gpu"].cpu_memory_bytes == 16 << 30
    assert found.boundless.models["gpu"].gpu_memory_bytes == found.boundless.cpu_memory_bytes == 0


def test_a_pool_without_nodes_has_no_models(db):
    assert hardware().models == {}
