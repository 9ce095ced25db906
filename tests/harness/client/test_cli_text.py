"""Names that people give, and terminals: what the commands print is text, whatever it holds."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from codegen.catalog import FAMILIES
from harness.client import Client
from harness.client.cli import common, output
from harness.release import release
from tests.harness.client.conftest import Dlh, state_set
from worker.states import JobState

pytestmark = pytest.mark.usefixtures("portal")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("data", "add", "nowhere.csv"), 2),
        (("data", "add", "."), 2),
        (("submit", "--data", "nowhere.csv"), 2),
        (("submit",), 2),
        (("submit", "nowhere.yaml", "--data", "x"), 2),
        (("data", "show", "nope"), 3),
        (("show", "nope"), 3),
        (("logs", "../../etc/passwd"), 3),
        (("watch", "nope"), 3),
        (("results", "nope"), 3),
        (("download", "nope"), 3),
        (("pool", "drain", "nope"), 3),
        (("jobs", "--sort", "owner__password"), 2),
        (("nonsense",), 2),
        (("jobs", "--nonsense"), 2),
        (("predict", "nope", "nowhere.csv"), 2),
    ],
)
def test_errors_are_json_with_a_stable_exit_code(dlh: Dlh, arguments: tuple[str, ...], code: int) -> None:
    ended = dlh(*arguments, "--json")
    assert ended.code == code
    assert set(ended.json["error"]) == {"code", "message", "hint", "field", "details"}
    plain = dlh(*arguments)
    assert plain.code == code and plain.err.startswith("Error:") and "Traceback" not in plain.err


def test_the_help_of_a_list_names_all_states_families_and_commands(dlh: Dlh) -> None:
    told = " ".join(dlh("jobs", "--help").out.replace("│", " ").split())
    assert [word for word in (*JobState, *FAMILIES, "offer", "rm") if word not in told] == []


def test_the_help_names_every_exit_code(dlh: Dlh) -> None:
    told = " ".join(dlh("--help").out.replace("│", " ").split()).partition("Exit codes:")[2].partition(".")[0]
    assert [int(number) for number in re.findall(r"\d+", told)] == sorted(output.ExitCode)


def test_a_dataset_that_is_not_there_is_named_with_the_way_to_those_that_are(dlh: Dlh, tmp_path: Path) -> None:
    for words in (("data", "show", "nope"), ("submit", "--data", "nope"), ("data", "rm", "nope")):
        ended = dlh(*words)
        assert ended.code == 3 and "There is no dataset 'nope'" in ended.err and "dlh data list" in ended.err
    missing, folder = dlh("data", "add", "flowers.cvs"), dlh("data", "add", tmp_path)
    assert missing.code == folder.code == 2
    assert "There is no file flowers.cvs" in missing.err and "is a folder" in folder.err


@pytest.mark.parametrize("named", ["nowhere/p.csv", "."])
def test_a_file_that_cannot_be_written_is_bad_input(
    dlh: Dlh, ended_job: Any, dataset: Any, named: str, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    for arguments in (
        ("spec", "init", "--out", named, "--force"),
        ("code", ended_job.pk, "--out", "taken/p"),
        ("download", ended_job.pk, "--weights", "--out", "taken"),
        ("pool", "use", "--csv", named),
        ("pool", "calibration", "export", "nowhere/points.csv"),
    ):
        ended = dlh(*arguments, "--json")
        assert (ended.code, ended.json["error"]["code"]) == (2, "bad_input"), arguments
        plain = dlh(*arguments)
        assert plain.code == 2 and plain.err.startswith("Error:") and "Traceback" not in plain.err


def test_a_wrong_order_is_told_with_the_right_ones(dlh: Dlh, portal: SimpleNamespace) -> None:
    error = dlh("jobs", "--sort", "shoes", "--json").json["error"]
    assert error["field"] == "sort" and "'shoes'" in error["message"]
    assert "one of: created, queued" in error["hint"] and "- in front" in error["hint"]


def test_a_wrong_value_names_field_choice_and_next_step(dlh: Dlh, portal: SimpleNamespace) -> None:
    wrong = dlh("tokens", "add", "x", "--scope", "root").err
    assert "scope: must be one of read, write, admin" in wrong and "It was 'root'." in wrong
    when = dlh("tokens", "add", "x", "--expires", "soon", "--json").json["error"]
    assert when["field"] == "expires_at"
    assert when["message"].startswith("--expires 'soon'") and "2030-01-31T18:00" in when["hint"]


def test_a_token_ends_after_days_as_one_made_on_the_portal_s_machine_or_at_a_time(
    dlh: Dlh, portal: SimpleNamespace
) -> None:
    assert dlh("tokens", "add", "days", "--days", "3").code == dlh("tokens", "add", "at", "--expires", "3d").code == 0
    ends = {item["name"]: item["expires_at"] for item in dlh("tokens", "--json").json}
    days, at = (datetime.fromisoformat(ends[name]) for name in ("days", "at"))
    assert abs(days - at) < timedelta(hours=1) and timedelta(days=2) < days - datetime.now(UTC) <= timedelta(days=3)
    for given, word in (("0", "1 to 3650 days, not 0"), ("4000", "not 4000"), ("3 --expires 3d", "both say when")):
        error = dlh("tokens", "add", "x", "--days", *given.split(), "--json").json["error"]
        assert error["field"] == "days" and word in error["message"] and error["hint"]


def test_a_wrong_spec_says_where_to_read_what_it_takes(dlh: Dlh, dataset: Any, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("training: {epochs: many}\n")
    told = dlh("submit", "spec.yaml", "--data", dataset.pk)
    assert told.code == 2
    assert "training.epochs" in told.err and "`dlh spec schema training`" in " ".join(told.err.split())


def test_the_schema_of_a_spec_is_shown_by_field(dlh: Dlh, portal: SimpleNamespace) -> None:
    whole, part = dlh("spec", "schema"), dlh("spec", "schema", "training")
    assert "checkpoints.keep" in whole.out and "checkpoints.keep" not in part.out
    assert "whole number from 1 to 10,000,000 or auto" in part.out
    assert "tabular_classification, tabular_regression, forecast, image_classification or auto" in whole.out
    assert "properties" in dlh("spec", "schema", "--json").json
    typo = dlh("spec", "schema", "trainig.epochs", "--json")
    assert (typo.code, typo.json["error"]["hint"]) == (2, "Did you mean training.epochs?")


def test_a_portal_that_does_not_answer_ends_with_4(dlh: Dlh, monkeypatch: Any) -> None:
    monkeypatch.setenv("DLH_URL", "http://127.0.0.1:1")
    ended = dlh("jobs", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (4, "unreachable")


def test_names_given_by_people_are_printed_as_text(dlh: Dlh, job: Any) -> None:
    from harness.jobs.models import Job

    Job.objects.filter(pk=job.pk).update(name="[bold]x[/] [link=file:///etc]y[/link]")
    assert "[bold]x[/]" in dlh("show", job.pk).out
    assert dlh("jobs").code == 0


def test_no_name_gives_orders_to_a_terminal(dlh: Dlh, job: Any, dataset: Any) -> None:
    state_set(job, "failed", name="a\x1b]0;title\x07b\x9b2J\u202e", failure={"message": "\x1b[31mred", "hint": ""})
    type(dataset).objects.filter(pk=dataset.pk).update(name="c\x1b[2J")
    told = [dlh("jobs"), dlh("show", job.pk), dlh("watch", job.pk), dlh("data", "show", dataset.pk)]
    for ended in told:
        assert "\ufffd" in ended.out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*ended.out, *ended.err}


def test_no_line_of_a_log_gives_orders_to_a_terminal_even_from_a_portal_that_leaves_them_in(
    dlh: Dlh, ended_job: Any, settings: Any, monkeypatch: Any
) -> None:
    file = settings.STORE.job(ended_job.pk).logs / "attempt-1" / "rank-0.log"
    file.write_text("a\tb \x1b[2J\x9b31m [bold]x[/bold] :smile: " + "y" * 300 + "\n")
    shown = dlh("logs", ended_job.pk, "--rank", 0).out
    assert shown == "a\tb 31m [bold]x[/bold] :smile: " + "y" * 300 + "\n"
    monkeypatch.setattr("harness.jobs.logs.text_clean", lambda text: text.rstrip("\n"))
    assert dlh("logs", ended_job.pk, "--rank", 0).out.startswith("a\tb \ufffd[2J\ufffd31m")
    raw = dlh("logs", ended_job.pk, "--rank", 0, "--json")
    assert "\x9b" not in raw.out and "\x1b[2J\x9b31m" in raw.json["text"]


def test_a_bar_shows_a_name_as_text(monkeypatch: Any) -> None:
    ready, terminal = {"state": "ready", "name": "x[/red] y"}, io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")  # whatever the tests were started from
    monkeypatch.setattr(common, "notes", lambda: Console(file=terminal, force_terminal=True, width=120))
    client: Any = SimpleNamespace(dataset_wait=lambda *_, **__: ready)
    assert common.dataset_ready(client, {**ready, "id": "a", "state": "profiling"})["state"] == "ready"
    assert "x[/red] y" in terminal.getvalue()


def test_a_name_in_another_encoding_is_bad_input(dlh: Dlh, flowers_csv: Path, tmp_path: Path) -> None:
    file = tmp_path / "caf\udce9.csv"
    file.write_bytes(flowers_csv.read_bytes())
    ended = dlh("data", "add", str(file), "--json")
    assert (ended.code, ended.json["error"]["code"]) == (2, "bad_input")
    assert "caf" in ended.json["error"]["message"]


def test_a_terminal_that_does_not_know_a_letter_ends_no_command(portal: SimpleNamespace, job: Any) -> None:
    state_set(job, "queued", name="Bl\u00fcten \U0001f338")
    code = "import sys; from harness.client.cli.app import main; sys.argv = ['dlh', 'jobs']; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "Bl?ten" in done.stdout) == (0, True), done.stderr


def test_without_a_terminal_and_without_a_token_nobody_is_asked(
    dlh: Dlh, portal: SimpleNamespace, monkeypatch: Any
) -> None:
    monkeypatch.delenv("DLH_TOKEN")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    ended = dlh("login", portal.url, "--json")
    assert (ended.code, ended.json["error"]["message"]) == (2, "There is no token.")


class Terminal(io.StringIO):
    """A standard output that is looked at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [80, 40])
