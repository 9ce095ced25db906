"""A token for the command line on a machine without a browser."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.env import REPOSITORY


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("token") / "home"


def made(home: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DLH_") and name != "REDIS_URL"}
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    environment = {**kept, "DLH_HOME": str(home), "DLH_REDIS_URL": "redis://127.0.0.1:1/0", **settings}
    argv = [sys.executable, "-m", "harness.stack", "token", *options]
    return subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def rows(home: Path, token: str) -> list[Any]:
    with sqlite3.connect(home / "db.sqlite3") as database:
        query = (
            "SELECT username, revoked_at FROM accounts_apitoken JOIN accounts_user u ON u.id = user_id WHERE digest = ?"
        )
        return database.execute(query, (hashlib.sha256(token.encode()).hexdigest(),)).fetchall()


def test_it_is_printed_alone_and_ends_the_one_before_it(home: Path) -> None:
    first, second = made(home), made(home, "--json", "--days", "3")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout.startswith("dlh_") and first.stdout.count("\n") == 1
    assert "Password" in first.stderr and "Password" not in second.stderr  # of the admin, who was made by it
    (old,), (new,) = rows(home, first.stdout.strip()), rows(home, json.loads(second.stdout)["token"])
    assert old[0] == new[0] == "admin" and old[1] and new[1] is None


@pytest.mark.parametrize(("option", "value", "said"), [("--user", "nobody", "no user nobody"), ("--days", "0", "1 to")])
def test_what_cannot_be_made_is_told_without_a_traceback(home: Path, option: str, value: str, said: str) -> None:
    done = made(home, option, value)
    assert done.returncode == 1
    assert said in done.stdout and "Traceback" not in done.stdout + done.stderr


def test_the_store_is_there_before_anything_is_put_into_it(home: Path) -> None:
    assert made(home).returncode == 0 and (home / "store").is_dir()


def test_a_wrong_setting_is_told_in_a_line_that_names_it(home: Path) -> None:
    refused = made(home, DLH_TRASH_DAYS="-1")
    assert refused.returncode == 1
    assert refused.stdout.strip() == "Cannot continue: DLH_TRASH_DAYS must be at least 0, not -1"
