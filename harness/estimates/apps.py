"""Django app."""

from django.apps import AppConfig


class EstimatesConfig(AppConfig):
    """The app `harness.estimates`."""

    name = "harness.estimates"
    label = "estimates"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer what programs do in a step; forget people whose accounts are deleted."""
        from harness.accounts.leaving import FORGET
        from harness.estimates.leaving import person_forget
        from harness.estimates.workloads import workload_of
        from harness.jobs.asked import WORKLOAD

        FORGET.answered_by(person_forget)
        WORKLOAD.answered_by(workload_of)
