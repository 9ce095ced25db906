"""Django app."""

from django.apps import AppConfig


class NotifyConfig(AppConfig):
    """The app `harness.notify`."""

    name = "harness.notify"
    label = "notify"
    default_auto_field = "django.db.models.BigAutoField"
