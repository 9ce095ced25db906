"""The stack as a service: its settings come along, secrets do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.stack.home import StackError, StackHome
from harness.stack.service import service, settings_of


def test_the_unit_runs_the_stack_of_this_home_with_these_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLH_PUBLIC_URL", "https://harness.example.org")
    monkeypatch.setenv("DLH_HOME", "elsewhere")
    assert service(StackHome(tmp_path)) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert 'Environment="DLH_PUBLIC_URL=https://harness.example.org"' in lines
    assert [line for line in lines if "DLH_HOME" in line] == [f'Environment="DLH_HOME={tmp_path}"']
    assert next(line for line in lines if line.startswith("ExecStart=")).endswith('"-m" "harness.stack" "run"')
    assert "KillMode=mixed" in lines
    assert "systemctl enable --now dlh" in told.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DLH_SECRET_KEY", "x" * 50),
        ("DLH_SMTP_PASSWORD", "x"),
        ("DLH_OIDC_CLIENT_SECRET", "x"),
        ("DLH_S3_KEY", "x"),
        ("DLH_DATABASE_URL", "postgres://dlh:secret@host/dlh"),
        ("REDIS_URL", "redis://:secret@host:6379/0"),
    ],
)
def test_a_secret_is_refused_with_where_to_put_it(name: str, value: str) -> None:
    with pytest.raises(StackError, match=f"{name}_FILE") as told:
        settings_of({name: value})
    assert value not in str(told.value)


def test_an_address_that_cannot_be_read_is_told_as_a_wrong_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLH_PUBLIC_URL", "https://[harness.example.org")
    with pytest.raises(StackError, match="look at the DLH_ settings"):
        service(StackHome(tmp_path))


def test_files_of_secrets_come_along_and_what_is_the_clients_or_anothers_does_not() -> None:
    files = {"DLH_SECRET_KEY_FILE": "/run/key", "REDIS_URL_FILE": "/run/broker"}
    given = {**files, "DLH_DATABASE_URL": "postgres://dlh@host/dlh", "DLH_PORT": "8080"}
    others = {"DLH_TOKEN": "dlh_x", "DLH_URL": "https://a", "PATH": "/bin", "HOME": "/root"}
    assert settings_of({**given, **others}) == given
