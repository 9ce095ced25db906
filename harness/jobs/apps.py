"""Django app."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The app `harness.jobs`."""

    name = "harness.jobs"
    label = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Answer for what lies on the disk, what of it is copied, what nodes have to return, what names a person."""
        from harness.accounts.leaving import FORGET
        from harness.bucket.due import DUE
        from harness.jobs import disk_use
        from harness.jobs.control.copied import jobs_due
        from harness.jobs.control.returns import names_returning
        from harness.jobs.leaving import person_forget
        from harness.pool.asked import RETURNING
        from harness.storage.items import ITEMS
        from harness.storage.use import CONTENTS, USES

        FORGET.answered_by(person_forget)
        DUE.answered_by(jobs_due)
        CONTENTS.answered_by(disk_use.contents_named)
        USES.answered_by(disk_use.jobs_use)
        ITEMS.answered_by(disk_use.items)
        RETURNING.answered_by(names_returning)
