"""Pages of lists, in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ninja import Schema
from pydantic import Field

from harness.paging import PAGE_SIZE_MAX, Page


class Paging(Schema):
    """Which page of a list."""

    page: int = Field(1, ge=1, le=10**6)
    page_size: int = Field(50, ge=1, le=PAGE_SIZE_MAX)


def page_body(page: Page[Any], show: Callable[[Any], Any]) -> dict[str, Any]:
    """`PageOf` as plain values, each item shown by `show`."""
    return {
        "items": [show(item) for item in page.items],
        "total": page.total,
        "page": page.page,
        "page_size": page.page_size,
        "pages": page.pages,
    }
