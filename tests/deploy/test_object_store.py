"""The object store in compose: portal and control sign in there, nodes never do, and half a setting starts nothing."""

import subprocess

import pytest

from tests.deploy import test_compose as compose_file
from tests.deploy.conftest import COMPOSE
from tests.deploy.object_store import ENDPOINT, REGION, SIGNED_IN, URL, WANTED, knows, settings_in

FILES = ("compose.yaml", "object-store.yaml")
COMPOSE_GIVEN = {**compose_file.GIVEN, "DLH_S3_URL": URL, "DLH_S3_ENDPOINT": ENDPOINT, "DLH_S3_REGION": REGION}


def test_without_its_file_compose_knows_no_object_store_even_if_it_is_named(config):
    assert not knows(config("compose.yaml", **COMPOSE_GIVEN))


@pytest.mark.parametrize("name", sorted(SIGNED_IN))
def test_with_its_file_portal_and_control_have_what_the_harness_reads(config, name, tmp_path, monkeypatch):
    read = config(*FILES, **COMPOSE_GIVEN)
    service = read["services"][name]
    assert settings_in(service["environment"], tmp_path, monkeypatch) == WANTED
    mounted = {secret["target"].rpartition("/")[2]: secret["source"] for secret in service["secrets"]}
    for key in ("s3_key", "s3_secret"):
        assert service["environment"][f"DLH_{key.upper()}_FILE"] == f"/run/secrets/{key}"
        assert read["secrets"][mounted[key]]["file"] == f"{compose_file.GIVEN['DLH_SECRETS']}/{key}"
    before = config("compose.yaml", **COMPOSE_GIVEN)["services"][name]
    assert before["environment"].items() <= service["environment"].items()
    assert {secret["source"] for secret in before["secrets"]} <= set(mounted.values())
    assert set(before["networks"]) <= set(service["networks"])


def test_the_certificate_of_a_private_authority_is_shown_to_portal_and_control(config):
    given = {**COMPOSE_GIVEN, "DLH_S3_CA_FILE": "/etc/dlh/ca.pem"}
    read, without = config(*FILES, **given), config(*FILES, **COMPOSE_GIVEN)
    (named,) = (body["file"] for body in read["configs"].values())
    assert named == "/etc/dlh/ca.pem"
    for name in SIGNED_IN:
        service = read["services"][name]
        (mounted,) = service["configs"]
        assert service["environment"]["DLH_S3_CA_FILE"] == mounted["target"]
        assert without["services"][name]["environment"]["DLH_S3_CA_FILE"] == ""
    assert not any("configs" in service for name, service in read["services"].items() if name not in SIGNED_IN)


def test_endpoint_and_region_may_be_left_to_amazon(config, tmp_path, monkeypatch):
    environment = config(*FILES, **compose_file.GIVEN, DLH_S3_URL=URL)["services"]["control"]["environment"]
    read = settings_in(environment, tmp_path, monkeypatch)
    assert (read.endpoint, read.region) == ("", "us-east-1")


def test_its_file_without_a_bucket_starts_nothing_and_names_it(compose):
    done = compose("config", files=FILES, **compose_file.GIVEN)
    assert done.returncode != 0 and "DLH_S3_URL" in done.stderr


def test_portal_and_control_have_a_way_to_it_and_the_others_keep_to_their_networks(config):
    read = config(*FILES, **COMPOSE_GIVEN)
    joined = {name for name, service in read["services"].items() if "objects" in service["networks"]}
    assert joined == SIGNED_IN and not read["networks"]["objects"].get("internal")
    assert all(read["networks"][name]["internal"] for name in ("data", "files", "pool"))


def test_no_other_service_has_the_key_or_knows_of_it(config):
    plain = config("compose.yaml", **COMPOSE_GIVEN)["services"]
    services = config(*FILES, **COMPOSE_GIVEN)["services"]
    for name in set(services) - SIGNED_IN:
        assert services[name] == plain[name], name
    assert set(services) == set(plain)


def test_a_node_on_another_host_knows_nothing_of_it(config):
    assert not knows(config("node.yaml", **compose_file.FAR_GIVEN, DLH_S3_URL=URL))


def test_its_keys_are_not_made_up_and_stay_as_they_are_when_secrets_are_made(tmp_path):
    def make():
        subprocess.run([COMPOSE / "secrets.sh", tmp_path], check=True, capture_output=True)
        return {path.name: path.read_text() for path in tmp_path.glob("s3_*")}

    assert make() == {}
    for name in ("s3_key", "s3_secret"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o600)
    assert make() == {"s3_key": "s3_key", "s3_secret": "s3_secret"}
    for name in ("s3_key", "s3_secret"):
        told = (tmp_path / name).stat()
        assert told.st_uid == 10001 or told.st_mode & 0o004, "the containers cannot read it"
