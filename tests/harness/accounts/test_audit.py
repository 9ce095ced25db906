"""What is noted of changes to rights and the pool, and who may read it."""

from __future__ import annotations

import pytest

from harness.accounts import services
from harness.accounts.audit import audit_list
from harness.accounts.models import AuditEvent
from harness.accounts.selectors import token_find
from harness.errors import Conflict, Forbidden, NotFound
from harness.pool import services as pool
from harness.pool.removing import node_remove

pytestmark = pytest.mark.django_db


def lines():
    return [(e.actor.username if e.actor else "", e.action, e.target) for e in AuditEvent.objects.order_by("pk")]


def test_changes_of_roles_say_who_what_and_where(people):
    services.membership_set(actor=people.owner, project=people.project, user=people.outsider, role="viewer")
    services.membership_remove(actor=people.owner, project=people.project, user=people.outsider)
    assert lines() == [("owner", "membership_set", "outsider"), ("owner", "membership_remove", "outsider")]
    first = AuditEvent.objects.order_by("pk")[0]
    assert (first.project, first.data) == (people.project, {"role": "viewer"})


def test_a_change_that_was_refused_is_not_noted(people):
    with pytest.raises(Conflict):
        services.membership_remove(actor=people.owner, project=people.project, user=people.owner)
    with pytest.raises(NotFound):
        services.membership_set(actor=people.outsider, project=people.project, user=people.mate, role="admin")
    assert lines() == []


def test_tokens_are_noted_by_their_first_letters_and_never_whole(people):
    token, text = services.token_create(user=people.owner, name="ci", scope="admin")
    held = token_find(text).user
    services.membership_set(actor=held, project=people.project, user=people.mate, role="viewer")
    services.token_revoke(user=people.owner, token_id=token.pk)
    assert [action for _, action, _ in lines()] == ["token_create", "membership_set", "token_revoke"]
    assert AuditEvent.objects.get(action="membership_set").token == token.prefix
    assert text not in str(list(AuditEvent.objects.values()))


def test_changes_of_people_and_of_the_pool_are_noted_without_passwords(people, tasks_sent):
    services.user_create(actor=people.admin, username="fresh", password="correct horse battery")
    services.user_update(actor=people.admin, user=people.mate, password="another horse battery", is_active=False)
    pool.node_add(user=people.admin, name="node-9")
    pool.node_drain(user=people.admin, name="node-9")
    pool.node_undrain(user=people.admin, name="node-9")
    node_remove(user=people.admin, name="node-9")
    pool.pool_setting_update(user=people.admin, max_restarts=5)
    actions = "user_create user_update node_add node_drain node_undrain node_remove pool_setting_update"
    assert [action for _, action, _ in lines()] == actions.split()
    assert "horse" not in str(list(AuditEvent.objects.values()))
    assert AuditEvent.objects.get(action="pool_setting_update").data == {"max_restarts": 5}


def test_admins_of_a_project_read_its_changes_and_only_those(people):
    services.membership_set(actor=people.owner, project=people.project, user=people.mate, role="viewer")
    services.token_create(user=people.outsider, name="theirs", project=people.elsewhere)
    assert [e.action for e in audit_list(user=people.owner, project=people.project)] == ["membership_set"]
    assert audit_list(user=people.admin).count() == 2
    for person in (people.mate, people.viewer):
        with pytest.raises(Forbidden):
            audit_list(user=person, project=people.project)
    with pytest.raises(NotFound):
        audit_list(user=people.outsider, project=people.project)
    with pytest.raises(Forbidden):
        audit_list(user=people.owner)
