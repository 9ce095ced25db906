"""Django app."""

from django.apps import AppConfig


class FetchesConfig(AppConfig):
    """The app `harness.fetches`."""

    name = "harness.fetches"
    label = "fetches"
    default_auto_field = "django.db.models.BigAutoField"
