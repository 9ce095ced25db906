"""Quotas of a replay: how they are given, what they bind, and how each project fared."""

from __future__ import annotations

import json

import pytest

from scheduler.simulate.metrics import measure
from scheduler.simulate.pool import SimPool
from scheduler.simulate.power import SHIPPED
from scheduler.simulate.quotas import limit_parse, limits_of, quotas_of
from scheduler.simulate.report import report_html
from scheduler.simulate.run import misfits, sim_jobs, simulate
from scheduler.simulate.trace_rows import TraceError
from scheduler.simulate.traces import trace_read
from scheduler.types import Quota
from tests.scheduler.policies.test_queueing import decide
from tests.scheduler.pools import hard_quota, job, node, pool, runs, way

HEAD = "job_id,submitted_s,deadline_s,count,run_s,project\n"
BUSY = HEAD + "".join(f"r{number},0,,1,600,red\n" for number in range(4)) + "b0,0,,1,600,blue\n"
KEPT = [
    {"project": "red", "device_kind": "cuda", "devices": 1, "may_borrow": False},
    {"project": "blue", "device_kind": "cuda", "devices": 3, "may_borrow": True},
    {"project": "gone", "device_kind": "cuda", "devices": 2, "may_borrow": True},
]


def written(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return trace_read(path)


def bound(trace, *given, pool="1x4", kept=()):
    place = SimPool.parse(pool)
    quotas, said = quotas_of(trace, {part.kind for part in place.parts}, [limit_parse(one) for one in given], kept)
    return place.bound(quotas=quotas, table=SHIPPED), said


@pytest.mark.parametrize("policy", ["fifo", "fair_share", "edf", "edf_widest", "deadline_energy"])
def test_a_project_holds_no_more_than_a_quota_that_is_never_exceeded(tmp_path, policy):
    trace = written(tmp_path, BUSY)
    free, _ = bound(trace)
    held, _ = bound(trace, "red=1,no-borrow")
    alone = measure(simulate(trace.jobs, free, policy, overheads=False))
    limited = measure(simulate(trace.jobs, held, policy, overheads=False))
    assert alone.makespan_s == pytest.approx(1200.0) and limited.makespan_s == pytest.approx(2400.0)
    blue, red = limited.projects
    assert (blue.project, blue.quota, blue.wait_mean_s) == ("blue", "", 0.0)
    assert (red.quota, red.jobs, red.finished) == ("1 cuda without borrowing", 4, 4)
    assert red.wait_mean_s == pytest.approx(900.0) and red.device_hours == pytest.approx(4 / 6)


def test_with_borrowing_what_nobody_wants_is_used_beyond_a_quota(tmp_path):
    trace = written(tmp_path, HEAD + "".join(f"r{number},0,,1,600,red\n" for number in range(4)))
    lent, _ = bound(trace, "red=1")
    assert measure(simulate(trace.jobs, lent, "deadline_energy", overheads=False)).makespan_s == pytest.approx(600.0)


def test_how_each_project_fared_is_in_the_figures_and_on_the_page(tmp_path):
    trace = written(tmp_path, HEAD + "r0,0,700,1,600,red\nr1,0,700,1,600,red\nb0,0,,1,600,<blue>\n")
    place, _ = bound(trace, "red=1,no-borrow")
    replay = simulate(trace.jobs, place, "fifo", overheads=False)
    found = measure(replay)
    shares = {fared.project: fared.satisfaction for fared in found.projects}
    assert shares == {"red": 0.5, "<blue>": None}
    assert found.to_dict()["projects"][1]["with_deadline"] == 2
    page = report_html("trace", [replay], [found])
    assert "By project" in page and "&lt;blue&gt;" in page and "1 cuda without borrowing" in page


def test_of_a_trace_without_projects_none_is_told(tmp_path):
    trace = written(tmp_path, "job_id,submitted_s,count,run_s\na,0,1,60\n")
    place, said = bound(trace)
    replay = simulate(trace.jobs, place, "fifo", overheads=False)
    assert measure(replay).projects == [] and said == []
    assert "By project" not in report_html("trace", [replay], [measure(replay)])


def test_who_asks_for_more_than_the_quota_ever_allows_is_told_of_and_never_starts(tmp_path):
    trace = written(tmp_path, HEAD + "wide,0,,4,60,red\nnarrow,0,,1,60,red\n")
    place, _ = bound(trace, "red=2,no-borrow")
    jobs = sim_jobs(trace.jobs, None, place)
    assert misfits(trace.jobs, jobs, place) == ["1 of 2 jobs ask for more than the quota of red ever lets them hold"]
    replay = simulate(trace.jobs, place, "deadline_energy", overheads=False)
    found = measure(replay)
    assert (found.jobs, found.finished, found.barred, found.fit_nowhere, found.refused) == (2, 1, 1, 0, 0)
    page = report_html("trace", [replay], [found])
    assert '<th scope="row">Barred by their quota</th><td>1</td>' in page
    lent, _ = bound(trace, "red=2")
    assert misfits(trace.jobs, sim_jobs(trace.jobs, None, lent), lent) == []


def test_a_public_trace_may_name_projects_too(tmp_path):
    head = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"
    plain = written(tmp_path, f"{head}\na,1,10,net,400,4,1,250\n")
    named = written(tmp_path, f"{head},project\na,1,10,net,400,4,1,250,red\n")
    assert (plain.jobs[0].project, named.jobs[0].project) == ("", "red")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("red", "--quota red: write PROJECT=DEVICES"),
        ("=4", "--quota =4: write PROJECT=DEVICES"),
        ("red=", "--quota red=: '' is no number of devices"),
        ("red=-1", "--quota red=-1: '-1' is no number of devices, from 0"),
        ("red=2.5", "'2.5' is no number of devices"),
        (f"red={'9' * 5000}", "'99999999999999999999' is no number of devices"),
        ("red=two", "'two' is no number of devices"),
        ("red=4,lend", "'lend' is no word for a quota"),
        ("red=none,no-borrow", "'no-borrow' is no word for a quota"),
        ("green=4", "no job of trace.csv that is replayed is of the project green; they are of blue, red"),
        ("red:cpu=4", "--quota red:cpu=4: the pool has no cpu"),
    ],
)
def test_a_quota_that_binds_nothing_is_refused_with_what_is_wrong(tmp_path, given, words):
    trace = written(tmp_path, BUSY)
    with pytest.raises(ValueError) as refused:
        bound(trace, given)
    assert words in str(refused.value)


