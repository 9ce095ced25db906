"""Commands as a newcomer may type them: what is wrong is told in words, with the next step and the right exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client import cli
from harness.client.cli import programs
from tests.harness.client.conftest import Dlh


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("show", "nosuch"), "dlh jobs"),
        (("watch", "nosuch"), "dlh jobs"),
        (("logs", "nosuch"), "dlh jobs"),
        (("cancel", "nosuch"), "dlh jobs"),
        (("results", "nosuch"), "dlh jobs"),
        (("code", "nosuch"), "dlh jobs"),
        (("download", "nosuch"), "dlh jobs"),
        (("jobs", "clone", "nosuch"), "dlh jobs"),
        (("data", "show", "nosuch"), "dlh data list"),
        (("data", "rm", "nosuch"), "dlh data list"),
        (("suggest", "nosuch"), "dlh data list"),
        (("submit", "--data", "nosuch"), "dlh data list"),
        (("data", "uploads", "--give-up", "nosuch"), "dlh data uploads"),
        (("tokens", "rm", "nosuch"), "dlh tokens"),
        (("--project", "nosuch", "jobs"), "dlh whoami"),
        (("--project", "nosuch", "data", "list"), "dlh whoami"),
    ],
)
def test_what_there_is_not_comes_with_the_command_that_lists_what_there_is(
    dlh: Dlh, portal: SimpleNamespace, words: tuple[str, ...], command: str
) -> None:
    ended = dlh(*words)
    assert (ended.code, ended.out) == (3, "") and f"`{command}`" in ended.err, ended.err
    again = dlh(*words, "--json")
    assert (again.code, again.json["error"]["code"]) == (3, "not_found")


@pytest.mark.parametrize(
    "words", [("pool", "drain", "nosuch"), ("pool", "release", "nosuch"), ("pool", "rm", "nosuch")]
)
def test_what_the_pool_has_not_is_told_to_admins(
    dlh: Dlh, portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    ended = dlh(*words)
    assert ended.code == 3 and "dlh pool" in ended.err


@pytest.mark.parametrize(
    ("words", "command"),
    [(("nonsense",), "dlh"), (("data", "nonsense"), "dlh data"), (("data", "show"), "dlh data show"), (("-x",), "dlh")],
)
def test_a_command_that_is_not_understood_names_its_own_help(dlh: Dlh, words: tuple[str, ...], command: str) -> None:
    ended = dlh(*words)
    assert ended.code == 2 and f"See `{command} --help`." in ended.err


def test_a_rank_or_file_that_is_none_comes_with_those_that_are(dlh: Dlh, ended_job: Any, portal: Any) -> None:
    ended = dlh("logs", ended_job.pk, "--rank", 7)
    assert ended.code == 2 and "There is no rank 7" in ended.err and "rank 0 alone" in ended.err
    ended = dlh("jobs", "edit", ended_job.pk, "none.py")
    assert ended.code == 3 and "no file none.py" in ended.err and "model.py" in ended.err


@pytest.mark.parametrize("words", [("submit",), ("spec", "check"), ("offer",), ("code",)])
def test_data_in_the_place_of_a_spec_is_told_as_such(
    dlh: Dlh, portal: SimpleNamespace, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "my data.csv").write_text("a,b\n1,2\n")
    ended = dlh(*words, "my data.csv")
    assert ended.code == 2 and "my data.csv is data by its name" in ended.err
    assert "--data 'my data.csv'" in ended.err


@pytest.mark.parametrize("token", ["dlh_t\u00f6ken", "dlh_two words", "dlh_line\nfeed"])
def test_a_token_that_can_be_none_is_told_without_it(dlh: Dlh, portal: SimpleNamespace, token: str) -> None:
    ended = dlh("login", portal.url, "--token", token, "--json")
    assert ended.code == 2 and ended.json["error"]["message"].startswith("This is not a valid token")
    assert "dlh_" not in ended.out + ended.err


@pytest.mark.parametrize("until", ["99999999999999h", "0001-01-01", "soon"])
def test_a_time_that_is_none_is_bad_input(dlh: Dlh, portal: SimpleNamespace, until: str) -> None:
    ended = dlh("pool", "reserve", "n1", "--until", until, "--purpose", "x", "--json")
    assert ended.code == 2 and "is not a valid time" in ended.json["error"]["message"]


def test_a_workload_that_is_not_there_is_told_as_such(dlh: Dlh, portal: SimpleNamespace) -> None:
    assert "none.json cannot be read: No such file" in dlh("offer", "--workload", "none.json").err


def test_ctrl_c_while_a_new_job_is_watched_says_that_it_goes_on(
    dlh: Dlh, portal: SimpleNamespace, dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(programs, "watch_and_print", interrupted)
    ended = dlh("submit", "--data", dataset.pk, "--wait")
    assert ended.code == 130 and "The job continues" in ended.err and "same command again" not in ended.err


def test_ctrl_c_while_the_command_is_loaded_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Loading:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "harness.client.cli.app", Loading())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "Interrupted.\n")


def test_a_nul_in_a_file_is_told_with_its_line(dlh: Dlh, portal: SimpleNamespace, dataset: Any, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes(b"import torch\nx = '\0'\n")
    ended = dlh("submit", "--model", str(tmp_path / "model.py"), "--data", dataset.pk)
    assert ended.code == 2 and "model.py, line 2 holds a NUL" in " ".join(ended.err.split())
