"""Save views, rename, share and delete them, and choose the one that a list opens with."""

from __future__ import annotations

from collections.abc import Callable

from django.db import IntegrityError, transaction
from django.http import QueryDict

from harness.accounts.access import require, require_write, token_of
from harness.accounts.models import Project, Role, User
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs.listing import listing_query, listing_read
from harness.saved_views.models import DefaultView, SavedView

NAME_LETTERS_MAX = 60
QUERY_LETTERS_MAX = 6000
VIEWS_MAX = 200
"""Of one owner."""
FIELDS_MAX = 200
"""Of one address: more than columns and filters come to, and fewer than Django refuses by itself."""
_GONE = "This view was deleted."


def view_create(*, user: User, name: str, query: str, project: Project | None = None) -> SavedView:
    """Save what an address says under a name, for oneself or a project. Raises `Invalid`, `Forbidden`, `Conflict`."""
    _share_check(user, project)
    if SavedView.objects.filter(owner=user).count() >= VIEWS_MAX:
        raise Conflict(f"A person has at most {VIEWS_MAX} views.", hint="Delete some first.")
    view = SavedView(owner=user, project=project, name=_name(name), query=_query(user, query))
    return _saved(view, view.save)


def view_update(*, user: User, view: SavedView, name: str | None = None, query: str | None = None) -> SavedView:
    """Rename it, or have it show something else. Raises `Forbidden`, `Invalid`, `Conflict`."""
    _change_check(user, view)
    if name is not None:
        view.name = _name(name)
    if query is not None:
        view.query = _query(user, query)
    return _saved(view, lambda: _update(view, name=view.name, query=view.query))


def view_share(*, user: User, view: SavedView, project: Project | None) -> SavedView:
    """Show it to the members of a project, or to its owner alone. Raises `Forbidden`, `Conflict`."""
    _change_check(user, view)
    if project is None and view.owner_id != user.pk:
        raise Forbidden("Only its owner can take a view back.", hint="You may delete it, or save it for yourself.")
    _share_check(user, project)
    view.project = project
    return _saved(view, lambda: _update(view, project=project))


def view_delete(*, user: User, view: SavedView) -> None:
    """Whose default it was has none. Raises `Forbidden`."""
    _change_check(user, view)
    view.delete()


def view_default_set(*, user: User, view: SavedView) -> None:
    """Have the person's list of jobs open with it. Raises `Forbidden`."""
    require_write(user)
    with transaction.atomic():
        if SavedView.objects.select_for_update().filter(pk=view.pk).first() is None:
            raise NotFound(_GONE)
        DefaultView.objects.update_or_create(user=user, defaults={"view": view})


def view_default_clear(*, user: User, view: SavedView) -> None:
    """Have the list open with all jobs where it opened with this view. Raises `Forbidden`."""
    require_write(user)
    DefaultView.objects.filter(user=user, view=view).delete()


def _change_check(user: User, view: SavedView) -> None:
    """Its owner changes a view; one of a project also the project's admins. Raises `Forbidden`, `NotFound`."""
    require_write(user)
    if view.project is not None:
        require(user, view.project, Role.MEMBER if view.owner_id == user.pk else Role.ADMIN)


def _share_check(user: User, project: Project | None) -> None:
    """Raises `Forbidden`, `NotFound`."""
    require_write(user)
    token = token_of(user)
    if project is not None:
        require(user, project, Role.MEMBER)
    elif token and token.project_id:
        raise Forbidden("This token is for one project only.", hint="Share the view with that project.")


def _name(name: str) -> str:
    found = " ".join(name.split())
    if not found or len(found) > NAME_LETTERS_MAX or not found.isprintable():
        hint = "Say in a few words what it shows."
        raise Invalid(f"A view needs a name of at most {NAME_LETTERS_MAX} characters.", field="name", hint=hint)
    return found


def _query(user: User, query: str) -> str:
    """The short way to write it. Raises `Invalid`, `NotFound` for what no list could show."""
    if len(query) > QUERY_LETTERS_MAX or query.count("&") > FIELDS_MAX:
        raise Invalid("This is too much for a view.", field="query", hint="Remove filters or columns.")
    given = QueryDict(query.removeprefix("?"))
    listing_read(given, user=user)
    return listing_query(given)


def _saved(view: SavedView, write: Callable[[], None]) -> SavedView:
    try:
        with transaction.atomic():
            write()
    except IntegrityError as error:
        where = f"in the project {view.project.name}" if view.project else "of yours"
        raise Conflict(
            f"There is a view {view.name} {where} already.", field="name", hint="Choose another name."
        ) from error
    return view


def _update(view: SavedView, **values: object) -> None:
    if not SavedView.objects.filter(pk=view.pk).update(**values):
        raise NotFound(_GONE)
