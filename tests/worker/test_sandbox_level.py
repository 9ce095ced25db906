"""Which level a host is said to reach: a trial that fails on a busy machine is made again, and its failure is no fault
of whoever asks for more."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from worker import sandbox
from worker.sandbox import SandboxError, SandboxLevel, SandboxSpec, SandboxTooWeak, abilities
from worker.sandbox.abilities import AGAIN_MOST_S, AGAIN_S, Finding, Host

BEST = Host(bwrap="/usr/bin/bwrap", seccomp_problem="", landlock_abi=7, has_cgroups=True, uid_reaches_us=True,
            level=SandboxLevel.L3)  # fmt: skip
BUSY = replace(BEST, level=SandboxLevel.L1, reason="L3: trial run did not end in 20 s", tried=SandboxLevel.L3)
POOR = replace(BEST, level=SandboxLevel.L1, reason="L3: bubblewrap is not installed")


class Lab:
    """A finding over answers that are known, and a clock that is set by hand."""

    def __init__(self, *answers: Host | SandboxError) -> None:
        self.now_s = 0.0
        self.looks = 0
        self._answers = iter(answers)
        self._finding = Finding(self._look, lambda: self.now_s)

    def _look(self) -> Host:
        self.looks += 1
        answer = next(self._answers)
        if isinstance(answer, SandboxError):
            raise answer
        return answer

    def ask(self, now_s: float) -> SandboxLevel:
        """The level then; whatever is looked for beside has ended after it."""
        self.now_s = now_s
        level = self._finding.host().level
        for thread in threading.enumerate():
            if thread.name == "sandbox-level":
                thread.join()
        return level


def test_a_level_that_a_busy_machine_did_not_reach_is_tried_again_and_kept() -> None:
    lab = Lab(BUSY, BEST)
    assert [lab.ask(0), lab.ask(AGAIN_S - 1), lab.looks] == [SandboxLevel.L1, SandboxLevel.L1, 1]
    lab.ask(AGAIN_S)
    assert lab.ask(AGAIN_S) == SandboxLevel.L3
    lab.ask(100 * AGAIN_MOST_S)
    assert lab.looks == 2


def test_it_is_tried_more_and_more_seldom() -> None:
    lab = Lab(*[BUSY] * 99)
    looked_s = []
    for now_s in range(0, 5 * int(AGAIN_MOST_S), int(AGAIN_S)):
        before = lab.looks
        lab.ask(now_s)
        looked_s += [now_s] * (lab.looks - before)
    gaps_s = [after - before for before, after in pairwise(looked_s)]
    assert gaps_s[:4] == [AGAIN_S, 2 * AGAIN_S, 4 * AGAIN_S, 8 * AGAIN_S]
    assert max(gaps_s) == AGAIN_MOST_S


@pytest.mark.parametrize(("uid", "abi", "level"), [(0, 1, 1), (1000, 6, 1), (1000, 5, 0)])
def test_landlock_alone_is_a_level_only_where_other_processes_of_the_user_are_safe(
    monkeypatch: pytest.MonkeyPatch, uid: int, abi: int, level: int
) -> None:
    monkeypatch.setattr("os.getuid", lambda: uid)
    monkeypatch.setattr(abilities, "ingredients", lambda: replace(BEST, bwrap="", landlock_abi=abi))
    monkeypatch.setattr(abilities, "_trial", lambda _: "")
    found = abilities.look()
    assert found.level == level
    assert ("could end other processes" in found.reason) == (level == 0)


def test_what_is_missing_is_not_looked_for_again() -> None:
    lab = Lab(POOR)
    assert [lab.ask(0), lab.ask(100 * AGAIN_MOST_S), lab.looks] == [SandboxLevel.L1, SandboxLevel.L1, 1]


def test_a_busy_moment_takes_no_level_away() -> None:
    lab = Lab(BUSY, replace(BUSY, level=SandboxLevel.L0), SandboxError("nothing works"), BEST)
    assert {lab.ask(AGAIN_S * number) for number in (0, 1, 2, 3)} == {SandboxLevel.L1}
    lab.ask(AGAIN_S * 20)
    assert lab.ask(AGAIN_S * 20) == SandboxLevel.L3


def test_two_who_ask_at_once_share_one_look() -> None:
    looks, begun, go_on = [], threading.Event(), threading.Event()

    def slow_look() -> Host:
        looks.append(1)
        begun.set()
        assert go_on.wait(30)
        return BEST

    finding, found = Finding(slow_look), []
    threads = [threading.Thread(target=lambda: found.append(finding.host())) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    go_on.set()
    for thread in threads:
        thread.join()
    assert (found, len(looks)) == ([BEST] * 3, 1)


def test_a_trial_that_fails_is_told_from_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abilities, "_missing", lambda _found, level: "missing" if level == SandboxLevel.L3 else "")
    monkeypatch.setattr(abilities, "_trial", lambda _level: "")
    assert (abilities.look().level, abilities.look().tried) == (SandboxLevel.L2, SandboxLevel.L2)
    monkeypatch.setattr(abilities, "_trial", lambda level: "busy" if level == SandboxLevel.L2 else "")
    assert (abilities.look().level, abilities.look().tried) == (SandboxLevel.L1, SandboxLevel.L2)


@pytest.mark.parametrize(
    ("host", "least", "refusal"),
    [(BUSY, 3, SandboxError), (BUSY, 9, SandboxTooWeak), (POOR, 3, SandboxTooWeak)],
    ids=["busy", "more than there is", "poor"],
)
def test_a_run_is_refused_for_good_only_where_the_host_cannot_do_better(
    host: Host, least: int, refusal: type[SandboxError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abilities, "host", lambda: host)
    with pytest.raises(SandboxError) as caught:
        sandbox.start(SandboxSpec(name="job-1", argv=("true",), workdir=tmp_path, minimum_level=least))
    assert type(caught.value) is refusal
