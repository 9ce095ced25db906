"""Django app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """The app `harness.accounts`."""

    name = "harness.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"
