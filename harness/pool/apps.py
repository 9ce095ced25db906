"""Django app."""

from django.apps import AppConfig


class PoolConfig(AppConfig):
    """The app `harness.pool`."""

    name = "harness.pool"
    label = "pool"
    default_auto_field = "django.db.models.BigAutoField"
