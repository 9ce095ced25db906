"""Django app."""

from django.apps import AppConfig


class RatesConfig(AppConfig):
    """The app `harness.rates`."""

    name = "harness.rates"
    label = "rates"
    default_auto_field = "django.db.models.BigAutoField"
