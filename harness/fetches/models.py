"""What is fetched from a web address, beside the upload that its bytes go into."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.db import models
from django.utils import timezone

from harness.datasets.models import Upload


class FetchState(models.TextChoices):
    """Where a fetch stands."""

    WAITING = "waiting", "Waiting"
    FETCHING = "fetching", "Being fetched"
    DONE = "done", "Fetched"
    FAILED = "failed", "Failed"


OPEN = (FetchState.WAITING, FetchState.FETCHING)


class Fetch(models.Model):
    """An upload whose bytes control fetches; what has arrived and its size are the upload's."""

    upload = models.OneToOneField(Upload, primary_key=True, on_delete=models.CASCADE, related_name="fetch")
    url = models.TextField()
    """Whole: its query may hold a secret, which is shown to nobody but its owner."""
    state = models.CharField(max_length=10, choices=FetchState.choices, default=FetchState.WAITING)
    due_at = models.DateTimeField(default=timezone.now)
    """While it waits: not before."""
    run = models.PositiveIntegerField(default=0)
    """How often it was taken; who took it under an older number writes nothing any more."""
    beat_at = models.DateTimeField(null=True, blank=True)
    """While it is fetched: when the one who fetches was last at it."""
    begun_at = models.DateTimeField(null=True, blank=True)
    """Moved on by the time in which nobody was at it."""
    tries = models.PositiveIntegerField(default=0)
    """In a row that came no further, or hardly."""
    restarts = models.PositiveIntegerField(default=0)
    """How often it had to begin anew, for the file was another one."""
    validator = models.CharField(max_length=250, blank=True)
    """ETag or date of the file of which bytes have arrived; empty: it cannot be gone on with."""
    total_bytes = models.BigIntegerField(null=True, blank=True)
    """As the server says; None: it does not."""
    rate_bytes_s = models.FloatField(default=0.0)
    problem = models.JSONField(null=True, blank=True)
    """Why the last try ended: code, message, hint."""

    class Meta:
        indexes = [models.Index(fields=["state", "due_at"])]

    @property
    def is_open(self) -> bool:
        """Whether something may still arrive by itself."""
        return self.state in OPEN

    @property
    def left_s(self) -> float | None:
        """How long the rest takes at this rate; None: nobody can say."""
        if self.total_bytes is None or self.state != FetchState.FETCHING or self.rate_bytes_s <= 0:
            return None
        return max(0.0, (self.total_bytes - self.upload.offset_bytes) / self.rate_bytes_s)

    @property
    def share(self) -> float | None:
        """0-1 of what is to arrive; None: nobody can say."""
        return self.upload.offset_bytes / self.total_bytes if self.total_bytes else None

    @property
    def host(self) -> str:
        """Where it comes from."""
        return urlsplit(self.url).hostname or ""

    @property
    def shown_url(self) -> str:
        """Without what may be secret."""
        return self.url.partition("?")[0].partition("#")[0]
