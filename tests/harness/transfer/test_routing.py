"""Predictions need the weights of a run: they are asked of nodes that see the store."""

from __future__ import annotations

import pytest
from django.conf import settings

from harness.errors import Unavailable
from harness.jobs.predictions import WEIGHTS_FILE, prediction_create, program_check

pytestmark = pytest.mark.django_db
CACHE = {"cache": {"used_bytes": 0, "limit_bytes": 1}}


@pytest.fixture
def finished(job):
    weights = settings.STORE.job(job.pk).root / WEIGHTS_FILE
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"w")
    return job


def test_a_node_with_a_cache_checks_programs_but_makes_no_predictions(
    finished, people, node_make, tasks_sent, django_capture_on_commit_callbacks
):
    node_make("node-1", cpus=8, description=CACHE)
    with pytest.raises(Unavailable, match="sees the store"):
        prediction_create(user=people.owner, job=finished, input_name="a.csv", data=b"x\n1\n")
    node_make("node-2", cpus=1)
    with django_capture_on_commit_callbacks(execute=True):
        prediction_create(user=people.owner, job=finished, input_name="a.csv", data=b"x\n1\n")
        program_check(user=people.owner, job=finished)
    assert [(name, queue) for name, _, queue in tasks_sent if name in ("node.predict", "node.check")] == [
        ("node.predict", "node.node-2"),
        ("node.check", "node.node-1"),
    ]


def test_the_pool_page_says_how_full_the_cache_of_a_node_is(people, node_make, client):
    node_make("node-1", description={"cache": {"used_bytes": 3 << 30, "limit_bytes": 50 << 30}})
    node_make("node-2")
    client.force_login(people.admin)
    page = client.get("/pool/").content.decode()
    assert page.count("Own cache") == 1
    assert "3 GiB of 50 GiB" in page and "became damaged" not in page


def test_the_pool_page_says_that_it_is_not_known_how_full_the_cache_of_a_node_is(people, node_make, client):
    node_make("node-1", description={"cache": {"limit_bytes": 50 << 30, "datasets": []}})
    client.force_login(people.admin)
    page = " ".join(client.get("/pool/").content.decode().split())
    assert "Not known now, of 50 GiB" in page and "nor what could not be returned to the store" in page
    assert page.count("of 50 GiB") == 1


def test_the_pool_page_names_a_node_whose_cache_was_damaged(people, node_make, client):
    cache = {"used_bytes": 0, "limit_bytes": 50 << 30, "damages": 2, "damaged_at_s": 1.8e9}
    node_make("node-1", description={"cache": cache})
    client.force_login(people.admin)
    page = " ".join(client.get("/pool/").content.decode().split())
    assert "2 of its contents became damaged within 30 days and were thrown away, the last <time" in page
    assert 'datetime="2027-01-15T08:00:00+00:00"' in page


def test_the_pool_page_says_what_a_node_could_not_return(people, node_make, client):
    cache = {"used_bytes": 9 << 30, "limit_bytes": 50 << 30, "unreturned": 2, "unreturned_bytes": 5 << 30}
    node_make("node-1", description={"cache": cache})
    client.force_login(people.admin)
    page = " ".join(client.get("/pool/").content.decode().split())
    assert "5 GiB of 2 jobs could not be returned to the store yet and are kept" in page
