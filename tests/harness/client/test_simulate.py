"""`dlh simulate` works without a portal, says what it goes by, and `dlh --help` loads none of the scheduler for it."""

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
        (["--pool", "2x8:A100+1x4:T4"], "'2x8:A100+1x4:T4' is not a pool"),
        (["--policy", "luck"], "no policy is called"),
        (["--slot-s", "0"], "slot"),
        (["--rescale-s", "nan"], "--rescale-s is nan"),
        (["--estimator"], "no column ways"),
        (["--pool", "1x8:cpu"], "3 of 3 jobs ask for devices of the kind cuda"),
        (["--tables", "/nowhere"], "no throughput tables"),
        (["--quota", "red=4"], "history.csv, column project: there is no such column"),
        (["--quota", "red=x"], "--quota red=x: 'x' is no number of devices"),
        (["--power", "/nowhere.json"], "nowhere.json cannot be read"),
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


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--policy", "deadline_enrgy"], "Did you mean deadline_energy"),
        (["--policy", "zzz"], "`dlh simulate --help`"),
        (["--pool", "many"], "`dlh simulate --help`"),
        (["--pool", "1x8:cpu"], "Give another --pool"),
        (["--estimator"], "`dlh pool history FILE.json`"),
        (["--power", "/nowhere.json"], "docs/scheduling.md"),
    ],
)
def test_each_error_has_a_short_hint_of_its_own(trace, capsys, arguments, hint):
    assert run(["simulate", str(trace), *arguments]) == 2
    told = " ".join(capsys.readouterr().err.split())
    hints = ("Did you mean", "`dlh simulate --help`", "Give another --pool", "`dlh pool history", "docs/scheduling.md")
    assert hint in told and sum(other in told for other in hints) == 1, told


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("history.csv", "would replace the trace"),
        ("linked.html", "would replace the trace"),
        ("data.csv", "data.csv is not the name of one"),
        ("page", "such as page.html"),
        ("nowhere/page.html", "there is no folder"),
        ("folder.html", "it is a folder"),
    ],
)
def test_a_report_replaces_no_data_and_is_refused_before_anything_is_replayed(
    trace, tmp_path, monkeypatch, capsys, page, words
):
    from harness.client.cli import simulate

    monkeypatch.setattr(simulate, "_replays", lambda given: pytest.fail("replayed"))
    (tmp_path / "data.csv").write_text("mine", "utf-8")
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "linked.html").symlink_to(trace)
    assert run(["simulate", str(trace), "--report", str(tmp_path / page)]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert (trace.read_text("utf-8"), (tmp_path / "data.csv").read_text("utf-8")) == (TRACE, "mine")


def test_a_report_of_before_is_replaced(trace, tmp_path):
    page = tmp_path / "report.HTM"
    page.write_text("of before", "utf-8")
    assert run(["simulate", str(trace), "--pool", "1x4", "--report", str(page)]) == 0
    assert "<svg" in page.read_text("utf-8")


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


FLOW = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration,project\n"


@pytest.fixture
def flow(tmp_path):
    """A public trace of which the tables know one of two models."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "net.csv").write_text("global_batch_size,1,2\n64,1.0,1.9\n", "utf-8")
    path = tmp_path / "jobs.csv"
    path.write_text(f"{FLOW}a,0,100,net,900,64,1,100,red\nb,5,100,gpt,900,64,1,100,blue\n", "utf-8")
    return [str(path), "--tables", str(tmp_path / "tables")]


def test_a_model_of_which_nothing_is_known_is_refused_by_name_or_left_out_if_asked_for(flow, capsys):
    assert run(["simulate", *flow]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Nothing says how fast 1 of 2 jobs run there: gpt, of which there is no table" in said
    assert "jobs.csv, row 3" in said and "--skip-unknown" in said
    assert run(["simulate", *flow, "--skip-unknown", "--json"]) == 0
    left = capsys.readouterr()
    assert json.loads(left.out)[0]["jobs"] == 1
    assert "1 of 2 jobs are left out" in left.err.replace("\n", " ")
    assert run(["simulate", *flow, "--skip-unknown", "--quota", "blue=1"]) == 2, "all jobs of blue are left out"
    assert "that is replayed is of the project blue; they are of red" in " ".join(capsys.readouterr().err.split())


def test_where_no_job_would_be_left_nothing_is_left_out(flow, capsys):
    assert run(["simulate", flow[0], "--skip-unknown"]) == 2
    said = capsys.readouterr().err
    assert "2 of 2 jobs" in said and "--tables" in said and "leave these jobs out" not in said


def test_quotas_bind_projects_and_each_is_told_of(flow, tmp_path, capsys):
    page = tmp_path / "page.html"
    asked = ["simulate", *flow, "--skip-unknown", "--policy", "edf_widest", "--quota", "red=1", "--report", str(page)]
    assert run(asked) == 0
    shown = capsys.readouterr()
    assert "By project" in shown.out and "red" in shown.out
    assert "Quotas: red 1 cuda." in shown.err
    assert "edf_widest lends nothing" in shown.err.replace("\n", " ")
    assert "By project" in page.read_text("utf-8") and "Quotas: red 1 cuda." in page.read_text("utf-8")
    assert run([*asked[: asked.index("--quota")], "--quota", "red=1,no-borrow"]) == 0
    assert "lends" not in capsys.readouterr().err, "no project may borrow"


def test_energy_says_whose_watts_it_rests_on(trace, tmp_path, capsys):
    watts = tmp_path / "power.json"
    watts.write_text('{"A100": {"idle_w": 10, "busy_w": 100, "basis": "measured"}}', "utf-8")
    assert run(["simulate", str(trace), "--pool", "1x4:A100", "--power", str(watts)]) == 0
    shown = capsys.readouterr()
    assert "kWh (measured " in shown.out and "A100 draws 100 W held and 10 W idle (measured: power.json" in " ".join(
        shown.err.split()
    )


def test_a_table_of_watts_of_other_devices_is_said_to_count_nothing(trace, tmp_path, capsys):
    watts = tmp_path / "power.json"
    watts.write_text('{"H100": {"idle_w": 10, "busy_w": 100}}', "utf-8")
    assert run(["simulate", str(trace), "--pool", "1x4:A100", "--power", str(watts)]) == 0
    assert "power.json has watts of none of these devices" in " ".join(capsys.readouterr().err.split())


def test_a_history_carries_quotas_and_watts_which_count_unless_others_are_given(tmp_path, capsys):
    job = {"submitted_s": 0, "count": 1, "run_s": 600, "kind": "cpu", "project": "red"}
    quota = {"project": "red", "device_kind": "cpu", "devices": 1, "may_borrow": False}
    watts = {"kind": "cpu", "model": "Xeon", "idle_w": 1, "busy_w": 9, "basis": "measured", "source": "a calibration"}
    path = tmp_path / "history.json"
    path.write_text(
        json.dumps({"jobs": [{"job_id": name, **job} for name in "ab"], "quotas": [quota], "power": [watts]})
    )

    def found(*arguments):
        asked = ["simulate", str(path), "--pool", "1x2:cpu", "--policy", "fifo", "--no-overheads", "--json"]
        assert run([*asked, *arguments]) == 0
        shown = capsys.readouterr()
        return json.loads(shown.out)[0], " ".join(shown.err.split())

    kept, said = found()
    assert kept["makespan_s"] == 1200.0 and kept["energy_kwh"] == pytest.approx(1200 * (9 + 1) / 3.6e6)
    assert "Quotas: red 1 cpu without borrowing (1 quota of history.json" in said
    assert "cpu draws 9 W held and 1 W idle (measured: history.json, Xeon: a calibration)" in said
    assert found("--no-quotas")[0]["makespan_s"] == found("--quota", "red=2")[0]["makespan_s"] == 600.0
    other = tmp_path / "other.json"
    other.write_text('{"cpu": {"idle_w": 2, "busy_w": 5}}', "utf-8")
    assert found("--power", str(other))[0]["energy_basis"] == "assumed"


def test_a_history_without_them_says_that_it_carries_neither(trace, capsys):
    assert run(["simulate", str(trace), "--pool", "1x4"]) == 0
    assert "history.csv carries neither quotas nor watts" in capsys.readouterr().err.replace("\n", " ")
    bare = trace.with_name("bare.json")
    bare.write_text('{"jobs": [{"job_id": "a", "submitted_s": 0, "count": 1, "run_s": 60}]}', "utf-8")
    assert run(["simulate", str(bare), "--pool", "1x4"]) == 0
    assert "bare.json carries neither quotas nor watts" in capsys.readouterr().err.replace("\n", " ")


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
