"""Tokens of the API: what they may, how long, and what is kept of them."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.accounts import selectors, services
from harness.accounts.access import require, require_admin, visible_projects
from harness.accounts.models import ApiToken, Role, Scope
from harness.errors import Forbidden, Invalid, NotFound

pytestmark = pytest.mark.django_db


def token_user(user, **options):
    """The user as a request with a new token would bring it."""
    _, text = services.token_create(user=user, name="t", **options)
    return selectors.token_find(text).user


@pytest.mark.parametrize(
    ("scope", "allowed"), [(Scope.READ, Role.VIEWER), (Scope.WRITE, Role.MEMBER), (Scope.ADMIN, Role.ADMIN)]
)
def test_a_scope_is_a_ceiling_for_the_role(scope, allowed, people):
    user = token_user(people.owner, scope=scope)
    assert require(user, people.project, Role.VIEWER) == allowed


def test_a_scope_never_raises_the_role(people):
    with pytest.raises(Forbidden):
        require(token_user(people.viewer, scope=Scope.ADMIN), people.project, Role.MEMBER)


def test_a_token_of_one_project_does_not_see_the_others(people):
    user = token_user(people.admin, scope=Scope.ADMIN, project=people.project)
    assert list(visible_projects(user)) == [people.project]
    with pytest.raises(NotFound):
        require(user, people.elsewhere, Role.VIEWER)
    with pytest.raises(Forbidden):
        require_admin(user)


def test_only_the_hash_of_a_token_is_stored(people):
    token, text = services.token_create(user=people.owner, name="laptop")
    row = ApiToken.objects.get()
    assert text.startswith("dlh_") and len(text) > 40
    assert text not in json.dumps(list(ApiToken.objects.values()), default=str)
    assert row.prefix == text[:12] and row == token


def test_a_token_is_found_by_its_text_until_it_is_revoked_or_expires(people):
    token, text = services.token_create(user=people.owner, name="t", expires_at=timezone.now() + timedelta(days=1))
    found = selectors.token_find(text)
    assert found == token and found.last_used_at
    assert selectors.token_find(text[:-1]) is None and selectors.token_find("") is None
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert selectors.token_find(text) is None
    ApiToken.objects.update(expires_at=None)
    with pytest.raises(NotFound):
        services.token_revoke(user=people.mate, token_id=token.pk)
    services.token_revoke(user=people.owner, token_id=token.pk)
    assert selectors.token_find(text) is None


@pytest.mark.parametrize(("scope", "may"), [(Scope.WRITE, False), (Scope.ADMIN, True)])
def test_an_admin_ends_tokens_of_others_only_with_a_token_as_wide_as_that(people, scope, may):
    token, text = services.token_create(user=people.owner, name="t")
    actor = token_user(people.admin, scope=scope)
    with contextlib.nullcontext() if may else pytest.raises(NotFound):
        services.token_revoke(user=actor, token_id=token.pk)
    assert (selectors.token_find(text) is None) == may


def test_a_token_of_somebody_who_was_switched_off_is_dead(people):
    _, text = services.token_create(user=people.owner, name="t")
    services.user_update(actor=people.admin, user=people.owner, is_active=False)
    assert selectors.token_find(text) is None


def test_a_token_makes_none_that_outlives_it(people):
    end = timezone.now() + timedelta(days=1)
    brief = token_user(people.owner, expires_at=end)
    for later in (None, end + timedelta(seconds=1)):
        with pytest.raises(Forbidden, match="longer") as refused:
            services.token_create(user=brief, name="later", expires_at=later)
        assert refused.value.hint.startswith("Give an earlier date, or"), "no whole day is left"
    made, _ = services.token_create(user=brief, name="sooner", expires_at=end)
    assert made.expires_at == end
    with pytest.raises(Forbidden) as refused:
        services.token_create(user=token_user(people.owner, expires_at=end + timedelta(days=89)), name="endless")
    assert "earlier date, 89 days from now at most, or" in refused.value.hint


def test_a_token_makes_no_wider_token(people):
    narrow = token_user(people.owner, scope=Scope.WRITE, project=people.project)
    for options in ({"scope": Scope.ADMIN, "project": people.project}, {"scope": Scope.WRITE}):
        with pytest.raises(Forbidden):
            services.token_create(user=narrow, name="wider", **options)
    services.token_create(user=narrow, name="same", scope=Scope.READ, project=people.project)
    with pytest.raises(Forbidden):
        services.token_create(user=token_user(people.owner, scope=Scope.READ), name="x", scope=Scope.READ)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": " "}, "name"),
        ({"scope": "root"}, "scope"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "expires_at"),
    ],
)
def test_a_wrong_token_names_the_field(options, field, people):
    with pytest.raises(Invalid) as caught:
        services.token_create(user=people.owner, **{"name": "t", **options})
    assert caught.value.field == field
