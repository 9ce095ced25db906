"""Notifications in compose and chart: portal and control have the settings, control a way out, nodes neither."""

import json
import re

import pytest

from harness.env import env_networks
from harness.env_smtp import smtp_settings
from tests.deploy import chart
from tests.deploy import test_compose as compose_file
from tests.deploy.test_object_store_chart import accepts, environment_of, spec_of

FILES = ("compose.yaml", "notify.yaml")
SENDER = "Harness <harness@example.org>"
GIVEN = {
    **compose_file.GIVEN,
    "DLH_SMTP_HOST": "mail.example.org",
    "DLH_SMTP_FROM": SENDER,
    "DLH_SMTP_USER": "harness",
    "DLH_WEBHOOK_NETWORKS": "10.1.2.3/32",
}
SMTP = {"host": "mail.example.org", "from": SENDER, "security": "tls", "user": "harness", "port": 2465}
CHART = {
    **chart.GIVEN,
    "secrets": {**chart.GIVEN["secrets"], "smtpPassword": "mail-password"},
    "smtp": SMTP,
    "webhooks": {"networks": ["10.1.2.3/32", "fd00::/64"], "http": True},
}
SIGNED_IN = {"portal", "control"}


def read(environment, folder, monkeypatch):
    """(mail server, networks) as the harness reads them; the password file holds its own name."""
    for name, value in environment.items():
        if name.startswith(("DLH_SMTP_", "DLH_WEBHOOK_")):
            if name.endswith("_FILE"):
                file = folder / value.rpartition("/")[2]
                file.write_text(file.name)
                value = str(file)
            monkeypatch.setenv(name, value)
    return smtp_settings(), [str(network) for network in env_networks("DLH_WEBHOOK_NETWORKS")]


@pytest.mark.parametrize("name", sorted(SIGNED_IN))
def test_compose_gives_portal_and_control_what_the_harness_reads(config, name, tmp_path, monkeypatch):
    service = config(*FILES, **GIVEN)["services"][name]
    smtp, networks = read(service["environment"], tmp_path, monkeypatch)
    assert (smtp.host, smtp.port, smtp.sender, smtp.user, smtp.password) == (
        "mail.example.org", 587, SENDER, "harness", "smtp_password",
    )  # fmt: skip
    assert networks == ["10.1.2.3/32"]
    before = config("compose.yaml", **GIVEN)["services"][name]
    assert before["environment"].items() <= service["environment"].items()
    assert set(before["networks"]) <= set(service["networks"])


def test_control_alone_gets_a_way_out_and_the_others_stay_as_they_are(config):
    told, plain = config(*FILES, **GIVEN), config("compose.yaml", **GIVEN)["services"]
    assert {name for name, one in told["services"].items() if "notices" in one["networks"]} == {"control"}
    assert not told["networks"]["notices"].get("internal")
    for name in set(plain) - SIGNED_IN:
        assert told["services"][name] == plain[name], name


def test_webhooks_alone_need_no_mail_server(config, tmp_path, monkeypatch):
    environment = config(*FILES, **compose_file.GIVEN)["services"]["control"]["environment"]
    assert read(environment, tmp_path, monkeypatch) == (None, [])


@pytest.mark.parametrize("part", sorted(SIGNED_IN))
def test_the_chart_gives_portal_and_control_what_the_harness_reads(part, tmp_path, monkeypatch):
    spec = spec_of(part, chart.render(CHART))
    environment = environment_of(spec)
    smtp, networks = read(environment, tmp_path, monkeypatch)
    assert (smtp.host, smtp.port, smtp.security, smtp.user, smtp.password) == (
        "mail.example.org", 2465, "tls", "harness", "smtp_password",
    )  # fmt: skip
    assert networks == ["10.1.2.3/32", "fd00::/64"] and environment["DLH_WEBHOOK_HTTP"] == "1"
    paths = {item["path"]: item["key"] for item in chart.volume(spec, "secrets")["secret"]["items"]}
    assert paths["smtp_password"] == "mail-password"


def test_nodes_and_prepare_of_the_chart_know_nothing_of_it():
    others = [
        body for body in chart.render(CHART) if body["metadata"]["name"] not in {"prod-dlh-portal", "prod-dlh-control"}
    ]
    assert others and not re.search(r"DLH_SMTP|smtp_password|mail-password", json.dumps(others))


def test_without_a_mail_server_the_chart_names_none(tmp_path, monkeypatch):
    assert read(environment_of(spec_of("control", chart.objects())), tmp_path, monkeypatch) == (None, [])


@pytest.mark.parametrize(
    ("secrets", "smtp"),
    [
        ({}, SMTP),
        ({"smtpPassword": "a"}, {}),
        ({"smtpPassword": "a"}, {"host": "mail.example.org", "from": SENDER}),
        ({}, {"host": "mail.example.org"}),
        ({}, {"from": SENDER}),
        ({"smtpPassword": "a"}, {**SMTP, "security": "ssl"}),
        ({"smtpPassword": "a"}, {**SMTP, "password": "b"}),
    ],
)
def test_half_a_setting_is_refused(secrets, smtp):
    assert accepts(CHART)
    assert not accepts({**chart.GIVEN, "secrets": {**chart.GIVEN["secrets"], **secrets}, "smtp": smtp})
