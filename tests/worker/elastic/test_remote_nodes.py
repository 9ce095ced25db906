"""An elastic gang on two nodes: what becomes of each when processes, launchers and machines go. Stand-ins, no Horovod.

The "nodes" are two launchers on one address; what is between them is the line that they really talk over.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.worker.elastic.test_gang import SPEAK
from tests.worker.elastic_gang import ElasticRanks
from worker.elastic.gang import RETURNS_MAX
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST

WORD = "word"
TOLD = """
def told(seat):
    names = ("generation", "rank", "size", "voice", "source", "same")
    line = json.dumps({"slot": slot, "returned": returned, **{name: seat[name] for name in names}})
    open(f"{work}/seats", "a").write(line + "\\n")
"""
UNTIL_OVER = """
told(seat)
while True:
    if os.path.exists(f"{work}/finish"):
        say("end")
        body = hear("over", "seat")
        if "over" in body: break
        seat = body["seat"]
        say("met")
    else:
        hear("cut", "call")
        seat = sit(5)
    told(seat)
"""
"""Trains until the test says that it is enough, whatever becomes of the others."""


class TwoNodes:
    """A launcher on each."""

    def __init__(self, folder: Path, body: str, left: int, right: int, least: int, before: str = "") -> None:
        self.folder = folder
        (folder / "train.py").write_text(SPEAK.replace("BEFORE", TOLD + before) + body)
        hosts = [("left", left), ("right", right)]
        shared = folder / "work"
        shared.mkdir()
        self.left, self.right = (
            ElasticRanks(
                folder, count, least, folder / name, first=first, DLH_WORK=str(shared),
                node={"hosts": hosts, "hostname": name, "address": "127.0.0.1", "word": WORD,
                      "port_file": str(folder / name / "port")},
            )
            for name, count, first in (("left", left, 0), ("right", right, left))
        )  # fmt: skip
        self.port = self.left.until(lambda: [line["port"] for line in self.left.told() if "port" in line])[0]

    def meet(self) -> TwoNodes:
        """As the supervisors do when all nodes are there."""
        for part in (self.left, self.right):
            (part.work / "making").write_text(str(self.port))
            (part.work / "making").replace(part.work / "port")
        return self

    def seats(self, generation: int) -> list[dict[str, Any]]:
        """Who sat where in a generation, by place."""
        file = self.folder / "work" / "seats"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return sorted((line for line in lines if line["generation"] == generation), key=lambda line: line["rank"])

    def seated(self, size: int, generation: int) -> list[dict[str, Any]]:
        """Wait for a generation of so many."""
        return self.left.until(lambda: len(found := self.seats(generation)) == size and found)

    def met(self, size: int, generation: int) -> list[dict[str, Any]]:
        """The same, and for the gang to know that all have met: a loss before is another matter."""
        self.left.until(lambda: generation in [line.get("met") for line in self.left.told()])
        return self.seated(size, generation)

    def finish(self) -> None:
        """All may end; who waits for a word of the gang gets one by the loss of a rank that comes back."""
        (self.folder / "work" / "finish").touch()

    def lose(self, part: ElasticRanks) -> None:
        """A machine is gone."""
        tree = psutil.Process(part.process.pid).children(recursive=True)
        part.process.kill()
        part.process.wait()
        psutil.wait_procs(tree)

    def saved(self) -> list[str]:
        """Processes that were asked to save their copy."""
        return [path.name for path in (self.folder / "work").glob("saved-*")]

    def end(self) -> None:
        for part in (self.left, self.right):
            part.end()

    def log(self) -> str:
        return self.left.log() + self.right.log() + str(self.left.told()) + str(self.right.told())


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Any]:
    """Makes them, and ends them after the test."""
    made: list[TwoNodes] = []

    def make(body: str, left: int = 2, right: int = 2, least: int = 1, before: str = "") -> TwoNodes:
        made.append(TwoNodes(tmp_path, body, left, right, least, before))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_all_are_seated_the_first_nodes_first_and_each_node_is_told_of_its_own(nodes: Any) -> None:
    two = nodes("told(seat)\nassert end()").meet()
    assert (two.left.wait(), two.right.wait()) == (0, 0), two.log()
    found = two.seats(1)
    assert [(seat["slot"], seat["voice"], seat["source"]) for seat in found] == [(slot, slot, 0) for slot in range(4)]
    assert two.left.codes() == {0: (0, True), 1: (0, True)}
    assert two.right.codes() == {2: (0, True), 3: (0, True)}


def test_a_rank_of_the_other_node_is_lost_and_comes_back_there(nodes: Any) -> None:
    two = nodes(UNTIL_OVER).meet()
    two.met(4, 1)
    two.right.kill(2)
    assert [(seat["slot"], seat["voice"]) for seat in two.met(3, 2)] == [(0, 0), (1, 1), (3, 2)]
    assert [(seat["slot"], seat["voice"]) for seat in two.met(4, 3)] == [(0, 0), (1, 1), (3, 2), (2, 3)]
    two.finish()
    two.right.kill(3)  # who comes back, or goes, calls the others from where they wait
    assert (two.left.wait(), two.right.wait()) == (0, 0), two.log()


def test_the_other_node_is_lost_and_those_of_the_first_go_on(nodes: Any) -> None:
    two = nodes(UNTIL_OVER).meet()
    two.met(4, 1)
    two.finish()
    two.lose(two.right)
    assert two.left.wait() == 0, two.log()
    assert [(seat["slot"], seat["same"]) for seat in two.seats(2)] == [(0, True), (1, True)]
    assert two.left.codes() == {0: (0, True), 1: (0, True)}


def test_a_node_that_is_frozen_is_left_behind_and_ends_its_ranks_when_it_wakes(nodes: Any) -> None:
    two = nodes(UNTIL_OVER).meet()
    two.met(4, 1)
    two.finish()
    tree = [psutil.Process(two.right.process.pid), *psutil.Process(two.right.process.pid).children(recursive=True)]
    for process in tree:
        process.suspend()
    assert two.left.wait() == 0, two.log()
    assert len(two.seats(2)) == 2
    for process in tree:
        process.resume()
    assert two.right.wait() == EXIT_PEER_LOST, two.log()
    assert two.right.codes() == {2: (EXIT_PEER_LOST, True), 3: (EXIT_PEER_LOST, True)}


def test_the_only_rank_of_the_first_node_comes_back_first_and_takes_the_copy_of_another(nodes: Any) -> None:
    two = nodes(UNTIL_OVER, left=1, right=2).meet()
    two.met(3, 1)
    two.left.kill(0)
    found = two.met(3, 2)
    assert [(seat["slot"], seat["returned"]) for seat in found] == [(0, True), (1, False), (2, False)]
    assert [seat["source"] for seat in found] == [1, 1, 1]
    assert not any(seat["same"] for seat in found)
    two.finish()
    two.lose(two.right)
    assert two.left.wait() == 0, two.log()


@pytest.mark.parametrize(("copies", "source"), [("{1: None}.get(slot, 5)", 2), ("None", 0)])
def test_nobody_goes_on_from_a_rank_that_lost_the_others_before_it_had_their_copy(
    nodes: Any, copies: str, source: int
) -> None:
    two = nodes(UNTIL_OVER.replace("sit(5)", f"sit({copies})"), left=1, right=2).meet()
    two.met(3, 1)
    two.left.kill(0)
    found = two.met(3, 2)
    assert [seat["slot"] for seat in found] == [0, 1, 2]
    assert [(seat["source"], seat["same"]) for seat in found] == [(source, False)] * 3
    two.finish()
    two.lose(two.right)
    assert two.left.wait() == 0, two.log()


def test_without_the_first_node_the_newest_copy_is_saved_and_all_end_and_are_not_to_blame(nodes: Any) -> None:
    two = nodes(UNTIL_OVER.replace("sit(5)", "sit(4 + slot)")).meet()
    two.met(4, 1)
    two.lose(two.left)
    assert two.right.wait() == EXIT_PEER_LOST, two.log()
    assert two.right.codes() == {2: (EXIT_PEER_LOST, True), 3: (EXIT_PEER_LOST, True)}
    assert two.saved() == ["saved-3"]


def test_a_rank_without_a_copy_and_one_that_never_stands_still_do_not_keep_the_others_from_saving(nodes: Any) -> None:
    body = """
