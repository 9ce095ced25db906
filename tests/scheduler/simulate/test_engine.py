"""Replays of small made traces whose course is worked out by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from scheduler.policies import names, policy_of
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.edf_widest import EdfWidest
from scheduler.policies.ways import Rescale
from scheduler.simulate.engine import Engine, SimJob
from scheduler.simulate.metrics import measure
from scheduler.simulate.pool import Gang, Part, SimPool
from scheduler.simulate.report import HEIGHT, WIDTH, report_html, ticks
from scheduler.simulate.rules import Rules
from scheduler.simulate.run import one_speed, sim_jobs, simulate
from scheduler.simulate.traces import TraceJob
from scheduler.types import Option

FREE = Rescale(fixed_s=0.0, per_doubling_s=0.0)


def made(name, submitted_s, run_s, deadline_s=None, widths=(1, 2, 4), power=0.8):
    """A job that takes `run_s` on one device, and on w devices 1 / w^power of it."""
    options = tuple(
        Option(kind="cuda", model_name="A100", count=w, rate_per_s=w**power / run_s, power_w=400.0 * w) for w in widths
    )
    return SimJob(job_id=name, submitted_s=submitted_s, options=options, deadline_s=deadline_s)


def replayed(jobs, policy, *, pool="1x4", rules=None):
    return Engine(jobs, SimPool.parse(pool), policy, rules or Rules()).run()


def test_a_job_alone_ends_when_its_work_is_done():
    replay = replayed([made("a", 100.0, 1000.0, widths=(1,))], EdfWidest())
    assert replay.outcomes[0].started_s == 100.0
    assert replay.outcomes[0].finished_s == 1100.0
    assert measure(replay).device_hours == pytest.approx(1000 / 3600)


def test_published_edf_takes_jobs_in_deadline_order_and_as_wide_as_they_go():
    late, early = made("late", 0.0, 600.0, 9000.0, power=1.0), made("early", 0.0, 600.0, 900.0, power=1.0)
    replay = replayed([late, early], EdfWidest())
    ends = {outcome.job.job_id: outcome.finished_s for outcome in replay.outcomes}
    assert ends == {"early": 150.0, "late": 300.0}


def test_published_overheads_delay_everybody_a_little_and_who_changes_more():
    rules = Rules.published(512)
    assert rules.overhead_s(8, changed=False, decision=1) == 7.0
    assert rules.overhead_s(8, changed=True, decision=1) == 7.0 + 2 * 4
    assert rules.overhead_s(8, changed=True, decision=60) == 7.0 + 2 * 4 + 47.0
    small = Rules.published(64)
    assert small.overhead_s(1, changed=True, decision=120) == 2.0 + 2.0 + 27.0
    assert Rules().overhead_s(1, changed=True, decision=60) == 0.0


def test_overheads_are_taken_off_the_progress():
    rules = Rules.published(4)
    replay = replayed([made("a", 0.0, 1000.0, widths=(1,))], EdfWidest(), rules=rules)
    assert replay.outcomes[0].finished_s == pytest.approx(1000.0 + 2.0 + 2.0)


def test_an_overhead_longer_than_a_slot_is_served_to_its_end():
    rules = Rules(slot_s=60.0, change_s=100.0)
    replay = replayed([made("a", 0.0, 1000.0, widths=(1,))], EdfWidest(), rules=rules)
    assert replay.outcomes[0].finished_s == pytest.approx(100.0 + 1000.0)
    each = replayed([made("a", 0.0, 1000.0, widths=(1,))], EdfWidest(), rules=replace(rules, event_s=10.0))
    decisions = len(each.decision_s)
    assert each.outcomes[0].finished_s == pytest.approx(100.0 + 1000.0 + 10.0 * decisions)


def test_an_overhead_ends_where_a_job_leaves_its_devices():
    jobs = [made("late", 0.0, 600.0, 9000.0, widths=(1,)), made("early", 60.0, 120.0, 900.0, widths=(1,))]
    replay = replayed(jobs, EdfWidest(), pool="1x1", rules=Rules(slot_s=60.0, change_s=100.0))
    ends = {outcome.job.job_id: outcome.finished_s for outcome in replay.outcomes}
    assert ends["early"] == pytest.approx(60.0 + 100.0 + 120.0)
    assert ends["late"] == pytest.approx(280.0 + 100.0 + 600.0)  # what it had left of its first start is no loss now


def test_a_plan_is_charged_with_the_decisions_that_were_seen():
    """600 s that may end after 650: with a decision in each slot two devices would be needed, and there were few."""
    rules = Rules(slot_s=60.0, event_s=7.0)
    policy = DeadlineEnergy(rescale=Rescale(fixed_s=7.0, per_doubling_s=0.0))
    early = [made(f"j{number}", 2000.0 * number, 60.0, widths=(1,)) for number in range(3)]
    calm = replayed([*early, made("z", 9000.0, 600.0, 9650.0)], policy, rules=rules).outcomes[-1]
    first = replayed([made("z", 9000.0, 600.0, 9650.0)], policy, rules=rules).outcomes[-1]
    assert calm.in_time and calm.finished_s == pytest.approx(9607.0)
    assert first.in_time and first.finished_s < 9500.0


def test_decisions_are_at_least_a_slot_apart():
    jobs = [made(f"j{number}", number * 7.0, 30.0, widths=(1,)) for number in range(20)]
    replay = replayed(jobs, EdfWidest())
    times = [sample.time_s for sample in replay.samples]
    assert all(later - earlier >= 60.0 for earlier, later in pairwise(times))


def test_energy_is_what_held_devices_draw_and_what_idle_ones_draw():
    found = measure(replayed([made("a", 0.0, 3600.0, widths=(1,))], EdfWidest()))
    assert found.energy_kwh == pytest.approx((400 + 3 * 55) / 1000)
    assert found.utilisation == pytest.approx(0.25)


def test_the_thriftiest_width_that_keeps_the_deadline_is_taken():
    policy = DeadlineEnergy(rescale=FREE)
    easy = replayed([made("a", 0.0, 1000.0, 1500.0)], policy).outcomes[0]
    tight = replayed([made("a", 0.0, 1000.0, 700.0)], policy).outcomes[0]
    assert easy.finished_s == pytest.approx(1000.0, rel=0.5)
    assert easy.in_time and tight.in_time
    assert easy.energy_j < tight.energy_j


def test_with_energy_ignored_free_devices_are_used_and_more_energy_is_spent():
    jobs = [made("a", 0.0, 3000.0, 9000.0, power=0.5)]
    thrifty = measure(replayed(jobs, DeadlineEnergy(rescale=FREE)))
    blind = measure(replayed(jobs, DeadlineEnergy(rescale=FREE, least_gain=0.0)))
    assert blind.jct_mean_s < thrifty.jct_mean_s
    assert blind.device_hours > thrifty.device_hours


def test_a_deadline_that_no_width_can_keep_is_refused_where_the_rules_say_so():
    hopeless = made("a", 0.0, 1000.0, 100.0)
    refused = replayed([hopeless], DeadlineEnergy(), rules=Rules(refuse_late=True)).outcomes[0]
    served = replayed([hopeless], DeadlineEnergy(), rules=Rules()).outcomes[0]
    assert refused.refused_s == 0.0 and refused.finished_s is None
    assert served.finished_s is not None and not served.in_time


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_a_job_that_ends_at_its_very_deadline_is_in_time(policy):
    """49 s, kept as a rate and told as a time again, are 49.00000000000001."""
    trace = [TraceJob(job_id="a", submitted_s=0.0, deadline_s=49.0, count=1, run_s=49.0)]
    found = measure(simulate(trace, SimPool.parse("1x1"), policy, overheads=False))
    assert (found.finished, found.refused, found.satisfaction) == (1, 0, 1.0)


def test_a_long_job_beside_many_short_ones_that_ends_at_its_very_deadline_is_in_time():
    """Each decision beside it rounds what is left of it: in sum by more than one such number is told exactly."""
    whole_s = 78792.0
    trace = [TraceJob(job_id="a", submitted_s=0.0, deadline_s=whole_s, count=1, run_s=whole_s)]
    trace += [
        TraceJob(job_id=f"b{number}", submitted_s=61.0 * number, deadline_s=None, count=1, run_s=30.0)
        for number in range(1, int(whole_s / 61.0))
    ]
    found = measure(simulate(trace, SimPool.parse("1x2"), "deadline_energy", overheads=False))
    assert (found.refused, found.promises_broken, found.satisfaction) == (0, 0, 1.0)


def test_the_makespan_ends_with_the_last_job_and_not_with_the_decision_after_it():
    jobs = [made("a", 100.0, 10.0, widths=(1,)), made("b", 500.0, 20.0, widths=(1,))]
    assert measure(replayed(jobs, EdfWidest(), rules=Rules(slot_s=3600.0))).makespan_s == pytest.approx(3620.0)
    alone = measure(replayed(jobs[:1], EdfWidest()))
    assert alone.makespan_s == pytest.approx(10.0) and alone.utilisation == pytest.approx(0.25)
    assert measure(replayed([made("a", 100.0, 10.0, widths=(8,))], EdfWidest())).makespan_s == 0.0


def test_slots_too_short_to_be_told_from_now_are_replayed_as_well():
    replay = replayed([made("a", 1.7e9, 60.0, widths=(1,))], EdfWidest(), rules=Rules(slot_s=1e-7))
    assert replay.outcomes[0].finished_s == pytest.approx(1.7e9 + 60.0)


def test_a_job_wider_than_the_pool_leaves_and_the_replay_ends():
    replay = replayed([made("a", 0.0, 10.0, widths=(8,)), made("b", 5.0, 10.0, widths=(1,))], EdfWidest())
    ends = {outcome.job.job_id: outcome.finished_s is not None for outcome in replay.outcomes}
    assert ends["b"] and not ends["a"]


def test_neither_a_time_to_finish_nor_a_wait_is_told_where_nothing_ran():
    replay = replayed([made("a", 0.0, 10.0, widths=(8,))], EdfWidest())
    page = report_html("trace", [replay], [measure(replay)])
    assert '<th scope="row">Submission to finish, mean</th><td>-</td>' in page
    assert '<th scope="row">... median</th><td>-</td>' in page
    assert '<th scope="row">Submission to start, mean</th><td>-</td>' in page
    assert '<th scope="row">Makespan</th><td>-</td>' in page

    told = measure(replay).to_dict()
    means = ("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "wait_p99_s", "energy_per_finished_kwh")
    assert [told[name] for name in means] == [None] * len(means)


def test_jobs_that_fit_nowhere_are_not_counted_as_refused():
    nowhere, hopeless, fine = made("a", 0.0, 10.0, widths=()), made("b", 0.0, 1000.0, 100.0), made("c", 0.0, 10.0)
    replay = replayed([nowhere, hopeless, fine], DeadlineEnergy(), rules=Rules(refuse_late=True))
    found = measure(replay)
    assert (found.jobs, found.fit_nowhere, found.refused, found.finished) == (3, 1, 1, 1)
    page = report_html("trace", [replay], [found])
    assert '<th scope="row">Refused</th><td>1</td>' in page and '<th scope="row">Fit nowhere</th><td>1</td>' in page


def test_a_plot_has_no_curve_of_jobs_that_are_not_there():
    """A curve at 0 h would say that all of them ended at once, or just in time."""
    undated, hopeless = made("a", 0.0, 10.0), made("b", 0.0, 1000.0, 100.0)
    replays = [
        replayed([undated], EdfWidest()),
        replayed([hopeless], DeadlineEnergy(), rules=Rules(refuse_late=True)),
    ]
    page = report_html("trace", replays, [measure(replay) for replay in replays])
    jct, slack = page.split("<figure>")[4:6]
    assert jct.count('points=""') == 1 and slack.count('points=""') == 2


def test_the_names_of_all_policies_stand_within_the_plots():
    replays = [replayed([made("a", 0.0, 60.0)], policy_of(name)) for name in names()]
    page = report_html("trace", replays, [measure(replay) for replay in replays])
    starts = {name: float(re.findall(rf'<text x="([\d.]+)"[^>]*>{name}<', page)[0]) for name in names()}
    assert max(starts.values()) < WIDTH - 80
    assert min(later - earlier for earlier, later in pairwise(sorted(starts.values()))) >= 135


def test_more_names_than_stand_beside_each_other_go_on_below():
    replay = replayed([made("a", 0.0, 60.0)], policy_of("fifo"))
    page = report_html("trace", [replay] * 8, [measure(replay)] * 8)
    figure = page.split("<figure>")[1]
    places = [(float(x), float(y)) for x, y in re.findall(r'<text x="([\d.]+)" y="([\d.-]+)">fifo<', figure)]
    assert len(set(places)) == 8 and max(x for x, _ in places) < WIDTH - 80
    _, top, _, height = map(float, re.findall(r'viewBox="([^"]+)"', figure)[0].split())
    assert min(y for _, y in places) - 12 > top and height == HEIGHT - top


def test_a_trace_of_our_own_history_is_replayed_as_it_ran():
    trace = [TraceJob(job_id="a", submitted_s=0, count=2, run_s=100.0, kind="cpu", power_w=20.0)]
    found = measure(simulate(trace, SimPool.parse("1x2:cpu", spans_nodes=False), "fifo", overheads=False))
    assert (found.finished, found.satisfaction) == (1, None)
    assert found.jct_mean_s == pytest.approx(100.0)


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_unlike_devices_draw_what_each_of_them_draws_whichever_is_named_first(policy):
    trace = [TraceJob(job_id=name, submitted_s=0, count=4, run_s=3600.0) for name in "ab"]

    def kwh(pool):
        return measure(simulate(trace, SimPool.parse(pool), policy, overheads=False)).energy_kwh

    parts = ("1x4:A100", "1x4:V100")
    alone = [Part(nodes=1, each=4, model=model).power.busy_w for model in ("A100", "V100")]
    assert kwh(",".join(parts)) == kwh(",".join(parts[::-1])) == pytest.approx(4 * sum(alone) / 1000)


def test_a_gang_over_unlike_devices_draws_what_they_draw_together():
    trace = [TraceJob(job_id="a", submitted_s=0, count=2, run_s=3600.0)]
    pool = SimPool.parse("1x4:A100,1x4:V100")
    option = replace(sim_jobs(trace, None, pool)[0].options[0], count=2)
    a100, v100 = (part.power for part in pool.parts)
    gang = Gang(option, ("p0n00000", "p1n00000"), ("p0n00000d3", "p1n00000d0"))
    assert pool.held_w(gang, told=False) == a100.busy_w + v100.busy_w
    assert pool.held_w(gang, told=True) == option.power_w == 2 * pool.power("cuda").busy_w
    assert pool.idle_held_w(gang) == a100.idle_w + v100.idle_w


def test_power_that_the_trace_tells_counts_on_whatever_devices_it_runs():
    trace = [TraceJob(job_id=name, submitted_s=0, count=4, run_s=3600.0, power_w=1000.0) for name in "ab"]
    replay = simulate(trace, SimPool.parse("1x4:A100,1x4:V100"), "fifo", overheads=False)
    assert [outcome.energy_j for outcome in replay.outcomes] == pytest.approx([3.6e6, 3.6e6])


def test_that_unlike_devices_are_taken_to_be_equally_fast_is_said_where_it_is_so():
    trace = [TraceJob(job_id="a", submitted_s=0, count=4, run_s=3600.0)]
    mixed, alike = SimPool.parse("1x4:A100,1x4:V100,1x4:cpu"), SimPool.parse("2x4:A100")
    (said,) = one_speed(sim_jobs(trace, None, mixed), mixed)
    assert said.startswith("A100 and V100 are taken to be equally fast")
    (said,) = one_speed(sim_jobs(trace, None, alike), alike)
    assert said.startswith("A100 is taken to be as fast as the devices that jobs were measured on")
    unnamed = SimPool.parse("2x4,1x4:cpu")
    assert one_speed(sim_jobs(trace, None, unnamed), unnamed) == []
    assert one_speed([made("named", 0.0, 100.0)], mixed) == []


def test_on_one_node_per_gang_wide_gangs_do_not_start():
    wide = made("wide", 0.0, 100.0, widths=(4,))
    over_nodes = Engine([wide], SimPool.parse("2x2"), EdfWidest(), Rules()).run()
    on_one = Engine([wide], SimPool.parse("2x2", spans_nodes=False), EdfWidest(), Rules()).run()
    assert over_nodes.outcomes[0].finished_s is not None
    assert on_one.outcomes[0].finished_s is None


def test_the_report_is_one_page_that_loads_nothing():
    replay = replayed([made("<a>", 0.0, 900.0, 4000.0), made("b", 30.0, 500.0)], DeadlineEnergy())
    page = report_html("trace & pool", [replay, replace_name(replay)], [measure(replay)] * 2, ["note <1>"])
    assert page.count("<svg") == 5 and page.count("<polyline") == 10
    assert "trace &amp; pool" in page and "note &lt;1&gt;" in page
    assert "http" not in page and "<script" not in page and "nan" not in page


def replace_name(replay):
    return replace(replay, policy="other")


def test_ticks_are_round_and_lie_inside():
    assert ticks(0.0, 10.0) == [0, 2, 4, 6, 8, 10]
    assert all(0.3 <= tick <= 0.9 for tick in ticks(0.3, 0.9))


@pytest.mark.parametrize("text", ["", "8", "0x8", "axb", "1x8,,", "999999x999", "0x8,1x8:V100", "1x8,1x0:cpu"])
def test_a_pool_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="pool"):
        SimPool.parse(text)
