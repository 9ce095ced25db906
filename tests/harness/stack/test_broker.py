"""The broker: which one is taken, and that our own one is closed to strangers."""

import stat

import pytest
import redis

from harness.env import SettingsError
from harness.stack import broker as module
from harness.stack.broker import broker_choose, broker_wait, server_version, without_password
from harness.stack.home import StackError, StackHome
from harness.stack.ports import port_take
from harness.stack.process import Child


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("DLH_REDIS_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    home = StackHome(tmp_path / "home with a space")
    home.make_folders()
    return home


@pytest.fixture
def running(home):
    broker = broker_choose(home, None)
    child = Child(broker.child)
    child.start()
    broker_wait(broker, child, lambda: None)
    yield broker
    child.end()


def test_our_own_broker_needs_its_password(running):
    with redis.Redis.from_url(running.url) as client:
        assert client.ping()
    with redis.Redis(host="127.0.0.1", port=running.port) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_the_password_is_on_no_command_line(running, home):
    assert not any(home.broker_password() in part for part in running.child.command)
    assert stat.S_IMODE((home.broker / "broker.conf").stat().st_mode) == 0o600


def test_messages_survive_a_killed_broker(home):
    broker = broker_choose(home, None)
    child = Child(broker.child)
    child.start()
    broker_wait(broker, child, lambda: None)
    with redis.Redis.from_url(broker.url) as client:
        client.rpush("queue", "message")
        client.execute_command("WAITAOF", 1, 0, 5000)
    child.process.kill()
    child.process.wait()
    child.start()
    broker_wait(broker, child, lambda: None)
    with redis.Redis.from_url(broker.url) as client:
        assert client.lrange("queue", 0, -1) == [b"message"]
    child.end()


def test_loopback_as_the_address_for_nodes_is_what_it_listens_on_anyway(home, monkeypatch):
    monkeypatch.setenv("DLH_BROKER_HOST", "127.0.0.1")
    broker = broker_choose(home, None)
    child = Child(broker.child)
    child.start()
    try:
        broker_wait(broker, child, lambda: None)
    finally:
        child.end()


@pytest.mark.parametrize("taken_at", ["127.0.0.1", "127.0.0.2"])
def test_a_port_that_nodes_were_told_is_never_changed_quietly(home, monkeypatch, taken_at):
    monkeypatch.setenv("DLH_BROKER_HOST", "127.0.0.2")
    with port_take(taken_at, 18500) as other:
        monkeypatch.setenv("DLH_BROKER_PORT", str(other.getsockname()[1]))
        with pytest.raises(StackError, match="DLH_BROKER_PORT"):
            broker_choose(home, None)


def test_a_number_that_is_no_port_is_refused(home, monkeypatch):
    monkeypatch.setenv("DLH_BROKER_PORT", "99999")
    with pytest.raises(SettingsError, match="DLH_BROKER_PORT"):
        broker_choose(home, None)


@pytest.mark.parametrize("every", ["0.0.0.0", "::", "*"])
def test_every_address_is_none_that_nodes_could_connect_to(home, monkeypatch, every):
    monkeypatch.setenv("DLH_BROKER_HOST", every)
    with pytest.raises(StackError, match="private network"):
        broker_choose(home, None)


def test_a_given_broker_wins(home, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://:word@broker.example:6379/3")
    broker = broker_choose(home, None)
    assert broker.child is None
    assert broker.url == "redis://:word@broker.example:6379/3"
    assert "word" not in broker.what


def test_a_given_broker_that_is_away_says_what_to_do(home, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    with pytest.raises(StackError, match="unset REDIS_URL"):
        broker_wait(broker_choose(home, None), None, lambda: None)


def test_an_old_redis_server_on_the_path_is_passed_over(home, tmp_path, monkeypatch):
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=5.0.14 sha=0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert server_version(str(old)) == (5, 0)
    assert module.server_find()[1] == "the bundled Valkey server"
    old.write_text("#!/bin/sh\necho 'Redis server v=7.0.15 sha=0'\n")
    assert module.server_find()[0] == old


def test_a_url_is_shown_without_its_password():
    assert without_password("redis://:secret@host:1/0") == "redis://***@host:1/0"
