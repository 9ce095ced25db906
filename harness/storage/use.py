"""What each project takes of the store's disk, added up from sizes that are known: no folder is looked at here.

Whose files lie there is asked of the apps above: datasets and jobs.

A project pays for what it names, whoever else names it, too: each content once, in full. So nobody's figures change by
what others do, and nobody learns what others have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from django.conf import settings

from harness.accounts.access import visible_projects
from harness.accounts.models import Project, User
from harness.hooks import Question
from harness.storage.models import ContentSize, StorageQuota

_ASKED_AT_ONCE = 500
"""Values in one query: SQLite takes a limited number."""


@dataclass(frozen=True, kw_only=True)
class StorageUse:
    """Bytes that a project takes, by what takes them."""

    dataset_bytes: int = 0
    checkpoint_bytes: int = 0
    result_bytes: int = 0
    other_bytes: int = 0
    """Programs, logs and events of jobs."""
    upload_bytes: int = 0
    """Announced by uploads that are not finished."""

    def __add__(self, other: StorageUse) -> StorageUse:
        return StorageUse(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})

    @property
    def used_bytes(self) -> int:
        """All of it."""
        return self.dataset_bytes + self.checkpoint_bytes + self.result_bytes + self.other_bytes + self.upload_bytes

    @property
    def rest_bytes(self) -> int:
        """What is neither data nor checkpoint nor result."""
        return self.other_bytes + self.upload_bytes


CONTENTS: Question[[list[str]], Mapping[str, Mapping[str, int]]] = Question()
"""Which contents of datasets do these projects name? Project id -> hash -> size of its source, as far as it is told."""
USES: Question[[list[str]], Mapping[str, StorageUse]] = Question()
"""What else takes disk in these projects, by their ids?"""


@dataclass(frozen=True, kw_only=True)
class ProjectStorage:
    """One project's use beside its quota."""

    project: Project
    use: StorageUse
    limit_bytes: int | None
    """None: no limit."""
    is_default: bool
    """The limit is the installation's."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be added."""
        return self.limit_bytes is not None and self.use.used_bytes >= self.limit_bytes


def storage_rows(*, user: User) -> list[ProjectStorage]:
    """The projects that the person sees, the largest first."""
    projects = list(visible_projects(user))
    rows = _rows(projects, storage_use(projects))
    return sorted(rows, key=lambda row: (-row.use.used_bytes, row.project.name, row.project.pk))


def storage_limits() -> list[ProjectStorage]:
    """Every project that has a limit, whoever asks: for control."""
    rows = _rows(
        projects := list(Project.objects.filter(deleted_at=None).order_by("pk")),
        {project.pk: StorageUse() for project in projects},
    )
    limited = [row for row in rows if row.limit_bytes is not None]
    uses = storage_use(row.project for row in limited)
    return [replace(row, use=uses[row.project.pk]) for row in limited]


def storage_of(project: Project) -> ProjectStorage:
    """One project's use and limit."""
    return _rows([project], storage_use([project]))[0]


def storage_limit(project: Project) -> int | None:
    """Bytes that a project may take; None: no limit."""
    given = StorageQuota.objects.filter(project=project).first()
    limit_bytes: int | None = given.limit_bytes if given else settings.STORAGE_QUOTA_BYTES
    return limit_bytes


def _rows(projects: list[Project], uses: Mapping[str, StorageUse]) -> list[ProjectStorage]:
    given = dict(StorageQuota.objects.filter(project__in=projects).values_list("project_id", "limit_bytes"))
    return [
        ProjectStorage(
            project=project,
            use=uses[project.pk],
            limit_bytes=given.get(project.pk, settings.STORAGE_QUOTA_BYTES),
            is_default=project.pk not in given,
        )
        for project in projects
    ]


def storage_use(projects: Iterable[Project]) -> dict[str, StorageUse]:
    """Bytes by project id; in a handful of queries for any number of them."""
    ids = [project.pk for project in projects]
    contents, told = _content_bytes(ids), USES.ask(ids)
    return {
        pk: sum((uses[pk] for uses in told if pk in uses), StorageUse(dataset_bytes=contents.get(pk, 0))) for pk in ids
    }


def content_sizes(hashes: Iterable[str]) -> dict[str, ContentSize]:
    """Those that were measured, by hash."""
    wanted = sorted(set(hashes))
    found: dict[str, ContentSize] = {}
    for start in range(0, len(wanted), _ASKED_AT_ONCE):
        found |= ContentSize.objects.in_bulk(wanted[start : start + _ASKED_AT_ONCE])
    return found


def _content_bytes(project_ids: list[str]) -> dict[str, int]:
    named: dict[str, dict[str, int]] = defaultdict(dict)
    for contents in CONTENTS.ask(project_ids):
        for project_id, announced in contents.items():
            for sha256, announced_bytes in announced.items():
                named[project_id][sha256] = max(announced_bytes, named[project_id].get(sha256, 0))
    sizes = content_sizes(sha256 for hashes in named.values() for sha256 in hashes)
    return {project_id: _sum(hashes, sizes) for project_id, hashes in named.items()}


def _sum(hashes: Mapping[str, int], sizes: Mapping[str, ContentSize]) -> int:
    """A source that several contents share counts once; what was not measured yet counts as it was announced."""
    total, sources = 0, dict[str, int]()
    for sha256, announced_bytes in hashes.items():
        size = sizes.get(sha256)
        if size is None:
            total += announced_bytes
            continue
        total += size.packed_bytes
        key = size.source_file or sha256
        sources[key] = max(sources.get(key, 0), size.source_bytes)
    return total + sum(sources.values())
