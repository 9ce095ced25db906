"""A full disk behind an unexpected error is told in words, by the API and by pages."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import redis
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.middleware import SessionMiddleware
from django.db.utils import DataError, InterfaceError, OperationalError
from django.test import Client, RequestFactory

from harness.accounts.models import User
from harness.errors import HarnessError, Invalid, NoSpace, Unavailable
from harness.trouble import TroubleMiddleware, trouble_of, trouble_page, trouble_told
from tests.harness.held_store import store_held

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.full_disk._free_bytes", lambda: 4096)


def test_no_space_left_is_told_wherever_it_stands_in_the_chain() -> None:
    try:
        raise RuntimeError("wrapped") from FULL
    except RuntimeError as error:
        assert isinstance(trouble_of(error), NoSpace)


@pytest.mark.parametrize("error", [OperationalError("disk I/O error"), redis.ResponseError("MISCONF")])
def test_database_and_broker_errors_mean_a_full_disk_only_where_it_is_full(
    error: Exception, full_disk: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(trouble_of(error), NoSpace)
    monkeypatch.setattr("harness.full_disk._free_bytes", lambda: 1 << 40)
    assert trouble_of(error) is None


@pytest.mark.parametrize(
    ("cause", "place"),
    [
        (psycopg.errors.DiskFull("could not extend file: No space left on device"), "database"),
        (redis.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"), "broker"),
    ],
)
def test_a_disk_that_is_full_elsewhere_is_told_as_that_of_whoever_says_so(
    monkeypatch: pytest.MonkeyPatch, cause: Exception, place: str
) -> None:
    monkeypatch.setattr("harness.full_disk._free_bytes", lambda: 1 << 40)
    try:
        raise OperationalError("refused") from cause
    except OperationalError as error:
        found = trouble_of(error)
    assert isinstance(found, NoSpace) and found.message == f"The disk of the {place} is full; nothing was changed."
    assert f"free space where the {place} keeps its data" in found.hint


def test_a_store_that_does_not_answer_holds_no_error_up_and_is_not_said_to_be_full(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HOME.mkdir(parents=True, exist_ok=True)
    with store_held(settings, monkeypatch) as asked:
        assert trouble_of(OperationalError("disk I/O error")) is None
    assert len(asked) == 1


def test_a_time_that_no_database_can_keep_is_told_as_a_wrong_value() -> None:
    last = datetime.fromisoformat("9999-12-31T23:59:59-23:00")
    with pytest.raises(OverflowError) as caught:
        last.astimezone(UTC)
    told = trouble_of(caught.value)
    assert isinstance(told, Invalid) and "out of the range" in told.message


def locked(tmp_path: Path) -> OperationalError:
    """What Django raises where something else holds SQLite's write lock, from the real thing."""
    with (
        closing(sqlite3.connect(tmp_path / "db")) as holder,
        closing(sqlite3.connect(tmp_path / "db", timeout=0)) as me,
    ):
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            me.execute("CREATE TABLE more (id)")
        return chained(OperationalError("database is locked"), caught.value)


def chained(error: Exception, cause: Exception) -> Any:
    error.__cause__ = cause
    return error


def test_a_database_that_is_locked_or_restarted_is_away(tmp_path: Path) -> None:
    restarted = chained(OperationalError("the connection is closed"), psycopg.errors.AdminShutdown("terminating"))
    for error in (locked(tmp_path), restarted, InterfaceError("connection already closed")):
        found = trouble_of(error)
        assert isinstance(found, Unavailable) and found.status == 503 and found.hint


