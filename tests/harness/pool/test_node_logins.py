"""A node's login at the broker ends with the node, and stays the newest one, whatever happens in between."""

from __future__ import annotations

import pytest
import redis

from harness.errors import Unavailable
from harness.pool import broker_users, joining, removing
from harness.pool.models import Node
from tests.harness.pool.joins import join, real_broker, text

__all__ = ["real_broker", "text"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def meanwhile(monkeypatch, broker):
    """Have something done once the broker has told which users it has, of which it has lost node-2's."""
    real = broker_users._acl

    def during(act):
        broker.execute_command("ACL", "DELUSER", "node-node-2")

        def acl(*words):
            told = real(*words)
            if words == ("USERS",):
                act()
            return told

        monkeypatch.setattr(broker_users, "_acl", acl)

    return during


def test_a_node_that_is_removed_while_lost_users_are_made_again_gets_no_login(text, people, meanwhile):
    url = join(text).redis_url
    meanwhile(lambda: removing.node_remove(user=people.admin, name="node-2"))
    assert broker_users.broker_users_restore() == 0
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(url).ping()


def test_a_machine_that_joins_while_lost_users_are_made_again_keeps_its_new_secret(text, people, meanwhile):
    before, after = join(text).redis_url, []
    newer = joining.join_token_make(user=people.admin, name="node-2")[1]
    meanwhile(lambda: after.append(join(newer).redis_url))
    broker_users.broker_users_restore()
    assert redis.Redis.from_url(after[0]).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(before).ping()


@pytest.mark.parametrize(
    "error",
    [redis.ConnectionError("Connection refused."), redis.AuthenticationError("invalid username-password pair")],
)
def test_a_node_whose_login_cannot_be_ended_now_is_not_called_removed(text, people, monkeypatch, error):
    url, real = join(text).redis_url, broker_users._acl

    def away(*_):
        raise error

    monkeypatch.setattr(broker_users, "_acl", away)
    with pytest.raises(Unavailable, match=f"login of node-2 .* cannot be ended: {str(error).rstrip('.')}\\.$") as told:
        removing.node_remove(user=people.admin, name="node-2")
    assert told.value.hint and Node.objects.filter(name="node-2").exists()
    monkeypatch.setattr(broker_users, "_acl", real)
    removing.node_remove(user=people.admin, name="node-2")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(url).ping()


def test_a_right_that_our_own_user_lacks_at_the_broker_is_told_by_its_name():
    lacked = "this user has no permissions to run the 'xadd' command"
    told = broker_users.broker_trouble(redis.exceptions.NoPermissionError(lacked))
    assert f"lacks a right: {lacked}." in told.message and "answer" not in told.message
    assert "does not answer" in broker_users.broker_trouble(redis.ConnectionError("refused")).message


def test_a_broker_that_lets_us_make_no_users_keeps_no_node_in_the_pool(text, people, monkeypatch):
    join(text)

    def forbidden(*_):
        raise redis.exceptions.NoPermissionError("this user has no permissions to run the 'acl|deluser' command")

    monkeypatch.setattr(broker_users, "_acl", forbidden)
    removing.node_remove(user=people.admin, name="node-2")
    assert not Node.objects.exists()
