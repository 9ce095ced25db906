"""Nodes and the devices they bring into the one logical pool."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from harness.accounts.models import Project
from harness.ids import new_id
from harness.pool.idle_models import IdlePower as IdlePower  # all models of the app are found here


class NodeState(models.TextChoices):
    """Whether a node takes work."""

    UP = "up", "Up"
    DRAIN = "drain", "Draining: running jobs end, no new ones"
    DOWN = "down", "Down: no heartbeat"


class Node(models.Model):
    """One host with an agent (a Celery worker on the queue `node.<name>`)."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    name = models.SlugField(max_length=60, unique=True)
    state = models.CharField(max_length=8, choices=NodeState.choices, default=NodeState.DOWN)
    drain_wanted = models.BooleanField(default=False)
    cpu_cores = models.PositiveIntegerField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    sandbox_level = models.SmallIntegerField(default=0)
    """Strongest level that works on the node, 0-3."""
    sandbox_reason = models.TextField(blank=True)
    """Why no higher level works there."""
    description = models.JSONField(default=dict, blank=True)
    """What the agent reports: cpu model, kernel, torch version, disk."""
    boot_id = models.CharField(max_length=64, blank=True)
    """Changes when the host reboots."""
    agent_left = models.CharField(max_length=32, blank=True)
    """The id of the agent that was the last to say that it leaves: its reports do not count any more. Each has another
    whenever it is started."""
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    running = models.JSONField(default=list, blank=True)
    """Attempts the agent saw alive at its last heartbeat: `[{"job_id", "token"}]`."""
    address = models.CharField(max_length=64, blank=True)
    """Where ranks on other nodes reach it, as its agent reports; empty: it does not know."""
    near = models.CharField(max_length=60, blank=True)
    """Rack or switch, as an admin names it: gangs over several nodes stay within one where they can."""
    secret_digest = models.CharField(max_length=64, blank=True, db_index=True)
    """SHA-256 of what it got when it joined: its API token and its password at the broker. Empty: it did not join by a
    token but was started beside the portal, or was only named so far."""
    joined_at = models.DateTimeField(null=True, blank=True)
    check_result = models.JSONField(default=dict, blank=True)
    """What `dlh doctor` found there: `{"at_s", "findings": [{name, state, text, meaning, step}]}`."""
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class NodeAbsence(models.Model):
    """A time in which a node was down, had not joined yet, or did not have one of its devices."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="absences")
    device = models.ForeignKey("Device", null=True, blank=True, on_delete=models.CASCADE, related_name="absences")
    """Null: the whole node. Of a device it is written once it is there (again): until then `away_since` tells."""
    since = models.DateTimeField()
    """Its last heartbeat."""
    until = models.DateTimeField(null=True, blank=True)
    """Null: it still is."""

    class Meta:
        indexes = [models.Index(fields=["node", "until"], name="node_absence")]

    def __str__(self) -> str:
        return f"{self.node} from {self.since} to {self.until or 'now'}"


class NetworkKind(models.TextChoices):
    """What ranks on several nodes talk through."""

    HOSTS = "hosts", "the hosts', in clear"
    VXLAN = "vxlan", "of their own, in clear (VXLAN)"
    WIREGUARD_KERNEL = "wireguard_kernel", "of their own, encrypted by the kernels (WireGuard)"
    WIREGUARD_PROCESS = "wireguard_process", "of their own, encrypted by a process (WireGuard)"
    """At one of the nodes at least: it is the slowest."""


class NodeLink(models.Model):
    """The link between two nodes, as their agents timed it. `first` is the one whose name comes first."""

    first = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    second = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    round_trip_s = models.FloatField(null=True, blank=True)
    """Of a message of a few bytes, there and back; null: never timed."""
    round_trip_noise = models.FloatField(default=0.0)
    """How far the middle half of the repeats lies to either side, as a share of their median."""
    bytes_per_s = models.FloatField(null=True, blank=True)
    """Each way, while as many come back."""
    bytes_noise = models.FloatField(default=0.0)
    path = models.JSONField(default=dict, blank=True)
    """Over what it was timed: `{addresses: [first, second], network}`, the latter a `NetworkKind`. Counts only while
    ranks would use that."""
    measured_at = models.DateTimeField(null=True, blank=True)
    wanted_at = models.DateTimeField(null=True, blank=True)
    """When somebody asked for it to be timed anew, until it was."""
    order = models.JSONField(default=dict, blank=True)
    """What the two nodes were asked and have not answered: `{id, sent_s, network, network_port, path}`, and once the
    first one listens its `port` and `encryption`."""
    failures = models.PositiveSmallIntegerField(default=0)
    """In a row."""
    problem = models.TextField(blank=True)
    """Of the last one that failed; empty: it did not."""
    again_at = models.DateTimeField(null=True, blank=True)
    """Not tried before then."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["first", "second"], name="one_link_per_pair"),
            models.CheckConstraint(condition=~models.Q(first=models.F("second")), name="link_of_two_nodes"),
        ]


