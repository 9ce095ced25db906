"""The identity provider's settings."""

import pytest

from harness.env import SettingsError
from harness.env_oidc import oidc_settings

GIVEN = {"DLH_OIDC_ISSUER": "https://id.example.org/realms/main", "DLH_OIDC_CLIENT_ID": "harness"}


@pytest.fixture
def given(monkeypatch):
    def give(**more):
        for name, value in {**GIVEN, **more}.items():
            monkeypatch.setenv(name, value)

    return give


def test_there_is_none_unless_one_is_named():
    assert oidc_settings() is None


def test_what_is_not_said_is_the_safer_choice(given):
    given()
    oidc = oidc_settings()
    assert (oidc.makes_accounts, oidc.admin_group, oidc.emergency_admin) == (False, "", "")
    assert oidc.scopes == "openid email profile" and oidc.name_claim == "preferred_username"


def test_lists_are_tidied_and_the_secret_comes_from_a_file_and_is_not_shown(given, monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("hidden word\n")
    given(
        DLH_OIDC_ALLOWED_DOMAINS="Example.org, @lab.example",
        DLH_OIDC_ALLOWED_GROUPS="/ml, ops",
        DLH_OIDC_NEW_ACCOUNTS="1",
        DLH_OIDC_CLIENT_SECRET_FILE=str(tmp_path / "secret"),
    )
    oidc = oidc_settings()
    assert oidc.allowed_domains == {"example.org", "lab.example"} and oidc.allowed_groups == {"/ml", "ops"}
    assert oidc.makes_accounts and oidc.client_secret == "hidden word" and "hidden word" not in repr(oidc)


def test_a_provider_on_this_machine_may_do_without_tls(given):
    given(DLH_OIDC_ISSUER="http://127.0.0.1:8080/realms/main")
    assert oidc_settings().issuer == "http://127.0.0.1:8080/realms/main"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"DLH_OIDC_ISSUER": "http://id.example.org"}, "DLH_OIDC_ISSUER"),
        ({"DLH_OIDC_ISSUER": "https://id.example.org/?a=1"}, "DLH_OIDC_ISSUER"),
        ({"DLH_OIDC_ISSUER": "https://user@id.example.org"}, "DLH_OIDC_ISSUER"),
        ({"DLH_OIDC_ISSUER": "id.example.org"}, "DLH_OIDC_ISSUER"),
        ({"DLH_OIDC_ISSUER": ""}, None),
        ({"DLH_OIDC_ISSUER": "", "DLH_OIDC_EMERGENCY_ADMIN": "root"}, "DLH_OIDC_EMERGENCY_ADMIN"),
        ({"DLH_OIDC_CLIENT_ID": " "}, "DLH_OIDC_CLIENT_ID"),
        ({"DLH_OIDC_SCOPES": "email profile"}, "DLH_OIDC_SCOPES"),
        ({"DLH_OIDC_NEW_ACCOUNTS": "1"}, "DLH_OIDC_ALLOWED_DOMAINS"),
        ({"DLH_OIDC_NEW_ACCOUNTS": "maybe"}, "DLH_OIDC_NEW_ACCOUNTS"),
    ],
)
def test_what_cannot_be_is_named(wrong, named, given):
    given(**wrong)
    if named is None:
        assert oidc_settings() is None
        return
    with pytest.raises(SettingsError, match=named):
        oidc_settings()
