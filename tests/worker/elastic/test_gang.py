"""Who is seated when, and what ends an elastic gang: stand-in processes that speak its lines, without Horovod."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.elastic_gang import ElasticRanks
from worker.elastic.gang import RETURNS_MAX, UNEXPLAINED_MAX

SPEAK = """
import json, os, signal, socket, sys, time
slot, work = int(os.environ["DLH_RANK"]), os.environ["DLH_WORK"]
returned = int(os.environ["HOROVOD_RANK"]) != slot
line = socket.socket(fileno=int(os.environ["DLH_SEAT_FD"]))
lines = line.makefile("rb")
generation, meets, lingers = 0, True, False
def say(word, step=0):
    line.sendall(json.dumps({word: generation, "step": step}).encode() + b"\\n")
def hear(*words):
    global generation
    while text := lines.readline():
        body = json.loads(text)
        if "leave" in body:
            open(f"{work}/leaves-{slot}", "w").close()
            while lingers and not os.path.exists(f"{work}/let-go"):
                time.sleep(0.01)
            open(f"{work}/gone-{slot}", "w").close()
            sys.exit(0)
        if "rescue" in body:
            open(f"{work}/saved-{slot}", "w").close()
            sys.exit(69)
        if set(words) & set(body):
            generation = body.get("seat", {}).get("generation", generation)
            return body
    sys.exit(69)
def sit(step=0):
    say("ready", None if returned and not generation else step)
    seat = hear("seat")["seat"]
    if meets:
        say("met")
        open(f"{work}/met-{generation}-{seat['rank']}", "w").close()
    return seat
def end():
    say("end")
    return "over" in hear("over", "seat")
def die():
    while meets and not all(os.path.exists(f"{work}/met-{generation}-{rank}") for rank in range(seat["size"])):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
BEFORE
seat = sit()
"""


class Stands:
    """Makes gangs of stand-ins, ended after the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gangs: list[ElasticRanks] = []

    def run(self, body: str, ranks: int = 3, least: int = 2, before: str = "", started: int = 0) -> ElasticRanks:
        """`before`: what a process does before it asks for its first place."""
        (self.folder / "train.py").write_text(SPEAK.replace("BEFORE", before) + body)
        self.gangs.append(ElasticRanks(self.folder, ranks, least, self.folder / "work", started=started))
        return self.gangs[-1]


@pytest.fixture
def stands(tmp_path: Path) -> Iterator[Stands]:
    made = Stands(tmp_path)
    yield made
    for gang in made.gangs:
        gang.end()


def test_all_are_seated_at_once_and_end_together(stands: Stands) -> None:
    gang = stands.run("assert (seat['rank'], seat['size'], seat['same']) == (slot, 3, True)\nassert end()")
    assert gang.wait() == 0, gang.log()
    assert gang.sizes() == [3]


def test_those_left_keep_their_order_and_one_that_returns_sits_last(stands: Stands) -> None:
    body = """
if seat["size"] == 3 and not returned:
    if slot == 0: die()
    assert hear("cut")["cut"] == 1
    seat = sit(5)
    assert seat["rank"] == slot - 1, seat
    if seat["size"] == 2:
        assert seat["slots"] == [1, 2], seat
        assert seat["same"]
        hear("call")
        seat = sit(5)
assert seat["size"] == 3 and not seat["same"]
assert seat["rank"] == (2 if returned else slot - 1), seat
assert seat["slots"] == [1, 2, 0], seat
assert end()
"""
    gang = stands.run(body)
    assert gang.wait() == 0, gang.log()
    assert gang.codes() == {0: (0, True), 1: (0, True), 2: (0, True)}


def test_one_that_is_lost_while_others_wait_at_the_end_sends_them_back(stands: Stands) -> None:
    body = """
if slot == 2 and not returned: die()
if generation == 1:
    assert not end(), "it must not be over"
assert end()
"""
    gang = stands.run(body)
    assert gang.wait() == 0, gang.log()
    assert len(gang.sizes()) == 2


