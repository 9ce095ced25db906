"""Deleting accounts: what a person made stays, and nothing of the database tells of the person any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice

from harness.accounts import selectors, services
from harness.accounts.audit import audit_list
from harness.accounts.identities import identity_allow
from harness.accounts.leaving import user_delete
from harness.accounts.models import ApiToken, Identity, Membership, Project, RecoveryCode, Role, SignInFailure, User
from harness.accounts.second_factor import key_make
from harness.accounts.signin import signin_failed
from harness.calibration.models import CalibrationRun
from harness.datasets.services import upload_create
from harness.errors import Conflict, Forbidden, NotFound
from harness.estimates.models import OfferRow
from harness.jobs.models import DeviceUse, Job, JobEvent
from harness.notify.models import Delivery, NotifyChoice
from harness.saved_views.models import SavedView
from harness.saved_views.services import view_create

pytestmark = pytest.mark.django_db
NAME = "ada.lovelace"
ADDRESS = "ada@analytical.example.org"


@pytest.fixture
def ada(people: SimpleNamespace, dataset_make: Any, tasks_sent: Any) -> User:
    """A member of whom every table tells that may."""
    ada, _ = services.user_create(actor=people.admin, username=NAME, email=ADDRESS)
    User.objects.filter(pk=ada.pk).update(first_name="Ada", last_name="Lovelace", time_zone="Europe/London")
    services.user_update(actor=people.admin, user=ada, email=ADDRESS)
    services.membership_set(actor=people.owner, project=people.project, user=ada, role=Role.MEMBER)
    token, _ = services.token_create(user=ada, name="laptop of Ada Lovelace")
    services.token_create(user=ada, name="another")
    services.token_revoke(user=people.admin, token_id=token.pk)
    TOTPDevice.objects.create(user=ada, key=key_make(), confirmed=True)
    RecoveryCode.objects.create(user=ada, digest="0" * 64)
    Identity.objects.create(user=ada, issuer="https://id.example.org", subject="Ada Lovelace")
    identity_allow(actor=people.admin, user=ada)
    signin_failed(name=NAME, address="192.0.2.1")
    upload_create(user=ada, project=people.project, filename="a.csv", size_bytes=4)
    _history_make(people, ada, dataset_make(ada, people.project))
    return ada


def _history_make(people: SimpleNamespace, ada: User, dataset: Any) -> None:
    now, said = timezone.now(), f"{NAME} does not wait for its results, which are on node-1 alone."
    job = Job.objects.create(project=people.project, owner=ada, dataset=dataset, name="a", failure={"message": said})
    JobEvent.objects.create(job=job, kind="error", message=said, actor=ada)
    DeviceUse.objects.create(
        node_name="node-1", device_kind="cpu", device_index=0, job=job, job_name="a", project=people.project,
        project_name="Birds", owner=ada, owner_name=NAME, token=1, energy_j=1.0, energy_basis="measured",
        started_at=now - timedelta(hours=1), ended_at=now,
    )  # fmt: skip
    CalibrationRun.objects.create(
        node_name="node-1", kind="cpu", state="stopped", budget_s=60, message=f"Stopped by {NAME}."
    )
    NotifyChoice.objects.create(user=ada, webhook_url=f"https://hooks.example.org/{NAME}")
    for user in (ada, people.mate):
        body = {"title": "a finished", "job": {"id": job.pk, "owner": NAME}}
        Delivery.objects.create(
            user=user, project=people.project, channel="webhook", kind="job_finished", about="a", body=body, due_at=now
        )
    OfferRow.objects.create(owner=ada, title="Lovelace")
    OfferRow.objects.create(owner=ada, title="of the project", project=people.project)
    view_create(user=ada, name="Mine", query="state=failed")
    view_create(user=ada, name="Ours", query="state=failed", project=people.project)


def told() -> Iterator[str]:
    """Everything that the database holds, a row at a time."""
    for model in apps.get_models(include_auto_created=True):
        if model is not Session:
            yield from (f"{model.__name__} {row}" for row in model._default_manager.values())


def test_no_table_tells_of_the_person_any_more_and_what_they_made_stays(people: SimpleNamespace, ada: User) -> None:
    words = (NAME, ADDRESS, "Lovelace", "Europe/London")
    assert all(any(word in row for row in told()) for word in words)
    name = user_delete(actor=people.admin, user=ada)
    assert [row for row in told() if any(word in row for word in words)] == []
    job = Job.objects.get()
    assert job.owner.username == name == f"deleted-person-{ada.pk}" and job.dataset.owner == job.owner
    assert job.failure["message"].startswith(name) and DeviceUse.objects.get().owner_name == name
    for model in (ApiToken, Identity, RecoveryCode, TOTPDevice, Membership, NotifyChoice):
        assert not model._default_manager.filter(user=ada).exists()
    ada.refresh_from_db()
    assert ada.link_allowed_until is None
    assert not SignInFailure.objects.exists() and not ada.uploads.exists()
    assert [view.name for view in SavedView.objects.all()] == ["Ours"]
    assert [offer.title for offer in OfferRow.objects.all()] == ["of the project"]
    assert [delivery.user for delivery in Delivery.objects.all()] == [people.mate]
    lines = {(line.action, line.target) for line in audit_list(user=people.admin)}
    assert {(action, name) for action in ("user_create", "membership_set", "identity_allow", "user_delete")} <= lines


def test_nobody_signs_in_as_them_and_the_list_of_people_is_without_them(people: SimpleNamespace, ada: User) -> None:
    browser = Client()
    browser.force_login(ada)
    browser.get("/")
    name = user_delete(actor=people.admin, user=ada)
    assert browser.get("/").status_code == 302
    assert name not in {user.username for user in selectors.user_list(user=people.admin)}
    for wanted in (name, NAME):
        with pytest.raises(NotFound):
            selectors.user_get(username=wanted, disabled=True)
    assert user_delete(actor=people.admin, user=ada) == name  # again: nothing happens
    with pytest.raises(Conflict, match="deleted accounts"):
        services.user_create(actor=people.admin, username="Deleted-Person-7")
    assert services.user_create(actor=people.admin, username=NAME)[0].pk != ada.pk


def test_whoever_read_the_account_before_it_was_deleted_changes_nothing_of_it_any_more(
    people: SimpleNamespace, ada: User
) -> None:
    stale = User.objects.get(pk=ada.pk)
    user_delete(actor=people.admin, user=ada)
    for change in (
        partial(services.user_update, actor=people.admin, user=stale, is_active=True),
        partial(services.user_password_reset, actor=people.admin, user=stale),
        partial(services.membership_set, actor=people.owner, project=people.project, user=stale, role=Role.ADMIN),
        partial(services.token_create, user=stale, name="mine"),
        partial(services.project_create, user=stale, name="Mine"),
    ):
        with pytest.raises(NotFound, match="has been deleted"):
            change()
    ada.refresh_from_db()
    assert not ada.is_active and not ada.has_usable_password() and ada.link_allowed_until is None
    assert not ada.memberships.exists() and not ada.tokens.exists()


def test_jobs_that_run_go_on(people: SimpleNamespace, ada: User) -> None:
    Job.objects.update(state="running")
    user_delete(actor=people.admin, user=ada)
    assert Job.objects.get().state == "running"


def test_admins_delete_others_and_everybody_only_themselves_once_they_have_shown_who_they_are(
    people: SimpleNamespace,
) -> None:
    with pytest.raises(Forbidden):
        user_delete(actor=people.owner, user=people.mate)
    with pytest.raises(Forbidden, match="password"):
        user_delete(actor=people.mate, user=people.mate)
    user_delete(actor=people.mate, user=people.mate, is_proven=True)
    assert not User.objects.filter(username="mate").exists()


def test_the_last_admin_of_the_installation_stays(people: SimpleNamespace) -> None:
    with pytest.raises(Conflict, match="last admin"):
        user_delete(actor=people.admin, user=people.admin, is_proven=True)
    User.objects.filter(pk=people.mate.pk).update(is_superuser=True)
    user_delete(actor=people.admin, user=people.admin, is_proven=True)
    assert not User.objects.filter(username="admin").exists()


def test_the_last_admin_of_a_project_with_other_members_names_another_first(people: SimpleNamespace) -> None:
    with pytest.raises(Conflict, match="Birds") as caught:
        user_delete(actor=people.admin, user=people.owner)
    assert "Make another member an admin" in caught.value.hint
    assert Membership.objects.filter(user=people.owner).exists()
    services.membership_set(actor=people.owner, project=people.project, user=people.mate, role=Role.ADMIN)
    user_delete(actor=people.admin, user=people.owner)
    user_delete(actor=people.admin, user=people.outsider)  # alone in their project
    assert Project.objects.filter(slug="elsewhere").exists()


def test_a_name_of_deleted_people_that_somebody_has_is_left_to_them(people: SimpleNamespace, ada: User) -> None:
    taken = [f"Deleted-Person-{ada.pk}", f"deleted-person-{ada.pk + 1}"]
    for name in taken:  # from before such names were refused
        User.objects.create_user(name)
    assert user_delete(actor=people.admin, user=ada) == f"deleted-person-{ada.pk + 2}"
    assert User.objects.filter(username__in=taken, deleted_at=None).count() == 2


@pytest.mark.parametrize("name", ["deleted-person-7", "Deleted-Person-x"])
def test_nobody_gets_a_name_of_deleted_people(people: SimpleNamespace, name: str) -> None:
    with pytest.raises(Conflict, match="stand for deleted accounts") as told:
        services.user_create(actor=people.admin, username=name)
    assert told.value.field == "username" and told.value.hint
