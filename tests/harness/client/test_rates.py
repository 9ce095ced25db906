"""`dlh lr-find` for jobs of a running portal and for programs in a folder."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.client import ApiError, Unreachable
from tests.factory_rates import report_make, trials_report_make
from tests.harness.client.conftest import Dlh
from tests.worker.runtime.samples import program, wine


def start_by(monkeypatch: pytest.MonkeyPatch, start: Callable[..., Any]) -> None:
    """Have the API start tests so. The service stays: pages that are first read meanwhile would keep another one."""
    from harness.api.routes import rates

    monkeypatch.setattr(rates, "services", SimpleNamespace(**{**vars(rates.services), "rate_test_start": start}))


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a node answer as soon as the test is asked for."""
    from harness.api.routes import rates
    from harness.rates.tasks import rate_range_done

    def answer(**more: Any) -> None:
        start = rates.services.rate_test_start

        def at_once(**asked: Any) -> Any:
            test = start(**asked)
            rate_range_done(report_make(test.pk, **more))
            return test

        start_by(monkeypatch, at_once)

    return answer


@pytest.mark.usefixtures("portal")
def test_a_job_is_tested_and_its_centre_used(dlh: Dlh, job: Any, node_make: Any, answered: Any, tmp_path: Path) -> None:
    node_make("node-1")
    answered()
    ended = dlh("lr-find", job.pk, "--use", "centre", "--csv", str(tmp_path / "curve.csv"))
    assert ended.code == 0, ended.err
    assert "Usable peak learning rates" in ended.out and "Valley" in ended.out
    job.refresh_from_db()
    assert job.spec["training"]["learning_rate"] == job.rate_tests.get().used_rate
    assert len((tmp_path / "curve.csv").read_text().splitlines()) > 50
    shown = dlh("lr-find", job.pk, "--json")
    assert shown.json["low"] < shown.json["centre"] < shown.json["high"]


@pytest.mark.parametrize("use", ["1.2.3", "1e3", "-0.1", "0", "nan", "\u0663,5"])
@pytest.mark.usefixtures("portal")
def test_a_number_that_is_no_rate_is_refused_before_the_test(dlh: Dlh, job: Any, node_make: Any, use: str) -> None:
    node_make("node-1")
    error = dlh("lr-find", job.pk, "--use", use, "--json").json["error"]
    assert (error["code"], error["field"]) == ("bad_input", "use") and repr(use) in error["message"]
    assert "a number from 1e-12 to 100, or one of best" in error["hint"]
    assert not job.rate_tests.exists()


@pytest.mark.usefixtures("portal")
def test_trials_of_a_job_are_awaited_shown_and_used(
    dlh: Dlh, job: Any, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.api.routes import rates
    from harness.rates.tasks import rate_range_done

    node_make("node-1")
    start, expire = rates.services.rate_test_start, rates.rate_test_expire

    def begun(**asked: Any) -> Any:
        assert asked["trials"] == "always"
        test = start(**asked)
        rate_range_done(report_make(test.pk, run_s=1.0))
        return test

    def looked_at(test: Any) -> None:
        if test.state == "waiting":
            rate_range_done(trials_report_make(test.pk))
            test.refresh_from_db()
        expire(test)

    start_by(monkeypatch, begun)
    monkeypatch.setattr(rates, "rate_test_expire", looked_at)
    ended = dlh("lr-find", job.pk, "--trials", "always", "--use", "best")
    assert ended.code == 0, ended.err
    assert "Found by trials" in ended.out and "Validation loss" in ended.out
    assert "Range test on node-1…" in ended.err.splitlines(), "in a log, too"
    job.refresh_from_db()
    test = job.rate_tests.get()
    assert job.spec["training"]["learning_rate"] == test.used_rate == pytest.approx(test.trials["rate"], rel=0.01)


@pytest.mark.usefixtures("portal")
def test_a_test_that_waits_for_a_device_is_awaited_as_long_as_it_waits(
    dlh: Dlh, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.api.routes import rates
    from harness.client.cli import rates as command
    from harness.rates.models import RateTest
    from harness.rates.sending import WAIT_LIMIT_S, rate_test_expire

    clock, seen = SimpleNamespace(now_s=0.0), []

    def begun(**asked: Any) -> Any:  # as of a job that was submitted with a test before it
        return RateTest.objects.create(job=job, by=asked["user"], submit=True)

    def looked_at(test: Any) -> None:
        seen.append(clock.now_s)
        RateTest.objects.update(created_at=timezone.now() - timedelta(seconds=clock.now_s))
        test.refresh_from_db()
        rate_test_expire(test)

    def slept(_: float) -> None:
        clock.now_s += 100.0

    start_by(monkeypatch, begun)
    monkeypatch.setattr(rates, "rate_test_expire", looked_at)
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: clock.now_s, sleep=slept))
    ended = dlh("lr-find", job.pk)
    assert ended.code == 1 and "No device was idle for it in time" in ended.err
    assert ended.err.startswith("Waiting for an idle device…\n")
    assert seen[-1] >= WAIT_LIMIT_S > command._WAIT_S


