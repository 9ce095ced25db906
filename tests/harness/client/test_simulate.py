"""`dlh simulate` works without a portal, and `dlh --help` loads none of the scheduler for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.client.cli.app import run

TRACE = "job_id,submitted_s,deadline_s,count,run_s\na,0,400,1,300\nb,10,450,2,200\nc,20,,1,50\n"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text(TRACE, "utf-8")
    return path


def test_it_prints_figures_of_each_policy_and_writes_a_report(trace, tmp_path, capsys):
    page = tmp_path / "report.html"
    policies = ("--policy", "fifo", "--policy", "deadline_energy")
    code = run(["simulate", str(trace), "--pool", "1x4", *policies, "--no-overheads", "--report", str(page), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [item["policy"] for item in found] == ["fifo", "deadline_energy"]
    assert all(item["finished"] == 3 and item["satisfaction"] == 1.0 for item in found)
    assert page.read_text("utf-8").count("<svg") == 5


def test_people_get_a_table(trace, capsys):
    assert run(["simulate", str(trace), "--pool", "1x4"]) == 0
    out = capsys.readouterr().out
    assert "Deadline satisfaction" in out and "deadline_energy" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pool", "many"], "is not a pool"),
        (["--policy", "luck"], "no policy is called"),
        (["--slot-s", "0"], "slot"),
        (["--rescale-s", "nan"], "--rescale-s is nan"),
        (["--estimator"], "no column ways"),
        (["--pool", "1x8:cpu"], "3 of 3 jobs ask for devices of the kind cuda"),
        (["--tables", "/nowhere"], "no throughput tables"),
    ],
)
def test_bad_input_is_said_in_words(trace, capsys, arguments, words):
    assert run(["simulate", str(trace), *arguments]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--policy", "luck"], "no policy is called"), (["--slot-s", "0"], "--slot-s is 0")]
)
def test_a_wrong_option_is_said_before_a_wrong_table(trace, tmp_path, capsys, arguments, words):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "net.csv").write_text("global_batch_size,0\n4,1.0\n", "utf-8")
    asked = ["simulate", str(trace), "--tables", str(tmp_path / "tables")]
    assert run(asked) == 2
    assert "net.csv, row 1, column 2" in capsys.readouterr().err.replace("\n", " ")
    assert run([*asked, *arguments]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")


def test_jobs_that_no_device_of_the_pool_could_run_are_told_of(tmp_path, capsys):
    path = tmp_path / "history.csv"
    path.write_text("job_id,submitted_s,count,run_s,kind\na,0,1,30,cpu\nb,0,9,30,cuda\nc,0,1,30,cuda\n", "utf-8")
    page = tmp_path / "report.html"
    assert run(["simulate", str(path), "--pool", "1x8", "--report", str(page)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "1 of 3 jobs ask for devices of the kind cpu, of which the pool has none." in said
    assert "1 of 3 jobs are too large for the pool." in said
    assert "too large for the pool" in page.read_text("utf-8")


def test_a_change_of_devices_costs_what_is_asked_for(trace, capsys):
    def jct_s(*arguments):
        assert run(["simulate", str(trace), "--pool", "1x4", "--no-overheads", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)[0]["jct_mean_s"]

    assert jct_s("--rescale-s", "30") >= jct_s() + 30


def test_with_the_estimator_a_job_takes_devices_that_it_never_had(tmp_path, capsys):
    ways = [{"kind": "cpu", "count": 1, "run_s": 200}, {"kind": "cpu", "count": 4, "run_s": 50}]
    rows = [{"job_id": "a", "submitted_s": 0, "deadline_s": 200, "kind": "cpu", "count": 1, "run_s": 400, "ways": ways}]
    path = tmp_path / "history.json"
    path.write_text(json.dumps(rows), "utf-8")
    asked = ["simulate", str(path), "--pool", "1x4:cpu", "--no-overheads", "--json"]

    def satisfied(*arguments):
        assert run([*asked, *arguments]) == 0
        return json.loads(capsys.readouterr().out)[0]["satisfaction"]

    assert (satisfied(), satisfied("--estimator")) == (0.0, 1.0)


def test_a_bad_row_is_named(tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text(TRACE.replace("10,450", "ten,450"), "utf-8")
    assert run(["simulate", str(path)]) == 2
    assert "row 3, column submitted_s" in capsys.readouterr().err.replace("\n", " ")


def test_help_does_not_load_the_scheduler():
    code = (
        "import harness.client.cli.app, sys; sys.exit(any(name.split('.')[0] == 'scheduler' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
