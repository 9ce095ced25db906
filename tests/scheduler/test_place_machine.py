"""A pool that lives: jobs come, run, end; nodes leave and come back; admins keep devices and change quotas.

What `docs/scheduling.md` and the operator guide promise, all of it at once, after every decision and for every policy.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from scheduler.admit import admit
from scheduler.place import place
from scheduler.policies import names, policy_of
from scheduler.types import ChangeKind, JobView, Quota, Reserved
from tests.scheduler.pools import carry_out, held_by, job, node, pool, way

TICK_S = 5.0
"""Decisions come at the start and end of each job and reservation, and at least so often."""
PATIENCE_S = 60.0
UNKNOWN_S = 30.0
"""What a run takes whose length nobody estimated."""
PROMISING = frozenset({"deadline_energy", "deadline"})
"""Policies that plan for promises."""
UNFAIR = frozenset({"edf_widest"})
"""The rival of the replays: it lets jobs starve."""
PROJECTS, KINDS = st.sampled_from("pqr"), ("cpu", "cuda")
MORE = st.fixed_dictionaries(
    {"project": PROJECTS, "priority": st.sampled_from([0, 0, 1, 5]), "can_pause": st.booleans()}
)


@dataclass
class Live:
    """A job that has not ended."""

    view: JobView
    pace: float
    """Of its run over the middle of the estimate, so that the upper end holds."""
    saved: float = 1.0
    """What was left of the run when it last began: what a lost node throws it back to."""
    excused: bool = False
    """Since it was promised an admin or a fault took devices away."""

    def rate_per_s(self):
        return self.view.running.option.rate_per_s * self.pace or 1.0 / UNKNOWN_S


class Pool(RuleBasedStateMachine):
    """Rules are what people, nodes and time do; every one of them ends in a decision."""

    @initialize(
        policy=st.sampled_from(names()),
        sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=3),
        spans=st.booleans(),
    )
    def begins(self, policy, sizes, spans):
        chosen = policy_of(policy)
        self.policy = chosen if chosen.name in UNFAIR else replace(chosen, patience_s=PATIENCE_S)
        self.spans, self.now_s, self.number = spans, 0.0, 0
        self.nodes = {
            f"n{at}": node(f"n{at}", cpus=cpus, gpus=gpus, models={"cuda1": "B"} if at % 2 else {})
            for at, (cpus, gpus) in enumerate(sizes)
        }
        self.kept, self.quotas, self.live = {}, {}, {}

    @rule(
        kind=st.sampled_from(("cpu", "cpu", "cuda")),
        widths=st.sampled_from([(1,), (2,), (3,), (1, 2), (1, 2, 4), (4, 2, 1)]),
        run_s=st.sampled_from([0.0, 10.0, 40.0, 90.0]),
        slack=st.sampled_from([None, None, 0.5, 1.1, 2.0, 5.0]),
        slowdown=st.sampled_from([1.0, 1.3]),
        luck=st.floats(0.0, 1.0),
        more=MORE,
        memory_gib=st.sampled_from([0, 0, 4, 9]),
    )
    def comes(self, kind, widths, run_s, slack, slowdown, luck, more, memory_gib):
        options = [way(width, kind=kind, run_s=run_s / width**0.8, memory_gib=memory_gib) for width in widths]
        self.number += 1
        deadline_s = None if slack is None else self.now_s + 10.0 + slack * (run_s or UNKNOWN_S)
        more = more | {"slowdown": slowdown, "deadline_s": deadline_s}
        view = job(f"j{self.number:03}", *options, at=self.now_s, **more)
        pace = 1.0 / slowdown + luck * (1.0 - 1.0 / slowdown)
        self.live[view.job_id] = Live(self.asked(view) if slack else view, pace)
        self.decides()

    @rule(seconds=st.sampled_from([1.0, 5.0, 20.0, 60.0]))
    def passes(self, seconds):
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            turns = [at_s for kept in self.kept.values() for at_s in (kept.start_s, kept.end_s)]
            runs = [one for one in self.live.values() if one.view.running]
            ends = [self.now_s + one.view.work_left / one.rate_per_s() for one in runs]
            next_s = min([end_s, self.now_s + TICK_S, *(at_s for at_s in turns + ends if at_s > self.now_s)])
            self.progresses(next_s - self.now_s)
            self.now_s = next_s
            self.decides()

    @rule(at=st.integers(0, 2), gone=st.booleans())
    def a_node_leaves(self, at, gone):
        """It is lost with all that runs there, or drained: what runs goes on."""
        name = f"n{at % len(self.nodes)}"
        self.nodes[name] = replace(self.nodes[name], takes_work=False)
        for one in self.live.values():
            if gone and one.view.running and name in one.view.running.nodes:
                left = one.saved if one.view.can_pause else 1.0
                one.view = replace(one.view, running=None, work_left=left)
        self.excuses()
        self.decides()

    @rule(at=st.integers(0, 2))
    def a_node_comes_back(self, at):
        name = f"n{at % len(self.nodes)}"
        self.nodes[name] = replace(self.nodes[name], takes_work=True)
        self.decides()

    @rule(
        at=st.integers(0, 20),
        whole=st.booleans(),
        wait_s=st.sampled_from([0.0, 15.0, 50.0]),
        lasts_s=st.sampled_from([20.0, 80.0]),
        project=st.sampled_from(["", "p"]),
    )
    def an_admin_keeps_devices(self, at, whole, wait_s, lasts_s, project):
        kept_node = self.nodes[f"n{at % len(self.nodes)}"]
        device = kept_node.devices[at % len(kept_node.devices)]
        start_s = self.now_s + wait_s
        name = kept_node.name if whole else device.device_id
        self.kept[name] = Reserved(start_s=start_s, end_s=start_s + lasts_s, project=project)
        self.excuses()
        self.decides()

    @precondition(lambda self: self.kept)
    @rule()
    def an_admin_gives_them_back(self):
        self.kept.pop(min(self.kept))
        self.decides()

    @rule(project=PROJECTS, kind=st.sampled_from(KINDS), devices=st.integers(0, 4), hard=st.booleans())
    def an_admin_sets_a_quota(self, project, kind, devices, hard):
        known = self.quotas.get(project, Quota(devices={}))
        kinds = known.hard | {kind} if hard else known.hard - {kind}
        self.quotas[project] = replace(known, devices={**known.devices, kind: devices}, hard=kinds)
        self.excuses()
        self.decides()

    def asked(self, view):
        """The job with its promise, where it gets one; a refusal names a finish that can be kept."""
        found = self.admission(view)
        if not found.accepted and found.earliest_finish_s is not None and self.policy.name in PROMISING:
            later = self.admission(replace(view, deadline_s=found.earliest_finish_s + 1e-6))
            assert later.accepted, "the earliest finish that a refusal named was refused"
        return replace(view, promised=found.accepted)

    def admission(self, view):
        jobs, seen = self.shown()
        return admit(view, jobs, seen, self.now_s, policy=self.policy, quotas=self.quotas)

    def shown(self):
        jobs = [one.view for one in self.live.values()]
        nodes = [
            replace(one, devices=tuple(replace(device, reserved=self.reserved(one, device)) for device in one.devices))
            for one in self.nodes.values()
        ]
        return jobs, held_by(jobs, pool(*nodes, spans=self.spans))

    def reserved(self, of_node, device):
        found = (self.kept.get(of_node.name), self.kept.get(device.device_id))
        return tuple(kept for kept in found if kept is not None and kept.end_s > self.now_s)

    def excuses(self):
        """Devices were taken away: promises that were given before may break."""
        for one in self.live.values():
            one.excused = True

    def progresses(self, seconds):
        for name, one in list(self.live.items()):
            if one.view.running is None:
                continue
            left = one.view.work_left - seconds * one.rate_per_s()
            if left < 1e-9:
                del self.live[name]
            else:
                one.view = replace(one.view, work_left=left)

    def decides(self):
        """Until nothing changes any more: what is carried out asks for another decision."""
        for _ in range(len(self.live) + 3):
            jobs, seen = self.shown()
            decision = place(jobs, seen, self.now_s, policy=self.policy, quotas=self.quotas)
            after, _ = carry_out(decision, jobs, seen, self.now_s)
            self.everybody_is_told(decision, jobs)
            self.promises_can_be_kept(decision, jobs)
            self.devices_are_theirs_to_have(decision, after, seen)
            self.hard_quotas_hold(decision, jobs, after)
            for view in after:
                one = self.live[view.job_id]
                if view.running and not one.view.running:
                    one.saved = view.work_left
                promised = view.promised or view.job_id in decision.promised
                one.view = replace(view, promised=promised)
            if not decision.placements and not decision.changes:
                break
        else:
            raise AssertionError("it pauses and starts for ever")
        self.promises_are_kept()

    def everybody_is_told(self, decision, jobs):
        parts = [[start.job_id for start in decision.placements], decision.running, decision.waits]
        assert Counter(name for part in parts for name in part) == Counter(view.job_id for view in jobs)
        first = 1 + sum(bool(start.waits_for) for start in decision.placements)
        assert sorted(wait.position for wait in decision.waits.values()) == [*range(first, first + len(decision.waits))]
        changed = {change.job_id for change in decision.changes}
        assert all(view.can_pause for view in jobs if view.job_id in changed)

    def promises_can_be_kept(self, decision, jobs):
        """Whoever is promised now is expected in time."""
        for view in jobs:
            if view.job_id in decision.promised:
                assert decision.expected[view.job_id][1] <= view.deadline_s + 1e-6

    def devices_are_theirs_to_have(self, decision, after, seen):
        held = Counter(device for view in after if view.running for device in view.running.device_ids)
        assert max(held.values(), default=1) == 1
        at = {device.device_id: (one, device) for one in seen.nodes for device in one.devices}
        by_id = {view.job_id: view for view in after}
        mine = {device: view.job_id for view in self.views() if view.running for device in view.running.device_ids}
        grown = [change for change in decision.changes if change.kind is ChangeKind.RESIZE]
        for begun in (*decision.placements, *grown):
            view, option = by_id[begun.job_id], begun.option
            assert len(begun.device_ids) == option.count and option in view.options
            assert self.spans or len(set(begun.nodes)) == 1
            end_s = self.now_s + view.left_high_s(option)
            for its_node, device in (at[name] for name in begun.device_ids if mine.get(name) != begun.job_id):
                assert its_node.takes_work and device.kind == option.kind
                assert option.model_name in {"", device.model_name}
                assert not any(
                    kept.start_s < end_s and kept.end_s > self.now_s and kept.project != view.project
                    for kept in device.reserved
                )
        asked = Counter()
        for view in after:
            for name in view.running.nodes if view.running else ():
                asked[name] += view.running.option.memory_bytes
        assert self.spans or all(asked[name] <= one.memory_bytes for name, one in self.nodes.items())

    def hard_quotas_hold(self, decision, jobs, after):
        """What runs is not stopped where a quota became smaller; nothing begins or grows beyond it."""
        before = {view.job_id: view.running.option.count if view.running else 0 for view in jobs}
        held, more = Counter(), set()
        for view in after:
            if view.running:
                key = (view.project, view.running.option.kind)
                held[key] += view.running.option.count
                if view.running.option.count > before[view.job_id]:
                    more.add(key)
        for project, kind in more:
            quota = self.quotas.get(project, Quota(devices={}))
            if kind in quota.hard:
                assert held[project, kind] <= quota.devices[kind], f"{project} holds {held[project, kind]} of {quota}"

    def promises_are_kept(self):
        if self.policy.name in PROMISING:
            late = [
                view.job_id
                for view in self.views()
                if view.promised and not self.live[view.job_id].excused and view.deadline_s < self.now_s - 1e-6
            ]
            assert not late, f"promised and late: {late}"

    def views(self):
        return [one.view for one in self.live.values()]

    def teardown(self):
        """From now on nothing is taken away: whoever waits is served, whoever else comes."""
        if not getattr(self, "live", None):
            return
        self.kept = {}
        self.nodes = {name: replace(one, takes_work=True) for name, one in self.nodes.items()}
        waiting = [name for name, one in self.live.items() if self.has_a_claim(one.view)]
        upper_s = sum(max(map(self.upper_s, view.options)) for view in self.views())
        until_s = self.now_s + 2 * (PATIENCE_S + upper_s + TICK_S * (len(self.live) + 2))
        while set(waiting) & self.live.keys():
            assert self.now_s <= until_s, f"never served: {sorted(set(waiting) & self.live.keys())}"
            if self.policy.name not in UNFAIR:
                more = {"project": "r", "priority": 9, "can_pause": self.number % 2 > 0}
                self.comes("cpu", (1, 2), 8.0, 4.0 if self.number % 3 else None, 1.0, 1.0, more, 0)
            self.passes(TICK_S)

    def upper_s(self, option):
        return 1.3 * option.run_s if math.isfinite(option.run_s) else UNKNOWN_S

    def has_a_claim(self, view):
        """All options fits the idle pool and what its project may hold without borrowing."""
        quota = self.quotas.get(view.project, Quota(devices={}))
        counts = [sum(device.kind == view.options[0].kind for device in one.devices) for one in self.nodes.values()]
        widest = sum(counts) if self.spans else max(counts)
        limit = quota.devices.get(view.options[0].kind, widest)
        return all(option.count <= min(widest, limit) for option in view.options)


Pool.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_a_pool_that_lives = Pool.TestCase


def test_what_a_plan_begins_and_no_node_has_room_for_is_not_promised():
    """Found by the machine above: two jobs of 9 GiB on one node of 16."""
    lives, kept = Pool(), {"memory_gib": 9, "kind": "cpu"}
    lives.begins(policy="deadline_energy", sizes=[(3, 2), (3, 1)], spans=True)
    more = {"project": "r", "priority": 5, "can_pause": False}
    lives.a_node_leaves(at=0, gone=False)
    lives.comes("cpu", (3,), 90.0, 0.5, 1.3, 0.0, more, 0)
    lives.comes(widths=(1, 2, 4), run_s=90.0, slack=5.0, slowdown=1.3, luck=0.2, more=more | {"priority": 0}, **kept)
    more = {"project": "q", "priority": 1, "can_pause": True}
    lives.comes(widths=(1, 2), run_s=40.0, slack=1.1, slowdown=1.0, luck=0.7, more=more, **kept)
    lives.a_node_comes_back(at=0)
