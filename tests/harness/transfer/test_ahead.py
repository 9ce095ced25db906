"""Data that came ahead of a run, from the real portal."""

from __future__ import annotations

import pytest

from worker.transfer.ahead import Ahead
from worker.transfer.datasets import Datasets, dataset_name
from worker.transfer.tree import dataset_folder

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent", "quiet_broker")]


def test_a_run_whose_data_came_ahead_fetches_its_program_alone(depot, plan, here):
    name = dataset_name(dataset_folder(plan.dataset_dir))
    datasets = Datasets(depot.cache.root)
    datasets.want([name])
    assert Ahead(depot).step() and datasets.here() == [name]
    brought = depot.run_bring(plan, here, first=True, stopped=lambda: False)
    program = sum(path.stat().st_size for path in here.program.iterdir())
    assert brought.dataset is not None and brought.cached_bytes == brought.dataset.tree.bytes > 0
    assert brought.fetched_bytes == program > 0
    brought.release()
    depot.portal.drop()
