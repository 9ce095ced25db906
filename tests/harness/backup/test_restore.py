"""A whole installation through the command line: to another home, to PostgreSQL, and never over anything."""

import json
from pathlib import Path
from secrets import token_hex

import pytest

from harness.backup.restoring import backup_restore
from tests.harness.backup.conftest import DLH, call, users
from tests.postgres import server


def test_a_backup_by_the_clock_is_named_by_the_time_and_the_newest_stay(home, tmp_path):
    for day in ("01", "02"):
        (tmp_path / f"dlh-202001{day}-023000.dlh").touch()
    done = call("harness.backup", "make", tmp_path, "--keep", "2", "--json", DLH_HOME=home)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["removed"] == ["dlh-20200101-023000.dlh"]
    assert {path.name for path in tmp_path.iterdir()} == {"dlh-20200102-023000.dlh", Path(told["path"]).name}
    refused = call("harness.backup", "make", tmp_path / "none", "--keep", "2", DLH_HOME=home)
    assert refused.returncode == 2 and "there is no folder" in refused.stderr


def test_a_restore_says_how_far_each_of_its_parts_is(backup, tmp_path):
    heard = []
    home = tmp_path / "new"
    backup_restore(backup, home=home, store=home / "store", tell=lambda *told: heard.append(told))
    assert list(dict.fromkeys(stage for stage, *_ in heard)) == [
        "Checking the backup",
        "Unpacking",
        "Filling the database",
    ]
    assert all(done <= total for _, done, total in heard)
    assert heard[-1][1] == heard[-1][2] > 3  # rows


def test_it_comes_back_in_another_home(home, backup, tmp_path):
    done = call("harness.backup", "restore", backup, DLH_HOME=tmp_path / "new")
    assert done.returncode == 0, done.stderr
    new = tmp_path / "new"
    assert done.stdout.endswith(
        "people sign in again, and make new secrets for their webhooks; passwords and API tokens stay as they were.\n"
        f"  Start it: DLH_HOME={new} make run\n"
    )
    assert users(new) == users(home)
    assert (new / "store/jobs/abc/model").read_bytes() == b"weights" * 1000
    assert not (new / "store/bucket").exists()  # what an object store has is found out anew
    assert (new / "secrets/secret_key").read_text() != (home / "secrets/secret_key").read_text()
    assert not [path for path in new.iterdir() if path.name.startswith(".") or path.suffix in {".jsonl", ".json"}]
    again = call("harness.stack.bootstrap", DLH_HOME=new, DLH_REDIS_URL="redis://127.0.0.1:1/0")
    assert json.loads(again.stdout)["password"] == "", again.stderr


def test_with_secrets_the_key_comes_back_and_that_is_said_loudly(home, tmp_path):
    done = call("harness.backup", "make", tmp_path / "b", "--with-secrets", DLH_HOME=home)
    assert "HOLDS THE SECRET KEY" in done.stdout
    assert call("harness.backup", "restore", tmp_path / "b", DLH_HOME=tmp_path / "new").returncode == 0
    assert (tmp_path / "new/secrets/secret_key").read_text() == (home / "secrets/secret_key").read_text()
    assert (tmp_path / "new/secrets").stat().st_mode & 0o077 == 0


def test_from_sqlite_it_comes_back_in_postgresql_and_only_where_that_is_empty(home, backup, tmp_path):
    import psycopg

    with server() as url:
        settings = {"DLH_HOME": tmp_path / "new", "DLH_STORE": tmp_path / "store", "DLH_DATABASE_URL": url}
        done = call("harness.backup", "restore", backup, **settings, DLH_SECRET_KEY=token_hex(32))
        assert done.returncode == 0, done.stderr
        assert "for their webhooks where DLH_SECRET_KEY is another" in done.stdout
        assert done.stdout.endswith("Start its portal, control and nodes.\n")
        assert (tmp_path / "store/jobs/abc/model").exists()
        with psycopg.connect(host=url.partition("host=")[2], user="dlh", dbname="postgres") as database:
            kept = database.execute("SELECT username, password FROM accounts_user").fetchall()
        assert kept == [row[:2] for row in users(home)]
        again = call("harness.backup", "restore", backup, **settings | {"DLH_HOME": tmp_path / "b", "DLH_STORE": ""})
        assert again.returncode == 2
        assert "database is not empty" in again.stderr
        assert not (tmp_path / "b").exists()


