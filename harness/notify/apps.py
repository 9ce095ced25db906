"""Django app."""

from django.apps import AppConfig


class NotifyConfig(AppConfig):
    """The app `harness.notify`."""

    name = "harness.notify"
    label = "notify"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Forget people whose accounts are deleted."""
        from harness.accounts.leaving import FORGET
        from harness.notify.leaving import person_forget

        FORGET.answered_by(person_forget)
