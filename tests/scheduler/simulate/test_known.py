"""Jobs of which nothing says how fast they run on the devices of a pool: none runs at the speed of something else."""

from __future__ import annotations

import pytest

from scheduler.simulate.known import stand_ins, unknown_of
from scheduler.simulate.models import is_named, model_meant
from scheduler.simulate.pool import SimPool
from scheduler.simulate.run import one_speed, sim_jobs, unused
from scheduler.simulate.tables import Tables
from scheduler.simulate.traces import TraceJob, Way

TABLES = Tables({("net", 64): {1: 1.0}, ("net", 32): {1: 1.0}})
ON_T4 = Way(kind="cuda", count=1, run_s=100.0, model="NVIDIA T4")
ON_A100 = Way(kind="cuda", count=1, run_s=10.0, model="NVIDIA A100-SXM4-80GB")


def of_model(name, batch=64, job_id="a"):
    return TraceJob(
        job_id=job_id, submitted_s=0, model=name, batch_size=batch, iterations=10, where=f"jobs.csv, row {job_id}"
    )


def ran(device_model="NVIDIA T4", ways=(), job_id="a", count=1):
    return TraceJob(
        job_id=job_id,
        submitted_s=0,
        count=count,
        run_s=200.0,
        device_model=device_model,
        ways=ways,
        where="h.csv, row 2",
    )


def asked(jobs, pool="1x4:A100", *, tables=None, estimator=False):
    return unknown_of(jobs, tables, SimPool.parse(pool), estimator=estimator)


def test_all_models_without_a_table_and_batches_without_a_row_are_named_at_once_with_their_first_row():
    jobs = [of_model("net", job_id="1"), of_model("gpt", job_id="2"), of_model("gpt", job_id="3")]
    found = asked([*jobs, of_model("net", 96, job_id="4")], tables=TABLES)
    assert found.jobs == {"2", "3", "4"}
    assert found.words == (
        "gpt, of which there is no table (2 jobs; first: jobs.csv, row 2); "
        "net at batch 96, of which its table knows 32, 64 (1 job; first: jobs.csv, row 4)"
    )
    assert len(found.remedies) == 2 and "MODEL.csv" in found.remedies[0]


def test_without_any_table_the_folder_is_asked_for():
    found = asked([of_model("net"), of_model("gpt", job_id="b")])
    assert found.jobs == {"a", "b"} and found.remedies == ("name the folder of throughput tables by --tables",)


def test_what_ran_on_one_model_is_unknown_on_another_that_the_pool_names():
    found = asked([ran()])
    assert found.jobs == {"a"} and found.words.startswith("jobs on A100, which ran on NVIDIA T4 (1 job")
    assert found.remedies == ("name devices of --pool as the trace does",)
    assert sim_jobs([ran()], None, SimPool.parse("1x4:A100"))[0].options == ()
    assert not asked([ran()], "1x4:A100,1x4:T4").jobs
    assert asked([ran(ways=(ON_A100,))]).remedies[0].startswith("the estimates of --estimator know")
    assert not asked([ran(ways=(ON_A100,))], estimator=True).jobs


def test_on_a_pool_of_two_models_a_job_runs_as_it_ran_on_its_own_alone():
    pool = SimPool.parse("1x4:A100,1x4:T4")
    (job,) = sim_jobs([ran()], None, pool)
    assert [option.key for option in job.options] == [("cuda", "T4")]
    assert job.options[0].power_w == 70.0
    assert one_speed([job], pool) == []


def test_devices_that_nobody_names_stand_for_what_a_job_ran_on_and_it_is_said():
    assert not asked([ran()], "1x4").jobs
    assert stand_ins([ran()], SimPool.parse("1x4")) == [
        "--pool names no model of cuda: such devices stand for what each job ran on (NVIDIA T4)"
    ]
    assert stand_ins([ran()], SimPool.parse("1x4:T4")) == stand_ins([ran("")], SimPool.parse("1x4")) == []


def test_a_job_is_not_run_as_it_ran_on_a_model_that_it_was_estimated_for():
    """Before, its own time on a T4 was taken for that on an A100."""
    (job,) = sim_jobs([ran(ways=(ON_T4, ON_A100))], None, SimPool.parse("1x4:A100"), estimator=True)
    assert [(option.model_name, round(option.run_s)) for option in job.options] == [("A100", 20)]


def test_a_model_that_nothing_was_told_of_is_not_run_at_the_speed_of_another():
    (job,) = sim_jobs([ran(ways=(ON_T4, ON_A100))], None, SimPool.parse("1x4:H100,1x1:A100"), estimator=True)
    assert {option.model_name for option in job.options} == {"A100"}
    assert unused([job], SimPool.parse("1x4:H100,1x1:A100")) == [
        "no job is known to run on H100: such devices stay idle"
    ]
    found = asked([ran(ways=(ON_T4, ON_A100))], "1x4:H100", estimator=True)
    assert found.words.startswith("jobs on H100, which were estimated on NVIDIA A100-SXM4-80GB, NVIDIA T4 (1 job")


def test_where_a_history_does_not_say_what_it_ran_on_the_way_it_was_submitted_with_does():
    job = ran("", ways=(ON_T4,))
    assert asked([job], estimator=True).jobs == {"a"}
    assert not asked([job], "1x4:T4", estimator=True).jobs


def test_who_asks_for_a_kind_that_the_pool_lacks_is_not_unknown_but_never_runs():
    assert not asked([ran()], "1x4:cpu").jobs
    assert not asked([ran("", count=9)]).jobs


def test_devices_without_a_name_are_no_guess_among_several_that_a_job_was_told_of():
    job = TraceJob(job_id="a", submitted_s=0, kind="cpu", count=1, run_s=200.0, ways=(ON_T4, ON_A100))
    assert asked([job], "1x4", estimator=True).jobs == {"a"}
    assert not asked([job], "1x4:cpu", estimator=True).jobs


@pytest.mark.parametrize(
    ("full", "name", "meant"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100", True),
        ("nvidia t4", "T4", True),
        ("NVIDIA L40S", "L4", False),
        ("Xeon, 2 times slower", "xeon", True),
        ("NVIDIA A100", "A100-SXM", False),
    ],
)
def test_a_name_is_a_whole_word_of_the_makers_in_any_case(full, name, meant):
    assert is_named(full, name) is meant


def test_a_name_that_may_be_two_models_is_refused():
    names = ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB"]
    with pytest.raises(ValueError, match="A100 may mean NVIDIA A100-PCIE-40GB or NVIDIA A100-SXM4-80GB"):
        model_meant("A100", names)
    assert model_meant(names[0].lower(), names) == names[0]
    assert model_meant("H100", names) == ""
