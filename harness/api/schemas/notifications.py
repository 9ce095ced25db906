"""What a person is told of, and where."""

from __future__ import annotations

from datetime import datetime

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict
from harness.notify.models import Channel, DeliveryState, Kind
from harness.notify.webhook import URL_LETTERS_MAX


class DeliveryOut(Schema):
    """One message and what became of it."""

    id: str = Field(description="The webhook's body has the same, whichever try it is.")
    channel: Channel
    kind: Kind
    title: str = Field(examples=["flowers finished"])
    project: str | None = Field(description="Slug; null: a test.")
    url: str = Field(description="The page it links to.")
    state: DeliveryState
    tries: int
    problem: str = Field(description="Why the last try did not arrive; else empty.")
    created_at: datetime
    due_at: datetime = Field(description="Next try, while it waits.")
    ended_at: datetime | None


class NotificationsOut(Schema):
    """What the caller chose."""

    by_email: bool
    email: str = Field(description="The address of the caller's account; an admin changes it.")
    email_obstacle: str = Field(description="Why nothing can be sent there; empty: it can.")
    webhook: str = Field(
        description="Where the webhook is, without its path, which often is a secret; empty: there is none.",
        examples=["https://hooks.example.org"],
    )
    job_finished: bool
    job_failed: bool
    promise_at_risk: bool
    storage_full: bool
    time_zone: str = Field(description="Chosen for times in e-mails; empty: that of the browser, else UTC.")
    projects: list[str] = Field(description="Slugs: told of every job in these, of others of one's own jobs alone.")
    deliveries: list[DeliveryOut] = Field(description="The newest messages, the newest first.")


class NotificationsMade(NotificationsOut):
    """The same after a change."""

    secret: str = Field("", description="What a new webhook's messages are signed with. Shown once.")


class NotificationsIn(Strict):
    """What changes; what is left out stays."""

    by_email: bool | None = None
    webhook_url: str | None = Field(
        None, max_length=URL_LETTERS_MAX, description="Gets a new secret; empty: no webhook any more."
    )
    job_finished: bool | None = None
    job_failed: bool | None = None
    promise_at_risk: bool | None = None
    storage_full: bool | None = None
    time_zone: str | None = Field(
        None, max_length=64, description="For times in e-mails; empty: that of the browser.", examples=["Europe/Berlin"]
    )
    projects: list[str] | None = Field(None, max_length=1000, description="Slugs; replaces those of before.")


class SecretMade(Schema):
    """A new secret."""

    secret: str = Field(description="Signs every message from now on. Shown once.", examples=["dlhw_3kfA9xQ2..."])
