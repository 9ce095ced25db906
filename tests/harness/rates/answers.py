"""What becomes of a rate test when a node has answered."""

from __future__ import annotations

from typing import Any

from harness.pool.models import Reservation
from harness.rates.models import RateTest
from harness.rates.tasks import rate_range_done
from tests.factory_rates import report_make


def answered(test: RateTest, **more: Any) -> RateTest:
    rate_range_done(report_make(test.pk, **more))
    test.refresh_from_db()
    return test


def reserved() -> bool:
    return Reservation.objects.filter(cancelled_at=None).exists()