def test_a_table_cuts_no_word_of_usual_length_on_a_narrow_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, state, long = Terminal(), "succeeded", "x" * 100
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    row = ("8i7y2e6dn6jg", long, state, "100 %", "balanced accuracy 0.7512", "mlp", "admin", "2026-11-23 08:01:11")
    output.table_print(("Id", "Name", "State", "Done", "Metric", "Model", "Owner", "Created"), [row])
    shown = screen.getvalue()
    assert all(word in shown for cell in row if cell != long for word in cell.split())
    assert shown.count("x") == 100


@pytest.mark.parametrize(("words", "more"), [(("data", "list"), ""), (("data", "add", "a.csv"), "again to continue")])
def test_ctrl_c_is_told(words: tuple[str, ...], more: str, dlh: Dlh, tmp_path: Path, monkeypatch: Any) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "a.csv").write_text("a\n1\n")
    for name in ("datasets", "dataset_same"):
        monkeypatch.setattr(Client, name, interrupted)
    ended = dlh(*words)
    assert ended.code == 130 and "Interrupted." in ended.err and more in ended.err


def test_a_reader_that_has_seen_enough_is_no_failure(portal: SimpleNamespace, job: Any) -> None:
    """The exit code 1 would mean that a job failed, 120 that Python could not write at its end."""
    for words in (["jobs"], ["jobs", "--json"], ["--help"]):
        gone, ours = os.pipe()
        os.close(gone)
        try:
            done = dlh_process(words, stdout=ours)
        finally:
            os.close(ours)
        assert (done.returncode, done.stderr) == (0, b""), words


