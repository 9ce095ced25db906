"""The identity provider in compose and chart: the portal has what the harness reads, nodes have none of it."""

import json
import re

import pytest

from harness.env_oidc import oidc_settings
from tests.deploy import chart
from tests.deploy import test_compose as compose_file
from tests.deploy.test_object_store_chart import accepts, environment_of, spec_of

ISSUER = "https://id.example.org/realms/main"
GIVEN = {
    **compose_file.GIVEN,
    "DLH_OIDC_ISSUER": ISSUER,
    "DLH_OIDC_CLIENT_ID": "harness",
    "DLH_OIDC_ALLOWED_DOMAINS": "example.org",
    "DLH_OIDC_NEW_ACCOUNTS": "1",
}
SIGN_IN = {
    "issuer": ISSUER,
    "clientId": "harness",
    "allowedDomains": ["example.org"],
    "newAccounts": True,
    "emergencyAdmin": "admin",
}
CHART = {
    **chart.GIVEN,
    "secrets": {**chart.GIVEN["secrets"], "oidcClientSecret": "client-secret"},
    "signIn": SIGN_IN,
}


def read(environment, folder, monkeypatch):
    """The settings as the harness reads them; the secret's file holds its own name."""
    for name, value in environment.items():
        if name.startswith("DLH_OIDC_"):
            if name.endswith("_FILE"):
                file = folder / value.rpartition("/")[2]
                file.write_text(file.name)
                value = str(file)
            monkeypatch.setenv(name, value)
    return oidc_settings()


def test_compose_gives_the_portal_alone_what_the_harness_reads(config, tmp_path, monkeypatch):
    services = config("compose.yaml", "sign-in.yaml", **GIVEN)["services"]
    plain = config("compose.yaml", **GIVEN)["services"]
    oidc = read(services["portal"]["environment"], tmp_path, monkeypatch)
    assert (oidc.issuer, oidc.client_secret, oidc.makes_accounts) == (ISSUER, "oidc_client_secret", True)
    for name in set(plain) - {"portal"}:
        assert services[name] == plain[name], name


@pytest.mark.parametrize("part", ["portal", "control"])
def test_the_chart_gives_what_the_harness_reads(part, tmp_path, monkeypatch):
    spec = spec_of(part, chart.render(CHART))
    oidc = read(environment_of(spec), tmp_path, monkeypatch)
    assert (oidc.client_id, oidc.client_secret, oidc.emergency_admin) == ("harness", "oidc_client_secret", "admin")
    assert oidc.allowed_domains == {"example.org"} and oidc.scopes == "openid email profile"
    paths = {item["path"]: item["key"] for item in chart.volume(spec, "secrets")["secret"]["items"]}
    assert paths["oidc_client_secret"] == "client-secret"


def test_nodes_of_the_chart_know_nothing_of_it():
    others = [
        body for body in chart.render(CHART) if body["metadata"]["name"] not in {"prod-dlh-portal", "prod-dlh-control"}
    ]
    assert others and not re.search(r"DLH_OIDC|oidc_client_secret|client-secret", json.dumps(others))


def test_without_one_the_chart_names_none(tmp_path, monkeypatch):
    assert read(environment_of(spec_of("portal", chart.objects())), tmp_path, monkeypatch) is None


@pytest.mark.parametrize(
    "wrong",
    [{"clientId": ""}, {"issuer": "http://id.example.org"}, {"issuer": ""}, {"newAccounts": "yes"}, {"other": 1}],
)
def test_half_a_setting_is_refused(wrong):
    assert accepts(CHART)
    assert not accepts({**CHART, "signIn": {**SIGN_IN, **wrong}})
