"""An offer counts the way of the data to nodes that do not have them, as submission then does, and tells it."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from harness.calibration.known import powers_known
from harness.errors import Invalid
from harness.estimates.selectors import offer_priced
from harness.estimates.services import offer_accept
from harness.pool.models import PoolSetting
from harness.rates.submitting import job_submit
from tests.harness.caches import MIB, cached_node, large_make

WAY_S = 600.0
"""Of 6000 MiB at the 10 MiB/s that are assumed."""
WORST_S = 2400.0
"""The upper end of that."""


@pytest.fixture(autouse=True)
def large(dataset):
    return large_make(dataset)


@pytest.fixture
def cached_make(node_make):
    return partial(cached_node, node_make, cpus=1)


def only(offer):
    (line,) = offer_priced(offer).lines
    return line


def test_the_part_is_named_with_its_node_its_size_and_what_it_rests_on(job, cached_make, offered):
    cached_make("far")
    offer = offered(job)
    line = only(offer)
    told = line.bringing
    assert (told.seconds, told.size_bytes, told.node, told.basis) == (WAY_S, 6000 * MIB, "far", "assumed")
    assert (told.low_s, told.high_s) == (150.0, WORST_S)
    assert line.finish_s.mid - line.start_s == pytest.approx(WAY_S + line.estimate.run_s.mid)
    power = powers_known({("cpu", "core")})["cpu", "core"]
    assert line.energy_j.mid == pytest.approx(line.estimate.energy_j.mid + WAY_S * power.idle_w)
    assert line.finish_s.high - line.start_s == pytest.approx(WORST_S + line.estimate.run_s.high)
    assert "of that up to 40 min for its data (assumed), about" in offer_priced(offer).text
    assert any("Data come to node far at 10 MiB/s: that is assumed" in note for note in offer.notes)
    cached_make("far", rates=[60])
    offer = offered(job)
    assert (only(offer).bringing.seconds, only(offer).bringing.basis) == (pytest.approx(100.0), "measured")
    assert not any("Data come to" in note for note in offer.notes)
    cached_make("far", datasets=[job.dataset.sha256])
    assert only(offered(job)).bringing.seconds == 0.0


def test_of_nodes_that_it_may_be_the_one_with_the_longest_way_counts_until_one_is_planned(
    job, cached_make, node_make, offered
):
    node_make("here", cpus=1)
    cached_make("far")
    free = offered(job)
    single = next(line for line in offer_priced(free).lines if line.allocation.count == 1)
    assert (single.bringing.seconds, single.bringing.least_s) == (WAY_S, 0.0)
    assert "up to 40 min for its data (assumed)" in offer_priced(free).text
    asked = offered(job, deadline_at=timezone.now() + timedelta(days=3))
    planned = next(line for line in offer_priced(asked).lines if line.allocation.count == 1)
    assert planned.bringing.seconds == 0.0 and planned.feasible


def test_a_way_on_fewer_devices_of_a_node_without_the_data_is_held_against_the_deadline_as_at_submission(
    job, cached_make, offered
):
    cached_make("far")
    run_s = only(offered(job)).estimate.run_s.high
    soon = offered(job, deadline_at=timezone.now() + timedelta(seconds=run_s + WORST_S / 2))
    assert offer_priced(soon).chosen is None
    taken = offer_accept(user=job.owner, offer=soon, promised=False)
    with pytest.raises(Invalid):
        job_submit(user=job.owner, job=taken)
    later = offered(taken, deadline_at=timezone.now() + timedelta(seconds=run_s + WORST_S + 120))
    assert offer_priced(later).chosen is not None
    done = job_submit(user=job.owner, job=offer_accept(user=job.owner, offer=later))
    assert done.promised_at == done.deadline_at


def test_ways_over_several_nodes_wait_for_the_last_of_them(job, cached_make, offered):
    PoolSetting.objects.update_or_create(pk=1, defaults={"span_nodes": True})
    cached_make("far", address="10.0.0.1")
    cached_make("farther", rates=[1], address="10.0.0.2")
    lines = offer_priced(offered(job)).lines
    assert {line.bringing.node for line in lines} == {"farther"}
    assert {line.bringing.least_s for line in lines} == {WAY_S}


def test_page_api_and_csv_tell_it(job, cached_make, offered, client, people):
    cached_make("far")
    offer = offered(job)
    client.force_login(people.owner)
    words = "up to 40 min, likely 10 min, to bring 5.9 GiB to node far (assumed)"
    assert words in client.get(f"/jobs/{job.pk}/cost/").content.decode()
    (line,) = client.get(f"/api/v1/offers/{offer.pk}").json()["lines"]
    assert {key: line[key] for key in line if key.startswith("data_")} == {
        "data_s": WAY_S, "data_high_s": WORST_S, "data_bytes": 6000 * MIB, "data_node": "far",
        "data_basis": "assumed", "data_words": words,
    }  # fmt: skip
    text = client.get(f"/jobs/{job.pk}/offers/{offer.pk}/lines.csv").getvalue().decode()
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["data s"], row["data upper s"], row["data node"]) == ("600.0", "2400.0", "far")
