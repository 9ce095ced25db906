"""Django app."""

from django.apps import AppConfig


class CalibrationConfig(AppConfig):
    """The app `harness.calibration`."""

    name = "harness.calibration"
    label = "calibration"
    default_auto_field = "django.db.models.BigAutoField"
