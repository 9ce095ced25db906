"""Nodes let in by a secret that an operator made: idempotent, one each, good at portal and broker at once."""

from __future__ import annotations

import pytest
import redis
from django.test import Client

from harness.accounts.models import AuditEvent
from harness.errors import Conflict, Invalid, Unavailable
from harness.pool.given import node_secret_give
from harness.pool.models import Node
from harness.pool.terms import broker_user, digest_of

pytestmark = pytest.mark.django_db
SECRET = "dlhn_" + "k7Qw3ZxP9aLd" * 5
OTHER = "dlhn_" + "M2vB8nTr5yUe" * 5


@pytest.fixture(autouse=True)
def real_broker(broker):
    yield broker
    for name in broker.execute_command("ACL", "USERS"):
        if str(name).startswith("node-"):
            broker.execute_command("ACL", "DELUSER", name)


def signs_in(broker, name, secret):
    place = broker.connection_pool.connection_kwargs
    mine = redis.Redis(host=place["host"], port=place["port"], username=broker_user(name), password=secret)
    try:
        return mine.ping()
    except redis.AuthenticationError:
        return False


def test_the_secret_is_stored_hashed_and_good_at_portal_and_broker(broker):
    assert node_secret_give(name="far-0", secret=SECRET) is True
    assert Node.objects.get(name="far-0").secret_digest == digest_of(SECRET)
    assert Client(headers={"Authorization": f"Bearer {SECRET}"}).get("/api/v1/node").json()["name"] == "far-0"
    assert signs_in(broker, "far-0", SECRET)
    assert AuditEvent.objects.filter(action="node_secret_give", target="far-0", actor=None).count() == 1


def test_giving_it_again_changes_nothing_and_another_one_ends_it(broker):
    node_secret_give(name="far-0", secret=SECRET)
    assert node_secret_give(name="far-0", secret=SECRET) is False
    assert node_secret_give(name="far-0", secret=OTHER) is True
    assert signs_in(broker, "far-0", OTHER) and not signs_in(broker, "far-0", SECRET)
    assert Client(headers={"Authorization": f"Bearer {SECRET}"}).get("/api/v1/node").status_code == 401
    assert AuditEvent.objects.filter(action="node_secret_give").count() == 2


def test_another_secret_cuts_off_who_signed_in_with_the_one_before(broker):
    node_secret_give(name="far-0", secret=SECRET)
    place = broker.connection_pool.connection_kwargs
    thief = redis.Redis(host=place["host"], port=place["port"], username=broker_user("far-0"), password=SECRET)
    assert thief.llen("node.far-0") == 0
    node_secret_give(name="far-0", secret=SECRET)
    assert thief.llen("node.far-0") == 0  # the same again changes nothing
    node_secret_give(name="far-0", secret=OTHER)
    with pytest.raises(redis.RedisError):
        thief.llen("node.far-0")


def test_two_nodes_may_not_have_the_same_secret():
    node_secret_give(name="far-0", secret=SECRET)
    with pytest.raises(Conflict, match="far-0 and far-1"):
        node_secret_give(name="far-1", secret=SECRET)
    assert not Node.objects.filter(name="far-1").exists()


@pytest.mark.parametrize(
    ("name", "secret"), [("Far", SECRET), ("", SECRET), ("far-0", "dlhn_short"), ("far-0", "k" * 64), ("far-0", "")]
)
def test_a_wrong_name_and_a_weak_secret_are_refused(name, secret):
    with pytest.raises(Invalid):
        node_secret_give(name=name, secret=secret)
    assert not Node.objects.exists()


def test_a_secret_of_one_letter_is_refused():
    with pytest.raises(Invalid, match="random"):
        node_secret_give(name="far-0", secret="dlhn_" + "a" * 64)


