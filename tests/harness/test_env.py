from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import certifi
import pytest

from harness.env import (
    DAYS_MAX,
    LOG_LEVELS,
    REPOSITORY,
    SettingsError,
    database,
    env_address,
    env_bool,
    env_choice,
    env_int,
    env_list,
    env_networks,
    env_path,
    env_text,
    event_streams,
    folder_make,
    s3_settings,
    second_factor,
    secret_read_or_make,
    without_serving,
)
from worker.events import EVENT_STREAMS_MAX


def test_values_are_read_by_type(monkeypatch, tmp_path):
    monkeypatch.setenv("DLH_X", " yes ")
    assert env_bool("DLH_X") is True
    monkeypatch.setenv("DLH_X", "0")
    assert env_bool("DLH_X", default=True) is False and env_int("DLH_X", 5) == 0
    monkeypatch.setenv("DLH_X", "a, b,,")
    assert env_list("DLH_X") == ["a", "b"]
    for read in (env_bool, lambda name: env_int(name, 1)):
        with pytest.raises(SettingsError, match="DLH_X"):
            read("DLH_X")
    monkeypatch.setenv("DLH_X", "365")
    assert env_int("DLH_X", 1, least=365) == 365
    with pytest.raises(SettingsError, match="DLH_X must be at least 366, not 365"):
        env_int("DLH_X", 400, least=366)
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("DLH_X_FILE", str(tmp_path / "secret"))
    assert env_text("DLH_X") == "from a file"


def test_a_number_that_cannot_be_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("DLH_TRASH_DAYS", "-1")
    with pytest.raises(SettingsError, match="DLH_TRASH_DAYS must be at least 0, not -1"):
        env_int("DLH_TRASH_DAYS", 14)
    monkeypatch.setenv("DLH_PORT", "65536")
    with pytest.raises(SettingsError, match="DLH_PORT must be at most 65535, not 65536"):
        env_int("DLH_PORT", 8000, most=65535)


def test_a_file_of_a_setting_that_cannot_be_read_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("DLH_X_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match=r"DLH_X_FILE: .*nowhere cannot be read: No such file"):
        env_text("DLH_X")
    (tmp_path / "bytes").write_bytes(b"\xff")
    monkeypatch.setenv("DLH_X_FILE", str(tmp_path / "bytes"))
    with pytest.raises(SettingsError, match=r"DLH_X_FILE: .* is not UTF-8 text"):
        env_text("DLH_X")


def test_a_choice_is_read_in_upper_and_lower_case(monkeypatch):
    assert env_choice("DLH_LOG_LEVEL", LOG_LEVELS) == "INFO"
    monkeypatch.setenv("DLH_LOG_LEVEL", "debug")
    assert env_choice("DLH_LOG_LEVEL", LOG_LEVELS) == "DEBUG"
    monkeypatch.setenv("DLH_LOG_LEVEL", "loud")
    with pytest.raises(SettingsError, match=r"DLH_LOG_LEVEL must be one of INFO, DEBUG, .* not 'loud'"):
        env_choice("DLH_LOG_LEVEL", LOG_LEVELS)


def test_the_address_of_the_portal_is_whole(monkeypatch):
    for nothing in ("", " "):
        monkeypatch.setenv("DLH_PUBLIC_URL", nothing)
        assert env_address("DLH_PUBLIC_URL", "http://127.0.0.1:8000") == "http://127.0.0.1:8000"
    monkeypatch.setenv("DLH_PUBLIC_URL", "https://portal.example:8443/")
    assert env_address("DLH_PUBLIC_URL", "") == "https://portal.example:8443"
    for wrong in ("portal.example", "ftp://portal.example", "https://", "http://portal.example:abc"):
        monkeypatch.setenv("DLH_PUBLIC_URL", wrong)
        with pytest.raises(SettingsError, match="DLH_PUBLIC_URL must look like"):
            env_address("DLH_PUBLIC_URL", "")
    for more in ("/dlh", "/dlh/?a=b", "?a", "#a"):  # which neither its pages nor the proxy know of
        monkeypatch.setenv("DLH_PUBLIC_URL", f"https://portal.example:8443{more}")
        with pytest.raises(SettingsError, match=r"DLH_PUBLIC_URL must be https://portal.example:8443 alone"):
            env_address("DLH_PUBLIC_URL", "")


def test_events_lie_in_several_streams_where_several_processes_can_write(monkeypatch):
    assert event_streams(several=False) == 1 < event_streams(several=True) <= EVENT_STREAMS_MAX
    monkeypatch.setenv("DLH_EVENT_STREAMS", "3")
    assert event_streams(several=False) == event_streams(several=True) == 3
    for wrong in ("0", str(EVENT_STREAMS_MAX + 1), "some"):
        monkeypatch.setenv("DLH_EVENT_STREAMS", wrong)
        with pytest.raises(SettingsError, match="DLH_EVENT_STREAMS"):
            event_streams(several=True)


def test_each_installation_makes_its_own_secret_once(tmp_path):
    path = tmp_path / "secrets" / "key"
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: secret_read_or_make(path), range(8)))
    assert made == {path.read_text()} and len(path.read_text()) > 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("weak", ["secret", "x" * 60, "django-insecure-0123456789abcdefghijklmnopqrstuvwxyz"])
