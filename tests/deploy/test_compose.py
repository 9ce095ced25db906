"""The compose file, read by compose itself: whole, and refused while anything secret is missing."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.pool.terms import SECRET
from tests.deploy.conftest import COMPOSE as FOLDER
from tests.untested import untested

GIVEN = {"DLH_PUBLIC_URL": "https://harness.example.org", "DLH_SECRETS": "/somewhere/secrets"}
FAR_GIVEN = {
    "DLH_URL": "https://harness.example.org",
    "DLH_REDIS_URL": "redis://10.0.0.1:6379/0",
    "DLH_NODE_NAME": "node-2",
    "DLH_NODE_SECRET_FILE": "/somewhere/node-2",
}
NODES = ("node", "node-gpu", "node-cache")
PARTS = ("prepare", "portal", "control", *NODES)


@pytest.fixture
def services(config):
    return config("compose.yaml", **GIVEN)["services"]


@pytest.mark.parametrize(
    ("file", "given", "missing"),
    [
        (file, given, name)
        for file, given in (("compose.yaml", GIVEN), ("node.yaml", FAR_GIVEN))
        for name in sorted(given)
    ],
)
def test_without_what_has_no_default_nothing_starts_and_it_is_named(compose, file, given, missing):
    done = compose("config", files=(file,), **{name: value for name, value in given.items() if name != missing})
    assert done.returncode != 0
    assert missing in done.stderr


def test_every_part_is_there_with_a_health_check_and_waits_for_what_it_needs(services):
    assert set(services) == {*PARTS, "database", "broker", "proxy"}
    assert all(
        "test" in service["healthcheck"] for name, service in services.items() if name not in {"prepare", "portal"}
    )
    assert services["portal"]["depends_on"]["prepare"]["condition"] == "service_completed_successfully"
    assert services["node"]["depends_on"]["broker"]["condition"] == "service_healthy"
    assert services["proxy"]["depends_on"]["portal"]["condition"] == "service_healthy"


def test_the_parts_are_commands_that_exist_and_get_what_they_ask_for(services):
    from harness.stack.far_node import NEEDS
    from harness.stack.part import REQUIRED

    for name in PARTS:
        service = services[name]
        (part,) = service["command"]
        given = {key.removesuffix("_FILE") for key in service["environment"]}
        assert set(NEEDS if "DLH_CACHE" in given else REQUIRED[part]) <= given | {"DLH_STORE"}, name


def test_our_parts_have_no_rights_and_no_writable_root(services):
    for name in PARTS:
        service = services[name]
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert "no-new-privileges:true" in service["security_opt"]


def test_what_strangers_send_fills_no_memory(services):
    (scratch,) = (place for place in services["portal"]["tmpfs"] if place.startswith("/tmp:"))
    assert "size=1g" in scratch
    assert {place.partition(":")[0] for place in services["portal"]["tmpfs"]} == {
        place.partition(":")[0] for place in services["control"]["tmpfs"]
    }


def test_whoever_has_something_to_bring_to_an_end_is_given_the_time_for_it(services, config):
    far = config("node.yaml", **FAR_GIVEN)["services"]
    for service in (*(services[name] for name in (*PARTS, "database")), *far.values()):
        assert service["stop_grace_period"] == "1m0s"


def test_a_run_that_makes_too_many_threads_ends_with_its_container_and_not_with_the_machine(services, config):
    far = config("node.yaml", **FAR_GIVEN)["services"]
    assert all(service["pids_limit"] > 0 for service in (*(services[name] for name in NODES), *far.values()))


def test_a_node_reaches_neither_database_nor_secret_key_nor_the_outside(services, config):
    networks = config("compose.yaml", **GIVEN)["networks"]
    for name in NODES:
        node = services[name]
        assert all(networks[network]["internal"] for network in node["networks"])
        assert not set(node["networks"]) & set(services["database"]["networks"])
    for name in ("node", "node-gpu"):
        assert list(services[name]["networks"]) == ["pool"]
        assert [secret["source"] for secret in services[name]["secrets"]] == ["broker_password"]


def test_nodes_get_a_way_to_the_outside_only_by_a_switch(config):
    networks = config("compose.yaml", **GIVEN, DLH_NODES_INTERNAL="false")["networks"]
    assert not networks["pool"].get("internal") and networks["data"]["internal"]


def test_a_node_that_shares_the_store_has_its_volume_and_one_with_a_cache_has_not(services):
    def volumes(name):
        return {volume["source"]: volume["target"] for volume in services[name]["volumes"]}

    assert volumes("node") == volumes("node-gpu") == {"store": "/store"}
    assert volumes("node-cache") == {"cache": "/cache"}


def test_a_node_with_a_cache_has_its_own_secret_its_limit_and_a_way_to_the_portal(services, config):
    node = services["node-cache"]
    environment = node["environment"]
    assert [(secret["source"], secret["target"]) for secret in node["secrets"]] == [("node_cache_1", "node_secret")]
    assert environment["DLH_NODE_SECRET_FILE"] == "/run/secrets/node_secret"
    assert not any("PASSWORD" in name for name in environment)
    assert (environment["DLH_CACHE"], environment["DLH_CACHE_GIB"]) == ("/cache", "50")
    larger = config("compose.yaml", **GIVEN, DLH_CACHE_GIB="7")["services"]["node-cache"]
    assert larger["environment"]["DLH_CACHE_GIB"] == "7"
    host, _, port = environment["DLH_URL"].removeprefix("http://").partition(":")
    assert port == "8000" and services[host]["environment"]["DLH_ALLOWED_HOSTS"] == host
    assert set(node["networks"]) & set(services[host]["networks"]) == {"files"}
    secret = config("compose.yaml", **GIVEN)["secrets"]["node_cache_1"]["file"]
    assert secret == f"{GIVEN['DLH_SECRETS']}/nodes/{environment['DLH_NODE_NAME']}"


def test_prepare_is_shown_the_secrets_of_all_nodes_and_nobody_else_is(services):
    def shown(name):
        return [volume["target"] for volume in services[name]["volumes"] if volume["source"].endswith("/nodes")]

    assert shown("prepare") == [services["prepare"]["environment"]["DLH_NODE_SECRETS"]]
    assert not any(shown(name) for name in PARTS if name != "prepare")


@pytest.mark.parametrize("name", ["node", "node-gpu"])
def test_a_node_on_another_host_has_no_rights_no_store_and_one_secret(config, name):
    node = config("node.yaml", **FAR_GIVEN)["services"][name]
    assert node["cap_drop"] == ["ALL"] and node["read_only"] is True
    assert [volume["target"] for volume in node["volumes"]] == ["/cache"]
    assert [secret["source"] for secret in node["secrets"]] == ["node_secret"]
    assert node["environment"]["DLH_CACHE_GIB"] == "50" and not node.get("ports")


def test_the_broker_is_opened_to_other_hosts_only_by_a_file_of_its_own_at_a_named_address(config, compose):
    files = ("compose.yaml", "hosts.yaml")
    assert "DLH_BROKER_HOST" in compose("config", files=files, **GIVEN).stderr
    broker = config(*files, **GIVEN, DLH_BROKER_HOST="10.0.0.1")["services"]["broker"]
    assert [(port["host_ip"], port["published"]) for port in broker["ports"]] == [("10.0.0.1", "6379")]
    assert set(broker["networks"]) == {"data", "pool", "hosts"}


def test_only_the_proxy_can_be_reached_from_outside(services):
    assert [name for name, service in services.items() if service.get("ports")] == ["proxy"]


def test_no_secret_stands_in_the_files():
    for name in ("compose.yaml", "node.yaml", "hosts.yaml", "object-store.yaml", "example.env"):
        for line in (FOLDER / name).read_text().splitlines():
            key, separator, value = line.strip().partition("=")
            if separator and key.isupper():
                assert not value or key.startswith("#"), line
    assert not (FOLDER / "secrets").exists() or os.environ.get("DLH_SECRETS")


def test_secrets_are_made_once_and_are_long(tmp_path):
    def make(*nodes):
        folder = tmp_path / "secrets"
        subprocess.run([FOLDER / "secrets.sh", folder, *nodes], check=True, capture_output=True)
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}

    first = make()
    assert set(first) == {"secret_key", "database_password", "broker_password", "nodes/cache-1"}
    assert all(len(text.removeprefix("dlhn_")) == 64 and text[5:].isalnum() for text in first.values())
    assert len(set(first.values())) == 4
    assert make() == first
    more = make("node-2")
    assert SECRET.fullmatch(more.pop("nodes/node-2")) and more == first


@pytest.mark.skipif(
    os.getuid() != 0, reason=untested("secrets that everybody can read", "needs root, to be somebody else")
)
def test_secrets_that_everybody_can_read_are_told_as_such():
    nobody = 65534
    with tempfile.TemporaryDirectory() as made:  # not `tmp_path`, which is closed to others
        place = Path(made)
        shutil.copy(FOLDER / "secrets.sh", place)
        for path in (place / "secrets.sh", place):
            os.chown(path, nobody, nobody)
        command = ["/bin/sh", place / "secrets.sh", place / "secrets"]
        for _ in range(2):  # the second time on what an older release has left open
            done = subprocess.run(command, user=nobody, group=nobody, extra_groups=[], capture_output=True, check=True)
            mode = (place / "secrets" / "secret_key").stat().st_mode
            assert bool(mode & 0o004) == (b"everybody on this machine can read" in done.stderr)
            (place / "secrets" / "secret_key").chmod(0o644)
        subprocess.run(command, capture_output=True, check=True)
        assert (place / "secrets" / "secret_key").stat().st_mode & 0o077 == 0
