"""Addresses of settings, of IPv6 too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.env import REPOSITORY, SettingsError
from harness.env_addresses import browser_origin, env_broker, host_written


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Portal.Example", "https://portal.example"),
        ("https://portal.example:443", "https://portal.example"),
        ("https://portal.example:8443/x", "https://portal.example:8443"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[FD00:0::1]:80", "http://[fd00::1]"),
    ],
)
def test_an_origin_is_written_as_browsers_write_it(url: str, origin: str) -> None:
    assert browser_origin(url) == origin


def test_a_host_of_ipv6_stands_in_brackets_and_no_other_does() -> None:
    hosts = ("fd00::1", "[fd00::1]", "10.0.0.1", "portal.example", ".portal.example", "*")
    assert [host_written(host) for host in hosts] == ["[fd00::1]", "[fd00::1]", *hosts[2:]]


def test_a_portal_whose_address_is_of_ipv6_answers_for_it(tmp_path: object) -> None:
    asked = (
        "import django; django.setup(); from django.test import RequestFactory as R;"
        "print(*(R().get('/', headers={'host': h}).get_host() for h in ('[fd00::1]:8000', '[fd00::2]')))"
    )
    given = {
        "DLH_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "harness.settings",
        "DLH_PUBLIC_URL": "http://[fd00::1]:8000", "DLH_ALLOWED_HOSTS": "fd00::2",
    }  # fmt: skip
    told = subprocess.check_output(
        [sys.executable, "-c", asked], cwd=REPOSITORY, env={**os.environ, **given}, text=True
    )
    assert told.split() == ["[fd00::1]:8000", "[fd00::2]"]


def test_a_broker_that_is_none_is_told_by_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for good in ("redis://:secret@[fd00::1]:6379/0", "rediss://host", "unix:///run/broker.sock", ""):
        monkeypatch.setenv("DLH_REDIS_URL", good)
        assert env_broker("DLH_REDIS_URL") == good
    for wrong in ("host:6379", "http://host", "redis://", "redis://[::1", "redis://:a/secret@host:6379/0"):
        monkeypatch.setenv("DLH_REDIS_URL", wrong)
        with pytest.raises(SettingsError, match="DLH_REDIS_URL must look like") as told:
            env_broker("DLH_REDIS_URL")
        assert "secret" not in str(told.value)
