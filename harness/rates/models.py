"""Range tests, each of one program on one device."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from harness.estimates.models import AskState
from harness.ids import new_id
from harness.jobs.models import Job


class RateTest(models.Model):
    """One range test of a job's program as it was then. The newest few of a job are kept."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="rate_tests")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    state = models.CharField(max_length=8, choices=AskState.choices, default=AskState.WAITING)
    progress = models.FloatField(default=0.0)
    """Share that is done."""
    wish = models.JSONField(default=dict, blank=True)
    """What was asked: `{kind, low, high, trials}`, and `automatic` where nobody did; then `worth`, the draft's
    `harness.rates.automatic.draft_key` when the test was found to be worth its time."""
    program_key = models.CharField(max_length=64, blank=True)
    """`harness.rates.keys.rate_key` of what was tested."""
    batch_size = models.PositiveIntegerField(default=1)
    """Rows of a step."""
    rate = models.FloatField(null=True, blank=True)
    """Peak learning rate that the program's spec names."""
    optimizer = models.CharField(max_length=40, blank=True)
    kind = models.CharField(max_length=8, blank=True)
    model_name = models.CharField(max_length=120, blank=True)
    node_name = models.CharField(max_length=60, blank=True)
    """Empty while no device is idle."""
    reservation = models.CharField(max_length=40, blank=True)
    """Id of what keeps jobs off its device meanwhile."""
    record = models.JSONField(null=True, blank=True)
    """`scheduler.rates.interval.RangeRecord.to_dict()`."""
    found = models.JSONField(null=True, blank=True)
    """`scheduler.rates.interval.RateRange.to_dict()`."""
    trials = models.JSONField(null=True, blank=True)
    """Short trainings after the range test, as `harness.rates.trials` keeps them; None: it is not over."""
    rules = models.JSONField(default=dict, blank=True)
    """Rates by scaling rules from the family's own batch: `linear`, `sqrt`."""
    problem = models.JSONField(null=True, blank=True)
    """`{code, message, hint}`."""
    submit = models.BooleanField(default=False)
    """The job was to be submitted when the test is over (`training.rate_rule: range`)."""
    used_rate = models.FloatField(null=True, blank=True)
    """What was put into the spec."""
    took_s = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["job", "-created_at"]),
            models.Index(
                fields=["created_at"],
                name="rate_test_due",
                condition=models.Q(state="waiting") | models.Q(submit=True),
            ),
        ]
