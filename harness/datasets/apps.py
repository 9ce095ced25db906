"""Django app."""

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    """The app `harness.datasets`."""

    name = "harness.datasets"
    label = "datasets"
    default_auto_field = "django.db.models.BigAutoField"
