"""Tickets, with made-up workers and servers in place of sockets."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from worker.runtime.servers.rounds import Rounds
from worker.runtime.servers.tickets import Tickets


class Simulated:
    """Workers that pull, compute and push in any order; each server counts its own updates."""

    def __init__(self, workers: int, servers: int, staleness: int, seed: int) -> None:
        self.tickets = Tickets(workers=workers, staleness=staleness)
        self.chance = random.Random(seed)
        self.versions = [0] * servers
        self.steps: dict[int, list[tuple[str, int]]] = {worker: [] for worker in range(workers)}
        """What each worker has still to do with the ticket it holds: pulls and pushes, server by server."""
        self.pulled: dict[tuple[int, int], int] = {}
        self.done: list[int] = []
        self.worst = 0

    def until_stopped(self) -> None:
        """Run until every worker has been told to stop."""
        stopped: set[int] = set()
        while len(stopped) < len(self.steps):
            able = [worker for worker in self.steps if worker not in stopped and self._can(worker)]
            assert able, "nobody can go on"
            worker = self.chance.choice(able)
            if self.steps[worker]:
                self._work(worker)
            else:
                self.tickets.give_back(worker)
                if self.tickets.over:
                    stopped.add(worker)
                else:
                    self._begin(worker)

    def _can(self, worker: int) -> bool:
        """A worker waits only where the bound holds it back, and asking changes nothing then."""
        if self.steps[worker]:
            return True
        exposure = {holder: seen for holder, seen in self.tickets.exposure.items() if holder != worker}
        held_back = len(exposure) > self.tickets.staleness or any(
            seen >= self.tickets.staleness for seen in exposure.values()
        )
        return worker in self.tickets.exposure or self.tickets.over or not held_back

    def _begin(self, worker: int) -> None:
        ticket = self.tickets.take(worker)
        if ticket is None:
            return
        self.done.append(ticket)
        servers = range(len(self.versions))
        pulls, pushes = [("pull", server) for server in servers], [("push", server) for server in servers]
        self.chance.shuffle(pulls)
        self.chance.shuffle(pushes)
        self.steps[worker] = [*pushes, *pulls]  # taken from the end

    def _work(self, worker: int) -> None:
        what, server = self.steps[worker].pop()
        if what == "pull":
            self.pulled[worker, server] = self.versions[server]
        else:
            self.worst = max(self.worst, self.versions[server] - self.pulled[worker, server])
            self.versions[server] += 1


@settings(max_examples=60, deadline=None)
@given(
    workers=st.integers(1, 5),
    servers=st.integers(1, 3),
    staleness=st.integers(0, 8),
    steps=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_no_gradient_is_older_than_the_bound_and_every_share_is_done_once(
    workers: int, servers: int, staleness: int, steps: int, seed: int
) -> None:
    run = Simulated(workers, servers, staleness, seed)
    run.tickets.open(0, steps * workers)
    run.until_stopped()
    assert run.worst <= staleness
    assert sorted(run.done) == list(range(steps * workers))
    assert run.versions == [steps * workers] * servers


def test_a_bound_of_zero_lets_one_worker_work_at_a_time() -> None:
    tickets = Tickets(workers=3, staleness=0)
    tickets.open(0, 9)
    assert tickets.take(0) == 0
    assert tickets.take(1) is None
    tickets.give_back(0)
    assert tickets.take(1) == 1


def test_a_slow_worker_does_not_hold_up_the_others_within_the_bound() -> None:
    tickets = Tickets(workers=2, staleness=4)
    tickets.open(0, 100)
    assert tickets.take(0) == 0
    taken = []
    while (ticket := tickets.take(1)) is not None:
        taken.append(ticket)
        tickets.give_back(1)
    assert taken == [1, 2, 3, 4]


@settings(max_examples=40, deadline=None)
@given(workers=st.integers(1, 5), after=st.integers(0, 30), seed=st.integers(0, 2**31))
def test_a_wish_to_pause_stops_everybody_at_the_same_whole_step(workers: int, after: int, seed: int) -> None:
    run = Simulated(workers, 2, 8, seed)
    run.tickets.open(0, 40 * workers)
    while len(run.done) < after:
        worker = run.chance.choice([number for number in run.steps if run._can(number)])
        if run.steps[worker]:
            run._work(worker)
        else:
            run.tickets.give_back(worker)
            run._begin(worker)
    run.tickets.wish(pause=True, save=False, time_spent=0.0)
    run.until_stopped()
    assert run.tickets.agreed.pause
    assert run.tickets.next % workers == 0
    assert sorted(run.done) == list(range(run.tickets.next))
    assert run.tickets.next - after <= workers


def test_wishes_after_the_first_stop_wait_for_the_next_list() -> None:
    tickets = Tickets(workers=2, staleness=8)
    tickets.open(0, 2)
    for worker in (0, 1):
        tickets.take(worker)
        tickets.give_back(worker)
    assert tickets.over
    tickets.wish(pause=True, save=False, time_spent=0.0)
    assert not tickets.agreed.pause
    tickets.open(2, 4)
    tickets.wish(pause=True, save=False, time_spent=0.0)
    assert tickets.agreed.pause


@settings(max_examples=40, deadline=None)
@given(workers=st.integers(1, 5), spare=st.integers(0, 4), steps=st.integers(1, 8), seed=st.integers(0, 2**31))
def test_a_step_is_made_by_the_first_gradients_and_nobody_is_asked_twice(
    workers: int, spare: int, steps: int, seed: int
) -> None:
    chance = random.Random(seed)
    rounds = Rounds(workers=workers, backup=min(spare, workers - 1))
    rounds.open(0, steps * workers)
    working: dict[int, int] = {}
    counted: dict[int, list[int]] = {step: [] for step in range(steps)}
    stopped: set[int] = set()
    while len(stopped) < workers:
        worker = chance.choice([number for number in range(workers) if number not in stopped])
        if worker in working:
            step = working.pop(worker) // workers
            if step == rounds.round:
                counted[step].append(worker)
                rounds.round += len(counted[step]) == rounds.needed
        elif rounds.over:
            stopped.add(worker)
        elif (ticket := rounds.take(worker)) is not None:
            assert ticket % workers == worker
            working[worker] = ticket
    assert all(len(set(made)) == len(made) == rounds.needed for made in counted.values())
    assert rounds.next == steps * workers
