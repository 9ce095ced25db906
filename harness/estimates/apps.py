"""Django app."""

from django.apps import AppConfig


class EstimatesConfig(AppConfig):
    """The app `harness.estimates`."""

    name = "harness.estimates"
    label = "estimates"
    default_auto_field = "django.db.models.BigAutoField"
