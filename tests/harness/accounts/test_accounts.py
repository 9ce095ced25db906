from __future__ import annotations

import json
import threading
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from harness.accounts import selectors, services
from harness.accounts.access import require, visible_projects
from harness.accounts.models import Membership, Project, Role, User
from harness.errors import Conflict, Forbidden, Invalid, NotFound

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.mark.parametrize(
    ("who", "role", "answer"),
    [
        ("owner", Role.ADMIN, None),
        ("mate", Role.MEMBER, None),
        ("mate", Role.ADMIN, Forbidden),
        ("viewer", Role.VIEWER, None),
        ("viewer", Role.MEMBER, Forbidden),
        ("outsider", Role.VIEWER, NotFound),
        ("admin", Role.ADMIN, None),
    ],
)
def test_a_role_gives_what_it_names_and_less(who, role, answer, people):
    if answer is None:
        require(getattr(people, who), people.project, role)
    else:
        with pytest.raises(answer):
            require(getattr(people, who), people.project, role)


def test_somebody_who_was_switched_off_may_nothing(people):
    people.owner.is_active = False
    with pytest.raises(NotFound):
        require(people.owner, people.project, Role.VIEWER)
    assert not visible_projects(people.owner).exists()


def test_a_one_time_password_is_made_by_admins_alone_and_takes_the_place_of_the_one_before(people):
    people.mate.set_password(PASSWORD)
    people.mate.save()
    made = services.user_password_reset(actor=people.admin, user=people.mate)
    now = User.objects.get(pk=people.mate.pk)
    assert now.check_password(made) and not now.check_password(PASSWORD)
    with pytest.raises(Forbidden):
        services.user_password_reset(actor=people.owner, user=people.mate)


def test_somebody_was_last_seen_when_they_signed_in_or_used_a_token(people):
    def seen_at():
        return {user.username: selectors.user_seen_at(user) for user in selectors.user_list(user=people.admin)}

    assert seen_at()["mate"] is None
    User.objects.filter(pk=people.mate.pk).update(last_login=timezone.now())
    signed_in_at = seen_at()["mate"]
    for name in ("one", "two"):
        selectors.token_find(services.token_create(user=people.mate, name=name)[1])
    assert signed_in_at < seen_at()["mate"] == people.mate.tokens.latest("last_used_at").last_used_at


def test_a_new_password_gives_no_right_back_that_was_taken_meanwhile(people):
    seen_before = User.objects.get(pk=people.admin.pk)
    User.objects.filter(pk=people.admin.pk).update(is_active=False, is_superuser=False)
    services.user_update(actor=seen_before, user=seen_before, password=PASSWORD)
    now = User.objects.get(pk=people.admin.pk)
    assert now.check_password(PASSWORD)
    assert not now.is_active and not now.is_superuser


def test_whoever_makes_a_project_is_its_admin_and_names_may_repeat(people):
    first, second = (services.project_create(user=people.mate, name="My Birds!") for _ in range(2))
    assert (first.slug, second.slug) == ("my-birds", "my-birds-2")
    assert require(people.mate, first, Role.ADMIN)
    assert services.project_create(user=people.mate, name="日本").slug == "project"
    with pytest.raises(Invalid):
        services.project_create(user=people.mate, name=" ")


def test_projects_are_listed_for_their_members(people):
    assert [project.slug for project in selectors.project_list(user=people.mate)] == ["birds"]
    assert [project.members_count for project in selectors.project_list(user=people.admin)] == [3, 1]
    assert selectors.project_get(user=people.mate, slug="birds") == people.project
    with pytest.raises(NotFound):
        selectors.project_get(user=people.mate, slug="elsewhere")


def test_members_are_managed_by_admins_of_the_project(people):
    with pytest.raises(Forbidden):
        services.membership_set(actor=people.mate, project=people.project, user=people.outsider, role=Role.VIEWER)
    with pytest.raises(NotFound):
        services.membership_set(actor=people.outsider, project=people.project, user=people.outsider, role=Role.ADMIN)
    services.membership_set(actor=people.owner, project=people.project, user=people.outsider, role="viewer")
    assert require(people.outsider, people.project, Role.VIEWER) == Role.VIEWER
    with pytest.raises(Invalid):
        services.membership_set(actor=people.owner, project=people.project, user=people.mate, role="king")
    services.membership_remove(actor=people.outsider, project=people.project, user=people.outsider)
    assert not Membership.objects.filter(user=people.outsider, project=people.project).exists()


