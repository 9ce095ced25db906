"""What people want to be told of and where, and each message with what became of it."""

from __future__ import annotations

from django.db import models

from harness.accounts.models import Project, User
from harness.ids import new_id


class Kind(models.TextChoices):
    """What a message tells. All but `test` name the field of `NotifyChoice` that asks for it."""

    JOB_FINISHED = "job_finished", "A job finished"
    JOB_FAILED = "job_failed", "A job failed"
    PROMISE_AT_RISK = "promise_at_risk", "A promised finish is at risk"
    STORAGE_FULL = "storage_full", "A project's storage is full"
    TEST = "test", "Test message"


KINDS_CHOSEN = tuple(kind for kind in Kind if kind != Kind.TEST)


class Channel(models.TextChoices):
    """How a message goes."""

    EMAIL = "email", "E-mail"
    WEBHOOK = "webhook", "Webhook"


class DeliveryState(models.TextChoices):
    """How far a message is; the last two are final."""

    WAITING = "waiting", "Waiting"
    SENDING = "sending", "Being sent"
    DELIVERED = "delivered", "Delivered"
    FAILED = "failed", "Failed"


class NotifyChoice(models.Model):
    """What one person chose. No row: they are told nothing."""

    user = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="notify_choice")
    by_email = models.BooleanField(default=False)
    webhook_url = models.CharField(max_length=500, blank=True)
    webhook_nonce = models.CharField(max_length=64, blank=True)
    """The secret that signs is made from this and the installation's secret key: it stands in no row."""
    job_finished = models.BooleanField(default=True)
    job_failed = models.BooleanField(default=True)
    promise_at_risk = models.BooleanField(default=True)
    storage_full = models.BooleanField(default=True)
    projects = models.ManyToManyField(Project, blank=True, related_name="watched_by")
    """Told of every job in these; of others of the person's own jobs alone."""


class Delivery(models.Model):
    """One message to one person by one channel: written with what it tells of, sent later by control."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="deliveries")
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="deliveries")
    """Whoever no longer sees it when the message is due is not told. None: a test."""
    channel = models.CharField(max_length=8, choices=Channel.choices)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    about = models.CharField(max_length=80)
    """Names what happened: nobody is told of it twice by one channel."""
    body = models.JSONField()
    """`harness.notify.messages.Message.to_dict()`."""
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    claimed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True)
    """Why the last try did not arrive."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "channel", "about"], name="told_once_by_each_channel"),
        ]
        indexes = [
            models.Index(fields=["state", "due_at"]),
            models.Index(fields=["user", "-created_at"]),
        ]


class StorageAlarm(models.Model):
    """That a project's storage is full, for as long as it is: people are told once each time it becomes so."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="storage_alarm")
    since = models.DateTimeField(auto_now_add=True)
