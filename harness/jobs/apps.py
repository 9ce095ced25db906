"""Django app."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The app `harness.jobs`."""

    name = "harness.jobs"
    label = "jobs"
    default_auto_field = "django.db.models.BigAutoField"
