"""Deleting a project: what stands in the way, who may, what is restored, and that nothing is left of it but its use."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from harness.accounts import selectors
from harness.accounts.access import visible_projects
from harness.accounts.models import Membership, Project, Role
from harness.accounts.services import project_create, token_create
from harness.datasets.models import Dataset, Upload
from harness.datasets.services import upload_create
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs.control import project_purging
from harness.jobs.control.retention import jobs_purge_asked
from harness.jobs.models import DeviceUse, Job
from harness.jobs.project_trash import (
    project_any,
    project_delete,
    project_holds,
    project_purge,
    project_restore,
    projects_trashed,
)
from harness.jobs.services import draft_queue
from harness.jobs.use_rows import use_rows
from harness.jobs.windows import Window
from harness.notify.outbox import may_be_told
from harness.pool.models import Node
from harness.pool.quotas import quota_list, quota_set
from harness.pool.reservations import reservation_list
from tests.factory_reservations import reservation_create
from worker.states import HAS_ATTEMPT, JobState

pytestmark = pytest.mark.django_db
LONG_AGO = timezone.now() - timedelta(days=60)


def deleted(people: SimpleNamespace) -> Project:
    project_delete(user=people.owner, project=people.project, name="Birds")
    return people.project


@pytest.fixture(autouse=True)
def nothing_sent(tasks_sent: list[Any]) -> None:
    """What is asked of control is done by hand."""


def test_nobody_sees_what_was_deleted_and_its_tokens_no_longer_work(people: SimpleNamespace, job: Job) -> None:
    _, text = token_create(user=people.owner, name="ci", project=people.project)
    assert selectors.token_find(text)
    project = deleted(people)
    job.refresh_from_db()
    for person in (people.owner, people.mate, people.admin):
        assert project not in visible_projects(person)
        assert not may_be_told(person, project)
        with pytest.raises(NotFound):
            selectors.project_get(user=person, slug=project.slug)
    assert selectors.token_find(text) is None
    assert list(projects_trashed(user=people.owner)) == [project] == list(projects_trashed(user=people.admin))
    assert not projects_trashed(user=people.mate)


def test_it_comes_back_with_all_that_was_in_it(people: SimpleNamespace, job: Job) -> None:
    _, text = token_create(user=people.owner, name="ci", project=people.project)
    project = deleted(people)
    project_delete(user=people.owner, project=project, name="Birds")  # again: nothing happens
    project_restore(user=people.owner, project=project)
    assert project in visible_projects(people.mate) and selectors.token_find(text)
    assert Job.objects.get(pk=job.pk).deleted_at is None
    with pytest.raises(Conflict, match="not in the trash"):
        project_purge(user=people.owner, project=project)


def test_only_its_admins_and_those_of_the_installation_delete_it_by_its_name(people: SimpleNamespace) -> None:
    for person, refused in ((people.mate, Forbidden), (people.viewer, Forbidden), (people.outsider, NotFound)):
        with pytest.raises(refused):
            project_delete(user=person, project=people.project, name="Birds")
        with pytest.raises(refused):
            project_holds(user=person, project=people.project)
    with pytest.raises(Invalid, match="Birds") as caught:
        project_delete(user=people.owner, project=people.project, name="birds")
    assert caught.value.field == "name"
    project_delete(user=people.admin, project=people.project, name=" Birds ")
    for act in (project_restore, project_purge):
        with pytest.raises(Forbidden):
            act(user=people.mate, project=people.project)
        with pytest.raises(NotFound):
            act(user=people.outsider, project=people.project)
    assert project_any(user=people.mate, slug=people.project.slug) == people.project
    with pytest.raises(NotFound, match="There is no project birds"):  # as of one that does not exist
        project_any(user=people.outsider, slug=people.project.slug)
    with pytest.raises(NotFound, match="There is no project beasts"):
        project_any(user=people.outsider, slug="beasts")


@pytest.mark.parametrize("state", sorted({JobState.QUEUED, *HAS_ATTEMPT}))
def test_jobs_that_wait_run_or_return_stand_in_the_way_by_name(
    state: JobState, people: SimpleNamespace, job: Job
) -> None:
    Job.objects.update(state=state.value)
    with pytest.raises(Conflict) as caught:
        deleted(people)
    assert job.name in caught.value.message and job.pk in caught.value.message and state in caught.value.message
    assert "Cancel" in caught.value.hint
    assert project_holds(user=people.owner, project=people.project).in_the_way == [job]
    assert people.project in visible_projects(people.owner)


def test_of_paused_jobs_only_those_that_go_on_by_themselves_stand_in_the_way(people: SimpleNamespace, job: Job) -> None:
    Job.objects.update(state=JobState.PAUSED.value, preempted=True)
    with pytest.raises(Conflict):
        deleted(people)
    Job.objects.update(preempted=False)
    assert deleted(people).deleted_at is not None


def test_a_draft_whose_project_has_just_been_deleted_is_not_queued(people: SimpleNamespace, job: Job) -> None:
    deleted(people)  # between the check of the draft and its move
    with pytest.raises(NotFound, match="deleted"):
        draft_queue(user=people.owner, job=job, promise={"promise": {}})
    job.refresh_from_db()


def test_what_it_holds_is_told_in_numbers(people: SimpleNamespace, job: Job) -> None:
    token_create(user=people.owner, name="ci", project=people.project)
    upload_create(user=people.owner, project=people.project, filename="a.csv", size_bytes=40)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1)
    holds = project_holds(user=people.owner, project=people.project)
    assert (holds.jobs, holds.drafts, holds.datasets, holds.uploads) == (1, 1, 1, 1)
    assert (holds.tokens, holds.quotas, holds.weights) == (1, 1, 0)
    assert holds.members == Membership.objects.filter(project=people.project).count() > 1
    assert holds.use.upload_bytes == 40 and holds.use.used_bytes > 40
    deleted(people)
    assert not quota_list()


def test_its_reservations_end(people: SimpleNamespace) -> None:
    Node.objects.create(name="node-1")
    reservation_create(
        user=people.admin,
        node="node-1",
        ends_at=timezone.now() + timedelta(days=1),
        purpose="a",
        project=people.project,
    )
    assert project_holds(user=people.owner, project=people.project).reservations == 1
    deleted(people)
    assert not reservation_list()


def test_nothing_is_left_of_one_that_is_deleted_for_good_but_what_it_used(
    people: SimpleNamespace, job: Job, dataset: Dataset
) -> None:
    upload = upload_create(user=people.owner, project=people.project, filename="a.csv", size_bytes=40)
    roots = [settings.STORE.job(job.pk).root, settings.STORE.upload(upload.pk)]
    ended_at = timezone.now()
    DeviceUse.objects.create(
        node_name="node-1", device_kind="cpu", device_index=0, job=job, job_name=job.name, project=people.project,
        project_name="Birds", owner=people.owner, owner_name="owner", token=1, energy_j=3.6e6, energy_basis="measured",
        started_at=ended_at - timedelta(hours=1), ended_at=ended_at,
    )  # fmt: skip
    assert all(path.exists() for path in roots)
    project = deleted(people)
    project_purge(user=people.owner, project=project)
    assert not projects_trashed(user=people.owner)
    with pytest.raises(NotFound, match="for good"):
        project_restore(user=people.owner, project=project)
    jobs_purge_asked()
    assert not any(path.exists() for path in roots)
    assert not Project.objects.filter(pk=project.pk).exists()
    assert not Job.objects.exists() and not Dataset.objects.exists() and not Upload.objects.exists()
    window = Window(since=ended_at - timedelta(hours=2), until=ended_at + timedelta(hours=1), buckets=3)
    (row,) = use_rows(user=people.admin, window=window, by="project")
    assert (row.name, round(row.kwh, 6)) == ("Birds (deleted)", 1.0)
    (hidden,) = use_rows(user=people.owner, window=window, by="project")
    assert hidden.name != row.name and hidden.kwh == row.kwh


def test_a_content_that_another_project_names_stays_there(
    people: SimpleNamespace, dataset: Dataset, dataset_make: Any, tasks_sent: list[Any]
) -> None:
    from harness.jobs.control.contents import content_purge

    other = dataset_make(people.outsider, people.elsewhere)
    project_purge(user=people.owner, project=deleted(people))
    jobs_purge_asked()
    assert other.sha256 == dataset.sha256 and not content_purge(dataset.sha256)
    assert settings.STORE.dataset(dataset.sha256).root.is_dir()
    assert list(Dataset.objects.all()) == [other]


def test_a_purge_that_was_cut_short_is_gone_on_with(
    people: SimpleNamespace, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = deleted(people)
    Project.objects.filter(pk=project.pk).update(deleted_at=LONG_AGO)
    with monkeypatch.context() as patch:
        patch.setattr(project_purging, "dataset_row_delete", lambda dataset: 1 / 0)
        jobs_purge_asked()
    assert not Job.objects.exists() and Project.objects.filter(pk=project.pk).exists()
    jobs_purge_asked()
    assert not Project.objects.filter(pk=project.pk).exists() and not Dataset.objects.exists()


def test_one_that_lies_in_the_trash_for_a_short_time_stays(people: SimpleNamespace, job: Job) -> None:
    project = deleted(people)
    jobs_purge_asked()
    assert Job.objects.filter(project=project).exists()


def test_who_deletes_their_last_project_creates_another_of_the_same_name(people: SimpleNamespace) -> None:
    Membership.objects.filter(user=people.owner).exclude(project=people.project).delete()
    deleted(people)
    assert selectors.project_default(user=people.owner) is None
    made = project_create(user=people.owner, name="Birds")
    assert made.slug != people.project.slug and selectors.project_default(user=people.owner) == made
    assert Membership.objects.get(project=made).role == Role.ADMIN


def test_a_project_whose_older_name_has_a_line_break_is_deleted_by_the_name_that_its_page_shows(
    people: SimpleNamespace,
) -> None:
    Project.objects.filter(pk=people.project.pk).update(name="Birds\nof  prey")
    project = Project.objects.get(pk=people.project.pk)
    with pytest.raises(Invalid, match=r"Type the project's name, Birds of prey, to delete it\."):
        project_delete(user=people.owner, project=project, name="Birds")
    project_delete(user=people.owner, project=project, name="Birds of prey")
    assert Project.objects.get(pk=project.pk).deleted_at is not None


def test_a_project_of_whose_older_name_nothing_can_be_seen_is_deleted_by_its_address(people: SimpleNamespace) -> None:
    Project.objects.filter(pk=people.project.pk).update(name="\x80")
    project = Project.objects.get(pk=people.project.pk)
    with pytest.raises(Invalid, match=rf"Type the project's name, {project.slug}, to delete it\."):
        project_delete(user=people.owner, project=project, name="")
    project_delete(user=people.owner, project=project, name=project.slug)
    assert Project.objects.get(pk=project.pk).deleted_at is not None
