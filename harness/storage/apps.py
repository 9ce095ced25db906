"""Django app."""

from django.apps import AppConfig


class StorageConfig(AppConfig):
    """The app `harness.storage`."""

    name = "harness.storage"
    label = "storage"
    default_auto_field = "django.db.models.BigAutoField"
