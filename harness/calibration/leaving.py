"""What measurements tell of a person whose account is deleted."""

from __future__ import annotations

from harness.accounts.models import User
from harness.calibration.models import CalibrationRun


def person_forget(user: User, name: str) -> None:
    """Who stopped one is said in its message."""
    CalibrationRun.objects.filter(message=f"Stopped by {user.username}.").update(message=f"Stopped by {name}.")
