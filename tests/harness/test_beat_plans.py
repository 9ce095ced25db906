"""What control does every few seconds costs no more with each job that ever ran: its statements read by an index."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from harness.estimates.retention import estimates_retention, probes_watch
from harness.estimates.services import jobs_estimate
from harness.jobs.control.held import held_read
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.retention import samples_thin
from harness.jobs.models import Allocation, JobAttempt, Prediction
from harness.jobs.predictions import predictions_expire
from harness.measuring.learning import jobs_learn
from harness.measuring.ran_out import ran_out_learn
from harness.rates.retention import rates_advance
from tests.harness.jobs.helpers import place_now
from tests.plans import tables_read_whole

pytestmark = pytest.mark.django_db
PARTS = (
    held_read, reconcile, predictions_expire, jobs_learn, ran_out_learn, rates_advance, jobs_estimate,
    estimates_retention, probes_watch, samples_thin,
)  # fmt: skip
GROW = {
    "jobs_job", "jobs_jobattempt", "jobs_prediction", "jobs_resourcesample", "jobs_metricpoint", "jobs_jobevent",
    "jobs_deviceuse", "calibration_finishedjobrow", "calibration_ranoutrow", "estimates_proberow",
    "estimates_jobestimate", "rates_ratetest", "pool_reservation",
}  # fmt: skip
"""Tables with a row or more of each job that ever ran."""


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_no_part_of_the_beat_reads_all_rows_of_a_table_that_grows(
    part: Callable[[], Any], job: Any, node_make: Callable[..., Any], broker: Any, tasks_sent: Any
) -> None:
    node_make()
    place_now(job)
    with tables_read_whole() as found:
        part()
    assert not found & GROW


def test_a_statement_that_no_index_fits_is_found() -> None:
    with tables_read_whole() as found:
        assert not JobAttempt.objects.filter(sends=3).exists()
        assert not Allocation.objects.filter(attempt__sends=3, attempt__ended_at=timezone.now()).exists()
        assert not Prediction.objects.filter(created_at__lt=timezone.now() - timedelta(days=1)).exists()
    assert {"jobs_jobattempt", "jobs_prediction"} <= found
