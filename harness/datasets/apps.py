"""Django app."""

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    """The app `harness.datasets`."""

    name = "harness.datasets"
    label = "datasets"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer for what lies on the disk, and for what names a person."""
        from harness.accounts.leaving import FORGET
        from harness.datasets import disk_use
        from harness.datasets.leaving import person_forget
        from harness.storage.items import ITEMS
        from harness.storage.use import CONTENTS, USES

        FORGET.answered_by(person_forget)
        CONTENTS.answered_by(disk_use.contents_named)
        USES.answered_by(disk_use.uploads_use)
        ITEMS.answered_by(disk_use.items)
