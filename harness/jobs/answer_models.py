"""What is asked of a job's weights once they are there: predictions, and the model in another form."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from harness.ids import new_id

NO_ANSWER = {
    "code": "no_answer",
    "message": "No node answered in time.",
    "hint": "It counts if it still comes: look again in some minutes. If no node is up, start one and ask again.",
}
"""Problem of what nobody answered for so long that it counts as failed."""
AWAITED = models.Q(state="waiting") | models.Q(state="failed", problem__code=NO_ANSWER["code"])
"""What takes an answer: also that of a node which was only slow."""


class Prediction(models.Model):
    """A prediction request; input and output lie in `RunPaths.prediction(id)`."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="predictions")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    state = models.CharField(max_length=10, default="waiting")
    """`waiting`, `done`, `failed`."""
    checkpoint = models.CharField(max_length=40, blank=True)
    """Empty: the final weights."""
    input_name = models.CharField(max_length=255, blank=True)
    rows = models.PositiveIntegerField(null=True, blank=True)
    problem = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="prediction_waits", condition=models.Q(state="waiting"))]


class ModelExport(models.Model):
    """The trained model as ONNX, made when somebody first asks for it; its files lie in `RunPaths.export(id)`."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="exports")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    token = models.PositiveIntegerField()
    """Newest attempt of the job when it was asked for: a later one writes other weights."""
    checkpoint = models.CharField(max_length=40, blank=True, default="")
    """Whose weights; empty: the final ones."""
    weights_sha256 = models.CharField(max_length=64, blank=True, default="")
    """Of the weights that it was made of: an attempt may find those of an older one, and write its own later."""
    state = models.CharField(max_length=10, default="waiting")
    """`waiting`, `done`, `failed`."""
    report = models.JSONField(default=dict, blank=True)
    """What onnx.json holds, without the classes."""
    problem = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="export_waits", condition=models.Q(state="waiting"))]