def test_an_output_that_cannot_be_written_is_told_and_is_no_failed_job(portal: SimpleNamespace, job: Any) -> None:
    for words in (["jobs"], ["jobs", "--json"], ["show", "nothing", "--json"], ["--help"]):
        with Path("/dev/full").open("w") as full:
            done = dlh_process(words, stdout=full)
        told = b"no such job" if "show" in words else b"No space left on device"
        assert done.returncode == (3 if "show" in words else 2) and told in done.stderr, words
        assert b"Traceback" not in done.stderr and b"ignored" not in done.stderr, done.stderr


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_that_is_closed_ends_no_command(closed: int, portal: SimpleNamespace, job: Any) -> None:
    for words in (["jobs"], ["jobs", "--json"], ["--help"]):
        done = dlh_process(words, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(closed))
        assert (done.returncode, done.stderr) == (0, b""), words
        assert bool(done.stdout) is (closed == 2)


def dlh_process(words: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """`dlh` as people start it: with an output that is written when its buffer is full, or at the end."""
    code = "import sys; from harness.client.cli.app import main; sys.argv = ['dlh', *sys.argv[1:]]; main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, stderr=subprocess.PIPE, env=environment, check=False, **options)


def test_the_release_is_told_without_a_portal(dlh: Dlh, monkeypatch: Any) -> None:
    monkeypatch.setenv("DLH_URL", "http://127.0.0.1:1")
    assert (dlh("--version").code, dlh("--version").out) == (0, f"{release()}\n")


def test_a_field_that_is_none_leads_to_all_that_there_are(dlh: Dlh, dataset: Any, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("nonsense: 1\n")
    told = dlh("submit", "spec.yaml", "--data", dataset.pk).err
    assert "unknown field" in told and "`dlh spec schema` shows" in told


def test_a_rank_that_a_job_does_not_have_is_no_silent_one(dlh: Dlh, ended_job: Any) -> None:
    from harness.jobs.models import JobAttempt

    for more in ((), ("--follow",)):
        refused = dlh("logs", ended_job.pk, "--rank", 99, *more)
        assert (refused.code, refused.out) == (2, "")
        assert "no rank 99" in refused.err and "rank 0 alone" in refused.err
    JobAttempt.objects.create(job=ended_job, number=1, plan={}, world_size=3)
    assert "ranks 0 to 2" in dlh("logs", ended_job.pk, "--rank", 3).err
    silent = dlh("logs", ended_job.pk, "--rank", 2)
    assert (silent.code, silent.out) == (0, "") and "printed nothing" in silent.err


@pytest.mark.parametrize(
    "command", [("show",), ("watch",), ("logs",), ("logs", "--rank", 0), ("cancel",), ("download",)]
)
def test_a_job_that_is_not_there_comes_with_the_command_that_lists_those_that_are(
    dlh: Dlh, command: tuple[Any, ...]
) -> None:
    refused = dlh(command[0], "01jnosuchjob", *command[1:])
    assert refused.code == 3
    assert "dlh jobs" in refused.err.replace("\n", " ")
