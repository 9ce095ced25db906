"""Django app."""

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class AccountsConfig(AppConfig):
    """The app `harness.accounts`."""

    name = "harness.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Note each sign-in from its beginning."""
        from harness.accounts import middleware

        user_logged_in.connect(middleware.signed_in, dispatch_uid="browser_sessions")