@pytest.mark.parametrize(
    ("run_s", "wish", "words", "remedy"),
    [
        (100.0, "auto", "longer than tests do by themselves", True),
        (3600.0, "auto", "too long on this device", False),
        (3600.0, "always", "too long on this device", False),
        (None, "always", "did not tell how long the run would take", False),
    ],
)
@pytest.mark.usefixtures("portal")
def test_why_there_are_no_trials_is_told_and_a_remedy_only_where_it_is_one(
    dlh: Dlh, job: Any, node_make: Any, answered: Any, run_s: float | None, wish: str, words: str, remedy: bool
) -> None:
    node_make("node-1")
    answered(run_s=run_s)
    ended = dlh("lr-find", job.pk, "--trials", wish)
    said = " ".join(ended.err.split())
    assert ended.code == 0 and "No trials were made." in said and words in said
    assert ("--trials always makes them" in said) is remedy


@pytest.mark.usefixtures("portal")
def test_what_was_found_is_shown_though_the_rate_that_was_to_be_used_is_not_among_it(
    dlh: Dlh, job: Any, node_make: Any, answered: Any
) -> None:
    node_make("node-1")
    answered()
    ended = dlh("lr-find", job.pk, "--use", "trials")
    assert ended.code != 0 and "reports no rate 'trials'" in " ".join(ended.err.split())
    assert "Usable peak learning rates" in ended.out
    assert job.rate_tests.get().used_rate is None


@pytest.mark.usefixtures("portal")
def test_what_was_found_is_written_and_told_to_programs_though_its_rate_cannot_be_used(
    dlh: Dlh, job: Any, node_make: Any, answered: Any, tmp_path: Path
) -> None:
    node_make("node-1")
    answered()
    ended = dlh("lr-find", job.pk, "--use", "trials", "--csv", str(tmp_path / "curve.csv"), "--json")
    assert ended.code == 2 and "reports no rate 'trials'" in ended.json["error"]["message"]
    found = ended.json["error"]["details"]["found"]
    assert found["low"] < found["centre"] < found["high"]
    assert len((tmp_path / "curve.csv").read_text().splitlines()) > 50


