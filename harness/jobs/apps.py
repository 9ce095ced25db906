"""Django app."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The app `harness.jobs`."""

    name = "harness.jobs"
    label = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer for what lies on the disk."""
        from harness.jobs import disk_use
        from harness.storage.items import ITEMS
        from harness.storage.use import CONTENTS, USES

        CONTENTS.answered_by(disk_use.contents_named)
        USES.answered_by(disk_use.jobs_use)
        ITEMS.answered_by(disk_use.items)
