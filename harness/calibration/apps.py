"""Django app."""

from django.apps import AppConfig


class CalibrationConfig(AppConfig):
    """The app `harness.calibration`."""

    name = "harness.calibration"
    label = "calibration"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Forget people whose accounts are deleted."""
        from harness.accounts.leaving import FORGET
        from harness.calibration.leaving import person_forget

        FORGET.answered_by(person_forget)
