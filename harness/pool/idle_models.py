"""What meters told of devices that nobody held."""

from __future__ import annotations

from django.db import models


class IdlePower(models.Model):
    """What a GPU, or each CPU core of a node, draws while nobody holds it (`harness.pool.idle_power`)."""

    node = models.ForeignKey("pool.Node", on_delete=models.CASCADE, related_name="idle_powers")
    device = models.OneToOneField(
        "pool.Device", null=True, blank=True, on_delete=models.CASCADE, related_name="idle_power"
    )
    """A GPU; null: the cores of the node, which share its processor packages."""
    model_name = models.CharField(max_length=120, blank=True)
    """Of the device that was read: another one in its place is read anew."""
    readings_w = models.JSONField(default=list)
    """The newest ones, oldest first, of one device."""
    watts = models.FloatField(null=True, blank=True)
    """Their median; null: there are too few."""
    read_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node"], condition=models.Q(device=None), name="one_idle_power_of_cores")
        ]