@pytest.mark.parametrize(
    ("other", "said", "hint"),
    [
        ({"port": 1}, "does not answer", "Try again in a moment"),
        (
            {"password": "wrong"},
            "refuses the portal's own user or password",
            "In the portal's settings, give DLH_REDIS_URL",
        ),
        (
            {"username": "nobody", "password": "wrong"},
            "refuses the portal's own user or password",
            "In the portal's settings, give DLH_REDIS_URL",
        ),
        (
            {"password": None},
            "refuses the portal's own user or password",
            "In the portal's settings, give DLH_REDIS_URL",
        ),
    ],
)
def test_a_broker_that_refuses_us_is_told_from_one_that_does_not_answer_and_nothing_is_changed(
    broker, monkeypatch, other, said, hint
):
    known = broker.connection_pool.connection_kwargs
    place = {name: known.get(name) for name in ("host", "port", "username", "password")} | other
    monkeypatch.setattr("harness.pool.broker_users.client", lambda: redis.Redis(**place))
    with pytest.raises(Unavailable, match=said) as refused:
        node_secret_give(name="far-0", secret=SECRET)
    assert hint in refused.value.hint and ("Try again" in refused.value.hint) == ("port" in other)
    assert not Node.objects.exists()


def test_the_folder_names_the_nodes_and_hidden_files_are_none(tmp_path):
    from harness.stack.bootstrap import node_secrets_take

    # As Kubernetes shows a Secret: links to a hidden folder.
    (tmp_path / "..data").mkdir()
    for name, secret in (("far-0", SECRET), ("GPU-7.example.org", OTHER)):
        (tmp_path / "..data" / name).write_text(f"{secret}\n")
        (tmp_path / name).symlink_to(tmp_path / "..data" / name)
    assert node_secrets_take(tmp_path) == ["GPU-7.example.org".lower().replace(".", "-"), "far-0"]
    assert node_secrets_take(tmp_path) == []
    assert set(Node.objects.values_list("name", flat=True)) == {"far-0", "gpu-7-example-org"}


def test_a_folder_that_is_not_there_is_named(tmp_path):
    from harness.env import SettingsError
    from harness.stack.bootstrap import node_secrets_take

    with pytest.raises(SettingsError, match="gone"):
        node_secrets_take(tmp_path / "gone")


def test_a_node_asks_the_portal_without_tls_inside_and_people_are_sent_to_it(settings, broker):
    settings.SECURE_SSL_REDIRECT = True
    node_secret_give(name="far-0", secret=SECRET)
    caller = Client(headers={"Authorization": f"Bearer {SECRET}"})
    assert caller.get("/api/v1/node").status_code == 200
    assert Client().get("/api/v1/health").status_code != 301, "the doctor goes nowhere else"
    for path in ("/login", "/api/v1/jobs", "/api/v1/nodes"):
        assert caller.get(path).status_code == 301


def test_two_long_names_that_are_one_after_they_are_cut_are_refused(tmp_path):
    from harness.env import SettingsError
    from harness.stack.bootstrap import node_secrets_take

    name = "x" * 60
    for end, secret in zip("ab", (SECRET, OTHER), strict=True):
        (tmp_path / f"{name}{end}").write_text(secret)
    with pytest.raises(SettingsError, match=rf"the files {name}a and {name}b in .* give the node {name} two secrets"):
        node_secrets_take(tmp_path)


def test_two_files_that_are_of_one_node_are_taken_where_they_hold_one_secret(tmp_path):
    from harness.env import SettingsError
    from harness.stack.bootstrap import node_secrets_take

    for name in ("gpu-1", "gpu-1~"):
        (tmp_path / name).write_text(f"{SECRET}\n")
    assert node_secrets_take(tmp_path) == ["gpu-1"]
    (tmp_path / "gpu-1~").write_text(OTHER)
    with pytest.raises(SettingsError, match=r"the files gpu-1 and gpu-1~ in .* the small letters, digits and hyphens"):
        node_secrets_take(tmp_path)


def test_the_first_admins_password_is_made_once_the_nodes_are_let_in(tmp_path, monkeypatch):
    """A container is started again until it succeeds, and shows the words of its last try alone."""
    from harness.accounts.models import User
    from harness.stack import bootstrap as module

    (tmp_path / "far-0").write_text(SECRET)
    taken = []

    def unavailable(folder):
        taken.append(folder)
        if len(taken) == 1:
            raise Unavailable("The broker does not answer.")
        return ["far-0"]

    monkeypatch.setattr(module, "node_secrets_take", unavailable)
    with pytest.raises(Unavailable):
        module.bootstrap(node_secrets=tmp_path)
    assert not User.objects.exists()
    told = module.bootstrap(node_secrets=tmp_path)
    assert told["password"] and told["nodes"] == ["far-0"]
    assert "nodes" not in module.bootstrap(node_secrets=tmp_path, new_password=True), "somebody waits for that one"
