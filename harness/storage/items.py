"""What a project's bytes are, the largest first, and what may be deleted. What there is the apps above tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from harness.accounts.access import require
from harness.accounts.models import Project, Role, User
from harness.hooks import Question
from worker.words import size_words

ITEMS_MAX = 100
DATASET, JOB, UPLOAD, EARLIER, WEIGHTS = "dataset", "job", "upload", "earlier", "weights"


@dataclass(frozen=True, kw_only=True)
class StorageItem:
    """One thing that takes disk."""

    kind: str
    """`dataset`, `weights`, `job`, `upload`, or `earlier`: a dataset as it was read before, for jobs made then."""
    id: str
    name: str
    owner: str
    used_bytes: int
    created_at: datetime
    checkpoint_bytes: int = 0
    result_bytes: int = 0
    deleted_at: datetime | None = None
    """In the trash since; it counts until it is deleted for good."""
    keeps: str = ""
    """Why it cannot be deleted now, and what would have to go first; empty: it can be."""
    may_delete: bool = False
    """Whether this person may."""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who looks at a project's storage, and in which role."""

    user: User
    role: Role

    def may_delete(self, owner_id: int) -> bool:
        """Whether they may delete what belongs to this person."""
        return self.role == Role.ADMIN or (self.role != Role.VIEWER and owner_id == self.user.pk)


ITEMS: Question[[Project, Visitor | None, int], Iterable[StorageItem]] = Question()
"""What takes disk in this project, of each kind at least the largest so many? No visitor: as anybody may know."""


def storage_items(*, user: User, project: Project) -> list[StorageItem]:
    """The largest things of a project, at most `ITEMS_MAX`. Raises `NotFound`."""
    visitor = Visitor(user=user, role=require(user, project, Role.VIEWER))
    items = chain(*ITEMS.ask(project, visitor, ITEMS_MAX))
    return sorted(items, key=lambda item: (-item.used_bytes, item.kind, item.id))[:ITEMS_MAX]


def biggest_words(project: Project, count: int = 3) -> str:
    """The largest things in one phrase: `flowers (2.0 GiB), run 7 (1.4 GiB)`; empty where there are none."""
    items = chain(*ITEMS.ask(project, None, count))
    largest = sorted(items, key=lambda item: -item.used_bytes)[:count]
    return ", ".join(f"{item.name} ({size_words(item.used_bytes)})" for item in largest if item.used_bytes)
