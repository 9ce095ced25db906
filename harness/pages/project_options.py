"""Lists of projects to choose from: of thousands a page has the first and those that are chosen, and finds the others
by what is typed above the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.urls import reverse

from harness.accounts.models import Project, User
from harness.accounts.selectors import projects_seen, projects_writable

PROJECTS_SHOWN = 100
PROJECTS_OF = {"see": projects_seen, "add": projects_writable}
"""Which projects a list is of, by the word in the address that finds in them."""


@dataclass(frozen=True)
class ProjectOption:
    """One to choose."""

    pk: str
    slug: str
    label: str
    """Its name; of those that share one with the slug."""


@dataclass(frozen=True)
class ProjectOptions:
    """What a list has, by name."""

    rows: tuple[ProjectOption, ...]
    attrs: dict[str, str]
    """Of the `select`, by which its script finds those that are not among them."""

    def __iter__(self) -> Iterator[ProjectOption]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The same for a field of a form."""
        return [(project.slug, project.label) for project in self.rows]


def project_options(user: User, of: str, chosen: Iterable[str | None] = ()) -> ProjectOptions:
    """Those that a page has; `of`: one of `PROJECTS_OF`, `chosen`: slugs of those that are in it in any case."""
    every = PROJECTS_OF[of](user=user)
    rows = list(every[: PROJECTS_SHOWN + 1])
    if len(rows) <= PROJECTS_SHOWN:
        return ProjectOptions(_labelled(rows), {})
    rows = rows[:PROJECTS_SHOWN]
    further = {slug for slug in chosen if slug} - {project.slug for project in rows}
    if further:
        rows += every.filter(slug__in=further)
    where = f"{reverse('project_names')}?of={of}"
    return ProjectOptions(_labelled(rows), {"data-find-at": where, "data-find-in": str(every.count())})


def _labelled(rows: list[Project]) -> tuple[ProjectOption, ...]:
    named = Counter(project.name for project in rows)
    return tuple(
        ProjectOption(project.pk, project.slug, _label(project.name, project.slug, is_clear=named[project.name] == 1))
        for project in rows
    )


def _label(name: str, slug: str, *, is_clear: bool) -> str:
    return name if is_clear else f"{name} ({slug})"


def projects_found(user: User, of: str, words: str) -> list[tuple[str, str]]:
    """Slug and label of the first of those whose name or slug holds all the words, in any order and case: first of all
    those that are called just so.

    Compared here: PostgreSQL by the rules of C knows the two cases of A to Z alone.
    """
    every = list(PROJECTS_OF[of](user=user).values_list("slug", "name"))
    named = Counter(name for _, name in every)
    wanted = words.casefold().split()
    exact: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for slug, name in every:
        folded = name.casefold()
        if not all(word in folded or word in slug for word in wanted):
            continue
        is_clear = named[name] == 1 and all(word in folded for word in wanted)
        is_exact = wanted in (folded.split(), [slug])
        (exact if is_exact else others).append((slug, _label(name, slug, is_clear=is_clear)))
    return [*exact, *others][:PROJECTS_SHOWN]
