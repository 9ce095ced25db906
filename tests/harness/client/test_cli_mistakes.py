"""Commands as a newcomer may type them: what is wrong is told in words, with the next step and the right exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client import cli
from harness.client.cli import submitting
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
    ("words", "meant"),
    [
        (("jobs", "cancel", "x"), "`dlh cancel`"),
        (("pool", "doctor"), "`dlh doctor`"),
        (("people", "list"), "`dlh people`"),
        (("list",), "`dlh jobs` or `dlh data list` or `dlh weights list`"),
        (("clone", "x"), "`dlh jobs clone`"),
        (("history",), "`dlh pool history`"),
    ],
)
def test_a_command_that_lies_elsewhere_is_named(dlh: Dlh, words: tuple[str, ...], meant: str) -> None:
    ended = dlh(*words)
    assert ended.code == 2 and f"Did you mean {meant}?" in ended.err, ended.err
    assert ended.err.count("Did you mean") == 1


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

    monkeypatch.setattr(submitting, "watch_and_print", interrupted)
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


def test_data_in_place_of_a_model_is_told_before_anything_is_sent(
    dlh: Dlh, portal: SimpleNamespace, flowers_csv: Path
) -> None:
    ended = dlh("submit", "--data", flowers_csv, "--model", flowers_csv)
    told = " ".join(ended.err.split())
    assert ended.code == 2 and "is data by its name; --model takes your model.py" in told and "--data" in told
    assert dlh("data", "list", "--json").json == []


def test_a_nul_in_a_file_is_told_with_its_line(dlh: Dlh, portal: SimpleNamespace, dataset: Any, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes(b"import torch\nx = '\0'\n")
    ended = dlh("submit", "--model", str(tmp_path / "model.py"), "--data", dataset.pk)
    assert ended.code == 2 and "model.py, line 2 holds a NUL" in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("words", "told", "hint"),
    [
        (("pool", "slow", "n1", "cpu:0", "nan"), "factor must be a finite number", "try again"),
        (("pool", "slow", "n1", "banana", "2"), "'banana' names no device", "cpu:1 or cuda:0"),
        (("pool", "add", "n1", "--hours", "nan"), "--hours is nan", "Such as 24"),
        (("pool", "quota", "orchard", "cpu", "-2"), "-2", "No value here may be below 0"),
        (("pool", "links", "--node", "nosuch"), "There is no node nosuch", "`dlh pool`"),
        (("pool", "calibration", "export", "x.csv", "--kind", "tpu"), "no kind of device 'tpu'", "Use cpu or cuda"),
        (("pool", "calibration", "import", "empty"), "The file is empty", "that an export wrote"),
        (("pool", "calibration", "import", "list.json"), "not a calibration dataset", "that an export wrote"),
        (("show", "../etc"), "'../etc' is no id or name", "as the lists print it"),
        (("jobs", "--state", "banana"), "state: must be one of draft", "'banana'"),
        (("jobs", "--task", "banana"), "task: must be one of tabular_classification", "'banana'"),
        (("jobs", "--family", "banana"), "family: must be one of mlp, ", "'banana'"),
        (("jobs", "--owner", "banana"), "Nobody in the projects that you see is called 'banana'", "Leave"),
        (("tokens", "add", "x", "--expires", "soon"), "--expires 'soon' is not a valid time", "2030-01-31T18:00"),
        (("people", "add", "bob", "--email", "notmail"), "valid email address", "ada@example.org"),
        (("simulate", "empty", "--slot-s", "-5"), "--slot-s is -5", "such as 60"),
        (("simulate", "empty", "--rescale-s", "nan"), "--rescale-s is nan", "such as 20"),
        (("download", "nosuch", "--out", "empty"), "empty is a file; --out names a folder", "Name another"),
        (("lr-find", "nosuch", "--use", "banana"), "There is no rate 'banana' for --use", "best, low, centre"),
        (("data", "fetches", "--again", "nosuch"), "There is no such fetch", "`dlh data fetches`"),
    ],
)
def test_a_value_that_cannot_be_is_told_by_its_name_with_what_to_do(
    dlh: Dlh,
    portal: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    told: str,
    hint: str,
) -> None:
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    (tmp_path / "empty").touch()
    (tmp_path / "list.json").write_text("[]")
    ended = dlh(*words)
    assert ended.code in (2, 3) and told in ended.err and hint in ended.err, ended.err


def test_a_device_that_the_pool_has_not_is_not_waited_for(dlh: Dlh, portal: Any, job: Any, node_make: Any) -> None:
    node_make("node-1")
    ended = dlh("lr-find", job.pk, "--device", "cuda")
    assert ended.code == 2 and not job.rate_tests.exists()
    assert "The pool has no device of the kind cuda." in ended.err and "Leave the device open" in ended.err


@pytest.mark.parametrize("words", [("submit",), ("offer",), ("code",), ("suggest",)])
def test_a_line_that_is_no_yaml_comes_with_the_name_of_its_file(
    dlh: Dlh, portal: SimpleNamespace, dataset: Any, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "broken.yaml").write_text("training: {epochs: [\n")
    ended = dlh(*words, "broken.yaml", "--data", dataset.pk)
    assert ended.code == 2 and "Error: broken.yaml, line 2: not YAML" in ended.err, ended.err


def test_of_several_jobs_those_that_were_removed_before_one_that_is_none_and_those_after_it_are_told(
    dlh: Dlh, portal: Any, job: Any
) -> None:
    ended = dlh("jobs", "rm", job.pk, "nosuch", "another")
    assert ended.code == 3 and "nosuch: There is no such job." in ended.err
    assert f"{job.pk}: in the trash. another: not touched." in ended.err


def test_a_token_that_the_portal_does_not_know_comes_with_the_command_that_stores_another(
    dlh: Dlh, portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLH_TOKEN", "dlh_wrong")
    ended = dlh("jobs")
    assert ended.code == 3 and "`dlh login URL --token TOKEN`" in ended.err and "DLH_TOKEN is set" in ended.err
    assert "Authorization" not in ended.err


def test_a_line_of_an_offer_whose_program_cannot_be_read_is_refused_for_that(
    dlh: Dlh, portal: Any, job: Any, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import asking

    problem = {"message": "model.py has no function build(spec).", "hint": "Add it.", "at_fault": True}
    failed = {"id": "x", "state": "failed", "job": "", "made_at": None, "lines": [], "problem": problem}
    node_make("node-1")
    monkeypatch.setattr(asking, "ready", lambda *_: {**failed, "recommended": None, "probe": None})
    ended = dlh("jobs", "offer", job.pk, "--take", "recommended")
    assert ended.code == 2 and "model.py has no function build(spec)." in ended.out


def test_an_offer_that_could_not_be_priced_is_told_without_a_word_of_its_program(
    dlh: Dlh, portal: Any, job: Any, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import asking

    problem = {"code": "not_priced", "message": "Pricing this offer failed: KeyError.", "hint": "Ask for it again."}
    failed = {"id": "x", "state": "failed", "job": "", "made_at": None, "lines": [], "problem": problem}
    node_make("node-1")
    monkeypatch.setattr(asking, "ready", lambda *_: {**failed, "recommended": None, "probe": None})
    ended = dlh("jobs", "offer", job.pk)
    assert ended.code == 2 and "Pricing this offer failed: KeyError." in ended.out and "Ask for it again." in ended.out
    assert "without running it" not in ended.out and "--probe" not in ended.out


def test_a_rate_for_a_job_that_is_no_draft_is_refused_before_the_test(dlh: Dlh, portal: Any, ended_job: Any) -> None:
    ended = dlh("lr-find", ended_job.pk, "--use", "best")
    assert ended.code == 2 and f"--use is for drafts, and {ended_job.name} is none (succeeded)" in ended.err
    assert not ended_job.rate_tests.exists()


def test_a_place_in_the_queue_that_is_none_is_told_beside_the_job(
    dlh: Dlh, portal: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    ended = dlh("queue", "move", job.pk, "1")
    assert ended.code == 3 and "'1', which is none of up, down, first and last" in ended.err
    ended = dlh("queue", "move", "nosuch", "1")
    assert ended.code == 3 and "There is no such job." in ended.err and "'1'" not in ended.err


def test_filters_that_no_job_passes_are_not_told_as_an_empty_list(dlh: Dlh, portal: Any, job: Any) -> None:
    for words in (("--tag", "zzz"), ("-q", "zzz"), ("--group", "family", "--tag", "zzz")):
        ended = dlh("jobs", *words)
        assert (ended.code, ended.out.strip()) == (0, "No job matches."), words