def test_one_that_comes_back_too_late_is_not_waited_for(stands: Stands) -> None:
    body = "if slot == 2 and not returned: die()\nif generation == 1: hear('cut')\nwhile not end(): pass"
    gang = stands.run(body, before="if returned: time.sleep(1000)")
    assert gang.wait() == 0, gang.log()
    assert gang.codes()[2] == (0, True)


def test_too_few_left_end_all_and_the_loss_is_told(stands: Stands) -> None:
    gang = stands.run("if slot == 1: die()\nhear('over')", ranks=2, least=2)
    assert gang.wait() == 128 + 9, gang.log()
    assert gang.codes() == {1: (-9, True), 0: (69, True)}


def test_a_loss_while_they_meet_ends_all_at_once(stands: Stands) -> None:
    gang = stands.run("if slot == 1: die()\ntime.sleep(1000)", before="meets = False")
    assert gang.wait() == 128 + 9, gang.log()
    assert gang.sizes() == [3]


def test_a_fault_of_the_program_is_not_survived(stands: Stands) -> None:
    gang = stands.run("if slot == 1: sys.exit(65)\nhear('over')")
    assert gang.wait() == 65, gang.log()
    assert gang.codes()[1] == (65, True)
    assert gang.sizes() == [3]


def test_one_that_leaves_as_if_all_were_done_ends_all(stands: Stands) -> None:
    gang = stands.run("if slot == 1: sys.exit(0)\nhear('over')")
    assert gang.wait() == 69, gang.log()
    assert gang.codes()[1] == (0, True)


def test_a_pause_ends_all_and_also_one_that_has_not_come_back_yet(stands: Stands) -> None:
    body = """
if slot == 2 and not returned: die()
if generation == 1:
    hear("cut")
    sit()
sys.exit(75)
"""
    gang = stands.run(body)
    assert gang.wait() == 75, gang.log()
    assert {code for code, _ in gang.codes().values()} <= {0, 75}


def test_one_that_is_lost_again_and_again_stays_away(stands: Stands) -> None:
    body = """
if slot == 2: die()
while True:
    body = hear("cut", "call")
    seat = sit()
    if open(work + "/status").read().count('"lost"') > LOST: break
while not end(): pass
""".replace("LOST", str(RETURNS_MAX))
    gang = stands.run(body)
    assert gang.wait() == 0, gang.log()
    lost = [line for line in gang.told() if "lost" in line]
    assert len(lost) == RETURNS_MAX + 1
    assert gang.codes()[2] == (0, True)


def test_a_gang_that_parts_again_and_again_without_a_loss_ends(stands: Stands) -> None:
    gang = stands.run("while True: sit()")
    assert gang.wait() == 69, gang.log()
    assert len(gang.sizes()) == 1 + UNEXPLAINED_MAX


def test_what_is_no_message_is_passed_over(stands: Stands) -> None:
    body = """
for text in (b"[]", b"{", b"7", b'{"ready": "1"}', b'{"ready": 1, "step": "x"}', b'{"end": [1]}', b"\\xff" * 9000):
    line.sendall(text + b"\\n")
assert end()
"""
    gang = stands.run(body)
    assert gang.wait() == 0, gang.log()
    assert gang.sizes() == [3]


STAY = """
while not os.path.exists(f"{work}/finish"):
    time.sleep(0.01)
assert end()
"""


def test_who_is_not_asked_for_leaves_and_is_gone_before_the_others_are_seated(stands: Stands) -> None:
    body = """
hear("call")
seat = sit(5)
assert os.path.exists(f"{work}/gone-0")
assert (seat["size"], seat["rank"], seat["same"], seat["cause"]) == (2, slot - 1, True, "")
assert end()
"""
    gang = stands.run(body, before="lingers = True")
    gang.until(gang.sizes)
    gang.ask(1, 1, 2)
    gang.until((gang.work / "leaves-0").exists)
    assert gang.widths() == []
    (gang.work / "let-go").touch()
    assert gang.wait() == 0, gang.log()
    assert (gang.sizes(), gang.left(), gang.widths()) == ([3, 2], [0], [(1, [1, 2])])
    assert gang.codes() == {0: (0, True), 1: (0, True), 2: (0, True)}