def test_a_project_keeps_an_admin(people):
    for change in (
        lambda: services.membership_set(actor=people.owner, project=people.project, user=people.owner, role="viewer"),
        lambda: services.membership_remove(actor=people.owner, project=people.project, user=people.owner),
    ):
        with pytest.raises(Conflict, match="last admin"):
            change()


@pytest.mark.parametrize(("kept", "given"), [("Anna", "anna"), ("anna", "ANNA"), ("Änne", "änne")])
def test_a_name_that_differs_from_anothers_in_case_alone_is_refused(kept, given, people):
    services.user_create(actor=people.admin, username=kept)
    with pytest.raises(Conflict, match=f"{kept} already exists, .*upper and lower case") as refused:
        services.user_create(actor=people.admin, username=given)
    assert refused.value.field == "username"
    assert services.user_create(actor=people.admin, username=f"{given}2")[0].username == f"{given}2"


def test_users_are_made_by_admins_with_a_one_time_password(people):
    with pytest.raises(Forbidden):
        services.user_create(actor=people.owner, username="new")
    user, password = services.user_create(actor=people.admin, username="new", email="new@example.org")
    assert user.check_password(password) and not user.is_superuser
    with pytest.raises(Conflict):
        services.user_create(actor=people.admin, username="new")
    # An address with one of dots alone leads elsewhere: no page could ever disable such a person.
    for dots in (".", ".."):
        with pytest.raises(Invalid, match=r"user names \. and \.\. cannot"):
            services.user_create(actor=people.admin, username=dots)
    for bad in ({"username": "a b"}, {"username": "x", "password": "short"}, {"username": "x", "email": "nonsense"}):
        with pytest.raises(Invalid):
            services.user_create(actor=people.admin, **bad)


def test_people_change_their_own_password_only_and_not_by_token(people):
    services.user_update(actor=people.mate, user=people.mate, password="another long phrase")
    _, text = services.token_create(user=people.mate, name="t")
    for actor, user in ((people.mate, people.owner), (selectors.token_find(text).user, people.mate)):
        with pytest.raises(Forbidden):
            services.user_update(actor=actor, user=user, password="another long phrase")
    with pytest.raises(Forbidden):
        services.user_update(actor=people.mate, user=people.mate, is_admin=True)


def test_the_last_admin_stays(people):
    with pytest.raises(Conflict, match="last admin"):
        services.user_update(actor=people.admin, user=people.admin, is_admin=False)


@pytest.mark.django_db(transaction=True)
def test_of_two_admins_who_leave_at_once_one_stays(people):
    User.objects.filter(pk=people.owner.pk).update(is_superuser=True)
    both = list(User.objects.filter(is_superuser=True))
    barrier, answers = threading.Barrier(2), []

    def leave(user):
        barrier.wait()
        try:
            services.user_update(actor=None, user=user, is_admin=False)
            answers.append("left")
        except Conflict:
            answers.append("stays")
        finally:
            connection.close()

    threads = [threading.Thread(target=leave, args=(user,)) for user in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["left", "stays"]
    assert User.objects.filter(is_superuser=True, is_active=True).count() == 1


def test_the_command_makes_the_first_admin_and_project_once(db):
    def call(*arguments):
        out = StringIO()
        call_command("admin_create", "--json", *arguments, stdout=out)
        return json.loads(out.getvalue())

    first = call("--token", "demo")
    user = User.objects.get(username="admin")
    assert user.is_superuser and user.check_password(first["password"])
    assert selectors.token_find(first["token"]).scope == "admin"
    assert Project.objects.get().memberships.get().user == user
    assert call()["password"] == ""
    assert User.objects.get().check_password(first["password"])
    renewed = call("--reset")["password"]
    assert User.objects.get().check_password(renewed)
    assert not User.objects.get().check_password(first["password"])


def test_a_name_that_is_far_too_long_is_nobodys_and_no_fault(people):
    for name in ("x" * 100_000, "ß" * 100_000):
        with pytest.raises(NotFound, match="There is no user") as told:
            selectors.user_get(username=name)
        assert len(told.value.message) < 200