class JoinToken(models.Model):
    """The right to bring one machine into the pool, once and for a while. Only its SHA-256 is stored."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="join_tokens")
    digest = models.CharField(max_length=64, unique=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)


class DeviceKind(models.TextChoices):
    """Kinds of device."""

    CPU = "cpu", "CPU core"
    CUDA = "cuda", "NVIDIA GPU"


class Device(models.Model):
    """One CPU core or one GPU."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    kind = models.CharField(max_length=8, choices=DeviceKind.choices)
    index = models.PositiveIntegerField()
    model_name = models.CharField(max_length=120, blank=True)
    memory_bytes = models.BigIntegerField(default=0)
    """GPU memory; for a CPU core its share of the host's memory."""
    slowdown = models.FloatField(default=1.0)
    """Declared: its ranks are made so many times as slow, to try unlike devices where there are none. 1: as it is."""
    uuid = models.CharField(max_length=80, blank=True)
    """What stays the same of a GPU when its number changes; empty: its node tells none."""
    away_since = models.DateTimeField(null=True, blank=True)
    """Since when its node, which does report, has not seen it (`harness.pool.devices`). Nothing starts on it."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "kind", "index"], condition=models.Q(away_since=None), name="one_row_per_device"
            )
        ]


class Policy(models.TextChoices):
    """By what rule jobs get devices: names of `scheduler.policies`."""

    FIFO = "fifo", "First come, first served"
    EDF = "edf", "Earliest deadline first"
    FAIR_SHARE = "fair_share", "Fair share between projects"
    DEADLINE_ENERGY = "deadline_energy", "Keep deadlines with the least energy"


class NetworkEncryption(models.TextChoices):
    """When the network that ranks on several nodes have for themselves is one of WireGuard."""

    OFF = "off", "Never"
    KERNEL = "kernel", "Where the kernels of its nodes can"
    PREFERRED = "preferred", "Where its nodes can, by a process if need be"
    REQUIRED = "required", "Always: no job over nodes that cannot"


class PoolSetting(models.Model):
    """Settings of the pool; one row."""

    minimum_sandbox_level_own_code = models.SmallIntegerField(default=1)
    """Least sandbox level for edited or own programs."""
    minimum_sandbox_level_generated = models.SmallIntegerField(default=0)
    backend = models.CharField(max_length=10, default="horovod")
    max_restarts = models.PositiveSmallIntegerField(default=3)
    """Restarts of a job after faults of the platform, without a new checkpoint in between."""
    policy = models.CharField(max_length=20, choices=Policy.choices, default=Policy.DEADLINE_ENERGY)
    co2_g_per_kwh = models.FloatField(default=400.0, validators=[MinValueValidator(0), MaxValueValidator(5000)])
    """Grams of CO2 per kWh of the electricity used here; a world average (about 400-480) until an admin sets it."""
    data_mib_per_s = models.FloatField(default=10.0, validators=[MinValueValidator(0.01), MaxValueValidator(1e6)])
    """MiB/s by which data are taken to come to a node with its own cache that has fetched none yet; the default is what
    a line of 100 Mbit/s gives."""
    power_table = models.JSONField(default=dict, blank=True)
    """Watts where none can be measured, over the shipped ones: `{model name or kind: {"idle_w": .., "busy_w": ..}}`."""
    span_nodes = models.BooleanField(default=False)
    """Whether the ranks of one job may lie on several nodes, where one node has not devices enough."""
    own_network = models.BooleanField(default=True)
    """Whether such ranks have a network for themselves, where their nodes can make one."""
    network_encryption = models.CharField(
        max_length=10, choices=NetworkEncryption.choices, default=NetworkEncryption.KERNEL
    )

    @property
    def ranks_apart(self) -> bool:
        """Whether such a network is wished for: what must be encrypted cannot be the hosts'."""
        return self.own_network or self.network_encryption == NetworkEncryption.REQUIRED

    def minimum_sandbox_level(self, *, own_code: bool) -> int:
        """Least level at which a program may run that people wrote or edited, or else one that was generated."""
        return self.minimum_sandbox_level_own_code if own_code else self.minimum_sandbox_level_generated