def test_a_missing_table_is_no_matter_of_waiting(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db")) as me, pytest.raises(sqlite3.OperationalError) as caught:
        me.execute("SELECT * FROM nothing")
    assert trouble_of(chained(OperationalError("no such table: nothing"), caught.value)) is None


@pytest.mark.django_db
def test_the_api_answers_503_with_a_time_to_try_again(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise InterfaceError("connection already closed")

    monkeypatch.setattr("harness.api.auth.token_find", away)
    answer = client.get("/api/v1/me", headers={"Authorization": "Bearer dlh_x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database_away")
    assert int(answer["Retry-After"]) > 0


@pytest.mark.parametrize(
    "words",
    [
        "PostgreSQL text fields cannot contain NUL (0x00) bytes",
        "unsupported Unicode escape sequence\nDETAIL:  \\u0000 cannot be converted to text.",
    ],
)
def test_a_nul_that_postgresql_refuses_is_the_callers_mistake(words: str) -> None:
    assert isinstance(trouble_of(DataError(words)), Invalid)
    assert trouble_of(DataError("value too long for type character varying(40)")) is None


@pytest.mark.parametrize(
    ("error", "logged"), [(OverflowError(), 0), (DataError("NUL (0x00)"), 0), (OSError(errno.ENOSPC, "full"), 1)]
)
def test_what_a_person_gave_wrong_is_told_and_not_logged(
    caplog: pytest.LogCaptureFixture, error: Exception, logged: int
) -> None:
    with pytest.raises(HarnessError), trouble_told():
        raise error
    assert len(caplog.records) == logged


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "status", "level"),
    [
        (DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"), 422, "INFO"),
        (OverflowError("too far"), 422, "WARNING"),
        (OSError(errno.ENOSPC, "full"), 507, "ERROR"),
    ],
)
@pytest.mark.parametrize("path", ["/jobs/", "/api/v1/jobs"])
def test_what_a_person_gave_wrong_is_no_line_of_an_error(
    caplog: pytest.LogCaptureFixture, full_disk: None, path: str, error: Exception, status: int, level: str
) -> None:
    request = RequestFactory().get(path)
    request.user = SimpleNamespace(is_authenticated=False)  # type: ignore[assignment]
    with caplog.at_level("INFO"):
        answer = trouble_page(request, error)
    assert answer is not None and answer.status_code == status
    told = [record.levelname for record in caplog.records if record.getMessage().startswith(f"GET {path}: ")]
    assert told == [level]


def test_a_fault_of_ours_stays_one(full_disk: None) -> None:
    assert trouble_of(KeyError("x")) is None


@pytest.mark.django_db
def test_the_api_answers_507_and_not_a_crash(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise FULL

    monkeypatch.setattr("harness.api.auth.token_find", refuse)
    answer = client.get("/api/v1/me", headers={"Authorization": "Bearer dlh_x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")


@pytest.mark.django_db
def test_a_page_says_so_and_plain_text_does_where_no_page_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    request = RequestFactory().get("/jobs/")
    request.user = SimpleNamespace(is_authenticated=False)  # type: ignore[assignment]
    middleware = TroubleMiddleware(lambda _: None)  # type: ignore[arg-type, return-value]
    assert middleware.process_exception(request, KeyError("x")) is None

    def refuse(*_: Any) -> None:
        raise FULL

    monkeypatch.setattr("harness.pages.web.error_answer", refuse)
    answer = middleware.process_exception(request, FULL)
    assert answer is not None
    assert answer.status_code == 507
    assert b"disk" in answer.content


@pytest.mark.django_db
def test_who_signs_in_while_the_disk_is_full_reads_why_and_no_bad_request(
    full_disk: None, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    User.objects.create_user("ann", password="a long password of hers")
    save = SessionStore.save

    def refuse(self: SessionStore, must_create: bool = False) -> None:
        if must_create:  # the session of who is not signed in yet
            return save(self, must_create)
        try:
            raise OperationalError("database or disk is full")
        except OperationalError as error:
            raise UpdateError from error

    monkeypatch.setattr(SessionStore, "save", refuse)
    answer = client.post("/login", {"username": "ann", "password": "a long password of hers"})
    assert answer.status_code == 507
    assert "The disk of this installation is full" in answer.content.decode()
    monkeypatch.setattr("harness.full_disk._free_bytes", lambda: 1 << 40)
    assert client.post("/login", {"username": "ann", "password": "a long password of hers"}).status_code == 400


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/login", "/api/v1/me"])
def test_a_session_that_a_cut_connection_does_not_keep_is_told_in_words(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InterfaceError("connection already closed")

    monkeypatch.setattr(SessionMiddleware, "process_response", refuse)
    answer = Client().get(path)
    assert answer.status_code == 503 and "The database does not answer" in answer.content.decode()
