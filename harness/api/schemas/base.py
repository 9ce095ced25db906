"""Shapes that every room uses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from ninja import Schema
from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field

Item = TypeVar("Item")


def _in_utc(moment: datetime) -> datetime:
    """As databases keep it."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must lie in the years 1 to 9999, in UTC as well") from error


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class Strict(Schema):
    """A request body: an unknown field is an error, so that a typo is never silently ignored."""

    model_config = ConfigDict(extra="forbid")


class Items(Schema, Generic[Item]):
    """A whole list."""

    items: list[Item]


class PageOf(Schema, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    total: int = Field(description="Rows that match the filters, over all pages.", examples=[42])
    page: int = Field(description="This page, from 1.", examples=[1])
    page_size: int = Field(examples=[50])
    pages: int = Field(description="Number of pages, at least 1.", examples=[1])


class Done(Schema):
    """The request was carried out; nothing else to say."""

    ok: bool = True