class Reservation(models.Model):
    """A device, or a whole node, kept for a purpose over a time: jobs of others get it only if they end before."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    node = models.ForeignKey(Node, null=True, blank=True, on_delete=models.CASCADE, related_name="reservations")
    """A whole node; None where `device` is named."""
    device = models.ForeignKey(Device, null=True, blank=True, on_delete=models.CASCADE, related_name="reservations")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(db_index=True)
    """Past-the-last moment. An ended or cancelled reservation is a row whose time is over."""
    purpose = models.CharField(max_length=200)
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE, related_name="reservations")
    """Whose jobs may use it meanwhile; None: no job at all (maintenance, calibration)."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    """None: the harness itself."""
    open_ended = models.BooleanField(default=False)
    """It is renewed as long as what it is for goes on: nothing is planned there for afterwards, under any policy."""
    planned_until = models.DateTimeField(null=True, blank=True)
    """Of one that may be renewed until then, and no longer: plans count with this end. Empty: with `ends_at`.

    Of an open-ended one: when it is expected to be over. People are told so; plans count with no end."""
    created_at = models.DateTimeField(auto_now_add=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")), name="reservation_has_length"
            ),
            models.CheckConstraint(
                condition=models.Q(node__isnull=True, device__isnull=False)
                | models.Q(node__isnull=False, device__isnull=True),
                name="reservation_of_node_or_device",
            ),
        ]

    @property
    def plan_end(self) -> datetime:
        """From when it may be reserved for others, by what is known now. Plans count with what it keeps from then on,
        but not after what is open-ended."""
        return max(self.ends_at, self.planned_until or self.ends_at)

    @property
    def told_end(self) -> datetime:
        """Its end for people: of what is open-ended the expected one, however far ahead it is held at a time."""
        return self.planned_until if self.open_ended and self.planned_until else self.plan_end

    def back_at(self, now: datetime) -> datetime:
        """When what it keeps now is expected back: its told end; if that is over, as a guess, as far as it is held."""
        return self.told_end if self.told_end > now else self.ends_at


class Quota(models.Model):
    """How many devices of one kind the jobs of a project may hold together. No row: no limit."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="quotas")
    device_kind = models.CharField(max_length=8, choices=DeviceKind.choices)
    devices = models.PositiveIntegerField()
    may_borrow = models.BooleanField(default=True)
    """Devices above the quota may be used while no other project wants them."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "device_kind"], name="one_quota_per_kind")]


class SchedulerTurn(models.Model):
    """Whose turn it is to schedule; one row. See `harness.pool.turn`."""

    number = models.BigIntegerField(default=0)
    """Fence: grows with every turn and every admission; a decision made under an older number is not carried out."""
    busy = models.BooleanField(default=False)
    again = models.BooleanField(default=False)
    """Somebody asked for a turn meanwhile."""
    taken_at = models.DateTimeField(null=True, blank=True)