@pytest.mark.usefixtures("portal")
def test_what_was_found_is_shown_though_nobody_answers_any_more(
    dlh: Dlh, job: Any, node_make: Any, answered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import rates

    def gone(*_: Any) -> None:
        raise Unreachable("Nobody answers.")

    node_make("node-1")
    answered()
    monkeypatch.setattr(rates, "_use", gone)
    ended = dlh("lr-find", job.pk, "--use", "centre")
    assert ended.code == 4 and "Nobody answers." in ended.err
    assert "Usable peak learning rates" in ended.out


@pytest.mark.usefixtures("portal")
def test_what_is_wrong_with_a_spec_is_told_beside_what_was_found(
    dlh: Dlh, job: Any, node_make: Any, answered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import rates

    wrong = [{"field": "training.batch_size", "message": "is not a whole number"}]

    def refuse(*_: Any) -> None:
        raise ApiError(422, {"code": "invalid", "message": "The spec is wrong.", "details": wrong})

    node_make("node-1")
    answered()
    monkeypatch.setattr(rates, "_use", refuse)
    details = dlh("lr-find", job.pk, "--use", "centre", "--json").json["error"]["details"]
    assert details["problems"] == wrong and details["found"]["centre"] > 0


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.usefixtures("portal")
def test_what_was_found_is_told_though_its_file_cannot_be_written_any_more(
    dlh: Dlh, job: Any, node_make: Any, answered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str]
) -> None:
    from harness.client.cli import rates

    node_make("node-1")
    answered()
    monkeypatch.setattr(rates, "_csv_check", lambda _path: None)
    ended = dlh("lr-find", job.pk, "--csv", str(tmp_path / "gone" / "curve.csv"), *form)
    assert ended.code == 2
    if form:
        assert "was not written" in ended.json["error"]["message"]
        assert ended.json["error"]["details"]["found"]["centre"] > 0
    else:
        assert "was not written: No such file" in " ".join(ended.err.split())
        assert "Usable peak learning rates" in ended.out


@pytest.mark.usefixtures("portal")
def test_a_file_that_may_not_be_written_is_refused_before_the_test(
    dlh: Dlh, job: Any, node_make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the system's answer is made up."""
    node_make("node-1")
    monkeypatch.setattr("os.access", lambda place, _mode: Path(place) != tmp_path)
    ended = dlh("lr-find", job.pk, "--csv", str(tmp_path / "curve.csv"))
    assert ended.code == 2 and "you may not write to" in " ".join(ended.err.split())
    assert not job.rate_tests.exists()


@pytest.mark.parametrize(("place", "words"), [("nowhere/curve.csv", "there is no folder"), (".", "it is a folder")])
@pytest.mark.usefixtures("portal")
def test_a_file_that_cannot_be_written_is_refused_before_the_test(
    dlh: Dlh, job: Any, node_make: Any, tmp_path: Path, place: str, words: str
) -> None:
    node_make("node-1")
    ended = dlh("lr-find", job.pk, "--csv", str(tmp_path / place))
    assert ended.code == 2 and words in " ".join(ended.err.split())
    assert not job.rate_tests.exists()


@pytest.mark.usefixtures("portal")
def test_a_test_that_says_nothing_ends_with_its_reason(dlh: Dlh, job: Any, node_make: Any, answered: Any) -> None:
    node_make("node-1")
    answered(problem={"code": "program_error", "message": "model.py, line 3: no", "hint": "Correct it."})
    ended = dlh("lr-find", job.pk)
    assert ended.code == 1
    assert "model.py, line 3: no" in ended.err and "Correct it." in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nosuchjob",),
        ("{job}", "--low", "-1"),
        ("{job}", "--device", "tpu"),
        ("{folder}",),
        ("{job}", "--trials", "often"),
        ("{folder}/nowhere",),
        ("nowhere", "--data", "{folder}"),
    ],
)
@pytest.mark.usefixtures("portal")
def test_bad_input_ends_with_a_code(dlh: Dlh, job: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    ended = dlh("lr-find", *(part.format(job=job.pk, folder=folder) for part in arguments))
    assert ended.code in (2, 3)
    assert ended.err and ("nowhere" not in arguments[0] or "There is no folder" in ended.err)


def test_a_range_beyond_any_sensible_rate_is_refused_by_its_option(dlh: Dlh, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    ended = dlh("lr-find", str(tmp_path), "--high", "1e30")
    assert ended.code == 2
    assert "--high must be between 1e-12 and 100." in ended.err


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--low", "20"), "--low 20 must be at most a hundredth of --high 10.", "Give --low 0.1 or less."),
        (("--device", "tpu"), "There is no device 'tpu' for --device.", "Use cpu, cuda"),
        (("--use", "best"), "--use is for jobs.", "training.learning_rate"),
        ((), "needs the program's data: there is no folder", "--with-data"),
    ],
)
def test_what_a_folder_cannot_be_tested_with_is_told_before_torch_is_loaded(
    dlh: Dlh, tmp_path: Path, options: tuple[str, ...], message: str, hint: str
) -> None:
    for name in ("train.py", "spec.yaml"):
        (tmp_path / name).touch()
    ended = dlh("lr-find", str(tmp_path), *options, "--json")
    assert ended.code == 2, ended.err
    assert message in ended.json["error"]["message"] and hint in ended.json["error"]["hint"]


