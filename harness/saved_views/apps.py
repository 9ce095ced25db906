"""Django app."""

from django.apps import AppConfig


class SavedViewsConfig(AppConfig):
    """The app `harness.saved_views`."""

    name = "harness.saved_views"
    label = "saved_views"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Forget people whose accounts are deleted."""
        from harness.accounts.leaving import FORGET
        from harness.saved_views.leaving import person_forget

        FORGET.answered_by(person_forget)
