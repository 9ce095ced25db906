"""Django app."""

from django.apps import AppConfig


class EstimatesConfig(AppConfig):
    """The app `harness.estimates`."""

    name = "harness.estimates"
    label = "estimates"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer what programs do in a step."""
        from harness.estimates.workloads import workload_of
        from harness.jobs.asked import WORKLOAD

        WORKLOAD.answered_by(workload_of)
