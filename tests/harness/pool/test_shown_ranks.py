"""Which rank the pool shows on a device that a job holds."""

from __future__ import annotations

from typing import Any

import pytest

from harness.jobs.models import Allocation
from harness.pool.selectors import pool_overview
from tests.harness.jobs.helpers import place_now

pytestmark = pytest.mark.django_db


def ranks() -> list[int | None]:
    return [device.rank for node in pool_overview().nodes for device in node.devices]


def test_a_device_of_a_gang_that_got_no_rank_shows_none(
    node_make: Any, job_make: Any, django_assert_num_queries: Any
) -> None:
    node_make("node-1", cpus=3)
    place_now(job_make(mode="sync", resources={"device": "cpu", "count": 2}))
    assert ranks() == [0, 1, None]
    Allocation.objects.filter(rank=1).update(rank=2)  # beyond all that its plan has
    with django_assert_num_queries(6):
        assert ranks() == [0, None, None]
