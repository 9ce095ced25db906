"""How a node gives back what its runs make."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.vanishing import first_vanishes
from worker.plan import Limits, RankPlan, RunPaths, RunPlan
from worker.telemetry.tail import open_below
from worker.transfer.portal import Portal, PortalRefused
from worker.transfer.returning import LOOK_MOST_S, LOOK_S, Returner
from worker.transfer.tree import Tree


@pytest.fixture
def returner(tmp_path: Path) -> Returner:
    """Of a run whose portal is asked for nothing."""
    rank = RankPlan(rank=0, node="n", local_rank=0, device="cpu", threads=1)
    plan = RunPlan(
        job_id="job1", token=1, mode="single", ranks=(rank,),
        job_dir=str(tmp_path), dataset_dir=str(tmp_path), limits=Limits(memory_bytes=1, disk_bytes=1),
        minimum_sandbox_level=0, own_code=False,
    )  # fmt: skip
    return Returner(cast(Portal, None), plan, RunPaths(tmp_path), (0,), first=True)


def test_what_the_portal_refuses_is_sent_again_ever_more_seldom(
    returner: Returner, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    outcomes: list[Any] = [PortalRefused(400, "bad", "no", None)] * 8 + [None] * 2

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == len(outcomes)

    def one_round(_ending: bool) -> None:
        if (problem := outcomes[len(waits) - 1]) is not None:
            raise problem

    monkeypatch.setattr(returner, "_ending", SimpleNamespace(wait=wait))
    monkeypatch.setattr(returner, "_round", one_round)
    returner._run()
    assert waits[:9] == [min(LOOK_MOST_S, LOOK_S * 2**number) for number in range(9)]
    assert waits[9] == LOOK_S, "it works again"
    assert returner.problem() == ""


def test_a_checkpoint_that_cannot_be_read_now_waits_for_the_next_round(
    returner: Returner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    folder = returner._paths.checkpoints / "step-00000001"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("x")
    returner.offer([{"name": "step-00000001"}, {"name": "step-00000002"}])
    sent: list[str] = []
    monkeypatch.setattr(returner._sending, "tree", lambda _kind, name, *_: bool(sent.append(name)))
    with monkeypatch.context() as broken:
        broken.setattr("worker.transfer.tree.open_below", full)
        with pytest.raises(OSError, match="Too many open files"):
            returner._round(False)
    returner._round(False)
    assert sent == ["step-00000001"], "the other one was purged before its turn"


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that cannot be opened: EACCES, without root."""
    names: set[str] = set()
    monkeypatch.setattr(
        "worker.transfer.tree.open_below",
        lambda root, file: None if file.name in names else open_below(root, file),
    )
    return names


@pytest.fixture
def sent(returner: Returner, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Names of the files of each tree that was sent."""
    names: list[list[str]] = []

    def tree(_kind: str, _name: str, _folder: Path, tree: Tree, _removed: list[str]) -> bool:
        names.append([file.name for file in tree.files])
        return True

    monkeypatch.setattr(returner._sending, "tree", tree)
    return names


def results_write(returner: Returner, *names: str) -> None:
    returner._paths.results.mkdir(parents=True)
    for name in names:
        (returner._paths.results / name).write_text(name)


def notes(returner: Returner) -> list[str]:
    found: list[str] = []
    while not returner.notes.empty():
        found.append(returner.notes.get()["message"])
    return found


def test_a_file_of_the_results_that_a_program_closed_keeps_no_other_from_the_store(
    returner: Returner, closed: set[str], sent: list[list[str]]
) -> None:
    results_write(returner, "closed.bin", "model.safetensors", "results.json")
    closed.add("closed.bin")
    returner._round(True)
    assert sent == [["model.safetensors", "results.json"]]
    (note,) = notes(returner)
    assert "stays on the node, until it needs the room: closed.bin. " in note and "model" not in note


def test_a_file_of_the_results_that_is_open_again_is_sent_and_no_word_is_said_of_it(
    returner: Returner, closed: set[str], sent: list[list[str]]
) -> None:
    results_write(returner, "closed.bin", "results.json")
    closed.add("closed.bin")
    returner._round(False)
    closed.clear()  # chmod changes neither size nor time
    returner._round(True)
    assert sent == [["results.json"], ["closed.bin"]] and not notes(returner)


def test_many_files_that_a_program_closed_keep_no_other_from_their_turn(
    returner: Returner, closed: set[str], sent: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.transfer.returning.FILES_MAX", 2)
    names = [f"closed-{number}.bin" for number in range(5)]
    results_write(returner, *names, "model.safetensors", "results.json")
    closed.update(names)
    returner._round(True)
    assert [name for tree in sent for name in tree] == ["model.safetensors", "results.json"]
    (note,) = notes(returner)
    assert "closed-0.bin, closed-1.bin, closed-2.bin and 2 files more" in note


def test_results_whose_folder_a_program_closed_are_named(
    returner: Returner, sent: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results_write(returner, "results.json")
    with monkeypatch.context() as closed:  # as for an agent that is not root
        closed.setattr("worker.transfer.returning.os.scandir", scandir_failing(errno.EACCES))
        returner._round(True)
    (note,) = notes(returner)
    assert note.startswith("The folder of the results cannot be opened") and not sent
    returner._round(True)
    assert sent == [["results.json"]] and not notes(returner)


def test_results_that_a_disk_does_not_give_now_do_not_count_as_returned(
    returner: Returner, sent: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results_write(returner, "results.json")
    monkeypatch.setattr("worker.transfer.returning.os.scandir", scandir_failing(errno.EIO))
    returner._ending.set()
    returner._run()
    assert not sent and "Input/output error" in returner.problem()


def test_a_checkpoint_does_not_wait_for_results_that_a_disk_does_not_give_now(
    returner: Returner, sent: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = returner._paths.checkpoints / "step-00000001"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("x")
    returner.offer([{"name": "step-00000001"}])
    returner._waiting.append(returner._told.get())
    monkeypatch.setattr("worker.transfer.returning.os.scandir", scandir_failing(errno.EIO))
    returner._checkpoint(returner._waiting[0])
    assert sent == [["weights"]]


def test_a_file_that_vanishes_while_it_is_looked_at_keeps_no_other_from_the_store(
    returner: Returner, sent: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results_write(returner, "gone.tmp", "results.json")
    first_vanishes(returner._paths.results, monkeypatch)
    returner._round(True)
    assert sent == [["results.json"]]


def scandir_failing(number: int) -> Any:
    """Where the folder of the results gives this error."""
    scanned = os.scandir

    def scandir(folder: Path | str) -> Any:
        if Path(folder).name == "results":
            raise OSError(number, os.strerror(number))
        return scanned(folder)

    return scandir


def test_a_log_on_a_bad_block_keeps_no_checkpoint_from_the_store(returner: Returner, sent: list[list[str]]) -> None:
    class Bad(io.BytesIO):
        """Opens, and cannot be read."""

        def read(self, *_: object) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    folder = returner._paths.checkpoints / "step-00000001"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("x")
    returner.offer([{"name": "step-00000001"}])
    returner._logs[0] = cast(Path, SimpleNamespace(open=lambda _mode: Bad()))
    returner._round(False)
    assert ["weights"] in sent and notes(returner) == []
    returner._round(True)
    assert "cannot read the rest of the log of rank 0: Input/output error" in notes(returner)[0]