told(seat)
if slot == 2: time.sleep(600)
hear("cut")
sit({3: 5, 4: None}.get(slot, 0))
"""
    two = nodes(body, right=3).meet()
    two.met(5, 1)
    two.lose(two.left)
    assert two.right.wait() == EXIT_PEER_LOST, two.log()
    assert two.saved() == ["saved-3"]
    assert two.right.codes()[3] == (EXIT_PEER_LOST, True)


def test_without_any_copy_all_end_at_once(nodes: Any) -> None:
    two = nodes("told(seat)\nhear('cut')\nsit(None)").meet()
    two.met(4, 1)
    two.lose(two.left)
    assert two.right.wait() == EXIT_PEER_LOST, two.log()
    assert two.saved() == []


def test_a_node_that_is_asked_to_saves_and_ends_and_the_first_goes_on_if_it_is_there_after_all(nodes: Any) -> None:
    two = nodes(UNTIL_OVER).meet()
    two.met(4, 1)
    two.finish()
    (two.right.work / "requests" / "rescue").touch()
    assert two.right.wait() == EXIT_PEER_LOST, two.log()
    assert two.left.wait() == 0, two.log()
    assert len(two.saved()) == 1
    assert [seat["slot"] for seat in two.seats(2)] == [0, 1]


def test_with_too_few_left_all_end_and_nobody_saves(nodes: Any) -> None:
    two = nodes(UNTIL_OVER, least=3).meet()
    two.met(4, 1)
    two.lose(two.right)
    assert two.left.wait() == EXIT_PEER_LOST, two.log()
    assert two.seats(2) == []
    assert two.saved() == []


def test_a_fault_of_the_program_on_the_other_node_is_told_there_and_ends_all(nodes: Any) -> None:
    two = nodes("if slot == 3: sys.exit(65)\nhear('over')").meet()
    assert (two.left.wait(), two.right.wait()) == (EXIT_PEER_LOST, 65), two.log()
    assert two.right.codes()[3] == (65, True)
    assert two.left.codes() == {0: (EXIT_PEER_LOST, True), 1: (EXIT_PEER_LOST, True)}
    assert two.saved() == []


def test_a_node_whose_rank_cannot_live_is_let_go_and_the_first_goes_on(nodes: Any) -> None:
    body = """
