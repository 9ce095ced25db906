"""A weights file that jobs start from has its copy in the object store, and comes back from there."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bucket.mirror import mirror_pass
from harness.datasets.weights import weights_delete
from harness.errors import Unavailable
from harness.jobs.control.contents import content_purge
from harness.transfer.trees import tree_get
from tests.factory_weights import safetensors, weights_make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent", "bucket")]


@pytest.fixture
def mine(people: SimpleNamespace) -> Any:
    made = weights_make(people.owner, people.project)
    assert mirror_pass()
    return made


def test_a_file_that_was_lost_comes_back_for_the_node_that_fetches_it(mine: Any, store: Any, node_make: Any) -> None:
    folder, node = f"datasets/{mine.sha256}/packed", node_make("node-1")
    shutil.rmtree(store.root / folder)
    with pytest.raises(Unavailable, match="being restored from its copy"):
        tree_get(folder, node)
    assert mirror_pass()
    (file,) = tree_get(folder, node).files
    assert (file.name, file.sha256) == ("weights.safetensors", mine.sha256)
    assert (store.root / folder / file.name).read_bytes() == safetensors()


def test_a_file_that_was_deleted_goes_from_the_object_store_too(mine: Any, people: Any, bucket: Any) -> None:
    assert f"{mine.sha256}.json" in " ".join(bucket.names("units"))
    weights_delete(user=people.owner, weights=mine)
    assert content_purge(mine.sha256) and mirror_pass()
    assert not list(bucket.names("units"))
