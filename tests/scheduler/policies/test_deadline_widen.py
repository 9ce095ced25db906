"""What a change of devices costs, and where free ones go; the last steps of `deadline_energy`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.ways import Rescale, Ways
from scheduler.types import JobView, Running
from tests.scheduler.policies.test_deadline_energy import RESTARTS, begun, counts, options, planned, view


def test_a_start_that_takes_long_is_paid_again_after_a_pause_and_is_part_of_the_first_run():
    slow = replace(options(1000.0, (1,))[0], start_s=300.0)
    fresh = JobView(job_id="a", options=(slow,), submitted_s=0.0, can_pause=True)
    rescale = Rescale(fixed_s=5.0, per_doubling_s=0.0)
    assert Ways(fresh, rescale).seconds == pytest.approx([1005.0])
    assert Ways(replace(fresh, work_left=0.5), rescale).seconds == pytest.approx([800.0])
    held = Running(option=slow, nodes=(), device_ids=(), started_s=0.0, last_change_s=0.0)
    ways = Ways(replace(fresh, work_left=0.5, running=held), rescale)
    assert (ways.run_s(slow), ways.anew_s(slow)) == pytest.approx((500.0, 800.0))


@pytest.mark.parametrize(("start_s", "late"), [(5.0, set()), (300.0, {"runs"})])
def test_a_promise_that_a_new_start_after_a_pause_would_cost_is_told_to_be_late(start_s, late):
    (option,) = (replace(one, start_s=start_s) for one in options(1000.0, (1,)))
    runs = JobView(job_id="runs", options=(option,), submitted_s=0.0, deadline_s=1600.0, promised=True, can_pause=True)
    urgent = view("urgent", 500.0, 520.0, widths=(1,), promised=True)
    plan = planned([on_devices(runs, 0), urgent], RESTARTS, pool="1x1")
    assert set(counts(plan)) == {"urgent"} and set(plan.warnings) == late


def test_a_run_grows_only_where_the_change_costs_less_than_it_gains():
    job = view("a", 1000.0, power=1.0)
    held = Running(
        option=job.options[0], nodes=("p0n00000",), device_ids=("p0n00000d0",), started_s=0.0, last_change_s=0.0
    )
    policy = DeadlineEnergy(rescale=Rescale(fixed_s=5.0, per_doubling_s=2.0))
    assert counts(planned([replace(job, running=held, work_left=0.5)], policy)) == {"a": 4}
    assert counts(planned([replace(job, running=held, work_left=0.01)], policy)) == {"a": 1}


@pytest.mark.parametrize(
    ("deadline_s", "said"),
    [
        (600.0, "on those that it has it might miss its deadline."),
        (1e5, "they are free and make it faster, or its deadline needs them."),
        (-10.0, "they are free and make it faster; its deadline has passed."),
    ],
)
def test_a_run_that_grows_for_its_deadline_is_told_so(deadline_s: float, said: str) -> None:
    runs = on_devices(view("runs", 1000.0, deadline_s, widths=(1, 2), promised=True, power=1.0), 0)
    plan = planned([runs], RESTARTS, pool="1x2")
    assert plan.reasons["runs"] == f"It continues with 2 GPUs: {said}"


def test_a_run_that_moves_to_as_many_faster_devices_is_told_that_they_are_others():
    slow, fast = (replace(options(run_s, (2,))[0], model_name=name) for name, run_s in (("T4", 9e4), ("A100", 1e4)))
    runs = on_devices(replace(view("runs", deadline_s=2e4), options=(slow, fast)), 0, 1)
    plan = planned([runs], RESTARTS, pool="1x2:T4,1x2:A100")
    assert plan.allotments["runs"].model_name == "A100"
    told = "It continues with as many other devices: on those that it has it might miss its deadline."
    assert plan.reasons["runs"] == told


def on_devices(job, *numbers):
    """The job as it runs on these devices of the first node, for long."""
    devices = tuple(f"p0n00000d{number}" for number in numbers)
    running = Running(
        option=job.options[0], nodes=("p0n00000",), device_ids=devices, started_s=-1e3, last_change_s=-1e3
    )
    return replace(job, running=running)


@pytest.mark.parametrize(("later_s", "count"), [(10.0, 1), (2000.0, 4)])
def test_a_run_grows_only_onto_devices_that_stay_free_until_that_has_paid(later_s, count):
    running = on_devices(view("runs", 1000.0, power=1.0), 0)
    held = on_devices(view("held", later_s, widths=(2,), power=0.0, can_pause=False), 1, 2)
    promised = view("promised", 1000.0, later_s + 1030.0, widths=(5,), power=0.0, promised=True)
    assert counts(planned([running, held, promised], RESTARTS, pool="1x6"))["runs"] == count


def test_a_run_keeps_devices_that_are_needed_by_others_in_a_moment_until_then():
    running = on_devices(view("runs", 1000.0, power=1.0), 0, 1, 2, 3)
    running = replace(running, running=replace(running.running, option=running.options[2]))
    held = on_devices(view("held", 10.0, widths=(2,), power=0.0, can_pause=False), 4, 5)
    promised = view("promised", 1000.0, 1040.0, widths=(5,), power=0.0, promised=True)
    assert counts(planned([running, held, promised], RESTARTS, pool="1x6"))["runs"] == 4


def test_a_node_with_nothing_left_ends_the_wishes_for_its_own_devices_alone():
    first = on_devices(view("first", widths=(1, 2), power=0.99), 0)
    late = on_devices(view("late", widths=(1, 2), power=0.97), 1)
    other = on_devices(view("other", widths=(1, 2), power=0.95), 0)
    there = replace(other.running, nodes=("p0n00001",), device_ids=("p0n00001d0",))
    plan = planned([first, late, replace(other, running=there)], pool="2x3", spans=False)
    assert counts(plan) == {"first": 2, "late": 1, "other": 2}


@pytest.mark.parametrize(("later_s", "starts"), [(10.0, False), (60.0, True)])
def test_a_deadline_that_does_not_fit_starts_on_free_devices_only_if_that_is_worth_a_start(later_s, starts):
    held = begun(view("held", later_s, widths=(1,), can_pause=False), 0.0)
    promised = view("promised", 1000.0, later_s + 1006.0, widths=(2,), power=0.0, promised=True)
    dated = view("dated", 500.0, 600.0, widths=(1,))
    assert ("dated" in counts(planned([held, promised, dated], RESTARTS, pool="1x2"))) is starts
