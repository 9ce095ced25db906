"""The compose file, read by compose itself: whole, and refused while anything secret is missing."""

import json
import os
import subprocess

import pytest

from tests.deploy.conftest import DEPLOY

FOLDER = DEPLOY / "compose"
GIVEN = {"DLH_PUBLIC_URL": "https://harness.example.org", "DLH_SECRETS": "/somewhere/secrets"}
PARTS = ("prepare", "portal", "control", "node", "node-gpu")


@pytest.fixture
def compose(tool, tmp_path):
    def run(*arguments, **given):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **given}
        return tool(
            "docker-compose", "-f", FOLDER / "compose.yaml", "--env-file", "/dev/null", *arguments, env=environment
        )

    return run


@pytest.fixture
def services(compose):
    done = compose("--profile", "gpu", "config", "--format", "json", **GIVEN)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["services"]


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_without_what_has_no_default_nothing_starts_and_it_is_named(compose, missing):
    done = compose("config", **{name: value for name, value in GIVEN.items() if name != missing})
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
    from harness.stack.part import REQUIRED

    for name in PARTS:
        service = services[name]
        (part,) = service["command"]
        given = {key.removesuffix("_FILE") for key in service["environment"]} | {"DLH_STORE"}
        assert set(REQUIRED[part]) <= given, name


def test_our_parts_have_no_rights_and_no_writable_root(services):
    for name in PARTS:
        service = services[name]
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert "no-new-privileges:true" in service["security_opt"]


def test_a_node_reaches_neither_database_nor_secret_key_nor_the_outside(services):
    for name in ("node", "node-gpu"):
        node = services[name]
        assert list(node["networks"]) == ["pool"]
        assert [secret["source"] for secret in node["secrets"]] == ["broker_password"]
        assert "pool" not in services["database"]["networks"]


def test_only_the_proxy_can_be_reached_from_outside(services):
    assert [name for name, service in services.items() if service.get("ports")] == ["proxy"]


def test_no_secret_stands_in_the_files():
    for name in ("compose.yaml", "example.env"):
        for line in (FOLDER / name).read_text().splitlines():
            key, separator, value = line.strip().partition("=")
            if separator and key.isupper():
                assert not value or "DLH_IMAGE" in key, line
    assert not (FOLDER / "secrets").exists() or os.environ.get("DLH_SECRETS")


def test_secrets_are_made_once_and_are_long(tmp_path):
    def make():
        subprocess.run([FOLDER / "secrets.sh", tmp_path / "secrets"], check=True, capture_output=True)
        return {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}

    first = make()
    assert set(first) == {"secret_key", "database_password", "broker_password"}
    assert all(len(text) == 64 and text.isalnum() for text in first.values())
    assert len(set(first.values())) == 3
    assert make() == first
