"""The trash: what has a `deleted_at` lies in it, until it is deleted for good."""

from __future__ import annotations

from datetime import UTC, datetime

PURGE_BEGUN = datetime(1970, 1, 1, tzinfo=UTC)
"""`deleted_at` of a job that is being deleted for good, in parts: it comes out of the trash no more."""
