"""Django app."""

from django.apps import AppConfig


class SavedViewsConfig(AppConfig):
    """The app `harness.saved_views`."""

    name = "harness.saved_views"
    label = "saved_views"
    default_auto_field = "django.db.models.BigAutoField"
