"""What uploads tell of a person whose account is deleted."""

from __future__ import annotations

from harness.accounts.models import User
from harness.datasets.models import UNFINISHED, Upload
from harness.datasets.uploads import upload_delete


def person_forget(user: User, name: str) -> None:
    """Those that have become nothing yet are given up, and with them addresses that may hold a secret."""
    for upload in Upload.objects.filter(UNFINISHED, owner=user):
        upload_delete(upload=upload)