def test_a_store_elsewhere_in_the_home_comes_back_where_it_is_named(backup, tmp_path):
    new = tmp_path / "new"
    done = call("harness.backup", "restore", backup, DLH_HOME=new, DLH_STORE=new / "disk/data")
    assert done.returncode == 0, done.stderr
    assert (new / "disk/data/jobs/abc/model").read_bytes() == b"weights" * 1000
    assert not (new / "store").exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "no backup"])
def test_a_damaged_backup_is_refused_and_nothing_is_changed(backup, tmp_path, damage):
    body = bytearray(backup.read_bytes())
    if damage == "flipped":
        body[len(body) // 2] ^= 4
    broken = tmp_path / "broken"
    broken.write_bytes({"cut": body[:-5000], "flipped": body, "no backup": b"PK"}[damage])
    (tmp_path / "empty").mkdir()
    for home in ("absent", "empty"):
        done = call("harness.backup", "restore", broken, DLH_HOME=tmp_path / home)
        assert done.returncode == 2
        assert "Cannot continue" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "absent").exists()
    assert not list((tmp_path / "empty").iterdir())


def test_nothing_is_overwritten(home, backup):
    before = users(home)
    done = call("harness.backup", "restore", backup, DLH_HOME=home)
    assert done.returncode == 2 and "is not empty" in done.stderr
    assert users(home) == before
    done = call("harness.backup", "make", backup, DLH_HOME=home)
    assert done.returncode == 2 and "is there already" in done.stderr


def test_a_backup_of_a_newer_version_is_refused_in_words(backup, tmp_path, monkeypatch):
    from harness.backup import restoring

    monkeypatch.setattr(restoring, "release", lambda: "0.0.9")
    with pytest.raises(restoring.BackupError, match=r"this is 0\.0\.9; update first"):
        restoring.backup_restore(backup, home=tmp_path / "new", store=tmp_path / "new/store")
    assert not (tmp_path / "new").exists()


def test_a_backup_of_an_earlier_version_is_taken(home, backup, tmp_path, monkeypatch):
    from harness.backup import restoring

    monkeypatch.setattr(restoring, "release", lambda: "99.0")
    restoring.backup_restore(backup, home=tmp_path / "new", store=tmp_path / "new/store")
    assert users(tmp_path / "new") == users(home)


def test_where_nothing_is_installed_there_is_nothing_to_back_up(tmp_path):
    done = call("harness.backup", "make", tmp_path / "b", DLH_HOME=tmp_path / "nothing")
    assert done.returncode == 2 and "no installation" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_backup_inside_the_store_is_refused(home):
    done = call("harness.backup", "make", home / "store/b", DLH_HOME=home)
    assert done.returncode == 2 and "lies in the store" in done.stderr


def test_dlh_is_a_front_of_it(home, tmp_path):
    done = call(DLH, "backup", tmp_path / "b", "--json", DLH_HOME=home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == str(tmp_path / "b")
    assert call(DLH, "restore", tmp_path / "b", DLH_HOME=home).returncode == 2


def test_a_refusal_is_json_where_json_was_asked_for(home, tmp_path):
    done = call(DLH, "backup", tmp_path / "b", "--json", DLH_HOME=tmp_path / "nothing")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["hint"]) == (2, "refused", "name its folder by DLH_HOME")
    assert "no installation" in error["message"] and not done.stderr
    done = call(DLH, "restore", tmp_path / "nowhere", "--json", DLH_HOME=tmp_path / "new")
    assert done.returncode == 2 and "cannot be read" in json.loads(done.stdout)["error"]["message"]
    done = call(DLH, "store", "check", "--json", DLH_HOME=home)
    assert done.returncode == 2 and "DLH_S3_URL is not set" in json.loads(done.stdout)["error"]["message"]
