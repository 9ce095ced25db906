"""Read saved views: a person's own, and those shared with the projects that the person sees."""

from __future__ import annotations

from django.db.models import BooleanField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet

from harness.accounts.access import projects_with_role, token_of, visible_projects
from harness.accounts.models import Role, User
from harness.errors import Invalid, NotFound
from harness.saved_views.models import DefaultView, SavedView

_NAMED = 3
"""Views of one name that are told apart by their ids."""


def view_list(*, user: User) -> QuerySet[SavedView]:
    """By name, each with `is_default`, `is_changeable`, owner and project loaded.

    A token for one project sees that project's only.
    """
    token = token_of(user)
    own = Q(project=None, owner=user)
    where = Q(project__in=visible_projects(user))
    rows = SavedView.objects.filter(where if token and token.project_id else where | own)
    default = Exists(DefaultView.objects.filter(user=user, view=OuterRef("pk")))
    mine = own | Q(owner=user, project__in=projects_with_role(user, Role.MEMBER))
    changeable = mine | Q(project__in=projects_with_role(user, Role.ADMIN))
    rows = rows.annotate(is_default=default, is_changeable=ExpressionWrapper(changeable, BooleanField()))
    return rows.select_related("owner", "project").order_by("name", "pk")


def view_get(*, user: User, view_id: str) -> SavedView:
    """One by id. Raises `NotFound`."""
    found = view_list(user=user).filter(pk=view_id).first()
    if found is None:
        raise NotFound("There is no such view.", hint="The page Jobs shows those that you can use.")
    return found


def view_find(*, user: User, id_or_name: str) -> SavedView:
    """One by id or name; of the same name the person's own goes first. Raises `NotFound`, `Invalid`."""
    rows = view_list(user=user).filter(Q(pk=id_or_name) | Q(name=id_or_name))
    found = list(rows.order_by(F("project").asc(nulls_first=True), "pk")[:_NAMED])
    chosen = [view for view in found if view.pk == id_or_name or view.project_id is None] or found
    if not chosen:
        raise NotFound(f"There is no view {id_or_name[:60]!r}.", hint="The page Jobs shows those that you can use.")
    if len(chosen) > 1:
        ids = ", ".join(view.pk for view in chosen)
        raise Invalid(f"Several views are called {id_or_name}: {ids}.", field="view", hint="Use an id instead.")
    return chosen[0]


def view_default(*, user: User) -> SavedView | None:
    """The one that the person's list of jobs opens with."""
    return view_list(user=user).filter(defaults__user=user).first()
