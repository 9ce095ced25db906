"""What waits: tests for a device, jobs for tests."""

from __future__ import annotations

from harness.estimates.models import AskState
from harness.rates.models import RateTest
from harness.rates.sending import rate_test_expire
from harness.rates.services import rate_after, rate_test_try


def rates_advance() -> int:
    """Do what is due; return how many tests still wait."""
    waiting = RateTest.objects.select_related("job__project", "job__dataset", "by").filter(state=AskState.WAITING)
    for test in waiting.order_by("created_at"):
        if test.sent_at is None:
            rate_test_try(test)
            continue
        rate_test_expire(test)
        if test.state != AskState.WAITING:
            rate_after(test)
    return waiting.count()
