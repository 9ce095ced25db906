"""Checkpoints under faults: killed while writing, cut anywhere, any bit flipped, a disk that is really full."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.small_disk import fill
from worker.runtime.checkpoint import CheckpointStore, CorruptCheckpoint
from worker.runtime.failures import describe

KILLS = 12
NUMBERS = 50_000


def state(step: int) -> dict:
    """A state of 200 kB that tells its step in every number."""
    return {"weight": torch.full((NUMBERS,), float(step)), "step": step}


def store_of(folder: Path) -> CheckpointStore:
    return CheckpointStore(folder, keep=2, larger_is_better=True)


def write_for_ever(store: CheckpointStore, first: int, acknowledge: int) -> None:
    """The child: save, then say so; purge like a run does."""
    step = first
    while True:
        store.save(state(step), step=step, epoch=step / 10, metric=None)
        os.write(acknowledge, b"%d\n" % step)
        store.purge()
        step += 1


def test_a_kill_in_the_middle_of_writing_leaves_the_last_good_one_and_no_half_one(tmp_path: Path) -> None:
    store, draw, newest = store_of(tmp_path / "checkpoints"), random.Random(4), 0
    notes: list[str] = []
    for _ in range(KILLS):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write_for_ever(store, newest + 1, writer)
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader, "rb", buffering=0) as told:
            began_s = time.monotonic()
            said = told.readline()  # one is written; the next is being written
            time.sleep(draw.uniform(0.0, 1.2) * (time.monotonic() - began_s))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            said += told.read()
        acknowledged = max(int(line) for line in said.split())
        found = store.newest_good(notes.append)
        here = int(found[1]["step"]) if found else 0
        assert here >= acknowledged, "one that was acknowledged is gone"
        assert all(store.load(saved.name)["step"] == saved.step for saved in store.saved()), "a half one"
        newest = here
    assert newest >= KILLS, "hardly anything was ever written"
    assert notes == []


@pytest.fixture(scope="module")
def two() -> Path:
    """A folder with two checkpoints; copied by each test before it damages the newer one."""
    folder = Path(tempfile.mkdtemp(prefix="dlh-checkpoints-"))
    store = store_of(folder / "checkpoints")
    for step in (1, 2):
        store.save({"weight": torch.full((500,), float(step)), "step": step}, step=step, epoch=step, metric=None)
    yield folder
    shutil.rmtree(folder)


def older_is_used(two: Path, damage: bytes) -> None:
    with tempfile.TemporaryDirectory() as copy:
        store = store_of(Path(copy) / "checkpoints")
        shutil.copytree(two / "checkpoints", store.folder)
        (store.folder / "step-00000002" / "state.pt").write_bytes(damage)
        with pytest.raises(CorruptCheckpoint, match=r"step-00000002/state\.pt"):
            store.load("step-00000002")
        notes: list[str] = []
        found = store.newest_good(notes.append)
        assert found is not None and found[0] == "step-00000001" and found[1]["step"] == 1
        assert len(notes) == 1 and "step-00000002" in notes[0]


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=25, deadline=None)
def test_one_flipped_bit_anywhere_is_refused_and_the_older_one_is_used(two: Path, place: float, bit: int) -> None:
    body = bytearray((two / "checkpoints" / "step-00000002" / "state.pt").read_bytes())
    body[int(place * len(body))] ^= 1 << bit
    older_is_used(two, bytes(body))


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_in_a_manifest_stops_no_run_and_makes_no_checkpoint_another_one(
    two: Path, place: float, bit: int
) -> None:
    with tempfile.TemporaryDirectory() as copy:
        store = store_of(Path(copy) / "checkpoints")
        shutil.copytree(two / "checkpoints", store.folder)
        manifest = store.folder / "step-00000002" / "MANIFEST.json"
        body = bytearray(manifest.read_bytes())
        body[int(place * len(body))] ^= 1 << bit
        manifest.write_bytes(body)
        notes: list[str] = []
        found = store.newest_good(notes.append)
        assert found is not None and found[0] == f"step-{found[1]['step']:08d}"
        assert (found[0] == "step-00000001") == bool(notes)
        assert [saved.step for saved in store.saved()] == list(range(1, found[1]["step"] + 1))
        assert store.best() is None or store.best().metric is not None
        store.purge()


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=12, deadline=None)
def test_a_file_cut_anywhere_is_refused_and_the_older_one_is_used(two: Path, share: float) -> None:
    body = (two / "checkpoints" / "step-00000002" / "state.pt").read_bytes()
    older_is_used(two, body[: int(share * len(body))])


def test_a_damaged_one_pushes_no_good_one_out_and_is_replaced_when_its_step_comes_again(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1, larger_is_better=True)
    store.save(state(10), step=10, epoch=1.0, metric=0.1)
    store.save(state(20), step=20, epoch=2.0, metric=0.9)
    damaged = tmp_path / "step-00000020" / "state.pt"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    again = CheckpointStore(tmp_path, keep=1, larger_is_better=True)
    found = again.newest_good(lambda message: None)
    assert found is not None and found[0] == "step-00000010"
    again.save(state(15), step=15, epoch=1.5, metric=0.5)
    assert again.purge() == ["step-00000010"], "the one that was just made was removed"
    best = again.best()
    assert best is not None and best.step == 15
    again.save(state(20), step=20, epoch=2.0, metric=0.9)
    assert [saved.step for saved in again.saved()] == [15, 20]
    assert again.load("step-00000020")["step"] == 20


def test_a_disk_that_is_really_full_keeps_the_last_good_one_and_takes_the_next_when_there_is_room(disk: Path) -> None:
    store = store_of(disk / "checkpoints")
    store.save(state(1), step=1, epoch=0.1, metric=None)
    filler = fill(disk)
    with pytest.raises(OSError) as caught:
        store.save(state(2), step=2, epoch=0.2, metric=None)
    assert caught.value.errno == errno.ENOSPC
    assert [path.parent.name for path in store.folder.rglob("state.pt")] == ["step-00000001"]
    assert store.load("step-00000001")["step"] == 1
    filler.unlink()
    store.save(state(3), step=3, epoch=0.3, metric=None)
    assert [saved.step for saved in store.saved()] == [1, 3]


def failing(monkeypatch: pytest.MonkeyPatch, end: str, code: int) -> None:
    """From now on whoever opens, or lists, a path of that end is told of a fault of its disk."""
    opened, listed, scanned = io.open, os.listdir, os.scandir

    def failed(path: str | Path | int) -> None:
        if str(path).endswith(end):
            raise OSError(code, os.strerror(code), str(path))

    def open_(path: str | Path | int, *args: Any, **more: Any) -> Any:
        failed(path)
        return opened(path, *args, **more)

    def listdir(path: str | Path) -> list[str]:
        failed(path)
        return listed(path)

    def scandir(path: str | Path) -> Any:
        failed(path)
        return scanned(path)

    monkeypatch.setattr(io, "open", open_)
    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(os, "scandir", scandir)


def test_what_is_to_be_put_aside_is_found_though_an_older_one_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path)
    for step in (1, 2, 3):
        store.save(state(step), step=step, epoch=0.1, metric=None)
    failing(monkeypatch, "step-00000001/MANIFEST.json", errno.EIO)
    assert store.later(1) == ["step-00000002", "step-00000003"]
    assert store.later(2) == ["step-00000003"]


def test_what_lies_on_a_bad_block_is_put_aside_as_well_and_keeps_no_older_one_from_being_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path)
    for step in (1, 2, 3):
        store.save(state(step), step=step, epoch=0.1, metric=None)
    failing(monkeypatch, "step-00000003/MANIFEST.json", errno.EIO)
    assert store.later(1) == ["step-00000002", "step-00000003"]
    store.leave_behind(store.later(1))
    assert [saved.step for saved in store.saved()] == [1]


def test_one_on_a_bad_block_keeps_others_neither_from_being_removed_nor_from_being_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path)
    for step, metric in ((1, 0.9), (2, 0.8), (3, 0.1), (4, 0.2), (5, 0.3)):
        store.save(state(step), step=step, epoch=0.1, metric=metric)
    with monkeypatch.context() as patch:
        failing(patch, "step-00000001/MANIFEST.json", errno.EIO)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            store.best()
        unread: list[str] = []
        best = store.best(unread)
        assert best is not None and (best.step, unread) == (2, ["step-00000001"])
        assert store.purge() == ["step-00000003"]
    assert [saved.step for saved in store.saved()] == [1, 2, 4, 5], "what cannot be read is nobody's to remove"
    failing(monkeypatch, "MANIFEST.json", errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        store.best([])


@pytest.mark.parametrize("end", ["step-00000002/MANIFEST.json", "step-00000002/state.pt"])
def test_one_file_that_its_disk_cannot_read_is_passed_over_for_an_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    store = store_of(tmp_path)
    older, newest = (store.save(state(step), step=step, epoch=0.1, metric=None).name for step in (1, 2))
    notes: list[str] = []
    with monkeypatch.context() as patch:
        failing(patch, end, errno.EIO)
        with pytest.raises(CorruptCheckpoint, match="Input/output error, and another one can be read"):
            store.load(newest)
        found = store.newest_good(notes.append)
    assert found is not None and found[0] == older and newest in notes[0]
    with monkeypatch.context() as patch:
        failing(patch, end, errno.ESTALE)
        with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
            store.newest_good(notes.append)


@pytest.mark.parametrize("end", ["MANIFEST.json", "state.pt", "checkpoints"])
@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
def test_a_disk_that_fails_makes_no_checkpoint_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, end: str
) -> None:
    store = store_of(tmp_path / "checkpoints")
    name = store.save(state(1), step=1, epoch=0.1, metric=0.5).name
    notes: list[str] = []
    with monkeypatch.context() as patch:
        failing(patch, end, code)
        with pytest.raises(OSError, match=os.strerror(code)) as caught:
            store.newest_good(notes.append)
        if end != "checkpoints":
            with pytest.raises(OSError, match=os.strerror(code)):
                store.load(name)
        assert store.purge() == []
    assert describe(caught.value, tmp_path, lambda: None)["code"] == "disk_fault"
    assert notes == [] and store.newest_good(notes.append) is not None
    best = store.best()
    assert best is not None and best.name == name, "it was taken for damaged"


def test_one_that_gave_way_returns_though_the_disk_let_neither_it_nor_its_successor_into_place_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, rename, notes = store_of(tmp_path), Path.rename, list[str]()
    store.save(state(1), step=1, epoch=0.1, metric=None)

    def refuses(path: Path, target: Path) -> Path:
        if target.parent == tmp_path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuses)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            store.save(state(1), step=1, epoch=0.1, metric=None)
        assert store.newest_good(notes.append) is None
    assert store.save(state(2), step=2, epoch=0.2, metric=None).name
    assert [saved.step for saved in store.saved()] == [1, 2] and notes == []
    assert not list(store.desk.iterdir())
