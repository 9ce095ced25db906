"""Sweeps, the points they measured, the models fitted to them, and what finished jobs really cost."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from harness.ids import new_id
from harness.pool.models import DeviceKind, Node


class RunState(models.TextChoices):
    """Where a sweep stands."""

    WAITING = "waiting", "Waits for its devices to fall idle"
    RUNNING = "running", "Measures"
    FINISHED = "finished", "Ended by itself: nothing left to measure, or the budget used up"
    STOPPED = "stopped", "Stopped by a person"
    FAILED = "failed", "Ended by a fault"


OPEN = (RunState.WAITING, RunState.RUNNING)
"""States in which a sweep holds its devices."""


class CalibrationRun(models.Model):
    """One sweep of one model of device on one node. At most one is open for each; of a node one measures at a time."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    node = models.ForeignKey(Node, null=True, on_delete=models.SET_NULL, related_name="calibrations")
    node_name = models.CharField(max_length=60)
    """Kept when the node leaves the pool."""
    kind = models.CharField(max_length=8, choices=DeviceKind.choices)
    model_name = models.CharField(max_length=120, blank=True)
    budget_s = models.FloatField()
    """Seconds it may spend measuring; waiting for idle devices or for the node costs nothing."""
    used_s = models.FloatField(default=0.0)
    """Seconds spent measuring so far."""
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.WAITING, db_index=True)
    planned = models.PositiveIntegerField(default=0)
    """Points of the sweep."""
    before = models.PositiveIntegerField(default=0)
    """Points that it need not measure: they were when it started, or another sweep of such devices has meanwhile."""
    measured = models.PositiveIntegerField(default=0)
    refused = models.JSONField(default=list, blank=True)
    """`[{point_id, family, problem}]`: points whose measurement made no sense or could not be made. Not tried again."""
    pending = models.JSONField(default=dict, blank=True)
    """Points sent and not answered: `{point_id: {family, sent_s, sends}}`; `sent_s` is unix time."""
    reservations = models.JSONField(default=list, blank=True)
    """Ids of the rows of `Reservation` that keep jobs off its devices."""
    fitted_points = models.PositiveIntegerField(default=0)
    """`measured` at the last fit."""
    fitting_since = models.DateTimeField(null=True, blank=True)
    """A fit runs: nothing is measured meanwhile, its noise would be in the figures."""
    stuck_since = models.DateTimeField(null=True, blank=True)
    """Since when each of its steps meets an error that may pass by itself; None: it gets on."""
    message = models.TextField(blank=True)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="calibrations"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    running_at = models.DateTimeField(null=True, blank=True)
    """Since when the devices are idle and it measures."""
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node_name", "kind", "model_name"],
                condition=models.Q(state__in=["waiting", "running"]),
                name="one_open_calibration_per_node_and_model",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.node_name}"


class CalibrationPointRow(models.Model):
    """One measured point: what was run, and what it took. `body` is the whole `CalibrationPoint`."""

    kind = models.CharField(max_length=8, choices=DeviceKind.choices)
    model_name = models.CharField(max_length=120, blank=True)
    point_id = models.CharField(max_length=120)
    """Of the sweep's plan: a sweep that resumes does not measure it again. Imported points without one get a hash."""
    family = models.CharField(max_length=40, db_index=True)
    batch_size = models.PositiveIntegerField()
    step_s = models.FloatField()
    """Median of the repeats."""
    peak_bytes = models.BigIntegerField()
    power_w = models.FloatField(null=True, blank=True)
    noise = models.FloatField()
    """Relative spread of the repeats."""
    body = models.JSONField()
    """`CalibrationPoint.to_dict()`: workload, allocation, repeats, knobs."""
    imported = models.BooleanField(default=False)
    """From a file, not from this pool."""
    run = models.ForeignKey(CalibrationRun, null=True, on_delete=models.SET_NULL, related_name="points")
    node_name = models.CharField(max_length=60, blank=True)
    measured_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "model_name", "point_id"], name="one_row_per_point")]


