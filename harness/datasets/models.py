"""Uploads in progress and datasets."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from harness.accounts.models import Project
from harness.ids import new_id


class DatasetState(models.TextChoices):
    """Where a dataset stands."""

    PROFILING = "profiling", "Being read"
    READY = "ready", "Ready"
    FAILED = "failed", "Cannot be used"


UNFINISHED = models.Q(dataset=None, weights=None)
"""Uploads that have become nothing yet."""


class Upload(models.Model):
    """A resumable upload (tus 1.0); its bytes lie in the store under `uploads/<id>`."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="uploads")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="uploads")
    filename = models.CharField(max_length=255)
    size_bytes = models.BigIntegerField()
    offset_bytes = models.BigIntegerField(default=0)
    name = models.CharField(max_length=120, blank=True)
    """Of the dataset or weights file it becomes; empty: made from the file's name."""
    options = models.JSONField(default=dict, blank=True)
    """`ProfileOptions` as plain values, to read the file with."""
    dataset = models.OneToOneField("Dataset", null=True, blank=True, on_delete=models.SET_NULL, related_name="upload")
    weights = models.ForeignKey("WeightsFile", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    """What it has become, where that is no dataset."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)


class Dataset(models.Model):
    """One dataset of one project. The bytes lie in the store under `datasets/<sha256>`, once per content."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="datasets")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="datasets")
    name = models.CharField(max_length=120)
    state = models.CharField(max_length=12, choices=DatasetState.choices, default=DatasetState.PROFILING)
    source_name = models.CharField(max_length=255)
    source_bytes = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, db_index=True, blank=True)
    """Of the uploaded bytes and of the options they were read with; names the folder in the store."""
    progress = models.FloatField(default=0.0)
    """0-1 while profiling."""
    progress_note = models.CharField(max_length=120, blank=True)
    options = models.JSONField(default=dict, blank=True)
    """`codegen.profile.types.ProfileOptions` as plain values: column types, target, delimiter, encoding."""
    profile = models.JSONField(null=True, blank=True)
    """`DatasetProfile.to_dict()` when ready."""
    problem = models.JSONField(null=True, blank=True)
    """`DataProblem` as plain values when failed."""
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    """In the trash since; purged after 14 days."""

    class Meta:
        indexes = [models.Index(fields=["project", "deleted_at", "-created_at"])]

    def __str__(self) -> str:
        return self.name


class WeightsFile(models.Model):
    """Weights of a model, brought along by a person: one safetensors file of one project. The bytes lie in the store
    as those of datasets do, once per content."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="weights_files")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="weights_files")
    name = models.CharField(max_length=120)
    sha256 = models.CharField(max_length=64, db_index=True)
    """Of the file; names the folder in the store."""
    size_bytes = models.BigIntegerField()
    tensors = models.PositiveIntegerField()
    parameters = models.BigIntegerField()
    """Numbers in all tensors."""
    dtypes = models.JSONField(default=list)
    """Kinds of numbers, as safetensors names them: `F32`, `BF16` ..."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name", "sha256"], name="one_weights_file_per_name")]

    def __str__(self) -> str:
        return self.name
