"""GPUs of nodes whose Horovod has no NCCL: their agents say so, and offers price sums through the hosts."""

from __future__ import annotations

import pytest

from harness.calibration.known import device_model
from harness.estimates.selectors import offer_priced
from harness.pool.models import PoolSetting
from harness.pool.services import node_drain, pool_setting_get
from harness.pool.sums import nodes_by_host
from scheduler.estimation.prior import HOST_LINK


@pytest.fixture
def gpus_make(node_make):
    """A node of two GPUs that says what its Horovod was built with."""

    def make(name: str, **told: bool) -> None:
        node_make(name, cpus=1, gpus=2, description=told)

    return make


def note_of(offer, count):
    found = (
        line for line in offer_priced(offer).lines if (line.allocation.kind, line.allocation.count) == ("cuda", count)
    )
    return next(line.estimate.note for line in found if line.allocation.mode != "pipeline")


def test_an_offer_of_several_gpus_names_the_node_and_one_of_a_single_gpu_does_not(job, gpus_make, offered):
    gpus_make("a", horovod_nccl=True)
    gpus_make("b", horovod_nccl=False)
    offer = offered(job)
    words = "through the memory of the hosts (Horovod has no NCCL on b)"
    assert words in note_of(offer, 2) and "hosts" not in note_of(offer, 1)
    (told,) = (note for note in offer.notes if "through the memory of the hosts" in note)
    assert told.startswith("Several GPUs (gpu) add up") and "Horovod has no NCCL on b" in told
    assert device_model("cuda", "gpu").host_link == HOST_LINK
    assert device_model("cpu", "core").host_link is None


def test_where_all_have_it_or_do_not_say_sums_go_from_gpu_to_gpu(job, gpus_make, offered):
    gpus_make("a", horovod_nccl=True)
    gpus_make("old")
    offer = offered(job)
    assert nodes_by_host(pool_setting_get()) == {} and "hosts" not in note_of(offer, 2)
    assert not any("hosts" in note for note in offer.notes)


def test_several_such_nodes_are_counted_and_those_that_take_no_work_are_not(gpus_make, people):
    for name in ("a", "b", "c"):
        gpus_make(name, horovod_nccl=False)
    assert nodes_by_host(pool_setting_get()) == {"gpu": ("a", "b", "c")}
    assert device_model("cuda", "gpu").host_why == "Horovod has no NCCL on a and 2 other nodes"
    node_drain(user=people.admin, name="b")
    assert nodes_by_host(pool_setting_get()) == {"gpu": ("a", "c")}


def test_torch_distributed_brings_an_nccl_of_its_own(gpus_make):
    gpus_make("a", horovod_nccl=False)
    PoolSetting.objects.update_or_create(pk=1, defaults={"backend": "torch"})
    assert nodes_by_host(pool_setting_get()) == {}
