"""Which project data goes to where none is named, and how many projects one person may create."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.accounts import selectors, services
from harness.accounts.models import Membership, Project, Role, Scope, User
from harness.errors import Forbidden, Invalid, NotFound

pytestmark = pytest.mark.django_db


def chosen(user: User, slug: str = "") -> str:
    return selectors.project_chosen(user=user, slug=slug).slug


def added(user: User, role: Role = Role.MEMBER, name: str = "a trap") -> Project:
    """A project of somebody else's that the person was added to, older than any of their own."""
    project = Project.objects.create(name=name, slug=name.replace(" ", "-"))
    Project.objects.filter(pk=project.pk).update(created_at="2001-01-01T00:00:00Z")
    Membership.objects.create(project=project, user=user, role=role)
    return project


def test_the_only_project_that_one_may_add_to_need_not_be_named(people: SimpleNamespace) -> None:
    added(people.mate, Role.VIEWER)
    assert chosen(people.mate) == "birds"
    assert chosen(people.mate, "a-trap") == "a-trap"
    with pytest.raises(NotFound):
        chosen(people.mate, "elsewhere")


def test_whoever_is_added_to_a_project_by_others_has_to_name_one_from_then_on(people: SimpleNamespace) -> None:
    added(people.mate)
    with pytest.raises(Invalid) as caught:
        chosen(people.mate)
    assert caught.value.field == "project" and "a-trap, birds." in caught.value.message
    assert "--project SLUG" in caught.value.hint


@pytest.mark.parametrize("role", [Role.MEMBER, Role.ADMIN])
def test_of_several_the_only_one_that_a_person_created_is_taken_whatever_others_make_them(
    role: Role, people: SimpleNamespace
) -> None:
    own = services.project_create(user=people.outsider, name="zoo")
    added(people.outsider, role)
    assert chosen(people.outsider) == own.slug
    services.project_create(user=people.outsider, name="second zoo")
    with pytest.raises(Invalid) as caught:
        chosen(people.outsider)
    assert "a-trap, elsewhere, second-zoo, zoo" in caught.value.message


def test_an_own_project_that_a_person_has_left_is_not_taken(people: SimpleNamespace) -> None:
    own = services.project_create(user=people.mate, name="zoo")
    services.membership_set(actor=people.mate, project=own, user=people.owner, role=Role.ADMIN)
    services.membership_remove(actor=people.mate, project=own, user=people.mate)
    assert chosen(people.mate) == "birds"


def test_a_token_for_one_project_names_it(people: SimpleNamespace) -> None:
    added(people.mate)
    _, text = services.token_create(user=people.mate, name="t", project=people.project)
    found = selectors.token_find(text)
    assert found and chosen(found.user) == "birds"


def test_whoever_may_add_nowhere_is_told_why(people: SimpleNamespace) -> None:
    with pytest.raises(Forbidden, match="viewer"):
        chosen(people.viewer)
    _, text = services.token_create(user=people.mate, name="t", scope=Scope.READ)
    found = selectors.token_find(text)
    assert found
    with pytest.raises(Forbidden, match="read-only"):
        chosen(found.user)
    with pytest.raises(Invalid, match="not in a project yet"):
        chosen(User.objects.create_user("newcomer"))


def test_a_list_of_many_projects_is_cut(people: SimpleNamespace) -> None:
    for number in range(12):
        added(people.mate, name=f"trap {number:02d}")
    with pytest.raises(Invalid, match=r"birds, .*trap-08 and 3 more"):
        chosen(people.mate)


def test_a_person_creates_a_limited_number_of_projects_and_an_admin_any(people: SimpleNamespace, settings: Any) -> None:
    settings.PROJECTS_MAX = 2
    first = services.project_create(user=people.mate, name="one")
    services.project_create(user=people.mate, name="two")
    services.membership_set(actor=people.mate, project=first, user=people.owner, role=Role.ADMIN)
    services.membership_remove(actor=people.mate, project=first, user=people.mate)  # given away, but no less created
    with pytest.raises(Forbidden, match="2 projects"):
        services.project_create(user=people.mate, name="three")
    Project.objects.filter(name="two").update(deleted_at=timezone.now())
    with pytest.raises(Forbidden, match="those in the trash count, too"):
        services.project_create(user=people.mate, name="three")
    services.project_create(user=people.owner, name="four")  # being made an admin of "one" costs nothing
    for number in range(3):
        services.project_create(user=people.admin, name=f"more {number}")


def test_any_number_of_projects_may_have_names_without_a_latin_letter(people: SimpleNamespace) -> None:
    Project.objects.bulk_create(
        Project(name="鳥", slug="project" if number == 1 else f"project-{number}") for number in range(1, 60)
    )
    Project.objects.filter(slug="project-7").delete()
    slugs = [services.project_create(user=people.admin, name=name).slug for name in ("研究", "Птицы", "!")]
    assert slugs == ["project-7", "project-60", "project-61"]


def test_where_only_admins_create_projects_others_are_told_to_ask_one(people: SimpleNamespace, settings: Any) -> None:
    settings.PROJECTS_MAX = 0
    with pytest.raises(Forbidden, match="Only admins of the installation") as caught:
        services.project_create(user=people.owner, name="mine")
    assert caught.value.hint == "Ask one to create it, and to add you."
    assert services.project_create(user=people.admin, name="theirs").slug == "theirs"
    with pytest.raises(Invalid) as away:
        chosen(User.objects.create_user("newcomer"))
    assert away.value.hint == "Have a project's admin add you."