if slot == 1: die()
cuts = 0
while cuts <= RETURNS_MAX:
    cuts += "cut" in hear("cut", "call")
    sit()
while not end(): pass
""".replace("RETURNS_MAX", str(RETURNS_MAX))
    two = nodes(body, left=1, right=1).meet()
    assert two.right.wait() == 128 + 9, two.log()
    assert two.right.codes() == {1: (-9, True)}
    assert two.left.wait() == 0, two.log()


def test_a_pause_ends_all_and_each_node_tells_it_of_its_own(nodes: Any) -> None:
    two = nodes("sys.exit(75)").meet()
    assert (two.left.wait(), two.right.wait()) == (EXIT_PAUSED, EXIT_PAUSED), two.log()
    assert two.right.codes() == {2: (EXIT_PAUSED, True), 3: (EXIT_PAUSED, True)}


def test_a_cancelled_node_ends_its_ranks_and_the_first_goes_on(nodes: Any) -> None:
    two = nodes(UNTIL_OVER).meet()
    two.met(4, 1)
    two.finish()
    (two.right.work / "requests" / "cancel").touch()
    two.right.wait()
    assert two.left.wait() == 0, two.log()
    assert len(two.seats(2)) == 2


def test_who_does_not_know_the_word_is_shown_the_door(nodes: Any) -> None:
    two = nodes("told(seat)\nassert end()")
    guests = [socket.create_connection(("127.0.0.1", two.port)) for _ in range(4)]
    half = {"remote": "right", "word": "\ud800"}
    hellos = ({"remote": "right", "word": "guess"}, {"remote": "right"}, half, {"remote": "other", "word": WORD})
    for guest, hello in zip(guests, hellos, strict=True):
        guest.sendall(json.dumps(hello).encode() + b"\n")
    two.meet()
    for guest in guests:
        with guest:
            assert guest.recv(100) == b""
    assert (two.left.wait(), two.right.wait()) == (0, 0), two.log()