def test_a_weak_or_default_secret_is_refused(weak, tmp_path):
    with pytest.raises(SettingsError, match="too weak"):
        secret_read_or_make(tmp_path / "key", given=weak)


def test_a_secret_is_on_the_disk_before_it_has_its_name_and_a_lost_one_is_told_by_its_file(tmp_path, monkeypatch):
    path, there = tmp_path / "key", []
    flush = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: there.append(path.exists()) or flush(descriptor))
    assert secret_read_or_make(path) and there == [False]
    path.write_text("")
    with pytest.raises(SettingsError, match=f"in {path} is too weak: take that of a backup"):
        secret_read_or_make(path)


def test_the_database_is_sqlite_or_postgresql(tmp_path):
    local = database("", tmp_path / "db")
    assert local["OPTIONS"]["transaction_mode"] == "IMMEDIATE" and "WAL" in local["OPTIONS"]["init_command"]
    remote = database("postgres://me:p%40ss@db.example:5433/dlh?sslmode=require", tmp_path / "db")
    assert (remote["USER"], remote["PASSWORD"], remote["PORT"], remote["NAME"]) == ("me", "p@ss", "5433", "dlh")
    assert remote["OPTIONS"] == {"sslmode": "require"}
    with pytest.raises(SettingsError):
        database("mysql://x", tmp_path / "db")


@pytest.mark.parametrize("password", ["p/x", "p#x", "p?x", "p[x", "p]x"])
def test_a_password_of_the_database_that_ends_its_address_is_told_with_how_to_write_it(password, tmp_path):
    with pytest.raises(SettingsError, match=r"DLH_DATABASE_URL .* a password with .* written as %2F"):
        database(f"postgres://me:{password}@db.example/dlh", tmp_path / "db")


def test_a_folder_that_cannot_be_is_told_by_its_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("DLH_STORE", "~nobody-of-this-name/store")
    with pytest.raises(SettingsError, match="DLH_STORE: nobody is known here"):
        env_path("DLH_STORE", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"DLH_HOME: .* cannot be made: Not a directory"):
        folder_make(tmp_path / "file" / "run", "DLH_HOME")


def test_days_that_are_counted_back_end_before_the_first_date():
    now = datetime.now(UTC)
    assert now - timedelta(days=DAYS_MAX) < now < now + timedelta(days=DAYS_MAX)
    asked = "from harness import settings"
    for name in ("DLH_TRASH_DAYS", "DLH_HISTORY_DAYS", "DLH_PREDICTION_DAYS", "DLH_UPLOAD_EXPIRES_DAYS"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, "999999")
            done = subprocess.run([sys.executable, "-c", asked], cwd=REPOSITORY, capture_output=True, text=True)
        assert done.returncode != 0 and f"{name} must be at most {DAYS_MAX}, not 999999" in done.stderr


