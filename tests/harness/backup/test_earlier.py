"""A backup of earlier sources comes back in today's tables; one of newer sources is refused."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import django.contrib.auth
import pytest

from tests.harness.backup.conftest import call, users

LATER = {"accounts.0008_deleted_at", "accounts.0009_identity"}
"""What a backup of that day has not heard of: two fields of a person, one of a project, and a table."""
NEW_FIELDS = {"deleted_at", "link_allowed_until"}


@pytest.fixture
def parts(backup: Path, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Rows and manifest of a backup."""
    with tarfile.open(backup) as tar:
        tar.extractall(tmp_path / "parts", filter="data")
    return tmp_path / "parts" / "database.jsonl", json.loads((tmp_path / "parts" / "manifest.json").read_text())


def earlier(rows: Path, manifest: dict[str, Any]) -> None:
    """Make of both what the sources before `LATER` would have written."""
    lines, dropped = [], []
    for line in rows.read_text().splitlines():
        body = json.loads(line)
        if isinstance(body, dict):
            table, names = body["table"], body["fields"]
            new = NEW_FIELDS if table in {"accounts.user", "accounts.project"} else set()
            dropped = [number for number, name in enumerate(names) if name in new]
            body["fields"] = [name for name in names if name not in new]
        else:
            body = [value for number, value in enumerate(body) if number not in dropped]
        if table != "accounts.identity":
            lines.append(json.dumps(body))
    rows.write_text("\n".join(lines) + "\n")
    manifest["migrations"] = [one for one in manifest["migrations"] if one not in LATER]
    del manifest["rows"]["accounts.identity"]


def loaded(rows: Path, manifest: dict[str, Any], home: Path) -> Any:
    """The database of a new home, filled as a restore does."""
    told = rows.with_name("told.json")
    told.write_text(json.dumps(manifest))
    (home / "store").mkdir(parents=True)
    return call("harness.backup.loading", rows, told, DLH_HOME=home, DLH_REDIS_URL="redis://127.0.0.1:1/0")


def schema(home: Path) -> list[str]:
    with sqlite3.connect(home / "db.sqlite3") as database:
        return sorted(row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))


def test_rows_of_earlier_tables_come_back_and_the_tables_are_those_of_today(
    home: Path, parts: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    earlier(*parts)
    done = loaded(*parts, tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert users(tmp_path / "new") == users(home)
    assert schema(tmp_path / "new") == schema(home)
    again = call("harness.stack.bootstrap", DLH_HOME=tmp_path / "new", DLH_REDIS_URL="redis://127.0.0.1:1/0")
    assert json.loads(again.stdout)["password"] == "", again.stderr


def test_rows_that_do_not_fit_the_tables_of_their_day_are_refused(
    parts: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    rows, manifest = parts
    manifest["migrations"] = [one for one in manifest["migrations"] if one not in LATER]
    done = loaded(rows, manifest, tmp_path / "new")
    assert done.returncode != 0 and "no such table" in done.stderr


def test_a_backup_of_newer_sources_is_refused_with_what_to_do(
    parts: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    rows, manifest = parts
    manifest["migrations"].append("jobs.0999_of_next_year")
    done = loaded(rows, manifest, tmp_path / "new")
    assert done.returncode != 0 and "(jobs.0999_of_next_year): update" in done.stderr


def test_tables_are_made_as_they_were_before_a_migration_that_now_stands_for_several(tmp_path: Path) -> None:
    program = """
import os, sys, django
os.environ["DJANGO_SETTINGS_MODULE"] = "harness.settings"
django.setup()
from django.db import connection
from harness.backup.earlier import tables_make
names = ["contenttypes.0001_initial", "contenttypes.0002_remove_content_type_name", "accounts.0001_initial"]
names += [f"auth.{name}" for name in sys.argv[1:]]
registry = tables_make(names)
print(sorted(registry.all_models["accounts"]), "accounts_user" in connection.introspection.table_names())
"""
    (tmp_path / "store").mkdir()
    auth = sorted(path.stem for path in (Path(django.contrib.auth.__file__).parent / "migrations").glob("0*.py"))
    done = call(program, *auth, DLH_HOME=tmp_path, DLH_REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 0, done.stderr
    assert "'user'" in done.stdout and "browsersession" not in done.stdout and done.stdout.rstrip().endswith("True")
