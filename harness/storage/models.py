"""What projects may take of the store's disk, and the last measured size of what lies there."""

from __future__ import annotations

from django.db import models

from harness.accounts.models import Project


class StorageQuota(models.Model):
    """How many bytes a project may take. No row: the installation's default."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="storage_quota")
    limit_bytes = models.BigIntegerField(null=True)
    """None: no limit, whatever the default."""


class ContentSize(models.Model):
    """What one content of datasets takes on the disk. It lies there once, whoever names it."""

    sha256 = models.CharField(primary_key=True, max_length=64)
    source_bytes = models.BigIntegerField()
    source_file = models.CharField(max_length=48, blank=True)
    """Device and inode: contents that differ in how they are read share one source by hard link."""
    packed_bytes = models.BigIntegerField()
    """The training-ready form, thumbnails and profile."""
    measured_at = models.DateTimeField()


class JobSize(models.Model):
    """What the folder of one job takes on the disk."""

    job = models.OneToOneField("jobs.Job", primary_key=True, on_delete=models.CASCADE, related_name="size")
    checkpoint_bytes = models.BigIntegerField()
    result_bytes = models.BigIntegerField()
    """Results and predictions."""
    other_bytes = models.BigIntegerField()
    """Program, logs, events, and what a run is writing."""
    measured_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    """When it is measured again, unless something happens to the job before."""
