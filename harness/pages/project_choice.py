"""Which project a form means: the one chosen in it, and before that the one it shows as chosen."""

from __future__ import annotations

from harness.accounts.access import projects_made, require
from harness.accounts.models import Project, Role, User
from harness.accounts.selectors import project_get, project_needed, projects_writable
from harness.datasets.models import Dataset
from harness.jobs.models import Job
from harness.pages.web import writable_check


def project_usual(user: User) -> Project | None:
    """Where the person's newest dataset or job is, else the only project in which they may add things, else the first
    that they created. None: theirs to choose; whoever is added to a project was not asked, so no other is taken."""
    writable = projects_writable(user=user)
    own = {"owner": user, "project__in": writable}
    newest = [
        row
        for row in (
            Dataset.objects.filter(**own).only("project", "created_at").order_by("-created_at").first(),
            Job.objects.filter(**own).only("project", "created_at").order_by("-created_at").first(),
        )
        if row is not None
    ]
    if newest:
        return max(newest, key=lambda row: row.created_at).project
    few = writable[:2]
    if len(few) == 1:
        return few[0]
    return writable.filter(pk__in=projects_made(user)).order_by("created_at", "pk").first()


def project_shown(user: User, slug: str) -> Project | None:
    """The project that a form shows as chosen: the one of that slug, else the usual one. Raises `NotFound`,
    `Forbidden`."""
    if slug:
        project = project_get(user=user, slug=slug)
        require(user, project, Role.MEMBER)
        return project
    writable_check(user)
    return project_usual(user)


def project_chosen(user: User, slug: str) -> Project:
    """The same of a form that was sent. Raises `Invalid` where one has to be chosen, `NotFound`, `Forbidden`."""
    project = project_shown(user, slug)
    if project is None:
        raise project_needed(projects_writable(user=user))
    return project
