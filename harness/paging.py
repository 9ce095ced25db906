"""One page of a long list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet

from harness.errors import Invalid

T = TypeVar("T")
SEARCH_LETTERS_MAX = 500
"""A database refuses patterns of some ten thousand letters, and looks long for those below."""
PAGE_SIZE_MAX = 200


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """Items of one page and where it stands; pages count from 1."""

    items: list[T]
    total: int
    page: int
    page_size: int

    @property
    def pages(self) -> int:
        """Number of pages, at least 1."""
        return max(1, -(-self.total // self.page_size))


def search_check(text: str, field: str = "query") -> str:
    """A text to search for. Raises `Invalid` where it is too long."""
    if len(text) > SEARCH_LETTERS_MAX:
        raise Invalid(
            f"A search can have at most {SEARCH_LETTERS_MAX} characters.", field=field, hint="Use a shorter search."
        )
    return text


def page_of(rows: QuerySet[Any], *, page: int, page_size: int) -> Page[Any]:
    """Cut one page out of ordered rows in two queries. Raises `Invalid`."""
    if page < 1 or not 1 <= page_size <= PAGE_SIZE_MAX:
        raise Invalid(f"A page number is 1 or more, and a page holds 1 to {PAGE_SIZE_MAX} rows.", field="page")
    start = (page - 1) * page_size
    return Page(items=list(rows[start : start + page_size]), total=rows.count(), page=page, page_size=page_size)


def page_cut(rows: Sequence[T], *, page: int, page_size: int) -> Page[T]:
    """One page of rows that are in memory; none where the list ends before."""
    start = (page - 1) * page_size
    return Page(items=list(rows[start : start + page_size]), total=len(rows), page=page, page_size=page_size)


def page_within(rows: QuerySet[Any], *, page: int, page_size: int) -> Page[Any]:
    """The same, or the last page where the list ends before: it got shorter since somebody was there."""
    found = page_of(rows, page=page, page_size=page_size)
    return found if found.items or not found.total else page_of(rows, page=found.pages, page_size=page_size)
