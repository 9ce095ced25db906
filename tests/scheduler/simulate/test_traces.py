"""Readers of traces and tables: three forms, plain or packed, and errors that say where."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

from scheduler.simulate.pool import SimPool
from scheduler.simulate.power import Power
from scheduler.simulate.run import sim_jobs
from scheduler.simulate.tables import Tables, options_of
from scheduler.simulate.trace_rows import TraceError
from scheduler.simulate.traces import TraceJob, Way, read_trace

POWER = Power(idle_w=55.0, busy_w=400.0)
FLOW = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
PHILLY = "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration\n"


def written(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_it_reads_the_public_form_in_order_of_submission(tmp_path):
    text = FLOW + "b,200,50,vgg16,900,64,2,300\na,100,10,bert,400,64,1,250\n"
    jobs = read_trace(written(tmp_path, text))
    assert [job.job_id for job in jobs] == ["a", "b"]
    assert jobs[1] == TraceJob(
        job_id="b",
        submitted_s=200,
        deadline_s=900,
        model="vgg16",
        batch_size=64,
        iterations=50,
        count=2,
        run_s=300,
    )


def test_it_reads_the_philly_columns_out_of_a_packed_file(tmp_path):
    jobs = read_trace(written(tmp_path, PHILLY + "0,5,7,vgg16,99,256,4,50,60,8\n", "philly.csv.gz"))
    assert (jobs[0].submitted_s, jobs[0].iterations, jobs[0].deadline_s, jobs[0].run_s) == (5, 7, 99, 50)


def test_it_reads_our_own_history_as_csv_and_as_json(tmp_path):
    rows = [{"job_id": "x", "submitted_s": 3.5, "count": 2, "run_s": 60, "kind": "cpu", "project": "p", "power_w": 9}]
    from_json = read_trace(written(tmp_path, json.dumps({"jobs": rows}), "history.json"))
    from_csv = read_trace(
        written(tmp_path, "job_id,submitted_s,deadline_s,count,run_s,kind,project,power_w\nx,3.5,,2,60,cpu,p,9\n")
    )
    assert from_json == from_csv
    assert from_csv[0].deadline_s is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,x,10,bert,400,64,1,250", "row 2, column submission_time: 'x' is not a number"),
        ("a,100,nan,bert,400,64,1,250", "row 2, column num_iteration: nan is not finite"),
        ("a,100,10,bert,400,64,0,250", "row 2, column num_gpu: 0 is below 1"),
        ("a,100,10,,400,64,1,250", "row 2, column model_name: nothing is there"),
        ("a,100,10,bert,400,64.5,1,250", "row 2, column batch_size: 64.5 is not a whole number"),
        ("a,100,10,bert,400,64,1,250,9", "row 2, column duration: more cells than columns"),
        ("a,1,1,bert,4,64,1,2\na,1,1,bert,4,64,1,2", "row 3, column job_id: a appears twice"),
        ("a,-1,10,bert,400,64,1,250", "row 2, column submission_time: -1 is below 0"),
        ("a,1,10,bert,-400,64,1,250", "row 2, column deadline: -400 is below 0"),
        ("a,1,1,bert,4,64,1,2\n\n\nb,1,1,bert,4,64,1,inf", "row 5, column duration: inf is not finite"),
        ("a,1700000000000000000,10,bert,400,64,1,250", "row 2, column submission_time: .* times are in seconds"),
        ("a,1,10,bert,1700000000000,64,1,250", "row 2, column deadline: .* times are in seconds"),
        ("a,1,10,bert,400,64,1,1e300", "row 2, column duration: .* times are in seconds"),
        ("a,1,1e300,bert,400,64,1,250", "row 2, column num_iteration: 1e300 is above 1e"),
    ],
)
def test_an_error_names_row_and_column(tmp_path, row, words):
    with pytest.raises(TraceError, match=words):
        read_trace(written(tmp_path, FLOW + row + "\n"))


@pytest.mark.parametrize(
    ("columns", "lack"),
    [
        ("a,b", "columns count, job_id, run_s, submitted_s of a job history"),
        ("job_id,submitted_s,model_name,run_s", "column count of a job history"),
        (
            "job_id,model_name,submission_time,num_gpu",
            "columns batch_size, deadline, duration, num_iteration of a trace of ElasticFlow",
        ),
        (
            "job_id,model_name,submit_time,num_gpu,duration",
            "columns batch_size, ddl, real_duration, real_iteration of a trace of Philly",
        ),
    ],
)
def test_a_trace_is_told_the_columns_that_it_lacks_of_the_form_that_it_is_nearest_to(tmp_path, columns, lack):
    row = ",".join("1" for _ in columns.split(","))
    with pytest.raises(TraceError) as refused:
        read_trace(written(tmp_path, f"{columns}\n{row}\n"))
    assert str(refused.value) == f"trace.csv, row 1: lacks the {lack}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        (FLOW, "has no jobs"),
        ("a,b\n1,2\n", "row 1: lacks the columns"),
        (FLOW.replace(",", ";") + "a;1;1;bert;4;64;1;2\n", "row 1: a semicolon stands between its columns"),
        (FLOW.replace(",", "\t") + "a\t1\n", "row 1: a tab stands between its columns"),
        ("[1]", "expected an object"),
        ("[{}]", "row 1: lacks the columns"),
        ('{"jobs": [{}]}', "row 1: lacks the columns"),
        ("[" * 100_000, "nested too deep"),
        (f"[{'9' * 5000}]", "a number in it is too long"),
        ('[{"job_id": ["a"], "submitted_s": 0, "count": 1, "run_s": 60}]', "row 1, column job_id: expected a text"),
        (f"duration,{FLOW}7,a,1,1,bert,4,64,1,2\n", "row 1: a column appears twice: duration"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path, text, words):
    with pytest.raises(TraceError, match=words):
        read_trace(written(tmp_path, text))


def test_a_cell_that_is_no_cell_is_named(tmp_path, monkeypatch):
    was = csv.field_size_limit()
    monkeypatch.setattr("scheduler.simulate.trace_rows._CELL_LETTERS_MAX", 1_000)
    try:
        with pytest.raises(TraceError, match="row 3: not CSV: field larger than field limit"):
            read_trace(written(tmp_path, FLOW + f"a,1,1,bert,4,64,1,2\nb,1,1,{'x' * 2_000},4,64,1,2\n"))
    finally:
        csv.field_size_limit(was)


def test_spaces_around_the_names_of_columns_do_not_count(tmp_path):
    (job,) = read_trace(written(tmp_path, FLOW.replace(",", " , ") + "a,1,1,bert,4,64,1,2\n"))
    assert (job.job_id, job.run_s) == ("a", 2.0)


def test_a_file_that_a_spreadsheet_marked_as_unicode_is_read(tmp_path):
    jobs = read_trace(written(tmp_path, "\ufeff" + FLOW + "a,100,10,bert,400,64,1,250\n"))
    assert jobs[0].job_id == "a"


WAYS = [{"kind": "cpu", "count": 2, "run_s": 60.0, "model": "X"}, {"kind": "cpu", "count": 4, "run_s": 40.0}]


def test_what_the_estimator_told_of_a_job_is_read_from_text_and_from_json(tmp_path):
    row = {"job_id": "x", "submitted_s": 3, "count": 2, "run_s": 60}
    from_json = read_trace(written(tmp_path, json.dumps([row | {"ways": WAYS}]), "history.json"))
    cell = json.dumps(WAYS).replace('"', '""')
    from_csv = read_trace(written(tmp_path, f'job_id,submitted_s,count,run_s,ways\nx,3,2,60,"{cell}"\ny,4,2,60,\n'))
    assert from_json[0].ways == from_csv[0].ways == tuple(Way(**way) for way in WAYS)
    assert from_csv[1].ways == ()


def test_a_cell_may_hold_a_thousand_ways(tmp_path):
    csv.field_size_limit(131_072)  # as a new process has it
    cell = json.dumps(WAYS * 1000).replace('"', '""')
    (job,) = read_trace(written(tmp_path, f'job_id,submitted_s,count,run_s,ways\nx,3,2,60,"{cell}"\n'))
    assert len(job.ways) == 1000 * len(WAYS)


@pytest.mark.parametrize(
    "ways",
    [
        "no list",
        "{}",
        "[1]",
        "[" * 100_000,
        '[{"kind": "cpu"}]',
        '[{"kind":"cpu","count":1,"run_s":NaN}]',
        f'[{{"kind":"cpu","count":1,"run_s":1{"0" * 400}}}]',
        '[{"kind":"cpu","count":1,"run_s":9,"model":5}]',
    ],
)
def test_ways_that_are_none_are_refused_with_their_row(tmp_path, ways):
    cell = ways.replace('"', '""')
    with pytest.raises(TraceError, match="row 2, column ways: "):
        read_trace(written(tmp_path, f'job_id,submitted_s,count,run_s,ways\nx,3,2,60,"{cell}"\n'))


def test_a_file_cut_short_is_refused(tmp_path):
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(FLOW.encode() * 50)[:40])
    with pytest.raises(TraceError, match="cut short"):
        read_trace(path)


def test_widths_come_from_the_table_without_zeros_and_not_above_the_batch(tmp_path):
    (tmp_path / "net.csv").write_text("global_batch_size,1,2,4,8\n4,1.0,1.8,3.0,5.0\n64,2,0,,7\n", "utf-8")
    tables = Tables.read(tmp_path)
    job = TraceJob(job_id="a", submitted_s=0, model="net", batch_size=4, iterations=10, count=2)
    options = options_of(job, tables, 8, POWER)
    assert [option.count for option in options] == [2, 1, 4], "what its owner asked for comes first"
    assert options[0].rate_per_s == pytest.approx(0.18)
    assert tables.rates(TraceJob(job_id="b", submitted_s=0, model="net", batch_size=64)) == {1: 2.0, 8: 7.0}


def test_a_model_without_a_table_is_refused_by_name(tmp_path):
    (tmp_path / "net.csv").write_text("global_batch_size,1\n4,1.0\n", "utf-8")
    job = TraceJob(job_id="a", submitted_s=0, model="net", batch_size=8, iterations=1)
    with pytest.raises(TraceError, match=r"no throughput of net at batch 8 \(batches \[4\]\)"):
        options_of(job, Tables.read(tmp_path), 8, POWER)


def test_a_row_that_no_table_knows_is_named(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "net.csv").write_text("global_batch_size,1\n4,1.0\n", "utf-8")
    trace = read_trace(written(tmp_path, FLOW + "a,1,10,net,400,4,1,250\n\nb,2,10,net,400,8,1,250\n", "jobs.csv.gz"))
    with pytest.raises(TraceError, match=r"jobs\.csv\.gz, row 4, column batch_size: no throughput of net at batch 8"):
        sim_jobs(trace, Tables.read(tmp_path / "tables"), SimPool.parse("1x8"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("global_batch_size,1,0\n4,1.0,2\n", "row 1, column 3: '0' is no number of devices"),
        ("global_batch_size,one\n4,1.0\n", "row 1, column 2: 'one' is no number of devices"),
        ("global_batch_size,1\n0,1.0\n", "row 2, column global_batch_size: '0' is no number of rows"),
        ("", "row 1: expected global_batch_size and device counts"),
        ("global_batch_size,1,2,1\n4,1.0,2,3\n", "row 1: a number of devices appears twice"),
        ("global_batch_size,1\n4,1.0\n8,2.0\n4,3.0\n", "row 4, column global_batch_size: 4 appears twice"),
        ("global_batch_size,1\n4,1.0,2.0\n", "row 2: more cells than columns"),
    ],
)
def test_a_table_with_a_bad_width_or_batch_is_refused_with_file_row_and_column(tmp_path, text, words):
    (tmp_path / "net.csv").write_text(text, "utf-8")
    with pytest.raises(TraceError, match=rf"net\.csv, {words}"):
        Tables.read(tmp_path)


def test_two_tables_of_one_model_are_refused(tmp_path):
    for name in ("net.csv", "net.csv.gz"):
        written(tmp_path, "global_batch_size,1\n4,1.0\n", name)
    with pytest.raises(TraceError, match="two tables of net"):
        Tables.read(tmp_path)


def test_a_table_with_a_bad_cell_is_refused_with_its_row(tmp_path):
    (tmp_path / "net.csv").write_text("global_batch_size,1,2\n4,1.0,-2\n", "utf-8")
    with pytest.raises(TraceError, match=r"net\.csv, row 2: column 2: -2 is not a rate"):
        Tables.read(tmp_path)


def test_a_table_whose_lines_end_as_on_old_machines_is_read(tmp_path):
    written(tmp_path, "global_batch_size,1,2\r64,1.5,2.5\r", "net.csv")
    assert Tables.read(tmp_path).rates(TraceJob(job_id="a", submitted_s=0, model="net", batch_size=64)) == {
        1: 1.5,
        2: 2.5,
    }


def test_a_table_that_is_no_csv_is_refused_with_its_row(tmp_path):
    written(tmp_path, f'global_batch_size,1\n64,"{"1" * 200}"\n', "net.csv")
    most = csv.field_size_limit(100)
    try:
        with pytest.raises(TraceError, match=r"net\.csv, row 2: not CSV: field larger"):
            Tables.read(tmp_path)
    finally:
        csv.field_size_limit(most)
