"""Django app."""

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.db.backends.signals import connection_created


class AccountsConfig(AppConfig):
    """The app `harness.accounts`."""

    name = "harness.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Note each sign-in from its beginning, and have every database find words alike."""
        from harness import database
        from harness.accounts import middleware

        connection_created.connect(database.sqlite_like, dispatch_uid="sqlite_like")
        user_logged_in.connect(middleware.signed_in, dispatch_uid="browser_sessions")