OBJECTS = {"DLH_S3_URL": "s3://pool/a/b", "DLH_S3_KEY": "k", "DLH_S3_SECRET": "s"}


def test_an_object_store_is_named_whole_or_not_at_all(monkeypatch, tmp_path):
    assert s3_settings() is None
    for name, value in OBJECTS.items():
        monkeypatch.setenv(name, value)
    found = s3_settings()
    assert (found.place, found.bucket, found.endpoint, found.region) == ("pool/a/b", "pool", "", "us-east-1")
    monkeypatch.delenv("DLH_S3_SECRET")
    with pytest.raises(SettingsError, match="DLH_S3_SECRET"):
        s3_settings()
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("DLH_S3_SECRET_FILE", str(tmp_path / "secret"))
    found = s3_settings()
    assert found.secret == "from a file" and "from a file" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DLH_S3_URL", "pool"),
        ("DLH_S3_URL", "s3://"),
        ("DLH_S3_URL", "s3://pool/../x y"),
        ("DLH_S3_URL", "https://pool"),
        ("DLH_S3_ENDPOINT", "objects.example.org:9000"),
        ("DLH_S3_ENDPOINT", "https://[::1"),
        ("DLH_S3_ENDPOINT", "https://objects.example.org:99999"),
        ("DLH_S3_KEY", ""),
    ],
)
def test_a_wrong_object_store_names_the_setting(monkeypatch, name, value):
    for setting, good in {**OBJECTS, name: value}.items():
        monkeypatch.setenv(setting, good)
    with pytest.raises(SettingsError, match=name):
        s3_settings()


def test_certificate_authorities_of_the_object_store_come_from_a_file_that_has_some(monkeypatch, tmp_path):
    for name, value in OBJECTS.items():
        monkeypatch.setenv(name, value)
    assert s3_settings().ca_file == ""
    monkeypatch.setenv("DLH_S3_CA_FILE", certifi.where())
    assert s3_settings().ca_file == certifi.where()
    (tmp_path / "none.pem").write_text("no certificate")
    for wrong in ("none.pem", "nowhere.pem"):
        monkeypatch.setenv("DLH_S3_CA_FILE", str(tmp_path / wrong))
        with pytest.raises(SettingsError, match="DLH_S3_CA_FILE"):
            s3_settings()


def test_who_must_have_a_second_factor_is_one_of_three(monkeypatch):
    assert second_factor() == "nobody"
    monkeypatch.setenv("DLH_SECOND_FACTOR", " Admins")
    assert second_factor() == "admins"
    monkeypatch.setenv("DLH_SECOND_FACTOR", "yes")
    with pytest.raises(SettingsError, match="DLH_SECOND_FACTOR must be one of nobody, admins, all, not 'yes'"):
        second_factor()


def test_nodes_are_told_nothing_of_the_object_store():
    assert without_serving({**OBJECTS, "DLH_S3_SECRET_FILE": "x", "DLH_SMTP_PASSWORD": "x", "DLH_HOME": "y"}) == {
        "DLH_HOME": "y"
    }


def test_networks_are_read_or_named(monkeypatch):
    monkeypatch.setenv("DLH_NETS", "10.1.2.0/24, fd00::/64")
    assert [str(network) for network in env_networks("DLH_NETS")] == ["10.1.2.0/24", "fd00::/64"]
    monkeypatch.setenv("DLH_NETS", "10.1.2.3/24")
    with pytest.raises(SettingsError, match="DLH_NETS"):
        env_networks("DLH_NETS")


def test_the_portal_s_own_address_is_not_the_one_that_a_client_in_the_same_shell_asks(tmp_path):
    given = {"DLH_HOME": str(tmp_path), "DLH_PUBLIC_URL": "https://own.example", "DLH_URL": "https://other.example"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DLH_")}
    command = [sys.executable, "-c", "from harness.settings import PORTAL_URL; print(PORTAL_URL)"]
    done = subprocess.run(command, env=kept | given, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["https://own.example"]