def test_a_folder_without_its_spec_is_told_where_to_get_one(dlh: Dlh, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    ended = dlh("lr-find", str(tmp_path))
    assert ended.code == 2 and "does not contain a spec.yaml" in ended.err and "`dlh code JOB" in ended.err


@pytest.mark.usefixtures("portal")
def test_a_name_that_is_neither_a_job_nor_a_folder_is_told_as_neither(dlh: Dlh) -> None:
    ended = dlh("lr-find", "wine-program")
    assert ended.code == 3 and "There is no folder wine-program here, either." in " ".join(ended.err.split())


@pytest.mark.usefixtures("portal")
@pytest.mark.parametrize(
    ("target", "is_there", "said"),
    [
        ("spec.yaml", False, "There is no file spec.yaml."),
        ("./spec.yaml", False, "There is no file ./spec.yaml."),
        ("spec.yaml", True, "spec.yaml is a file: a learning rate is tested with a job or a program."),
        ("nowhere/program", False, "There is no folder nowhere/program."),
    ],
)
def test_the_name_of_a_file_is_not_taken_for_a_job(
    dlh: Dlh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, is_there: bool, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if is_there:
        Path(target).touch()
    ended = dlh("lr-find", target, "--json")
    error = ended.json["error"]
    assert dlh("lr-find", target, "--use", "best", "--json").json["error"] == error
    assert (ended.code, error["message"]) == (2, said)
    assert error["hint"] == "Name a folder with train.py, or the id of a job."


def test_a_folder_is_tested_here_without_a_portal(dlh: Dlh, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    program(folder, wine(folder / "data"), model={"family": "mlp"}, training={"epochs": 3})
    table = tmp_path / "curve.csv"
    ended = dlh("lr-find", str(folder), "--trials", "always", "--csv", str(table), "--json")
    assert ended.code == 0, ended.err
    found = ended.json
    assert found["low"] < found["centre"] < found["high"]
    assert found["optimizer"] == "AdamW"
    assert found["trials"]["state"] == "done", found["trials"]
    assert found["best"] == found["trials"]["rate"] == found["alternatives"]["trials"]
    assert len(found["trials"]["done"]) >= 6 and found["trials"]["expected_s"] > 0
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == len(found["curve"]) > 30
    shown = dlh("lr-find", str(folder), "--trials", "never")
    assert "Valley" in shown.out and "Found by trials" not in shown.out
    refused = dlh("lr-find", str(folder), "--data", str(tmp_path / "nowhere"))
    assert refused.code == 2 and "needs the program's data: there is no folder" in refused.err


def test_a_program_that_writes_many_errors_is_waited_for_and_told_by_the_last(dlh: Dlh, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    program(folder, wine(folder / "data"), model={"family": "mlp"}, training={"epochs": 3})
    more_than_a_pipe_holds = "sys.stderr.write('a warning\\n' * 200_000 + 'the last word\\n')"
    (folder / "train.py").write_text(f"import os\nimport sys\n\n{more_than_a_pipe_holds}\nos._exit(3)\n")
    ended = dlh("lr-find", str(folder))
    assert ended.code == 1
    words = " ".join(ended.err.split())
    assert "did not run here: the last word" in words
    assert "By hand: python -P -m worker.runtime" in words
