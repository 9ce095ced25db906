"""Inspections of programs, probes on devices, offers, and the estimate that a submitted job started with."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from harness.accounts.models import Project
from harness.ids import new_id
from harness.jobs.models import Job
from worker.events import FailureCode


class AskState(models.TextChoices):
    """Where a question to a node stands."""

    WAITING = "waiting", "A node works on it"
    DONE = "done", "Answered"
    FAILED = "failed", "Answered with a problem, or not at all"


class OfferState(models.TextChoices):
    """Where an offer stands."""

    WAITING = "waiting", "A node reads the program"
    READY = "ready", "Priced"
    FAILED = "failed", "Its program cannot be read without running it, or it could not be priced"
    ACCEPTED = "accepted", "A person took one of its lines"


PROGRAM_FAULTS = frozenset(
    str(code)
    for code in (
        FailureCode.PROGRAM_ERROR,
        FailureCode.PROGRAM_SYNTAX,
        FailureCode.MODEL_NO_BUILD,
        FailureCode.MODEL_WRONG_SHAPE,
        FailureCode.DATA_ERROR,
    )
)
"""Codes of an inspection's problem that lie with the program: running it would end the same way."""


class Inspection(models.Model):
    """What a node read off a program without running it. Kept by content while something rests on it, so that the same
    is not read twice."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    key = models.CharField(max_length=64, unique=True)
    """`harness.estimates.inspection.content_key`: files of the program and content of the data."""
    dataset_sha256 = models.CharField(max_length=64)
    minimum_sandbox_level = models.SmallIntegerField(default=0)
    state = models.CharField(max_length=8, choices=AskState.choices, default=AskState.WAITING)
    workload = models.JSONField(null=True, blank=True)
    """`Workload.to_dict()`."""
    problem = models.JSONField(null=True, blank=True)
    """`{code, message, hint}`: why there is no workload."""
    trace_s = models.FloatField(null=True, blank=True)
    sent_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["sent_at"], name="inspection_waits", condition=models.Q(state="waiting"))]


class ProbeRow(models.Model):
    """A few real steps of a program on one device, to refine its own estimate."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    inspection = models.ForeignKey(Inspection, on_delete=models.CASCADE, related_name="probes")
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    """Whose quota its device counts against while it is measured."""
    kind = models.CharField(max_length=8)
    model_name = models.CharField(max_length=120, blank=True)
    node_name = models.CharField(max_length=60)
    state = models.CharField(max_length=8, choices=AskState.choices, default=AskState.WAITING)
    allocation = models.JSONField()
    """`Allocation` it ran on, as plain values."""
    step_s = models.JSONField(default=list, blank=True)
    """Seconds of each step, warm-up left out."""
    first_look = models.JSONField(default=dict, blank=True)
    """What was answered first and not believed: fields of this row. While it waits, a second look is under way."""
    left_out_s = models.JSONField(default=list, blank=True)
    """Of two looks, the steps of the one that took longer."""
    peak_bytes = models.BigIntegerField(null=True, blank=True)
    """Of the rank, above an idle process."""
    power_w = models.FloatField(null=True, blank=True)
    """Of its device while the steps were made, by its meter; null: nothing could be read."""
    row_s = models.JSONField(default=dict, blank=True)
    """Seconds per row of an evaluation (`evaluation_row_s`) and of reading the data (`load_row_s`), and until that can
    begin (`load_once_s`), where measured."""
    workload = models.JSONField(null=True, blank=True)
    """Of a program that could not be read without running it: `Workload.to_dict()` as the run told."""
    opaque = models.BooleanField(default=False)
    """The run told no operators either: the figures hold on the allocation of the probe, and for ranks with as many
    rows."""
    batch_size = models.PositiveIntegerField(default=0)
    """Rows of a step of the whole run, of which the probe may have had those of one rank; 0: as many as it had."""
    sums = models.JSONField(default=dict, blank=True)
    """What ranks of the program add up in each step, as the node told: `gradient_bytes` and `step_messages`."""
    problem = models.JSONField(null=True, blank=True)
    reservation = models.CharField(max_length=40, blank=True)
    """Id of what keeps jobs off its device meanwhile."""
    sent_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["sent_at"], name="probe_waits", condition=models.Q(state="waiting"))]

    @property
    def rows(self) -> int:
        """Rows of its steps."""
        return int(max(self.allocation["batch_split"]))


class OfferRow(models.Model):
    """An offer: for a job, or for a spec or workload from outside (then `job` is empty)."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="offers")
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE, related_name="offers")
    """Whose members may see it; empty: a workload that belongs to no project, seen by its owner only."""
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.CASCADE, related_name="offers")
    inspection = models.ForeignKey(Inspection, null=True, blank=True, on_delete=models.SET_NULL, related_name="offers")
    title = models.CharField(max_length=160, blank=True)
    state = models.CharField(max_length=8, choices=OfferState.choices, default=OfferState.WAITING)
    deadline_at = models.DateTimeField(null=True, blank=True)
    wish = models.JSONField(default=dict, blank=True)
    """`scheduler.offers.values.Wish` as plain values."""
    memory_bytes = models.BigIntegerField(default=0)
    """Memory of the host that the person fixed for the run; 0: the share that goes with the devices."""
    untested_steps = models.FloatField(null=True, blank=True)
    """Of a spec without a job, before whose run a range test of the learning rate may come: steps of the run, about."""
    workload = models.JSONField(null=True, blank=True)
    """Where it was given instead of a program."""
    body = models.JSONField(default=dict, blank=True)
    """`scheduler.offers.values.Offer.to_dict()` once priced."""
    notes = models.JSONField(default=list, blank=True)
    """What the figures rest on, in sentences."""
    problem = models.JSONField(null=True, blank=True)
    """`{code, message, hint}`: why it could not be priced; what is wrong with its program stands at the inspection."""
    priced_s = models.FloatField(null=True, blank=True)
    """Seconds that pricing took."""
    accepted = models.JSONField(default=dict, blank=True)
    """The allocation that was taken."""
    created_at = models.DateTimeField(auto_now_add=True)
    made_at = models.DateTimeField(null=True, blank=True)
    """When it was priced: what is known of devices later is not in it."""

    class Meta:
        indexes = [
            models.Index(fields=["job", "-created_at"]),
            models.Index(fields=["created_at"], name="offer_waits", condition=models.Q(state="waiting")),
        ]


class JobEstimate(models.Model):
    """What a job was expected to cost on the devices it was submitted with: compared with what it cost."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="estimate")
    inspection_key = models.CharField(max_length=64, db_index=True)
    """Of the program that was priced: a draft that is edited afterwards is priced anew."""
    estimate = models.JSONField()
    """`Estimate.to_dict()`."""
    ways = models.JSONField(default=list, blank=True)
    """Estimates of the other widths the scheduler may choose, `Estimate.to_dict()` each."""
    offer = models.ForeignKey(OfferRow, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    made_at = models.DateTimeField(auto_now=True, null=True)
    """When it was made anew last; None: before this was kept."""
