from __future__ import annotations

import pytest

from harness.env import SettingsError
from harness.env_smtp import Security, smtp_settings

GIVEN = {"DLH_SMTP_HOST": "mail.example.org", "DLH_SMTP_FROM": "Harness <harness@example.org>"}


@pytest.fixture
def given(monkeypatch):
    def give(**values):
        for name, value in {**GIVEN, **values}.items():
            monkeypatch.setenv(name, value)

    return give


def test_without_a_host_no_mail_is_sent():
    assert smtp_settings() is None


def test_a_mail_server_is_used_with_tls_unless_it_is_said_otherwise(given):
    given()
    told = smtp_settings()
    assert (told.port, told.security, told.user) == (587, Security.STARTTLS, "")
    given(DLH_SMTP_SECURITY="tls", DLH_SMTP_USER="u", DLH_SMTP_PASSWORD="pass word")
    told = smtp_settings()
    assert (told.port, told.security, told.password) == (465, Security.TLS, "pass word")
    assert "pass word" not in repr(told)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"DLH_SMTP_FROM": ""}, "DLH_SMTP_FROM"),
        ({"DLH_SMTP_SECURITY": "ssl"}, "DLH_SMTP_SECURITY"),
        ({"DLH_SMTP_PORT": "0"}, "DLH_SMTP_PORT"),
        ({"DLH_SMTP_USER": "u"}, "DLH_SMTP_PASSWORD"),
        ({"DLH_SMTP_PASSWORD": "p"}, "DLH_SMTP_USER"),
        ({"DLH_SMTP_USER": "u", "DLH_SMTP_PASSWORD": "schlüssel"}, "ASCII"),
    ],
)
def test_what_cannot_work_is_named(given, wrong, named):
    given(**wrong)
    with pytest.raises(SettingsError, match=named):
        smtp_settings()