def test_a_kind_is_named_where_the_pool_has_two_and_no_quota_is_given_twice(tmp_path):
    trace = written(tmp_path, BUSY)
    with pytest.raises(ValueError, match="the pool has cpu and cuda: write red:cpu or red:cuda"):
        bound(trace, "red=1", pool="1x4,1x2:cpu")
    place, _ = bound(trace, "red:cuda=1", pool="1x4,1x2:cpu")
    assert place.quotas["red"].devices == {"cuda": 1}
    with pytest.raises(ValueError, match="red has two quotas of cuda"):
        bound(trace, "red=1", "red:cuda=2")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job_id,submitted_s,count,run_s\na,0,1,60\n", "trace.csv, column project: there is no such column"),
        (HEAD + "a,0,,1,60,\n", "trace.csv, column project: nothing is there"),
    ],
)
def test_a_quota_of_a_trace_without_projects_is_refused(tmp_path, text, words):
    with pytest.raises(ValueError) as refused:
        bound(written(tmp_path, text), "red=1")
    assert words in str(refused.value)


def history(tmp_path, quotas):
    jobs = [{"job_id": name, "submitted_s": 0, "count": 1, "run_s": 60, "project": name} for name in ("red", "blue")]
    return written(tmp_path, json.dumps({"jobs": jobs, "quotas": quotas}), "history.json")


def test_quotas_of_a_history_count_unless_others_are_given_and_what_is_used_is_said(tmp_path):
    trace = history(tmp_path, KEPT)
    place, said = bound(trace, kept=limits_of(trace))
    assert place.quotas["red"].hard == {"cuda"} and place.quotas["blue"].devices == {"cuda": 3}
    assert said == [
        "Quotas: blue 3 cuda, red 1 cuda without borrowing (2 quotas of history.json, as the pool had them when it was "
        "written)",
        "1 quota of history.json left out: the replay has no such project, or no such device",
    ]
    place, _ = bound(trace, "red=4", "blue=none", kept=limits_of(trace))
    assert place.quotas["red"].devices == {"cuda": 4} and "blue" not in place.quotas


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"devices": "x"}, "history.json, quota 1, field devices: 'x' is no number of devices"),
        ({"devices": None}, "history.json, quota 1, field devices: nothing is there"),
        ({"device_kind": "tpu"}, "history.json, quota 1, field device_kind: 'tpu' is none of cpu, cuda"),
        ({"may_borrow": 3}, "history.json, quota 1, field may_borrow: 3 is neither true nor false"),
    ],
)
def test_a_bad_quota_of_a_history_is_named(tmp_path, change, words):
    with pytest.raises(TraceError) as refused:
        limits_of(history(tmp_path, [KEPT[0] | change]))
    assert words in str(refused.value)


def test_two_quotas_of_a_history_for_the_same_devices_are_refused(tmp_path):
    with pytest.raises(TraceError, match=r"history\.json, quota 2: red has two quotas of cuda"):
        limits_of(history(tmp_path, [KEPT[0], KEPT[0] | {"devices": 2}]))


def test_what_a_project_holds_counts_when_edf_widest_makes_another_job_of_it_wider():
    ways = (way(1, run_s=100), way(2, run_s=50), way(3, run_s=40))
    held = runs(job("held", way(1, run_s=100), project="p"), "n1", "cpu0")
    wide = runs(job("wide", *ways, project="p", can_pause=True), "n1", "cpu1")
    for quota in (hard_quota({"cpu": 3}), Quota(devices={"cpu": 3})):
        decision = decide([held, wide], pool(node(cpus=6)), policy="edf_widest", quotas={"p": quota})
        assert {change.job_id: change.option.count for change in decision.changes} == {"wide": 2}