class DeviceModelRow(models.Model):
    """The fitted model of one kind of device, and how well it does on points it has not seen."""

    kind = models.CharField(max_length=8, choices=DeviceKind.choices)
    model_name = models.CharField(max_length=120, blank=True)
    fitted = models.JSONField()
    """`DeviceModel.to_dict()` from the points alone."""
    model = models.JSONField()
    """The same after finished jobs have corrected it: the one that is used."""
    n_points = models.PositiveIntegerField(default=0)
    n_finished = models.PositiveIntegerField(default=0)
    report = models.JSONField(default=dict, blank=True)
    """Cross-validation of step time, memory and power; see `harness.calibration.report`."""
    link = models.JSONField(default=dict, blank=True)
    """`{latency_s, bytes_per_s, nodes, measured_at}` as probed; empty: never."""
    fitted_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "model_name"], name="one_model_per_device_kind")]


class FinishedJobRow(models.Model):
    """What a finished job was expected to cost, and what it cost. Outlives the job.

    One row of a job tells of all of it (`part` 0), with the step time on the devices that it had last; each further one
    of the steps that it made on other devices, or on more or fewer, before.
    """

    job = models.ForeignKey("jobs.Job", null=True, on_delete=models.SET_NULL, related_name="finished_cost")
    part = models.PositiveSmallIntegerField(default=0)
    token = models.PositiveIntegerField(default=0)
    """Of the attempt that made the steps; 0: of a row from before this was kept, the last one."""
    own_code = models.BooleanField(default=False)
    """Its program was written or edited by a person: by the owner of the job, if anybody still knows."""
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    """Whose that program is; None where it was generated, or its author is gone."""
    kind = models.CharField(max_length=8, choices=DeviceKind.choices)
    model_name = models.CharField(max_length=120, blank=True)
    family = models.CharField(max_length=40, blank=True)
    count = models.PositiveSmallIntegerField(default=1)
    mode = models.CharField(max_length=20, blank=True)
    predicted = models.JSONField(default=dict, blank=True)
    """`Estimate.to_dict()` as it stood before these steps were made, over the epochs that it made where it stopped
    early; empty: nobody had estimated it."""
    workload = models.JSONField(default=dict, blank=True)
    """`Workload.to_dict()` of its program at its global batch size, over these epochs; empty: it was never traced, or
    there are enough newer ones (`harness.jobs.control.forgetting`): nothing is learnt."""
    allocation = models.JSONField(default=dict, blank=True)
    """`scheduler.estimation.values.Allocation` it ran on."""
    step_s = models.FloatField(null=True, blank=True)
    start_s = models.FloatField(null=True, blank=True)
    """From the start of its ranks to the first step; null: nobody told, or some waited for the data of others."""
    load_s = models.FloatField(null=True, blank=True)
    """Of it: reading the rows, as the run told; null: it did not."""
    run_s = models.FloatField(null=True, blank=True)
    """From the start of the ranks to the end, over all attempts."""
    peak_bytes = models.BigIntegerField(null=True, blank=True)
    """Of the largest rank, above an idle process."""
    energy_j = models.FloatField(null=True, blank=True)
    energy_basis = models.CharField(max_length=10, blank=True)
    """`measured` by the device's own meter, else `modelled` or `assumed`: power of the model times the run's time."""
    run_comparable = models.BooleanField(default=True)
    """In one attempt, on the same devices: `run_s` is what `predicted` is about."""
    finished_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "part"], name="one_cost_per_job_and_part")]


class RanOutRow(models.Model):
    """An attempt that ended for want of memory, and what it could have. Outlives the job."""

    attempt = models.OneToOneField("jobs.JobAttempt", null=True, on_delete=models.SET_NULL, related_name="ran_out")
    kind = models.CharField(max_length=8, choices=DeviceKind.choices)
    model_name = models.CharField(max_length=120, blank=True)
    workload = models.JSONField(default=dict, blank=True)
    """As in `FinishedJobRow`; empty: nothing is learnt."""
    allocation = models.JSONField(default=dict, blank=True)
    """As in `FinishedJobRow`; empty: nothing is learnt."""
    limit_bytes = models.BigIntegerField(null=True, blank=True)
    """Of its largest rank, above an idle process; null: not known, nothing is learnt."""
    ended_at = models.DateTimeField(db_index=True)