def test_who_is_asked_for_is_started_and_seated_and_that_is_told_once_all_have_met(stands: Stands) -> None:
    body = """
if seat["size"] == 2:
    hear("call")
    seat = sit(5)
assert (seat["size"], seat["rank"], seat["cause"]) == (3, slot, "")
assert end()
"""
    gang = stands.run(body, least=1, started=2)
    gang.until(gang.sizes)
    gang.ask(1, 0, 1, 2)
    assert gang.wait() == 0, gang.log()
    assert (gang.sizes(), gang.widths()) == ([2, 3], [(1, [0, 1, 2])])


def test_a_run_that_was_never_asked_to_be_wider_ends_well(stands: Stands) -> None:
    gang = stands.run("assert seat['size'] == 1\nassert end()", least=1, started=1)
    assert gang.wait() == 0, gang.log()
    assert set(gang.codes().values()) == {(0, True)} and len(gang.codes()) == 3


def test_the_newest_wish_counts_and_ranks_that_nobody_knows_are_passed_over(stands: Stands) -> None:
    gang = stands.run("hear('call')\nseat = sit(5)\nassert seat['size'] == 1" + STAY, least=1)
    gang.until(gang.sizes)
    gang.ask(2, 0, 7)
    gang.until(gang.widths)
    gang.ask(1, 0, 1, 2)
    (gang.work / "finish").touch()
    assert gang.wait() == 0, gang.log()
    assert (gang.sizes(), gang.widths()) == ([3, 1], [(2, [0])])


def test_one_that_is_not_wanted_any_more_before_it_was_seated_is_ended(stands: Stands) -> None:
    gang = stands.run("assert seat['size'] == 2" + STAY, started=2, before="if returned: time.sleep(1000)")
    gang.until(gang.sizes)
    gang.ask(1, 0, 1, 2)
    gang.until(lambda: [line for line in gang.told() if line.get("rank") == 2])
    assert gang.widths() == []
    gang.ask(2, 0, 1)
    gang.until(gang.widths)
    (gang.work / "finish").touch()
    assert gang.wait() == 0, gang.log()
    assert (gang.sizes(), gang.left(), gang.widths()) == ([2], [2], [(2, [0, 1])])


def test_one_that_is_asked_for_again_while_it_leaves_is_started_anew(stands: Stands) -> None:
    body = """
while seat["size"] != 3 or generation == 1:
    hear("call")
    seat = sit(5)
assert end()
"""
    gang = stands.run(body, before="lingers = True")
    gang.until(gang.sizes)
    gang.ask(1, 0, 1)
    gang.until((gang.work / "leaves-2").exists)
    gang.ask(2, 0, 1, 2)
    (gang.work / "let-go").touch()
    assert gang.wait() == 0, gang.log()
    assert (gang.sizes(), gang.widths()) == ([3, 2, 3], [(2, [0, 1, 2])])


def test_nobody_leaves_while_too_few_others_are_there(stands: Stands) -> None:
    body = """
if slot == 1 and not returned:
    hear("call")
    die()
while seat["size"] != 2 or not os.path.exists(f"{work}/gone-2"):
    hear("call")
    seat = sit(5)
assert end()
"""
    gang = stands.run(body)
    gang.until(gang.sizes)
    gang.ask(1, 0, 1)
    assert gang.wait() == 0, gang.log()
    assert (gang.sizes(), gang.left(), gang.widths()) == ([3, 2, 3, 2], [2], [(1, [0, 1])])
