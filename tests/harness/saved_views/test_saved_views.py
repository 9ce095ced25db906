"""Views are a person's own or a project's: who sees them, who changes them, and whose list opens with which."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.accounts.models import Membership, Project, Role, Scope, User
from harness.accounts.selectors import token_find
from harness.accounts.services import token_create
from harness.errors import Conflict, Forbidden, HarnessError, Invalid, NotFound
from harness.saved_views.models import DefaultView, SavedView
from harness.saved_views.selectors import view_default, view_find, view_get, view_list
from harness.saved_views.services import (
    view_create,
    view_default_clear,
    view_default_set,
    view_delete,
    view_share,
    view_update,
)

pytestmark = pytest.mark.django_db


def names(user: User) -> list[str]:
    return [view.name for view in view_list(user=user)]


def with_token(user: User, scope: Scope, project: Any = None) -> User:
    """The person as a request with such a token brings them."""
    found = token_find(token_create(user=user, name="t", scope=scope, project=project)[1])
    assert found is not None
    return found.user


@pytest.fixture
def shared(people: SimpleNamespace) -> SavedView:
    """A team mate's view, seen by the project."""
    return view_create(user=people.mate, name="Team", query="state=failed", project=people.project)


def test_ones_own_view_is_found_by_its_name_however_many_are_shared_under_it(people: SimpleNamespace) -> None:
    for number in range(4):
        project = Project.objects.create(name=f"Project {number}", slug=f"project-{number}")
        Membership.objects.create(project=project, user=people.owner, role=Role.MEMBER)
        SavedView.objects.create(id=f"a{number}", owner=people.owner, project=project, name="Best")
    own = SavedView.objects.create(id="z", owner=people.owner, name="Best")
    assert view_find(user=people.owner, id_or_name="Best") == own


def test_a_view_of_ones_own_is_seen_by_nobody_else(people: SimpleNamespace) -> None:
    view = view_create(user=people.mate, name="  My   own ", query="?q=&state=failed&page=4")
    assert (view.name, view.query) == ("My own", "state=failed")
    assert names(people.mate) == ["My own"]
    for other in (people.owner, people.viewer, people.outsider, people.admin):
        assert names(other) == []
        with pytest.raises(NotFound):
            view_get(user=other, view_id=view.pk)


def test_a_shared_view_is_seen_by_the_project_and_changed_by_its_owner_and_the_admins(
    people: SimpleNamespace, shared: SavedView
) -> None:
    may = {user.username: view.is_changeable for user in (people.owner, people.mate, people.viewer, people.admin)
           for view in view_list(user=user)}  # type: ignore[attr-defined]  # fmt: skip
    assert may == {"owner": True, "mate": True, "viewer": False, "admin": True}
    assert names(people.outsider) == []
    view_update(user=people.owner, view=shared, name="The team")
    for act in (lambda: view_update(user=people.viewer, view=shared, name="x"),
                lambda: view_delete(user=people.viewer, view=shared)):  # fmt: skip
        with pytest.raises(Forbidden):
            act()
    with pytest.raises(NotFound):
        view_delete(user=people.outsider, view=shared)
    view_delete(user=people.mate, view=shared)
    assert not SavedView.objects.exists()


def test_who_left_a_project_neither_sees_nor_changes_what_they_shared_there(
    people: SimpleNamespace, shared: SavedView
) -> None:
    view_default_set(user=people.mate, view=shared)
    Membership.objects.filter(user=people.mate).delete()
    assert names(people.mate) == [] and view_default(user=people.mate) is None
    with pytest.raises(NotFound):
        view_update(user=people.mate, view=shared, name="Still mine")
    assert names(people.viewer) == ["Team"]


def test_a_viewer_shares_nothing_and_an_admin_takes_no_view_for_their_own(
    people: SimpleNamespace, shared: SavedView
) -> None:
    own = view_create(user=people.viewer, name="Own", query="")
    for project, error in ((people.project, Forbidden), (people.elsewhere, NotFound)):
        with pytest.raises(error):
            view_share(user=people.viewer, view=own, project=project)
    with pytest.raises(Forbidden):
        view_share(user=people.owner, view=shared, project=None)
    assert view_share(user=people.mate, view=shared, project=None).project is None
    assert names(people.owner) == []


def test_a_name_stands_once_with_its_owner_and_once_in_a_project(people: SimpleNamespace, shared: SavedView) -> None:
    own = view_create(user=people.mate, name="Team", query="")
    for again in (lambda: view_create(user=people.mate, name="Team", query=""),
                  lambda: view_create(user=people.owner, name="Team", query="", project=people.project),
                  lambda: view_share(user=people.mate, view=own, project=people.project)):  # fmt: skip
        with pytest.raises(Conflict):
            again()
    assert view_find(user=people.mate, id_or_name="Team") == own
    assert view_find(user=people.mate, id_or_name=shared.pk) == view_find(user=people.viewer, id_or_name="Team")


def test_shared_views_of_one_name_are_told_apart_by_id(people: SimpleNamespace, shared: SavedView) -> None:
    Membership.objects.create(project=people.elsewhere, user=people.viewer, role=Role.VIEWER)
    other = view_create(user=people.outsider, name="Team", query="", project=people.elsewhere)
    with pytest.raises(Invalid, match=other.pk):
        view_find(user=people.viewer, id_or_name="Team")
    with pytest.raises(NotFound):
        view_find(user=people.mate, id_or_name=other.pk)


@pytest.mark.parametrize(
    ("name", "query"),
    [("", ""), ("x" * 61, ""), ("a\x00b", ""), ("x", "state=gone"), ("x", "sort=x"), ("x", "column=x"),
     ("x", "q=" + "x" * 6000), ("x", "a&" * 2000), ("x", "project=elsewhere")],
)  # fmt: skip
def test_what_cannot_be_shown_or_called_so_is_not_saved(people: SimpleNamespace, name: str, query: str) -> None:
    with pytest.raises(HarnessError):
        view_create(user=people.owner, name=name, query=query)
    assert not SavedView.objects.exists()


def test_each_person_has_a_default_of_their_own(people: SimpleNamespace, shared: SavedView) -> None:
    own = view_create(user=people.viewer, name="Own", query="")
    view_default_set(user=people.viewer, view=shared)
    view_default_set(user=people.viewer, view=own)
    assert view_default(user=people.viewer) == own and view_default(user=people.mate) is None
    view_default_clear(user=people.viewer, view=shared)
    assert view_default(user=people.viewer) == own
    view_default_clear(user=people.viewer, view=own)
    assert view_default(user=people.viewer) is None


def test_a_view_that_was_deleted_meanwhile_is_neither_changed_nor_made_a_default(
    people: SimpleNamespace, shared: SavedView
) -> None:
    SavedView.objects.all().delete()
    for act in (lambda: view_update(user=people.mate, view=shared, name="x"),
                lambda: view_default_set(user=people.mate, view=shared)):  # fmt: skip
        with pytest.raises(NotFound):
            act()
    assert not DefaultView.objects.exists()


def test_a_token_for_one_project_sees_and_makes_that_projects_views_only(
    people: SimpleNamespace, shared: SavedView
) -> None:
    view_create(user=people.mate, name="Own", query="")
    bound = with_token(people.mate, Scope.WRITE, people.project)
    assert names(bound) == ["Team"]
    with pytest.raises(Forbidden):
        view_create(user=bound, name="Mine", query="")
    view_create(user=bound, name="Ours", query="", project=people.project)
    reader = with_token(people.mate, Scope.READ)
    with pytest.raises(Forbidden):
        view_default_set(user=reader, view=shared)
