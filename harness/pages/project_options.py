"""Lists of projects to choose from: of thousands a page has the first and those that are chosen, and finds the others
by what is typed above the list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import QuerySet
from django.urls import reverse

from harness.accounts.models import Project, User
from harness.accounts.selectors import projects_seen, projects_writable

PROJECTS_SHOWN = 100
PROJECTS_OF = {"see": projects_seen, "add": projects_writable}
"""Which projects a list is of, by the word in the address that finds in them."""


@dataclass(frozen=True)
class ProjectOptions:
    """What a list has, by name."""

    rows: tuple[Project, ...]
    attrs: dict[str, str]
    """Of the `select`, by which its script finds those that are not among them."""

    def __iter__(self) -> Iterator[Project]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The same for a field of a form."""
        return [(project.slug, project.name) for project in self.rows]


def project_options(user: User, of: str, chosen: Iterable[str | None] = ()) -> ProjectOptions:
    """Those that a page has; `of`: one of `PROJECTS_OF`, `chosen`: slugs of those that are in it in any case."""
    every = PROJECTS_OF[of](user=user)
    rows = list(every[: PROJECTS_SHOWN + 1])
    if len(rows) <= PROJECTS_SHOWN:
        return ProjectOptions(tuple(rows), {})
    rows = rows[:PROJECTS_SHOWN]
    further = {slug for slug in chosen if slug} - {project.slug for project in rows}
    if further:
        rows += every.filter(slug__in=further)
    where = f"{reverse('project_names')}?of={of}"
    return ProjectOptions(tuple(rows), {"data-find-at": where, "data-find-in": str(every.count())})


def projects_found(user: User, of: str, words: str) -> QuerySet[Project]:
    """The first of those whose name holds all the words, in any order and case."""
    rows = PROJECTS_OF[of](user=user)
    for word in words.split():
        rows = rows.filter(name__icontains=word)
    return rows[:PROJECTS_SHOWN]
