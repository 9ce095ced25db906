"""Ctrl-C: nothing of an interrupted program is left, and no draft that nobody knows of."""

from __future__ import annotations

import errno
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.client.cli.common import draft_kept
from harness.client.cli.interrupts import answer_awaited, job_made, submit_awaited
from harness.client.client import Client
from harness.jobs.models import Job
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal", "listening")
COPY, MKDIR = "harness.client.cli.programs.shutil.copyfileobj", "pathlib.Path.mkdir"


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C is heard, also where a shell started the tests in the background."""
    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, was)


def interrupting(function: Callable[..., None], last: Path) -> Callable[..., None]:
    """The function; Ctrl-C comes as soon as it is through with this file or folder."""

    def call(*given: Any, **named: Any) -> None:
        function(*given, **named)
        if str(last) in {str(given[0]), getattr(given[-1], "name", "")}:
            raise KeyboardInterrupt

    return call


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "empty folder"])
@pytest.mark.parametrize(
    ("place", "function", "last"),
    [
        (COPY, shutil.copyfileobj, "worker/runtime/__init__.py"),
        (MKDIR, Path.mkdir, "worker/runtime"),
        (MKDIR, Path.mkdir, ""),
    ],
    ids=["in a file", "after a folder", "after the first folder"],
)
def test_a_program_whose_writing_is_interrupted_is_written_by_the_same_command_once_more(
    dlh: Dlh,
    job: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: bool,
    place: str,
    function: Any,
    last: str,
) -> None:
    out = tmp_path / "a"
    if there:
        out.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(place, interrupting(function, out / last))
        ended = dlh("code", job.pk, "--out", out)
    assert ended.code == 130 and ended.err.endswith("Interrupted. Nothing was written: run the same command again.\n")
    assert [path.name for path in tmp_path.rglob("*")] == (["a"] if there else [])
    assert dlh("code", job.pk, "--out", out).code == 0 and (out / "train.py").is_file()


def test_what_cannot_be_taken_away_of_an_interrupted_program_keeps_nothing_else(
    dlh: Dlh, job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, unlink = tmp_path / "a", Path.unlink
    stuck = out / "worker" / "runtime" / "elastic" / "__init__.py"

    def refused(file: Path, missing_ok: bool = False) -> None:
        if file == stuck:
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        unlink(file, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        patch.setattr(COPY, interrupting(shutil.copyfileobj, out / "worker" / "runtime" / "servers" / "__init__.py"))
        ended = dlh("code", job.pk, "--out", out)
    assert ended.code == 130 and "Interrupted." in ended.err
    assert set(out.rglob("*")) == {stuck, *(above for above in stuck.parents if out in above.parents)}


def pressed_on_the_way(portal_s: Any) -> Any:
    """A request during whose answer Ctrl-C is pressed."""

    def call(*given: Any, **named: Any) -> Any:
        answer = portal_s(*given, **named)
        signal.raise_signal(signal.SIGINT)
        return answer

    return call


def test_a_spec_whose_draft_is_being_made_when_ctrl_c_comes_leaves_none(
    dlh: Dlh, dataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.yaml").write_text("training: {epochs: 1}\n")
    asked = ("code", "spec.yaml", "--data", dataset.pk)
    monkeypatch.setattr(Client, "job_create", pressed_on_the_way(Client.job_create))
    ended = dlh(*asked)
    assert ended.code == 130 and "Interrupted." in ended.err and not (tmp_path / "spec").exists()
    assert not Job.objects.filter(deleted_at=None).exists()


def test_a_spec_whose_draft_is_being_taken_away_when_ctrl_c_comes_leaves_none(
    dlh: Dlh, dataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.yaml").write_text("training: {epochs: 1}\n")
    sent = Client.send

    def pressed_before(client: Client, method: str, *given: Any) -> Any:
        if method == "DELETE":
            signal.raise_signal(signal.SIGINT)
        return sent(client, method, *given)

    monkeypatch.setattr(Client, "send", pressed_before)
    assert dlh("code", "spec.yaml", "--data", dataset.pk).code == 130
    assert not Job.objects.filter(deleted_at=None).exists()


@pytest.mark.parametrize(
    ("options", "state", "next_words"),
    [((), "queued", "`dlh cancel"), (("--draft",), "draft", "`dlh submit")],
)
def test_a_job_that_was_being_made_when_ctrl_c_came_is_named(
    dlh: Dlh, dataset: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], state: str, next_words: str
) -> None:
    monkeypatch.setattr(Client, "job_create", pressed_on_the_way(Client.job_create))
    ended = dlh("submit", "--data", dataset.pk, *options)
    made = Job.objects.get()
    assert ended.code == 130 and made.state == state
    assert f"{made.pk} ({state})" in ended.err and f"{next_words} {made.pk}`" in ended.err


def test_a_clone_that_was_being_made_when_ctrl_c_came_is_named(
    dlh: Dlh, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "job_do", pressed_on_the_way(Client.job_do))
    ended = dlh("jobs", "clone", job.pk)
    assert ended.code == 130 and f"{Job.objects.exclude(pk=job.pk).get().pk} (draft)" in ended.err


def test_a_clone_that_was_being_submitted_when_ctrl_c_came_is_told_as_it_stands(
    dlh: Dlh, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Client.job_do

    def pressed(client: Client, job_id: str, verb: str, *given: Any) -> Any:
        return (pressed_on_the_way(done) if verb == "submit" else done)(client, job_id, verb, *given)

    monkeypatch.setattr(Client, "job_do", pressed)
    ended = dlh("jobs", "clone", job.pk, "--submit")
    made = Job.objects.exclude(pk=job.pk).get()
    assert ended.code == 130 and made.state == "queued" and "draft" not in ended.err
    assert "Waiting for the portal's answer; Ctrl-C again ends at once." in ended.err
    assert f"The job is {made.pk} (queued" in ended.err and f"`dlh cancel {made.pk}`" in ended.err


def test_a_draft_that_was_being_submitted_when_ctrl_c_came_is_told_as_it_stands(
    dlh: Dlh, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "job_do", pressed_on_the_way(Client.job_do))
    ended = dlh("submit", job.pk)
    assert ended.code == 130 and f"The job is {job.pk} (queued" in ended.err and f"`dlh cancel {job.pk}`" in ended.err


@pytest.mark.parametrize("submit", [False, True])
def test_who_stops_an_earliest_submit_while_its_draft_is_made_is_told_what_goes_on(
    dlh: Dlh, dataset: Any, monkeypatch: pytest.MonkeyPatch, submit: bool
) -> None:
    monkeypatch.setattr(Client, "job_create", pressed_on_the_way(Client.job_create))
    ended = dlh("submit", "--data", dataset.pk, *(("--deadline", "earliest") if submit else ("--draft",)))
    made = Job.objects.get().pk
    way = f"`dlh jobs offer {made} --deadline earliest --take recommended --submit`"
    assert ended.code == 130 and (way if submit else f"`dlh submit {made}`") in ended.err


def test_who_does_not_wait_for_the_answer_is_told_that_a_job_may_be_there(capsys: Any) -> None:
    def ask() -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(typer.Exit):
        job_made(ask)
    assert "A job may have been made: look with `dlh jobs`." in capsys.readouterr().err
    with pytest.raises(typer.Exit), submit_awaited(Client("http://nowhere", "token"), "abc"):
        ask()
    assert "The job is abc; it may have been submitted" in capsys.readouterr().err


def test_a_job_whose_range_test_comes_first_is_not_told_to_be_submitted_again(capsys: Any) -> None:
    made = {"id": "abc", "state": "draft", "rate_test_first": True, "deadline_at": None}
    with pytest.raises(typer.Exit):
        job_made(pressed_on_the_way(lambda: made))
    told = capsys.readouterr().err
    assert "range test" in told and "`dlh watch abc`" in told and "dlh submit" not in told


def test_ctrl_c_twice_does_not_wait_for_an_answer() -> None:
    with pytest.raises(KeyboardInterrupt), answer_awaited():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it waits")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_draft_whose_deadline_was_being_looked_for_when_ctrl_c_came_is_named(capsys: Any) -> None:
    with pytest.raises(typer.Exit) as ended, draft_kept("abc"):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130 and "The draft is kept as abc." in capsys.readouterr().err
