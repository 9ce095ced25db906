"""What waits: tests for a device, jobs for tests."""

from __future__ import annotations

import logging

from django.db.models import Q

from harness.database import DATABASE_AWAY, passes_by_itself
from harness.estimates.models import AskState
from harness.rates.first import rate_after, rate_test_break, rate_test_try
from harness.rates.models import RateTest
from harness.rates.sending import rate_test_call_off, rate_test_expire, rate_test_is_late
from worker.states import JobState

_log = logging.getLogger(__name__)


def rates_advance() -> int:
    """Do what is due; return how many tests still wait."""
    waiting = Q(state=AskState.WAITING)
    # One that has ended is due while its job is not submitted: whoever ended it only looked, or died.
    due = RateTest.objects.select_related("job__project", "job__dataset", "by").filter(waiting | Q(submit=True))
    for test in due.order_by("created_at"):
        try:
            _advance(test)
        except DATABASE_AWAY:
            raise
        except Exception as error:
            # One that cannot go on must not keep all later ones, nor its job for ever.
            test.refresh_from_db()  # what was noted of it before the error may have been taken back
            if passes_by_itself(error) and not rate_test_is_late(test):
                _log.warning("range test %s of job %s cannot go on for now", test.pk, test.job_id, exc_info=True)
            else:
                rate_test_break(test, error)
    return RateTest.objects.filter(waiting).count()


def _advance(test: RateTest) -> None:
    job = test.job
    is_gone = job.state != JobState.DRAFT or job.deleted_at or job.project.deleted_at
    if test.state == AskState.WAITING and test.submit and is_gone:
        rate_test_call_off(test)
        return
    if test.state == AskState.WAITING and test.sent_at is None:
        rate_test_try(test)
        return
    rate_test_expire(test)
    if test.state != AskState.WAITING:
        rate_after(test)
