"""Views of the list of jobs that people have given a name, and whose default is which."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from harness.accounts.models import Project
from harness.ids import new_id


class SavedView(models.Model):
    """Filters, order and columns under a name: a person's own, or shared with a project."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE, related_name="saved_views")
    """Whose members see it; None: its owner alone."""
    name = models.CharField(max_length=60)
    query = models.TextField(blank=True)
    """As `listing_query` writes it; empty: all jobs, as they are shown by default."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], condition=Q(project=None), name="one_own_view_per_name"),
            models.UniqueConstraint(
                fields=["project", "name"], condition=Q(project__isnull=False), name="one_shared_view_per_name"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class DefaultView(models.Model):
    """The view that a person's list of jobs opens with."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="default_view"
    )
    view = models.ForeignKey(SavedView, on_delete=models.CASCADE, related_name="defaults")
