"""How a machine joins: tokens, refusals, the node's own credentials at portal and broker."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
import redis
from django.utils import timezone

from harness.accounts.leaving import user_delete
from harness.accounts.models import AuditEvent, User
from harness.accounts.services import user_update
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.pool import broker_users, joining, removing, services
from harness.pool.models import JoinToken, Node
from harness.pool.selectors import pool_overview
from harness.pool.terms import digest_of
from harness.store import StorePaths
from tests.harness.pool.joins import ELSEWHERE, LOCAL, join, real_broker, text
from tests.waiting import wait_for
from worker.home import REPOSITORY
from worker.plan import PLAN_VERSION

__all__ = ["real_broker", "text"]
pytestmark = pytest.mark.django_db


def refused(text, code, caller=LOCAL, **changes):
    """The refusal, which leaves the token unused."""
    with pytest.raises((Conflict, Forbidden)) as told:
        join(text, caller=caller, **changes)
    assert told.value.code == code and told.value.hint
    return told.value


def test_a_token_is_stored_hashed_and_lets_one_machine_in_once(text):
    answer = join(text)
    node = Node.objects.get(name="node-2")
    assert (answer.node, node.secret_digest) == ("node-2", digest_of(answer.secret))
    assert not JoinToken.objects.filter(digest__in=[text, answer.secret]).exists()
    assert joining.node_find(answer.secret) == node
    assert joining.node_find("dlhn_wrong") is None and joining.node_find("") is None
    refused(text, "join_token_used")
    assert AuditEvent.objects.filter(action="node_join", target="node-2").exists()


def test_an_unknown_and_an_expired_token_are_refused(text):
    refused("dlhj_nonsense", "join_token_unknown")
    JoinToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    refused(text, "join_token_expired")


@pytest.mark.parametrize(
    "left",
    [
        lambda user: user_delete(actor=None, user=user),
        lambda user: user_update(actor=None, user=user, is_active=False),
        lambda user: user_update(actor=None, user=user, is_admin=False),
    ],
    ids=["deleted", "disabled", "no admin"],
)
def test_a_token_ends_with_the_rights_of_who_made_it(text, left):
    User.objects.create_superuser("another", "another@example.org", "a long passphrase 7")
    left(JoinToken.objects.get().by)
    assert "no admin any more" in refused(text, "join_token_ended").message
    assert Node.objects.get(name="node-2").joined_at is None


def test_another_release_is_refused_and_the_token_stays_good(text):
    assert "9.9" in refused(text, "version_mismatch", version="9.9").message
    refused(text, "version_mismatch", plan_version=PLAN_VERSION + 1)
    assert join(text).node == "node-2"


@pytest.mark.parametrize(("off_s", "word"), [(60, "ahead"), (-60, "behind")])
def test_a_clock_that_is_off_is_refused_with_its_direction(text, off_s, word):
    assert word in refused(text, "clock_off", time_s=timezone.now().timestamp() + off_s).message


def test_a_name_whose_machine_lives_is_taken(text, people, node_make):
    node_make("node-2")
    refused(text, "name_taken")
    with pytest.raises(Conflict, match="alive"):
        joining.join_token_make(user=people.admin, name="node-2")


def test_a_heartbeat_from_before_the_clock_was_set_back_is_no_sign_of_life(text, people, node_make):
    node_make("node-2")
    Node.objects.update(heartbeat_at=timezone.now() + timedelta(hours=3))
    assert pool_overview().nodes[0].heartbeat_age_s == pytest.approx(3 * 3600, abs=60)
    newer = joining.join_token_make(user=people.admin, name="node-2")[1]
    assert join(newer).node == "node-2"
    removing.node_remove(user=people.admin, name="node-2")
    assert not Node.objects.exists()


def test_a_broker_that_only_its_own_machine_reaches_lets_no_other_machine_in(text, settings):
    refused(text, "broker_not_reachable", caller=ELSEWHERE)
    settings.NODE_REDIS_URL = "redis://10.1.0.1:6379/0"
    answer = join(text, caller=ELSEWHERE)
    assert answer.redis_url == f"redis://node-node-2:{answer.secret}@10.1.0.1:6379/0"


def test_a_new_token_ends_the_one_before_it(text, people):
    newer = joining.join_token_make(user=people.admin, name="node-2")[1]
    refused(text, "join_token_unknown")
    assert join(newer).node == "node-2"


def test_only_admins_make_tokens_and_only_for_nodes_that_are_expected(people):
    with pytest.raises(Forbidden):
        joining.join_token_make(user=people.owner, name="node-2")
    with pytest.raises(NotFound):
        joining.join_token_make(user=people.admin, name="node-2")
    services.node_add(user=people.admin, name="node-2")
    with pytest.raises(Invalid):
        joining.join_token_make(user=people.admin, name="node-2", valid_s=1)


def test_the_node_signs_in_at_the_broker_as_itself_and_cannot_administer_it(text):
    mine = redis.Redis.from_url(join(text).redis_url, decode_responses=True)
    assert mine.ping() and mine.info("server")
    mine.xadd("dlh:events", {"event": "{}"})
    mine.rpush("node.node-2", "x")
    mine.lpush("control", "x")
    mine.xadd("dlh:events:3", {"event": "{}"})
    mine.xadd("dlh:job:job1", {"event": "{}"})
    mine.expire("dlh:job:job1", 60)
    mine.hset("dlh:meet:job1:1", "node-2", 0)
    assert mine.hgetall("dlh:meet:job1:1") == {"node-2": "0"}
    for forbidden in (
        lambda: mine.rpop("control"),
        lambda: mine.xrange("dlh:events"),
        lambda: mine.xrange("dlh:job:job1"),
        lambda: mine.xadd("dlh:pool", {"event": "{}"}),
        lambda: mine.xadd("dlh:project:abc", {"event": "{}"}),
        lambda: mine.set("dlh:hearing", 1),
        lambda: mine.set("dlh:reading:abc", 1),
        lambda: mine.hset("dlh:ingest:by", "x", 1),
        lambda: mine.hgetall("unacked"),
        lambda: mine.hgetall("node.node-22.unacked"),
        lambda: mine.sadd("_kombu.binding.node.node-22", "x"),
        lambda: mine.sadd("_kombu.binding.control", "x"),
        lambda: mine.publish("/0.celery.pidbox", '{"method": "shutdown"}'),
        lambda: mine.rpush("node.node-22", "x"),
        lambda: mine.config_get("requirepass"),
        lambda: mine.flushall(),
        lambda: mine.acl_list(),
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            forbidden()


def test_an_agent_works_with_the_node_s_own_login(text, broker, tmp_path):
    """Everything Celery needs is allowed: it reports, and takes tasks from its queue."""
    from celery import Celery

    url = join(text).redis_url
    env = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "DLH_HOME": str(tmp_path), "DLH_REDIS_URL": url,
        "DLH_NODE_NAME": "node-2",
    }  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        agent = subprocess.Popen([sys.executable, "-m", "worker.agent"], env=env, stdout=log, stderr=log)
    broker.execute_command("ACL", "LOG", "RESET")
    try:
        wait_for(lambda: broker.llen("control"), 120)
        Celery(broker=url).send_task("node.stop", ["job1", 1, "cancel"], queue="node.node-2")
        wait_for(lambda: broker.xlen("dlh:job:job1"), 60)  # it told that there is nothing to stop
        assert broker.execute_command("ACL", "LOG") == []
    except AssertionError as error:
        raise AssertionError((tmp_path / "log").read_text()[-3000:]) from error
    finally:
        agent.terminate()
        agent.wait()


def test_a_user_that_the_broker_forgot_is_made_again_and_a_removed_node_cannot_sign_in(
    text, people, broker, django_capture_on_commit_callbacks
):
    url = join(text).redis_url
    broker.execute_command("ACL", "DELUSER", "node-node-2")
    assert broker_users.broker_users_restore() == 1
    assert broker_users.broker_users_restore() == 0
    assert redis.Redis.from_url(url).ping()
    with django_capture_on_commit_callbacks(execute=True):
        removing.node_remove(user=people.admin, name="node-2")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(url).ping()


def test_a_machine_that_joins_anew_cuts_off_the_one_before_with_its_open_connection(text, people):
    before = redis.Redis.from_url(join(text).redis_url)
    before.lpush("node.node-2", "{}")
    newer = joining.join_token_make(user=people.admin, name="node-2")[1]
    after = redis.Redis.from_url(join(newer).redis_url)
    with pytest.raises(redis.RedisError):
        before.brpop("node.node-2", timeout=1)
    assert after.brpop("node.node-2", timeout=1)


def test_a_new_control_process_gives_every_user_the_rules_of_its_release(text, broker, monkeypatch):
    mine = redis.Redis.from_url(join(text).redis_url)
    broker.execute_command("ACL", "SETUSER", "node-node-2", "allkeys")
    mine.xadd("dlh:pool", {"event": "{}"})
    assert broker_users.broker_users_restore() == 0
    monkeypatch.setattr(broker_users, "_given", set())
    assert broker_users.broker_users_restore() == 1
    with pytest.raises(redis.exceptions.NoPermissionError):
        mine.xadd("dlh:pool", {"event": "{}"})
    assert broker_users.broker_users_restore() == 0


def test_a_broker_that_does_not_know_every_command_makes_the_user_without_it(monkeypatch, broker):
    real = broker_users._acl

    def older(*words):
        if broker_users.NEWER in words:
            raise redis.ResponseError(f"Error in ACL SETUSER modifier '{broker_users.NEWER}': Unknown command")
        return real(*words)

    monkeypatch.setattr(broker_users, "_acl", older)
    assert broker_users.broker_user_set("node-2", digest_of("secret"))
    assert "node-node-2" in {str(name) for name in broker.execute_command("ACL", "USERS")}


def test_a_broker_that_knows_no_keys_that_are_only_written_lets_the_node_read_them(monkeypatch, broker):
    real = broker_users._acl

    def older(*words):
        for word in words:
            if word == broker_users.NEWER or word.startswith(broker_users.WRITE_ONLY):
                raise redis.ResponseError(f"Error in ACL SETUSER modifier '{word}': Syntax error")
        return real(*words)

    monkeypatch.setattr(broker_users, "_acl", older)
    assert broker_users.broker_user_set("node-2", digest_of("secret"))
    place = broker.connection_pool.connection_kwargs
    mine = redis.Redis(host=place["host"], port=place["port"], username="node-node-2", password="secret")
    assert mine.lpush("control", "x") and mine.xrange("dlh:events") == []
    with pytest.raises(redis.exceptions.NoPermissionError):
        mine.xadd("dlh:pool", {"event": "{}"})


def test_every_store_has_a_mark_of_its_own():
    assert len(joining.store_id()) == 32
    assert joining.store_id() == joining.store_id()


def test_two_who_ask_at_once_for_the_mark_of_a_new_store_are_told_the_same(monkeypatch, settings, tmp_path):
    settings.STORE = StorePaths(tmp_path / "store")
    both, made = Barrier(2, timeout=30.0), secrets.token_hex

    def made_by_both(count):
        both.wait()
        return made(count)

    monkeypatch.setattr(joining.secrets, "token_hex", made_by_both)
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda _: joining.store_id(), range(2)))
    monkeypatch.undo()
    assert set(told) == {joining.store_id()}
    assert [path.name for path in settings.STORE.root.glob(f"{joining.STORE_MARK}*")] == [joining.STORE_MARK]
