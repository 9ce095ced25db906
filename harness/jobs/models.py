"""Jobs, their attempts, allocations and telemetry."""

from __future__ import annotations

from functools import cached_property

from django.conf import settings
from django.db import models

from harness.accounts.models import Project
from harness.datasets.models import Dataset, WeightsFile
from harness.ids import new_id
from harness.jobs.answer_models import ModelExport as ModelExport  # all models of the app are found here
from harness.jobs.answer_models import Prediction as Prediction
from harness.jobs.failures import RunFailure, failure_read
from harness.jobs.plan_rows import plan_read
from harness.pool.models import Device, Node
from worker.events import Outcome
from worker.plan import RunPlan
from worker.states import JobState

JOB_STATES = [(state.value, state.value.capitalize()) for state in JobState]
OUTCOMES = [(outcome.value, outcome.value.capitalize()) for outcome in Outcome]


class Job(models.Model):
    """One request (spec), one program, and the run that results from it. Files: `RunPaths(store/jobs/<id>)`."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="jobs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs")
    dataset = models.ForeignKey(Dataset, on_delete=models.PROTECT, related_name="jobs")
    dataset_sha256 = models.CharField(max_length=64, blank=True, db_index=True)
    """Content the program was made for: the dataset may be read anew with other types later."""
    weights = models.ForeignKey(WeightsFile, null=True, blank=True, on_delete=models.PROTECT, related_name="jobs")
    """Weights that it starts from, as `model.weights` of its spec names them; None: fresh ones."""
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="clones")
    name = models.CharField(max_length=120)
    notes = models.TextField(blank=True)
    tags = models.JSONField(default=list, blank=True)
    state = models.CharField(max_length=12, choices=JOB_STATES, default=JobState.DRAFT.value, db_index=True)
    waiting_code = models.CharField(max_length=40, blank=True)
    """Why a queued job is not placed: `scheduler.types.WaitReason`."""
    waiting_text = models.TextField(blank=True)
    failure = models.JSONField(null=True, blank=True)
    """`RunFailure.to_dict()` of the last failed attempt; read it as `run_failure`."""
    spec = models.JSONField(default=dict)
    """`TaskSpec` as the person gave it, `auto` included."""
    resolved = models.JSONField(default=dict)
    """`codegen.types.Resolved.to_dict()`."""
    taken = models.JSONField(default=dict, blank=True)
    """What an offer put into the spec where it was open (`harness.jobs.taken`); empty: nothing."""
    suggestions = models.JSONField(default=list, blank=True)
    task = models.CharField(max_length=40, blank=True, db_index=True)
    family = models.CharField(max_length=40, blank=True, db_index=True)
    program_sha256 = models.CharField(max_length=64, blank=True)
    program_edited = models.BooleanField(default=False)
    program_own = models.BooleanField(default=False)
    """`model.py` was given by a person."""
    priority = models.SmallIntegerField(default=0)
    """-100 to 100; higher goes first."""
    rank = models.IntegerField(default=0)
    """An admin's own order among jobs of one priority: lower goes first."""
    options = models.JSONField(default=list, blank=True)
    """Allocations to choose from (`harness.jobs.options`); empty: the one the spec fixes, without an estimate."""
    slowdown = models.FloatField(default=0.0)
    """Upper over middle of the estimated run time; 0: no estimate."""
    estimate_turn = models.PositiveIntegerField(default=0)
    """While it waits without an estimate: number of the round that tried to make one last."""
    deadline_at = models.DateTimeField(null=True, blank=True)
    """Requested finish time."""
    promised_at = models.DateTimeField(null=True, blank=True)
    """Finish time promised at admission; None: nothing was promised."""
    promise = models.JSONField(default=dict, blank=True)
    """What admission said: `{state, text, finish_at, admitted_at}` (`harness.jobs.promises`); empty: nothing."""
    expected_start_at = models.DateTimeField(null=True, blank=True)
    expected_finish_at = models.DateTimeField(null=True, blank=True)
    expected_low_at = models.DateTimeField(null=True, blank=True)
    """With `expected_high_at` the interval of the expected finish."""
    expected_high_at = models.DateTimeField(null=True, blank=True)
    queue_position = models.PositiveIntegerField(null=True, blank=True)
    """From 1 while it waits, in the order the policy serves."""
    warning = models.TextField(blank=True)
    """The slack of its promise shrinks: what the scheduler says about it."""
    preempted = models.BooleanField(default=False)
    """Paused by the scheduler: queued again by itself as soon as it has left its devices, at its old place."""
    token = models.PositiveIntegerField(default=0)
    """Number of the newest attempt; events of older ones are dropped."""
    restarts = models.PositiveSmallIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    """Queued after a fault: not placed before this (`scheduler.backoff`)."""
    resume_from = models.CharField(max_length=40, blank=True)
    """Checkpoint the next attempt starts from; empty: the newest good one."""
    sandbox_level = models.SmallIntegerField(null=True, blank=True)
    step = models.PositiveBigIntegerField(default=0)
    steps_total = models.PositiveBigIntegerField(default=0)
    epoch = models.FloatField(default=0.0)
    epochs = models.PositiveIntegerField(default=0)
    samples_per_s = models.FloatField(null=True, blank=True)
    eta_s = models.FloatField(null=True, blank=True)
    phase = models.CharField(max_length=40, blank=True)
    moved_at = models.DateTimeField(null=True, blank=True)
    """When its run last told of progress; None: of no run since this is noted."""
    metric_name = models.CharField(max_length=40, blank=True)
    metric_best = models.FloatField(null=True, blank=True)
    """Best value on the validation part."""
    metric_test = models.FloatField(null=True, blank=True)
    last_values = models.JSONField(default=dict, blank=True)
    """Newest value of each metric key."""
    points_told = models.PositiveBigIntegerField(default=0)
    """Points of its curves that were taken in (`harness.jobs.control.telemetry.POINTS_PER_JOB_MAX`)."""
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField(null=True, blank=True)
    placed_at = models.DateTimeField(null=True, blank=True)
    running_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    run_s = models.FloatField(default=0.0)
    """Seconds spent holding devices over all ended attempts."""
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["project", "deleted_at", "-created_at"]),
            models.Index(fields=["deleted_at", "-created_at", "id"]),
            models.Index(fields=["state", "-priority", "queued_at"]),
            models.Index(fields=["state", "finished_at"], name="job_ended"),
            models.Index(
                fields=["deleted_at", "-created_at", "id"], name="job_open", condition=models.Q(finished_at=None)
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def own_code(self) -> bool:
        """Whether people had a hand in its program."""
        return self.program_edited or self.program_own

    @property
    def weights_dir(self) -> str:
        """Folder of the store with the weights that it starts from; empty: fresh ones."""
        return str(settings.STORE.dataset(self.weights.sha256).packed) if self.weights else ""

    @property
    def run_failure(self) -> RunFailure | None:
        """Why its last failed attempt failed."""
        return failure_read(self.failure)


class JobAttempt(models.Model):
    """One start of a job on the pool; `number` is the fencing token."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    plan = models.JSONField()
    """`RunPlan.to_dict()`; read it as `run_plan`."""
    world_size = models.PositiveSmallIntegerField(default=1)
    option = models.JSONField(default=dict, blank=True)
    """`scheduler.types.Option` it runs on."""
    width = models.JSONField(default=dict, blank=True)
    """Ranks that it is to have while it runs (`harness.jobs.control.width_request`); empty: those of its plan."""
    outcome = models.CharField(max_length=12, choices=OUTCOMES, blank=True)
    failure = models.JSONField(null=True, blank=True)
    """`RunFailure.to_dict()`; read it as `run_failure`."""
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    """Start message last sent to the node (outbox: empty means still to send)."""
    started_at = models.DateTimeField(null=True, blank=True)
    running_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    """Newest event; an attempt unseen for too long is lost."""
    seen_seq = models.JSONField(default=dict, blank=True)
    """Highest `Event.seq` taken in, by rank: written with its effects, so that no event counts twice."""
    sends = models.PositiveSmallIntegerField(default=0)
    """How often the start message was sent."""
    released_at = models.DateTimeField(null=True, blank=True)
    """When it gave its devices back, where that was before its end: what it made was still to be returned."""
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="one_attempt_per_number")]
        indexes = [models.Index(fields=["job"], name="attempt_open", condition=models.Q(ended_at=None))]

    @cached_property
    def run_plan(self) -> RunPlan:
        """What its nodes were told: never changed, so read once."""
        return plan_read(self.plan)

    @property
    def run_failure(self) -> RunFailure | None:
        """Why it failed, where it did."""
        return failure_read(self.failure)


class Allocation(models.Model):
    """A device held by an attempt. One row per device at most: two jobs can never hold one device."""

    device = models.OneToOneField(Device, on_delete=models.CASCADE, related_name="allocation")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="allocations")
    attempt = models.ForeignKey(JobAttempt, on_delete=models.CASCADE, related_name="allocations")
    rank = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    @property
    def drives_rank(self) -> bool:
        """Whether a rank computes on it: a gang may leave a device out (`plans.device_ranks`)."""
        plan = self.attempt.run_plan
        return self.rank < max(plan.world_size, plan.most)


class DeviceUse(models.Model):
    """That a device worked over a time, for a job or for a measurement of the harness's own: written when the attempt
    or the measurement ends, kept when job or device go."""

    device = models.ForeignKey(Device, null=True, on_delete=models.SET_NULL, related_name="uses")
    node_name = models.CharField(max_length=60)
    device_kind = models.CharField(max_length=8)
    device_index = models.PositiveIntegerField()
    device_model = models.CharField(max_length=120, blank=True)
    job = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="uses")
    job_name = models.CharField(max_length=120)
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="device_uses")
    project_name = models.CharField(max_length=120)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    owner_name = models.CharField(max_length=150)
    token = models.PositiveIntegerField()
    """Of the attempt; 0: a measurement, of no job."""
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_index=True)
    energy_j = models.FloatField()
    """Of this device over this time, its idle share included."""
    energy_basis = models.CharField(max_length=10)
    """`scheduler.estimation.values.Basis`."""


class JobEvent(models.Model):
    """History of a job: every change of state and everything a person should be able to read later."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=30)
    """`state`, `note`, `error`, `attempt`, `program`, `person`."""
    old_state = models.CharField(max_length=12, blank=True)
    new_state = models.CharField(max_length=12, blank=True)
    token = models.PositiveIntegerField(default=0)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    message = models.TextField(blank=True)
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        indexes = [models.Index(fields=["job", "id"])]


class MetricPoint(models.Model):
    """One value of one key at one step; a resumed attempt overwrites what it repeats."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="points")
    key = models.CharField(max_length=80)
    step = models.PositiveBigIntegerField()
    epoch = models.FloatField()
    value = models.FloatField(null=True)
    """Null where the value was not finite."""
    time_s = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "key", "step"], name="one_point_per_step")]


class Checkpoint(models.Model):
    """A saved state of a run that can be resumed, downloaded or predicted with."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="checkpoints")
    name = models.CharField(max_length=40)
    step = models.PositiveBigIntegerField()
    epoch = models.FloatField()
    metric = models.FloatField(null=True, blank=True)
    size_bytes = models.BigIntegerField(default=0)
    best = models.BooleanField(default=False)
    token = models.PositiveIntegerField(default=0)
    """Attempt that got so far first; 0 where it was made again, or below what there was."""
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="one_checkpoint_per_name")]


class ResourceSample(models.Model):
    """CPU, memory and GPU use of a run at one moment."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="samples")
    node = models.ForeignKey(Node, null=True, on_delete=models.SET_NULL)
    token = models.PositiveIntegerField()
    time_s = models.FloatField()
    data = models.JSONField()
    """`EventKind.SAMPLE` data."""
    thinned = models.BooleanField(default=False)
    """Survived the thinning of old samples."""

    class Meta:
        indexes = [
            models.Index(fields=["job", "time_s"]),
            models.Index(fields=["time_s"], name="sample_whole", condition=models.Q(thinned=False)),
        ]
